"""Models as they are, and as they serve a device that corrects them to its own label mix."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Models
from fielding.errors import InputError
from fielding.flower.device.local_jobs import JobSettings
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.samples import Embedded, Fitted, Kept, Samples, Scored, Tensors, checked_samples
from fielding.flower.device.scoring import DeviceScoring
from fielding.training.label_mix import layout_with_mix
from tests.flower.devices import TRAINER

LAYOUT = layout_with_mix(TRAINER.layout, 2)
SETTINGS = JobSettings(client="phone", classes=2, model="softmax", correction="prior", smoothing=1.0)
FIELDINGS = OwnCode(load_data=lambda *_: None)


def blind(*mix: float) -> Models:
    """Return a model that knows nothing but the mix that it was trained on."""
    return np.array([0.0] * 6 + list(mix), dtype=np.float32)


def labelled(*labels: int) -> Kept:
    n_samples = len(labels)
    given = Samples(np.zeros((n_samples, 2)), np.array(labels, dtype=int), is_test=np.zeros(n_samples, dtype=bool))
    return checked_samples(given, n_classes=2, now=0, since=None)


def test_scores_are_shifted_from_the_mix_of_the_model_to_that_of_the_window() -> None:
    scoring = DeviceScoring(LAYOUT, SETTINGS, FIELDINGS)

    # Three samples, and one more as the model has it: 3.5 of 4 against a half.
    assert np.exp(scoring.offsets(blind(0.5, 0.5), labelled(0, 0, 0)))[0].tolist() == pytest.approx([1.75, 0.25])
    correct, loss = scoring.served(blind(0.5, 0.5), labelled(0, 0, 1), labelled(0, 0, 0))
    assert correct == 2
    assert loss == pytest.approx(-(2 * np.log(7 / 8) + np.log(1 / 8)) / 3, rel=1e-5)
    assert scoring.score(blind(0.5, 0.5), labelled(0, 1))[1] == pytest.approx(np.log(2))


def test_without_samples_of_its_own_a_device_takes_a_model_as_it_is() -> None:
    for correction in ("prior", "predicted"):
        scoring = DeviceScoring(LAYOUT, replace(SETTINGS, correction=correction), FIELDINGS)
        assert scoring.offsets(blind(0.9, 0.1), labelled()).tolist() == [[0.0, 0.0]]


def test_labels_are_not_looked_at_where_they_are_predicted() -> None:
    scoring = DeviceScoring(LAYOUT, replace(SETTINGS, correction="predicted"), FIELDINGS)
    sure = blind(0.5, 0.5)
    sure[4] = 5.0  # the bias of the first class

    one, other = (scoring.offsets(sure, window) for window in (labelled(0, 0, 0), labelled(1, 1, 1)))

    assert one.tolist() == other.tolist()
    assert one[0, 0] > 0 > one[0, 1]


def test_errors_are_those_of_a_model_as_it_serves() -> None:
    plain = DeviceScoring(TRAINER.layout, replace(SETTINGS, correction="none"), FIELDINGS)
    served = DeviceScoring(LAYOUT, SETTINGS, FIELDINGS)
    samples, window = labelled(0, 1), labelled(1, 1, 1)

    assert plain.errors(blind(), samples, window).tolist() == [0.0, 1.0]
    assert served.errors(blind(0.5, 0.5), samples, window).tolist() == [1.0, 0.0]


def own_code(seen: list[Mapping[str, object]], *, with_embed: bool) -> OwnCode:
    def embed(model: Tensors, samples: Samples) -> Embedded:
        seen.append(model)
        return Embedded(np.zeros((len(samples), 1)), np.zeros((len(samples), 2)))

    return OwnCode(
        load_data=lambda *_: None,
        train=lambda model, samples, _job: Fitted(model, len(samples), 1.0),
        evaluate=lambda _model, samples: Scored(len(samples), 0, 3.0),
        embed=embed if with_embed else None,
    )


def test_ones_own_code_sees_models_without_the_mix_that_they_carry() -> None:
    seen: list[Mapping[str, object]] = []
    scoring = DeviceScoring(LAYOUT, SETTINGS, own_code(seen, with_embed=True))

    assert scoring.served(blind(0.5, 0.5), labelled(1), labelled(1, 1, 1))[0] == 1
    assert scoring.score(blind(0.5, 0.5), labelled(1)) == (0, 3.0)
    assert [sorted(model) for model in seen] == [["bias", "weight"]]


def test_without_embed_nobody_can_say_how_ones_own_models_would_serve() -> None:
    scoring = DeviceScoring(LAYOUT, SETTINGS, own_code([], with_embed=False))

    with pytest.raises(InputError, match=r"train without embed; give it embed.* leave serving\.correction"):
        scoring.served(blind(0.5, 0.5), labelled(1), labelled(1))
