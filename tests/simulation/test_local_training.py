"""What clients compute: which samples, which model, how many steps, and what that costs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from fielding.simulation.answers import Circumstances, Settled, updates_of
from fielding.simulation.local_training import LocalTraining, Moment
from fielding.simulation.settings import LocalRule
from fielding.simulation.workers import Workers

from fielding.errors import InputError
from fielding.federation.clients import Pull, TrainingPlan
from fielding.rng import client_key
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.label_mix import MixKeepingTrainer
from fielding.training.rates import LearningRate
from fielding.training.trainer import Trainer
from tests.simulation.keeping import RecordingTrainer
from tests.simulation.plans import counts, plan_of, settled_as
from tests.simulation.run_cases import Sample, planted_windows

RULE = LocalRule(n_steps=2, batch_size=3, rate=LearningRate(initial=0.5))
SAYS_A = np.array([0.0, 0.0, 5.0, 0.0], dtype=np.float32)
SAYS_B = np.array([0.0, 0.0, 0.0, 5.0], dtype=np.float32)
"""Softmax models of one feature: two weights, two biases."""
ROUND = 1


def windows() -> SlidingWindows:
    """Return an a a round for client 0, two b for client 1, and nothing but the first round's a for client 2."""
    samples = [
        Sample(client=client, interval=at, label=int(client == 1), value=float(at + 1))
        for client, n_samples in ((0, 1), (1, 2), (2, 1))
        for at in range(4)
        if client < 2 or at == 0
        for _ in range(n_samples)
    ]
    return planted_windows(samples, n_clients=3, plan=WindowPlan(gap=1, window=2), n_intervals=4)


def softmax() -> Trainer:
    return trainer_for(ModelRequest(name="softmax", input_shape=(1,), n_classes=2))


def with_hidden_layer() -> Trainer:
    """Return a trainer of models of 10 numbers, for losses that look at what goes into the last layer."""
    return trainer_for(ModelRequest(name="mlp", hidden=2, input_shape=(1,), n_classes=2))


def initial_models(clients: list[int]) -> TrainingPlan:
    return plan_of(clients, models=with_hidden_layer().initial_model(1)[np.newaxis])


def local_training(rule: LocalRule = RULE, *, trainer: Trainer | None = None) -> LocalTraining:
    keys = np.array([client_key(one) for one in range(3)], dtype=np.uint64)
    return LocalTraining(windows(), Workers(trainer or softmax(), 1), rule, seed=1, keys=keys)


def now(round_index: int = ROUND) -> Moment:
    return Moment(round_index=round_index, training=windows().training(round_index))


def two_models(clients: list[int], start: list[int] | None = None) -> TrainingPlan:
    return plan_of(clients, models=np.stack([SAYS_A, SAYS_B]), start=start)


def all_kept(plan: TrainingPlan) -> Settled:
    return settled_as(plan, [""] * plan.clients.size)


# ---- which samples ---------------------------------------------------------------------------------------------


def test_a_job_has_the_samples_of_its_window() -> None:
    samples = local_training().samples(now(), counts([1, 0, 2, 1]), None)

    assert samples.sizes.tolist() == [4, 2, 0, 4], "windows show two intervals; that of client 2 has passed"


def test_a_job_may_name_intervals_that_its_window_shows_no_more() -> None:
    samples = local_training().samples(now(), counts([2, 1, 0]), [counts([0]), counts([0, 2]), counts([])])

    assert samples.sizes.tolist() == [1, 4, 0]


@pytest.mark.parametrize("blocks", [[3], [0, 3], [-1]])
def test_nobody_trains_on_what_has_not_come(blocks: list[int]) -> None:
    with pytest.raises(InputError, match="an interval that has not come; the newest is 2"):
        local_training().samples(now(), counts([1]), [counts(blocks)])


# ---- which model -----------------------------------------------------------------------------------------------


def test_losses_are_means_over_each_jobs_samples_and_none_without() -> None:
    local = local_training()
    samples = local.samples(now(), counts([0, 1, 2]), None)

    losses = local.losses(samples, np.stack([SAYS_A, SAYS_B]))
    right = local.accuracies(samples, np.stack([SAYS_A, SAYS_B]))

    wrong, little = np.log1p(np.exp(5.0)), np.log1p(np.exp(-5.0))
    assert losses[:2] == pytest.approx(np.array([[little, wrong], [wrong, little]]), rel=1e-5)
    assert right[:2].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert np.isnan(losses[2]).all()
    assert np.isnan(right[2]).all()


def test_only_jobs_that_count_choose_and_they_take_the_model_that_fits() -> None:
    local = local_training()
    plan = replace(two_models([1, 0, 1], [0, 1, 0]), chooses=True)
    samples = local.samples(now(), plan.clients, None)

    start = local.chosen(plan, counts([0, 1]), samples)

    assert start.tolist() == [1, 0, 0]
    assert plan.start.tolist() == [0, 1, 0]


def test_equally_good_models_are_chosen_in_their_order_and_a_broken_one_never() -> None:
    local = local_training()
    broken = np.full(4, np.nan, dtype=np.float32)
    plan = replace(plan_of([1], models=np.stack([broken, SAYS_A, SAYS_B, SAYS_B])), chooses=True)

    assert local.chosen(plan, counts([0]), local.samples(now(), plan.clients, None)).tolist() == [2]


@pytest.mark.parametrize(
    "change", [lambda plan: plan, lambda plan: replace(plan, chooses=True, models=plan.models[:1])]
)
def test_without_a_choice_jobs_start_as_planned(change: Callable[[TrainingPlan], TrainingPlan]) -> None:
    plan = change(two_models([1, 0], [0, 0]))

    assert local_training().chosen(plan, counts([0, 1]), now().training) is plan.start


# ---- how much --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_steps", "steps"), [(None, [2, 2, 2]), (5, [5, 5, 5]), (counts([1, 4, 2]), [1, 4, 2])])
def test_steps_are_those_of_the_rule_unless_the_plan_says_otherwise(
    n_steps: int | np.ndarray | None, steps: list[int]
) -> None:
    plan = replace(two_models([0, 1, 0]), n_steps=n_steps)
    local = local_training()

    assert local.steps(plan).tolist() == steps
    train_samples = np.asarray(local.costs(plan, counts([2, 4, 2]), ROUND).train_samples)
    assert train_samples.tolist() == [3 * count for count in steps]


def test_contrast_costs_two_more_models_but_only_who_has_trained_and_no_probe() -> None:
    local = local_training(replace(RULE, moon=1.0), trainer=with_hidden_layer())
    plan, sizes = initial_models([0, 1]), counts([2, 4])
    before = np.asarray(local.costs(plan, sizes, ROUND).forward_samples).tolist()

    local.train(all_kept(initial_models([1])), local.samples(now(), counts([1]), None), ROUND)

    assert before == [0, 0]
    # Two models on 2 steps of 3 samples.
    assert np.asarray(local.costs(plan, sizes, ROUND).forward_samples).tolist() == [0, 12]
    probe = replace(plan, is_probe=True)
    assert np.broadcast_to(local.costs(probe, sizes, ROUND).forward_samples, (2,)).tolist() == [0, 0]


# ---- training --------------------------------------------------------------------------------------------------


def test_jobs_with_different_steps_train_as_if_each_were_alone() -> None:
    plan = replace(two_models([0, 1, 0, 1], [0, 1, 1, 0]), n_steps=counts([1, 3, 3, 2]))
    local = local_training()
    together = local.train(all_kept(plan), local.samples(now(), plan.clients, None), ROUND)

    for job in range(4):
        alone = two_models([int(plan.clients[job])], [int(plan.start[job])])
        own = local_training(replace(RULE, n_steps=[1, 3, 3, 2][job]))
        one = own.train(all_kept(alone), own.samples(now(), alone.clients, None), ROUND)
        assert together.models[job] == pytest.approx(one.models[0], abs=1e-6)
        assert together.loss[job] == pytest.approx(one.loss[0], rel=1e-5)
        assert together.square_loss[job] == pytest.approx(one.square_loss[0], rel=1e-5)


def test_only_jobs_that_count_are_done() -> None:
    recorder = RecordingTrainer(inner=softmax())
    local, plan = local_training(trainer=recorder), two_models([0, 1, 0], [0, 1, 1])

    done = local.train(settled_as(plan, ["straggler", "", ""]), local.samples(now(), plan.clients, None), ROUND)

    assert done.models.shape == (2, 4)
    assert [work.start.tolist() for work in recorder.asked] == [[1, 1]]


def test_nobody_trains_nothing() -> None:
    local, plan = local_training(), two_models([0])

    done = local.train(settled_as(plan, ["offline"]), local.samples(now(), plan.clients, None), ROUND)

    assert (done.models.shape, done.loss.shape, done.square_loss.shape) == ((0, 4), (0,), (0,))


def test_rates_are_those_of_jobs_or_of_the_models_that_they_chose() -> None:
    recorder = RecordingTrainer(inner=softmax())
    local, plan = local_training(trainer=recorder), two_models([0, 1, 1], [0, 1, 1])
    samples = local.samples(now(), plan.clients, None)
    by_job, by_model = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.25])

    local.train(settled_as(replace(plan, rate_factors=by_job), ["", "offline", ""]), samples, ROUND)
    local.train(settled_as(replace(plan, rate_factors=by_model, chooses=True), ["", "offline", ""]), samples, ROUND)

    found = [work.rate_factors for work in recorder.asked]
    assert [None if rates is None else rates.tolist() for rates in found] == [[0.1, 0.3], [0.5, 0.25]]


def test_every_job_is_pulled_toward_its_own_anchor() -> None:
    recorder = RecordingTrainer(inner=softmax())
    local = local_training(trainer=recorder)
    pull = Pull(anchors=np.zeros((3, 4), dtype=np.float32), row=counts([2, 0, 1]), strength=np.ones(4))
    plan = replace(two_models([0, 1, 0]), pull=pull, n_steps=counts([2, 1, 1]))

    local.train(settled_as(plan, ["", "offline", ""]), local.samples(now(), plan.clients, None), ROUND)

    found = [work.pull for work in recorder.asked]
    assert [None if one is None else one.row.tolist() for one in found] == [[1], [2]], "one step first, then two"


def test_the_loss_before_training_is_that_of_the_model_each_started_from() -> None:
    local = local_training()
    plan = replace(two_models([0, 1, 1], [1, 0, 1]), with_start_loss=True)
    samples, settled = local.samples(now(), plan.clients, None), settled_as(plan, ["", "offline", ""])
    shared = Circumstances(n_parameters=4, learning_rate=0.5, round_index=ROUND, interval=2)
    updates = updates_of(settled, local.train(settled, samples, ROUND), samples.sizes, shared)

    told = local.with_start_loss(updates, plan, samples)

    assert told.start_loss is not None
    # Client 0 has a and started from b; client 1 has b and started from b.
    assert told.start_loss == pytest.approx(np.log1p(np.exp([5.0, -5.0])), rel=1e-5)
    assert local.with_start_loss(updates, replace(plan, with_start_loss=False), samples) is updates


# ---- what clients keep -----------------------------------------------------------------------------------------


def test_nothing_is_kept_unless_the_rule_asks_for_it() -> None:
    local = local_training()

    assert local.arrays() == {}
    local.restore({"anything": np.zeros(1)})
    assert local.arrays() == {}


@pytest.mark.parametrize("rule", [replace(RULE, moon=1.0), replace(RULE, rehearsal=True)])
def test_what_clients_keep_comes_back_bit_for_bit(rule: LocalRule) -> None:
    local, again = (local_training(rule, trainer=with_hidden_layer()) for _ in range(2))
    plan = initial_models([0, 1])
    settled = all_kept(plan)
    at_hand = local.at_hand(settled, local.samples(now(), plan.clients, None), ROUND)
    local.train(settled, at_hand, ROUND)
    kept = {name: array.copy() for name, array in local.arrays().items()}

    again.restore(kept)

    assert kept
    assert {name: array.tobytes() for name, array in again.arrays().items()} == {
        name: array.tobytes() for name, array in kept.items()
    }


def test_a_probe_leaves_nothing_behind() -> None:
    local = local_training(replace(RULE, moon=1.0))
    plan = replace(two_models([0, 1]), is_probe=True)

    local.train(all_kept(plan), local.samples(now(), plan.clients, None), ROUND)

    assert local.keepsakes is not None
    assert not local.keepsakes.has(counts([0, 1])).any()


@pytest.mark.parametrize("change", [{"is_probe": True}, {"blocks": [counts([1]), counts([2])]}])
def test_rehearsal_has_no_part_in_probes_nor_where_the_plan_names_samples(change: dict[str, object]) -> None:
    local = local_training(replace(RULE, rehearsal=True))
    plan = replace(two_models([0, 1]), **change)  # type: ignore[arg-type]
    samples = local.samples(now(), plan.clients, plan.blocks)

    assert local.at_hand(all_kept(plan), samples, ROUND) is samples
    assert np.broadcast_to(local.costs(plan, samples.sizes, ROUND).forward_samples, (2,)).tolist() == [0, 0]


# ---- labels that training knows of -----------------------------------------------------------------------------


def label_terms(
    rule: LocalRule, plan: TrainingPlan, *, keeps_mixes: bool = False
) -> tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.float32] | None]:
    """Return the offsets and mixes that a plan is worked on with."""
    inner = MixKeepingTrainer(softmax(), 2, rate=0.5, is_balanced=False) if keeps_mixes else softmax()
    trainer = RecordingTrainer(inner=inner)
    local = local_training(rule, trainer=trainer)
    models = np.zeros((1, trainer.layout.size), dtype=np.float32)
    plan = replace(plan, models=models, start=np.zeros_like(plan.clients))
    local.train(all_kept(plan), local.samples(now(), plan.clients, plan.blocks), ROUND)
    return trainer.asked[0].offsets, trainer.asked[0].mixes


def test_plain_training_knows_nothing_of_mixes() -> None:
    assert label_terms(RULE, two_models([0, 1])) == (None, None)


@pytest.mark.parametrize("is_probe", [False, True])
def test_balanced_training_adds_the_smoothed_mix_inside_the_loss(is_probe: bool) -> None:
    plan = replace(two_models([0, 1]), is_probe=is_probe)

    offsets, mixes = label_terms(replace(RULE, balanced=True), plan)

    # Client 0 has two a, client 1 four b; each class counts half a sample more.
    assert offsets is not None
    assert np.exp(offsets) == pytest.approx(np.array([[2.5 / 3, 0.5 / 3], [0.5 / 5, 4.5 / 5]]))
    assert mixes is None, "nobody keeps track"


def test_models_that_carry_a_mix_are_told_that_of_the_samples() -> None:
    offsets, mixes = label_terms(RULE, two_models([1, 0, 1]), keeps_mixes=True)

    assert offsets is None
    assert mixes is not None
    assert mixes.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


def test_jobs_that_name_their_samples_have_the_mix_of_these() -> None:
    plan = replace(two_models([2, 1]), blocks=[counts([0]), counts([0, 1])])

    offsets, mixes = label_terms(replace(RULE, balanced=True), plan, keeps_mixes=True)

    assert mixes is not None
    assert mixes.tolist() == [[1.0, 0.0], [0.0, 1.0]], "the window of client 2 is empty by now"
    assert offsets is not None
    assert np.exp(offsets[0]) == pytest.approx([0.75, 0.25])
