import subprocess
import sys

import pytest

from fielding.client.drift import AnyChange, Chi2, Periodic, Threshold, drift_test_named
from fielding.errors import OptionError


def test_test_is_found_by_its_name() -> None:
    assert drift_test_named("any-change") == AnyChange()
    assert drift_test_named("threshold", {"eps": 0.3}) == Threshold(eps=0.3)
    assert drift_test_named("periodic", {"rounds": 7}) == Periodic(rounds=7)


def test_calibrated_test_has_the_documented_defaults() -> None:
    assert drift_test_named("chi2") == Chi2(alpha=0.003, delta_min=0.0, min_fresh=10, growth=2.0)


def test_unknown_test_names_the_nearest_known_one() -> None:
    with pytest.raises(OptionError, match="unknown drift test 'treshold'; did you mean 'threshold'"):
        drift_test_named("treshold")


def test_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(OptionError, match="unknown option of drift test 'chi2' 'alfa'; did you mean 'alpha'"):
        drift_test_named("chi2", {"alfa": 0.01})
    with pytest.raises(OptionError, match="unknown option of drift test 'never' 'eps'"):
        drift_test_named("never", {"eps": 0.1})


def test_scipy_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, fielding.client.monitor, fielding.client.fleet; sys.exit('scipy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
