"""What the table of a comparison means, in sentences, with what to know before believing it."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.comparison_columns import held_against, named_records, printable
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
    seeds, methods = summary.get("seeds"), named_records(summary, "methods")
    if not any(one.get("n_seeds") for one in methods.values()):
        return " ".join(["No run is finished.", *_left_out_words(summary)])
    n_seeds = len(seeds) if isinstance(seeds, list) else 0
    return " ".join(
        [*_seed_words(summary, n_seeds, mark), *_target_words(summary), *_left_out_words(summary), *_notes(summary)]
    )


def short_caption(summary: Row) -> str:
    """Return one sentence: what is compared, over how many seeds."""
    n_methods, seeds = len(named_records(summary, "methods")), summary.get("seeds")
    n_seeds = len(seeds) if isinstance(seeds, list) else 0
    return f"{n_methods} methods compared over {n_seeds} {'seed' if n_seeds == 1 else 'seeds'}."


def _seed_words(summary: Row, n_seeds: int, mark: str) -> list[str]:
    if n_seeds < 2:
        return ["One seed: no intervals, no tests, and nothing is marked as best."]
    found = [f"Means over {n_seeds} seeds ± half of the 95 % t-interval."]
    if summary.get("reference"):
        whose = _whose(held_against(summary, "reference"))
        found.append(
            f"Differences to {whose} are seed by seed; p: paired t-test, adjusted for the number of methods (Holm)."
        )
        found.append(_mark_words(n_seeds, mark, is_grouped=len(held_against(summary, "reference")) > 1))
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
    return [
        f"Target: the final accuracy of {_whose(names)} on the same seed{average}; the time is simulated, until "
        "accuracy stays at the target, over the seeds that got there (1/2: one of the two that have a target).",
        f"Speed-up: how many times sooner than {sooner_than}, on the seeds where both got there (geometric mean), "
        "with a 95 % t-interval from three seeds on.",
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
