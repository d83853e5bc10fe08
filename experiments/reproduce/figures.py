"""Our figures of a variant beside another, by the names that the TOML files ask for them with."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from experiments.reproduce import courses, speed
from experiments.reproduce.results import Figure, Results, figure_of
from fielding.reporting.numbers.paired import SHARE, estimate, paired_difference

PLAIN, NEXT, CORRECTED = "final_accuracy", "final_next_accuracy", "final_accuracy_corrected"
"""Final accuracy on the window and on the next interval, and on the window after clients corrected their models."""


def level(results: Results, of: str, _against: str, *, name: str = PLAIN) -> Figure:
    """Return the final accuracy in percent."""
    return figure_of(estimate(results.known(of, name), SHARE), 100.0)


def gain(results: Results, of: str, against: str, *, name: str = PLAIN, theirs: str | None = None) -> Figure:
    """Return the final accuracy minus another's, seed by seed, in points.

    Parameters
    ----------
    results, of, against
        The runs; whose accuracy, minus whose.
    name, theirs
        Which accuracy of ours and of the other; the same by default.
    """
    return figure_of(paired_difference(results.known(of, name), results.known(against, theirs or name)), 100.0)


FIGURES: Mapping[str, Callable[[Results, str, str], Figure | None]] = MappingProxyType(
    {
        "level": level,
        "gain": gain,
        "next gain": partial(gain, name=NEXT),
        "corrected gain": partial(gain, name=CORRECTED),
        "corrected next gain": partial(gain, name=f"{NEXT}_corrected"),
        "gain over corrected": partial(gain, theirs=CORRECTED),
        "speedup": speed.faster,
        "speedup in rounds": partial(speed.faster, name=speed.ROUNDS),
        "time ratio": speed.time_ratio,
        "heterogeneity change": courses.heterogeneity_change,
        "late heterogeneity change": courses.late_heterogeneity_change,
        "mean difference": courses.mean_difference,
        "late difference": courses.late_difference,
        "largest difference": courses.largest_difference,
        "share of rounds above": courses.share_above,
        "deeper drop": courses.deeper_drop,
        "late change": courses.late_change,
    }
)
"""What the TOML files may ask for."""
SIGNED = frozenset(FIGURES) - {"level", "speedup", "speedup in rounds", "time ratio", "share of rounds above"}
"""Those that are differences and so have a sign."""
SPEEDUPS = {"speedup": speed.SECONDS, "speedup in rounds": speed.ROUNDS}
"""Those that are not to be had on seeds where the target is never reached, and what they count."""
