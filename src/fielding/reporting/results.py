"""What a run or a comparison left in its folder, as Python users look at it: frames, charts, the page."""

from pathlib import Path
from typing import Any

from fielding.errors import unknown_name
from fielding.reporting.frames import frame_of
from fielding.reporting.page import distinct
from fielding.reporting.report_page import make_page, read_report, write_report

MAIN = "accuracy"
"""The chart that tells most."""


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

    def plot(self, what: str = MAIN) -> Any:
        """Return a chart of the page as a figure of plotly, which notebooks show and ``write_image`` writes as PDF.

        ``what``: its name on the page, or how it begins; the first chart that does is taken. OptionError if there is
        none; the message lists those that there are.
        """
        from plotly import graph_objects

        page = make_page(*read_report([self.folder]))
        figures = {one.key: one.figure for one in distinct(page.sections) if one.figure is not None}
        name = next((key for key in figures if key.startswith(what)), None)
        if name is None:
            raise unknown_name("chart", what, figures)
        return graph_objects.Figure(figures[name], skip_invalid=True)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page, by default as ``report.html`` into the folder, and return where it is."""
        target = self.folder / "report.html" if path is None else Path(path)
        write_report(*read_report([self.folder]), target)
        return target
