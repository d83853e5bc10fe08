from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Matrix, Models
from fielding.client.drift import AnyChange
from fielding.coordinator.assignment import Clusters
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.policy import Policy
from fielding.distance import METRICS
from fielding.errors import OptionError
from fielding.methods.fielding import Fielding
from fielding.methods.reuse import Reclustering, RetiredModels, reach, reuse_models
from fielding.simulation.clients import SimulatedClients
from tests.methods.planted import MODEL_BYTES, N_NUMBERS, advanced, planted_clients, setting_of

A, B, C = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]


def clusters(centers: Sequence[Sequence[float]], *, dormant: Sequence[int] = ()) -> Clusters:
    rows = np.array(centers)
    live = ~np.isin(np.arange(len(rows)), dormant)
    return Clusters(ids=tuple(range(10, 10 + len(rows))), centers=rows, live=live, since_global=rows)


def regrouping(
    before: Clusters, after: Sequence[Sequence[float]], *, mixing: Matrix | None = None, within: float = 0.5
) -> Reclustering:
    """Return a global clustering in which the model of old cluster k holds the number k."""
    n_old = len(before.ids)
    return Reclustering(
        before=before,
        models=np.arange(n_old, dtype=np.float32)[:, np.newaxis],
        centers=np.array(after),
        mixing=np.full((len(after), n_old), 1.0 / n_old) if mixing is None else mixing,
        metric=METRICS["l1"],
        within=within,
    )


def test_clusters_to_which_no_new_center_is_close_have_disappeared_dormant_ones_too() -> None:
    past = regrouping(clusters([A, B, C], dormant=[2]), [[0.9, 0.1, 0.0]])

    assert past.disappeared().tolist() == [1, 2]


def test_a_retired_model_is_offered_when_its_distribution_comes_back() -> None:
    retired = RetiredModels(2)
    gone = regrouping(clusters([A, B]), [A, C])
    retired.retire(gone, gone.disappeared(), 3)

    back = regrouping(clusters([A, C]), [A, [0.1, 0.9, 0.0], C])

    assert retired.ids.tolist() == [11]
    assert retired.model(0).tolist() == [1.0]
    assert retired.match(back).tolist() == [-1, 0, -1]


def test_none_is_offered_beyond_reach_or_where_a_parent_is_nearer() -> None:
    retired = RetiredModels(2)
    gone = regrouping(clusters([A, B]), [A, C])
    retired.retire(gone, gone.disappeared(), 3)
    leaning, parents = [0.0, 0.8, 0.2], clusters([A, [0.0, 0.9, 0.1]])

    assert retired.match(regrouping(clusters([A, C]), [leaning], within=0.3)).tolist() == [-1]
    assert retired.match(regrouping(parents, [leaning])).tolist() == [-1]
    only_a = np.array([[1.0, 0.0]])
    assert retired.match(regrouping(parents, [leaning], mixing=only_a)).tolist() == [0], "it does not inherit from it"


def test_a_newer_model_of_the_same_distribution_takes_the_place_of_the_older() -> None:
    retired = RetiredModels(3)
    retired.retire(regrouping(clusters([A, B]), [C]), np.array([0, 1]), 1)
    retired.retire(regrouping(clusters([C, [0.0, 0.9, 0.1]]), [A]), np.array([1]), 2)

    assert retired.ids.tolist() == [10, 11]
    assert retired.arrays()["centers"].tolist() == [A, [0.0, 0.9, 0.1]]
    assert retired.arrays()["last_round"].tolist() == [1, 2]


def test_the_least_recently_used_gives_way() -> None:
    retired = RetiredModels(2)
    retired.retire(regrouping(clusters([A, B]), [C]), np.array([0, 1]), 1)
    retired.touch(np.array([0]), 4)
    retired.retire(regrouping(clusters([C]), [A]), np.array([0]), 5)

    assert retired.arrays()["centers"].tolist() == [A, C]
    assert retired.arrays()["last_round"].tolist() == [4, 5]


def test_reach_is_half_the_mean_distance_between_the_centers_of_live_clusters() -> None:
    l1 = METRICS["l1"]

    assert reach(clusters([A, B, [0.5, 0.5, 0.0]]), 0.2, metric=l1) == pytest.approx((2.0 + 1.0 + 1.0) / 6.0)
    assert reach(clusters([A, B], dormant=[1]), 0.2, metric=l1) == pytest.approx(0.1), "a lone one: half of theta"


def test_a_memory_without_slots_keeps_nothing_and_a_wrong_number_is_refused() -> None:
    nothing = RetiredModels(0)
    nothing.retire(regrouping(clusters([A, B]), [C]), np.array([0, 1]), 1)

    assert len(nothing) == 0
    with pytest.raises(OptionError, match="reuse is -1"):
        RetiredModels(-1)


def test_labels_that_came_later_count_as_never_seen() -> None:
    retired = RetiredModels(2)
    retired.retire(regrouping(clusters([A, B]), [C]), np.array([1]), 1)
    wider = [[*B, 0.0], [*A, 0.0]]

    assert retired.match(regrouping(clusters([[*C, 0.0], [*A, 0.0]]), wider)).tolist() == [0, -1]


def test_a_restored_memory_is_the_same_bit_for_bit() -> None:
    retired, twin = RetiredModels(2), RetiredModels(2)
    retired.retire(regrouping(clusters([[1 / 3, 2 / 3, 0.0], B]), [C]), np.array([0, 1]), 7)
    twin.restore({name: array.copy() for name, array in retired.arrays().items()})

    for name, array in retired.arrays().items():
        assert twin.arrays()[name].dtype == array.dtype
        assert twin.arrays()[name].tobytes() == array.tobytes()
    twin.restore({})
    assert len(twin) == 2


CONCEPTS = np.array([[0, 0, 0, 1, 1, 1]] * 6 + [[0, 0, 0, 2, 2, 2]] * 6 + [[0, 0, 0, 1, 1, 1]] * 3)
"""Half of the clients leave for another concept and come back."""


def recurring() -> SimulatedClients:
    return planted_clients(CONCEPTS, reports_from="drifted", drift_test=AnyChange())


def fielding_of(clients: SimulatedClients, reuse: int) -> Fielding:
    setting = setting_of(clients)
    return Fielding(replace(setting, policy=Policy(clusterer=Clusterer(k_max=3), seed=1)), reuse=reuse)


def losses(clients: SimulatedClients, method: Fielding) -> float:
    """Return the mean loss of the clients that came back, on the models that serve them."""
    back = np.array([3, 4, 5])
    all_losses = clients.losses(back, method.models)
    return float(all_losses[np.arange(3), method.membership()[back]].mean())


def test_a_distribution_that_comes_back_finds_its_old_model() -> None:
    plain, clever = recurring(), recurring()
    without, with_memory = fielding_of(plain, 0), fielding_of(clever, 2)
    advanced(plain, without, range(6))
    advanced(clever, with_memory, range(6))
    old = with_memory.models.copy()
    advanced(plain, without, range(6, 12))
    advanced(clever, with_memory, range(6, 12))
    for clients, method in ((plain, without), (clever, with_memory)):
        method.adapt(clients.begin(12), clients)

    assert any((with_memory.models == row).all(axis=1).any() for row in old), "bit for bit"
    assert not any((without.models == row).all(axis=1).any() for row in old)
    assert losses(clever, with_memory) < losses(plain, without)


def test_a_snapshot_holds_the_retired_models() -> None:
    one, other = recurring(), recurring()
    first, second = fielding_of(one, 2), fielding_of(other, 2)
    advanced(one, first, range(9))
    advanced(other, second, range(9))
    values, arrays = second.snapshot()
    resumed = fielding_of(other, 2)
    resumed.restore(values, {name: array.copy() for name, array in arrays.items()})
    advanced(one, first, range(9, 14))
    advanced(other, resumed, range(9, 14))

    assert arrays["retired/ids"].size > 0
    assert (first.models == resumed.models).all()


def judged(losses_of: Matrix, n_members: int = 2, n_shared: int = 0) -> tuple[Models, list[int]]:
    """Return the models of a new cluster whose members have these losses, and whom it asked."""
    asked: list[int] = []

    class Judges:
        round_index = 5

        def askable(self) -> object:
            return np.arange(8) < n_members

        def draws(self, _purpose: str, who: object) -> object:
            return np.asarray(who, dtype=np.uint64)

        def losses(self, who: Matrix, _models: Models, *, corrected: bool) -> Matrix:
            assert corrected, "as clients are served"
            asked.extend(int(client) for client in who)
            return losses_of[: len(who)]

    retired = RetiredModels(2)
    retired.retire(regrouping(clusters([A, B]), [A, C]), np.array([1]), 3)
    mixed = np.array([[7.0]], dtype=np.float32)
    back = replace(regrouping(clusters([A, C]), [B]), n_shared=n_shared)
    models = reuse_models(mixed, back, retired, np.zeros(8, dtype=np.int32), Judges())  # type: ignore[arg-type]
    assert mixed.tolist() == [[7.0]], "not written to"
    return models, asked


def test_members_judge_and_only_a_lower_loss_wins() -> None:
    assert judged(np.array([[1.0, 0.5], [1.0, 0.6]]))[0].tolist() == [[1.0]]
    assert judged(np.array([[1.0, 1.0], [1.0, 1.0]]))[0].tolist() == [[7.0]]
    assert judged(np.array([[1.0, 0.5], [np.nan, 9.0]]))[0].tolist() == [[1.0]], "who did not answer has no say"
    assert judged(np.full((2, 2), np.nan))[0].tolist() == [[7.0]]
    models, asked = judged(np.zeros((0, 2)), n_members=0)
    assert models.tolist() == [[7.0]]
    assert asked == []


def test_a_retired_model_lends_nothing_of_what_all_clusters_share() -> None:
    assert judged(np.array([[1.0, 0.5], [1.0, 0.6]]), n_shared=1)[0].tolist() == [[7.0]]


def test_no_more_than_five_members_are_asked() -> None:
    _, asked = judged(np.tile([1.0, 0.5], (8, 1)), n_members=8)

    assert asked == [0, 1, 2, 3, 4]


def test_judging_is_charged() -> None:
    clients = recurring()
    method = fielding_of(clients, 2)
    advanced(clients, method, range(12))
    reports = clients.begin(12)
    before = clients.round_costs["bytes_down"]

    method.adapt(reports, clients)

    assert clients.round_costs["bytes_down"] - before >= 2 * MODEL_BYTES
    assert method.models.shape[1] == N_NUMBERS
