import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.reporting.numbers.run_record import LogReader, Row

READ: list[int] = []


def noted(line: Row) -> int:
    READ.append(int(str(line["round"])))
    return int(str(line["round"]))


def write(path: Path, *rounds: int, tail: str = "") -> None:
    path.write_text("".join(f'{{"round": {at}}}\n' for at in rounds) + tail)


def test_only_what_was_added_is_read_again(tmp_path: Path) -> None:
    path, reader = tmp_path / "rounds.jsonl", LogReader()
    READ.clear()
    write(path, 0, 1, tail='{"rou')
    first = list(reader.lines(path, noted).rows)
    write(path, 0, 1, 2)

    assert first == [0, 1]
    assert reader.lines(path, noted).rows == [0, 1, 2]
    assert READ == [0, 1, 2]


def test_a_log_that_became_shorter_is_read_anew(tmp_path: Path) -> None:
    path, reader = tmp_path / "rounds.jsonl", LogReader()
    write(path, 0, 1, 2)
    reader.lines(path, noted)
    write(path, 7)

    assert reader.lines(path, noted).rows == [7]


@pytest.mark.parametrize("rounds", [(7, 8), (7, 8, 9)])
def test_another_log_in_its_place_is_read_anew(tmp_path: Path, rounds: tuple[int, ...]) -> None:
    path, reader = tmp_path / "rounds.jsonl", LogReader()
    write(path, 0, 1)
    reader.lines(path, noted)
    write(path, *rounds)

    assert reader.lines(path, noted).rows == list(rounds)


def test_a_missing_log_is_empty_and_says_so(tmp_path: Path) -> None:
    found = LogReader().lines(tmp_path / "rounds.jsonl")

    assert found.rows == []
    assert found.problem == "rounds.jsonl: No such file or directory"


@pytest.mark.parametrize("line", ["[1, 2]", "7", "null", '{"round": "x"}', "{", "[" * 100_000, '{"other": 1}', "\x00"])
def test_a_damaged_line_is_counted_and_the_others_are_read(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rounds.jsonl"
    path.write_text(f'{{"round": 0}}\n{line}\n{{"round": 1}}\n')

    found = LogReader().lines(path, noted)

    assert found.rows == [0, 1]
    assert found.problem == "rounds.jsonl: 1 of 3 lines cannot be read"


@given(st.binary(max_size=300))
def test_no_bytes_stop_a_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "rounds.jsonl"
    path.write_bytes(content)

    assert isinstance(LogReader().lines(path, noted).rows, list)


@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers() | st.none()), max_size=5), st.data())
def test_a_log_read_while_it_grows_is_the_log_read_at_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    whole = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    cut = data.draw(st.integers(0, len(whole)))
    path, reader = tmp_path_factory.mktemp("log") / "rounds.jsonl", LogReader()
    path.write_bytes(whole[:cut])
    reader.lines(path)
    path.write_bytes(whole)

    assert reader.lines(path).rows == rows
