"""A device that judges models: on its window or on samples of long ago, with Fielding's code or the user's own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fielding.flower.device.local_jobs import JobSettings

from fielding._typing import Models
from fielding.errors import InputError, OptionError
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import memory_rounds, own_drift_test
from fielding.flower.device.samples import Fitted, Job, Samples, Scored, Tensors
from fielding.flower.wire.orders import (
    Block,
    DescribeReply,
    OrderedPull,
    ProbeOrder,
    ProbeReply,
    TrainOrder,
    TrainReply,
    Wanted,
)
from tests.flower.devices import RULE, SETTINGS, TRAINER, Diary, device, samples, train

ZEROS, TENS = np.zeros(6, dtype=np.float32), np.zeros(6, dtype=np.float32)
TENS[[0, 3]] = 10.0
"""A model that knows nothing, and one that knows the samples of these tests."""


def probe(
    round_index: int, *models: Models, wanted: Wanted = "losses", blocks: tuple[Block, ...] = (None,)
) -> ProbeOrder:
    return ProbeOrder(
        run_id="run",
        round_index=round_index,
        seed=7,
        wanted=wanted,
        models=models,
        layout=TRAINER.layout,
        settings=SETTINGS,
        blocks=blocks,
    )


def answer(folder: Path, diary: Diary, order: ProbeOrder) -> ProbeReply:
    reply = device(folder, diary, replace(RULE, memory_rounds=10)).answer(order)
    assert isinstance(reply, ProbeReply)
    return reply


def test_a_question_is_about_training_samples_alone(tmp_path: Path) -> None:
    reply = answer(tmp_path, Diary({0: samples([0, 1, 1, 1], n_test=1)}), probe(0, ZEROS, TENS))
    assert reply.sizes.tolist() == [3]
    assert reply.values[0, 0] == pytest.approx(np.log(2))
    assert reply.values[0, 1] < 0.01


def test_samples_of_long_ago_are_found_by_their_intervals(tmp_path: Path) -> None:
    diary = Diary({at: samples([0] * (at + 1)) for at in range(5)})
    for at in range(5):
        reply = answer(tmp_path, diary, probe(at, wanted="sizes", blocks=(None, (0,), (0, 2), (9,), ())))
    # The window is of two rounds. An interval is a round; that of round 0 counts as the first, and so does round 1.
    assert reply.sizes.tolist() == [9, 3, 7, 0, 0]
    assert reply.values.shape == (5, 0)


def test_what_left_the_window_is_neither_trained_nor_told_unless_it_is_asked_for(tmp_path: Path) -> None:
    diary = Diary({at: samples([at % 2] * 2, n_test=1) for at in range(4)})
    rule = replace(RULE, memory_rounds=10)
    for at in range(4):
        reply = device(tmp_path, diary, rule).answer(train(at))
    assert isinstance(reply, TrainReply)
    assert reply.n_samples == 2
    assert reply.report is not None
    assert reply.report.n_samples == 2
    old = device(tmp_path, diary, rule).answer(replace(train(3), block=(0,)))
    assert isinstance(old, TrainReply)
    assert old.n_samples == 2  # of rounds 0 and 1
    forgotten = device(tmp_path, diary, rule).answer(replace(train(3), block=(7,)))
    assert isinstance(forgotten, DescribeReply)


def test_a_device_throws_away_what_it_need_not_remember(tmp_path: Path) -> None:
    diary = Diary({at: samples([0]) for at in range(6)})
    for at in range(6):
        reply = device(tmp_path, diary, replace(RULE, memory_rounds=1)).answer(
            probe(at, wanted="sizes", blocks=((0, 1, 2, 3, 4),))
        )
    assert isinstance(reply, ProbeReply)
    assert reply.sizes.tolist() == [3]  # two rounds of the window, and one more


def test_a_model_that_diverged_is_worse_than_any(tmp_path: Path) -> None:
    broken = np.full(6, np.nan, dtype=np.float32)
    reply = answer(tmp_path, Diary({0: samples([0, 1])}), probe(0, broken, ZEROS))
    assert reply.values[0, 0] == np.inf


def choice(*others: Models) -> TrainOrder:
    return replace(train(0), others=others, rate_factors=(1.0, *(0.5 for _ in others)))


def test_of_several_models_the_best_is_trained_at_its_own_rate(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1])})
    reply = device(tmp_path / "choosing", diary).answer(choice(TENS, TENS))
    assert isinstance(reply, TrainReply)
    assert reply.start == 1  # the first of two that serve it equally well
    settings = JobSettings(
        client="phone", classes=2, model="softmax", batch_size=2, learning_rate=0.5, rate_factor=0.5
    ).record()
    alone = device(tmp_path / "alone", diary).answer(replace(train(0), model=TENS, settings=settings))
    assert isinstance(alone, TrainReply)
    assert alone.start is None
    assert reply.model.tolist() == alone.model.tolist()


def test_a_choice_that_is_asked_for_again_is_answered_without_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary = Diary({0: samples([0, 1])})
    once = device(tmp_path, diary).answer(choice(TENS))
    monkeypatch.setattr(
        "fielding.flower.device.training.trained_here", lambda *_order, **_how: pytest.fail("it trained again")
    )
    again = device(tmp_path, diary).answer(choice(TENS))
    assert isinstance(once, TrainReply)
    assert isinstance(again, TrainReply)
    assert (again.start, again.model.tolist()) == (once.start, once.model.tolist())


def own(diary: Diary) -> OwnCode:
    def fit(model: Tensors, _given: Samples, _job: Job) -> Fitted:
        return Fitted(model, 1, 0.5)

    def evaluate(model: Tensors, given: Samples) -> Scored:
        first = float(next(iter(model.values())).ravel()[0])
        return Scored(len(given), 0, 20.0 - first)

    return OwnCode(load_data=diary.load, train=fit, evaluate=evaluate)


def test_the_users_own_evaluate_judges_models_where_she_has_one(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1])})
    reply = device(tmp_path, diary, own=own(diary)).answer(probe(0, ZEROS, TENS))
    assert isinstance(reply, ProbeReply)
    assert reply.values.tolist() == [[20.0, 10.0]]
    chosen = device(tmp_path, diary, own=own(diary)).answer(choice(TENS))
    assert isinstance(chosen, TrainReply)
    assert (chosen.start, chosen.model.tolist()) == (1, TENS.tolist())


def test_her_own_training_cannot_be_pulled(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1])})
    pulled = replace(train(0), pull=OrderedPull(anchor=ZEROS, runs=((6, 0.1),)))
    with pytest.raises(InputError, match="which one's own train cannot do"):
        device(tmp_path, diary, own=own(diary)).answer(pulled)


@pytest.mark.parametrize("rounds", [-1, 1.5, "all", 2**31, True])
def test_how_long_samples_are_kept_is_a_number_of_rounds(rounds: int) -> None:
    with pytest.raises(OptionError, match=r"memory-rounds is .* give a whole number of rounds"):
        memory_rounds({"memory-rounds": rounds})


@pytest.mark.parametrize("name", ["static", "fielding", "mine:Method", "nonsense", None])
def test_most_methods_take_the_drift_test_of_the_coordinator(name: str | None) -> None:
    assert own_drift_test({"method.name": name}) is None
