"""Fielding under a guard, on clients with planted concepts; data arrive in every round."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fielding._typing import Counts, Matrix, Models
from fielding.client.drift import AnyChange
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.decision import Decision
from fielding.coordinator.policy import Policy
from fielding.coordinator.trigger import Always, CenterShift, Never, Trigger
from fielding.methods import fielding as fielding_module
from fielding.methods.fielding import Fielding
from fielding.methods.method import MethodSetting
from fielding.methods.variants import SelectedReports, StaticClusters, always, moves
from fielding.simulation.clients import SimulatedClients
from tests.methods.planted import MODEL_BYTES, advanced, planted_clients, setting_of

N_CLIENTS, N_ROUNDS = 12, 32
APART = np.array([[0, 1] * 6] * N_ROUNDS)
"""Two concepts that contradict each other."""
ALIKE = np.zeros((N_ROUNDS, N_CLIENTS), dtype=np.int64)


def planted(concepts: np.ndarray) -> SimulatedClients:
    return planted_clients(concepts, reports_from="drifted", drift_test=AnyChange())


def setting_for(clients: SimulatedClients, trigger: Trigger | None = None) -> MethodSetting:
    policy = Policy(clusterer=Clusterer(k_max=2), trigger=trigger or Never(), seed=1)
    return replace(setting_of(clients), policy=policy)


def guarded(clients: SimulatedClients, trigger: Trigger | None = None, *, guard: bool = True) -> Fielding:
    return Fielding(setting_for(clients, trigger), guard=guard)


def decisions(clients: SimulatedClients, method: Fielding, rounds: range) -> list[Decision]:
    made = [done.decision for done in advanced(clients, method, rounds)]
    assert all(one is not None for one in made)
    return [one for one in made if one is not None]


def probes(clients: SimulatedClients) -> tuple[int, int]:
    """Return the bytes that questions cost clients, down and up."""
    totals = clients.ledger.totals()
    down, up = totals["bytes_down"], totals["bytes_up"]
    assert isinstance(down, dict)
    assert isinstance(up, dict)
    return int(str(down["probe"])), int(str(up["probe"]))


def never_paying(concepts: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> SimulatedClients:
    """Return clients that are all served better by the last of the models that they are asked about."""
    clients = planted(concepts)
    losses = clients.losses

    def told(who: Counts, models: Models, **options: Any) -> Matrix:
        return losses(who, models, **options) * 0.0 + np.where(np.arange(models.shape[0]) < models.shape[0] - 1, 2, 1)

    monkeypatch.setattr(clients, "losses", told)
    return clients


def shifting(tau: float) -> CenterShift:
    return CenterShift(tau=tau)


def test_clusters_that_pay_are_kept_and_judges_are_charged_for_three_models() -> None:
    clients = planted(APART)
    method = guarded(clients)

    made = decisions(clients, method, range(7))

    judged = [at for at, one in enumerate(made) if "guard" in one.notes]
    assert judged == [1, 3, 6]
    assert all("merged" not in one.notes for one in made)
    last = made[6].notes["guard"]
    assert isinstance(last, dict)
    assert float(str(last["gain"])) > 0.1
    assert last["n_judged"] == 15
    assert method.models.shape[0] == 2
    assert probes(clients) == (15 * 3 * MODEL_BYTES, 15 * 3 * 4)


def test_judges_put_all_that_is_new_through_all_candidates() -> None:
    clients = planted(APART)

    advanced(clients, guarded(clients), range(2))

    seconds = clients.ledger.client_seconds("probe")
    judges = np.flatnonzero(seconds)
    sizes = clients.windows.training(1).sizes[judges]  # an interval is a window here
    sent_s = 8 * 3 * (MODEL_BYTES + 4) / (1000.0 * 1024)
    assert judges.size == 5
    assert sizes.min() > 0
    assert np.allclose(seconds[judges], sent_s + 3 * sizes / 1000.0)


def test_clusters_that_do_not_pay_become_the_mean_of_their_models(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = never_paying(APART, monkeypatch)
    method = guarded(clients)
    advanced(clients, method, range(3))
    before = method.models.copy()
    assert np.bincount(method.membership()).tolist() == [6, 6]

    decision = method.adapt(clients.begin(3), clients)

    assert decision is not None
    assert decision.notes["merged"] == [0, 0]
    assert decision.notes["guard"] == {"gain": -0.5, "error": 0.0, "n_judged": 10}
    assert decision.mixing.tolist() == [[0.5, 0.5]]
    assert decision.n_live == 1
    assert method.cluster_ids() == decision.cluster_ids == (0,)
    assert (method.membership() == 0).all()
    assert np.allclose(method.models, before.mean(axis=0), atol=1e-7)


def test_after_a_merge_regrouping_is_held_back_and_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = never_paying(APART, monkeypatch)
    method = guarded(clients, trigger=shifting(2.0))

    made = decisions(clients, method, range(N_ROUNDS))

    merged = [at for at, one in enumerate(made) if "merged" in one.notes]
    tried = [at for at, one in enumerate(made) if one.reclustered]
    # Five judges a time: merged at the second look. Then a rest of eight arrivals, and of sixteen.
    assert (merged, tried) == ([3, 14], [11, 30])
    assert [one.n_live for one in made] == [2] * 3 + [1] * 8 + [2] * 3 + [1] * 16 + [2] * 2


def test_clusters_that_are_made_anew_at_every_arrival_are_judged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = never_paying(APART, monkeypatch)
    method = guarded(clients, trigger=Always())

    made = decisions(clients, method, range(N_ROUNDS))

    # Verdicts on clusters that are gone count three quarters: 5, 8.75, 11.6 of five judges a time.
    assert [at for at, one in enumerate(made) if "merged" in one.notes] == [3, 14]
    assert [at for at, one in enumerate(made) if one.reclustered] == [1, 2, 3, 11, 12, 13, 14, 30, 31]
    assert made[3].n_live == len(made[3].cluster_ids) == 1
    for one in made:
        assert one.mixing.shape[0] == len(one.cluster_ids)
        assert np.allclose(one.mixing.sum(axis=1), 1.0)


def test_clusters_that_pay_survive_being_made_anew_at_every_arrival() -> None:
    clients = planted(APART)
    made = decisions(clients, guarded(clients, trigger=Always()), range(8))

    assert all(one.reclustered for one in made[1:])
    assert not any("merged" in one.notes for one in made)


def test_those_that_never_regroup_stay_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = never_paying(APART, monkeypatch)
    made = decisions(clients, guarded(clients, trigger=Never()), range(N_ROUNDS))

    assert [one.n_live for one in made] == [2] * 3 + [1] * (N_ROUNDS - 3)


def test_without_a_guard_nothing_of_this_happens() -> None:
    clients = planted(ALIKE)
    method = guarded(clients, guard=False)
    made = decisions(clients, method, range(6))

    assert all(one.notes == {} and one.n_live == 2 for one in made)
    assert probes(clients) == (0, 0)
    assert not any(name.startswith("guard/") for name in method.snapshot()[1])


def test_the_run_says_whether_there_is_a_guard_unless_the_option_does() -> None:
    setting = replace(setting_for(planted(ALIKE)), is_guarded=True)

    def has_guard(method: Fielding) -> bool:
        return any(name.startswith("guard/") for name in method.snapshot()[1])

    assert has_guard(Fielding(setting))
    assert not has_guard(Fielding(setting, guard=False))


@pytest.mark.parametrize("variant", [moves, always, StaticClusters, SelectedReports])
def test_variants_have_no_guard_whatever_the_run_says(variant: Callable[[MethodSetting], Fielding]) -> None:
    method = variant(replace(setting_for(planted(ALIKE)), is_guarded=True))

    assert not any(name.startswith("guard/") for name in method.snapshot()[1])


def test_participants_that_report_after_training_judge_only_what_they_have_not_trained_on() -> None:
    clients = planted_clients(ALIKE, reports_from="participants", drift_test=AnyChange())

    advanced(clients, guarded(clients), range(4))

    assert probes(clients)[1] == 2 * 5 * 3 * 4, "two looks of five judges, though adapt is called twice a round"


@pytest.mark.parametrize("at", [1, 2, 4, 11, 14])
def test_a_snapshot_in_the_middle_goes_on_bit_for_bit(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (never_paying(APART, monkeypatch) for _ in range(2))
    first, second = guarded(one, shifting(2.0)), guarded(other, shifting(2.0))
    advanced(one, first, range(at))
    advanced(other, second, range(at))
    values, arrays = second.snapshot()
    resumed = guarded(other, shifting(2.0))
    resumed.restore(values, {name: array.copy() for name, array in arrays.items()})

    went, came = decisions(one, first, range(at, N_ROUNDS)), decisions(other, resumed, range(at, N_ROUNDS))

    assert [one.notes for one in went] == [one.notes for one in came]
    assert first.models.tobytes() == resumed.models.tobytes()
    assert one.ledger.totals() == other.ledger.totals()
    for name, array in first.snapshot()[1].items():
        assert resumed.snapshot()[1][name].tobytes() == array.tobytes()


def test_placed_clients_are_told_as_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = planted(APART)
    method = guarded(clients)
    advanced(clients, method, range(2))
    monkeypatch.setattr(fielding_module, "place_by_loss", lambda *_parts: ["client-3", "client-4"])
    drifted = replace(method.coordinator.decide(), moved=["client-4"])
    monkeypatch.setattr(method, "_decide", lambda *_parts: drifted)

    decision = method.adapt(clients.begin(2), clients)

    assert decision is not None
    assert list(decision.moved) == ["client-4", "client-3"]
