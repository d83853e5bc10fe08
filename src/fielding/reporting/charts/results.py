"""The comparison in numbers."""

from collections.abc import Mapping

from fielding._typing import Json
from fielding.reporting.comparison import comparison
from fielding.reporting.comparison_tables import comparison_table, page_words
from fielding.reporting.gathering import Gathered
from fielding.reporting.page import Section

_TITLE = "Results in numbers"


def results(gathered: Gathered, summary: Mapping[str, Json] | None = None) -> Section:
    """Return the table of a comparison, a row for each group.

    Parameters
    ----------
    gathered
        The runs.
    summary
        Their :func:`comparison <fielding.reporting.comparison.comparison>`, if it was made already.
    """
    if not any(group.finished for group in gathered.groups):
        return Section(title=_TITLE, missing="No run is finished yet. The table is filled as runs end.")
    record = comparison(gathered) if summary is None else summary
    methods, (text, more) = record.get("methods"), page_words(record)
    return Section(
        title=_TITLE,
        text=text,
        more=more,
        table=[[_held_together(cell) for cell in row] for row in comparison_table(record)],
        row_groups=list(methods) if isinstance(methods, dict) else (),
    )


def _held_together(cell: str) -> str:
    r"""Return a cell that a narrow screen does not break behind a sign.

    Examples
    --------
    >>> _held_together("0.975 ± 0.003"), _held_together("< 0.001")
    ('0.975 ±\xa00.003', '<\xa00.001')
    """
    return cell.replace("± ", "±\xa0").replace("< ", "<\xa0")
