"""Loss in training and in testing."""

from functools import partial
from math import inf

from fielding.reporting.charts.mean_curves import (
    NOT_EVALUATED,
    counted,
    curves_figure,
    group_lines,
    mean_line,
    over_rounds,
    seeds_words,
)
from fielding.reporting.figures import GRAY
from fielding.reporting.gathering import Gathered
from fielding.reporting.page import Section

_KINDS = (
    ("Loss in training", "train_loss", "Mean over the clients that trained in a round, on their own samples."),
    ("Loss in testing", "test_loss", "Mean over clients, on samples that models were not trained with."),
)


def losses(gathered: Gathered) -> list[Section]:
    """Return both losses over rounds: one figure for a single group, else one each."""
    if len(gathered.groups) == 1:
        return [_alone(gathered)]
    return [_compared(gathered, title, name, text) for title, name, text in _KINDS]


def _alone(gathered: Gathered) -> Section:
    runs = counted(gathered.groups[0])
    found = [("training", over_rounds(runs, "train_loss"), GRAY), ("test", over_rounds(runs, "test_loss"), 0)]
    lines = [mean_line(one, words, style=style) for words, one, style in found if one is not None]
    if not lines:
        return Section(title="Loss", missing="No client has trained or been tested yet.")
    return Section(
        title="Loss in training and in testing",
        text="Cross-entropy per sample: in training a mean over the clients that trained in a round, in testing over "
        "all clients, on samples that models were not trained with. Lower is better.",
        figure=curves_figure(lines, x_title="round", y_title="loss per sample"),
    )


def _compared(gathered: Gathered, title: str, name: str, text: str) -> Section:
    lines = group_lines(gathered, partial(over_rounds, name=name), (0.0, inf))
    if not lines:
        why = "No client has trained yet." if name == "train_loss" else NOT_EVALUATED
        return Section(title=title, missing=why)
    return Section(
        title=title,
        text=f"{text} Lower is better. {seeds_words(gathered)}",
        figure=curves_figure(lines, x_title="round", y_title="loss per sample"),
    )
