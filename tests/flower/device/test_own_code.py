"""What users' own code gives, and how they are told when it cannot be used."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fielding.errors import InputError
from fielding.federation.evaluation import ClientScores
from fielding.flower.device.own_code import OwnCode
from fielding.flower.wire.orders import EvaluateOrder, EvaluateReply
from fielding.runtime.own_code import (
    Embedded,
    Fitted,
    Samples,
    Scored,
    Tensors,
    checked_fitted,
    checked_scored,
    named_arrays,
    parameter_names,
)
from fielding.runtime.serve import Serving
from fielding.training.label_mix import append_even_mix, extend_layout
from tests.flower.devices import TRAINER, WORK, Diary, device, evaluate, samples

MODEL = {"weight": np.ones(2)}


def test_figures_may_be_arrays_of_one_number() -> None:
    scored = checked_scored(Scored(np.int64(4), np.array(3), np.float32(0.5)))  # type: ignore[arg-type]
    fitted = checked_fitted(Fitted(MODEL, 4.0, np.array([2.0])[0]))  # type: ignore[arg-type]
    assert (scored.n_test, scored.correct, scored.loss) == (4, 3, 0.5)
    assert (fitted.n_samples, fitted.loss, fitted.square_loss) == (4, 2.0, 4.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "evaluate gave None; return Scored"),
        (Scored(40, 41, 0.1), "correct = 41 and n_test = 40; give how many"),
        (Scored(40, 0.9, 0.1), "correct = 0.9 and n_test = 40; give how many"),  # type: ignore[arg-type]
        (Scored(40, -1, 0.1), "correct = -1"),
        (Scored(40, 3, None), "loss = None"),  # type: ignore[arg-type]
    ],
)
def test_a_test_that_cannot_be_is_told(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked_scored(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((MODEL, 3), "train gave .*; return Fitted"),
        (Fitted(MODEL, 0, 0.1), "n_samples = 0"),
        (Fitted(MODEL, 3, float("nan")), "loss = nan; give the mean loss"),
        (Fitted(MODEL, 3, "low"), "loss = 'low'"),  # type: ignore[arg-type]
        (Fitted(MODEL, 3, 0.1, float("inf")), "square_loss = inf"),
    ],
)
def test_a_training_that_cannot_be_is_told(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked_fitted(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "first_model gave None for a model; give arrays by name"),
        ({}, "first_model gave {} for a model"),
        ({"weight": "heavy"}, "'weight' in the model that first_model gave is 'heavy'; give an array of numbers"),
        ({"weight": [[1.0], None]}, "'weight' in the model that first_model gave is"),
    ],
)
def test_what_is_no_model_is_told(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        named_arrays(given, "first_model")


def test_torch_modules_and_their_tensors_are_models_also_where_gradients_are_kept() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; run: pip install 'fielding[torch]'")
    net = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.BatchNorm1d(1))

    whole, trained = named_arrays(net, "train"), named_arrays(dict(net.named_parameters()), "train")

    assert whole["1.num_batches_tracked"].dtype == np.float32
    assert set(whole) - parameter_names(net, whole) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    np.testing.assert_array_equal(whole["0.weight"], trained["0.weight"])
    assert parameter_names(trained, trained) == set(trained)


# ---- tests of models on a device -------------------------------------------------------------------------------------

CORRECTED = replace(WORK, serving=Serving(correction="prior", smoothing=1.0, fine_tune=3))
DIARY = Diary({0: samples([1, 1, 1, 1, 0], n_test=2)})


def corrected(**serving: Any) -> EvaluateOrder:
    """Return the order to test a model in doubt that carries an even mix, as it is and as it serves."""
    model = append_even_mix(np.zeros(6, dtype=np.float32), 2)
    work = replace(CORRECTED, serving=replace(CORRECTED.serving, **serving))
    return replace(evaluate(0, model, work=work), layout=extend_layout(TRAINER.layout, 2))


def scores(folder: Path, order: EvaluateOrder, own: OwnCode | None = None) -> ClientScores:
    reply = device(folder, DIARY, own=own).answer(order)
    assert isinstance(reply, EvaluateReply)
    return reply.scores


def test_a_model_in_doubt_believes_the_labels_of_the_device(tmp_path: Path) -> None:
    found = scores(tmp_path, corrected())

    assert (found.n_test.tolist(), found.correct.tolist()) == ([2], [1])
    assert found.loss[0] == pytest.approx(np.log(2))
    # 3.5 of 4 labels are the second, and half of all that the model learned from.
    assert found.also["corrected"].correct.tolist() == [1]
    assert found.also["corrected"].loss[0] == pytest.approx(-(np.log(7 / 8) + np.log(1 / 8)) / 2, rel=1e-5)
    assert set(found.also) == {"corrected", "tuned"}


def own_code(n_tested: int, embed: Callable[[Tensors, Samples], Any] | None) -> OwnCode:
    return OwnCode(
        load_data=DIARY.load,
        train=lambda model, own, _job: Fitted(model, len(own), 1.0),
        evaluate=lambda _model, _own: Scored(n_tested, 0, 9.0),
        embed=embed,
    )


def blind(_model: Tensors, own: Samples) -> Embedded:
    return Embedded(np.zeros((len(own), 1)), np.zeros((len(own), 2)))


def test_ones_own_test_says_how_models_do_and_embed_how_they_would(tmp_path: Path) -> None:
    found = scores(tmp_path, corrected(), own_code(2, blind))

    assert (found.n_test.tolist(), found.correct.tolist(), found.loss.tolist()) == ([2], [0], [9.0])
    assert found.also["corrected"].correct.tolist() == [1]
    assert set(found.also) == {"corrected"}, "nobody tunes by training that is not Fielding's"


def test_ones_own_test_may_leave_samples_out_unless_it_is_compared(tmp_path: Path) -> None:
    assert scores(tmp_path, evaluate(0), own_code(1, None)).n_test.tolist() == [1]
    with pytest.raises(InputError, match="evaluate tested 1 of 2 samples, but corrected models are tested on all"):
        scores(tmp_path, corrected(), own_code(1, blind))


@pytest.mark.parametrize(
    ("embed", "message"),
    [
        (None, r"train without embed; give embed.* leave serving\.correction"),
        (lambda *_: [[0.0, 0.0]], r"embed gave \[\[0.0, 0.0\]\]; return Embedded"),
        (lambda _, own: Embedded(np.zeros((len(own), 1)), np.zeros((len(own), 3))), r"scores of shape \(\d, 3\); give"),
        (lambda _, own: Embedded(np.zeros(len(own)), np.zeros((len(own), 2))), r"features of shape \(\d,\)"),
        (
            lambda _, own: Embedded(np.zeros((len(own), 1)), np.full((len(own), 2), np.nan)),
            "embed gave NaN or infinity",
        ),
    ],
)
@pytest.mark.parametrize("correction", ["prior", "predicted"])
def test_what_embed_lacks_is_told(
    correction: str, embed: Callable[[Tensors, Samples], Any] | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        scores(tmp_path, corrected(correction=correction), own_code(2, embed))
