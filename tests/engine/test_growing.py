"""Clients that join between rounds: the run goes on as if they had been there, without samples, from the start."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fielding._typing import ClientId, Json
from fielding.engine.round import welcome
from fielding.errors import CheckpointError, InputError
from fielding.federation.models import mean_by_members
from fielding.methods import METHODS
from fielding.records.logs import Logs
from fielding.records.run_folder import CLIENTS, EVENTS, MEMBERSHIPS, REPORTS, ROUNDS
from fielding.reporting.report_page import report_page
from tests.engine.growing import JOINS, N_CLIENTS, START, GrowingRun, late_config
from tests.engine.stages import noting_federation
from tests.rotation import some_of
from tests.simulation.run_cases import N_ROUNDS, Crash, Table, crashed_after, left_behind, stopped_after

FROM_THE_START = (START,) * N_CLIENTS
GROWING = ("always", "clustered-sgd", "fielding", "flash", "global", "moves", "selected", "static")
ASKING: dict[str, dict[str, Json]] = {
    "cfl": {"eps1": 1.0, "eps2": 0.0, "gamma_max": 0.0, "start_after": 1},
    "flexcfl": {"k": 2, "pretrain_steps": 2},
    "ifca": {"k": 2},
}
"""Methods that grow and ask clients more than to train, with their options."""
CASES: dict[str, dict[str, Json]] = {
    **{name: {"method": {"name": name}} for name in GROWING},
    **{name: {"method": {"name": name, **options}} for name, options in ASKING.items()},
    "guarded": {"method": {"name": "fielding", "guard": True, "reuse": 2}},
    "with-training": {"coordinator": {"reports": "with-training"}},
    **{name: {"selection": {"name": name}} for name in ("nearest", "oort", "pyramidfl")},
    "oort without clusters": {"selection": {"name": "oort"}, "method": {"name": "global"}},
}


def done(path: Path, config: Table, joins: Sequence[int] = JOINS) -> GrowingRun:
    run = GrowingRun(path, config, joins)
    assert run.run() is not None
    return run


def lines_of(run: GrowingRun, name: str) -> list[dict[str, Json]]:
    return list(Logs(run.path, (name,)).lines(name))


def changes_in(run: GrowingRun) -> dict[Json, Json]:
    return {line["round"]: line["changed"] for line in lines_of(run, MEMBERSHIPS)}


def clusters_of_old(run: GrowingRun) -> list[tuple[Json, Json]]:
    """Return which of the clients of the start was given which cluster in which round."""
    found: list[tuple[Json, Json]] = []
    for at, changed in changes_in(run).items():
        assert isinstance(changed, list)
        found += [(at, pair) for pair in changed if isinstance(pair, list) and pair[0] not in ("client-6", "client-7")]
    return found


def files_by_client(path: Path) -> dict[str, bytes]:
    """Return what a run wrote down, but for memberships: these name clients that joined later."""
    files = [path / ROUNDS, path / EVENTS, path / CLIENTS, path / "summary.json", *sorted((path / REPORTS).iterdir())]
    return {file.name: file.read_bytes() for file in files}


def test_the_joiner_is_named_has_no_cluster_until_it_reports_and_trains_from_then_on(tmp_path: Path) -> None:
    run = done(tmp_path, late_config())

    kinds: Json = [[f"client-{at}", at % 2] for at in range(6)]
    assert changes_in(run) == {
        0: kinds,
        2: [["client-6", 0]],
        3: [["client-7", -1]],
        4: [["client-7", 1]],
        6: [["client-1", 0]],
    }
    joined = {line["round"]: line["joined"] for line in lines_of(run, EVENTS) if line["joined"]}
    assert joined == {0: [f"client-{at}" for at in range(6)], 2: ["client-6"], 4: ["client-7"]}
    trained = {client: [at for at, who in run.clients.trained.items() if client in who] for client in (6, 7)}
    assert trained[6][0] == 2
    assert trained[7][0] == 5
    assert (run.clients.ledger.client_bytes_up("model")[6:] > 0).all()
    assert all(row["n_moved"] == (row["round"] == 6) for row in lines_of(run, ROUNDS))


def test_a_joiner_without_a_cluster_is_served_by_the_mean_of_all_models(tmp_path: Path) -> None:
    run = GrowingRun(tmp_path, late_config())
    run.run(stopped_after(4))

    membership = run.method.membership()
    assert membership.tolist() == [0, 1, 0, 1, 0, 1, 0, -1]
    assert run.clients.served is not None
    models, row = run.clients.served
    assert row.tolist() == [0, 1, 0, 1, 0, 1, 0, 2]
    assert models[2].tolist() == mean_by_members(run.method.models, membership).tolist()


@pytest.mark.parametrize("case", some_of(CASES, 5, always=["fielding"]))
def test_whoever_joins_changes_no_more_than_one_who_was_there_without_samples(tmp_path: Path, case: str) -> None:
    config = late_config(**CASES[case])
    grown, whole = done(tmp_path / "grown", config), done(tmp_path / "whole", config, FROM_THE_START)

    assert files_by_client(grown.path) == files_by_client(whole.path)
    assert grown.method.membership().tolist() == whole.method.membership().tolist()
    assert grown.method.models.tobytes() == whole.method.models.tobytes()
    assert grown.clients.client_ids == whole.clients.client_ids
    assert clusters_of_old(grown) == clusters_of_old(whole)
    assert {6, 7} <= {client for clients in grown.clients.trained.values() for client in clients}


@pytest.mark.parametrize("case", some_of(CASES, 5, always=["fielding"]))
def test_a_run_that_is_stopped_wherever_somebody_joins_leaves_the_same_bytes(tmp_path: Path, case: str) -> None:
    config = late_config(**CASES[case])
    whole = done(tmp_path / "whole", config)
    for n_rounds in (1, 2, 3, 4, 5, 8):
        run = GrowingRun(tmp_path / "cut", config)
        assert len(run.clients.client_ids) == 6, "who joined is known again only from the checkpoint on"
        assert run.run(stopped_after(n_rounds)) is None

    cut = done(tmp_path / "cut", config)

    assert left_behind(cut.path) == left_behind(whole.path)


@pytest.mark.parametrize("n_rounds", [3, 4, 5])
def test_a_crash_in_the_round_in_which_somebody_joins_costs_that_round_alone(tmp_path: Path, n_rounds: int) -> None:
    whole = done(tmp_path / "whole", late_config())
    with pytest.raises(Crash):
        GrowingRun(tmp_path / "cut", late_config()).run(crashed_after(n_rounds))

    cut = done(tmp_path / "cut", late_config())

    assert left_behind(cut.path) == left_behind(whole.path)


@pytest.mark.parametrize("case", ["fielding", "global", "oort", "nearest", "selected"])
def test_a_run_may_begin_with_nobody(tmp_path: Path, case: str) -> None:
    config = late_config(**CASES[case])
    grown = done(tmp_path / "grown", config, (0,) * 6 + JOINS[6:])
    whole = done(tmp_path / "whole", config)

    assert left_behind(grown.path) == left_behind(whole.path)


def test_who_is_alone_begins_with_the_first_model_when_it_joins(tmp_path: Path) -> None:
    run = done(tmp_path, late_config(method={"name": "local"}))

    assert run.method.membership().tolist() == list(range(N_CLIENTS))
    assert run.method.models.shape[0] == N_CLIENTS
    assert {6, 7} <= {client for clients in run.clients.trained.values() for client in clients}


@pytest.mark.parametrize("name", sorted(METHODS.keys() - {*GROWING, *ASKING, "local"}))
def test_a_method_that_cannot_grow_is_refused_when_somebody_joins(tmp_path: Path, name: str) -> None:
    run = GrowingRun(tmp_path, late_config(method={"name": name}))

    with pytest.raises(InputError) as caught:
        run.run()

    assert str(caught.value) == (
        f"clients joined during the run ('client-6', 1 in all), but the method {type(run.method).__name__} cannot take "
        "them in; choose one that can, such as fielding or global"
    )
    assert [row["round"] for row in lines_of(run, ROUNDS)] == [0, 1], "it ran as long as nobody joined"


@pytest.mark.parametrize("now", [("ann",), ("bob", "ann"), ("ann", "eve", "bob"), ()])
def test_clients_that_go_or_change_their_places_are_refused(now: tuple[ClientId, ...]) -> None:
    with pytest.raises(InputError, match=rf"2 clients are {len(now)} others now; keep all in their order"):
        welcome(noting_federation([]), ("ann", "bob"), now)


def test_clients_that_a_checkpoint_does_not_have_are_refused(tmp_path: Path) -> None:
    GrowingRun(tmp_path, late_config()).run(stopped_after(2))

    with pytest.raises(CheckpointError, match="has 6 clients, and the 8 that the run begins with are not the first"):
        GrowingRun(tmp_path, late_config(), FROM_THE_START).run()


def test_a_driver_that_forgot_who_joined_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    GrowingRun(tmp_path, late_config()).run(stopped_after(4))
    forgetful = GrowingRun(tmp_path, late_config())
    monkeypatch.setattr(forgetful.clients, "return_to", forgetful.clients.inner.return_to)

    with pytest.raises(CheckpointError, match="clients came back as others than the checkpoint has"):
        forgetful.run()


def test_a_page_can_be_made_of_a_run_that_grew(tmp_path: Path) -> None:
    run = done(tmp_path, late_config())

    page = report_page([run.path])

    assert "client-7" in page
    assert len(lines_of(run, ROUNDS)) == N_ROUNDS


def test_joiners_are_tested_as_soon_as_they_have_samples(tmp_path: Path) -> None:
    tested = {line["round"]: set(strings(line["client"])) for line in lines_of(done(tmp_path, late_config()), CLIENTS)}

    late = {"client-6", "client-7"}
    assert {at: clients & late for at, clients in tested.items()} == {0: set(), 3: {"client-6"}, 7: late, 11: late}


def strings(found: Json) -> list[str]:
    assert isinstance(found, list)
    return [str(one) for one in found]
