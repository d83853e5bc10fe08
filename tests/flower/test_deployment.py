"""A real federation from end to end: TLS, keys, drift, a joiner, a killed node, a node that sends NaN, a stranger."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Json
from fielding.flower.deploy import reaper
from fielding.flower.deploy.federation import LocalFederation
from fielding.flower.deploy.flower_program import RunState
from fielding.flower.deploy.processes import ProcessError
from fielding.records.run_checkpoint import LEDGER, RunCheckpoint, load_run
from fielding.records.run_folder import CLIENTS, EVENTS, ROUNDS, SUMMARY, TIMINGS, newest_checkpoint, read_manifest
from fielding.reporting.numbers.run_record import read_run
from tests.cli.in_process import Command
from tests.flower.device_wire import lines
from tests.flower.real_runs import APP, ended, here, n_rounds, needs_flwr, scripted_federation, wait_until

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "flower"
N_ROUNDS, DEADLINE_S = 5, 30.0
MOVER, KILLED, HEALTHY, BROKEN, JOINER, STRANGER = range(6)
N_NODES, DRIFTS_IN, ACTS_IN, KILLED_IN, JOINS_IN = 4, 3, 4, 1, 2
SCRIPT = f"0:AABBA {DRIFTS_IN}:CABBC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What a real run left: its folder, who its clients were, and what Flower says."""

    out: Path
    ids: dict[int, str]
    state: RunState
    log: list[str]
    refusal: str
    rounds_at_join: int
    pages: dict[str, bytes]
    left_running: list[int]

    def rows(self, name: str) -> list[dict[str, Json]]:
        """Return the lines of a log."""
        return lines(self.out, name)

    def events(self) -> dict[Json, dict[str, Json]]:
        """Return what the coordinator did, by round."""
        return {row["round"]: row for row in self.rows(EVENTS)}

    def end(self) -> RunCheckpoint:
        """Return the run after its last round."""
        return load_run(newest_checkpoint(self.out))

    def cluster_of(self, node: int) -> int:
        """Return the stable id of the cluster in which a node ended."""
        end = self.end()
        return end.cluster_ids[int(end.membership[end.client_ids.index(self.ids[node])])]


def happened(folder: Path) -> Story:
    """Run a federation in which everything happens that may happen.

    Round 1: a node gets stuck and is killed; while the others wait for it, a stranger is refused and a new node joins.
    Round 3: the samples of two nodes change. One node sends NaN all the time.
    """
    from tests.watch.serving import serving

    out, place = folder / "run", folder / "federation"
    federation = scripted_federation(place, N_NODES, script=SCRIPT, broken=BROKEN, hangs=f"{KILLED}@{KILLED_IN}")
    with serving([out]) as page, federation:
        run_id = federation.run_app(APP, {"out": str(out), "rounds": N_ROUNDS, "deadline": DEADLINE_S})
        wait_until((place / "hanging").exists, f"node {KILLED} in round {KILLED_IN}")
        federation.kill_node(KILLED)
        assert federation.add_node() == JOINER
        joined_in = n_rounds(out)
        with pytest.raises(ProcessError) as refused:
            federation.add_node(is_registered=False)
        pages = {"during": page.ask("/record").body}
        state = ended(federation, run_id, out)
        log = federation.log_lines(run_id)
        assert state.is_completed, "\n".join(log[-20:])
        pages |= {"after": page.ask("/record").body}
    return Story(
        out=out,
        ids=federation.client_ids,
        state=state,
        log=log,
        refusal=str(refused.value),
        rounds_at_join=joined_in,
        pages=pages,
        left_running=reaper.marked_processes(federation.supervisor.mark),
    )


def every_round_is_there_once_and_the_run_is_complete(story: Story) -> None:
    assert [row["round"] for row in story.rows(ROUNDS)] == list(range(N_ROUNDS))
    assert read_manifest(story.out)["engine"] == "flower"
    summary = read_run(story.out)
    assert summary.problems == ()
    assert (story.out / SUMMARY).exists()
    assert story.state.bytes_to_nodes > 0


def drift_makes_a_new_cluster_and_it_is_not_the_first_clustering(story: Story) -> None:
    first, drift = story.events()[0], story.events()[ACTS_IN]

    assert (first["started"], first["n_clusters"]) == (True, 2)
    assert [at for at, event in story.events().items() if event["fired"]] == [ACTS_IN]
    assert drift["started"] is False
    assert sorted(map(str, _list(drift["reported"]))) == sorted([story.ids[MOVER], story.ids[JOINER]])
    assert float(str(drift["shift"])) > float(str(drift["threshold"]))
    assert drift["n_clusters"] == 3
    assert story.rows(ROUNDS)[ACTS_IN]["reclustered"] is True
    assert story.cluster_of(MOVER) == story.cluster_of(JOINER)
    assert len({story.cluster_of(node) for node in (MOVER, KILLED, HEALTHY)}) == 3


def a_node_that_joins_gets_a_cluster_and_trains(story: Story) -> None:
    ids = story.end().client_ids

    assert story.rounds_at_join == KILLED_IN
    assert ids.index(story.ids[JOINER]) == N_NODES
    assert story.events()[JOINS_IN + 1]["joined"] == [story.ids[JOINER]]
    assert [row["n_participants"] for row in story.rows(ROUNDS)] == [3, 2, 2, 3, 3]
    assert story.end().arrays[f"{LEDGER}model.up_bytes"][N_NODES] > 0


def a_killed_node_costs_one_round_of_waiting_and_its_absence_has_a_reason(story: Story) -> None:
    absent = [int(str(row["n_straggler"])) + int(str(row["n_offline"])) for row in story.rows(ROUNDS)]
    waited = [row["round"] for row in story.rows(TIMINGS) if float(str(row["steps"])) >= DEADLINE_S]

    assert absent == [0, 1, 0, 0, 0]
    assert waited == [KILLED_IN]
    assert any(story.ids[KILLED][:50] in line and "train: " in line for line in story.log)


def a_node_that_sends_nan_is_refused_by_name_and_its_cluster_goes_on(story: Story) -> None:
    last = story.rows(CLIENTS)[-1]
    right = dict(zip(_list(last["client"]), _list(last["correct"]), strict=True))

    failed = {row["round"]: row["failed"] for row in story.rows(ROUNDS) if "failed" in row}
    assert failed == {at: [story.ids[BROKEN]] for at in (0, 2)}  # in between, and then, it is left alone
    assert all(row["n_failing"] == 1 for row in story.rows(ROUNDS))
    assert np.isfinite(story.end().models).all()
    assert story.cluster_of(BROKEN) == story.cluster_of(HEALTHY)
    assert right[story.ids[HEALTHY]] == 10
    assert float(str(story.rows(ROUNDS)[-1]["accuracy"])) > float(str(story.rows(ROUNDS)[0]["accuracy"]))


def a_node_whose_key_is_not_registered_gets_nothing(story: Story) -> None:
    assert story.refusal.startswith(f"node-{STRANGER} was refused by the SuperLink")
    assert story.ids[STRANGER] not in story.end().client_ids
    traces = [path.name for path in story.out.rglob("*") if path.is_file() and _names(path, story.ids[STRANGER])]
    assert traces == []


def the_log_of_flower_shows_how_it_went(story: Story) -> None:
    said = "\n".join(story.log)

    assert "fielding: round 0: n_clusters=2 n_reports=4" in said
    assert f"fielding: round {ACTS_IN}: n_clusters=3 n_reports=2 " in said
    assert said.count("reclustered=True") == 1
    assert "accuracy=" in said
    assert "fielding: complete; final accuracy" in said
    assert "Traceback" not in said


def the_run_can_be_watched(story: Story) -> None:
    assert b"What the run gave" in story.pages["during"]
    assert b"What the run gave" in story.pages["after"]
    assert story.pages["during"] != story.pages["after"]


def nothing_is_left_running(story: Story) -> None:
    assert story.left_running == []


def _list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value


def _names(path: Path, client_id: str) -> bool:
    return client_id.encode() in path.read_bytes() or bytes.fromhex(client_id) in path.read_bytes()


CHECKS: tuple[Callable[[Story], None], ...] = (
    every_round_is_there_once_and_the_run_is_complete,
    drift_makes_a_new_cluster_and_it_is_not_the_first_clustering,
    a_node_that_joins_gets_a_cluster_and_trains,
    a_killed_node_costs_one_round_of_waiting_and_its_absence_has_a_reason,
    a_node_that_sends_nan_is_refused_by_name_and_its_cluster_goes_on,
    a_node_whose_key_is_not_registered_gets_nothing,
    the_log_of_flower_shows_how_it_went,
    the_run_can_be_watched,
    nothing_is_left_running,
)


@needs_flwr
def test_a_real_federation_lives_through_drift_a_joiner_a_kill_nan_and_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("starlette", reason="the extra watch is not installed")
    story = happened(tmp_path)

    for check in CHECKS:
        check(story)
    assert Command(monkeypatch, capsys)("report", story.out, "--out", tmp_path / "page.html") == 0
    assert "<html" in (tmp_path / "page.html").read_text()


@pytest.mark.slow
@needs_flwr
def test_the_example_trains_in_clusters_on_real_nodes_and_a_node_that_moves_changes_its_cluster(tmp_path: Path) -> None:
    out, rounds_wanted, mover, acts_in = tmp_path / "run", 6, 3, 4
    with LocalFederation(tmp_path / "federation", N_NODES, environment=here()) as federation:
        run_id = federation.run_app(EXAMPLE, {"out": str(out), "rounds": rounds_wanted})
        state, log = ended(federation, run_id, out), federation.log_lines(run_id)
        assert state.is_completed, "\n".join(log[-20:])

    rounds, events = lines(out, ROUNDS), lines(out, EVENTS)
    assert [row["n_participants"] for row in rounds] == [N_NODES] * rounds_wanted
    assert {row["n_clusters"] for row in rounds} == {2}
    assert {line["round"]: line["moved"] for line in events if line["moved"]} == {
        acts_in: [federation.client_ids[mover]]
    }
    assert float(str(rounds[-1]["accuracy"])) > float(str(rounds[0]["accuracy"]))
    assert read_run(out).problems == ()
