import json
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.errors import InputError
from fielding.records.lock import lock_folder
from fielding.records.plan import write_failure
from fielding.reporting.numbers.run_record import last_line, read_run, sizes_over_time
from tests.reporting.run_folders import round_rows, run_folder
from tests.reporting.run_logs import evaluated, round_line, write_run

MEMBERSHIPS: list[dict[str, Json]] = [
    {"round": 0, "changed": [["ann", 0], ["bob", 0], ["cid", -1]]},
    {"round": 4, "changed": [["bob", 7], ["cid", 7]]},
    {"round": 6, "changed": [["ann", 7]]},
]


def test_sizes_follow_every_change_and_leave_out_who_is_in_no_cluster(tmp_path: Path) -> None:
    record = read_run(write_run(tmp_path, [round_line(0)], memberships=MEMBERSHIPS))

    assert list(sizes_over_time(record.memberships())) == [(0, {0: 2}), (4, {0: 1, 7: 2}), (6, {7: 3})]


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


def test_a_folder_whose_manifest_is_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"demo": {}}')

    with pytest.raises(InputError, match="has no config"):
        read_run(tmp_path)


def test_rounds_without_a_manifest_are_read_and_the_loss_is_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [round_line(0)])
    (folder / "manifest.json").write_text('{"seed": 3, ')

    record = read_run(folder)

    assert len(record.rounds) == 1
    assert record.problems == ("manifest.json cannot be read: config and versions are not known",)
    assert (record.seed, record.classes, record.arrivals, record.n_expected) == (None, [], [], 0)


def test_events_keep_numbers_of_clients_and_the_first_of_those_that_moved(tmp_path: Path) -> None:
    event: dict[str, Json] = {
        "round": 2, "shift": 0.5, "threshold": 0.4, "fired": True, "cluster_ids": [0, 1],
        "reported": list(range(20)), "moved": list(range(12)), "joined": [3], "silenced": [],
    }  # fmt: skip

    (found,) = read_run(write_run(tmp_path, [round_line(0)], events=[event])).events

    assert (found["n_reported"], found["n_moved"], found["n_joined"], found["n_silenced"]) == (20, 12, 1, 0)
    assert found["who_moved"] == list(range(8))
    assert "cluster_ids" not in found
    assert "reported" not in found


def test_the_state_follows_from_what_is_in_the_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [round_line(0)])
    states = [read_run(folder).state]
    write_failure(folder, "the disk is full")
    states.append(read_run(folder).state)
    with lock_folder(folder):
        states.append(read_run(folder).state)
    (folder / "summary.json").write_text("{}")
    states.append(read_run(folder).state)

    (folder / "failure.json").unlink()
    states.append(read_run(folder).state)

    # A finished run that a comparison found to be another one than it asked for has failed.
    assert states == ["stopped", "failed", "running", "failed", "finished"]
    assert read_run(folder).problems == ()


def test_asking_whether_a_folder_is_locked_does_not_lock_it(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [round_line(0)])
    lock_folder(folder).close()
    read_run(folder)

    lock_folder(folder).close()


def test_damaged_logs_are_told_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [round_line(0), round_line(1)], memberships=MEMBERSHIPS)
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    (folder / "rounds.jsonl").write_text("\n".join([lines[0], '{"round": "x", "time_s": 1}', lines[1]]) + "\n")
    (folder / "clients.jsonl").unlink()

    record = read_run(folder)

    assert [row["round"] for row in record.rounds] == [0, 1]
    assert record.problems == ("rounds.jsonl: 1 of 3 lines cannot be read", "clients.jsonl is missing")
    assert record.last_test() is None
    assert record.tests() == []
    assert record.costs() is None
    assert record.reports() is None
    assert record.concepts() == []


def test_the_last_evaluation_of_clients_is_the_last_whole_one(tmp_path: Path) -> None:
    tests: list[dict[str, Json]] = [
        {
            "round": at,
            "client": ["ann", 7],
            "cluster": [0, 1],
            "n_test": [4, 0],
            "correct": [at, 0],
            "corrected": [4, 0],
        }
        for at in (1, 3)
    ]
    folder = write_run(tmp_path, [round_line(0, **evaluated(0.5))], clients=tests)
    with (folder / "clients.jsonl").open("a") as file:
        file.write(json.dumps({"round": 5, "client": ["ann"], "cluster": [0], "n_test": [4], "correct": [1, 2]}) + "\n")

    found = read_run(folder).last_test()

    assert found is not None
    assert found.round_index == 3
    assert found.client_ids == ("ann", 7)
    assert found.accuracy()[0] == 0.75
    assert found.accuracy("corrected")[0] == 1.0
    assert found.accuracy()[1] != found.accuracy()[1]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, -1e300])
@pytest.mark.parametrize("log", ["rounds", "events"])
def test_a_line_with_a_number_that_no_run_writes_is_damaged(tmp_path: Path, log: str, value: float) -> None:
    line = {"round": 1, "time_s": 1.0, "shift": value, "accuracy": value}
    folder = write_run(tmp_path, [round_line(0)])
    with (folder / f"{log}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")

    (problem,) = read_run(folder).problems

    assert problem.startswith(f"{log}.jsonl: 1 of ")
    assert problem.endswith("cannot be read")


def test_a_finished_run_whose_log_was_cut_off_does_not_count(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", round_rows([0.5, 0.6, 0.7]))
    (folder / "summary.json").write_text('{"n_rounds": 3}')
    whole = read_run(folder)
    lines = (folder / "rounds.jsonl").read_text().splitlines(keepends=True)
    (folder / "rounds.jsonl").write_text(lines[0] + "{\n" + lines[2])
    damaged = read_run(folder)
    (folder / "rounds.jsonl").write_text(lines[0])
    cut_off = read_run(folder)

    assert whole.state == damaged.state == "finished"  # a line that cannot be read is told, but it is there
    assert cut_off.state == "stopped"
    assert cut_off.problems[0].startswith("rounds.jsonl holds 1 of 3 rounds")
