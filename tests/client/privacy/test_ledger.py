import os
import random
import signal
import stat
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.privacy.ledger import LEDGER, PrivacyLedger, read_ledger
from fielding.client.privacy.rule import PrivacyRule
from fielding.errors import FileFormatError, OutputError

RULE = PrivacyRule(epsilon=Fraction(1), reports=2, window=10)
HALF = Fraction(1, 2)


def spend(ledger: PrivacyLedger, round_index: int, client: str = "ann") -> bool:
    return ledger.spend([(client, round_index + RULE.period)], round_index)[0]


def test_what_would_exceed_the_budget_of_a_window_is_refused_until_there_is_budget_again(tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path / LEDGER, RULE)

    assert [spend(ledger, at) for at in (0, 3, 6, 9, 10, 12, 13)] == [True, True, False, False, True, False, True]
    assert spend(ledger, 6, client="bob")
    assert ledger.spent("ann", 13) == 1


def test_asking_spends_nothing_and_counts_a_line_that_was_cut_short(tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path / LEDGER, RULE)
    assert spend(ledger, 0)
    assert [ledger.grants("ann", 1) for _ in range(3)] == [True] * 3
    with (tmp_path / LEDGER).open("ab") as file:
        file.write(b'{"round": 1, "cl')

    torn = PrivacyLedger(tmp_path / LEDGER, RULE)

    assert not torn.grants("ann", 2)
    assert not spend(torn, 2)
    assert torn.grants("ann", 12)


def test_a_new_process_knows_what_was_spent_and_when_a_client_may_report_again(tmp_path: Path) -> None:
    first = PrivacyLedger(tmp_path / LEDGER, RULE)
    first.spend([("ann", 17), ("bob", 15)], 3)
    first.spend([("ann", 22)], 4)

    again = PrivacyLedger(tmp_path / LEDGER, RULE)

    assert [again.spent(client, 5) for client in ("ann", "bob", "cid")] == [1, HALF, 0]
    assert (again.next_round("ann"), again.next_round("bob"), again.next_round("cid")) == (22, 15, None)
    assert again.spend([("ann", 30), ("bob", 30)], 5) == [False, True]


def test_the_file_says_the_rule_once_and_then_each_report(tmp_path: Path) -> None:
    spend(PrivacyLedger(tmp_path / LEDGER, RULE), 0)
    spend(PrivacyLedger(tmp_path / LEDGER, RULE), 6)
    other = PrivacyRule(epsilon=Fraction(2), reports=2, window=10)
    spend(PrivacyLedger(tmp_path / LEDGER, other), 7)

    assert (tmp_path / LEDGER).read_text().splitlines() == [
        '{"rule": {"epsilon": "1", "reports": 2, "window": 10}}',
        '{"round": 0, "client": "ann", "epsilon": "1/2", "next": 5}',
        '{"round": 6, "client": "ann", "epsilon": "1/2", "next": 11}',
        '{"rule": {"epsilon": "2", "reports": 2, "window": 10}}',
        '{"round": 7, "client": "ann", "epsilon": "1", "next": 12}',
    ]


def test_everything_is_on_the_disk_before_a_report_is_granted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            synced.append(os.fstat(handle).st_size)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    ledger = PrivacyLedger(tmp_path / LEDGER, RULE)
    for at in (0, 5):
        assert spend(ledger, at)
        assert synced[-1] == (tmp_path / LEDGER).stat().st_size


def test_nothing_is_granted_if_the_ledger_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OutputError, match="No space left on device; nothing is reported without it"):
        spend(PrivacyLedger(tmp_path / LEDGER, RULE), 0)


class Crash(BaseException):
    """The process ends here."""


def crash_at(monkeypatch: pytest.MonkeyPatch, n_bytes: int) -> None:
    """Let the next write put so many bytes into the file, and the process end then."""
    real = os.write

    def write(handle: int, data: Any) -> int:
        monkeypatch.setattr(os, "write", real)
        real(handle, bytes(data)[:n_bytes])
        raise Crash

    monkeypatch.setattr(os, "write", write)


@pytest.mark.parametrize("n_before", [0, 1])
def test_a_line_cut_short_anywhere_counts_as_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_before: int
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _handle: None)
    whole = PrivacyLedger(tmp_path / "whole.jsonl", RULE)
    for at in range(n_before + 1):
        spend(whole, at)
    size = (tmp_path / "whole.jsonl").stat().st_size
    for n_bytes in (*range(1, size, 7), size):
        path = tmp_path / f"{n_bytes}.jsonl"
        ledger = PrivacyLedger(path, RULE)
        for at in range(n_before):
            assert spend(ledger, at)
        crash_at(monkeypatch, n_bytes)
        with pytest.raises(Crash):
            spend(ledger, n_before)
        written = path.read_bytes()

        after = PrivacyLedger(path, RULE)
        granted = sum(spend(after, at) for at in range(n_before + 1, 10))

        # Of the two reports of a window those before the crash are gone, and the one that it cut short, unless nothing
        # of its line was there.
        started = not written.endswith(b"\n") or len(read_ledger(path).spendings) - granted > n_before
        assert granted == RULE.reports - n_before - int(started)
        assert path.read_bytes().startswith(written)
        assert read_ledger(path).n_open == 0
        assert after.spent("ann", 9) == 1
        for line in path.read_text().splitlines():
            assert not line.startswith('{"round"') or line.endswith("}") or written.endswith(line.encode())


def test_a_crash_while_the_cut_line_is_accounted_for_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / LEDGER
    path.write_text('{"rule": {"epsilon": "1", "reports": 2, "window": 10}}\n{"round": 3, "cl')
    crash_at(monkeypatch, 1)
    with pytest.raises(Crash):
        spend(PrivacyLedger(path, RULE), 4)
    assert path.read_text().endswith('"cl\n')

    ledger = PrivacyLedger(path, RULE)

    assert [spend(ledger, at) for at in (5, 6)] == [True, False]


def test_a_run_that_is_gone_through_again_is_granted_the_same_reports_and_writes_none_twice(tmp_path: Path) -> None:
    def go_through(last: int) -> list[bool]:
        ledger = PrivacyLedger(tmp_path / LEDGER, RULE, is_repeatable=True)
        assert ledger.next_round("ann") is None
        return [spend(ledger, at) for at in range(0, last, 5)]

    assert go_through(20) == [True] * 4
    before = (tmp_path / LEDGER).read_bytes()
    (tmp_path / LEDGER).write_bytes(before + b'{"round": 20, "cli')  # killed while it wrote

    assert go_through(30) == [True] * 6
    assert go_through(30) == [True] * 6
    assert [one.round_index for one in read_ledger(tmp_path / LEDGER).spendings] == [0, 5, 10, 15, 20, 25]


def test_a_folder_in_place_of_a_ledger_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="cannot read"):
        read_ledger(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        '{"round": 1e999, "client": "a", "epsilon": "1", "next": 2}',
        '{"round": 1, "client": ["a"], "epsilon": "1", "next": 2}',
        '{"round": 1, "client": {"a": 1}, "epsilon": "1", "next": 2}',
        '{"rule": {}}',
        '{"rule": {"epsilon": "1e999999999", "window": 3}}',
        '{"rule": {"epsilon": "x", "window": 3}}',
        '{"rule": {"epsilon": "1", "window": 0}}',
        "[1]",
        "7",
    ],
)
def test_a_line_that_makes_no_sense_counts_as_one_that_was_cut_short(tmp_path: Path, line: str) -> None:
    path = tmp_path / LEDGER
    ledger = PrivacyLedger(path, RULE)
    assert spend(ledger, 0)
    path.write_text(path.read_text() + line + "\n")

    found = read_ledger(path)

    assert (found.n_open, len(found.spendings), len(found.rules)) == (1, 1, 1)
    assert sum(spend(PrivacyLedger(path, RULE), 1) for _ in range(3)) <= RULE.reports - 1


@given(st.binary(max_size=200))
def test_any_bytes_in_the_file_are_read_as_spent_or_as_nothing(tmp_path_factory: Any, junk: bytes) -> None:
    path = tmp_path_factory.mktemp("ledger") / LEDGER
    path.write_bytes(junk)

    ledger = PrivacyLedger(path, RULE)

    assert sum(spend(ledger, at) for at in range(10)) <= RULE.reports


def release_until_killed(folder: Path, first: int) -> None:
    """Report round by round as a device does: budget first, then the release; each release leaves a mark."""
    ledger = PrivacyLedger(folder / LEDGER, RULE)
    mark = os.open(folder / "released", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for round_index in range(first, first + 1_000_000):
        os.pwrite(os.open(folder / "round", os.O_WRONLY | os.O_CREAT), f"{round_index:09d}".encode(), 0)
        if spend(ledger, round_index):
            os.write(mark, f"{round_index}\n".encode())


def kill_and_look(folder: Path, n_kills: int, seed: int) -> Sequence[int]:
    """Kill a device with -9 again and again; return the rounds in which it released, checked against the ledger."""
    rng, before = random.Random(seed), 0
    for _ in range(n_kills):
        first = int((folder / "round").read_text()) if (folder / "round").exists() else 0
        child = os.fork()
        if not child:
            try:
                release_until_killed(folder, first)
            finally:
                os._exit(1)
        try:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            signal.sigtimedwait([], rng.uniform(0.0, 0.02))
        finally:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        found = read_ledger(folder / LEDGER) if (folder / LEDGER).exists() else None
        n_spent = 0 if found is None else len(found.spendings) + found.n_open
        assert n_spent >= before  # what was spent never comes back
        before = n_spent
    spendings = read_ledger(folder / LEDGER).spendings
    released = [int(line) for line in (folder / "released").read_text().split()]
    assert Counter(released) <= Counter(one.round_index for one in spendings if not one.is_torn)
    for at in released:
        window = [one.epsilon for one in spendings if at <= one.round_index < at + RULE.window]
        assert sum(window) <= RULE.epsilon
    return released


def test_a_device_killed_again_and_again_releases_nothing_that_its_ledger_does_not_know(tmp_path: Path) -> None:
    assert len(kill_and_look(tmp_path, 15, seed=1)) > 0


@pytest.mark.slow
def test_a_thousand_kills(tmp_path: Path) -> None:
    assert len(kill_and_look(tmp_path, 1000, seed=2)) > 0
