import errno
import os
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.errors import CheckpointError, InputError, OutputError
from fielding.records.logs import DIGESTS, Logs, read_lines
from tests.records.pipes import needs_pipes, no_waiting, put_pipe


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    opened = Logs(tmp_path, ("a.jsonl", "b.jsonl"))
    opened.begin()
    return opened


def full_disk(_file: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_lines_come_back_in_order_even_before_they_are_on_disk(logs: Logs) -> None:
    for at in range(3):
        logs.append("a.jsonl", {"at": at})

    assert [line["at"] for line in logs.lines("a.jsonl")] == [0, 1, 2]
    assert list(logs.lines("b.jsonl")) == []
    logs.close()


def test_sizes_are_those_on_disk(logs: Logs, tmp_path: Path) -> None:
    logs.append("a.jsonl", {"at": 1})

    assert {name: size for name, size in logs.sizes().items() if name != DIGESTS} == {"a.jsonl": 10, "b.jsonl": 0}
    assert (tmp_path / "a.jsonl").stat().st_size == 10
    logs.close()


def test_only_what_changed_is_synced(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    logs.append("a.jsonl", {"at": 1})
    logs.sizes()
    logs.sizes()

    assert len(synced) == 1
    logs.close()


def test_what_came_after_a_size_is_cut_off_and_writing_goes_on_there(logs: Logs, tmp_path: Path) -> None:
    logs.append("a.jsonl", {"at": 1})
    sizes = logs.sizes()
    logs.append("a.jsonl", {"at": 2})
    logs.append("b.jsonl", {"at": 2})
    logs.cut(sizes)
    logs.append("a.jsonl", {"at": 3})

    assert [line["at"] for line in logs.lines("a.jsonl")] == [1, 3]
    assert list(logs.lines("b.jsonl")) == []
    logs.close()


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"a.jsonl": 99, "b.jsonl": 0}, "is shorter than its checkpoint says"),
        ({"a.jsonl": 0}, "its checkpoint does not know it"),
        ({"a.jsonl": "0", "b.jsonl": 0}, "its checkpoint does not know it"),
    ],
)
def test_a_log_that_lost_something_is_told(logs: Logs, sizes: dict[str, Json], words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        logs.cut(sizes)


def test_a_changed_digit_is_told_by_file_and_nothing_is_cut(logs: Logs, tmp_path: Path) -> None:
    for at in range(3):
        logs.append("b.jsonl", {"at": at})
    sizes = logs.sizes()
    logs.append("a.jsonl", {"at": 9})
    logs.close()
    whole = (tmp_path / "b.jsonl").read_bytes()
    (tmp_path / "b.jsonl").write_bytes(whole.replace(b"1", b"7"))

    with pytest.raises(CheckpointError, match=r"b\.jsonl was changed: .*; put back a copy of it, or begin anew"):
        logs.cut(sizes)

    assert (tmp_path / "a.jsonl").stat().st_size == 10
    (tmp_path / "b.jsonl").write_bytes(whole)
    logs.cut(sizes)
    logs.append("b.jsonl", {"at": 3})
    again = Logs(tmp_path, logs.names)
    again.cut(logs.sizes())  # digests roll on over a cut
    logs.close()


def test_logs_of_checkpoints_without_digests_are_cut_by_their_sizes(logs: Logs, tmp_path: Path) -> None:
    logs.append("a.jsonl", {"at": 1})
    logs.append("a.jsonl", {"at": 2})
    logs.sizes()
    logs.cut({"a.jsonl": 10, "b.jsonl": 0})

    assert (tmp_path / "a.jsonl").read_text() == '{"at": 1}\n'


def test_a_checkpoint_reads_nothing_of_logs(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.append("a.jsonl", {"at": 1})
    logs.sizes()
    monkeypatch.setattr(Path, "open", None)  # whoever reads a log opens it

    logs.append("a.jsonl", {"at": 2})
    assert logs.sizes()["a.jsonl"] == 20
    logs.close()


def test_a_log_that_is_gone_is_told(logs: Logs, tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").unlink()

    with pytest.raises(CheckpointError, match=r"b\.jsonl is gone"):
        logs.cut({"a.jsonl": 0, "b.jsonl": 0})


@needs_pipes
@pytest.mark.parametrize("size", [0, 10])
def test_a_pipe_in_place_of_a_log_is_told_and_nothing_is_cut(logs: Logs, tmp_path: Path, size: int) -> None:
    logs.append("a.jsonl", {"at": 1})
    logs.close()
    put_pipe(tmp_path / "b.jsonl")

    with (
        no_waiting(),
        pytest.raises(CheckpointError, match=r"cannot read .*b\.jsonl: it is no file; nothing was changed"),
    ):
        logs.cut({"a.jsonl": 0, "b.jsonl": size})
    assert (tmp_path / "a.jsonl").stat().st_size == 10


def test_a_last_line_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"at": 1}\n{"at": 2')

    assert list(read_lines(tmp_path / "a.jsonl")) == [{"at": 1}]


def test_a_log_that_is_no_log_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"nonsense\n")

    with pytest.raises(InputError, match=r"cannot read .*a\.jsonl"):
        list(read_lines(tmp_path / "a.jsonl"))
    with pytest.raises(InputError, match=r"cannot read .*none"):
        list(read_lines(tmp_path / "none"))


def test_a_full_disk_is_told_by_file(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.append("a.jsonl", {"at": 1})
    monkeypatch.setattr(os, "fsync", full_disk)

    with pytest.raises(OutputError, match=r"cannot write .*a\.jsonl: No space left on device"):
        logs.sizes()
    logs.close()


def test_every_file_is_closed_even_if_the_first_cannot_be(tmp_path: Path) -> None:
    class Failing:
        """A file that the disk has no room for."""

        closed = 0

        def close(self) -> None:
            Failing.closed += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    logs = Logs(tmp_path, ("a.jsonl", "b.jsonl"))
    logs._files = {"a.jsonl": Failing(), "b.jsonl": Failing()}  # type: ignore[dict-item]

    with pytest.raises(OutputError, match=r"a\.jsonl: No space left"):
        logs.close()

    assert Failing.closed == 2
    logs.close()


def test_numbers_that_json_does_not_know_are_not_written(logs: Logs) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        logs.append("a.jsonl", {"loss": float("nan")})
    logs.close()
