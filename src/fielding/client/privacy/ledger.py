"""The budget of private reports that clients have spent: on disk before anything is released.

A ledger is a file of JSON lines that only grows: first the rule, then a line per report, with the round, the client,
the epsilon that it tells at most, and the round from which on the client may report again. Trainings have a rule and
lines of their own, with the name of their kind.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from fielding._typing import ClientId, Json
from fielding.atomic import sync_folder
from fielding.client.privacy.accountant import divergences, epsilon_of_divergences
from fielding.client.privacy.rule import REPORT, read_fraction
from fielding.errors import FileFormatError, OptionError, OutputError
from fielding.json_text import parse_json

LEDGER = "privacy.jsonl"
"""Name of the file, in the folder of a run and in that of a device."""


class Budget(Protocol):
    """A rule of private reports, trainings or noised sums, as far as a ledger needs to know it."""

    @property
    def what(self) -> str:
        """Of what kind they are."""
        ...

    @property
    def budget(self) -> Fraction:
        """What may be spent in any ``window`` rounds in a row."""
        ...

    @property
    def epsilon_of_report(self) -> Fraction:
        """What one report spends; of sums with Gaussian noise in the measure of concentrated privacy."""
        ...

    @property
    def window(self) -> int:
        """Number of rounds."""
        ...

    def record(self) -> dict[str, Json]:
        """Return the rule as the ledger holds it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a client spent on one report; with ``is_torn`` on a line that a crash cut short: it counts, to be safe."""

    round_index: int
    client: ClientId
    epsilon: Fraction
    next_round: int
    is_torn: bool = False
    what: str = REPORT

    def line(self) -> str:
        """Return it as a ledger holds it."""
        record = {
            "round": self.round_index,
            "client": self.client,
            "epsilon": str(self.epsilon),
            "next": self.next_round,
            **({"torn": True} if self.is_torn else {}),
            **({"what": self.what} if self.what != REPORT else {}),
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

    def kinds(self) -> list[str]:
        """Return what there are rules for: reports, trainings, models."""
        return list(dict.fromkeys(str(rule.get("what", REPORT)) for rule in self.rules))

    def of(self, what: str) -> "LedgerFile":
        """Return what it holds of one kind; lines that were cut short may be of any."""
        return replace(
            self,
            rules=tuple(rule for rule in self.rules if rule.get("what", REPORT) == what),
            spendings=tuple(one for one in self.spendings if one.what == what),
        )

    def most_spent(self) -> dict[ClientId, float]:
        """Return what each client has spent at most in any window in a row, by the last rule; all are of one kind.

        Of Gaussian noise it is what the accountant says of so many reports: the first of them tell the most.
        """
        rule = self.rules[-1] if self.rules else {}
        window = int(str(rule.get("window", 1)))
        by_client: dict[ClientId, list[Spending]] = {}
        for one in self.spendings:
            by_client.setdefault(one.client, []).append(one)
        windows = {
            client: [
                [one.epsilon for one in each if 0 <= one.round_index - first.round_index < window] for first in each
            ]
            for client, each in by_client.items()
        }
        if "noise" not in rule:
            return {client: float(max(sum(one, Fraction(0)) for one in each)) for client, each in windows.items()}
        rate, noise, delta = float(str(rule["rate"])), float(str(rule["noise"])), float(Fraction(str(rule["delta"])))
        n_steps = int(str(rule["steps"]))
        return {
            client: epsilon_of_divergences(divergences(rate, noise, max(map(len, each)) * n_steps), delta)
            for client, each in windows.items()
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
        record = parse_json(line)
        if "rule" in record:
            rule = dict(record["rule"])
            epsilon = rule["epsilon"] if isinstance(rule["epsilon"], (int, float)) else read_fraction(rule["epsilon"])
            if not epsilon > 0 or rule["window"] < 1:
                raise ValueError
            return rule
        if not isinstance(record["client"], (str, int)):
            raise TypeError
        return Spending(
            round_index=int(record["round"]),
            client=record["client"],
            epsilon=read_fraction(record["epsilon"]),
            next_round=int(record["next"]),
            is_torn=record.get("torn") is True,
            what=str(record.get("what", REPORT)),
        )
    except (ValueError, TypeError, KeyError, ArithmeticError):
        return None


class PrivacyLedger:
    """Grants reports as long as the budget lasts, and writes them down first.

    Parameters
    ----------
    path
        The file; it is made if there is none. None: nothing is written, for simulations that leave nothing behind.
    rule
        What may be spent: ``budget`` in any ``window`` rounds in a row.
    is_repeatable
        Whether noise is the same when a round is gone through again, as in a simulation that is resumed: a report that
        was granted before is then granted again, at no cost, and every round is asked for anew. Otherwise a round that
        was spent stays spent, and so does a line that was cut short.

    Examples
    --------
    >>> from fielding.client.privacy.rule import PrivacyRule
    >>> ledger = PrivacyLedger(None, PrivacyRule(epsilon=Fraction(1), reports=2, window=10))
    >>> [ledger.spend([("ann", at + 5)], at) for at in (0, 4, 8, 12)]
    [[True], [True], [False], [True]]
    >>> ledger.next_round("ann")
    17
    """

    def __init__(self, path: Path | None, rule: Budget, *, is_repeatable: bool = False) -> None:
        self._path, self._rule, self._is_repeatable = path, rule, is_repeatable
        self._spent: dict[ClientId, dict[int, list[Fraction]]] = {}
        self._next: dict[ClientId, int] = {}
        self._needs_rule, self._ends_open, self._n_open = True, False, 0
        if path is None or not path.exists():
            return
        found = read_ledger(path).of(rule.what)
        if "noise" in rule.record() and found.rules and found.rules[-1] != rule.record():
            raise OptionError(
                f"{path} has a budget of {rule.what} with another noise, which cannot be added up; begin a new run, or "
                "leave [privacy], the number of rounds and of local steps as they were"
            )
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

    def grants(self, client: ClientId, round_index: int) -> bool:
        """Return whether a client may report in a round; nothing is spent by asking."""
        is_known = self._is_repeatable and round_index in self._spent.get(client, {})
        n_wanted = 2 if self._n_open else 1  # a line that was cut short is spent first
        return (
            is_known or self.spent(client, round_index) + n_wanted * self._rule.epsilon_of_report <= self._rule.budget
        )

    def spend(self, wanted: Sequence[tuple[ClientId, int]], round_index: int) -> list[bool]:
        """Return which of some clients may report in a round; what they spend is on disk then.

        ``wanted``: each client once, with the round from which on it may report again.

        Raises
        ------
        OutputError
            If it cannot be written; then nothing may be released.
        """
        epsilon, what, lines = self._rule.epsilon_of_report, self._rule.what, []
        if self._n_open:  # it may have been this very report, or one before it: nobody knows, so it is spent
            for client, later in wanted:
                torn = Spending(
                    round_index=round_index, client=client, epsilon=epsilon, next_round=later, is_torn=True, what=what
                )
                self._note(torn)
                lines.append(torn)
            self._n_open = 0
        granted = []
        for client, later in wanted:
            is_granted = self.grants(client, round_index)
            if is_granted and not (self._is_repeatable and round_index in self._spent.get(client, {})):
                one = Spending(round_index=round_index, client=client, epsilon=epsilon, next_round=later, what=what)
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
