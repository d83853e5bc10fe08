"""The figure that the paper has, ours: from runs, or from the tables of a page whose runs are gone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from experiments.reproduce.claims import BESIDE, pair_of, verdicts_in
from experiments.reproduce.courses import differences
from experiments.reproduce.drawing import (
    GAP,
    STYLES,
    WIDTH,
    Block,
    Curve,
    Mark,
    Row,
    bars_block,
    curves_block,
    document,
    rows_block,
)
from experiments.reproduce.figures import level
from experiments.reproduce.reading import Claim, Experiment, Plot
from experiments.reproduce.results import Figure, Results
from experiments.reproduce.speed import end_times
from fielding.reporting.charts.curves import Curves, mean_and_half_width, over_rounds, over_time
from fielding.reporting.formatting import SECONDS, time_unit

Tables = Mapping[str, Sequence[Sequence[str]]]
CLAIMS, ROWS, COURSES = "The paper's numbers and ours", "All rows", "Over the rounds"
"""Tables of a page, by their headings."""
GAINS = ("gain", "late difference")
"""Figures of ours that the paper has as points above another row."""
LONGEST = 1.5
"""How many times as long as the rounds of what a figure is about its axis of time is at most."""
OVER_ROUNDS = ("largest difference", "mean difference")
_NUMBER = r"([-+]?\d+(?:\.\d+)?)"
_FORMS = (
    re.compile(rf"{_NUMBER} ± {_NUMBER}"),
    re.compile(rf"{_NUMBER} \[{_NUMBER}, {_NUMBER}\]"),
    re.compile(_NUMBER),
)


def draw(experiment: Experiment, part: str, results: Results | None = None) -> str:
    """Return the figure of an experiment as SVG.

    Parameters
    ----------
    experiment
        One that has a ``plot``.
    part
        The measured part of its page, whose tables hold the numbers.
    results
        Its runs, which alone have curves; without them only what the tables hold is drawn.
    """
    plot, tables = _plot(experiment), tables_in(part)
    if plot.kind == "time":
        blocks = [] if results is None else [_over_time(experiment, plot, results)]
        blocks += [[_accuracies(experiment, plot, tables)]]
        if speeds := _speeds(experiment, plot, tables):
            blocks.append([speeds])
    elif plot.kind == "bars":
        blocks = [[_bars(experiment, plot, tables)]]
    elif plot.kind == "difference":
        blocks = [_differences(experiment, plot, tables, results)]
    else:
        blocks = [[_course(experiment, plot, tables, results)]]
    has_marks = any("data-paper" in one for line in blocks for block in line for one in block.elements)
    notes = _notes(experiment, part, has_curves=results is not None, has_marks=has_marks)
    return document(blocks, label=alt_text(experiment), notes=notes)


def alt_text(experiment: Experiment) -> str:
    """Return what the figure shows, in a line."""
    of_paper = re.split(r"[;(]", experiment.of_paper)[0].strip()
    return f"{of_paper}, measured on other data"


def _plot(experiment: Experiment) -> Plot:
    if experiment.plot is None:
        raise ValueError(f"{experiment.name} is no figure in the paper")
    return experiment.plot


def _notes(experiment: Experiment, part: str, *, has_curves: bool, has_marks: bool) -> list[str]:
    plot, seeds = _plot(experiment), re.search(r"Seeds\s1\sto\s(\d+)", part)
    if "The quick form" in part:
        notes = ["The quick form: a few rounds of other data, one seed. Our numbers mean nothing."]
    else:
        standin = experiment.standin
        told = "" if standin is None else f"Ours: not {standin.stands_for} but a stand-in, {standin.title}. "
        notes = [f"{told}Means of {seeds[1] if seeds else 'all'} seeds with 95 % intervals."]
    if has_marks:
        onto = (
            "" if plot.kind == "difference" else " Gains and speed-ups start from our row that they are held against."
        )
        notes.append(f"Diamonds and dashed lines: the paper's numbers, from its text, on its own data.{onto}")
    else:
        notes.append("The paper's text has no number for this figure, and its picture is not at hand: none is marked.")
    if plot.kind == "time" and any(_is_extra(plot, name) for name in experiment.variants):
        notes.append("Rows with gray names are not in the paper's figure.")
    if plot.kind == "time" and has_curves:
        notes.append("Target: the final accuracy, ours, of what the first curve is held against.")
    if not has_curves and plot.kind != "bars":
        drawn = "only their tables are drawn" if plot.kind == "time" else "means over eighths of the rounds are drawn"
        notes.append(f"The runs were not kept: {drawn}. make experiment-{experiment.name} draws the curves.")
    return [*notes, *([plot.note] if plot.note else [])]


# ---------------------------------------------------------------- the tables of a page


def tables_in(part: str) -> dict[str, list[list[str]]]:
    r"""Return the tables of Markdown by the headings that they stand under, heads first.

    Examples
    --------
    >>> tables_in("## All\n\n|  | window |\n|---|---|\n| global | 1.0 ± 0.5 |")
    {'All': [['', 'window'], ['global', '1.0 ± 0.5']]}
    """
    found: dict[str, list[list[str]]] = {}
    title = ""
    for line in part.splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif line.startswith("|") and not line.startswith("|---"):
            found.setdefault(title, []).append([cell.strip() for cell in line[1:-1].split("|")])
    return found


def figure_in(cell: str) -> Figure | None:
    """Return the number of a cell with its interval; None if there is none.

    Examples
    --------
    >>> figure_in("+1.0 ± 0.5"), figure_in("never")
    (Figure(mean=1.0, low=0.5, high=1.5), None)
    >>> figure_in("+5.2 [+3.9, +6.6]")
    Figure(mean=5.2, low=3.9, high=6.6)
    """
    for form in _FORMS:
        if found := form.match(cell):
            mean, *ends = (float(one) for one in found.groups())
            if len(ends) == 1:
                ends = [round(mean - ends[0], 6), round(mean + ends[0], 6)]
            return Figure(mean=mean, low=ends[0], high=ends[1]) if ends else Figure(mean=mean)
    return None


def _column(tables: Tables, title: str, number: int = 1) -> dict[str, str]:
    return {row[0]: row[number] for row in tables[title][1:]}


# ---------------------------------------------------------------- numbers of the paper


def _is_number(claim: Claim) -> bool:
    """Return whether a claim holds a number of the paper, not only which of two is higher."""
    is_bound = claim.relation == "no gain" or (claim.relation == "below" and claim.value != (0.0,))
    return bool(claim.value) and (claim.relation == "equal" or is_bound)


def _claims_on(experiment: Experiment, figures: Sequence[str]) -> list[Claim]:
    return [one for one in experiment.claims if one.ours.get("figure") in figures and _is_number(one)]


def _words(claim: Claim) -> str:
    """Return a number of the paper in short.

    Examples
    --------
    >>> _words(Claim(says="", source="", value=(1.5, 4.0), unit="points", ours={}))
    '+1.5 to +4'
    """
    if claim.unit == "times":
        return f"{claim.value[0]:g} times"
    return " to ".join(f"{one:+g}" if one else "0" for one in claim.value)


def _gain_mark(experiment: Experiment, variant: str, onto: float | None) -> Mark | None:
    """Return where the paper's gain of a variant would put it, from the accuracy of what it is held against."""
    for claim in _claims_on(experiment, GAINS):
        if onto is not None and pair_of(claim, experiment) == (variant, experiment.held_against(variant)):
            value = tuple(onto + one for one in claim.value)
            is_late = claim.ours["figure"] == "late difference"
            words, is_bound = _words(claim), claim.relation != "equal"
            return Mark(value=value, words=words, is_bound=is_bound, since=0.75 if is_late else 0.7)
    return None


# ---------------------------------------------------------------- panels


def _style(plot: Plot, variant: str) -> int:
    """Return the colour of a variant: by its place in the paper's figure, gray if it is not there."""
    for variants in plot.panels.values():
        if variant in variants:
            return variants.index(variant) % STYLES
    return 1


def _is_extra(plot: Plot, variant: str) -> bool:
    return all(variant not in variants for variants in plot.panels.values())


def _accuracies(experiment: Experiment, plot: Plot, tables: Tables) -> Block:
    cells = _column(tables, ROWS)
    shown = [name for variants in plot.panels.values() for name in variants]
    levels = {name: figure_in(cell) for name, cell in cells.items()}
    rows = []
    for name in [*shown, *(name for name in cells if _is_extra(plot, name))]:
        other = levels.get(experiment.held_against(name))
        mark = _gain_mark(experiment, name, other.mean if other else None)
        rows.append(
            Row(
                name=name,
                ours=levels[name],
                words=cells[name],
                mark=mark,
                style=_style(plot, name),
                is_extra=_is_extra(plot, name),
            )
        )
    if plot.level is not None:
        rows.append(Row(name=plot.level.says, ours=None, mark=_level_mark(plot)))
    reference = levels.get(experiment.reference)
    is_one = reference is not None and not experiment.against
    dotted = (reference.mean, experiment.reference) if reference and is_one else None
    return rows_block("Final accuracy", rows, axis="accuracy on the window, %", level=dotted)


def _level_mark(plot: Plot) -> Mark | None:
    if plot.level is None:
        return None
    return Mark(value=plot.level.value, words=f"{plot.level.value[0]:g} %", of="its own data")


def _speeds(experiment: Experiment, plot: Plot, tables: Tables) -> Block | None:
    found = {row[0]: row for row in tables[CLAIMS][1:]}
    rows, against = [], set()
    for claim in _claims_on(experiment, ["speedup"]):
        of, other = pair_of(claim, experiment)
        against.add(other)
        mark = Mark(value=claim.value, words=_words(claim), is_bound=claim.relation != "equal")
        row = found[claim.says]
        for how, ours, so in zip(("clock", "rounds"), row[2].split(BESIDE), verdicts_in(row), strict=True):
            is_part = so.startswith("reached on")
            words = f"{ours}, {so.removeprefix('reached on ')}" if is_part else ours
            number = figure_in(ours)
            rows.append(
                Row(
                    name=f"{of}: {how}",
                    ours=number,
                    words=words,
                    mark=mark,
                    style=_style(plot, of),
                    is_open=is_part,
                    is_extra=_is_extra(plot, of),
                )
            )
    if not rows:
        return None
    whose = next(iter(against)) if len(against) == 1 else "the same without clusters"
    title = f"How many times sooner at the final accuracy of {whose}, to stay"
    return rows_block(title, rows, axis="times sooner, by the simulated clock and in rounds", level=(1.0, "as soon"))


def _curve(curves: Curves, name: str, style: int, *, unit: float = 1.0, x_unit: float = 1.0) -> Curve:
    mean, half_width = mean_and_half_width(unit * curves.values)
    if np.isnan(half_width).all():
        return Curve(name=name, x=curves.x / x_unit, y=mean, style=style)
    margin = np.nan_to_num(half_width)
    return Curve(name=name, x=curves.x / x_unit, y=mean, low=mean - margin, high=mean + margin, style=style)


def _panel_width(plot: Plot) -> float:
    return float(WIDTH if len(plot.panels) == 1 else (WIDTH - GAP) / 2)


def _over_time(experiment: Experiment, plot: Plot, results: Results) -> list[Block]:
    shown = [name for variants in plot.panels.values() for name in variants]
    longest = max(float(str(run.rounds[-1]["time_s"])) for name in shown for run in results.runs[name])
    unit = time_unit(longest)
    return [
        _time_panel(experiment, results, title=title, variants=variants, unit=unit, width=_panel_width(plot))
        for title, variants in plot.panels.items()
    ]


def _time_panel(
    experiment: Experiment, results: Results, *, title: str, variants: Sequence[str], unit: str, width: float
) -> Block:
    plot, marks = _plot(experiment), []
    reference = experiment.held_against(variants[0])
    found = {name: over_time(results.runs[name], "accuracy") for name in variants}
    whole = [
        _curve(one, name, number % STYLES, unit=100.0, x_unit=SECONDS[unit])
        for number, (name, one) in enumerate(found.items())
        if one is not None
    ]
    until = LONGEST * max(float(one.x[-1]) for one in whole if one.style < 2)
    until = max(until, *(1.2 * float(one.x[0]) for one in whole))  # all of them are seen
    until = min(until, max(float(one.x[-1]) for one in whole))
    for name in variants:
        if mark := _gain_mark(experiment, name, level(results, experiment.held_against(name), "").mean):
            marks.append(replace(mark, of=name if len(plot.panels) == 1 else ""))
    target = level(results, reference, "").mean
    for claim in _claims_on(experiment, ["speedup"]):
        if pair_of(claim, experiment) == (variants[0], reference) and claim.relation == "equal":
            there = float(np.mean(end_times(results, reference))) / SECONDS[unit]
            marks.append(Mark(value=(target,), words=_words(claim), at=there / claim.value[0]))
    if (mark := _level_mark(plot)) is not None:
        marks.append(mark)
    return curves_block(
        title,
        [_cut(one, until, unit) for one in whole],
        axes=(f"simulated {unit}", "accuracy on the window, %"),
        marks=marks,
        level=None if reference == variants[0] else (target, "target"),
        until=until,
        width=width,
    )


def _cut(curve: Curve, until: float, unit: str) -> Curve:
    """Return a curve up to a moment; one that goes on says for how long."""
    is_shown = curve.x <= until
    if is_shown.all():
        return curve
    low, high = (None if one is None else one[is_shown] for one in (curve.low, curve.high))
    more = f" (until {curve.x[-1]:.1f} {unit})"
    return replace(curve, more=more, x=curve.x[is_shown], y=curve.y[is_shown], low=low, high=high)


def _parts(tables: Tables, name: str, style: int) -> Curve:
    """Return a course that a page tells in parts of the rounds."""
    head, *rows = tables[COURSES]
    cells = next(row for row in rows if row[0].removesuffix(", points") == name)
    known = [
        (sum(float(end) for end in span.split(" to ")) / 2, number)
        for span, cell in zip(head[1:], cells[1:], strict=True)
        if (number := figure_in(cell)) is not None
    ]
    x, y = np.array([at for at, _ in known]), np.array([one.mean for _, one in known])
    ends = [(one.low, one.high) for _, one in known if one.low is not None and one.high is not None]
    if len(ends) < len(known):
        return Curve(name=name, x=x, y=y, style=style)
    low, high = np.array(ends).T
    return Curve(name=name, x=x, y=y, low=low, high=high, style=style)


def _differences(experiment: Experiment, plot: Plot, tables: Tables, results: Results | None) -> list[Block]:
    blocks = []
    for title, (of, against) in plot.panels.items():
        name = f"{of} minus {against}"
        if results is None:
            curve = _parts(tables, name, 0)
        else:
            rounds, rows = differences(results, of, against)
            curve = _curve(Curves(x=rounds, values=rows), name, 0)
        marks = [
            Mark(
                value=claim.value,
                words=f"{'up to ' if claim.ours['figure'] == 'largest difference' else ''}{_words(claim)}",
                since=0.1,
            )
            for claim in _claims_on(experiment, OVER_ROUNDS)
            if pair_of(claim, experiment) == (of, against)
        ]
        axes = ("round", "difference of accuracies, points")
        blocks.append(curves_block(title, [curve], axes=axes, marks=marks, level=(0.0, ""), width=_panel_width(plot)))
    return blocks


def _course(experiment: Experiment, plot: Plot, tables: Tables, results: Results | None) -> Block:
    ((title, variants),) = plot.panels.items()
    curves = []
    for number, name in enumerate(variants):
        found = None if results is None else over_rounds(results.runs[name], str(experiment.course))
        style = number % STYLES
        curves.append(_parts(tables, name, style) if found is None else _curve(found, name, style))
    return curves_block(title, curves, axes=("round", plot.axis))


def _bars(experiment: Experiment, plot: Plot, tables: Tables) -> Block:
    cells = _column(tables, ROWS)
    groups = {}
    for title, variants in plot.panels.items():
        rows = []
        for number, name in enumerate(variants):
            other = figure_in(cells[experiment.held_against(name)])
            mark = _gain_mark(experiment, name, other.mean if other else None)
            rows.append(Row(name=plot.series[number], ours=figure_in(cells[name]), mark=mark, style=number))
        groups[title] = rows
    return bars_block("Final accuracy", groups, axes=(plot.axis, "accuracy on the window, %"))
