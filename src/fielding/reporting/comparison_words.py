"""What the table of a comparison means, in sentences, with what to know before believing it."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.comparison_columns import has_shares, held_against, named_records, printable
from fielding.reporting.marking import FEWEST_SEEDS
from fielding.reporting.paired import estimate_of
from fielding.reporting.words import counterpart_words, digits

Row: TypeAlias = Mapping[str, Json]
FEW_SEEDS = 5
"""With fewer seeds, only large differences are clear."""


def caption(summary: Row, mark: str) -> str:
    """Return in a few sentences what the table means.

    Parameters
    ----------
    summary
        Of the comparison.
    mark
        How the format marks the best: ``"*"``, ``"bold"``.
    """
    first, how, beware = _sentences(summary, mark)
    return " ".join([*first, *how, *beware])


def split_caption(summary: Row, mark: str) -> tuple[str, str]:
    """Return what the table holds and what to know before believing it, and apart from that how to read it."""
    first, how, beware = _sentences(summary, mark)
    return " ".join([*first, *beware]), " ".join(how)


def short_caption(summary: Row) -> str:
    """Return one sentence: what is compared, over how many seeds."""
    return f"{len(named_records(summary, 'methods'))} methods compared over {seed_count_words(_seed_counts(summary))}."


def seed_count_words(counts: Sequence[int]) -> str:
    """Return how many seeds there are, where groups have so many each.

    Examples
    --------
    >>> seed_count_words([3, 3]), seed_count_words([1, 3]), seed_count_words([1]), seed_count_words([])
    ('3 seeds', '1 to 3 seeds', '1 seed', '0 seeds')
    """
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{f'{low} to {high}' if low < high else high} {'seed' if high == 1 else 'seeds'}"


def _seed_counts(summary: Row) -> list[int]:
    """Return how many seeds each method has that has any."""
    found = [one.get("n_seeds") for one in named_records(summary, "methods").values()]
    return [count for count in found if isinstance(count, int) and count]


def _sentences(summary: Row, mark: str) -> tuple[list[str], list[str], list[str]]:
    """Return what the table holds, how to read it, and what to know before believing it."""
    counts, beware = _seed_counts(summary), [*_left_out_words(summary), *_notes(summary)]
    if not counts:
        return ["No run is finished."], [], _left_out_words(summary)
    if max(counts) < 2:
        seeds = summary.get("seeds")
        each = " each" if isinstance(seeds, list) and len(seeds) > 1 else ""
        first = [f"One seed{each}: no intervals, no tests, and nothing is marked as best."]
        return first, _target_words(summary), beware
    first = [f"Means over {seed_count_words(counts)} ± half of the 95 % t-interval."]
    return first, [*_difference_words(summary, max(counts), mark), *_target_words(summary)], beware


def _difference_words(summary: Row, n_seeds: int, mark: str) -> list[str]:
    found = []
    if summary.get("reference") and named_records(summary, "paired"):
        whose = _whose(held_against(summary, "reference"))
        found.append(
            f"Differences to {whose} are seed by seed; p: paired t-test, adjusted for the number of methods (Holm)."
        )
    if summary.get("reference"):
        is_grouped = any("within" in one for one in named_records(summary, "best").values())
        found.append(_mark_words(n_seeds, mark, is_grouped=is_grouped or len(held_against(summary, "reference")) > 1))
    if any(name.split()[0] == "oracle" for name in named_records(summary, "methods") if name.strip()):
        found.append("The oracle knows the truth and is not marked.")
    return found


def _mark_words(n_seeds: int, mark: str, *, is_grouped: bool) -> str:
    if n_seeds < FEWEST_SEEDS:
        return "Nothing is marked as best: that takes three seeds."
    among = " among those held against the same" if is_grouped else ""
    few = " With fewer than five seeds only large differences are clear." if n_seeds < FEW_SEEDS else ""
    return (
        f"{mark.capitalize()}: best{among}, or not clearly worse than the best (same test, 5 %, adjusted for the "
        f"number of pairs); nothing is marked where no method is clearly worse.{few}"
    )


def _target_words(summary: Row) -> list[str]:
    names = held_against(summary, "target_of")
    if not summary.get("target_of"):
        return []
    target = estimate_of(summary.get("target_accuracy"))
    average = f" ({digits(target.mean)} on average)" if target is not None and len(names) == 1 else ""
    sooner_than = _whose(names) if len(names) == 1 else "the one whose accuracy that is"
    shares = "; (2/3): on two of the three seeds that have a target" if has_shares(summary) else ""
    return [
        f"Target: the final accuracy of {_whose(names)} on the same seed{average}; the time is simulated, until "
        f"accuracy stays at the target, over the seeds that got there{shares}.",
        f"Speed-up: how many times sooner than {sooner_than}, on the seeds where both got there (geometric mean), "
        "in brackets its 95 % t-interval, from three seeds on.",
    ]


def _whose(names: Sequence[str]) -> str:
    return counterpart_words([printable(name) for name in names])


def _left_out_words(summary: Row) -> list[str]:
    """Return how many runs are missing, and why."""
    counts = {
        name: len(found) if isinstance(found := summary.get(name), list) else 0 for name in ("failed", "unfinished")
    }
    words = [f"{count} {name}" for name, count in counts.items() if count]
    return [f"Runs that are missing here: {', '.join(words)}."] if words else []


def _notes(summary: Row) -> list[str]:
    notes = summary.get("notes")
    return [printable(str(note)) for note in notes] if isinstance(notes, list) else []
