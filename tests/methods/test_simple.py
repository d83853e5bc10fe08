"""The simple comparisons of the paper: each is Fielding, or one model, with one thing changed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding import run
from fielding._typing import Codes, Json, Membership
from fielding.client.report import ReportBatch
from fielding.conformance.method_checks import EMPTY, GONE, LATE, WAKING, stage_for
from fielding.engine.round import run_round
from fielding.errors import OptionError
from fielding.federation.ledger import Ledger
from fielding.methods import METHODS, Method, method_named
from fielding.methods.fielding import Fielding
from fielding.methods.local import MOST_NUMBERS
from fielding.methods.method import Adapts, MethodSetting
from fielding.methods.variants import SelectedReports, add_newcomers
from fielding.records.run_checkpoint import LEDGER
from fielding.simulation.assembly import Own, initial_model
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import Result
from fielding.traces.trace import Trace
from tests.methods.settings import federation_of, setting_of
from tests.simulation.run_cases import small_pool, table
from tests.simulation.small import small_clients

CATS, DOGS = [0.9, 0.1, 0.0], [0.0, 0.1, 0.9]
NOTHING = [0.0, 0.0, 0.0]


def started(name: str, *, n_known: int = 6) -> tuple[Method, SimulatedClients]:
    """Return a method whose even clients have cats and whose odd ones have dogs, as far as they reported."""
    clients = small_clients()
    clients.begin(0)
    method = method_named(METHODS[name], setting_of(clients), {})
    hear(
        method, clients, {client: nearly(CATS if client % 2 == 0 else DOGS, 0.01 * client) for client in range(n_known)}
    )
    return method, clients


def nearly(shares: list[float], off: float) -> list[float]:
    """Return nearly the same shares."""
    mixed = (1.0 - off) * np.array(shares) + off / 3.0
    return mixed.tolist()


def hear(method: Method, clients: SimulatedClients, reports: dict[int, list[float]]) -> None:
    assert isinstance(method, Adapts)
    batch = ReportBatch(client_ids=list(reports), representations=np.array(list(reports.values())))
    method.adapt(batch, clients)


def simple_run(name: str, **sections: Json) -> Result:
    method = sections.pop("method", {})
    assert isinstance(method, dict)
    config = table(**sections, method={"name": name, **method})
    return run(config, own=Own(samples=small_pool()))


def same_course(first: Result, second: Result) -> bool:
    """Return whether two runs did the same round by round, and ended with the same models."""
    return first.rounds == second.rounds and np.array_equal(first.checkpoint.models, second.checkpoint.models)


# ---- static, moves, always -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "follows"), [("static", False), ("moves", True), ("fielding", True)])
def test_a_drifted_client_changes_its_cluster_but_not_if_clusters_are_static(name: str, follows: bool) -> None:
    method, clients = started(name)
    assert method.membership().tolist() == [0, 1, 0, 1, 0, 1]

    hear(method, clients, {0: DOGS})

    assert method.membership().tolist() == [int(follows), 1, 0, 1, 0, 1]


def test_who_appears_after_the_start_joins_the_nearest_static_cluster_once() -> None:
    method, clients = started("static", n_known=4)
    assert method.membership().tolist() == [0, 1, 0, 1, -1, -1]

    hear(method, clients, {5: CATS, 4: NOTHING})
    hear(method, clients, {5: DOGS})
    assert method.membership().tolist() == [0, 1, 0, 1, -1, 0]

    hear(method, clients, {4: DOGS})
    assert method.membership().tolist() == [0, 1, 0, 1, 1, 0]


def test_static_clients_do_not_pay_for_reports_that_nobody_would_hear() -> None:
    static, fielding = simple_run("static"), simple_run("fielding")

    assert [row["n_reports"] for row in static.rounds] == [12] + [0] * 11
    assert sum(int(str(row["n_reports"])) for row in fielding.rounds) > 12


def sparse_trace() -> Trace:
    """Return clients with samples on few days: windows of two days empty and fill again, and some begin late."""
    has_data = np.random.default_rng(2).random((10, 14)) < 0.35
    has_data[0, 0] = True
    client, day = (np.repeat(at, 5) for at in np.nonzero(has_data))
    rng = np.random.default_rng(3)
    y = (client + (rng.random(client.size) < 0.3)) % 2
    x = (rng.standard_normal((client.size, 2)) + 2.0 * np.eye(2)[y]).astype(np.float32)
    return Trace(
        client_ids=tuple(f"client-{at}" for at in range(10)),
        client=client.astype(np.int32),
        time=86400.0 * day + 3600.0 * rng.random(client.size),
        y=y.astype(np.int32),
        classes=("a", "b"),
        x=x,
    )


def report_bytes(name: str, folder: Path) -> list[int]:
    """Return what the reports of each client took in a run over a sparse trace; some clients are away at first."""
    lines = [f"client-{client},{client % 3},1e9,1e9" for client in range(10)]
    (folder / "there.csv").write_text("\n".join(["client,start_s,stop_s,finish_s", *lines]) + "\n")
    config = table(method={"name": name}, clock={"availability": str(folder / "there.csv")})
    config["trace"] = {"interval": "1d", "gap": 1, "window": 2}
    result = run(config, own=Own(samples=sparse_trace()), page=False)
    arrays = result.checkpoint.arrays
    charged = Ledger.restored({at.removeprefix(LEDGER): arrays[at] for at in arrays if at.startswith(LEDGER)})
    return charged.client_bytes_up("report").tolist()


def test_static_clients_pay_for_one_report_also_where_they_fall_silent_and_return(tmp_path: Path) -> None:
    static, moves = report_bytes("static", tmp_path), report_bytes("moves", tmp_path)

    # A report is two numbers.
    assert set(static) <= {0, 8}
    assert sum(static) >= 8 * 8
    assert max(moves) > 8, "with another method clients do fall silent and return"


def test_moves_never_groups_anew_and_always_does_whenever_somebody_speaks() -> None:
    moves, always = simple_run("moves"), simple_run("always")

    assert not any(row["reclustered"] for row in moves.rounds)
    assert sum(int(str(row["n_moved"])) for row in moves.rounds) > 0
    spoke = [bool(row["n_reports"]) for row in always.rounds[1:]]
    assert [row["reclustered"] for row in always.rounds[1:]] == spoke
    assert any(spoke)


IDENTITIES: dict[str, dict[str, Json]] = {
    "moves": {"tau": "inf"},
    "always": {"trigger": "always"},
    "static": {"detector": "never"},
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_a_variant_is_fielding_with_one_setting_changed(name: str) -> None:
    variant = simple_run(name)
    fielding = simple_run("fielding", coordinator=IDENTITIES[name])

    assert same_course(variant, fielding)
    assert variant.checkpoint.models.shape[0] > 1


def test_at_every_movement_a_tau_of_zero_groups_anew() -> None:
    fielding = simple_run("fielding", coordinator={"tau": 0.0})

    assert same_course(fielding, simple_run("always"))


# ---- selected --------------------------------------------------------------------------------------------------


def known(method: Method) -> tuple[Membership, dict[int | str, tuple[float, ...]]]:
    assert isinstance(method, SelectedReports)
    registry = method.coordinator.registry
    rows = [tuple(row) for row in registry.representations.tolist()]
    return method.membership().copy(), dict(zip(registry.client_ids, rows, strict=True))


def test_drifted_clients_that_do_not_take_part_keep_their_record_and_their_cluster(tmp_path: Path) -> None:
    stage = stage_for("selected", {}, tmp_path).changed("training", participants=8)
    simulation = stage.simulation()
    method = simulation.method(initial_model(simulation, None))
    federation = federation_of(simulation.clients, method)
    run_round(federation, 0)
    n_heard = n_kept = 0
    for at in range(1, 8):
        membership, records = known(method)
        done = run_round(federation, at)
        after, new_records = known(method)

        assert set(done.reports.client_ids) <= set(done.updates.clients.tolist())
        others = [int(client) for client in records if client not in done.updates.clients]
        assert all(new_records[client] == records[client] for client in others)
        if done.decision is not None and not done.decision.reclustered:
            assert (after[others] == membership[others]).all()
        n_heard += len(done.reports.client_ids)
        n_kept += len(others)

    assert n_heard > 8
    assert n_kept > 8
    assert method.membership()[LATE] >= 0, "whoever was never heard of must be asked to train, or it never is"
    assert method.membership()[WAKING] >= 0
    assert method.membership()[[EMPTY, GONE]].tolist() == [-1, -1]


def test_newcomers_are_asked_in_the_largest_cluster_or_in_the_only_one() -> None:
    assert add_newcomers(np.array([0, 1, 1, -1], dtype=np.int32)).tolist() == [0, 1, 1, 1]
    assert add_newcomers(np.array([-1, -1], dtype=np.int32)).tolist() == [0, 0]
    assert add_newcomers(np.array([-1], dtype=np.int32)).dtype == np.int32


def test_selected_finds_its_clusters_although_nobody_could_be_reached_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "availability.csv"
    path.write_text("client,start_s,stop_s,finish_s\n" + "".join(f"{at},50,1e9,1e9\n" for at in range(12)))

    result = simple_run("selected", clock={"availability": str(path), "overcommit": 1.0})

    assert result.rounds[0]["n_asked"] == 0
    assert result.rounds[1]["n_reports"] == 12, "this is the start: all report, not only those who take part"
    assert (result.checkpoint.membership >= 0).all()


def test_selected_pays_for_fewer_reports_than_fielding() -> None:
    sections: dict[str, Json] = {"training": {"participants": 4}, "coordinator": {"k_max": 1}}
    fielding, selected = (simple_run(name, **sections) for name in ("fielding", "selected"))

    reports = [sum(int(str(row["n_reports"])) for row in one.rounds[1:]) for one in (fielding, selected)]
    assert 0 < reports[1] < reports[0]


# ---- local -----------------------------------------------------------------------------------------------------


def test_everybody_trains_alone_and_sends_nothing(tmp_path: Path) -> None:
    stage = stage_for("local", {}, tmp_path)
    simulation = stage.simulation()
    initial = initial_model(simulation, None)
    method = simulation.method(initial)
    federation = federation_of(simulation.clients, method)
    for at in range(4):
        before = method.models.copy()
        done = run_round(federation, at)
        assert done.plan.clients.size >= 10
        assert (done.plan.start == done.plan.clients).all()
        answered = np.isin(np.arange(16), done.updates.clients)
        assert (method.models[answered] != before[answered]).any(axis=1).all()
        assert (method.models[~answered] == before[~answered]).all()
        assert done.updates.missing["straggler"] == []

    totals = simulation.clients.ledger.totals()
    assert totals["bytes_up"] == totals["bytes_down"] == {"all": 0, "model": 0, "report": 0, "probe": 0}
    assert method.membership().tolist() == list(range(16))
    assert (method.models[[EMPTY, GONE]] == initial).all()


def test_a_client_alone_learns_what_it_would_learn_if_nobody_else_were_there() -> None:
    clients, lonely = small_clients(), small_clients()
    local = method_named(METHODS["local"], setting_of(clients), {})
    model = lonely.trainer.initial_model(1)
    for at in range(3):
        run_round(federation_of(clients, local), at)
        lonely.begin(at)
        plan = local.plan(lonely)
        only = np.array([4])
        alone = replace(
            plan,
            models=model[np.newaxis],
            clients=only,
            start=np.array([0]),
            groups=np.array([0]),
            wanted=np.array([1]),
            downloads=None,
            uploads=None,
        )
        model = lonely.train(alone).models[0]

    assert np.array_equal(local.models[4], model)


def test_more_models_than_fit_are_refused_before_they_are_made() -> None:
    setting = setting_of(small_clients())
    many = replace(setting, client_ids=range(MOST_NUMBERS // setting.initial.size + 1))

    with pytest.raises(OptionError, match="4 GB is the most; take fewer clients or a smaller model"):
        method_named(METHODS["local"], many, {})


# ---- oracle ----------------------------------------------------------------------------------------------------


def oracle_of(*concepts: list[int]) -> tuple[Method, SimulatedClients, MethodSetting]:
    """Return an oracle that is told these concepts, round by round."""
    told = [np.array(one, dtype=np.int32) for one in concepts]

    def truth(round_index: int) -> Codes:
        return told[round_index]

    clients = small_clients()
    setting = setting_of(clients, truth=truth)
    return method_named(METHODS["oracle"], setting, {}), clients, setting


def test_the_oracle_follows_the_concepts_and_new_ones_take_over_the_model_of_the_majority() -> None:
    oracle, clients, _ = oracle_of(
        [3, 3, 3, 5, 5, -1],  # two concepts, and a client that nobody knows
        [3, 7, 7, 7, 5, 5],  # most of concept 7 had been in 3
        [9, 9, 9, 9, 9, 9],
        [5, 3, 5, 5, 5, 5],
    )
    run_round(federation_of(clients, oracle), 0)
    assert oracle.membership().tolist() == [0, 0, 0, 1, 1, -1]
    three, five = oracle.models
    assert (three != five).any()

    clients.begin(1)
    plan = oracle.plan(clients)
    assert oracle.membership().tolist() == [0, 2, 2, 2, 1, 1]
    assert np.array_equal(plan.models, np.stack([three, five, three]))
    oracle.learn(clients.train(plan))
    seven = oracle.models[2]

    clients.begin(2)
    assert np.array_equal(oracle.plan(clients).models[3], seven), "most of 9 had been in 7"
    assert oracle.membership().tolist() == [3] * 6

    clients.begin(3)
    five = oracle.models[1]
    assert np.array_equal(oracle.plan(clients).models[1], five), "a concept that comes back finds its model again"
    assert oracle.membership().tolist() == [1, 0, 1, 1, 1, 1]


def test_the_oracle_agrees_with_the_truth() -> None:
    result = simple_run("oracle")

    assert set(result.column("ari")[1]) == {1.0}
    assert sum(int(str(row["n_moved"])) for row in result.rounds) > 0
    assert all(row["n_reports"] == 0 for row in result.rounds)


@pytest.mark.parametrize("truth", [None, lambda _round: None])
def test_the_oracle_says_what_to_do_where_nobody_knows_the_concepts(truth: None) -> None:
    setting = setting_of(small_clients(), truth=truth)

    with pytest.raises(OptionError, match=r"name a scenario in trace\.scenario, give the trace an array concept, or"):
        method_named(METHODS["oracle"], setting, {})


# ---- flash -----------------------------------------------------------------------------------------------------


def test_flash_is_one_model_with_that_aggregator_whatever_the_config_says_of_it() -> None:
    by_aggregation = simple_run("global", aggregation={"name": "flash", "eta": 0.05})
    flash = simple_run("flash", method={"eta": 0.05})
    other = simple_run("flash", method={"eta": 0.05}, aggregation={"name": "median"})

    assert same_course(flash, by_aggregation)
    assert same_course(flash, other)
    assert not same_course(flash, simple_run("global"))


def test_options_of_flash_are_checked() -> None:
    with pytest.raises(OptionError, match="eta"):
        simple_run("flash", method={"eta": 0.0})


def test_the_variants_of_fielding_are_fielding_underneath() -> None:
    clients = small_clients()

    assert isinstance(method_named(METHODS["moves"], setting_of(clients), {}), Fielding)
