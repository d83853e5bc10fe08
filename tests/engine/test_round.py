"""A round: the order of its stages, when reports act, and when clients are tested."""

import time
from dataclasses import replace
from itertools import count
from typing import cast

import numpy as np
import pytest

from fielding._typing import ClientId, Counts, Floats, Membership, Models
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.engine.round import Done, Federation, run_round, serving, timing_record
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.selection import Feedback, Selection
from fielding.federation.selection.oort import Oort
from tests.engine.stages import ROUND_S, NotingClients, NotingMethod, noting_federation


def rounds_of(federation: Federation, n_rounds: int) -> list[Done]:
    """Return what happens in the first rounds."""
    waiting: ReportBatch | None = None
    done: list[Done] = []
    for at in range(n_rounds):
        done.append(run_round(federation, at, waiting))
        waiting = done[-1].waiting
    return done


def names(reports: ReportBatch | None) -> list[str]:
    return [] if reports is None else [str(name) for name in reports.client_ids]


def test_the_stages_come_in_their_order() -> None:
    notes: list[str] = []

    rounds_of(noting_federation(notes, evaluate_every=2), 2)

    stages = ["begin {0}", "charge {0}", "adapt {0}", "plan", "train", "learn", "test"]
    assert notes == [stage.format(at) for at in range(2) for stage in stages]


def test_reports_before_the_round_act_at_once() -> None:
    notes: list[str] = []

    done = rounds_of(noting_federation(notes), 3)

    assert [note for note in notes if note.startswith("adapt")] == ["adapt 0", "adapt 1", "adapt 2"]
    assert [names(one.reports) for one in done] == [["0"], ["1"], ["2"]]
    assert [names(one.waiting) for one in done] == [[], [], []]


def test_reports_with_training_act_a_round_later_but_those_of_the_start_at_once() -> None:
    notes: list[str] = []

    done = rounds_of(noting_federation(notes, is_delayed=True), 4)

    assert [note for note in notes if note.startswith("adapt")] == ["adapt 0", "adapt nothing", "adapt 1", "adapt 2"]
    assert [names(one.reports) for one in done] == [["0"], [], ["1"], ["2"]]
    assert [names(one.waiting) for one in done] == [[], ["1"], ["2"], ["3"]]
    charged = [note for note in notes if note.startswith("charge")]
    assert charged == ["charge 0", "charge 1", "charge 2", "charge 3"], "reports are paid when they are sent"


def test_whoever_reports_first_is_heard_at_once_also_if_that_is_late() -> None:
    federation = noting_federation([], is_delayed=True)

    early = run_round(federation, 0, None)
    late = run_round(federation, 1, None)

    assert names(early.reports) == ["0"]
    assert early.waiting is not None
    assert names(late.reports) == ["1"]


@pytest.mark.parametrize(
    ("every", "n_rounds", "tested"),
    [(5, 12, [0, 4, 9, 11]), (1, 3, [0, 1, 2]), (4, 8, [0, 3, 7]), (100, 6, [0, 5]), (3, 1, [0])],
)
def test_clients_are_tested_first_last_and_every_so_often(every: int, n_rounds: int, tested: list[int]) -> None:
    done = rounds_of(noting_federation([], evaluate_every=every, n_rounds=n_rounds), n_rounds)

    assert [one.round_index for one in done if one.scores] == tested


def test_the_round_that_reaches_the_last_moment_is_tested() -> None:
    federation = noting_federation([], evaluate_every=100, stop_at_time_s=3 * ROUND_S)

    done = rounds_of(federation, 3)

    assert [one.round_index for one in done if one.scores] == [0, 2]


def test_every_stage_is_timed() -> None:
    record = timing_record(rounds_of(noting_federation([]), 1)[0])

    assert record["round"] == 0
    assert {"observe", "adapt", "select", "train", "learn", "evaluate", "whole"} <= record.keys()
    assert "peak_bytes" in record


def test_a_stage_that_comes_twice_is_timed_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Telling(NotingClients):
        """Participants send something with their models, so that the method decides a second time."""

        def collect(self, clients: Counts) -> ReportBatch:  # noqa: ARG002
            return self.begin(self.round_index)

    ticks = count()
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))

    seconds = run_round(replace(noting_federation([]), clients=Telling([])), 0).seconds

    # Each look at the clock is one second after the last: seven stages take one each, the whole all sixteen looks.
    assert (seconds["observe"], seconds["adapt"], seconds["learn"], seconds["whole"]) == (1.0, 2.0, 1.0, 15.0)


class Clustered(NotingMethod):
    """Two clusters of two clients and one; a fourth client has none."""

    def __init__(self) -> None:
        super().__init__([])
        self.models: Models = np.array([[0.0, 0.0], [3.0, 6.0]], dtype=np.float32)

    def membership(self) -> Membership:
        return np.array([0, 1, -1, 0], dtype=np.int32)


def test_whoever_has_no_cluster_is_served_by_the_mean_by_members() -> None:
    models, row = serving(Clustered())

    assert row.tolist() == [0, 1, 2, 0]
    assert models.tolist() == [[0.0, 0.0], [3.0, 6.0], [1.0, 2.0]]


class Listener:
    """A selection that notes what it is told."""

    def __init__(self, *, looks_at_members: bool) -> None:
        self.looks_at_members = looks_at_members
        self.heard: list[tuple[list[int], list[list[float]], list[int] | None]] = []
        self.failed: list[list[int]] = []

    def note_reports(self, clients: Counts, representations: Floats, *, n_samples: Counts | None = None) -> None:
        told = None if n_samples is None else n_samples.tolist()
        self.heard.append((clients.tolist(), representations.tolist(), told))

    def feedback(self, feedback: Feedback) -> None:
        self.failed.append(feedback.failed.tolist())


class TellingClients(NotingClients):
    """Three clients; who is which is known by name. In round 1 nobody reports, and client c fails."""

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        return ("a", "b", "c")

    def begin(self, round_index: int) -> ReportBatch:
        super().begin(round_index)
        if round_index:
            return NO_REPORTS
        shares = np.array([[1.0, 0.0], [0.5, 0.5]], dtype=np.float32)
        return ReportBatch(client_ids=["c", "a"], representations=shares, n_samples=np.array([30, 10]))

    def train(self, plan: TrainingPlan) -> Updates:
        return replace(super().train(plan), missing={"failed": [2] if self.round_index else []})


def listening(*, looks_at_members: bool) -> Listener:
    listener = Listener(looks_at_members=looks_at_members)
    federation = replace(noting_federation([]), clients=TellingClients([]), selection=cast(Selection, listener))
    rounds_of(federation, 2)
    return listener


def test_the_selection_hears_who_reported_what_of_how_many_samples() -> None:
    assert listening(looks_at_members=True).heard == [([2, 0], [[1.0, 0.0], [0.5, 0.5]], [30, 10])]


def test_oort_knows_the_samples_of_who_reported() -> None:
    selection = Selection(Oort(), 3)

    rounds_of(replace(noting_federation([]), clients=TellingClients([]), selection=selection), 1)

    told = selection.arrays()["client/n_samples"]
    assert told[[0, 2]].tolist() == [10.0, 30.0]
    assert np.isnan(told[1])


def test_a_selection_that_looks_at_nobody_hears_nothing() -> None:
    assert listening(looks_at_members=False).heard == []


def test_the_selection_is_told_who_sent_no_model() -> None:
    assert listening(looks_at_members=False).failed == [[], [2]]
