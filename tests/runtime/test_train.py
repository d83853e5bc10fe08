"""What clients compute in a round: which samples, which model, how many steps, and what they keep of it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from fielding._typing import Codes, Counts, Features
from fielding.errors import InputError
from fielding.federation.clients import Pull, TrainingPlan
from fielding.runtime.runtime import ClientRuntime
from fielding.runtime.train import LocalRule
from fielding.traces.histograms import WindowPlan
from fielding.traces.sliding import SlidingWindows
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.label_mix import LabelMixTrainer
from fielding.training.trainer import LearningRate, Trainer
from tests.runtime.plans import RecordingTrainer, counts, plan_of, runtime_of, softmax_trainer
from tests.simulation.run_cases import Sample, planted_windows

RULE = LocalRule(n_steps=2, batch_size=3, rate=LearningRate(initial=0.5))
SAYS_A = np.array([0.0, 0.0, 5.0, 0.0], dtype=np.float32)
SAYS_B = np.array([0.0, 0.0, 0.0, 5.0], dtype=np.float32)
"""Softmax models of one feature: two weights, two biases."""


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


def with_hidden_layer() -> Trainer:
    """Return a trainer of models of 10 numbers, for losses that look at what goes into the last layer."""
    return trainer_for(ModelRequest(name="mlp", hidden=2, input_shape=(1,), n_classes=2))


def runtime(rule: LocalRule = RULE, *, trainer: Trainer | None = None) -> ClientRuntime:
    """Return the clients in the second round, whose windows show the second and third interval."""
    return runtime_of(windows(), trainer or softmax_trainer(), rule, round_index=1)


def two_models(clients: list[int], start: list[int] | None = None) -> TrainingPlan:
    return plan_of(clients, models=np.stack([SAYS_A, SAYS_B]), start=start)


def initial_models(clients: list[int]) -> TrainingPlan:
    return plan_of(clients, models=with_hidden_layer().initial_model(1)[np.newaxis])


# ---- which samples ---------------------------------------------------------------------------------------------


def test_a_job_has_the_samples_of_its_window() -> None:
    samples = runtime().samples(counts([1, 0, 2, 1]), None)

    assert samples.sizes.tolist() == [4, 2, 0, 4], "windows show two intervals; that of client 2 has passed"


def test_a_job_may_name_intervals_that_its_window_shows_no_more() -> None:
    samples = runtime().samples(counts([2, 1, 0]), [counts([0]), counts([0, 2]), counts([])])

    assert samples.sizes.tolist() == [1, 4, 0]


@pytest.mark.parametrize("blocks", [[3], [0, 3], [-1]])
def test_nobody_trains_on_what_has_not_come(blocks: list[int]) -> None:
    with pytest.raises(InputError, match="an interval that has not come; the newest is 2"):
        runtime().samples(counts([1]), [counts(blocks)])


def test_new_samples_are_those_of_the_round_and_at_first_of_the_newest_interval() -> None:
    clients = runtime()
    late = clients.has_new().tolist()
    clients.begin(0)

    assert late == [True, True, False]
    assert clients.has_new().tolist() == [True, True, False], "the first window shows two; client 2 has the older one"


# ---- which model -----------------------------------------------------------------------------------------------


def test_losses_are_means_over_each_jobs_samples_and_none_without() -> None:
    clients, models, everyone = runtime(), np.stack([SAYS_A, SAYS_B]), counts([0, 1, 2])
    samples = clients.samples(everyone, None)

    losses, right = clients.losses(everyone, models, samples), clients.accuracies(models, samples)

    wrong, little = np.log1p(np.exp(5.0)), np.log1p(np.exp(-5.0))
    assert losses[:2] == pytest.approx(np.array([[little, wrong], [wrong, little]]), rel=1e-5)
    assert right[:2].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert np.isnan(losses[2]).all()
    assert np.isnan(right[2]).all()


def test_only_jobs_that_count_choose_and_they_take_the_model_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, plan = runtime(), replace(two_models([1, 1, 0], [0, 0, 1]), chooses=True)
    store, read = clients.store, set[int]()
    gather = store.gather

    def watched(rows: Counts) -> tuple[Features, Codes]:
        read.update(store.owners(rows).tolist())
        return gather(rows)

    monkeypatch.setattr(store, "gather", watched)

    assert clients.train(plan, counts([0, 1])).start.tolist() == [1, 1]
    assert read == {1}, "who is late does not even look"
    assert clients.train(plan).start.tolist() == [1, 1, 0]
    assert plan.start.tolist() == [0, 0, 1]


def test_equally_good_models_are_chosen_in_their_order_and_a_broken_one_never() -> None:
    broken = np.full(4, np.nan, dtype=np.float32)
    plan = replace(plan_of([1], models=np.stack([broken, SAYS_A, SAYS_B, SAYS_B])), chooses=True)

    assert runtime().train(plan).start.tolist() == [2]


@pytest.mark.parametrize(
    "change", [lambda plan: plan, lambda plan: replace(plan, chooses=True, models=plan.models[:1])]
)
def test_without_a_choice_jobs_start_as_planned(change: Callable[[TrainingPlan], TrainingPlan]) -> None:
    assert runtime().train(change(two_models([1, 0], [0, 0]))).start.tolist() == [0, 0]


# ---- how much --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_steps", "steps"), [(None, [2, 2, 2]), (5, [5, 5, 5]), (counts([1, 4, 2]), [1, 4, 2])])
def test_steps_are_those_of_the_rule_unless_the_plan_says_otherwise(
    n_steps: int | np.ndarray | None, steps: list[int]
) -> None:
    assert RULE.steps(replace(two_models([0, 1, 0]), n_steps=n_steps)).tolist() == steps


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        ({}, [0, 0]),
        ({"chooses": True}, [4, 8]),
        ({"with_start_loss": True}, [2, 4]),
        ({"with_start_loss": True, "chooses": True}, [4, 8]),
        ({"chooses": True, "models": SAYS_A[np.newaxis]}, [0, 0]),
    ],
)
def test_a_choice_takes_a_pass_under_each_model_and_knows_the_loss_before_training(
    change: dict[str, object], passes: list[int]
) -> None:
    plan = replace(two_models([0, 1]), **change)  # type: ignore[arg-type]

    assert runtime().passes(plan, counts([2, 4])).tolist() == passes


def test_contrast_takes_two_more_models_but_only_who_has_trained_and_no_probe() -> None:
    clients = runtime(replace(RULE, moon=1.0), trainer=with_hidden_layer())
    plan, sizes = initial_models([0, 1]), counts([2, 4])
    before = clients.passes(plan, sizes).tolist()

    clients.train(initial_models([1]))

    assert before == [0, 0]
    # Two models on 2 steps of 3 samples.
    assert clients.passes(plan, sizes).tolist() == [0, 12]
    assert clients.passes(replace(plan, with_start_loss=True), sizes).tolist() == [2, 16], "on top of the others"
    assert clients.passes(replace(plan, is_probe=True), sizes).tolist() == [0, 0]


# ---- training --------------------------------------------------------------------------------------------------


def test_jobs_with_different_steps_train_as_if_each_were_alone() -> None:
    plan = replace(two_models([0, 1, 0, 1], [0, 1, 1, 0]), n_steps=counts([1, 3, 3, 2]))
    together = runtime().train(plan)

    for job, n_steps in enumerate([1, 3, 3, 2]):
        alone = two_models([int(plan.clients[job])], [int(plan.start[job])])
        one = runtime(replace(RULE, n_steps=n_steps)).train(alone)
        assert together.models[job] == pytest.approx(one.models[0], abs=1e-6)
        assert together.loss[job] == pytest.approx(one.loss[0], rel=1e-5)
        assert together.square_loss[job] == pytest.approx(one.square_loss[0], rel=1e-5)


def test_only_jobs_that_count_are_done_and_by_default_all_that_have_samples() -> None:
    recorder = RecordingTrainer()
    clients, plan = runtime(trainer=recorder), two_models([0, 2, 1, 0], [0, 1, 1, 1])

    some, everyone = clients.train(plan, counts([2, 3])), clients.train(plan)

    assert (some.jobs.tolist(), everyone.jobs.tolist()) == ([2, 3], [0, 2, 3])
    assert [work.start.tolist() for work in recorder.asked] == [[1, 1], [0, 1, 1]]


def test_rates_are_those_of_jobs_or_of_the_models_that_they_chose() -> None:
    recorder = RecordingTrainer()
    clients, plan, done = runtime(trainer=recorder), two_models([0, 1, 1], [1, 0, 1]), counts([0, 2])
    by_job, by_model = np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.25])

    clients.train(replace(plan, rate_factors=by_job), done)
    clients.train(replace(plan, rate_factors=by_model, chooses=True), done)

    found = [work.rate_factors for work in recorder.asked]
    # Client 0 has a and chooses the first model, although the plan names the second.
    assert [None if rates is None else rates.tolist() for rates in found] == [[0.1, 0.3], [0.5, 0.25]]


def test_every_job_is_pulled_toward_its_own_anchor() -> None:
    recorder = RecordingTrainer()
    pull = Pull(anchors=np.zeros((3, 4), dtype=np.float32), row=counts([2, 0, 1]), strength=np.ones(4))
    plan = replace(two_models([0, 1, 0]), pull=pull, n_steps=counts([2, 1, 1]))

    runtime(trainer=recorder).train(plan, counts([0, 2]))

    found = [work.pull for work in recorder.asked]
    assert [None if one is None else one.row.tolist() for one in found] == [[1], [2]], "one step first, then two"


def test_the_loss_before_training_is_that_of_the_model_each_started_from() -> None:
    clients, plan = runtime(), two_models([0, 1, 1], [1, 0, 1])

    told = clients.train(replace(plan, with_start_loss=True), counts([0, 2])).start_loss
    chosen = clients.train(replace(plan, with_start_loss=True, chooses=True)).start_loss

    assert told is not None
    # Client 0 has a and started from b; client 1 has b and started from b.
    assert told == pytest.approx(np.log1p(np.exp([5.0, -5.0])), rel=1e-5)
    assert chosen is not None
    assert chosen == pytest.approx([np.log1p(np.exp(-5.0))] * 3, rel=1e-5)
    assert clients.train(plan).start_loss is None


# ---- what clients keep -----------------------------------------------------------------------------------------


def test_nothing_is_kept_unless_the_rule_asks_for_it() -> None:
    clients = runtime()
    clients.train(two_models([0, 1]))

    clients.restore({"anything": np.zeros(1)})

    assert clients.arrays() == {}


@pytest.mark.parametrize("rule", [replace(RULE, moon=1.0), replace(RULE, rehearsal=True)])
def test_what_clients_keep_comes_back_bit_for_bit(rule: LocalRule) -> None:
    clients, again = (runtime(rule, trainer=with_hidden_layer()) for _ in range(2))
    clients.train(initial_models([0, 1]))
    kept = {name: array.copy() for name, array in clients.arrays().items()}

    again.restore(kept)

    assert kept
    assert {name: array.tobytes() for name, array in again.arrays().items()} == {
        name: array.tobytes() for name, array in kept.items()
    }


def test_a_probe_leaves_nothing_behind_and_is_trained_without_contrast() -> None:
    recorder = RecordingTrainer()
    clients, plan = runtime(replace(RULE, moon=1.0), trainer=recorder), replace(two_models([0, 1]), is_probe=True)

    clients.train(plan)

    assert [array.size for array in clients.arrays().values()] == [0, 0]
    assert [work.contrast for work in recorder.asked] == [None]


# ---- labels that training knows of -----------------------------------------------------------------------------


def label_terms(
    rule: LocalRule, plan: TrainingPlan, *, keeps_mixes: bool = False
) -> tuple[npt.NDArray[np.float32] | None, npt.NDArray[np.float32] | None]:
    """Return the offsets and mixes that a plan is worked on with."""
    plain = softmax_trainer()
    inner = LabelMixTrainer(plain, 2, rate=0.5, is_balanced=False) if keeps_mixes else plain
    trainer = RecordingTrainer(inner=inner)
    models = np.zeros((1, trainer.layout.size), dtype=np.float32)
    runtime(rule, trainer=trainer).train(replace(plan, models=models, start=np.zeros_like(plan.clients)))
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
