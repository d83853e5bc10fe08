"""What a round is written down as: who moved, who is missing, who failed."""

from dataclasses import replace

import numpy as np
import pytest

from fielding._typing import Codes, Membership
from fielding.coordinator.decision import Decision
from fielding.engine.round import Done, Federation, run_round
from fielding.engine.runner import (
    changes_of,
    client_row,
    concept_row,
    event_row,
    membership_row,
    round_row,
    stable_membership,
)
from fielding.federation.evaluation import NO_SCORES, ClientScores
from tests.engine.stages import NotingClients, NotingMethod, noting_federation

NOTHING_CHANGED = (0, False)


class Grouped(NotingMethod):
    """A method with these clusters."""

    def __init__(self, membership: list[int], ids: tuple[int, ...]) -> None:
        super().__init__([])
        self.models = np.zeros((len(ids), 2), dtype=np.float32)
        self._membership, self._ids = np.array(membership, dtype=np.int32), ids

    def membership(self) -> Membership:
        return self._membership

    def cluster_ids(self) -> tuple[int, ...]:
        return self._ids


def changed(before: tuple[list[int], tuple[int, ...]], after: tuple[list[int], tuple[int, ...]]) -> tuple[int, bool]:
    """Return how many moved, and whether clusters came or went; both sides as rows and the ids of rows."""
    old = Grouped(*before)
    return changes_of(Grouped(*after), stable_membership(old), old.cluster_ids())


def test_at_the_start_nothing_has_changed() -> None:
    method = Grouped([0, 1], (0, 1))

    assert changes_of(method, None, None) == NOTHING_CHANGED
    assert changes_of(method, np.array([0, 0], dtype=np.int32), None) == NOTHING_CHANGED


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (([0, 0, 1], (7, 8)), ([0, 0, 1], (7, 8)), (0, False)),
        (([0, 0, 1], (7, 8)), ([1, 0, 0], (7, 8)), (2, False)),
        # The same clusters in other rows.
        (([0, 0, 1], (7, 8)), ([1, 1, 0], (8, 7)), (0, False)),
        # A split: two of cluster 7 are in 9 now, and one went over to 8.
        (([0, 0, 0, 0, 1], (7, 8)), ([0, 2, 2, 1, 1], (7, 8, 9)), (1, True)),
        # A merger: all of 8 are in 7 now.
        (([0, 1, 1], (7, 8)), ([0, 0, 0], (7,)), (0, True)),
        # Everything anew.
        (([0, 1, 1], (7, 8)), ([0, 0, 1], (9, 10)), (0, True)),
        # Joining and leaving are no moves.
        (([0, -1, 1], (7, 8)), ([0, 1, -1], (7, 8)), (0, False)),
        # Two more clients, of whom one has a cluster at once.
        (([0, 1], (7, 8)), ([1, 1, -1, 0], (7, 8)), (1, False)),
    ],
    ids=["nothing", "moves", "rows", "split", "merger", "anew", "joined", "more clients"],
)
def test_only_clients_that_went_between_lasting_clusters_moved(
    before: tuple[list[int], tuple[int, ...]], after: tuple[list[int], tuple[int, ...]], found: tuple[int, bool]
) -> None:
    assert changed(before, after) == found


def test_a_stable_membership_has_ids_for_rows_and_none_for_none() -> None:
    assert stable_membership(Grouped([1, 0, -1], (5, 9))).tolist() == [9, 5, -1]


# ---- the line of a round ---------------------------------------------------------------------------------------


def done_round(**updates: object) -> tuple[Federation, Done]:
    federation = noting_federation([])
    done = run_round(federation, 0)
    return federation, replace(done, updates=replace(done.updates, **updates))  # type: ignore[arg-type]


def test_whoever_sent_no_model_is_counted_and_named() -> None:
    federation, done = done_round(missing={"straggler": [0, 0], "offline": [], "failed": [0]})

    row = round_row(federation, done)

    assert (row["n_straggler"], row["n_offline"], row["n_failed"]) == (2, 0, 1)
    assert row["failed"] == ["only"], "by its id"


def test_if_nobody_failed_nobody_is_named() -> None:
    federation, done = done_round(missing={"straggler": [], "offline": [], "refused": [0], "failed": []})

    row = round_row(federation, done)

    assert "failed" not in row
    assert (row["n_failed"], row["n_refused"]) == (0, 1)


def test_the_loss_is_the_mean_of_the_answers_and_none_without() -> None:
    federation, done = done_round(loss=np.array([1.0, 4.0]))
    nobody = done_round()

    assert round_row(federation, done)["train_loss"] == 2.5
    assert round_row(*nobody)["train_loss"] is None


@pytest.mark.parametrize("losses", [[1.7e308, 1.7e308], [np.inf, 1.0], [np.inf, -np.inf]])
def test_a_mean_loss_that_is_not_finite_is_none(losses: list[float]) -> None:
    federation, done = done_round(loss=np.array(losses))

    assert round_row(federation, done)["train_loss"] is None


@pytest.mark.parametrize(
    ("decision", "found"),
    [
        (None, (3, True, 1)),
        (Decision(step=0, moved=["a"], reclustered=False, n_live=4, mixing=np.eye(1)), (1, False, 4)),
    ],
)
def test_what_a_coordinator_decided_counts_and_else_what_is_seen_from_outside(
    decision: Decision | None, found: tuple[int, bool, int]
) -> None:
    federation, done = done_round()

    row = round_row(federation, replace(done, decision=decision), (3, True))

    assert (row["n_moved"], row["reclustered"], row["n_clusters"]) == found


def test_there_is_an_event_only_where_somebody_reported_to_a_coordinator() -> None:
    federation, done = done_round()
    silent = Decision(step=0, mixing=np.eye(1))
    told = Decision(step=0, reported=["a", "b"], threshold=np.inf, cluster_ids=(4,), n_live=1, mixing=np.eye(1))

    assert event_row(federation.method, done) is None
    assert event_row(federation.method, replace(done, decision=silent)) is None
    row = event_row(federation.method, replace(done, decision=told))
    assert row is not None
    assert (row["reported"], row["threshold"], row["cluster_ids"]) == (["a", "b"], None, [4])


def test_memberships_are_written_down_only_when_they_change() -> None:
    federation = noting_federation([])
    now = stable_membership(federation.method)

    assert membership_row(federation, None, 3) == {"round": 3, "changed": [["only", 0]]}
    assert membership_row(federation, now, 4) is None
    assert membership_row(federation, now + 1, 5) == {"round": 5, "changed": [["only", 0]]}


class Knowing(NotingClients):
    """Clients whose true concepts are known, and who note by which clusters their heterogeneity was asked for."""

    def __init__(self, concepts: list[int]) -> None:
        super().__init__([])
        self.now = np.array(concepts, dtype=np.int32)
        self.asked: list[list[int]] = []

    @property
    def client_ids(self) -> tuple[str, ...]:
        return tuple("abcd"[: self.now.size])

    def concepts(self) -> Codes | None:
        return self.now

    def heterogeneity(self, membership: Membership) -> float | None:
        self.asked.append(membership.tolist())
        return 1 / 3 if len(set(membership.tolist()) - {-1}) > 1 else 0.5


def test_concepts_are_written_down_only_when_they_change() -> None:
    federation = replace(noting_federation([]), clients=Knowing([4, -1, 2]))

    assert concept_row(federation, None, 0) == {"round": 0, "changed": [["a", 4], ["b", -1], ["c", 2]]}
    assert concept_row(federation, np.array([4, -1, 2], dtype=np.int32), 1) is None
    assert concept_row(federation, np.array([4, 0, 2], dtype=np.int32), 2) == {"round": 2, "changed": [["b", -1]]}


@pytest.mark.parametrize("concepts", [[4, -1, 2], [4, -1, -1]])
def test_a_client_that_joined_is_written_down_whatever_it_has(concepts: list[int]) -> None:
    federation = replace(noting_federation([]), clients=Knowing(concepts))

    row = concept_row(federation, np.array([4, -1], dtype=np.int32), 5)

    assert row == {"round": 5, "changed": [["c", concepts[2]]]}


def test_where_nobody_knows_the_concepts_nothing_is_written_down() -> None:
    assert concept_row(noting_federation([]), None, 0) is None


@pytest.mark.parametrize(
    ("membership", "asked", "found"),
    [
        ([0, 2, -1, 1], [[0, 2, -1, 1], [0, 0, -1, 0]], (0.333333, 0.5)),
        ([1, 1, -1, 1], [[1, 1, -1, 1]], (0.5, 0.5)),
    ],
    ids=["several clusters", "one cluster"],
)
def test_heterogeneity_is_also_measured_as_if_all_were_in_one_cluster(
    membership: list[int], asked: list[list[int]], found: tuple[float, float]
) -> None:
    clients = Knowing([0, 0, 0, 0])
    federation = replace(noting_federation([]), clients=clients, method=Grouped(membership, (5, 6, 7)))

    row = round_row(federation, replace(done_round()[1], scores={"window": right(2)}))

    assert (row["measured_heterogeneity"], row["unclustered_heterogeneity"]) == found
    assert clients.asked == asked


# ---- what clients did to their models --------------------------------------------------------------------------


def right(n_right: int, **also: ClientScores) -> ClientScores:
    """Return the scores of one client with ten test samples."""
    return ClientScores(
        clients=np.array([0]), n_test=np.array([10]), correct=np.array([n_right]), loss=np.array([1.0]), also=also
    )


def test_corrected_and_tuned_scores_stand_beside_plain_ones() -> None:
    federation, done = done_round()
    scores = {
        "window": right(2, corrected=right(5), tuned=right(9)),
        "newest": right(1, corrected=right(4)),
        "next": right(3, tuned=right(6)),
    }

    row = round_row(federation, replace(done, scores=scores))

    assert (row["accuracy"], row["corrected_accuracy"], row["tuned_accuracy"]) == (0.2, 0.5, 0.9)
    assert (row["newest_accuracy"], row["corrected_newest_accuracy"]) == (0.1, 0.4)
    assert (row["next_accuracy"], row["tuned_next_accuracy"]) == (0.3, 0.6)
    assert (row["prequential_accuracy"], row["tuned_prequential_accuracy"]) == (0.3, 0.6), "the old names"
    assert (row["corrected_worst_decile"], row["corrected_test_loss"]) == (0.5, 1.0)
    plain = round_row(federation, done)
    assert not [name for name in plain if name.startswith(("corrected", "tuned"))]


def test_every_client_has_its_count_of_right_ones() -> None:
    federation, _ = done_round()

    assert client_row(federation, {"window": right(2, corrected=right(5))}, 0)["corrected"] == [5]
    assert "corrected" not in client_row(federation, {"window": right(2)}, 0)


def test_clients_that_are_tested_on_what_comes_next_alone_have_no_samples_in_the_window() -> None:
    federation, _ = done_round()
    row = client_row(federation, {"window": NO_SCORES, "next": right(3, corrected=right(4))}, 0)

    assert (row["client"], row["n_test"], row["correct"], row["loss"]) == (["only"], [0], [0], [None])
    assert (row["next_n_test"], row["next_correct"], row["next_corrected"]) == ([10], [3], [4])
