"""The table of a comparison for the terminal, Markdown, LaTeX and spreadsheets."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from fielding._typing import Json
from fielding.atomic import replaced_file
from fielding.reporting.comparison_columns import (
    NOTHING,
    Cell,
    Column,
    columns,
    named_records,
    printable,
    short_columns,
)
from fielding.reporting.comparison_words import caption, short_caption, split_caption

Row: TypeAlias = Mapping[str, Json]
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
