"""What a device trains on, keeps and sends: each order is answered alike however often it comes."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding.client.rehearsal import PER_LABEL
from fielding.errors import InputError
from fielding.federation.clients import Pull
from fielding.flower.device.device import Device
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.state import MEMORY, STATE, TRAINED, read_memory, run_folder
from fielding.flower.server.exchange import Task
from fielding.flower.wire.orders import DescribeReply, Refusal, Reply, TrainOrder, TrainReply, WorkRule
from fielding.runtime.own_code import Embedded, Fitted, Job, Samples, Scored, Tensors
from fielding.runtime.serve import Serving
from fielding.runtime.train import LocalTraining
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.label_mix import append_even_mix, extend_layout
from tests.flower.devices import LOCAL, RULE, TRAINER, WORK, Diary, device, one_job, samples, train
from tests.flower.simulated_wire import exchange_with

pytest.importorskip("flwr", reason="the flower extra is not installed")

from fielding.flower.wire.messages import reply_from, reply_records
from tests.flower.mail import EXPECTED
from tests.flower.spoiling import sent

ZEROS, TENS = np.zeros(6, dtype=np.float32), np.zeros(6, dtype=np.float32)
TENS[[0, 3]] = 10.0
"""A model that knows nothing, and one that knows the samples of these tests."""
BY_INTERVALS = replace(RULE, phase=1)
"""Interval and round are the same, from 0."""


def trained(found: Reply) -> TrainReply:
    assert isinstance(found, TrainReply)
    return found


def model(found: Reply) -> list[float]:
    numbers: list[float] = trained(found).updates.models[0].tolist()
    return numbers


def work(**local: Any) -> WorkRule:
    return replace(WORK, local=replace(LOCAL, **local))


# ---- which samples, which model, which numbers -----------------------------------------------------------------------


def test_what_left_the_window_is_neither_trained_nor_told_unless_it_is_asked_for(tmp_path: Path) -> None:
    diary = Diary({at: samples([at % 2] * 2, n_test=1) for at in range(4)})
    rule = replace(BY_INTERVALS, memory_rounds=10)
    for at in range(4):
        found = trained(device(tmp_path, diary, rule).answer(train(at)))

    assert found.n_samples == 2
    assert found.report is not None
    assert found.report.n_samples == 2
    for block, n_samples in (([1], 1), ([0, 1, 3], 3)):
        old = device(tmp_path, diary, rule).answer(train(3, blocks=[np.array(block)]))
        assert trained(old).n_samples == n_samples
    nothing = device(tmp_path, diary, rule).answer(train(3, blocks=[np.array([], dtype=np.int64)]))
    assert isinstance(nothing, DescribeReply)
    assert nothing.n_samples == 2


def test_samples_of_a_block_that_a_device_has_thrown_away_are_none(tmp_path: Path) -> None:
    diary = Diary({at: samples([0, 1]) for at in range(4)})
    for at in range(4):
        device(tmp_path, diary, BY_INTERVALS).answer(train(at))

    assert isinstance(device(tmp_path, diary, BY_INTERVALS).answer(train(3, blocks=[np.array([0])])), DescribeReply)


def choice(*models: np.ndarray, **wishes: Any) -> TrainOrder:
    factors = np.array([1.0, *(0.5 for _ in models[1:])])
    return train(0, plan=one_job(np.stack(models), chooses=True, rate_factors=factors, **wishes))


def test_of_several_models_the_best_is_trained_at_its_own_rate(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1])})
    found = device(tmp_path / "choosing", diary).answer(choice(ZEROS, TENS, TENS))
    alone = device(tmp_path / "alone", diary).answer(train(0, model=TENS, rate_factors=np.array([0.5])))

    assert trained(found).updates.start.tolist() == [1], "the first of two that serve it equally well"
    assert trained(alone).updates.start.tolist() == [-1], "there was nothing to choose"
    assert model(found) == model(alone)


def test_of_a_part_that_is_wanted_the_server_makes_a_whole_model(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1, 1])})
    whole = model(device(tmp_path / "whole", diary).answer(choice(TENS, ZEROS)))
    order = choice(TENS, ZEROS, upload_shares=np.array([0.5]))
    part = trained(device(tmp_path / "part", diary).answer(order))
    assert part.is_part
    assert 0 < part.updates.models.shape[1] < 6

    exchange, wire, _ = exchange_with(1)
    wire.answers = {1: part}
    (settled,) = exchange.send([Task(address=1, order=order)])[0]

    assert isinstance(settled.answer, TrainReply)
    numbers = model(settled.answer)
    assert sum(one == other for one, other in zip(numbers, whole, strict=True)) >= part.updates.models.shape[1]
    assert all(one in pair for one, *pair in zip(numbers, whole, TENS.tolist(), strict=True))


def test_a_model_of_nan_counts_for_nothing_but_its_report_does(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1, 1, 1])})
    broken = OwnCode(
        load_data=diary.load,
        train=lambda given, own, _job: Fitted({name: one * np.nan for name, one in given.items()}, len(own), 1.0),
        evaluate=lambda *_: Scored(0, 0, 0.0),
    )
    for name, own, order in (
        ("fielding", None, train(0, model=np.full(6, np.nan, dtype=np.float32))),
        ("own", broken, train(0)),
    ):
        found = device(tmp_path / name, diary, own=own).answer(order)
        got = reply_from(reply_records(found), "train", EXPECTED)
        assert isinstance(got, Refusal), name
        assert (got.reason, got.text.partition(";")[0]) == ("failed", "a model holds numbers that are not finite")
        assert got.report is not None, name
        assert (got.report.number, got.report.representation.tolist()) == (1, [0.25, 0.75])


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (train(0, work=replace(WORK, model="mlp", hidden=3)), "sent a model of 6 numbers, but 'mlp' .* has 17; bring"),
        (train(0, work=replace(WORK, classes=1)), "a sample has label 1, but the server's model knows 1 classes"),
        (train(0, work=replace(WORK, model="nonsense")), "nonsense"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(order: TrainOrder, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        device(tmp_path, Diary({0: samples([0, 1])})).answer(order)


# ---- the same order again --------------------------------------------------------------------------------------------

MLP = trainer_for(ModelRequest(name="mlp", hidden=3, input_shape=(2,), n_classes=2))


def with_hidden_layer(round_index: int, *, seed: int = 1, is_probe: bool = False, **local: Any) -> TrainOrder:
    plan = one_job(MLP.initial_model(seed), is_probe=is_probe)
    rule = replace(work(**local), model="mlp", hidden=3)
    return replace(train(round_index, plan=plan, work=rule), layout=MLP.layout)


KEEPING: dict[str, dict[str, Any]] = {
    "nothing": {},
    "moon": {"moon": 5.0},
    "rehearsal": {"rehearsal": True},
    "both": {"moon": 5.0, "rehearsal": True},
}


@pytest.fixture(name="easily_alarmed")
def _easily_alarmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let devices remember in a few rounds what would take more."""
    monkeypatch.setattr("fielding.client.rehearsal.THRESHOLD", -1.0)


@pytest.mark.parametrize("keeping", KEEPING)
@pytest.mark.usefixtures("easily_alarmed")
def test_a_job_that_comes_again_is_answered_alike_also_when_its_answer_was_lost(keeping: str, tmp_path: Path) -> None:
    diary = Diary({at: samples([0, 1] * 10) for at in range(4)})
    own = run_folder(tmp_path, "run")
    for at in range(4):
        order = with_hidden_layer(at, seed=at, **KEEPING[keeping])
        once = sent(device(tmp_path, diary, BY_INTERVALS).answer(order))
        before = {path.name: path.read_bytes() for path in own.iterdir()}
        assert sent(device(tmp_path, diary, BY_INTERVALS).answer(order)) == once, "from disk"
        (own / TRAINED).unlink()
        assert sent(device(tmp_path, diary, BY_INTERVALS).answer(order)) == once, "trained again"
        assert {path.name: path.read_bytes() for path in own.iterdir()} == before, "and nothing else has changed"
    memory = read_memory(own)
    assert (memory.now is not None) == ("moon" in KEEPING[keeping])
    assert bool(memory.rehearsal) == ("rehearsal" in KEEPING[keeping])
    assert not memory.rehearsal or memory.rehearsal["rehearsal.memory_row"].size


def test_what_was_trained_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diary = Diary({0: samples([0, 1])})
    once = device(tmp_path, diary).answer(choice(ZEROS, TENS))
    monkeypatch.setattr(LocalTraining, "train", lambda *_order, **_how: pytest.fail("it trained again"))

    again = device(tmp_path, diary).answer(replace(choice(ZEROS, TENS), confirmed=0))

    assert sent(again) == sent(once)


def test_training_that_is_not_repeatable_is_answered_from_disk(tmp_path: Path) -> None:
    calls: list[Job] = []

    def unsteady(given: Tensors, own: Samples, job: Job) -> Fitted:
        calls.append(job)
        return Fitted({name: array + len(calls) for name, array in given.items()}, len(own), 0.5)

    own = OwnCode(
        load_data=Diary({0: samples([0, 1])}).load,
        train=unsteady,
        evaluate=lambda _, tested: Scored(len(tested), 0, 9.0),
    )
    orders = (train(0, with_start_loss=True), train(0, with_start_loss=True, confirmed=1), replace(train(0), seed=8))
    once, again, other = (trained(device(tmp_path, Diary({}), own=own).answer(order)) for order in orders)

    assert once.updates.start_loss is not None
    assert again.updates.start_loss is not None
    assert (once.updates.square_loss.tolist(), once.updates.start_loss.tolist()) == ([0.25], [9.0])
    assert again.updates.start_loss.tolist() == [9.0]
    assert [model(one) for one in (once, again, other)] == [[1.0] * 6, [1.0] * 6, [2.0] * 6]
    assert [(job.seed, job.n_steps, job.batch_size, job.learning_rate) for job in calls] == [
        (7, 3, 2, 0.5),
        (8, 3, 2, 0.5),
    ]


# ---- previous models (MOON) ------------------------------------------------------------------------------------------


def test_moon_changes_nothing_until_a_device_has_trained(tmp_path: Path) -> None:
    diary = Diary({at: samples([0, 1, 0, 1]) for at in range(2)})
    moon, plain = (
        [model(device(tmp_path / name, diary).answer(with_hidden_layer(at, moon=mu))) for at in range(2)]
        for name, mu in (("moon", 5.0), ("plain", 0.0))
    )

    assert moon[0] == plain[0]
    assert moon[1] != plain[1]
    assert (run_folder(tmp_path / "moon", "run") / MEMORY).exists()
    assert not (run_folder(tmp_path / "plain", "run") / MEMORY).exists()


def test_all_jobs_of_a_round_are_held_against_the_model_from_before_and_probes_leave_no_trace(
    tmp_path: Path,
) -> None:
    diary = Diary({at: samples([0, 1, 0, 1]) for at in range(3)})

    def answers(name: str, *orders: TrainOrder) -> list[list[float]]:
        return [model(device(tmp_path / name, diary).answer(order)) for order in orders]

    job = [with_hidden_layer(at, seed=at, moon=5.0) for at in range(3)]
    other, probe = (with_hidden_layer(1, seed=9, moon=5.0, is_probe=one) for one in (False, True))

    _, alone, _ = answers("alone", *job)
    _, _, second, _ = answers("second", job[0], other, job[1], job[2])
    _, _, after_probe, last = answers("probed", job[0], probe, job[1], job[2])

    assert second == after_probe == alone
    assert last == answers("unprobed", *job)[2]


# ---- remembered samples (rehearsal) ----------------------------------------------------------------------------------


class Rehearsing:
    """A device with training code of its own that is surprised by all samples after round 0, and what it saw."""

    def __init__(self, folder: Path, diary: Diary, rule: DeviceRule = BY_INTERVALS) -> None:
        self.folder, self._diary, self._rule = folder, diary, rule
        self.trained_on: list[int] = []
        self.rounds_trained_on: list[list[int]] = []
        self.labels: list[set[int]] = []
        self.looked_at: list[int] = []

    def train(self, round_index: int) -> None:
        self._device().answer(train(round_index, work=work(rehearsal=True)))

    def _device(self) -> Device:
        own = OwnCode(
            load_data=self._diary.load,
            train=self._learn,
            evaluate=lambda _, own: Scored(len(own), 0, 1.0),
            embed=self._embed,
        )
        return device(self.folder, self._diary, self._rule, own)

    def _learn(self, given: Tensors, own: Samples, _job: Job) -> Fitted:
        self.trained_on.append(len(own))
        self.rounds_trained_on.append(sorted(set(np.asarray(own.rounds).tolist())))
        self.labels.append(set(np.asarray(own.y).tolist()))
        return Fitted(given, len(own), 1.0)

    def _embed(self, _model: Tensors, own: Samples) -> Embedded:
        """Return scores that are right in the first round and wrong later."""
        self.looked_at.append(len(own))
        is_early = np.asarray(own.rounds) == 0
        scores = np.where((np.eye(2)[np.asarray(own.y)] > 0) == is_early[:, np.newaxis], 5.0, 0.0)
        return Embedded(np.zeros((len(own), 1)), scores)


def test_what_a_device_remembers_outlives_its_window(tmp_path: Path) -> None:
    rehearsing = Rehearsing(tmp_path, Diary({at: samples([0, 1] * 10) for at in range(6)}))
    for at in range(6):
        rehearsing.train(at)

    # The window is of two rounds; that of round 0 left, and was remembered when round 1 came as a surprise.
    assert rehearsing.trained_on[:3] == [20, 40, 60]
    assert rehearsing.rounds_trained_on[:3] == [[0], [0, 1], [0, 1, 2]]
    assert 0 in rehearsing.rounds_trained_on[5], "four rounds after it left"
    assert all(n_samples <= 40 + 2 * PER_LABEL for n_samples in rehearsing.trained_on)
    assert rehearsing.looked_at == [20] * 6, "each sample once"


def test_whoever_is_asked_again_has_looked_already(tmp_path: Path) -> None:
    rehearsing = Rehearsing(tmp_path, Diary({at: samples([0, 1] * 10) for at in range(3)}))
    for at in range(3):
        rehearsing.train(at)
    (run_folder(tmp_path, "run") / TRAINED).unlink()
    rehearsing.train(2)

    assert rehearsing.trained_on == [20, 40, 60, 60]
    assert rehearsing.looked_at == [20] * 3


def test_few_samples_are_looked_at_when_there_are_enough_and_those_that_come_within_an_interval_too(
    tmp_path: Path,
) -> None:
    """In life an interval may grow; the simulator's are whole when they come."""
    rule = replace(RULE, max_rounds=10, gap=10, phase=10)
    sizes = (15, 10, 4, 6)
    rehearsing = Rehearsing(tmp_path, Diary({at: samples([0] * size) for at, size in enumerate(sizes)}), rule)
    for at in range(4):
        rehearsing.train(at)

    assert rehearsing.looked_at == [15, 10, 10], "four are too few, until six more come"


def test_what_is_for_tests_is_neither_looked_at_nor_remembered(tmp_path: Path) -> None:
    rehearsing = Rehearsing(tmp_path, Diary({at: samples([0, 1] * 15, n_test=5) for at in range(3)}), BY_INTERVALS)
    for at in range(3):
        rehearsing.train(at)

    assert rehearsing.looked_at == [25, 25, 25]
    assert rehearsing.trained_on == [25, 50, 75]


@pytest.mark.parametrize("damage", [b"", b"damaged"])
def test_a_damaged_memory_is_told_and_set_aside_and_the_device_begins_anew(
    damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rehearsing = Rehearsing(tmp_path, Diary({at: samples([0, 1] * 10) for at in range(3)}))
    rehearsing.train(0)
    rehearsing.train(1)
    path = run_folder(tmp_path, "run") / MEMORY
    path.write_bytes(damage)

    with caplog.at_level(logging.WARNING, logger="fielding.flower"):
        rehearsing.train(2)

    assert [record.getMessage().count("\n") for record in caplog.records] == [0]
    assert "what it held is lost" in caplog.text
    assert path.with_name(f"{MEMORY}.damaged").exists()
    assert rehearsing.trained_on[2] == 40, "of what was before it knows nothing"
    assert rehearsing.looked_at == [20, 20, 40]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_device_that_lost_its_samples_forgets_what_it_remembered_of_them(is_damaged: bool, tmp_path: Path) -> None:
    """Its samples are counted anew: the same places are other samples now, perhaps for tests alone."""
    diary = Diary({at: samples([0, 1] * 10) for at in range(3)})
    rehearsing = Rehearsing(tmp_path, diary)
    for at in range(3):
        rehearsing.train(at)
    state = run_folder(tmp_path, "run") / STATE
    if is_damaged:
        state.write_bytes(b"damaged")
    else:
        state.unlink()
    diary.by_round = {3: samples([0] * 20, n_test=8), 4: samples([0] * 12), 5: samples([0] * 12), 6: samples([0] * 12)}
    rehearsing.looked_at.clear()
    for at in (3, 4, 5, 6):
        rehearsing.train(at)

    assert rehearsing.looked_at == [12] * 4, "what comes after is looked at"
    assert rehearsing.trained_on[3:] == [12, 24, 24, 24], "nothing was remembered, and tests are for tests alone"


def test_a_memory_without_its_rehearsal_is_no_hindrance(tmp_path: Path) -> None:
    """The rule of a run does not change, but a file may come from a run that was begun with another."""
    diary = Diary({at: samples([0, 1] * 10) for at in range(2)})
    device(tmp_path, diary).answer(with_hidden_layer(0, moon=1.0))

    found = device(tmp_path, diary).answer(with_hidden_layer(1, moon=1.0, rehearsal=True))

    assert trained(found).n_samples == 40
    assert read_memory(run_folder(tmp_path, "run")).rehearsal


# ---- code of the user's own ------------------------------------------------------------------------------------------


def leaving_alone(diary: Diary, embed: Any = None) -> OwnCode:
    return OwnCode(
        load_data=diary.load,
        train=lambda given, own, _job: Fitted(given, len(own), 1.0),
        evaluate=lambda _, own: Scored(len(own), 0, 1.0),
        embed=embed,
    )


def test_the_mix_of_ones_own_training_goes_with_the_model(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 0, 0, 1])})
    rule = replace(WORK, serving=Serving(correction="prior"), mix_rate=0.5)
    order = replace(
        train(0, plan=one_job(append_even_mix(ZEROS, 2)), work=rule), layout=extend_layout(TRAINER.layout, 2)
    )

    found = device(tmp_path, diary, own=leaving_alone(diary)).answer(order)

    assert model(found)[6:] == pytest.approx([0.625, 0.375])


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (train(0, work=work(moon=1.0)), r"training\.moon contrasts models .* leave it out"),
        (
            train(0, pull=Pull(anchors=ZEROS[np.newaxis], row=np.zeros(1, dtype=np.int64), strength=np.full(6, 0.1))),
            "the method pulls models toward others, which one's own train cannot do; choose another",
        ),
        (train(0, work=work(rehearsal=True)), r"train without embed; give embed.* training\.rehearsal out"),
    ],
)
def test_what_ones_own_training_cannot_do_is_told(order: TrainOrder, message: str, tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1] * 10)})
    with pytest.raises(InputError, match=message):
        device(tmp_path, diary, own=leaving_alone(diary)).answer(order)
