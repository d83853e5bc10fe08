"""The table of a comparison for the terminal, Markdown, LaTeX and spreadsheets."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fielding._typing import Json
from fielding.atomic import replaced_file
from fielding.reporting.numbers.paired import FEWEST_SEEDS, Estimate, estimate_of
from fielding.reporting.words import SECONDS, counterpart_words, digits, megabytes, time_unit

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


MARK = "*"
# In braces: at the start of a row, LaTeX would take brackets and asterisks for options of the rule before it.
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "[": "{[}", "]": "{]}", "*": "{*}",
}  # fmt: skip
_LATIN = frozenset("ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿ")
"""Letters that every LaTeX sets."""
_MARKDOWN = {**{one: f"\\{one}" for one in r"\`*_[]|~#!"}, "&": "&amp;", "<": "&lt;", ">": "&gt;"}
_PLAIN = ("n_seeds", "reference", "target_of", "n_targets")
"""What the CSV file of means tells of a method besides figures."""
_AMOUNTS = (
    "bytes_", "client_seconds", "time_", "rounds_to_", "n_", "moves", "reclusterings", "mean_clusters", "server_ms",
    "adapt_ms", "wall_s", "peak_bytes", "detection_delay", "false_reports", "drift_recovery", "recluster_recovery",
)  # fmt: skip
"""How names of figures begin that no run can have less than nothing of; t-intervals over few seeds reach below."""
_FORMULA = ("=", "+", "-", "@")


def comparison_table(summary: Row) -> list[list[str]]:
    """Return the table for the terminal: heads first, then a row for each method; ``*`` marks the best.

    Parameters
    ----------
    summary
        The content of the comparison's ``summary.json``.
    """
    return _rows(
        columns(summary, is_brief=True), lambda cell: f"{cell.text}{MARK if cell.is_marked else ''}", lambda head: head
    )


def table_words(summary: Row) -> str:
    """Return what the table in the terminal means."""
    return caption(summary, MARK)


def page_words(summary: Row) -> tuple[str, str]:
    """Return what the table on a page holds and what to beware of, and apart from that how to read it."""
    return split_caption(summary, MARK)


def markdown_table(summary: Row) -> str:
    """Return the table as Markdown, the best in bold, with what it means below it."""
    shown = columns(summary)
    head, *rows = _rows(shown, _markdown_cell, escaped_markdown)
    rule = ["---:" if one.is_number else "---" for one in shown]
    lines = [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]
    return "\n".join([*lines, "", escaped_markdown(caption(summary, "bold")), ""])


def latex_table(summary: Row) -> str:
    r"""Return a table that fits a page as LaTeX with booktabs' rules, the best in ``\textbf``, with notes below it.

    It has the figures that papers print; the Markdown table and the CSV file have all.
    """
    shown = short_columns(summary)
    head, *rows = _rows(shown, _latex_cell, escaped_latex)
    lines = [f"{' & '.join(row)} \\\\" for row in (head, *rows)]
    table = "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped_latex(short_caption(summary))}}}",
            r"\label{tab:comparison}",
            r"\footnotesize",
            r"\setlength{\tabcolsep}{4pt}",
            rf"\begin{{tabular}}{{{''.join('r' if one.is_number else 'l' for one in shown)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            "",
            r"\smallskip",
            r"\begin{minipage}{\linewidth}",
            rf"\scriptsize {escaped_latex(caption(summary, 'bold'))}",
            r"\end{minipage}",
            r"\end{table}",
            "",
        ]
    )
    return "\n".join([r"% Needs \usepackage{booktabs}.", *_font_comment(table), table])


def _font_comment(text: str) -> list[str]:
    """Return what to set a text with if it has letters that LaTeX does not know by itself."""
    rare = sorted({one for one in text if not one.isascii() and one not in _LATIN})
    return [f"% Needs xelatex or lualatex and a font that has: {' '.join(rare)}"] if rare else []


def means_csv(summary: Row) -> str:
    """Return a row for each method: every figure's mean and the ends of its interval, and differences to the reference.

    The columns of a figure are ``NAME``, ``NAME_low`` and ``NAME_high``; those of a difference ``NAME_difference``,
    the same with ``_low`` and ``_high``, ``NAME_p`` and ``NAME_p_holm``. Before them stand ``n_seeds``, ``reference``,
    ``target_of`` and ``n_targets``. Intervals of times, bytes and counts end at 0.
    """
    methods, timings, paired = (named_records(summary, name) for name in ("methods", "timings", "paired"))
    rows: list[dict[str, Json]] = []
    for name, figures in methods.items():
        row: dict[str, Json] = {"method": name, **{key: figures.get(key) for key in _PLAIN}}
        for figure, record in _records({**figures, **timings.get(name, {})}):
            row |= _ends(figure, record)
        for figure, record in _records(paired.get(name, {})):
            row |= _ends(f"{figure}_difference", record)
            row |= {f"{figure}_p": record.get("p"), f"{figure}_p_holm": record.get("p_holm")}
        rows.append(row)
    return _csv(rows)


def runs_csv(summary: Row) -> str:
    """Return a row for each finished run: ``method``, ``seed``, and every figure."""
    seeds = summary.get("seeds")
    timings = named_records(summary, "timings")
    rows: list[dict[str, Json]] = []
    for name, figures in named_records(summary, "methods").items():
        records = _records({**figures, **timings.get(name, {})})
        for at, seed in enumerate(seeds if isinstance(seeds, list) else []):
            row = {figure: _at(record.get("per_seed"), at) for figure, record in records}
            if any(value is not None for value in row.values()):
                rows.append({"method": name, "seed": seed, **row})
    return _csv(rows)


def written_tables(folder: Path, summary: Row) -> list[Path]:
    """Write ``table.md``, ``table.csv``, ``table.tex`` and ``runs.csv`` into a folder; return where they are.

    Each appears whole or not at all.
    """
    texts = {
        "table.md": markdown_table(summary),
        "table.csv": means_csv(summary),
        "table.tex": latex_table(summary),
        "runs.csv": runs_csv(summary),
    }
    for name, text in texts.items():
        with replaced_file(folder / name) as file:
            file.write(text.encode(errors="replace"))
    return [folder / name for name in texts]


def escaped_latex(text: str) -> str:
    r"""Return a text that LaTeX prints as it is.

    Examples
    --------
    >>> escaped_latex("a_b & 5 % ± 1")
    'a\\_b \\& 5 \\% $\\pm$ 1'
    """
    return "".join(_LATEX.get(one, one) for one in printable(text))


def escaped_markdown(text: str) -> str:
    r"""Return a text that Markdown shows as it is, in a table too.

    Examples
    --------
    >>> escaped_markdown("a_b | <i>")
    'a\\_b \\| &lt;i&gt;'
    """
    return "".join(_MARKDOWN.get(one, one) for one in printable(text))


def _rows(shown: Sequence[Column], cell: Callable[[Cell], str], head: Callable[[str], str]) -> list[list[str]]:
    """Return the rows of a table, heads first."""
    cells = [[cell(one) for one in column.cells] for column in shown]
    return [[head(column.head) for column in shown], *(list(row) for row in zip(*cells, strict=True))]


def _markdown_cell(cell: Cell) -> str:
    text = escaped_markdown(cell.text)
    return f"**{text}**" if cell.is_marked else text


def _latex_cell(cell: Cell) -> str:
    """Return a cell; the minus before a number is a minus, and nothing is a dash, not a hyphen."""
    text = "--" if cell.text == NOTHING else escaped_latex(cell.text)
    if text[:1] == "-" and text[1:2].isdigit():
        text = f"$-${text[1:]}"
    return rf"\textbf{{{text}}}" if cell.is_marked else text


def _records(figures: Row) -> list[tuple[str, dict[str, Json]]]:
    return [(name, one) for name, one in figures.items() if isinstance(one, dict)]


def _ends(name: str, record: Row) -> dict[str, Json]:
    ends = record.get("ci95")
    low, high = ends if isinstance(ends, list) and len(ends) == 2 else (None, None)
    if isinstance(low, (int, float)) and name.startswith(_AMOUNTS) and not name.endswith("_difference"):
        low = max(low, 0.0)
    return {name: record.get("mean"), f"{name}_low": low, f"{name}_high": high}


def _at(values: Json, place: int) -> Json:
    return values[place] if isinstance(values, list) and place < len(values) else None


def _csv(rows: Sequence[Row]) -> str:
    """Return rows as CSV; a column is there if any row has it, and no text is one that spreadsheets compute."""
    heads = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    for row in rows:
        writer.writerow([_csv_cell(row.get(name)) for name in heads])
    return file.getvalue()


def _csv_cell(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
