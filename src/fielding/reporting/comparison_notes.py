"""What makes a comparison less than it seems, in sentences."""

from collections.abc import Mapping, Sequence

from fielding._typing import Json
from fielding.reporting.gathering import Gathered
from fielding.reporting.same_data import OTHER_DATA, version_words

MOST_NAMES = 3
"""Groups that a sentence names."""


def comparison_notes(gathered: Gathered, runs: Mapping[str, Mapping[int | None, Mapping[str, Json]]]) -> list[str]:
    """Return what to know before believing a comparison.

    Parameters
    ----------
    gathered
        The runs.
    runs
        Figures of finished runs, by group and seed.
    """
    others = {*gathered.references.values(), *gathered.targets.values()}
    lacking = [name for name, mine in runs.items() if name in others and not mine]
    foreign = [run for _, run in gathered.runs if any(one.startswith(OTHER_DATA) for one in run.problems)]
    return [
        *[f"{name} has no finished run: what is held against it is not known." for name in lacking],
        *_unlike(gathered),
        *_diverged(runs),
        *([f"Runs that do not count since they were {OTHER_DATA} the others: {len(foreign)}."] if foreign else ()),
        *filter(None, [version_words(run for group in gathered.groups for run in group.finished)]),
    ]


def diverged_words(counts: Mapping[str, tuple[int, int]]) -> str:
    """Return how many trainings of which groups gave no finite model; nothing if all did.

    Parameters
    ----------
    counts
        By group, how many gave none, and how many there were.

    Examples
    --------
    >>> diverged_words({"ifca": (0, 9), "global": (200, 200)})
    'global (200 of 200)'
    """
    return named([f"{name} ({failed:,} of {whole:,})" for name, (failed, whole) in counts.items() if failed])


def named(names: Sequence[str]) -> str:
    """Return some names, of many the first few.

    Examples
    --------
    >>> named(["a", "b"]), named(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"


def _unlike(gathered: Gathered) -> list[str]:
    """Return which groups are not held against the reference, though there is one, and why."""
    alone = [name for name, other in gathered.references.items() if other is None]
    if gathered.reference is None or not alone:
        return []
    return [
        f"No difference, test, target or speed-up for {named(alone)}: no run of {gathered.reference} or its like is on "
        "the same data (section [trace] of the config) and over as many rounds."
    ]


def _diverged(runs: Mapping[str, Mapping[int | None, Mapping[str, Json]]]) -> list[str]:
    counts = {name: (_total(mine, "n_failed"), _total(mine, "n_trained")) for name, mine in runs.items()}
    words = diverged_words(counts)
    return [f"Training diverged, no finite model came of it: {words}; lower training.learning_rate."] if words else []


def _total(mine: Mapping[int | None, Mapping[str, Json]], name: str) -> int:
    values = [figures.get(name) for figures in mine.values()]
    return sum(int(value) for value in values if isinstance(value, (int, float)))
