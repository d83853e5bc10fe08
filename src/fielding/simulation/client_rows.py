"""Which rows of a user's CSV file belong to which client of the run."""

from collections.abc import Callable, Sequence

import numpy as np

from fielding._typing import ClientId, Counts, Vector
from fielding.errors import FileFormatError, echo
from fielding.traces.csv_table import CsvTable
from fielding.traces.text_columns import CellError, NameColumn, number_parser


def rows_of_clients(table: CsvTable, names: NameColumn, client_ids: Sequence[ClientId]) -> Counts:
    """Return for every row of a file the position of its client in the run; -1 for clients that are not in the run.

    Ids are compared as they are written: the client 7 of the run is the text ``7`` of the file.

    Parameters
    ----------
    table
        The file, for its name in errors.
    names
        Its column of ids.
    client_ids
        The clients of the run.

    Raises
    ------
    FileFormatError
        If a client of the run is not in the file; the first one is named.
    """
    positions = {str(client_id): at for at, client_id in enumerate(client_ids)}
    listed = names.names()
    if absent := positions.keys() - set(listed):
        first = client_ids[min(positions[name] for name in absent)]
        raise FileFormatError(
            f"{table.path} has no row for client {echo(first)} ({len(absent)} of {len(client_ids)} clients are "
            "missing); give every client of the run a row"
        )
    by_code = np.array([positions.get(name, -1) for name in listed], dtype=np.int64)
    return by_code[names.codes()]


def bounded_parser(what: str, *, least: float, most: float) -> Callable[[Sequence[str]], Vector]:
    """Return a parser for numbers from ``least`` to ``most``; ``what`` names them in errors."""
    parse_number = number_parser(what)

    def parse(texts: Sequence[str]) -> Vector:
        numbers = parse_number(texts)
        is_fit = (numbers >= least) & (numbers <= most)
        if not is_fit.all():
            raise CellError(int(np.argmin(is_fit)), f"no {what}; give a number from {least:g} to {most:g}")
        return numbers

    return parse
