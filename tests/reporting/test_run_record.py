from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.reporting.run_record import cluster_sizes, last_line, read_run
from tests.reporting.run_logs import round_line, write_run


def test_sizes_follow_every_change_and_leave_out_who_is_in_no_cluster(tmp_path: Path) -> None:
    memberships: list[dict[str, Json]] = [
        {"round": 0, "changed": [["ann", 0], ["bob", 0], ["cid", -1]]},
        {"round": 4, "changed": [["bob", 7], ["cid", 7]]},
        {"round": 6, "changed": [["ann", 7]]},
    ]
    folder = write_run(tmp_path, [round_line(0)], memberships=memberships)

    assert list(cluster_sizes(folder)) == [(0, {0: 2}), (4, {0: 1, 7: 2}), (6, {7: 3})]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", None),
        ('{"a": 1}\n', {"a": 1}),
        ('{"a": 1}\n{"a": 2}\n', {"a": 2}),
        ('{"a": 1}\n{"a": 2}\n{"a": 3', {"a": 2}),
        ('{"a": 1', None),
        ('{"a": 1}\n' + '{"a": "' + "x" * 200_000 + '"}\n', {"a": "x" * 200_000}),
        ('{"a": 1}\n' + "x" * 200_000, {"a": 1}),
    ],
)
def test_the_last_whole_line_is_found_from_the_end(tmp_path: Path, content: str, expected: object) -> None:
    (tmp_path / "log").write_text(content)

    assert last_line(tmp_path / "log") == expected


def test_arrivals_are_the_rounds_in_which_an_interval_is_complete(tmp_path: Path) -> None:
    record = read_run(write_run(tmp_path, [round_line(at) for at in range(6)]))

    assert record.arrivals == [2.0, 4.0]


def test_another_folder_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not the folder of a run"):
        read_run(tmp_path)
