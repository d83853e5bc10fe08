from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.client.drift import Evidence
from fielding.client.report import NO_REPORTS
from fielding.errors import OptionError
from fielding.federation.aggregation import aggregator_named
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.evaluation import adjusted_rand_index
from fielding.federation.ledger import CATEGORIES
from fielding.methods import METHODS
from fielding.methods.flexcfl import (
    Anchor,
    FlexCFL,
    Newcomers,
    decomposed_cosines,
    flexcfl_detector,
    group_by_direction,
    pull_together,
)
from fielding.methods.global_model import GlobalModel
from fielding.methods.kinds import resolve_reports_from
from fielding.rng import stream
from fielding.simulation.assembly import Own
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.experiment import run
from tests.methods.planted import MODEL_BYTES, N_NUMBERS, advanced, planted_clients, setting_of
from tests.simulation.run_cases import left_behind, stop_and_resume, table

TWELVE = [2, 0, 1, 2, 0, 1, 0, 0, 2, 1, 1, 2]
MOVED = [*TWELVE[:3], 0, *TWELVE[4:]]
"""Client 3 goes over from concept 2 to concept 0."""


def begun(clients: SimulatedClients, method: FlexCFL, rounds: int) -> None:
    advanced(clients, method, range(rounds))


def test_clients_are_grouped_by_the_direction_of_their_updates() -> None:
    clients = planted_clients([TWELVE])
    method = FlexCFL(setting_of(clients), k=3)

    begun(clients, method, 1)

    assert adjusted_rand_index(method.membership(), TWELVE) == 1.0
    assert method.models.shape == (3, N_NUMBERS)


def test_groups_start_from_the_mean_of_what_their_members_pre_trained() -> None:
    clients, same = planted_clients([TWELVE]), planted_clients([TWELVE])
    method = FlexCFL(setting_of(clients), k=3)
    probe = FlexCFL(setting_of(same), k=12)
    for those, one in ((clients, method), (same, probe)):
        one.adapt(those.begin(0), those)

    alone = probe.models[probe.membership()]  # twelve groups of one: what each client pre-trained

    for row in range(3):
        members = method.membership() == row
        assert np.allclose(method.models[row], alone[members].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("anchor", ["initial", "global"])
def test_a_drifted_client_joins_the_group_of_its_new_concept_though_it_is_not_selected(anchor: Anchor) -> None:
    clients = planted_clients([TWELVE, TWELVE, MOVED])
    method = FlexCFL(setting_of(clients, participants=3), k=3, anchor=anchor)

    begun(clients, method, 2)
    before = method.membership()
    done = advanced(clients, method, range(2, 3))[0]

    assert done.reports.client_ids == ["client-3"]
    assert 3 not in done.plan.clients
    assert np.flatnonzero(before != method.membership()).tolist() == [3]
    assert method.membership()[3] == method.membership()[1]


@pytest.mark.parametrize("anchor", ["initial", "global"])
def test_directions_are_frozen_unless_the_anchor_is_global(anchor: Anchor) -> None:
    clients = planted_clients([TWELVE, TWELVE, MOVED])
    method = FlexCFL(setting_of(clients), k=3, anchor=anchor)
    begun(clients, method, 2)
    before = method.snapshot()[1]["directions"].copy()

    advanced(clients, method, range(2, 3))

    assert (method.snapshot()[1]["directions"] == before).all() == (anchor == "initial")


def test_the_original_detector_is_blind_to_permuted_labels_and_the_corrected_one_is_not() -> None:
    permuted = Evidence(
        reported=np.array([[7, 2, 1]]),
        current=np.array([[1, 7, 2]]),
        fresh=np.array([[0, 5, 1]]),
        before=np.array([[7, 2, 1]]),
        age=np.array([1]),
        arrived=np.array([6]),
        is_mixed=np.array([False]),
    )

    assert not flexcfl_detector({"detector": "original"}).drifted(permuted).any()
    assert flexcfl_detector({}).drifted(permuted).all()


def test_the_corrected_detector_fires_above_a_distance_of_a_fifth() -> None:
    evidence = Evidence(
        reported=np.array([[50, 50], [50, 50]]),
        current=np.array([[60, 40], [61, 39]]),
        fresh=np.array([[10, 0], [11, 0]]),
        before=np.array([[50, 50], [50, 50]]),
        age=np.array([1, 1]),
        arrived=np.array([10, 11]),
        is_mixed=np.array([False, False]),
    )

    assert flexcfl_detector({"detector": "corrected"}).drifted(evidence).tolist() == [False, True]


def test_a_run_listens_with_the_detector_that_its_options_name() -> None:
    shares = {}
    for name in ("original", "corrected"):
        result = run(table(method={"name": "flexcfl", "k": 2, "pretrain_steps": 3, "detector": name}))
        shares[name] = sum(int(str(row["n_reports"])) for row in result.rounds)

    assert resolve_reports_from(METHODS["flexcfl"], {}, 12) == "flags"
    assert resolve_reports_from(METHODS["flexcfl"], {"cold_start": False}, 12) == "nobody"
    assert shares["original"] != shares["corrected"]


def test_a_client_that_cannot_be_asked_moves_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = planted_clients([TWELVE, TWELVE, MOVED])
    method = FlexCFL(setting_of(clients), k=3)
    begun(clients, method, 2)
    before = method.membership()
    reports = clients.begin(2)
    everyone = clients.askable()

    with monkeypatch.context() as patched:
        patched.setattr(clients, "askable", lambda: everyone & (np.arange(12) != 3))
        method.adapt(reports, clients)
    assert (method.membership() == before).all()
    restored = FlexCFL(setting_of(clients), k=3)
    restored.restore(*method.snapshot())
    restored.adapt(NO_REPORTS, clients)

    assert np.flatnonzero(before != restored.membership()).tolist() == [3]


def test_a_client_whose_update_points_nowhere_keeps_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = planted_clients([TWELVE, TWELVE, [2, 1, *TWELVE[2:]]])
    method = FlexCFL(setting_of(clients), k=3)
    begun(clients, method, 2)
    before = method.membership()
    train = clients.train

    def untrained(plan: TrainingPlan) -> Updates:
        updates = train(plan)
        return replace(updates, models=plan.models[updates.start])

    monkeypatch.setattr(clients, "train", untrained)
    done = advanced(clients, method, range(2, 3))[0]

    assert done.reports.client_ids == ["client-1"]
    assert before[1] != 0  # where a tie would put it
    assert (method.membership() == before).all()


@pytest.mark.parametrize(("k", "group"), [(3, -1), (1, 0)])
def test_a_newcomer_whose_update_points_nowhere_has_no_group_until_it_does(
    monkeypatch: pytest.MonkeyPatch, k: int, group: int
) -> None:
    late = [*TWELVE[:11], -1]
    clients = planted_clients([late, TWELVE])
    method = FlexCFL(setting_of(clients), k=k)
    begun(clients, method, 1)
    train = clients.train

    def untrained(plan: TrainingPlan) -> Updates:
        updates = train(plan)
        return replace(updates, models=plan.models[updates.start])

    with monkeypatch.context() as patched:
        patched.setattr(clients, "train", untrained)
        advanced(clients, method, range(1, 2))
    assert method.membership()[11] == group
    advanced(clients, method, range(2, 3))

    assert method.membership()[11] == (method.membership()[0] if k == 3 else 0)


def test_a_client_without_data_keeps_its_group() -> None:
    gone = [*TWELVE[:3], -1, *TWELVE[4:]]
    clients = planted_clients([TWELVE, gone, gone])
    method = FlexCFL(setting_of(clients), k=3)
    begun(clients, method, 1)
    before = method.membership()

    done = advanced(clients, method, range(1, 3))

    assert done[0].reports.representations.tolist() == [[0.0]]
    assert (method.membership() == before).all()


def test_a_client_that_comes_late_joins_the_nearest_group() -> None:
    without = [-1, *TWELVE[1:]]
    clients = planted_clients([without, without, TWELVE])
    method = FlexCFL(setting_of(clients), k=3)

    begun(clients, method, 2)
    assert method.membership()[0] == -1
    advanced(clients, method, range(2, 3))

    assert adjusted_rand_index(method.membership(), TWELVE) == 1.0


@pytest.mark.parametrize(("newcomers", "n_grouped"), [("picked", [8, 10]), ("all", [12, 12])])
def test_clients_beyond_the_first_sample_look_for_a_group_as_fast_as_clients_take_part(
    newcomers: Newcomers, n_grouped: list[int]
) -> None:
    clients = planted_clients([TWELVE, TWELVE])
    method = FlexCFL(setting_of(clients, participants=2), k=3, alpha=2, newcomers=newcomers)

    seen = []
    for at in range(2):
        advanced(clients, method, range(at, at + 1))
        seen.append(int((method.membership() >= 0).sum()))

    assert seen == n_grouped


def test_fewer_clients_than_groups_make_fewer_groups() -> None:
    clients = planted_clients([[0, 1]])
    method = FlexCFL(setting_of(clients), k=5)

    begun(clients, method, 1)

    assert sorted(method.membership().tolist()) == [0, 1]
    assert method.models.shape[0] == 2


def test_if_nobody_answers_at_the_start_there_is_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = planted_clients([TWELVE])
    method = FlexCFL(setting_of(clients), k=3)
    reports = clients.begin(0)

    with monkeypatch.context() as patched:
        patched.setattr(clients, "askable", lambda: np.zeros(12, dtype=np.bool_))
        method.adapt(reports, clients)
    assert (method.membership() == -1).all()
    assert method.models.shape[0] == 1
    method.adapt(NO_REPORTS, clients)

    assert adjusted_rand_index(method.membership(), TWELVE) == 1.0


def test_one_group_without_cold_start_is_federated_averaging_bit_for_bit() -> None:
    one, other = planted_clients([TWELVE, MOVED] * 3), planted_clients([TWELVE, MOVED] * 3, reports_from="nobody")
    flexcfl, everybody = FlexCFL(setting_of(one), k=1, cold_start=False), GlobalModel(setting_of(other))

    advanced(one, flexcfl, range(6))
    advanced(other, everybody, range(6))

    assert (flexcfl.models == everybody.models).all()
    assert one.ledger.client_bytes_down("probe").sum() == 0


@pytest.mark.parametrize(("cached", "n_downloads"), [(False, 12 + 1), (True, 12)])
def test_the_ledger_holds_what_the_cost_table_says(cached: bool, n_downloads: int) -> None:
    clients = planted_clients([TWELVE, TWELVE, MOVED])
    method = FlexCFL(setting_of(clients, participants=3), k=3, cache_anchor=cached)

    begun(clients, method, 4)

    ledger, n_trained, n_reports = clients.ledger, 4 * 3, 12 + 1
    down, up = (
        {name: int(of(name).sum()) for name in CATEGORIES} for of in (ledger.client_bytes_down, ledger.client_bytes_up)
    )
    assert down == {"model": n_trained * MODEL_BYTES, "report": 0, "probe": n_downloads * MODEL_BYTES}
    assert up == {"model": n_trained * MODEL_BYTES, "report": 4 * n_reports, "probe": 13 * MODEL_BYTES}
    # Training on a sample takes three times its millisecond; 50 steps of 10 samples; the rest is the network.
    sent_s = 8 * (n_downloads + 13) * MODEL_BYTES / (1024 * 1000.0)
    assert ledger.client_seconds("probe").sum() == pytest.approx(13 * 50 * 10 * 3 * 1e-3 + sent_s)


@pytest.mark.parametrize("n_clients", [12, 7])
def test_the_start_asks_no_more_clients_than_it_needs(n_clients: int) -> None:
    clients = planted_clients([TWELVE[:n_clients]])
    method = FlexCFL(setting_of(clients, participants=1), k=2, alpha=5)

    method.adapt(clients.begin(0), clients)

    n_asked = min(10, n_clients) + (n_clients > 10)  # and one newcomer, if anybody is left
    assert clients.ledger.client_bytes_down("probe").sum() == n_asked * MODEL_BYTES


@given(
    models=st.lists(st.lists(st.floats(-5, 5, width=32), min_size=3, max_size=3), min_size=2, max_size=4),
    eta=st.floats(0.01, 3.0),
)
def test_groups_pull_each_other_as_the_authors_coded_it(models: list[list[float]], eta: float) -> None:
    rows = np.array(models, dtype=np.float32) + np.float32(6.0)  # no group is zero

    expected = []
    for at, row in enumerate(rows.astype(np.float64)):
        others = [other for position, other in enumerate(rows.astype(np.float64)) if position != at]
        pull = sum(other / np.linalg.norm(other) for other in others)
        expected.append((row + eta * pull) / (1.0 + eta * sum(1.0 / np.linalg.norm(other) for other in others)))

    assert np.allclose(pull_together(rows, eta, 3), expected, rtol=1e-5)


def test_only_groups_that_trained_pull_each_other() -> None:
    clients, same = planted_clients([TWELVE]), planted_clients([TWELVE])
    plain, pulled = FlexCFL(setting_of(clients), k=3), FlexCFL(setting_of(same), k=3, eta_g=0.5)
    plain_plan = advanced(clients, plain, range(1))[0].plan
    pulled_plan = advanced(same, pulled, range(1))[0].plan

    assert (plain_plan.clients == pulled_plan.clients).all()
    assert np.allclose(pulled.models, pull_together(plain.models, 0.5, N_NUMBERS))
    assert not np.allclose(pulled.models, plain.models)


def test_what_the_server_remembers_has_a_row_for_each_group() -> None:
    clients = planted_clients([TWELVE, MOVED])
    method = FlexCFL(setting_of(clients, aggregator=aggregator_named("fedyogi", {})), k=3)

    begun(clients, method, 2)

    remembered = {name: array.shape for name, array in method.snapshot()[1].items() if name.startswith("memory/")}
    assert set(remembered.values()) == {(3, N_NUMBERS)}
    assert len(remembered) == 2


@pytest.mark.parametrize("stop", [0, 1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"anchor": "global", "eta_g": 0.1}, {"cache_anchor": True, "alpha": 2}])
def test_a_snapshot_goes_on_exactly_like_the_original(stop: int, options: dict[str, Json]) -> None:
    rounds = [TWELVE, TWELVE, MOVED, TWELVE, MOVED]
    one, other = planted_clients(rounds), planted_clients(rounds)
    first, second = (FlexCFL(setting_of(those, participants=2), k=3, **options) for those in (one, other))  # type: ignore[arg-type]
    advanced(one, first, range(stop))
    advanced(other, second, range(stop))
    values, arrays = second.snapshot()
    restored = FlexCFL(setting_of(other, participants=2), k=3, **options)  # type: ignore[arg-type]
    restored.restore(values, {name: array.copy() for name, array in arrays.items()})

    advanced(one, first, range(stop, 5))
    advanced(other, restored, range(stop, 5))

    assert (first.models == restored.models).all()
    assert (first.membership() == restored.membership()).all()
    assert one.ledger.totals() == other.ledger.totals()


def test_a_resumed_run_ends_as_one_that_was_never_stopped(tmp_path: Path) -> None:
    config = table(method={"name": "flexcfl", "k": 3, "alpha": 2, "pretrain_steps": 3, "eta_g": 0.1})
    run(config, tmp_path / "whole", page=False)

    stop_and_resume(config, tmp_path / "stopped", [1, 2, 5, 9], Own())

    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"k": 0}, "k is 0; give a whole number"),
        ({"alpha": 1.5}, "alpha is 1.5; give a whole number"),
        ({"pretrain_steps": -1}, "pretrain_steps is -1"),
        ({"eta_g": -0.1}, "eta_g is -0.1; give a number from 0"),
        ({"detector": "fixed"}, "unknown detector 'fixed'"),
        ({"anchor": "globe"}, "unknown anchor 'globe'; did you mean 'global'"),
        ({"newcomers": "some"}, "unknown newcomers 'some'"),
        ({"cache_anchor": 1}, "cache_anchor is 1; give true or false"),
        ({"cache_anchor": True, "anchor": "global"}, "the anchor changes every round; leave it out"),
        ({"cold_start": False}, "only it finds the 5 groups; give k = 1"),
    ],
)
def test_an_option_that_cannot_be_is_named(options: dict[str, Json], complaint: str) -> None:
    setting = setting_of(planted_clients([[0, 1]]))

    with pytest.raises(OptionError, match=complaint):
        FlexCFL(setting, **options)  # type: ignore[arg-type]


def test_an_unknown_detector_is_named_before_data_are_read() -> None:
    with pytest.raises(OptionError, match=r"unknown method.detector 'orginal'; did you mean 'original'"):
        run(table(method={"name": "flexcfl", "detector": "orginal"}))


# ---- update directions ----------------------------------------------------------------------------------------


@given(n_updates=st.integers(1, 6), n_numbers=st.integers(1, 8), k=st.integers(1, 6), seed=st.integers(0, 50))
def test_features_are_cosines_with_the_singular_vectors(n_updates: int, n_numbers: int, k: int, seed: int) -> None:
    updates = stream(seed, "updates").standard_normal((n_updates, n_numbers)).astype(np.float32)
    _, _, directions = np.linalg.svd(updates.astype(np.float64), full_matrices=False)
    expected = np.zeros((n_updates, k))
    found = updates @ directions[:k].T / np.linalg.norm(updates, axis=1, keepdims=True)
    expected[:, : found.shape[1]] = found

    assert np.allclose(np.abs(decomposed_cosines(updates, k)), np.abs(expected), atol=1e-4)


def test_a_row_of_zeros_has_no_direction() -> None:
    assert decomposed_cosines(np.zeros((3, 2), dtype=np.float32), 2).tolist() == [[0.0, 0.0]] * 3


def test_length_does_not_matter_for_a_group_but_sign_does() -> None:
    updates = np.array([[1.0, 0.1], [-1.0, 0.0], [50.0, 0.0], [-70.0, 1.0]], dtype=np.float32)

    assert group_by_direction(updates, 2, rng=stream(1, "groups")).tolist() == [0, 1, 0, 1]


def test_there_are_no_more_groups_than_directions() -> None:
    same = np.ones((4, 3), dtype=np.float32)

    assert group_by_direction(same, 3, rng=stream(1, "groups")).tolist() == [0, 0, 0, 0]
