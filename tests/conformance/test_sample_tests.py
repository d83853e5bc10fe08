"""What every drift test on samples must be able to do, whatever it looks at."""

import pickle
from dataclasses import fields, replace
from importlib.util import find_spec

import numpy as np
import pytest

from fielding import _extras
from fielding.client.drift.drift_test import Batch, SampleTest
from fielding.client.drift.sample_tests import RIVER_TESTS, SAMPLE_TESTS, sample_test_named
from fielding.errors import InputError
from tests.client.drift.batches import Drift, batch, simulated

no_river = pytest.mark.skipif(
    find_spec("river") is None, reason="river is not installed: pip install 'fielding[drift]'"
)
NAMES = [pytest.param(name, marks=[no_river] if name in RIVER_TESTS else []) for name in SAMPLE_TESTS]
VARIANTS = (
    ("mmd", {"deals": 99}),
    ("class-shift", {"deals": 99}),
    ("class-shift", {"within": "predicted"}),
    ("ks", {"basis": "seeded"}),
)
CALIBRATED = [sample_test_named(name) for name in ("bbsd", "confusion", "class-shift", "mmd")]
CALIBRATED += [sample_test_named(name, options) for name, options in VARIANTS[:3]]
N_CLIENTS = {"hddm": 60, "kswin": 10}
"""Fewer for the slow ones: KSWIN takes 30 ms a client."""


@pytest.fixture(autouse=True)
def _river_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_extras.EXTRAS, "drift", "river")


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sample_test(name: str) -> SampleTest:
    return sample_test_named(name)


def one_of(whole: Batch, client: int) -> Batch:
    which = list(whole.clients())[client]
    return whole.rows(which, sizes=whole.sizes[client : client + 1])


def found(sample_test: SampleTest, drift: Drift, *, n_clients: int = 60, alpha: float = 0.01) -> float:
    return float((sample_test.p_values(*simulated(drift, n_clients)) < alpha).mean())


def test_it_gives_a_probability_for_every_client(sample_test: SampleTest) -> None:
    answers = sample_test.p_values(*simulated("looks", 6))

    assert answers.shape == (6,)
    assert answers.dtype == np.float64
    assert ((answers >= 0) & (answers <= 1)).all()


def test_it_does_not_edit_what_it_is_given(sample_test: SampleTest) -> None:
    reference, fresh = simulated("looks", 4)
    before = pickle.dumps((reference, fresh))

    sample_test.p_values(reference, fresh)

    assert pickle.dumps((reference, fresh)) == before


def test_it_judges_a_client_alone_as_among_others(sample_test: SampleTest) -> None:
    reference, fresh = simulated("looks", 5, n=15, m=20)

    alone = [sample_test.p_values(one_of(reference, at), one_of(fresh, at))[0] for at in range(5)]

    assert sample_test.p_values(reference, fresh) == pytest.approx(np.array(alone), rel=1e-9)


def test_it_says_the_same_twice_and_after_a_pickle(sample_test: SampleTest) -> None:
    copy = pickle.loads(pickle.dumps(sample_test))

    assert copy == sample_test
    assert (copy.p_values(*simulated("swap", 4)) == sample_test.p_values(*simulated("swap", 4))).all()


def test_false_alarms_are_rare(sample_test: SampleTest, name: str) -> None:
    assert found(sample_test, "none", n_clients=N_CLIENTS.get(name, 300), alpha=0.05) <= 0.08


@pytest.mark.parametrize("sample_test", CALIBRATED, ids=repr)
def test_false_alarms_come_as_often_as_was_asked(sample_test: SampleTest) -> None:
    """500 clients at 0.1: three standard errors are 0.04."""
    assert 0.06 <= found(sample_test, "none", n_clients=500, alpha=0.1) <= 0.14


@pytest.mark.parametrize(("other", "options"), VARIANTS)
def test_variants_keep_their_level_and_find_looks(other: str, options: dict[str, str | int]) -> None:
    variant = sample_test_named(other, options)

    assert found(variant, "none", n_clients=200, alpha=0.05) <= 0.09
    assert found(variant, "looks", alpha=0.02) > 0.8


def test_planted_drift_is_found(sample_test: SampleTest, name: str) -> None:
    """Inputs that are only called otherwise are no business of the tests that see no labels."""
    drift: Drift = "looks" if name in ("bbsd", "ks", "mmd") else "swap"

    assert found(sample_test, drift, n_clients=N_CLIENTS.get(name, 60)) > 0.8


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 40), (40, 1), (2, 1), (2, 2)])
def test_a_sample_or_two_are_judged_without_a_fuss(sample_test: SampleTest, n: int, m: int) -> None:
    answers = sample_test.p_values(*simulated("looks", 3, n=n, m=m))

    assert np.isfinite(answers).all()
    assert n + m > 3 or (answers > 0.01).all()


def test_clients_without_samples_then_or_now_say_nothing(sample_test: SampleTest) -> None:
    reference, fresh = simulated("looks", 3)
    nobody = np.zeros(3, dtype=np.int64)
    empty = fresh.rows(slice(0, 0), sizes=nobody)

    for then, now in ((reference, empty), (empty, fresh), (empty, empty)):
        assert sample_test.p_values(then, now).tolist() == [1.0, 1.0, 1.0]


def test_an_empty_client_leaves_its_neighbors_alone(sample_test: SampleTest) -> None:
    reference, fresh = simulated("looks", 2)
    with_gap = (
        replace(reference, sizes=np.insert(reference.sizes, 1, 0)),
        replace(fresh, sizes=np.insert(fresh.sizes, 1, 0)),
    )

    both = sample_test.p_values(reference, fresh)

    assert sample_test.p_values(*with_gap).tolist() == [both[0], 1.0, both[1]]


def test_classes_that_one_side_lacks_do_no_harm(sample_test: SampleTest) -> None:
    reference, fresh = simulated("none", 1)
    shifted = replace(fresh, labels=np.full(40, 3), predicted=np.full(40, 3))
    unseen = replace(reference, labels=reference.labels % 3, predicted=reference.predicted % 3)

    assert np.isfinite(sample_test.p_values(unseen, shifted)).all()


def test_samples_without_labels_are_judged_by_those_who_need_none(sample_test: SampleTest, name: str) -> None:
    reference, fresh = (replace(one, labels=np.full(one.labels.size, -1)) for one in simulated("looks", 20))

    answers = sample_test.p_values(reference, fresh)

    if name in ("bbsd", "ks", "mmd"):
        assert (answers < 0.01).mean() > 0.8
    else:
        assert answers.tolist() == [1.0] * 20


def test_constant_features_and_predictions_never_drift(sample_test: SampleTest) -> None:
    n_then, n_now = 37, 23
    then, now = (
        batch(
            labels=np.arange(n) % 4,
            predicted=np.zeros(n, dtype=np.int64),
            features=np.full((n, 5), 0.1),
            errors=np.zeros(n),
        )
        for n in (n_then, n_now)
    )

    assert sample_test.p_values(then, now).tolist() == [1.0]


def test_no_clients_give_no_answers(sample_test: SampleTest) -> None:
    nobody = batch(labels=np.zeros(0, dtype=np.int64), sizes=np.zeros(0, dtype=np.int64))

    assert sample_test.p_values(nobody, nobody).shape == (0,)


def test_batches_of_different_clients_are_refused(sample_test: SampleTest) -> None:
    with pytest.raises(InputError, match="same clients"):
        sample_test.p_values(simulated("none", 2)[0], simulated("none", 3)[1])


def test_it_says_what_it_means(sample_test: SampleTest) -> None:
    assert isinstance(sample_test, SampleTest)
    assert type(sample_test).__doc__
    assert all(field.default is not None for field in fields(sample_test))  # type: ignore[arg-type]
