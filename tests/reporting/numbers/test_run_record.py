import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.errors import CheckpointError, InputError
from fielding.records.lock import lock_folder
from fielding.records.plan import write_failure
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import LOGS, MANIFEST, ROUNDS, SUMMARY
from fielding.reporting.numbers.run_record import LogReader, Row, last_line, read_run, sizes_over_time
from tests.records.pipes import needs_pipes, no_waiting, put_pipe
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


# ---------------------------------------------------------------- log reader


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


@needs_pipes
@pytest.mark.parametrize(
    "name",
    [".lock", MANIFEST, SUMMARY, "failure.json", *LOGS, "checkpoints/00000000.ckpt", "reports/00000000.npz"],
)
def test_a_pipe_among_the_files_of_a_run_is_told_and_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = write_run(tmp_path, [round_line(0)], memberships=MEMBERSHIPS)
    put_pipe(folder / name)

    with no_waiting():
        record = read_run(folder)
        read = [record.memberships(), record.concepts(), record.tests(), record.timings(), record.last_test()]
        rest = [record.costs(), record.reports(), record.summary()]

    assert len(record.rounds) == (name != ROUNDS)
    assert bool(read[0]) == (name != "memberships.jsonl")
    assert not any(read[1:])
    assert not any(rest)
    told = {
        MANIFEST: "manifest.json cannot be read: config and versions are not known",
        ROUNDS: "rounds.jsonl: it is no file",
        "events.jsonl": "events.jsonl: it is no file",
        "failure.json": "failure.json is there, but cannot be read",
    }
    assert record.problems[:1] == ((told[name],) if name in told else ())


@needs_pipes
def test_a_pipe_that_is_asked_for_is_refused(tmp_path: Path) -> None:
    put_pipe(tmp_path / "events.jsonl")
    put_pipe(tmp_path / "00000000.ckpt")

    with no_waiting(), pytest.raises(InputError, match="it is no file"):
        last_line(tmp_path / "events.jsonl")
    with no_waiting(), pytest.raises(CheckpointError, match="it is no file"):
        load_run(tmp_path / "00000000.ckpt")


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
