import sys
from importlib.util import find_spec

import numpy as np
import pytest

from fielding import _extras
from fielding.client.drift.drift_test import Batch, SampleTest
from fielding.client.drift.river_tests import Adwin, Hddm, Kswin, PageHinkley
from fielding.errors import OptionError
from fielding.rng import stream
from tests.client.drift.batches import batch

ALL = (Adwin(), Hddm(), Kswin(), PageHinkley())
needs_river = pytest.mark.skipif(
    find_spec("river") is None, reason="river is not installed: pip install 'fielding[drift]'"
)


@pytest.fixture(autouse=True)
def _river_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_extras.EXTRAS, "drift", "river")


def served(rate: float, n_samples: int, *, n_clients: int = 20) -> Batch:
    errors = stream(1, "river", n_samples).random(n_clients * n_samples) < rate
    sizes = np.full(n_clients, n_samples)
    return batch(labels=np.zeros(errors.size, dtype=np.int64), errors=errors.astype(np.float64), sizes=sizes)


@needs_river
@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_more_errors_set_it_off_and_fewer_do_not(detector: SampleTest) -> None:
    assert detector.p_values(served(0.1, 100), served(0.9, 40)).tolist() == [0.0] * 20
    assert detector.p_values(served(0.9, 100), served(0.1, 40)).tolist() == [1.0] * 20


@needs_river
def test_losses_may_be_given_to_those_that_take_them() -> None:
    then = batch(labels=np.zeros(100, dtype=np.int64), errors=stream(1, "losses").random(100))
    now = batch(labels=np.zeros(40, dtype=np.int64), errors=2.0 + stream(2, "losses").random(40))

    for detector in (Adwin(), Kswin(), PageHinkley()):
        assert detector.p_values(then, now).tolist() == [0.0]


@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_without_river_the_message_says_how_to_get_it(detector: SampleTest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "river"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})

    with pytest.raises(OptionError, match=r"pip install 'fielding\[drift\]'"):
        detector.p_values(served(0.1, 5), served(0.1, 5))


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(OptionError, match="delta"):
        Adwin(delta=2.0)
    with pytest.raises(OptionError, match="confidence"):
        Hddm(confidence=-1.0)
    with pytest.raises(OptionError, match="window"):
        Kswin(window=0)
    with pytest.raises(OptionError, match="threshold"):
        PageHinkley(threshold=-1.0)
