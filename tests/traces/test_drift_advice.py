import pytest

from fielding.client.representation.registry import REPRESENTATIONS
from fielding.config.parts import CORRECTIONS
from fielding.methods import METHODS
from fielding.traces.diagnosis import Finding, advise, assess, open_finding

YES, NO = assess("labels", 2.0, 9.0, 99), assess("labels", 1.0, 0.1, 99)
OPEN = open_finding("without features")


@pytest.mark.parametrize(
    ("measured", "answer"),
    [
        ((1.5, 4.0, 50), "yes: 1.5 times"),
        ((1.1, 4.0, 50), "yes, but little: 1.1 times"),
        ((1.5, 2.5, 50), "perhaps: "),
        ((1.5, 1.5, 50), "no: "),
        ((1.5, 1.5, 9), "cannot be told from so little (9 pairs)"),
        ((3.0, 3.0, 9), "yes: "),
        ((None, None, 0), "cannot be told from so little (0 pairs)"),
    ],
)
def test_a_finding_is_sure_only_if_it_is_far_above_noise(
    measured: tuple[float | None, float | None, int], answer: str
) -> None:
    found = assess("labels", *measured)

    assert found.verdict.startswith(answer)
    assert found.is_sure == answer.startswith("yes")
    assert found.matters == answer.startswith("yes:")
    assert found.is_open == answer.startswith("cannot")


def test_shifts_that_few_pairs_have_matter_though_the_mean_is_low() -> None:
    assert assess("inputs", 1.1, 4.0, 50).matters
    assert not assess("inputs", 1.01, 4.0, 50).matters


@pytest.mark.parametrize(
    ("labels", "inputs", "meanings", "words"),
    [
        (YES, NO, NO, 'only label mixes differ: serving.correction = "prior" with method "global"'),
        (YES, NO, OPEN, "label mixes differ: serving.correction"),
        (NO, YES, NO, 'inputs differ, which no correction mends: method "fielding"'),
        (NO, NO, YES, 'meanings of labels differ, which no correction mends: method "fielding"'),
        (NO, YES, YES, 'inputs and meanings of labels differ, which no correction mends: method "fielding"'),
        (NO, NO, NO, 'nothing differs beyond sampling noise: method "global"'),
        (OPEN, OPEN, OPEN, 'too little to tell: method "global" is the safe choice'),
    ],
)
def test_advice_names_what_differs_and_what_to_set(
    labels: Finding, inputs: Finding, meanings: Finding, words: str
) -> None:
    told = advise({"labels": labels, "inputs": inputs, "meanings": meanings}, has_features=True)

    assert told.startswith(words)


def test_one_place_that_differs_is_enough_and_labels_are_corrected_beside() -> None:
    calm = {"labels": NO, "inputs": NO, "meanings": NO}

    told = advise(calm, {"labels": YES, "inputs": NO, "meanings": YES}, has_features=True)

    assert 'coordinator.representation = "confusion" (or "auto")' in told
    assert told.endswith('and serving.correction = "prior" for the label mixes')
    assert "correction =" not in advise(calm, {**calm, "inputs": YES}, has_features=True)
    assert '"auto"' in advise({**calm, "inputs": YES}, {**calm, "meanings": YES}, has_features=True)


def test_labels_alone_do_not_tell_everything() -> None:
    open_beyond = {"inputs": OPEN, "meanings": OPEN}

    assert advise({"labels": YES, **open_beyond}, has_features=False).endswith("labels alone cannot tell")
    assert advise({"labels": NO, **open_beyond}, has_features=False).startswith("label mixes do not differ")


def test_what_is_advised_exists() -> None:
    assert {"class-means", "confusion"} <= set(REPRESENTATIONS)
    assert "prior" in CORRECTIONS
    assert {"fielding", "global"} <= set(METHODS)
