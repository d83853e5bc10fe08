"""What a device trains on and keeps, with Fielding's code or the user's own."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fielding.flower.device.previous_model import PREVIOUS
from fielding.flower.device.rehearsal import REHEARSAL

from fielding._typing import Json
from fielding.errors import InputError
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.samples import Embedded, Fitted, Job, Samples, Scored, Tensors
from fielding.flower.device.state import TRAINED, run_folder
from fielding.flower.wire.orders import TrainOrder, TrainReply
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.label_mix import append_even_mix, extend_layout
from tests.flower.devices import RULE, TRAINER, Diary, device, samples, train


def with_settings(round_index: int, **changes: Json) -> TrainOrder:
    order = train(round_index)
    return replace(order, settings={**order.settings, **changes})


def answer(
    folder: Path, diary: Diary, order: TrainOrder, own: OwnCode | None = None, *, kept_aside: float = 0.0
) -> TrainReply:
    reply = device(folder, diary, replace(RULE, phase=2, kept_aside=kept_aside), own).answer(order)
    assert isinstance(reply, TrainReply)
    return reply


def test_what_is_kept_aside_is_not_trained_on(tmp_path: Path) -> None:
    own = samples([0, 1, 0, 1], n_test=1)
    aside = Samples(own.x, own.y, own.is_test, own.rounds, np.array([True, False, False, False]))

    assert answer(tmp_path, Diary({0: aside}), train(0), kept_aside=0.5).n_samples == 2


MLP = trainer_for(ModelRequest(name="mlp", hidden=3, input_shape=(2,), n_classes=2))


def with_hidden_layer(round_index: int, moon: float) -> TrainOrder:
    order = with_settings(round_index, model="mlp", hidden=3, moon=moon)
    return replace(order, model=MLP.initial_model(1), layout=MLP.layout)


def test_moon_changes_nothing_until_a_device_has_trained(tmp_path: Path) -> None:
    diary = Diary({at: samples([0, 1, 0, 1]) for at in range(2)})
    moon, plain = (
        [answer(tmp_path / name, diary, with_hidden_layer(at, mu)).model for at in range(2)]
        for name, mu in (("moon", 5.0), ("plain", 0.0))
    )

    assert moon[0].tolist() == plain[0].tolist()
    assert moon[1].tolist() != plain[1].tolist()
    assert (run_folder(tmp_path / "moon", "run") / PREVIOUS).exists()
    assert not (run_folder(tmp_path / "plain", "run") / PREVIOUS).exists()


def own_code(diary: Diary, trained_on: list[int]) -> OwnCode:
    def learn(model: Tensors, own: Samples, _job: Job) -> Fitted:
        trained_on.append(len(own))
        return Fitted(model, len(own), 1.0)

    def embed(_model: Tensors, own: Samples) -> Embedded:
        """Return scores that are right in the first round and wrong later."""
        is_early = np.asarray(own.rounds) == 0
        scores = np.where((np.eye(2)[np.asarray(own.y)] > 0) == is_early[:, np.newaxis], 5.0, 0.0)
        return Embedded(np.zeros((len(own), 1)), scores)

    return OwnCode(load_data=diary.load, train=learn, evaluate=lambda _, own: Scored(len(own), 0, 1.0), embed=embed)


def test_ones_own_training_is_given_what_the_device_remembers(tmp_path: Path) -> None:
    diary = Diary({at: samples([0, 1] * 10) for at in range(3)})
    trained_on: list[int] = []
    for at in range(3):
        answer(tmp_path, diary, with_settings(at, rehearsal=True), own_code(diary, trained_on))

    # The window is of two rounds; that of round 0 left, and was remembered when round 1 came as a surprise.
    assert trained_on == [20, 40, 60]
    assert (run_folder(tmp_path, "run") / REHEARSAL).exists()


def test_a_job_that_is_lost_is_done_again_alike(tmp_path: Path) -> None:
    diary = Diary({at: samples([0, 1] * 10) for at in range(3)})
    trained_on: list[int] = []
    for at in range(3):
        answer(tmp_path, diary, with_settings(at, rehearsal=True), own_code(diary, trained_on))
    (run_folder(tmp_path, "run") / TRAINED).unlink()
    answer(tmp_path, diary, with_settings(2, rehearsal=True), own_code(diary, trained_on))

    assert trained_on == [20, 40, 60, 60]


def test_the_mix_of_ones_own_training_goes_with_the_model(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 0, 0, 1])})
    order = replace(
        with_settings(0, correction="prior", mix_rate=0.5),
        model=append_even_mix(train(0).model, 2),
        layout=extend_layout(TRAINER.layout, 2),
    )

    reply = answer(tmp_path, diary, order, own_code(diary, []))

    assert reply.model[6:].tolist() == pytest.approx([0.625, 0.375])


def test_what_ones_own_training_cannot_do_is_told(tmp_path: Path) -> None:
    diary = Diary({0: samples([0, 1])})
    with pytest.raises(InputError, match=r"training\.moon contrasts models .* leave it out"):
        answer(tmp_path, diary, with_settings(0, moon=1.0), own_code(diary, []))
