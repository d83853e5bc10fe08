"""Round after round: when a run stops, what it commits, and where it goes on."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fielding._typing import Codes, Json
from fielding.client.report import NO_REPORTS, ReportBatch
from fielding.engine.round import Done, Federation, run_round
from fielding.engine.runner import Rules, Runner, Watch
from fielding.errors import CheckpointError
from fielding.records.run_checkpoint import RunCheckpoint
from fielding.records.run_folder import CONCEPTS, ROUNDS, RunFolder
from fielding.training.layout import Layout
from tests.engine.stages import ROUND_S, NotingClients, noting_federation

LAYOUT = Layout(names=("weight",), shapes=((2,),), n_parameters=1)
N_ROUNDS = 12


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with closing(RunFolder(tmp_path / "run", {"seed": 1})) as opened:
        yield opened


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the rounds in which a checkpoint is written, as they come."""
    rounds: list[int] = []
    real = RunFolder.commit

    def commit(folder: RunFolder, checkpoint: RunCheckpoint) -> None:
        real(folder, checkpoint)
        rounds.append(checkpoint.round_index)

    monkeypatch.setattr(RunFolder, "commit", commit)
    return rounds


def runner_of(folder: RunFolder, federation: Federation, rules: Rules) -> Runner:
    return Runner(federation, folder, layout=LAYOUT, method_name="noting", rules=rules)


def run(
    folder: RunFolder,
    rules: Rules,
    *,
    accuracy: Mapping[int, float] | None = None,
    last: int | None = None,
    stop_at_time_s: float | None = None,
) -> dict[str, Json] | None:
    """Run into a fresh folder; the watch says stop after round ``last``."""
    federation = noting_federation([], accuracy=accuracy, n_rounds=N_ROUNDS, stop_at_time_s=stop_at_time_s)
    folder.begin("")
    return runner_of(folder, federation, rules).run(watch_until(last))


def watch_until(last: int | None) -> Watch:
    return lambda row: row["round"] != last


def rounds_in(folder: RunFolder) -> list[dict[str, Json]]:
    return list(folder.logs.lines(ROUNDS))


def stopped_by(summary: dict[str, Json] | None) -> Json:
    assert summary is not None
    return summary["stopped_by"]


def test_without_a_rule_a_run_ends_with_its_last_round(folder: RunFolder) -> None:
    summary = run(folder, Rules())

    assert stopped_by(summary) == "rounds"
    assert [row["round"] for row in rounds_in(folder)] == list(range(N_ROUNDS))


def test_the_first_evaluation_that_reaches_the_accuracy_is_the_last(folder: RunFolder) -> None:
    # Rounds 0, 4, 9 and 11 are evaluated; 2 is not, and 4 falls just short.
    summary = run(folder, Rules(stop_at_accuracy=0.5), accuracy={2: 0.9, 4: 0.49, 9: 0.5, 11: 0.9})

    assert stopped_by(summary) == "accuracy"
    assert len(rounds_in(folder)) == 10


@pytest.mark.parametrize(("latest", "n_rounds"), [(3 * ROUND_S, 3), (3 * ROUND_S + 1.0, 4), (0.5, 1)])
def test_the_round_that_reaches_the_time_is_the_last_and_is_evaluated(
    folder: RunFolder, latest: float, n_rounds: int
) -> None:
    summary = run(folder, Rules(), stop_at_time_s=latest, accuracy={2: 0.7, 3: 0.7, 0: 0.7})

    assert stopped_by(summary) == "time"
    rows = rounds_in(folder)
    assert len(rows) == n_rounds
    assert rows[-1]["accuracy"] == 0.7


def test_accuracy_counts_before_time(folder: RunFolder) -> None:
    rules = Rules(stop_at_accuracy=0.5)

    assert stopped_by(run(folder, rules, stop_at_time_s=ROUND_S, accuracy={0: 0.6})) == "accuracy"


def test_a_run_that_is_told_to_stop_commits_and_has_no_summary(folder: RunFolder, committed: list[int]) -> None:
    summary = run(folder, Rules(checkpoint_every=100), last=6)

    assert summary is None
    assert len(rounds_in(folder)) == 7
    assert committed == [6]


@pytest.mark.parametrize(
    ("every", "expected"), [(1, list(range(N_ROUNDS))), (5, [4, 9, 11]), (4, [3, 7, 11]), (100, [11])]
)
def test_every_so_many_rounds_are_committed_and_the_last(
    folder: RunFolder, committed: list[int], every: int, expected: list[int]
) -> None:
    run(folder, Rules(checkpoint_every=every))

    assert committed == expected


def test_the_round_in_which_a_rule_stops_is_committed(folder: RunFolder, committed: list[int]) -> None:
    run(folder, Rules(checkpoint_every=100), stop_at_time_s=3 * ROUND_S)

    assert committed == [2]


def tell_time(monkeypatch: pytest.MonkeyPatch, *, commit_s: float) -> None:
    """Let wall-clock time pass only in rounds, a second each, and in commits."""
    now = [0.0]
    real = RunFolder.commit

    def timed_round(federation: Federation, round_index: int, waiting: ReportBatch) -> Done:
        now[0] += 1.0
        return run_round(federation, round_index, waiting)

    def timed_commit(folder: RunFolder, checkpoint: RunCheckpoint) -> None:
        now[0] += commit_s
        real(folder, checkpoint)

    monkeypatch.setattr("fielding.engine.runner.run_round", timed_round)
    monkeypatch.setattr("fielding.engine.runner.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(RunFolder, "commit", timed_commit)


def test_by_default_commits_take_a_fiftieth_of_the_time(
    folder: RunFolder, committed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_time(monkeypatch, commit_s=0.05)

    run(folder, Rules())

    # The first round is committed to learn what that takes; 0.05 s are a fiftieth of 2.5 s, so of three rounds.
    assert committed == [0, 3, 6, 9, 11]


def test_by_default_a_run_is_committed_at_least_at_its_end(
    folder: RunFolder, committed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_time(monkeypatch, commit_s=1e6)

    run(folder, Rules())

    assert committed == [0, N_ROUNDS - 1]


@pytest.mark.parametrize("is_delayed", [False, True])
def test_a_resumed_run_goes_on_after_its_checkpoint_with_the_reports_that_waited(
    tmp_path: Path, is_delayed: bool
) -> None:
    rules = Rules(checkpoint_every=5)
    notes: list[list[str]] = [[], []]
    for at, stop in enumerate((None, 6)):
        folder = RunFolder(tmp_path / str(at), {"seed": 1})
        with closing(folder):
            folder.begin("")
            federation = noting_federation(notes[at], is_delayed=is_delayed)
            runner_of(folder, federation, rules).run(watch_until(stop))
    again: list[str] = []
    federation = noting_federation(again, is_delayed=is_delayed)
    with closing(RunFolder(tmp_path / "1", {"seed": 1})) as folder:
        summary = resumed(folder, federation, rules).run()

    assert stopped_by(summary) == "rounds"
    assert again[0] == "begin 6", "the round that was done last is only looked at"
    assert notes[1] + again[1:] == notes[0]
    assert federation.method.models.tolist() == [[12.0, 12.0]]


class SwappingClients(NotingClients):
    """One client whose concept is another one every third round."""

    def concepts(self) -> Codes | None:
        return np.array([self.round_index // 3], dtype=np.int32)


def concepts_at(folder: RunFolder) -> list[tuple[Json, Json]]:
    return [(line["round"], line["changed"]) for line in folder.logs.lines(CONCEPTS)]


@pytest.mark.parametrize("n_done", range(1, 8))
def test_concepts_are_written_down_alike_wherever_a_run_was_stopped(folder: RunFolder, n_done: int) -> None:
    rules = Rules()
    folder.begin("")
    runner_of(folder, swapping_federation(), rules).run(watch_until(n_done - 1))

    resumed(folder, swapping_federation(), rules).run()

    assert concepts_at(folder) == [(0, [["only", 0]]), (3, [["only", 1]]), (6, [["only", 2]])]


def test_a_log_of_concepts_that_begins_late_begins_with_all_of_them(folder: RunFolder) -> None:
    rules = Rules()
    folder.begin("")
    runner_of(folder, noting_federation([], n_rounds=8), rules).run(watch_until(4))

    resumed(folder, swapping_federation(), rules).run()

    assert concepts_at(folder) == [(5, [["only", 1]]), (6, [["only", 2]])]


def swapping_federation() -> Federation:
    return replace(noting_federation([], n_rounds=8), clients=SwappingClients([]))


class LateClients(NotingClients):
    """Clients that have nothing to tell before some round."""

    def __init__(self, notes: list[str], first: int) -> None:
        super().__init__(notes)
        self._first = first

    def begin(self, round_index: int) -> ReportBatch:
        reports = super().begin(round_index)
        return reports if round_index >= self._first else NO_REPORTS


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("n_done", [1, 2, 3, 4, 5])
def test_delayed_reports_that_begin_late_act_alike_wherever_a_run_was_stopped(
    tmp_path: Path, first: int, n_done: int
) -> None:
    rules = Rules(checkpoint_every=1)
    notes: list[list[str]] = [[], []]
    for at, last in enumerate((None, n_done - 1)):
        with closing(RunFolder(tmp_path / str(at), {"seed": 1})) as folder:
            folder.begin("")
            runner_of(folder, late_federation(notes[at], first), rules).run(watch_until(last))
    again: list[str] = []
    with closing(RunFolder(tmp_path / "1", {"seed": 1})) as folder:
        resumed(folder, late_federation(again, first), rules).run()

    heard = [[note for note in course if note.startswith("adapt")] for course in (notes[0], notes[1] + again)]
    told = ["adapt nothing"] * first + [f"adapt {first}", "adapt nothing"]
    assert heard[0] == [*told, *(f"adapt {at}" for at in range(first + 1, 7 - 1))]
    assert heard[1] == heard[0]


def late_federation(notes: list[str], first: int) -> Federation:
    return replace(noting_federation(notes, is_delayed=True, n_rounds=7), clients=LateClients(notes, first))


def resumed(folder: RunFolder, federation: Federation, rules: Rules) -> Runner:
    runner, found = runner_of(folder, federation, rules), folder.resume()
    assert found is not None
    runner.restore(found)
    return runner


def test_a_run_that_a_rule_stopped_does_not_go_on(folder: RunFolder) -> None:
    run(folder, Rules(), stop_at_time_s=3 * ROUND_S)
    notes: list[str] = []
    federation = noting_federation(notes, n_rounds=N_ROUNDS, stop_at_time_s=3 * ROUND_S)

    assert stopped_by(resumed(folder, federation, Rules()).run()) == "time"
    assert notes == ["begin 2"]
    assert len(rounds_in(folder)) == 3


def test_a_checkpoint_of_another_model_is_refused(folder: RunFolder) -> None:
    run(folder, Rules())
    other = Layout(names=("weight",), shapes=((3,),), n_parameters=1)
    runner = Runner(noting_federation([]), folder, layout=other, method_name="noting", rules=Rules())
    found = folder.resume()
    assert found is not None

    with pytest.raises(CheckpointError, match="models of another shape"):
        runner.restore(found)
