"""What the table of a comparison tells of each method, in words: the same columns for every format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.paired import Estimate, estimate_of
from fielding.reporting.words import SECONDS, digits, megabytes, time_unit

Row: TypeAlias = Mapping[str, Json]
NOTHING = "-"
_ACCURACIES = {
    "worst_decile": "worst tenth",
    "final_accuracy_corrected": "corrected",
    "final_accuracy_tuned": "tuned",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A value in words, and whether it may be marked as best."""

    text: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its head, and a cell for each method.

    Parameters
    ----------
    head
        What stands above it.
    cells
        In the order of the methods.
    is_number
        Whether it is flushed right.
    """

    head: str
    cells: tuple[Cell, ...]
    is_number: bool = True


def columns(summary: Row, *, is_brief: bool = False) -> list[Column]:
    """Return the columns of the table of a comparison, the names of the methods first; a brief one fits a terminal."""
    methods = named_records(summary, "methods")
    found = [Column(head="method", cells=tuple(Cell(text=printable(name)) for name in methods), is_number=False)]
    if len({str(one.get("n_seeds")) for one in methods.values()}) > 1:
        found.append(_column("seeds", [str(one.get("n_seeds")) for one in methods.values()]))
    found.append(_accuracy(summary, methods, "final_accuracy", "final accuracy"))
    if reference := summary.get("reference"):
        gains = named_records(summary, "paired")
        records = [gains.get(name, {}).get("final_accuracy") for name in methods]
        found += [
            _column(f"minus {printable(str(reference))}", [_words(estimate_of(one), sign="+") for one in records]),
            _column("p", [_p_words(one) for one in records]),
        ]
    for figure, head in _ACCURACIES.items():
        if any(estimate_of(one.get(figure)) for one in methods.values()):
            found.append(_accuracy(summary, methods, figure, head))
    if summary.get("target_of"):
        found += _target_columns(methods, has_interval=not is_brief)
    return [*found, *_cost_columns(methods, is_brief=is_brief)]


def caption(summary: Row, mark: str) -> str:
    """Return in a few sentences what the table means.

    Parameters
    ----------
    summary
        Of the comparison.
    mark
        How the format marks the best: ``"*"``, ``"bold"``.
    """
    seeds, target = summary.get("seeds"), estimate_of(summary.get("target_accuracy"))
    n_seeds = len(seeds) if isinstance(seeds, list) else 0
    said = [_seed_words(summary, n_seeds, mark)]
    if summary.get("target_of") and target is not None:
        whose = printable(str(summary["target_of"]))
        said.append(
            f"Target: the final accuracy of {whose} on the same seed ({digits(target.mean)} on average); the time is "
            "simulated, until accuracy stays at the target, over the seeds that got there (1/2: one of two). Speed-up: "
            f"mean time of {whose} over that of the method, with a 95 % bootstrap interval where one is given."
        )
    return " ".join([*said, *_left_out_words(summary)])


def named_records(summary: Row, name: str) -> dict[str, dict[str, Json]]:
    """Return a table of tables of a summary, by name; nothing if it has none."""
    found = summary.get(name)
    return {key: one for key, one in found.items() if isinstance(one, dict)} if isinstance(found, dict) else {}


def printable(text: str) -> str:
    r"""Return a text in one line, without anything that a terminal or an editor would obey.

    Examples
    --------
    >>> printable("a\x1b[31mb\nc")
    'a?[31mb c'
    """
    return "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))


def _column(head: str, texts: Sequence[str]) -> Column:
    return Column(head=head, cells=tuple(Cell(text=text) for text in texts))


def _accuracy(summary: Row, methods: Mapping[str, Row], figure: str, head: str) -> Column:
    marked = named_records(summary, "best").get(figure, {}).get("marked")
    names = marked if isinstance(marked, list) else []
    cells = [Cell(text=_words(estimate_of(one.get(figure))), is_marked=name in names) for name, one in methods.items()]
    return Column(head=head, cells=tuple(cells))


def _words(found: Estimate | None, *, sign: str = "") -> str:
    return NOTHING if found is None else found.words(sign=sign)


def _p_words(record: Json) -> str:
    """Return the adjusted p-value of a difference; a dash where nothing was tested."""
    p = record.get("p_holm") if isinstance(record, dict) else None
    return NOTHING if not isinstance(p, (int, float)) else "< 0.001" if p < 0.001 else digits(p)


def _target_columns(methods: Mapping[str, Row], *, has_interval: bool) -> list[Column]:
    times = {name: estimate_of(one.get("time_to_target_s")) for name, one in methods.items()}
    unit = time_unit(max((one.mean for one in times.values() if one is not None), default=0.0))
    texts = [_time_words(times[name], one.get("n_seeds"), SECONDS[unit]) for name, one in methods.items()]
    return [
        _column(f"{unit} to target", texts),
        _column("speed-up", [_speedup_words(one.get("speedup"), has_interval) for one in methods.values()]),
    ]


def _time_words(found: Estimate | None, n_seeds: Json, unit: float) -> str:
    """Return the mean over the seeds that reached the target, and how many those are unless all did."""
    if found is None:
        return "never" if n_seeds else NOTHING
    n_reached = len(found.per_seed)
    return f"{digits(found.mean / unit, 2)}{'' if n_reached == n_seeds else f' ({n_reached}/{n_seeds})'}"


def _speedup_words(record: Json, has_interval: bool) -> str:
    mean, ends = (record.get("mean"), record.get("ci95")) if isinstance(record, dict) else (None, None)
    if not isinstance(mean, (int, float)):
        return NOTHING
    if not has_interval or not isinstance(ends, list) or ends[0] == ends[1]:  # a method is as fast as itself
        return digits(mean, 2)
    return f"{digits(mean, 2)} [{', '.join(digits(one, 2) for one in ends)}]"


def _cost_columns(methods: Mapping[str, Row], *, is_brief: bool) -> list[Column]:
    rows = list(methods.values())
    down, up = (
        [megabytes(_mean(one, name)).removesuffix(" MB") for one in rows] for name in ("bytes_down", "bytes_up")
    )
    both = [f"{one}/{other}" for one, other in zip(down, up, strict=True)]
    return [
        *([_column("MB down/up", both)] if is_brief else [_column("MB down", down), _column("MB up", up)]),
        _column("moves", [_count_words(one, "moves") for one in rows]),
        _column("re-clusterings", [_count_words(one, "reclusterings") for one in rows]),
    ]


def _count_words(figures: Row, name: str) -> str:
    """Return how often something was done to clusters, a dash for a method that has none."""
    has_none = _mean(figures, "mean_clusters") == 1 and not _mean(figures, "n_reports")
    return NOTHING if has_none else digits(_mean(figures, name), 1)


def _mean(figures: Row, name: str) -> float | None:
    found = estimate_of(figures.get(name))
    return None if found is None else found.mean


def _seed_words(summary: Row, n_seeds: int, mark: str) -> str:
    if n_seeds < 2:
        return "One seed: no intervals, no tests, and nothing is marked as best."
    against = f"Differences to {printable(str(summary['reference']))} are" if summary.get("reference") else ""
    tests = (
        f" {against} seed by seed; p: paired t-test, adjusted for the number of methods (Holm). "
        f"{mark.capitalize()}: best, or not clearly worse than the best (same test, 5 %); nothing is marked where "
        "no method is clearly worse."
    )
    oracle = " The oracle knows the truth and is not marked." if "oracle" in named_records(summary, "methods") else ""
    return f"Means over {n_seeds} seeds ± half of the 95 % t-interval.{tests if against else ''}{oracle}"


def _left_out_words(summary: Row) -> list[str]:
    """Return how many runs are missing, and why."""
    counts = {
        name: len(found) if isinstance(found := summary.get(name), list) else 0 for name in ("failed", "unfinished")
    }
    words = [f"{count} {name}" for name, count in counts.items() if count]
    return [f"Runs that are missing here: {', '.join(words)}."] if words else []
