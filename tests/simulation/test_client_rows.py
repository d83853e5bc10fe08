from pathlib import Path

import pytest
from fielding.simulation.client_rows import bounded_parser, rows_of_clients

from fielding.errors import FileFormatError
from fielding.traces.csv_table import CsvTable
from fielding.traces.text_columns import CellError, NameColumn

TABLE = CsvTable(path=Path("f.csv"), header=("client",))


def names(*texts: str) -> NameColumn:
    column = NameColumn()
    column.add(texts)
    return column


def test_rows_are_found_by_id_and_strangers_are_marked() -> None:
    assert rows_of_clients(TABLE, names("b", "x", "a", "b"), ["a", "b"]).tolist() == [1, -1, 0, 1]


def test_whole_numbers_are_compared_as_they_are_written() -> None:
    assert rows_of_clients(TABLE, names("10", "-2"), [-2, 10]).tolist() == [1, 0]
    with pytest.raises(FileFormatError, match=r"f\.csv has no row for client 10"):
        rows_of_clients(TABLE, names("010"), [10])


def test_the_first_missing_client_of_the_run_is_named() -> None:
    with pytest.raises(FileFormatError, match=r"no row for client 'z' \(2 of 3 clients are missing\)"):
        rows_of_clients(TABLE, names("m"), ["z", "m", "a"])


def test_bounds_belong_to_what_is_allowed() -> None:
    parse = bounded_parser("share", least=0.0, most=1.0)

    assert parse(["0", "1", "0.5"]).tolist() == [0.0, 1.0, 0.5]
    with pytest.raises(CellError, match="position 1: no share; give a number from 0 to 1"):
        parse(["0", "1.1"])
