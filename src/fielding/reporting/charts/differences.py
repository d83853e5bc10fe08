"""How much more accurate one group is than another, seed by seed, over rounds."""

from fielding.reporting.charts.curves import CUT_WORDS, fitted, with_arrivals
from fielding.reporting.charts.mean_curves import (
    Curves,
    counted,
    curves_figure,
    joined,
    legible,
    level,
    mean_line,
    points,
    seeds_words,
)
from fielding.reporting.figures import Line, with_layout
from fielding.reporting.gathering import Gathered, Group
from fielding.reporting.like_with_like import are_alike
from fielding.reporting.page import Section
from fielding.reporting.words import counterpart_words

PAPER_PAIRS = (
    ("fielding", "always", "what it is worth to group everyone anew only when needed, not at every report"),
    ("always", "selected", "what it is worth to hear of drift from all clients, not only from those that train"),
)
"""Groups whose difference the paper draws, and what it tells."""


def differences(gathered: Gathered) -> list[Section]:
    """Return the difference of each group to the reference, then the paper's two; nothing for one group only."""
    if gathered.reference is None or len(gathered.groups) < 2:
        return []
    return [_to_reference(gathered), *_of_paper(gathered, gathered.reference)]


def paired_curves(group: Group, other: Group, name: str = "accuracy") -> Curves | None:
    """Return group minus other over the rounds that both have, a row for each seed of both; None without any."""
    theirs = {run.seed: points(run, name) for run in counted(other)}
    tracks = []
    for run in counted(group):
        if run.seed not in theirs:
            continue
        at, mine = points(run, name)
        before = dict(zip(*(part.tolist() for part in theirs[run.seed]), strict=True))
        both = [place for place, x in enumerate(at.tolist()) if x in before]
        tracks.append((at[both], mine[both] - [before[x] for x in at[both].tolist()]))
    return joined(tracks)


def _to_reference(gathered: Gathered) -> Section:
    held_against = {group.name: gathered.references[group.name] for group in gathered.groups}
    names = list(dict.fromkeys(name for name in held_against.values() if name is not None))
    title, whose = f"Accuracy against {names[0] if len(names) == 1 else 'the reference'}", counterpart_words(names)
    if not any(gathered.group(name) for name in names):
        return Section(title=title, missing=f"There is no run of {whose}, which others are held against.")
    lines = []
    for group in gathered.groups:
        other = gathered.group(held_against[group.name])
        found = None if other is None or other is group else paired_curves(group, other)
        if found is not None:
            lines.append(mean_line(found, group.name, style=gathered.styles[group.name], group=group.name))
    if not lines:
        why = f"No other group was evaluated on the data, on a seed and in a round that {whose} was."
        return Section(title=title, missing=why)
    lines = legible(lines)
    return _section(gathered, title, lines, f"Accuracy minus that of {whose} on the same seed and round")


def _of_paper(gathered: Gathered, reference: str) -> list[Section]:
    sections = []
    for name, other, meaning in PAPER_PAIRS:
        ours, theirs = gathered.group(name), gathered.group(other)
        # With two groups the figure above shows the same.
        if (
            ours is None
            or theirs is None
            or not are_alike(gathered.terms, name, other)
            or (other == reference and len(gathered.groups) == 2)
        ):
            continue
        found = paired_curves(ours, theirs)
        if found is not None:
            line = mean_line(found, f"{name} - {other}", style=gathered.styles[name], group=name)
            title = f"Accuracy of {name} minus {other}"
            sections.append(_section(gathered, title, [line], f"Difference on the same seed and round: {meaning}"))
    return sections


def _section(gathered: Gathered, title: str, lines: list[Line], what: str) -> Section:
    most = max(len(counted(group)) for group in gathered.groups)
    words = seeds_words(gathered) if most > 1 else "There is one seed: nobody knows how another would come out."
    if any(line.band is not None for line in lines):
        words += " Where a band holds zero, seeds do not tell who is better."
    figure = curves_figure(lines, x_title="round", y_title="difference in accuracy", from_zero=False)
    figure = with_layout(fitted(figure, lines), yaxis={"zeroline": False, "hoverformat": "+.3f"})
    return Section(
        title=title,
        text=f"{what}. Above zero: better. {words} {CUT_WORDS}",
        figure=with_arrivals(level(figure, 0.0), [run for _, run in gathered.runs]),
    )
