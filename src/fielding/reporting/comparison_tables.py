"""The table of a comparison for the terminal, Markdown, LaTeX and spreadsheets."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fielding._typing import Json
from fielding.atomic import replaced_file
from fielding.errors import printable
from fielding.reporting.formatting import (
    SECONDS,
    counterpart_words,
    digits,
    megabytes,
    metric_heads,
    places_of,
    time_unit,
)
from fielding.reporting.numbers.comparison import CLAIMED
from fielding.reporting.numbers.paired import FEWEST_SEEDS, bounds_of, estimate_of

Row: TypeAlias = Mapping[str, Json]

NOTHING, MARK = "-", "*"
FEW_SEEDS = 5  # with fewer seeds, only large differences are clear
_SCORES = {"final_newest_accuracy": "newest", "final_next_accuracy": "next"}
"""Figures that stand beside the final accuracy, which is that of the window; with their heads."""
_ACCURACIES = {
    "worst_decile": "worst tenth",
    "final_accuracy_corrected": "corrected",
    "final_next_accuracy_corrected": "next, corrected",
    "final_accuracy_tuned": "tuned",
    "final_next_accuracy_tuned": "next, tuned",
    "final_accuracy_served": "served",
    "final_next_accuracy_served": "next, served",
}
_SERVED = {name: head for name, head in _ACCURACIES.items() if name.endswith("_served")}
# In braces: at the start of a row, LaTeX would take brackets and asterisks for options of the rule before it.
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "[": "{[}", "]": "{]}", "*": "{*}",
    "\u03b1": r"$\alpha$", "\u03b2": r"$\beta$", "\u03b3": r"$\gamma$", "\u03b4": r"$\delta$",
    "\u03b5": r"$\varepsilon$", "\u03b7": r"$\eta$", "\u03b8": r"$\theta$", "\u03bb": r"$\lambda$",
    "\u03bc": r"$\mu$", "\u00b5": r"$\mu$",
    "\u03c1": r"$\rho$", "\u03c3": r"$\sigma$", "\u03c4": r"$\tau$", "\u03c6": r"$\varphi$", "\u03c9": r"$\omega$",
    "\u0394": r"$\Delta$", "\u03a3": r"$\Sigma$", "\u221e": r"$\infty$", "\u2264": r"$\le$", "\u2265": r"$\ge$",
    "\u2260": r"$\ne$", "\u2248": r"$\approx$", "\u00d7": r"$\times$", "\u2212": "$-$", "\u2192": r"$\to$",
}  # fmt: skip
_DASHES_AND_QUOTES = "\u2013\u2014\u2018\u2019\u201c\u201d\u2026"
_LATIN = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿ" + _DASHES_AND_QUOTES
)  # any LaTeX sets these
_MARKDOWN = {**{one: f"\\{one}" for one in r"\`*_[]|~#!"}, "&": "&amp;", "<": "&lt;", ">": "&gt;"}
_PLAIN = ("n_seeds", "reference", "target_of", "n_targets")
"""What the CSV file of means tells of a method besides figures."""
_FORMULA = ("=", "+", "-", "@")


# ---------------------------------------------------------------- tables


def comparison_table(summary: Row) -> list[list[str]]:
    """Return the table for the terminal: heads first, then a row for each method; ``*`` marks the best.

    ``summary``: the content of the comparison's ``summary.json``.
    """
    return _rows(columns(summary, is_brief=True), lambda cell: f"{cell.text}{MARK if cell.is_marked else ''}", str)


def table_words(summary: Row) -> str:
    """Return what the table in the terminal means."""
    return _caption(summary, MARK)


def page_words(summary: Row) -> tuple[str, str]:
    """Return what the table on a page holds and what to beware of, and apart from that how to read it."""
    first, how, beware = _sentences(summary, MARK)
    return " ".join([*first, *beware]), " ".join(how)


def markdown_table(summary: Row) -> str:
    """Return the table as Markdown, the best in bold, with what it means below it."""

    def cell_text(cell: TableCell) -> str:
        text = escape_markdown(cell.text)
        return f"**{text}**" if cell.is_marked else text

    shown = columns(summary)
    head, *rows = _rows(shown, cell_text, escape_markdown)
    rule = ["---:" if one.is_number else "---" for one in shown]
    lines = [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]
    return "\n".join([*lines, "", escape_markdown(_caption(summary, "bold")), ""])


def latex_table(summary: Row) -> str:
    r"""Return a table that fits a page as LaTeX with booktabs' rules, the best in ``\textbf``, with notes below it.

    It has the figures that papers print: the three scores, differences, the worst tenth, what clients are served, and
    how soon; how to read them stands in comments. The Markdown table and the CSV file have all.
    """

    def cell_text(cell: TableCell) -> str:
        # The minus before a number is a minus, and nothing is a dash, not a hyphen.
        text = "--" if cell.text == NOTHING else escape_latex(cell.text)
        if text[:1] == "-" and text[1:2].isdigit():
            text = f"$-${text[1:]}"
        return rf"\textbf{{{text}}}" if cell.is_marked else text

    methods = named_records(summary, "methods")
    shown = [
        _name_column(methods),
        _accuracy_column(summary, "final_accuracy", "accuracy"),
        *_known_columns(summary, _SCORES),
        *_difference_columns(summary),
        _accuracy_column(summary, "worst_decile", _ACCURACIES["worst_decile"]),
        *_known_columns(summary, _SERVED),
        *_known_columns(
            summary, {name: head for name, head in _own_heads(summary).items() if not name.endswith("_served")}
        ),
        *(_target_columns(methods) if summary.get("target_of") else ()),
    ]
    head, *rows = _rows(shown, cell_text, escape_latex)
    lines = [f"{' & '.join(row)} \\\\" for row in (head, *rows)]
    title = f"Comparison over {seed_count_words(_seed_counts(summary))}."
    first, how, beware = _sentences(summary, "bold")
    table = "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(title)}}}",
            r"\label{tab:comparison}",
            r"\footnotesize",
            r"\setlength{\tabcolsep}{4pt}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{''.join('r' if one.is_number else 'l' for one in shown)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}%",
            r"}",
            "",
            r"\smallskip",
            r"\begin{minipage}{\linewidth}",
            rf"\scriptsize {escape_latex(' '.join([*first, *beware]))}",
            *(f"% {printable(sentence)}" for sentence in how),
            r"\end{minipage}",
            r"\end{table}",
            "",
        ]
    )
    printed = "".join(line for line in table.splitlines() if not line.startswith("%"))
    rare = sorted({one for one in printed if not one.isascii() and one not in _LATIN})
    fonts = [f"% Needs xelatex or lualatex and a font that has: {' '.join(rare)}"] if rare else []
    return "\n".join([r"% Needs \usepackage{booktabs} and \usepackage{graphicx}.", *fonts, table])


def plain_markdown(table: Sequence[Sequence[str]]) -> str:
    r"""Return any table as Markdown; the first row holds the heads.

    Examples
    --------
    >>> print(plain_markdown([["figure", "value"], ["rounds", "200"]]), end="")
    | figure | value |
    | --- | --- |
    | rounds | 200 |
    """
    head, *rows = [[escape_markdown(cell) for cell in row] for row in table]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


def plain_latex(table: Sequence[Sequence[str]]) -> str:
    r"""Return any table as LaTeX with booktabs' rules; the first row holds the heads.

    Examples
    --------
    >>> print(plain_latex([["figure", "value"], ["rounds", "200"]]), end="")
    % Needs \usepackage{booktabs}.
    \begin{tabular}{ll}
    \toprule
    figure & value \\
    \midrule
    rounds & 200 \\
    \bottomrule
    \end{tabular}
    """
    head, *rows = [" & ".join(map(escape_latex, row)) + r" \\" for row in table]
    rules = [r"% Needs \usepackage{booktabs}.", rf"\begin{{tabular}}{{{'l' * len(table[0])}}}", r"\toprule", head]
    return "\n".join([*rules, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", ""])


def means_csv(summary: Row) -> str:
    """Return a row for each method: every figure's mean and the ends of its interval, and differences to the reference.

    The columns of a figure are ``NAME``, ``NAME_low`` and ``NAME_high``; those of a difference ``NAME_difference``,
    the same with ``_low`` and ``_high``, ``NAME_p`` and ``NAME_p_holm``. Before them stand ``n_seeds``, ``reference``,
    ``target_of`` and ``n_targets``. Intervals of shares end at 0 and 1, those of times, bytes and counts at 0.
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
    seeds, timings = summary.get("seeds"), named_records(summary, "timings")
    rows: list[dict[str, Json]] = []
    for name, figures in named_records(summary, "methods").items():
        records = {
            figure: values if isinstance(values := record.get("per_seed"), list) else []
            for figure, record in _records({**figures, **timings.get(name, {})})
        }
        for at, seed in enumerate(seeds if isinstance(seeds, list) else []):
            row = {figure: values[at] if at < len(values) else None for figure, values in records.items()}
            if any(value is not None for value in row.values()):
                rows.append({"method": name, "seed": seed, **row})
    return _csv(rows)


def write_tables(folder: Path, summary: Row) -> list[Path]:
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


def escape_latex(text: str) -> str:
    r"""Return a text that LaTeX prints as it is.

    Examples
    --------
    >>> escape_latex("a_b & 5 % ± 1")
    'a\\_b \\& 5 \\% $\\pm$ 1'
    """
    return "".join(_LATEX.get(one, one) for one in printable(text))


def escape_markdown(text: str) -> str:
    r"""Return a text that Markdown shows as it is, in a table too.

    Examples
    --------
    >>> escape_markdown("a_b | <i>")
    'a\\_b \\| &lt;i&gt;'
    """
    return "".join(_MARKDOWN.get(one, one) for one in printable(text))


def named_records(summary: Row, name: str) -> dict[str, dict[str, Json]]:
    """Return a table of tables of a summary, by name; nothing if it has none."""
    found = summary.get(name)
    return dict(_records(found)) if isinstance(found, dict) else {}


def _records(table: Row) -> list[tuple[str, dict[str, Json]]]:
    return [(name, one) for name, one in table.items() if isinstance(one, dict) and name not in CLAIMED]


def _ends(name: str, record: Row) -> dict[str, Json]:
    ends = record.get("ci95")
    low, high = ends if isinstance(ends, list) and len(ends) == 2 else (None, None)
    return {name: record.get("mean"), f"{name}_low": low, f"{name}_high": high}


def _csv(rows: Sequence[Row]) -> str:
    """Return rows as CSV; a column is there if any row has it, and no text is one that spreadsheets compute."""

    def cell_value(value: Json) -> Json:
        if not isinstance(value, str):
            return value
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA) else text

    heads = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([cell_value(row.get(name)) for name in heads] for row in rows)
    return file.getvalue()


# ---------------------------------------------------------------- columns


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCell:
    """A value in words, and whether it may be marked as best."""

    text: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column: its head, a cell for each method in their order, and whether it is flushed right."""

    head: str
    cells: tuple[TableCell, ...]
    is_number: bool = True


def columns(summary: Row, *, is_brief: bool = False) -> list[TableColumn]:
    """Return the columns of the table of a comparison, the names of the methods first; a brief one fits a terminal."""
    methods = named_records(summary, "methods")
    found = [_name_column(methods)]
    if len({str(one.get("n_seeds")) for one in methods.values()}) > 1:
        found.append(_column("seeds", [str(one.get("n_seeds")) for one in methods.values()]))
    found.append(_accuracy_column(summary, "final_accuracy", "final accuracy"))
    found += [*_known_columns(summary, _SCORES), *_difference_columns(summary)]
    found += _known_columns(summary, _ACCURACIES | _own_heads(summary))
    if summary.get("target_of"):
        found += _target_columns(methods)
    rows = list(methods.values())
    down, up = (
        [megabytes(_mean(one, name)).removesuffix(" MB") for one in rows] for name in ("bytes_down", "bytes_up")
    )
    both = [f"{one}/{other}" for one, other in zip(down, up, strict=True)]
    return [
        *found,
        *([_column("MB down/up", both)] if is_brief else [_column("MB down", down), _column("MB up", up)]),
        _column("moves", [_count_words(one, "moves") for one in rows]),
        _column("re-clusterings", [_count_words(one, "reclusterings") for one in rows]),
    ]


def _rows(
    shown: Sequence[TableColumn], cell: Callable[[TableCell], str], head: Callable[[str], str]
) -> list[list[str]]:
    cells = [[cell(one) for one in column.cells] for column in shown]
    return [[head(column.head) for column in shown], *(list(row) for row in zip(*cells, strict=True))]


def _column(head: str, texts: Sequence[str]) -> TableColumn:
    return TableColumn(head=head, cells=tuple(TableCell(text=text) for text in texts))


def _name_column(methods: Mapping[str, Row]) -> TableColumn:
    return TableColumn(head="method", cells=tuple(TableCell(text=printable(name)) for name in methods), is_number=False)


def _known_columns(summary: Row, heads: Mapping[str, str]) -> list[TableColumn]:
    """Return a column for each of some figures that any method has."""
    methods = named_records(summary, "methods").values()
    known = [figure for figure in heads if any(estimate_of(one.get(figure)) for one in methods)]
    return [_accuracy_column(summary, figure, heads[figure]) for figure in known]


def _own_heads(summary: Row) -> dict[str, str]:
    """Return the figures of metrics of the user's own that any method has, with their heads."""
    return metric_heads(dict.fromkeys(name for one in named_records(summary, "methods").values() for name in one))


def _accuracy_column(summary: Row, figure: str, head: str) -> TableColumn:
    marked = named_records(summary, "best").get(figure, {}).get("marked")
    methods = named_records(summary, "methods")
    found = {name: estimate_of(one.get(figure), bounds_of(figure)) for name, one in methods.items()}
    largest = max((abs(one.mean) for one in found.values() if one is not None), default=0.0)
    places = places_of(largest) if "metric/" in figure else 3
    cells = []
    for name, one in found.items():
        is_marked = isinstance(marked, list) and name in marked
        cells.append(TableCell(text=NOTHING if one is None else one.words(places), is_marked=is_marked))
    return TableColumn(head=head, cells=tuple(cells))


def _difference_columns(summary: Row) -> list[TableColumn]:
    """Return differences in accuracy on the window and on the next interval, with their adjusted p-values.

    Nothing where there is no reference; none for the next interval where no difference is known.
    """
    if not summary.get("reference"):
        return []
    gains, whose = named_records(summary, "paired"), _reference_names(summary, "reference")
    head, found = printable(whose[0]) if len(whose) == 1 else "reference", []
    for figure, prefix in ((CLAIMED["difference"], ""), (CLAIMED["next_difference"], "next ")):
        differences, p_words = [], []
        for name in named_records(summary, "methods"):
            record = gains.get(name, {}).get(figure)
            gain, p = estimate_of(record), record.get("p_holm") if isinstance(record, dict) else None
            differences.append(NOTHING if gain is None else gain.words(sign="+"))
            p_words.append(NOTHING if not isinstance(p, (int, float)) else "< 0.001" if p < 0.001 else digits(p))
        if not prefix or set(differences) != {NOTHING}:
            found += [_column(f"{prefix}minus {head}", differences), _column(f"p{prefix and ', next'}", p_words)]
    return found


def _target_columns(methods: Mapping[str, Row]) -> list[TableColumn]:
    """Return times to the target and speed-ups, and on how many seeds they are known unless on all."""

    def share(count: Json, whole: Json) -> str:
        return "" if count == whole else f" ({count}/{whole})"

    times = {name: estimate_of(one.get("time_to_target_s")) for name, one in methods.items()}
    unit = time_unit(max((one.mean for one in times.values() if one is not None), default=0.0))
    time_words, speedup_words = [], []
    for name, figures in methods.items():
        found, n_targets = times[name], figures.get("n_targets")
        if found is None:
            time_words.append("never" if n_targets else NOTHING)
        else:
            time_words.append(f"{digits(found.mean / SECONDS[unit], 2)}{share(len(found.per_seed), n_targets)}")
        speedup = figures.get("speedup")
        record: Row = speedup if isinstance(speedup, dict) else {}
        mean, ends = record.get("mean"), record.get("ci95")
        if not isinstance(mean, (int, float)):
            speedup_words.append(NOTHING)
        elif name == figures.get("target_of"):  # a method is as fast as itself
            speedup_words.append(digits(mean, 2))
        else:
            interval = f" [{', '.join(digits(one, 2) for one in ends)}]" if isinstance(ends, list) else ""
            speedup_words.append(f"{digits(mean, 2)}{interval}{share(record.get('n_seeds'), n_targets)}")
    return [_column(f"{unit} to target", time_words), _column("speed-up", speedup_words)]


def _count_words(figures: Row, name: str) -> str:
    """Return how often something was done to clusters, a dash for a method that has none."""
    has_none = _mean(figures, "mean_clusters") == 1 and not _mean(figures, "n_reports")
    return NOTHING if has_none else digits(_mean(figures, name), 1)


def _mean(figures: Row, name: str) -> float | None:
    found = estimate_of(figures.get(name))
    return None if found is None else found.mean


# ---------------------------------------------------------------- captions


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


def _reference_names(summary: Row, role: str) -> list[str]:
    """Return the names of all references (role ``reference``) or targets (``target_of``), each once."""
    named = [one.get(role) for one in named_records(summary, "methods").values()]
    return list(dict.fromkeys(str(name) for name in named if name is not None)) or [str(summary.get(role))]


def _caption(summary: Row, mark: str) -> str:
    """Return in a few sentences what a table means whose format marks the best by ``"*"`` or ``"bold"``."""
    first, how, beware = _sentences(summary, mark)
    return " ".join([*first, *how, *beware])


def _sentences(summary: Row, mark: str) -> tuple[list[str], list[str], list[str]]:
    """Return what the table holds, how to read it, and what to know before believing it."""
    counts, notes, seeds = _seed_counts(summary), summary.get("notes"), summary.get("seeds")
    left_out = {name: found for name in ("failed", "unfinished") if isinstance(found := summary.get(name), list)}
    words = [f"{len(found)} {name}" for name, found in left_out.items() if found]
    missing = [f"Runs that are missing here: {', '.join(words)}."] if words else []
    if not counts:
        return ["No run is finished."], [], missing
    beware = [*missing, *([printable(str(note)) for note in notes] if isinstance(notes, list) else [])]
    if max(counts) < 2:
        each = " each" if isinstance(seeds, list) and len(seeds) > 1 else ""
        first = [f"One seed{each}: no intervals, no tests, and nothing is marked as best."]
        return first, [*_score_sentences(summary), *_metric_sentences(summary), *_target_sentences(summary)], beware
    first = [f"Means over {seed_count_words(counts)} ± half of the 95 % t-interval."]
    if any(
        "[" in cell.text
        for column in _known_columns(summary, {"final_accuracy": "", **_SCORES, **_ACCURACIES})
        for cell in column.cells
    ):
        first = [f"{first[0].removesuffix('.')}, in brackets its ends where 0 or 1 cuts it off."]
    how = [
        *_score_sentences(summary),
        *_difference_sentences(summary, max(counts), mark),
        *_metric_sentences(summary),
        *_target_sentences(summary),
    ]
    return first, how, beware


def _score_sentences(summary: Row) -> list[str]:
    """Return what the three scores are, where a table shows more than one."""
    known = {column.head for column in _known_columns(summary, _SCORES)}
    if "next" not in known:
        return []
    newest = ", newest on those of its newest interval" if "newest" in known else ""
    return [
        f"Final accuracy is on test samples of the window{newest}, next on samples of the interval to come that no "
        "client has trained on; better is who is better on the window and on next."
    ]


def _metric_sentences(summary: Row) -> list[str]:
    names = list(dict.fromkeys(head.split(" ")[0] for head in _own_heads(summary).values()))
    if not names:
        return []
    return [
        f"Metrics of one's own ({', '.join(names)}) are means over clients; none is marked as best, since which way is "
        "better is not known."
    ]


def _difference_sentences(summary: Row, n_seeds: int, mark: str) -> list[str]:
    found, names = [], _reference_names(summary, "reference")
    if summary.get("reference") and named_records(summary, "paired"):
        whose = counterpart_words([printable(name) for name in names])
        found.append(
            f"Differences to {whose} are seed by seed; p: paired t-test, adjusted for the number of methods (Holm)."
        )
    if summary.get("reference") and n_seeds < FEWEST_SEEDS:
        found.append("Nothing is marked as best: that takes three seeds.")
    elif summary.get("reference"):
        is_grouped = len(names) > 1 or any("within" in one for one in named_records(summary, "best").values())
        among = " among those compared with the same" if is_grouped else ""
        few = " With fewer than five seeds only large differences are clear." if n_seeds < FEW_SEEDS else ""
        found.append(
            f"{mark.capitalize()}: best{among}, or not clearly worse than the best (same test, 5 %, adjusted for the "
            "number of pairs), and whoever has a higher mean than one of these; nothing is marked where no method is "
            f"clearly worse.{few}"
        )
    if any(name.split()[0] == "oracle" for name in named_records(summary, "methods") if name.strip()):
        found.append("The oracle knows the truth and is not marked.")
    return found


def _target_sentences(summary: Row) -> list[str]:
    if not summary.get("target_of"):
        return []
    names = _reference_names(summary, "target_of")
    whose = counterpart_words([printable(name) for name in names])
    target = estimate_of(summary.get("target_accuracy"))
    average = f" ({digits(target.mean)} on average)" if target is not None and len(names) == 1 else ""
    sooner_than = whose if len(names) == 1 else "the one whose accuracy that is"
    cells = [cell for column in _target_columns(named_records(summary, "methods")) for cell in column.cells]
    has_shares = any(cell.text.endswith(")") for cell in cells)
    shares = "; (2/3): on two of the three seeds that have a target" if has_shares else ""
    return [
        f"Target: the final accuracy of {whose} on the same seed{average}; the time is simulated, until "
        f"accuracy stays at the target, over the seeds that got there{shares}.",
        f"Speed-up: how many times sooner than {sooner_than}, on the seeds where both got there (geometric mean), "
        "in brackets its 95 % t-interval, from three seeds on.",
    ]
