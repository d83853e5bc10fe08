"""Who drifted, and how: vectors, samples and kinds, on changes that are known."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Counts, Floats
from fielding.client.drift import Always, AnyChange, Chi2, FlexcflOriginal, Never, Periodic, Threshold
from fielding.client.drift.detectors import Comparison, KindDetector, SampleDetector
from fielding.client.drift.drift_test import Batch
from fielding.client.drift.predictions import ConfusionTest, ErrorRate
from fielding.client.drift_monitor import join_batches, split_by_client
from fielding.client.report import DRIFT_KINDS, UNEXPLAINED
from fielding.errors import OptionError
from tests.client.drift.batches import Drift, batch, simulated
from tests.runtime.seeing import by_vector

NOTHING = batch(labels=np.empty(0, dtype=np.int64))


def some_of(whole: Batch) -> Callable[[Counts], Batch]:
    """Return who picks clients."""
    parts = split_by_client(whole)
    return lambda some: join_batches([parts[client] for client in some.tolist()])


def unjudged(n_clients: int, n_features: int) -> Batch:
    """Return no samples of some clients."""
    none = np.empty(0, dtype=np.int64)
    return batch(labels=none, features=np.empty((0, n_features)), sizes=np.zeros(n_clients, dtype=np.int64))


def comparison(
    reference: Batch, fresh: Batch, *, earlier: Batch | None = None, newest: Batch | None = None
) -> Comparison:
    """Return what clients know whose window holds as many samples as it did at the last report."""
    n_clients = reference.sizes.size
    none = unjudged(n_clients, fresh.features.shape[1])
    return Comparison(
        now=np.zeros((n_clients, 1)),
        before=np.zeros((n_clients, 1)),
        age=np.ones(n_clients, dtype=np.int64),
        n_now=reference.sizes,
        n_fresh=fresh.sizes,
        n_before=reference.sizes,
        reference=some_of(reference),
        fresh=some_of(fresh),
        newest=some_of(newest or none),
        earlier=some_of(earlier or none),
    )


def errors(*per_client: list[float]) -> Batch:
    """Return samples of one label whose errors are these; NaN: nobody knows."""
    flat = np.array([error for own in per_client for error in own], dtype=np.float64)
    sizes = np.array([len(own) for own in per_client])
    features = np.zeros((flat.size, 6))
    return batch(labels=np.zeros(flat.size, dtype=np.int64), errors=flat, sizes=sizes, features=features)


# ---- vectors ----------------------------------------------------------------------------------------------------


def vectors(now: list[list[float]], before: list[list[float]], age: list[int]) -> Comparison:
    blank = join_batches([NOTHING] * len(age))
    return replace(
        comparison(blank, blank),
        now=np.array(now, dtype=np.float32),
        before=np.array(before, dtype=np.float32),
        age=np.array(age),
    )


@pytest.mark.parametrize(
    ("drift_test", "drifted"),
    [
        (AnyChange(), [False, True, True]),
        (Threshold(eps=1.5), [False, False, True]),
        (Threshold(eps=1.0), [False, False, True]),
        (Periodic(rounds=3), [True, False, True]),
        (Always(), [True, True, True]),
        (Never(), [False, False, False]),
    ],
    ids=["any change", "threshold", "a shift of the threshold is none", "periodic", "always", "never"],
)
def test_vectors_are_compared_as_they_are(drift_test: AnyChange, drifted: list[bool]) -> None:
    detector = by_vector(drift_test)

    found, kinds = detector.detect(vectors([[0, 0], [1, 0], [0, 2]], [[0, 0], [0, 0], [0, 0]], [3, 2, 4]))

    assert found.tolist() == drifted
    assert not kinds.any()
    assert detector.is_timed is isinstance(drift_test, (Periodic, Always))
    assert not detector.needs_errors


@pytest.mark.parametrize("drift_test", [Chi2(), FlexcflOriginal()])
def test_vectors_have_no_counts_to_compare(drift_test: Chi2) -> None:
    with pytest.raises(OptionError, match=f"^{type(drift_test).__name__} compares label counts"):
        by_vector(drift_test)


# ---- samples ----------------------------------------------------------------------------------------------------


def share_of(detector: SampleDetector | KindDetector, drift: Drift, *, n_clients: int = 60) -> float:
    """Return how many of some clients are said to have drifted."""
    return float(detector.detect(comparison(*simulated(drift, n_clients)))[0].mean())


def test_a_swap_of_labels_is_found_and_a_new_label_mix_is_left_alone() -> None:
    detector = SampleDetector(test=ConfusionTest(), alpha=0.001)

    assert share_of(detector, "swap") > 0.95
    assert share_of(detector, "looks") > 0.95
    assert share_of(detector, "label") < 0.03
    assert share_of(detector, "none") < 0.03


def test_alpha_is_how_often_nothing_is_taken_for_drift() -> None:
    n_clients = 400
    shares = [
        share_of(SampleDetector(test=ConfusionTest(), alpha=alpha), "none", n_clients=n_clients)
        for alpha in (0.2, 0.02)
    ]

    assert 0.05 < shares[0] < 0.2 + 3 * np.sqrt(0.2 * 0.8 / n_clients)
    assert shares[1] < 0.02 + 3 * np.sqrt(0.02 * 0.98 / n_clients)


def resized(made: Comparison, n_now: list[int], n_before: list[int]) -> Comparison:
    """Return clients of whom nothing is known but the sizes of their windows."""
    asked = dict.fromkeys(("reference", "fresh", "newest", "earlier"), _unasked)
    sizes = {"n_now": np.array(n_now), "n_before": np.array(n_before), "n_fresh": np.zeros_like(made.n_fresh)}
    return replace(made, **sizes, **asked)  # type: ignore[arg-type]


def _unasked(_some: Counts) -> Batch:
    raise AssertionError("nobody has to be asked")


@pytest.mark.parametrize("detector", [SampleDetector(test=ConfusionTest()), KindDetector()], ids=["samples", "kinds"])
def test_a_window_that_doubled_is_reported_without_being_tested(detector: SampleDetector | KindDetector) -> None:
    made = resized(comparison(*simulated("none", 3)), n_now=[20, 19, 30], n_before=[10, 10, 30])

    drifted, kinds = detector.detect(made)

    assert drifted.tolist() == [True, False, False]
    assert not kinds.any()


@pytest.mark.parametrize(("least", "n_drifted"), [(40, 5), (41, 0)])
def test_too_few_fresh_samples_are_not_tested(least: int, n_drifted: int) -> None:
    swapped = comparison(*simulated("swap", 5, n=40, m=80))

    for detector in (SampleDetector(test=ConfusionTest(), least=least), KindDetector(least=least)):
        assert detector.detect(swapped)[0].sum() == n_drifted


def labelled(labels: list[int], center: float = 0.0) -> Batch:
    """Return samples of one client around a center, all taken for their label."""
    codes, rng = np.array(labels, dtype=np.int64), np.random.default_rng(len(labels))
    features: Floats = rng.standard_normal((codes.size, 2)) + center
    return batch(labels=codes, predicted=codes, features=features)


@pytest.mark.parametrize(
    "detector", [SampleDetector(test=ConfusionTest(), least=1), KindDetector(least=1)], ids=["samples", "kinds"]
)
def test_one_sample_and_classes_that_one_side_lacks_tell_nothing(detector: SampleDetector | KindDetector) -> None:
    then, lone, others = labelled([0] * 40), labelled([0]), labelled([3] * 40, center=9.0)

    assert not detector.detect(comparison(then, lone))[0].any()
    assert not detector.detect(comparison(then, others))[0].any(), "another label mix, and nothing to compare it with"
    assert not detector.detect(comparison(lone, lone))[0].any()


def test_errors_of_the_newest_arrival_are_compared_with_those_before_it() -> None:
    detector = SampleDetector(test=ErrorRate(), needs_errors=True, least=1)
    quiet = errors([0.0] * 20, [0.0] * 20, [1.0] * 20, [np.nan] * 20)
    loud = errors([0.0] * 20, [1.0] * 20, [0.0] * 20, [1.0] * 20)

    # What came with the report does not count: its errors say yes to everything here.
    found, _ = detector.detect(comparison(loud, loud, earlier=quiet, newest=loud))

    assert found.tolist() == [False, True, False, False]


def test_errors_that_nobody_knows_are_no_errors() -> None:
    part = errors([np.nan, 1.0, 0.0])

    earlier, newest = comparison(part, part, earlier=part, newest=part).served_pair(np.array([0]))

    assert earlier.labels.tolist() == newest.labels.tolist() == [-1, 0, 0]
    assert newest.errors.tolist() == [0.0, 1.0, 0.0]


# ---- kinds ------------------------------------------------------------------------------------------------------


def kinds_found(drift: Drift, detector: KindDetector | None = None, *, n_clients: int = 40) -> dict[str, int]:
    """Return how many of the clients report which kind; those that do not report are left out."""
    drifted, kinds = (detector or KindDetector()).detect(comparison(*simulated(drift, n_clients)))
    assert not kinds[~drifted].any()
    return {kind: int((kinds[drifted] == code).sum()) for code, kind in enumerate(DRIFT_KINDS)}


def test_a_new_label_mix_stays_with_the_client() -> None:
    assert sum(kinds_found("label").values()) <= 1
    assert sum(kinds_found("none").values()) <= 1


def test_a_swap_is_a_drift_of_concept() -> None:
    found = kinds_found("swap")

    assert found["concept"] >= 36
    assert sum(found.values()) >= 38


def test_another_look_is_covariate_drift_or_mixed() -> None:
    found = kinds_found("looks")

    assert found["covariate"] + found["mixed"] >= 38
    assert found["none"] == found["label"] == 0


def test_who_reports_at_a_lenient_level_still_knows_the_kind() -> None:
    found = kinds_found("none", KindDetector(alpha=0.5))

    assert sum(found.values()) > 5, "false alarms, as asked for"
    assert found["none"] == found["label"] == 0


def test_errors_that_jump_without_a_reason_are_unexplained() -> None:
    quiet, loud = errors([0.0] * 30, [0.0] * 30, [1.0] * 30), errors([0.0] * 30, [1.0] * 30, [0.0] * 30)
    reference, fresh = simulated("none", 3)
    assert not KindDetector().detect(comparison(reference, fresh))[0].any(), "nothing else speaks for drift"

    drifted, kinds = KindDetector().detect(comparison(reference, fresh, earlier=quiet, newest=loud))

    assert drifted.tolist() == [False, True, False]
    assert kinds.tolist() == [0, UNEXPLAINED, 0]


def test_errors_with_a_reason_are_not_unexplained() -> None:
    quiet, loud = errors(*[[0.0] * 30] * 5), errors(*[[1.0] * 30] * 5)

    _, kinds = KindDetector().detect(comparison(*simulated("swap", 5), earlier=quiet, newest=loud))

    assert UNEXPLAINED not in kinds.tolist()


def test_errors_are_judged_at_a_fifth_of_the_level() -> None:
    # 0 of 10, then 5 of 10: Fisher's exact test gives 252 / 15504 = 0.0163.
    quiet, loud = errors([0.0] * 10), errors([1.0] * 5 + [0.0] * 5)
    made = comparison(*simulated("none", 1, seed=1), earlier=quiet, newest=loud)

    assert KindDetector(alpha=0.085).detect(made)[1].tolist() == [UNEXPLAINED]
    assert not KindDetector(alpha=0.08).detect(made)[0].any()


# ---- options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"alpha": 1.5}, "alpha is 1.5; give a number from 0 to 1"),
        ({"alpha": "low"}, "alpha is 'low'"),
        ({"least": 0}, "least is 0; give a whole number of at least 1"),
        ({"least": 2.5}, "least is 2.5"),
        ({"growth": 0.9}, "growth is 0.9; give a number from 1 to inf"),
    ],
)
def test_senseless_options_are_refused(option: dict[str, float], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        KindDetector(**option)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=words):
        SampleDetector(test=ConfusionTest(), **option)  # type: ignore[arg-type]
