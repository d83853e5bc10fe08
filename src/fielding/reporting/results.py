"""What a run or a comparison left in its folder, as Python users look at it: frames, charts, the page, a cell."""

from pathlib import Path
from typing import Any

from fielding.errors import unknown_name
from fielding.reporting.charts.figures import Figure
from fielding.reporting.exporting import page_figures
from fielding.reporting.frames import frame_of
from fielding.reporting.notebook_cell import cell_html
from fielding.reporting.page import Page, Section, key_of
from fielding.reporting.report_page import make_page, read_report, write_report


class Results:
    """Looks at a folder of a run or of a comparison; a class that has a ``folder`` builds on it."""

    __slots__ = ()
    folder: Path

    def frame(self, what: str = "rounds") -> Any:
        """Return what the logs hold as a tidy DataFrame of pandas.

        Parameters
        ----------
        what
            ``"rounds"``: a row per round; ``"clients"``: per client and evaluation; ``"events"``: per round in which
            clients reported; ``"summary"``: per run. Of a comparison, ``method`` and ``seed`` come first.
        """
        return frame_of(self.folder, what)

    def plot(self, what: str | None = None) -> Any:
        """Return a chart of the page as a figure of plotly, which notebooks show and ``write_image`` writes as PDF.

        ``what``: its name, or how it begins; the first chart that does is taken; a metric of one's own has the name of
        the metric. None for the chart that tells most. OptionError if there is none; the message lists those that
        there are.
        """
        from plotly import graph_objects

        page = self._page()
        figures = page_figures(page)
        main = next((one.figure for one in page.highlights if one.figure is not None), None)
        chosen: Figure | None = main if what is None else None
        begin = key_of(Section(title=what)) if what else ""
        for name, figure in figures.items():
            if chosen is None and name.startswith(begin):
                chosen = figure
        if chosen is None:
            raise unknown_name("chart", what, figures)
        return graph_objects.Figure(chosen, skip_invalid=True)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page, by default as ``report.html`` into the folder, and return where it is."""
        target = self.folder / "report.html" if path is None else Path(path)
        write_report(*read_report([self.folder]), target)
        return target

    def _page(self) -> Page:
        return make_page(*read_report([self.folder]))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what came of it in a sentence, figures that matter, and the main chart."""
        return cell_html(self._page())
