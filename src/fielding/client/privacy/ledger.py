"""The budget of private reports that clients have spent: on disk before anything is released.

A ledger is a file of JSON lines that only grows: first the rule, then a line per report, with the round, the client,
the epsilon that it tells at most, and the round from which on the client may report again.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from fielding._typing import ClientId, Json
from fielding.atomic import sync_folder
from fielding.client.privacy.rule import PrivacyRule
from fielding.errors import FileFormatError, OutputError

LEDGER = "privacy.jsonl"
"""Name of the file, in the folder of a run and in that of a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a client spent on one report; with ``is_torn`` on a line that a crash cut short: it counts, to be safe."""

    round_index: int
    client: ClientId
    epsilon: Fraction
    next_round: int
    is_torn: bool = False

    def line(self) -> str:
        """Return it as a ledger holds it."""
        record = {
            "round": self.round_index,
            "client": self.client,
            "epsilon": str(self.epsilon),
            "next": self.next_round,
            **({"torn": True} if self.is_torn else {}),
        }
        return f"{json.dumps(record)}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFile:
    """What a ledger holds.

    ``rules``: those that were in force, one after the other; ``n_open``: lines cut short by a crash that no later line
    accounts for; ``ends_open``: whether the last line is cut short.
    """

    rules: tuple[dict[str, Json], ...]
    spendings: tuple[Spending, ...]
    n_open: int
    ends_open: bool = False

    def most_spent(self) -> dict[ClientId, Fraction]:
        """Return what each client has spent at most in any window in a row, by the last rule."""
        window = int(str(self.rules[-1].get("window", 1))) if self.rules else 1
        by_client: dict[ClientId, list[Spending]] = {}
        for one in self.spendings:
            by_client.setdefault(one.client, []).append(one)
        return {
            client: max(
                sum((one.epsilon for one in each if 0 <= one.round_index - first.round_index < window), Fraction(0))
                for first in each
            )
            for client, each in by_client.items()
        }


def read_ledger(path: Path) -> LedgerFile:
    """Return what a ledger holds; a line that a crash cut short is counted, not read.

    Raises
    ------
    FileFormatError
        If it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    rules: list[dict[str, Json]] = []
    spendings: list[Spending] = []
    n_open = 0
    for line in text.splitlines(keepends=True):
        found = _parse(line) if line.endswith("\n") else None
        if isinstance(found, Spending):
            spendings.append(found)
            n_open = 0 if found.is_torn else n_open
        elif found is not None:
            rules.append(found)
        elif line.strip():
            n_open += 1
    ends_open = bool(text) and not text.endswith("\n")
    return LedgerFile(rules=tuple(rules), spendings=tuple(spendings), n_open=n_open, ends_open=ends_open)


def _parse(line: str) -> Spending | dict[str, Json] | None:
    """Return what a line says: a spending or a rule; None if it is cut short."""
    try:
        record = json.loads(line)
        if "rule" in record:
            return dict(record["rule"])
        return Spending(
            round_index=int(record["round"]),
            client=record["client"],
            epsilon=Fraction(record["epsilon"]),
            next_round=int(record["next"]),
            is_torn=record.get("torn") is True,
        )
    except (ValueError, TypeError, KeyError, ZeroDivisionError):
        return None


class PrivacyLedger:
    """Grants reports as long as the budget lasts, and writes them down first.

    Parameters
    ----------
    path
        The file; it is made if there is none. None: nothing is written, for simulations that leave nothing behind.
    rule
        What may be spent: ``epsilon`` in any ``window`` rounds in a row.
    is_repeatable
        Whether noise is the same when a round is gone through again, as in a simulation that is resumed: a report that
        was granted before is then granted again, at no cost, and every round is asked for anew. Otherwise a round that
        was spent stays spent, and so does a line that was cut short.

    Examples
    --------
    >>> ledger = PrivacyLedger(None, PrivacyRule(epsilon=Fraction(1), reports=2, window=10))
    >>> [ledger.spend([("ann", at + 5)], at) for at in (0, 4, 8, 12)]
    [[True], [True], [False], [True]]
    >>> ledger.next_round("ann")
    17
    """

    def __init__(self, path: Path | None, rule: PrivacyRule, *, is_repeatable: bool = False) -> None:
        self._path, self._rule, self._is_repeatable = path, rule, is_repeatable
        self._spent: dict[ClientId, dict[int, list[Fraction]]] = {}
        self._next: dict[ClientId, int] = {}
        self._needs_rule, self._ends_open, self._n_open = True, False, 0
        if path is None or not path.exists():
            return
        found = read_ledger(path)
        self._needs_rule = not found.rules or found.rules[-1] != rule.record()
        self._ends_open = found.ends_open
        self._n_open = 0 if is_repeatable else found.n_open
        for one in found.spendings:
            self._note(one)

    def _note(self, one: Spending) -> None:
        self._spent.setdefault(one.client, {}).setdefault(one.round_index, []).append(one.epsilon)
        self._next[one.client] = max(one.next_round, self._next.get(one.client, one.next_round))

    def next_round(self, client: ClientId) -> int | None:
        """Return the round from which on a client may report again; None if it never did.

        Where rounds are gone through again it never did: it will report as it did then.
        """
        return None if self._is_repeatable and self._path is not None else self._next.get(client)

    def spent(self, client: ClientId, round_index: int) -> Fraction:
        """Return what a client has spent in the window that ends with a round; on later rounds, too, if there are."""
        first, latest = round_index - self._rule.window + 1, round_index if self._is_repeatable else None
        rounds = self._spent.get(client, {})
        recent = [each for at, each in rounds.items() if at >= first and (latest is None or at <= latest)]
        return sum((epsilon for each in recent for epsilon in each), Fraction(0))

    def spend(self, wanted: Sequence[tuple[ClientId, int]], round_index: int) -> list[bool]:
        """Return which of some clients may report in a round; what they spend is on disk then.

        ``wanted``: each client once, with the round from which on it may report again.

        Raises
        ------
        OutputError
            If it cannot be written; then nothing may be released.
        """
        epsilon, lines = self._rule.epsilon_of_report, []
        if self._n_open:  # it may have been this very report, or one before it: nobody knows, so it is spent
            for client, later in wanted:
                torn = Spending(round_index=round_index, client=client, epsilon=epsilon, next_round=later, is_torn=True)
                self._note(torn)
                lines.append(torn)
            self._n_open = 0
        granted = []
        for client, later in wanted:
            is_known = self._is_repeatable and round_index in self._spent.get(client, {})
            is_granted = is_known or self.spent(client, round_index) + epsilon <= self._rule.epsilon
            if is_granted and not is_known:
                one = Spending(round_index=round_index, client=client, epsilon=epsilon, next_round=later)
                self._note(one)
                lines.append(one)
            granted.append(is_granted)
        if lines:
            self._append("".join(one.line() for one in lines))
        return granted

    def _append(self, text: str) -> None:
        """Write lines at the end of the file, and wait until they are on the disk."""
        if self._path is None:
            return
        is_new = not self._path.exists()
        head = "\n" if self._ends_open else ""
        if self._needs_rule:
            head += f"{json.dumps({'rule': self._rule.record()})}\n"
        try:
            with self._path.open("ab", buffering=0) as file:
                rest = memoryview((head + text).encode())
                self._ends_open = True  # until all of it is there
                while rest:
                    rest = rest[os.write(file.fileno(), rest) :]
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"cannot write {self._path}: {error.strerror or error}; nothing is reported without it"
            ) from error
        self._needs_rule, self._ends_open = False, False
        if is_new:
            sync_folder(self._path.parent)
