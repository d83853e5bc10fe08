"""How well clusters agree with the true concepts, where these are known."""

from functools import partial

from fielding.reporting.charts.curves import reclusterings, with_arrivals
from fielding.reporting.charts.mean_curves import counted, curves_figure, group_lines, over_rounds, seeds_words
from fielding.reporting.figures import marked
from fielding.reporting.gathering import Gathered
from fielding.reporting.page import Section

_TITLE = "Agreement of clusters with the truth"


def agreement(gathered: Gathered) -> Section:
    """Return the adjusted Rand index over rounds."""
    clustered = {group.name for group in gathered.groups if group.is_clustered}
    found = group_lines(gathered, partial(over_rounds, name="ari"), (-1.0, 1.0))
    lines = [line for line in found if line.name in clustered]
    if not lines:
        return Section(
            title=_TITLE,
            missing="No run with clusters was evaluated on data whose true groups are known; natural traces have none.",
        )
    figure = with_arrivals(
        curves_figure(lines, x_title="round", y_title="adjusted Rand index"), [run for _, run in gathered.runs]
    )
    runs = counted(gathered.groups[0])
    grouped = ""
    if len(gathered.groups) == 1 and len(runs) == 1 and (at := reclusterings(runs[0])):
        figure, grouped = marked(figure, at), " Orange: all clients were grouped anew."
    return Section(
        title=_TITLE,
        text="Adjusted Rand index of the clusters and the groups that the data were made with: 1 is perfect, 0 is what "
        f"chance gives. No method but the oracle sees the truth. {seeds_words(gathered)}{grouped}",
        figure=figure,
    )
