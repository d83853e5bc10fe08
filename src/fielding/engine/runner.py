"""Round after round, written down, committed and resumable, until a rule says stop."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes, Json, Membership
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.engine.round import Done, Federation, hand_out, run_round, timing_record, welcome
from fielding.engine.run_rows import (
    changes_of,
    client_row,
    concept_row,
    event_row,
    membership_row,
    round_row,
    stable_membership,
)
from fielding.errors import CheckpointError
from fielding.federation.ledger import Ledger
from fielding.methods.method import cluster_ids
from fielding.records.run_checkpoint import DRIVER, LEDGER, METHOD, SELECTION, RunCheckpoint
from fielding.records.run_folder import CLIENTS, CONCEPTS, EVENTS, MEMBERSHIPS, ROUNDS, TIMINGS, RunFolder
from fielding.reporting.numbers.run_summary import run_summary
from fielding.training.layout import Layout

MOST_COMMITTING = 0.02
"""Largest share of the wall-clock time that checkpoints take, unless a number of rounds is asked for."""

Watch: TypeAlias = Callable[[Mapping[str, Json]], bool]
"""Called after each round with its line of ``rounds.jsonl``; a False stops the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When to stop and when to commit.

    Parameters
    ----------
    n_rounds
        How many rounds at most.
    gap
        Rounds between arrivals of data, for the summary.
    stop_at_accuracy, stop_at_time_s
        Stop after the first evaluation that reaches the one, or when the other has passed.
    checkpoint_every
        Rounds between checkpoints; None for as often as costs little.
    """

    n_rounds: int
    gap: int = 1
    stop_at_accuracy: float | None = None
    stop_at_time_s: float | None = None
    checkpoint_every: int | None = None


class Runner:
    """Runs a federation into a folder, from the start or from a checkpoint of the same run.

    Parameters
    ----------
    federation
        What runs.
    folder
        Where it is written down; it must be begun or resumed.
    layout
        What the numbers of a model mean.
    method_name
        For the checkpoint.
    rules
        When to stop and when to commit.
    """

    def __init__(
        self, federation: Federation, folder: RunFolder, *, layout: Layout, method_name: str, rules: Rules
    ) -> None:
        self.federation, self._folder, self._rules = federation, folder, rules
        self._layout, self._method_name = layout, method_name
        self._next_round = 0
        self._waiting: ReportBatch | None = None
        self._before: Membership | None = None
        self._concepts: Codes | None = None
        self._ids: tuple[int, ...] | None = None
        self._last_row: Mapping[str, Json] | None = None
        self._committed_at, self._commit_took = time.monotonic(), 0.0
        self._uncommitted = False

    def restore(self, checkpoint: RunCheckpoint) -> None:
        """Go on after the round that a checkpoint was written in."""
        if checkpoint.layout != self._layout:
            raise CheckpointError("the checkpoint holds models of another shape; begin anew in another folder")
        self._welcome(checkpoint.client_ids)
        self.federation.method.restore(
            checkpoint.values, under(METHOD, checkpoint.arrays) | {"models": checkpoint.models}
        )
        self.federation.selection.restore(under(SELECTION, checkpoint.arrays))
        rows = list(self._folder.logs.lines(ROUNDS))
        if len(rows) != checkpoint.round_index + 1:
            raise CheckpointError(
                f"{ROUNDS} holds {len(rows)} rounds, its checkpoint {checkpoint.round_index + 1}; "
                "begin anew in another folder"
            )
        ends = [float(str(row["time_s"])) for row in rows]
        sent = self.federation.clients.return_to(
            checkpoint.round_index,
            [0.0, *ends],
            ledger=Ledger.restored(under(LEDGER, checkpoint.arrays)),
            arrays=under(DRIVER, checkpoint.arrays),
        )
        if self.federation.clients.client_ids != checkpoint.client_ids:
            raise CheckpointError("clients came back as others than the checkpoint has; begin anew in another folder")
        hand_out(self.federation)
        self._waiting = self._waiting_after(rows, sent) if self.federation.is_delayed else None
        self._before, self._ids = stable_membership(self.federation.method), cluster_ids(self.federation.method)
        # A log without a line was begun by a resume: the next round writes down the concepts of all.
        has_concepts = next(self._folder.logs.lines(CONCEPTS), None) is not None
        self._concepts = self.federation.clients.concepts() if has_concepts else None
        self._next_round, self._last_row = checkpoint.round_index + 1, rows[-1]

    def _waiting_after(self, rows: Sequence[Mapping[str, Json]], sent: ReportBatch) -> ReportBatch | None:
        """Return the reports that wait after the last of some rounds; None if nobody ever reported."""
        first = next((at for at, row in enumerate(rows) if row["n_reports"]), None)
        if self.federation.has_late_start:
            return sent if first is not None or len(sent.client_ids) else None
        if first is None:
            return None
        return NO_REPORTS if first == len(rows) - 1 else sent

    def _welcome(self, client_ids: tuple[ClientId, ...]) -> None:
        """Let method and selection know of clients that had joined when a checkpoint was written."""
        begun = self.federation.clients.client_ids
        if client_ids[: len(begun)] != begun:
            raise CheckpointError(
                f"the checkpoint has {len(client_ids)} clients, and the {len(begun)} that the run begins with are not "
                "the first of them; begin with those that it began with"
            )
        welcome(self.federation, begun, client_ids)

    def run(self, watch: Watch = lambda _row: True) -> dict[str, Json] | None:
        """Run the rounds that are left; return the summary, or None if it was stopped and can go on."""
        # A run that a rule stopped is complete: resumed, it must not go on.
        reason = "rounds" if self._last_row is None else self._stopped_by(self._last_row) or "rounds"
        n_rounds = self._rules.n_rounds if reason == "rounds" else 0
        for round_index in range(self._next_round, n_rounds):
            row = self._record(run_round(self.federation, round_index, self._waiting))
            self._next_round = round_index + 1
            goes_on = watch(row)
            stopped_by = self._stopped_by(row)
            self._commit(is_due=not goes_on or stopped_by is not None)
            if stopped_by is not None:
                reason = stopped_by
                break
            if not goes_on:
                return None
        self._commit(is_due=True)
        return self.summary(reason)

    def summary(self, stopped_by: str) -> dict[str, Json]:
        """Return the figures of the run so far, from its logs."""
        logs = self._folder.logs
        figures = run_summary(list(logs.lines(ROUNDS)), logs.lines(EVENTS), gap=self._rules.gap)
        return {"method": self._method_name, "stopped_by": stopped_by, **figures}

    def checkpoint(self) -> RunCheckpoint:
        """Return the run after its last round."""
        clients, method = self.federation.clients, self.federation.method
        values, arrays = method.snapshot()
        return RunCheckpoint(
            round_index=self._next_round - 1,
            time_s=clients.now_s,
            method=self._method_name,
            layout=self._layout,
            models=method.models,
            cluster_ids=cluster_ids(method),
            client_ids=clients.client_ids,
            membership=method.membership(),
            values=values,
            arrays={
                **{f"{METHOD}{name}": array for name, array in arrays.items() if name != "models"},
                **{f"{LEDGER}{name}": array for name, array in clients.ledger.arrays().items()},
                **{f"{DRIVER}{name}": array for name, array in clients.snapshot().items()},
                **{f"{SELECTION}{name}": array for name, array in self.federation.selection.arrays().items()},
            },
            progress={},
        )

    def _record(self, done: Done) -> Mapping[str, Json]:
        """Write down a round (stage 13)."""
        folder, federation = self._folder, self.federation
        row = round_row(federation, done, changes_of(federation.method, self._before, self._ids))
        if len(done.reports.client_ids) and federation.keeps_reports:
            folder.write_reports(done.reports, done.round_index)
        lines = {
            ROUNDS: row,
            EVENTS: event_row(federation.method, done),
            MEMBERSHIPS: membership_row(federation, self._before, done.round_index),
            CONCEPTS: concept_row(federation, self._concepts, done.round_index),
            CLIENTS: client_row(federation, done.scores, done.round_index) if done.scores else None,
            TIMINGS: timing_record(done),
        }
        for name, line in lines.items():
            if line is not None:
                folder.logs.append(name, line)
        if lines[MEMBERSHIPS] is not None:
            self._before = stable_membership(federation.method)
        self._concepts = federation.clients.concepts()
        self._ids = cluster_ids(federation.method)
        self._waiting, self._uncommitted = done.waiting, True
        return row

    def _stopped_by(self, row: Mapping[str, Json]) -> str | None:
        accuracy, time_s = row.get("accuracy"), row["time_s"]
        target, latest = self._rules.stop_at_accuracy, self._rules.stop_at_time_s
        if target is not None and isinstance(accuracy, float) and accuracy >= target:
            return "accuracy"
        return "time" if latest is not None and isinstance(time_s, float) and time_s >= latest else None

    def _commit(self, *, is_due: bool) -> None:
        """Write a checkpoint if it is asked for, or if it is time for one."""
        every, now = self._rules.checkpoint_every, time.monotonic()
        if every is not None:
            is_due = is_due or self._next_round % every == 0
        else:
            is_due = is_due or (now - self._committed_at) * MOST_COMMITTING >= self._commit_took
        if is_due and self._uncommitted:
            self._folder.commit(self.checkpoint())
            self._committed_at, self._uncommitted = time.monotonic(), False
            self._commit_took = self._committed_at - now


def under(prefix: str, arrays: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[np.generic]]:
    """Return the arrays whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
