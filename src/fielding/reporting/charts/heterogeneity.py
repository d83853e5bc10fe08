"""How different the data of clients in the same cluster are, against no clustering at all."""

from functools import partial

from fielding.reporting.charts.curves import with_arrivals
from fielding.reporting.charts.mean_curves import (
    Curves,
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
from fielding.reporting.references import BASELINE

_TITLE = "How different clients of the same cluster are"


def heterogeneity(gathered: Gathered) -> Section:
    """Return the mean distance within clusters over rounds, and what it would be with all clients in one."""
    lines = group_lines(gathered, partial(over_rounds, name="measured_heterogeneity"), (0.0, 2.0))
    if not lines:
        return Section(
            title=_TITLE,
            missing="No evaluation measured it: runs of older versions of Fielding did not, nor has a run that was not "
            "evaluated yet.",
        )
    unclustered = _unclustered(gathered)
    if unclustered is not None:
        lines.append(mean_line(unclustered, "no clustering", style=GRAY))
        against = "Gray: the same if all clients were in one cluster, which clustering has to beat."
    elif any(line.name == BASELINE for line in lines):
        against = f"{BASELINE} has all clients in one cluster: that is what clustering has to beat."
    else:
        against = "What it would be without clusters was not measured in these runs."
    figure = curves_figure(lines, x_title="round", y_title="mean L1 distance (0 to 2)")
    return Section(
        title=_TITLE,
        text="Mean L1 distance between the true label shares of two clients of the same cluster: 0 if all have the "
        f"same mix of labels, 2 if they share no label. Lower is better. {against} {seeds_words(gathered)}",
        figure=with_arrivals(figure, [run for _, run in gathered.runs]),
    )


def _unclustered(gathered: Gathered) -> Curves | None:
    """Return what heterogeneity would be without clusters, of the group that knows it for the most runs."""
    found = [over_rounds(counted(group), "unclustered_heterogeneity") for group in gathered.groups]
    known = [one for one in found if one is not None]
    return max(known, key=lambda one: (one.values.shape[0], one.x.size), default=None)
