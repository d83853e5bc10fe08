"""What the method of a run needs of devices beside training and reports, as a run config tells it."""

from collections.abc import Mapping

from fielding._typing import Json
from fielding.client.drift import DriftTest, Never
from fielding.errors import OptionError, echo

MEMORY = "memory-rounds"
"""Key of the run config: how many rounds devices keep samples that have left the window."""
KEEPING_SAMPLES = ("feddrift", "feddrift-eager")
"""Methods that train on samples which have left the window, unless ``method.memory`` is ``"window"``."""
USUAL_MEMORY = 1000
"""Rounds that devices keep samples for such a method, if the run config does not say."""


def memory_rounds(config: Mapping[str, Json]) -> int:
    """Return how many rounds samples are kept after they left the window.

    Examples
    --------
    >>> memory_rounds({"method.name": "fielding"}), memory_rounds({"method.name": "feddrift"})
    (0, 1000)
    >>> memory_rounds({"method.name": "feddrift", "method.memory": "window"}), memory_rounds({"memory-rounds": 20})
    (0, 20)
    """
    needs_all = config.get("method.name") in KEEPING_SAMPLES and config.get("method.memory") != "window"
    got = config.get(MEMORY, USUAL_MEMORY if needs_all else 0)
    if type(got) is not int or not 0 <= got < 2**31:
        raise OptionError(f"{MEMORY} is {echo(got)}; give a whole number of rounds from 0 in the run config")
    return got


def own_drift_test(config: Mapping[str, Json]) -> DriftTest | None:
    """Return the drift test that the method of a run brings along; None for that of the coordinator.

    Examples
    --------
    >>> own_drift_test({"method.name": "flexcfl", "method.detector": "original"})
    FlexcflOriginal(share=0.2)
    """
    name = config.get("method.name")
    if not isinstance(name, str) or ":" in name:  # a method of one's own listens to the coordinator's test
        return None
    from fielding.methods import METHODS

    detector = METHODS[name].detector if name in METHODS else None
    if detector is None:
        return None
    options = {key.removeprefix("method."): value for key, value in config.items() if key.startswith("method.")}
    test = detector(options)
    # Who reports once in its life would say nothing after its report was lost; the server asks for one alone.
    return None if isinstance(test, Never) else test
