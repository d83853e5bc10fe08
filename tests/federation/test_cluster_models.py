from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from fielding._typing import Floats, Matrix, Models
from fielding.federation.aggregation import AGGREGATORS, Aggregator, Uploads, aggregator_named
from fielding.federation.clients import Updates
from fielding.federation.cluster_models import ClusterModels
from fielding.federation.pace import Memory, Pace, PaceStep, pace_named
from fielding.federation.pace.adaptive_rate import AdaptiveRate

INITIAL = np.array([1.0, 2.0, 3.0], dtype=np.float32)


def updates_of(rows: list[int], models: list[list[float]], n_samples: list[int] | None = None) -> Updates:
    n_answers = len(rows)
    return Updates(
        clients=np.arange(n_answers),
        groups=np.array(rows),
        start=np.array(rows),
        models=np.array(models, dtype=np.float32),
        n_samples=np.array(n_samples or [1] * n_answers),
        loss=np.zeros(n_answers),
        square_loss=np.zeros(n_answers),
        n_parameters=3,
        learning_rate=0.1,
    )


def two_clusters(aggregator: Aggregator, *, weighted: bool = False) -> ClusterModels:
    models = ClusterModels(INITIAL, aggregator, weighted=weighted)
    models.mix(np.ones((2, 1)))
    return models


def test_a_cluster_that_nobody_trained_keeps_its_model_and_its_memory() -> None:
    models = two_clusters(aggregator_named("fedyogi"))
    before = {name: rows.copy() for name, rows in models.arrays().items()}

    models.learn(updates_of([1], [[5.0, 5.0, 5.0]]))

    for name, rows in models.arrays().items():
        assert (rows[0] == before[name][0]).all()
        assert (rows[1] != before[name][1]).any()


def test_the_memory_of_the_server_is_mixed_like_the_models() -> None:
    models = two_clusters(aggregator_named("fedadam"))
    models.learn(updates_of([0, 1], [[5.0, 5.0, 5.0], [0.0, 0.0, 0.0]]))
    before = {name: rows.copy() for name, rows in models.arrays().items()}

    models.mix(np.array([[0.25, 0.75]]))

    for name, rows in models.arrays().items():
        assert rows.shape == (1, 3)
        assert np.allclose(rows[0], 0.25 * before[name][0] + 0.75 * before[name][1], atol=1e-6)


def test_clusters_learn_apart_and_participants_count_by_their_samples_if_asked() -> None:
    sent = updates_of([1, 1, 0], [[0.0, 0.0, 0.0], [4.0, 4.0, 4.0], [9.0, 9.0, 9.0]], [3, 1, 5])
    plain, weighted = two_clusters(aggregator_named("mean")), two_clusters(aggregator_named("mean"), weighted=True)

    for models in (plain, weighted):
        models.learn(sent)

    assert plain.models.tolist() == [[9.0, 9.0, 9.0], [2.0, 2.0, 2.0]]
    assert weighted.models.tolist() == [[9.0, 9.0, 9.0], [1.0, 1.0, 1.0]]


@pytest.mark.parametrize("name", ["mean", "fedyogi"])
def test_what_was_written_down_goes_on_alike(name: str) -> None:
    models, again = two_clusters(aggregator_named(name)), ClusterModels(INITIAL, aggregator_named(name))
    models.learn(updates_of([0], [[5.0, 1.0, 2.0]]))
    again.restore({one: rows.copy() for one, rows in models.arrays().items()})

    for one in (models, again):
        one.learn(updates_of([0], [[4.0, 4.0, 9.0]]))

    assert (models.models == again.models).all()


# ---- what would not be finite ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fedadam", "fedyogi", "fedadagrad", "flash"])
def test_a_model_that_would_not_be_finite_stays_with_its_memory_and_the_others_learn(name: str) -> None:
    models, control = (two_clusters(aggregator_named(name)) for _ in range(2))
    both = updates_of([0, 1], [[3e38, -3e38, 3e38], [5.0, 5.0, 5.0]])
    before = {one: rows.copy() for one, rows in models.arrays().items()}

    for _ in range(3):  # the square of 3e38 is too large for float32
        models.learn(both)
        control.learn(updates_of([1], [[5.0, 5.0, 5.0]]))

    assert all(np.isfinite(rows).all() for rows in models.arrays().values())
    assert all((rows[1] == control.arrays()[one][1]).all() for one, rows in models.arrays().items())
    if name in ("fedadam", "fedyogi", "fedadagrad"):
        assert all((rows[0] == before[one][0]).all() for one, rows in models.arrays().items())


@dataclass(frozen=True, slots=True)
class Doubling:
    """Takes twice the first upload, and remembers ten times that in its first number."""

    memory: ClassVar[Mapping[str, float]] = {"ten": 0.0}
    needs_start_loss: ClassVar[bool] = False

    def combine(
        self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
    ) -> tuple[Models, dict[str, Models]]:
        ten = memory["ten"].copy()
        ten[0] = np.float32(20.0) * uploads.models[0, 0]
        return np.full_like(model, 2.0) * uploads.models[0], {"ten": ten}


def test_a_model_that_is_too_large_is_none_and_so_is_one_whose_memory_would_be() -> None:
    models = ClusterModels(INITIAL, Doubling())
    models.mix(np.ones((3, 1)))

    models.learn(updates_of([0, 1, 2], [[3e38, 0.0, 0.0], [1e38, 0.0, 0.0], [1e37, 1.0, 1.0]]))

    # Twice 3e38 is no float32; nor is twenty times 1e38, though twice it is.
    assert models.models.tolist()[:2] == [[1.0, 2.0, 3.0]] * 2
    assert models.models[2].tolist() == [np.float32(2e37), 2.0, 2.0]
    assert models.arrays()["memory/ten"][:, 0].tolist() == [0.0, 0.0, np.float32(2e38)]


# ---- pace ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Halving:
    """Halves the rate with every round of a cluster, notes what it is shown, and starts over after some rounds."""

    restart_after: int = 100
    shown: list[PaceStep] = field(default_factory=list)

    def memory(self, n_numbers: int) -> dict[str, Floats]:
        return {"rounds": np.zeros(1), "sum": np.zeros(n_numbers, dtype=np.float32)}

    def factor(self, memory: Memory) -> float:
        return float(0.5 ** memory["rounds"][0])

    def restarts(self, memory: Memory) -> bool:
        return float(memory["rounds"][0]) == self.restart_after

    def observe(self, step: PaceStep, memory: Memory) -> dict[str, Floats]:
        self.shown.append(step)
        return {"rounds": memory["rounds"] + 1.0, "sum": memory["sum"] + step.after}


def paced(pace: Pace, n_clusters: int = 2, aggregator: str = "mean") -> ClusterModels:
    models = ClusterModels(INITIAL, aggregator_named(aggregator), pace=pace)
    models.mix(np.ones((n_clusters, 1)))
    return models


def factors(models: ClusterModels, rows: list[int]) -> list[float]:
    found = models.rate_factors(np.array(rows, dtype=np.int64))
    assert found is not None
    return found.tolist()


def taught(models: ClusterModels, rows: list[int], *, value: float = 5.0, interval: int = 0) -> None:
    models.learn(replace(updates_of(rows, [[value] * 3] * len(rows)), interval=interval))


def test_without_a_pace_nobody_trains_at_another_rate_and_nothing_is_kept_for_it() -> None:
    models = ClusterModels(INITIAL, aggregator_named("mean"))
    taught(models, [0])

    assert models.rate_factors(np.array([0, 0])) is None
    assert models.arrays().keys() == {"models"}


def test_every_cluster_has_its_own_pace() -> None:
    models = paced(Halving(), n_clusters=3)

    taught(models, [0, 2, 2])
    taught(models, [2])

    assert factors(models, [2, 0, 1, 2]) == [0.25, 0.5, 1.0, 0.25]


def test_a_round_without_answers_moves_no_pace() -> None:
    models = paced(Halving())

    taught(models, [])

    assert factors(models, [0, 1]) == [1.0, 1.0]


def test_a_pace_is_shown_the_model_before_and_after_and_the_mean_loss_of_its_own_cluster() -> None:
    pace = Halving()
    models = paced(pace)
    sent = updates_of([1, 0, 1], [[4.0] * 3, [9.0] * 3, [6.0] * 3])

    models.learn(replace(sent, loss=np.array([1.0, 10.0, 3.0]), round_index=7))

    zero, one = pace.shown
    assert (zero.before.tolist(), zero.after.tolist(), zero.loss) == ([1.0, 2.0, 3.0], [9.0] * 3, 10.0)
    assert (one.after.tolist(), one.loss, one.round_index) == ([5.0] * 3, 2.0, 7)


def test_data_of_the_start_are_no_time_step_and_later_ones_are_once() -> None:
    pace = Halving()
    models = paced(pace, n_clusters=1)

    for interval in (4, 4, 5, 5, 7):
        taught(models, [0], interval=interval)

    assert [int(step.has_new_data) for step in pace.shown] == [0, 0, 1, 0, 1]


def test_a_cluster_that_waited_counts_what_came_meanwhile_as_one_step() -> None:
    pace = Halving()
    models = paced(pace)

    for rows, interval in (([0, 1], 0), ([0], 1), ([0], 2), ([0, 1], 2)):
        taught(models, rows, interval=interval)

    # In order: both, 0, 0, then 0 (nothing new) and 1 (new since its last round).
    assert [int(step.has_new_data) for step in pace.shown] == [0, 0, 1, 1, 0, 1]


def test_the_first_round_of_an_adaptive_pace_is_no_time_step_even_if_windows_began_full() -> None:
    models = paced(AdaptiveRate(), n_clusters=1)

    taught(models, [0], interval=4)  # as with window = 5 gaps
    assert models.arrays()["pace/time"].tolist() == [[1.0]]
    taught(models, [0], value=6.0, interval=4)
    assert models.arrays()["pace/time"].tolist() == [[1.0]]
    taught(models, [0], value=7.0, interval=5)
    assert models.arrays()["pace/time"].tolist() == [[2.0]]


def test_a_restart_begins_with_the_first_model_of_all() -> None:
    models = paced(Halving(restart_after=2))

    taught(models, [0, 1])
    assert models.models.tolist() == [[5.0] * 3] * 2
    taught(models, [0])

    assert models.models.tolist() == [[1.0, 2.0, 3.0], [5.0] * 3]


def test_server_steps_know_the_rate_that_clients_trained_with() -> None:
    seen: list[float] = []

    class Noting:
        memory: ClassVar[Mapping[str, float]] = {}
        needs_start_loss = False

        def combine(
            self, model: Models, uploads: Uploads, memory: Mapping[str, Models]
        ) -> tuple[Models, dict[str, Models]]:
            seen.append(uploads.learning_rate)
            return model, dict(memory)

    models = ClusterModels(INITIAL, Noting(), pace=Halving())
    for _ in range(3):
        taught(models, [0])

    assert seen == pytest.approx([0.1, 0.05, 0.025])


def test_pace_follows_the_clusters_and_whoever_else_remembers_is_told() -> None:
    models, told = paced(Halving()), []

    def noted(mixing: Matrix) -> None:
        told.append(mixing.tolist())

    models.on_mix = noted
    taught(models, [0], value=8.0)
    taught(models, [0], value=8.0)
    taught(models, [1], value=4.0)

    models.mix(np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]))

    # Numbers per weight mix; how many rounds there were is that of the largest share, of equals the first.
    assert factors(models, [0, 1, 2]) == [0.5, 0.25, 0.25]
    assert models.arrays()["pace/sum"][:, 0].tolist() == [7.0, 16.0, 10.0]
    assert told == [[[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]]


def test_what_a_cluster_has_seen_follows_it_too() -> None:
    pace = Halving()
    models = paced(pace)
    taught(models, [0], interval=3)
    models.mix(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))

    taught(models, [0, 1, 2], interval=4)

    assert [int(step.has_new_data) for step in pace.shown] == [0, 1, 1, 0], "the third never trained"


@pytest.mark.parametrize("name", ["adaptive", "master-fl"])
@pytest.mark.parametrize("aggregator", ["mean", "fedyogi"])
def test_pace_that_was_written_down_goes_on_bit_for_bit(name: str, aggregator: str) -> None:
    models, again = paced(pace_named(name), aggregator=aggregator), paced(pace_named(name), 1, aggregator)
    rng = np.random.default_rng(0)
    sent = [
        replace(
            updates_of([0, 1], rng.standard_normal((2, 3)).tolist()),
            interval=at // 2,
            round_index=at,
            loss=rng.random(2),
        )
        for at in range(8)
    ]
    for one in sent[:4]:
        models.learn(one)
    again.restore({one: rows.copy() for one, rows in models.arrays().items()})

    for one in sent[4:]:
        models.learn(one)
        again.learn(one)

    assert factors(models, [0, 1]) == factors(again, [0, 1])
    found = [{one: rows.tobytes() for one, rows in which.arrays().items()} for which in (models, again)]
    assert found[0] == found[1]
    types = [{one: rows.dtype for one, rows in which.arrays().items()} for which in (models, again)]
    assert types[0] == types[1]


# ---- a shared body ---------------------------------------------------------------------------------------------


def sharing(
    n_clusters: int = 2, *, aggregator: str = "mean", weighted: bool = False, pace: Pace | None = None
) -> ClusterModels:
    """Return models of three numbers whose first two are shared."""
    models = ClusterModels(INITIAL, aggregator_named(aggregator), weighted=weighted, pace=pace, n_shared=2)
    models.mix(np.ones((n_clusters, 1)))
    return models


def bodies_are_equal(models: ClusterModels) -> bool:
    kept = [models.models, *(rows for name, rows in models.arrays().items() if name.startswith("memory/"))]
    return all((rows[:, :2] == rows[0, :2]).all() for rows in kept)


@pytest.mark.parametrize("aggregator", ["mean", "fedyogi", "median"])
@pytest.mark.parametrize("pace", [None, "adaptive", "master-fl"])
def test_one_cluster_alone_shares_with_nobody_and_changes_no_bit(aggregator: str, pace: str | None) -> None:
    options = {"weighted": True, "pace": None if pace is None else pace_named(pace, {}, seed=1)}
    plain = ClusterModels(INITIAL, aggregator_named(aggregator), **options)  # type: ignore[arg-type]
    shared = ClusterModels(INITIAL, aggregator_named(aggregator), **options, n_shared=2)  # type: ignore[arg-type]
    sent = updates_of([0, 0, 0], [[0.1, 0.7, 1.3], [1 / 3, 2.0, 0.3], [5.0, 0.0, 0.1]], [3, 1, 7])

    for interval in range(4):
        for models in (plain, shared):
            models.learn(replace(sent, interval=interval, round_index=interval))
            models.mix(np.ones((1, 1)))

    assert plain.arrays().keys() == shared.arrays().keys()
    assert all((rows == shared.arrays()[name]).all() for name, rows in plain.arrays().items())


def test_the_body_is_the_mean_over_all_answers_and_heads_are_those_of_their_clusters() -> None:
    sent = updates_of([0, 0, 1], [[0.0, 3.0, 1.0], [2.0, 3.0, 3.0], [4.0, 9.0, 8.0]], [1, 1, 6])
    plain, weighted = sharing(), sharing(weighted=True)

    for models in (plain, weighted):
        models.learn(sent)

    assert plain.models.tolist() == [[2.0, 5.0, 2.0], [2.0, 5.0, 8.0]]
    assert weighted.models.tolist() == [[3.25, 7.5, 2.0], [3.25, 7.5, 8.0]]


@pytest.mark.parametrize("aggregator", ["mean", "fedyogi", "fedadam"])
def test_who_was_not_trained_gets_the_body_and_its_memory_but_keeps_its_head(aggregator: str) -> None:
    models, alone = sharing(3, aggregator=aggregator), two_clusters(aggregator_named(aggregator))
    before = {name: rows.copy() for name, rows in models.arrays().items()}

    models.learn(updates_of([1], [[5.0, 6.0, 7.0]]))
    alone.learn(updates_of([1], [[5.0, 6.0, 7.0]]))

    assert bodies_are_equal(models)
    for name, rows in models.arrays().items():
        assert (rows[1] == alone.arrays()[name][1]).all(), "one that learned is the mean of those that did"
        assert (rows[[0, 2], 2] == before[name][[0, 2], 2]).all()


def test_mixing_keeps_bodies_equal_to_the_bit() -> None:
    models = sharing(3, aggregator="fedyogi")
    models.learn(updates_of([0, 1, 2], [[0.1, 0.7, 1.0], [1 / 3, 0.2, 2.0], [0.6, 0.9, 3.0]]))
    body = models.models[0, :2].copy()

    models.mix(np.array([[1 / 3, 1 / 3, 1 / 3], [0.1, 0.2, 0.7], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]]))

    assert bodies_are_equal(models)
    assert (models.models[:, :2] == body).all()
    assert len(set(models.models[:, 2].tolist())) == 4


def test_models_that_a_method_sets_share_their_mean_body() -> None:
    models, own = sharing(), np.array([[1.0, 0.0, 5.0], [3.0, 1.0, 6.0]], dtype=np.float32)

    models.models = own

    assert models.models.tolist() == [[2.0, 0.5, 5.0], [2.0, 0.5, 6.0]]
    assert own.tolist() == [[1.0, 0.0, 5.0], [3.0, 1.0, 6.0]], "the method's own array stays as it was"


def test_a_cluster_that_would_not_be_finite_has_no_say_in_the_body() -> None:
    models = ClusterModels(INITIAL, Doubling(), n_shared=2)
    models.mix(np.ones((2, 1)))

    models.learn(updates_of([0, 1], [[3e38, 0.0, 0.0], [1.0, 4.0, 5.0]]))
    assert models.models.tolist() == [[2.0, 8.0, 3.0], [2.0, 8.0, 10.0]]
    models.learn(updates_of([0, 1], [[3e38, 0.0, 0.0], [3e38, 4.0, 5.0]]))
    assert models.models.tolist() == [[2.0, 8.0, 3.0], [2.0, 8.0, 10.0]], "nobody learned"


def test_a_restart_leaves_what_others_share_alone() -> None:
    models = sharing(pace=Halving(restart_after=2))
    taught(models, [0, 1])

    taught(models, [0], value=6.0)

    assert models.models.tolist() == [[6.0, 6.0, 3.0], [6.0, 6.0, 5.0]]


def test_a_shared_body_that_was_written_down_goes_on_alike() -> None:
    models, again = (sharing(aggregator="fedyogi") for _ in range(2))
    models.learn(updates_of([0, 1], [[5.0, 1.0, 2.0], [0.3, 0.1, 0.7]]))
    again.restore({one: rows.copy() for one, rows in models.arrays().items()})

    for one in (models, again):
        one.learn(updates_of([0], [[4.0, 4.0, 9.0]]))

    assert all((rows == again.arrays()[name]).all() for name, rows in models.arrays().items())


@pytest.mark.parametrize("aggregator", ["mean", "flash", "fedyogi"])
def test_the_body_takes_the_step_that_one_model_for_all_would_take_from_all_answers(aggregator: str) -> None:
    models, one = sharing(2, aggregator=aggregator), ClusterModels(INITIAL, aggregator_named(aggregator))
    sent = [[0.1, 0.7, 1.0], [1 / 3, 0.2, 2.0], [0.6, 0.9, 3.0]]

    for _ in range(3):
        models.learn(updates_of([0, 0, 1], sent))
        one.learn(updates_of([0, 0, 0], sent))

    assert bodies_are_equal(models)
    np.testing.assert_array_equal(models.models[0, :2], one.models[0, :2])


# ---- a model for the clients of all clusters --------------------------------------------------------------------


def with_common(n_clusters: int, aggregator: str = "mean") -> ClusterModels:
    models = ClusterModels(INITIAL, aggregator_named(aggregator), n_shared=2, has_common=True)
    models.mix(np.ones((n_clusters, 1)))
    return models


def common_of(models: ClusterModels) -> list[float]:
    assert models.common is not None
    return [float(one) for one in models.common]


def served_by(models: ClusterModels) -> Models:
    assert models.served is not None
    return models.served


def test_answers_to_the_row_behind_the_clusters_are_those_of_the_model_for_all() -> None:
    models = with_common(2)

    models.learn(updates_of([0, 2, 2], [[0.0, 3.0, 1.0], [2.0, 3.0, 5.0], [4.0, 9.0, 8.0]]))

    assert models.models.tolist() == [[2.0, 5.0, 1.0], [2.0, 5.0, 3.0]]
    assert common_of(models) == [2.0, 5.0, 6.5]


def test_the_model_for_all_outlives_every_mixing_and_a_cluster_of_everybody_begins_with_it() -> None:
    models = with_common(2)
    models.learn(updates_of([0, 2], [[1.0, 2.0, 1.0], [1.0, 2.0, 5.0]]))

    models.mix(np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]))
    assert models.models[:, 2].tolist() == [2.0, 1.0, 3.0]
    assert common_of(models)[2] == 5.0
    models.mix(np.full((1, 3), 1 / 3))

    assert models.models.tolist() == [[1.0, 2.0, 5.0]]


def test_one_cluster_alone_trains_the_model_for_all() -> None:
    models = with_common(1)

    models.learn(updates_of([0], [[7.0, 8.0, 9.0]]))

    assert common_of(models) == [7.0, 8.0, 9.0]


def test_wiener_steps_the_model_for_all_and_flash_the_heads_of_clusters() -> None:
    models, apart = with_common(2, "wiener"), slice(2, 3)
    alone = {name: ClusterModels(INITIAL, aggregator_named(name)) for name in ("wiener", "flash")}
    body = ClusterModels(INITIAL, aggregator_named("wiener"))

    for at in range(4):
        sent = [[0.1, 0.7, 1.0 + at], [0.3, 0.2 * at, 2.0], [0.6, 0.9, 3.5]]
        models.learn(updates_of([0, 1, 2], sent))
        body.learn(updates_of([0, 0, 0], sent))
        alone["flash"].learn(updates_of([0], sent[:1]))
        alone["wiener"].learn(updates_of([0], sent[2:]))

    np.testing.assert_array_equal(models.models[0, :2], body.models[0, :2])
    np.testing.assert_array_equal(models.models[0, apart], alone["flash"].models[0, apart])
    np.testing.assert_array_equal(np.array(common_of(models))[apart], alone["wiener"].models[0, apart])


@pytest.mark.parametrize("aggregator", ["flash", "wiener"])
@pytest.mark.parametrize("pace", [None, "adaptive"])
def test_a_model_for_all_that_was_written_down_goes_on_alike(pace: str | None, aggregator: str) -> None:
    made = None if pace is None else pace_named(pace, {}, seed=1)
    models, again = (
        ClusterModels(INITIAL, aggregator_named(aggregator), pace=made, n_shared=2, has_common=True) for _ in range(2)
    )
    models.mix(np.ones((2, 1)))
    models.learn(updates_of([0, 1, 2], [[5.0, 1.0, 2.0], [0.3, 0.1, 0.7], [1.0, 1.0, 1.0]]))
    again.restore({one: rows.copy() for one, rows in models.arrays().items()})

    for one in (models, again):
        one.learn(updates_of([0, 2], [[4.0, 4.0, 9.0], [2.0, 4.0, 1.0]]))

    assert all((rows == again.arrays()[name]).all() for name, rows in models.arrays().items())
    assert common_of(models) == common_of(again)


def test_the_memory_of_heads_leaves_bodies_out_and_that_of_a_former_version_is_read() -> None:
    models, again = with_common(2, "wiener"), with_common(2, "wiener")
    models.learn(updates_of([0, 1, 2], [[5.0, 1.0, 2.0], [0.3, 0.1, 0.7], [1.0, 1.0, 1.0]]))
    written = models.arrays()
    memory = {name: rows for name, rows in written.items() if name.startswith("memory/")}
    former = {name: np.concatenate([np.full((2, 2), 9.0, np.float32), rows], axis=1) for name, rows in memory.items()}
    again.restore(written | former)

    assert {rows.shape for rows in memory.values()} == {(2, 1)}
    for one in (models, again):
        one.learn(updates_of([0, 2], [[4.0, 4.0, 9.0], [2.0, 4.0, 1.0]]))
    assert all((rows == again.arrays()[name]).all() for name, rows in models.arrays().items())


def test_clients_are_served_by_the_mean_of_the_first_models_and_then_by_a_moving_average() -> None:
    models = with_common(2)
    sent = [[float(at), 0.0, 10.0 * at] for at in range(40)]
    for at, one in enumerate(sent):
        models.learn(updates_of([0], [one]))
        if at < 10:
            np.testing.assert_allclose(served_by(models)[0], np.mean(sent[: at + 1], axis=0), rtol=1e-5)

    wanted = np.mean(sent[:10], axis=0)
    for one in sent[10:]:
        wanted = 0.9 * wanted + 0.1 * np.array(one)
    np.testing.assert_allclose(served_by(models)[0], wanted, rtol=1e-4)
    assert served_by(models)[1:, 2].tolist() == [3.0, 3.0], "whom nobody trained is served as it was"
    assert ClusterModels(INITIAL, aggregator_named("mean"), n_shared=2).served is None


def test_averages_are_mixed_like_the_models_they_are_of() -> None:
    models = with_common(2)
    models.learn(updates_of([0, 1, 2], [[1.0, 2.0, 10.0], [1.0, 2.0, 20.0], [1.0, 2.0, 30.0]]))
    models.learn(updates_of([0, 1, 2], [[1.0, 2.0, 20.0], [1.0, 2.0, 40.0], [1.0, 2.0, 60.0]]))

    models.mix(np.array([[0.5, 0.5], [0.0, 1.0]]))

    assert served_by(models)[:, 2].tolist() == [22.5, 30.0, 45.0]
    assert models.models[:, 2].tolist() == [30.0, 40.0]


@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_a_change_longer_than_usual_counts_as_one_of_the_usual_length(name: str) -> None:
    models = [ClusterModels(INITIAL, aggregator_named(name), clip=2.0) for _ in range(2)]
    honest = [[2.0, 2.0, 3.0], [1.0, 3.0, 3.0]]
    for one, last in zip(models, ([1.0, 2.0, 5.0], [1.0, 2.0, 503.0]), strict=True):
        updates = updates_of([0, 0, 0], [*honest, last])
        one.learn(replace(updates, start_loss=np.ones(3)))

    assert np.allclose(models[0].models, models[1].models, atol=1e-5)


def test_the_usual_length_of_a_change_follows_the_median_of_rounds_and_is_written_down() -> None:
    models, again = (ClusterModels(INITIAL, aggregator_named("mean"), clip=1.0) for _ in range(2))
    for length in (1.0, 2.0):
        models.learn(updates_of([0], [[1.0 + models.models[0, 0] + length - 1.0, *models.models[0, 1:].tolist()]]))
    again.restore({name: rows.copy() for name, rows in models.arrays().items()})

    assert models.arrays()["usual"] == pytest.approx([1.1])
    assert models.models[0] == pytest.approx([3.1, 2.0, 3.0])  # the second change was cut from 2 to 1.1
    for one in (models, again):
        one.learn(updates_of([0], [[50.0, 2.0, 3.0]]))
    assert (models.models == again.models).all()


def test_clusters_that_mix_share_what_is_usual() -> None:
    models = ClusterModels(INITIAL, aggregator_named("mean"), clip=1.0)
    models.mix(np.ones((3, 1)))
    models.learn(updates_of([0, 1], [[2.0, 2.0, 3.0], [1.0, 5.0, 3.0]]))

    models.mix(np.array([[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]]))

    assert models.arrays()["usual"] == pytest.approx([2.0, 1.0, 0.0])


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("name", sorted(AGGREGATORS))
def test_an_attack_on_one_cluster_leaves_the_models_of_others_as_they_are_to_the_bit(
    name: str, clip: float | None
) -> None:
    rng = np.random.default_rng(1)
    calm, attacked = (ClusterModels(INITIAL, aggregator_named(name), clip=clip) for _ in range(2))
    for one in (calm, attacked):
        one.mix(np.ones((2, 1)))
    for _ in range(5):
        change = rng.normal(size=(8, 3))
        for one, factor in ((calm, 1.0), (attacked, -10.0)):
            told = change * np.array([[factor]] * 2 + [[1.0]] * 6)
            models = (one.models[np.repeat([0, 1], 4)] + told).astype(np.float32)
            updates = updates_of([0, 0, 0, 0, 1, 1, 1, 1], models.tolist())
            one.learn(replace(updates, start_loss=np.ones(8)))

    assert (calm.models[1] == attacked.models[1]).all()
    assert (calm.models[0] != attacked.models[0]).any()


def test_the_largest_numbers_that_there_are_are_clipped_too() -> None:
    models, largest = ClusterModels(INITIAL, aggregator_named("mean"), clip=1.0), float(np.finfo(np.float32).max)
    near = [[2.0, 2.0, 3.0], [1.0, 3.0, 3.0], [1.0, 2.0, 4.0]]

    models.learn(updates_of([0] * 4, [*near, [-largest, largest, largest]]))

    assert np.linalg.norm(models.models[0] - INITIAL) < 1.0
