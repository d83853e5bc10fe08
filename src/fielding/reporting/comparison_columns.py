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
    found = [_names(methods)]
    if len({str(one.get("n_seeds")) for one in methods.values()}) > 1:
        found.append(_column("seeds", [str(one.get("n_seeds")) for one in methods.values()]))
    found += [_accuracy(summary, "final_accuracy", "final accuracy"), *_difference_columns(summary)]
    for figure, head in _ACCURACIES.items():
        if any(estimate_of(one.get(figure)) for one in methods.values()):
            found.append(_accuracy(summary, figure, head))
    if summary.get("target_of"):
        found += _target_columns(methods)
    return [*found, *_cost_columns(methods, is_brief=is_brief)]


def short_columns(summary: Row) -> list[Column]:
    """Return the columns that fit a page of print: accuracy, differences, the worst tenth, and how soon."""
    methods = named_records(summary, "methods")
    return [
        _names(methods),
        _accuracy(summary, "final_accuracy", "accuracy"),
        *_difference_columns(summary),
        _accuracy(summary, "worst_decile", _ACCURACIES["worst_decile"]),
        *(_target_columns(methods) if summary.get("target_of") else ()),
    ]


def held_against(summary: Row, role: str) -> list[str]:
    """Return the names of all that others are held against, each once.

    Parameters
    ----------
    summary
        Of the comparison.
    role
        ``reference`` or ``target_of``.
    """
    named = [one.get(role) for one in named_records(summary, "methods").values()]
    return list(dict.fromkeys(str(name) for name in named if name is not None)) or [str(summary.get(role))]


def has_shares(summary: Row) -> bool:
    """Return whether a time or a speed-up of the table is over some of the seeds only, and says so."""
    shown = _target_columns(named_records(summary, "methods"))
    return any(cell.text.endswith(")") for column in shown for cell in column.cells)


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


def _names(methods: Mapping[str, Row]) -> Column:
    return Column(head="method", cells=tuple(Cell(text=printable(name)) for name in methods), is_number=False)


def _difference_columns(summary: Row) -> list[Column]:
    """Return differences in accuracy and their p-values; nothing where there is no reference."""
    if not summary.get("reference"):
        return []
    gains, whose = named_records(summary, "paired"), held_against(summary, "reference")
    records = [gains.get(name, {}).get("final_accuracy") for name in named_records(summary, "methods")]
    head = printable(whose[0]) if len(whose) == 1 else "reference"
    return [
        _column(f"minus {head}", [_words(estimate_of(one), sign="+") for one in records]),
        _column("p", [_p_words(one) for one in records]),
    ]


def _accuracy(summary: Row, figure: str, head: str) -> Column:
    marked = named_records(summary, "best").get(figure, {}).get("marked")
    names, methods = marked if isinstance(marked, list) else [], named_records(summary, "methods")
    cells = [Cell(text=_words(estimate_of(one.get(figure))), is_marked=name in names) for name, one in methods.items()]
    return Column(head=head, cells=tuple(cells))


def _words(found: Estimate | None, *, sign: str = "") -> str:
    return NOTHING if found is None else found.words(sign=sign)


def _p_words(record: Json) -> str:
    """Return the adjusted p-value of a difference; a dash where nothing was tested."""
    p = record.get("p_holm") if isinstance(record, dict) else None
    return NOTHING if not isinstance(p, (int, float)) else "< 0.001" if p < 0.001 else digits(p)


def _target_columns(methods: Mapping[str, Row]) -> list[Column]:
    times = {name: estimate_of(one.get("time_to_target_s")) for name, one in methods.items()}
    unit = time_unit(max((one.mean for one in times.values() if one is not None), default=0.0))
    texts = [_time_words(times[name], one.get("n_targets"), SECONDS[unit]) for name, one in methods.items()]
    speedups = [_speedup_words(name, one) for name, one in methods.items()]
    return [_column(f"{unit} to target", texts), _column("speed-up", speedups)]


def _time_words(found: Estimate | None, n_targets: Json, unit: float) -> str:
    """Return the mean over the seeds that reached the target, and how many those are unless all did."""
    if found is None:
        return "never" if n_targets else NOTHING
    return f"{digits(found.mean / unit, 2)}{_share(len(found.per_seed), n_targets)}"


def _speedup_words(name: str, figures: Row) -> str:
    """Return how many times sooner a method is there, its interval, and on how many seeds that is unless on all."""
    record = figures.get("speedup")
    found: Row = record if isinstance(record, dict) else {}
    mean, ends = found.get("mean"), found.get("ci95")
    if not isinstance(mean, (int, float)):
        return NOTHING
    if name == figures.get("target_of"):  # a method is as fast as itself
        return digits(mean, 2)
    interval = f" [{', '.join(digits(one, 2) for one in ends)}]" if isinstance(ends, list) else ""
    return f"{digits(mean, 2)}{interval}{_share(found.get('n_seeds'), figures.get('n_targets'))}"


def _share(count: Json, whole: Json) -> str:
    return "" if count == whole else f" ({count}/{whole})"


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
