"""A round: the order of its stages, when reports act, and when clients are tested."""

import numpy as np
import pytest

from fielding._typing import Membership, Models
from fielding.client.report import ReportBatch
from fielding.engine.round import Done, Federation, run_round, serving, timing_record
from tests.engine.stages import ROUND_S, NotingMethod, noting_federation


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

    stages = ["begin {0}", "charge {0}", "adapt {0}", "plan", "train", "learn", "test", "test elsewhere"]
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

    assert [one.round_index for one in done if one.scores is not None] == tested


def test_the_round_that_reaches_the_last_moment_is_tested() -> None:
    federation = noting_federation([], evaluate_every=100, stop_at_time_s=3 * ROUND_S)

    done = rounds_of(federation, 3)

    assert [one.round_index for one in done if one.scores is not None] == [0, 2]


def test_every_stage_is_timed() -> None:
    record = timing_record(rounds_of(noting_federation([]), 1)[0])

    assert record["round"] == 0
    assert {"observe", "adapt", "select", "train", "learn", "evaluate"} <= record.keys()


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
