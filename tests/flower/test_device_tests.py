"""How a device tests models, as they are and corrected to its label mix."""

from pathlib import Path

import numpy as np
import pytest
from fielding.flower.device.tests import NO_TEST, device_test

from fielding.errors import InputError
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.samples import Embedded, Fitted, Samples, Scored, Tensors, checked_samples
from fielding.flower.wire.orders import EvaluateOrder, EvaluateReply
from fielding.training.label_mix import layout_with_mix, with_even_mix
from tests.flower.devices import SETTINGS, TRAINER, Diary, device, evaluate, samples

CORRECTED = EvaluateOrder(
    run_id="run",
    round_index=0,
    model=with_even_mix(np.zeros(6, dtype=np.float32), 2),
    layout=layout_with_mix(TRAINER.layout, 2),
    settings={**SETTINGS, "correction": "prior", "smoothing": 1.0},
    seed=7,
)
WINDOW = checked_samples(samples([1, 1, 1, 1, 0], n_test=2), n_classes=2, now=0, since=None)


def test_whoever_has_nothing_to_train_on_is_not_tested(tmp_path: Path) -> None:
    reply = device(tmp_path, Diary({0: samples([0, 1], n_test=2)})).answer(evaluate(0))

    assert isinstance(reply, EvaluateReply)
    assert reply.n_test == NO_TEST.n_test == 0


def test_a_model_in_doubt_believes_the_labels_of_the_device() -> None:
    reply = device_test(CORRECTED, WINDOW, OwnCode(load_data=lambda *_: None))

    assert (reply.n_test, reply.correct) == (2, 1)
    assert reply.loss == pytest.approx(np.log(2))
    # 3.5 of 4 labels are the second, and half of all that the model learned from.
    assert reply.also["corrected"].correct == 1
    assert reply.also["corrected"].loss == pytest.approx(-(np.log(7 / 8) + np.log(1 / 8)) / 2, rel=1e-5)


def own_code(n_tested: int) -> OwnCode:
    def embed(_model: Tensors, own: Samples) -> Embedded:
        return Embedded(np.zeros((len(own), 1)), np.zeros((len(own), 2)))

    return OwnCode(
        load_data=lambda *_: None,
        train=lambda model, own, _job: Fitted(model, len(own), 1.0),
        evaluate=lambda _model, _own: Scored(n_tested, 0, 9.0),
        embed=embed,
    )


def test_ones_own_test_says_how_models_do_and_embed_how_they_would() -> None:
    reply = device_test(CORRECTED, WINDOW, own_code(2))

    assert (reply.n_test, reply.correct, reply.loss) == (2, 0, 9.0)
    assert reply.also["corrected"].correct == 1


def test_ones_own_test_of_some_samples_cannot_be_compared_with_a_corrected_one() -> None:
    with pytest.raises(InputError, match="evaluate tested 1 of 2 samples, but corrected models are tested on all"):
        device_test(CORRECTED, WINDOW, own_code(1))
