"""The drift tests on samples, by name.

To add one, write a frozen dataclass with the verb of :class:`~fielding.client.drift.batch.SampleTest` and name it in
``SAMPLE_TESTS``; ``tests/conformance/test_sample_tests.py`` then checks it with all the others.
"""

from collections.abc import Callable, Mapping

from fielding._options import check_options, options_of
from fielding._typing import Json
from fielding.client.drift.batch import SampleTest
from fielding.client.drift.by_embedding import Ks, Mmd
from fielding.client.drift.by_errors import ErrorRate
from fielding.client.drift.by_predictions import Bbsd, Confusion
from fielding.client.drift.by_river import Adwin, Hddm, Kswin, PageHinkley
from fielding.client.drift.class_shift import ClassShift
from fielding.client.drift.kinds import Joint
from fielding.errors import unknown_name

SAMPLE_TESTS: dict[str, Callable[..., SampleTest]] = {
    "adwin": Adwin,
    "bbsd": Bbsd,
    "class-shift": ClassShift,
    "confusion": Confusion,
    "error-rate": ErrorRate,
    "hddm": Hddm,
    "joint": Joint,
    "ks": Ks,
    "kswin": Kswin,
    "mmd": Mmd,
    "page-hinkley": PageHinkley,
}
"""Every drift test on samples, by the name that configs and commands use."""

RIVER_TESTS = ("adwin", "hddm", "kswin", "page-hinkley")
"""Those that need the extra ``drift``."""


OF_ERRORS = ("error-rate", *RIVER_TESTS)
"""Those that look at how served models err; they need no shared model."""


def sample_test_named(name: str, options: Mapping[str, Json] | None = None) -> SampleTest:
    """Return the sample test of this name.

    Parameters
    ----------
    name
        A key of ``SAMPLE_TESTS``.
    options
        Values of the test's options; what is missing keeps its default.

    Examples
    --------
    >>> sample_test_named("mmd", {"deals": 199})
    Mmd(deals=199, limit=256, seed=0)
    >>> sample_test_named("mdd")
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: unknown sample test 'mdd'; did you mean 'mmd'? Known: ...
    """
    if name not in SAMPLE_TESTS:
        raise unknown_name("sample test", name, SAMPLE_TESTS)
    build = SAMPLE_TESTS[name]
    check_options(f"sample test {name!r}", dict(options or {}), options_of(build))
    return build(**(options or {}))
