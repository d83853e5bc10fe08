"""Kill -9 of a real ServerApp, SuperLink or SuperNode at random moments: no committed round lost, nothing twice."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pytest

from fielding._typing import Json
from fielding.flower.deploy import reaper
from fielding.flower.deploy.federation import LocalFederation
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import EVENTS, MANIFEST, ROUNDS, newest_checkpoint
from tests.flower.device_wire import lines
from tests.flower.real_runs import (
    APP,
    Committed,
    committed,
    ended,
    n_rounds,
    needs_flwr,
    round_seconds,
    scripted_federation,
    wait_until,
)
from tests.flower.same_runs import assert_same_runs

pytest.importorskip("flwr", reason="flwr is not installed; run: pip install 'fielding[flower]'")

from tests.flower.scripted_runs import ScriptedWire, client_records, deployed, public_keys, run_config

Victim: TypeAlias = Literal["server", "link", "node"]
N_NODES, DRIFTER = 3, 0
SCRIPT = "0:AAB 2:CAB"
LEASE_S = 150.0


@dataclass(slots=True, kw_only=True)
class Crashing:
    """A run on a real federation whose parts are killed.

    Parameters
    ----------
    federation
        Where it runs.
    out
        The run folder.
    rounds
        Of the whole run.
    draw
        Which moments.
    """

    federation: LocalFederation
    out: Path
    rounds: int
    draw: random.Random
    run_ids: list[str] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str | int | float | bool]:
        """What the app is submitted with, every time."""
        return {"out": str(self.out), "rounds": self.rounds, "min-nodes": N_NODES}

    def submit(self) -> None:
        """Submit the app, for the first time or again."""
        self.run_ids.append(self.federation.run_app(APP, self.settings))

    def kill(self, victim: Victim, in_round: int) -> Committed:
        """Kill -9 at a random moment of a round, bring back what was killed, and return what was committed before."""
        wait_until(lambda: (self.out / MANIFEST).exists() and n_rounds(self.out) >= in_round, f"round {in_round}")
        time.sleep(self.draw.random() * round_seconds(self.out))
        before = committed(self.out)
        assert before.n_rounds < self.rounds, "it was over before it could be disturbed"
        if victim == "server":
            assert len(self.federation.kill_server_apps()) == 1
        elif victim == "link":
            self.federation.kill_link()
            self.federation.restart_link()
        else:
            node = self.draw.randrange(N_NODES)
            self.federation.kill_node(node)
            self.federation.restart_node(node, patience_s=LEASE_S)
        return before

    def end(self) -> None:
        """Wait until the run that was submitted last has come to its own end."""
        state = ended(self.federation, self.run_ids[-1], self.out)
        assert state.is_completed, "\n".join(self.federation.log_lines(self.run_ids[-1])[-30:])

    def reference(self, folder: Path) -> Path:
        """Run the same app in this process, with clients of the same ids and undisturbed; return its run folder."""
        config = run_config(rounds=self.rounds, min_nodes=N_NODES)
        wire = ScriptedWire(folder, public_keys(self.federation), config, {"script": SCRIPT})
        assert deployed(wire, config, folder / "out") is not None
        return folder / "out"


def crashing(federation: LocalFederation, out: Path, rounds: int, seed: int) -> Crashing:
    return Crashing(federation=federation, out=out, rounds=rounds, draw=random.Random(seed))


def assert_nothing_lost(run: Crashing, before: list[Committed]) -> None:
    """Check that what was committed before each kill is still there, and every round once."""
    assert [known.lost_in(run.out) for known in before] == [[] for _ in before]
    assert [row["round"] for row in lines(run.out, ROUNDS)] == list(range(run.rounds))
    assert np.isfinite(load_run(newest_checkpoint(run.out)).models).all()
    assert reaper.marked_processes(run.federation.supervisor.mark) == []


def reporters(out: Path) -> Counter[Json]:
    """Return how often the reports of each client acted."""
    found: Counter[Json] = Counter()
    for event in lines(out, EVENTS):
        reported = event["reported"]
        assert isinstance(reported, list)
        found.update(str(one) for one in reported)
    return found


def assert_same_as_undisturbed(run: Crashing, reference: Path) -> None:
    """Check that a run went as if nothing had happened.

    A node that comes back to its SuperLink too late, on a busy machine, misses a round: from there on the models
    are others, but reports still act as often.
    """
    assert reporters(run.out) == reporters(reference)
    rows = lines(run.out, ROUNDS)
    assert {row["n_failed"] for row in rows} == {0}, rows
    if all(row["n_participants"] == N_NODES for row in rows):
        assert_same_runs(run.out, reference)
        assert client_records(run.out) == client_records(reference)


@pytest.mark.slow
@needs_flwr
def test_server_and_superlink_killed_at_random_moments_cost_the_round_in_flight_alone(tmp_path: Path) -> None:
    with scripted_federation(tmp_path / "federation", N_NODES, script=SCRIPT) as federation:
        run = crashing(federation, tmp_path / "run", 6, seed=1)
        run.submit()
        before = [run.kill("server", run.draw.choice([1, 2]))]
        run.submit()
        before.append(run.kill("link", run.draw.choice([3, 4])))
        run.submit()
        run.submit()  # beside the one before: whoever comes second waits, and then finds the run complete
        run.end()
        states = [federation.state(run_id) for run_id in run.run_ids[-2:]]
        logs = ["\n".join(federation.log_lines(run_id)) for run_id in run.run_ids[-2:]]

    assert [state.status for state in states] == ["finished:completed"] * 2
    assert not any("Traceback" in log for log in logs)
    assert sum("another server writes into" in log for log in logs) >= 1
    assert_nothing_lost(run, before)
    reference = run.reference(tmp_path / "reference")
    assert reporters(reference) == {
        **dict.fromkeys(federation.client_ids.values(), 1),
        federation.client_ids[DRIFTER]: 2,
    }
    assert_same_as_undisturbed(run, reference)


@pytest.mark.slow
@needs_flwr
@pytest.mark.parametrize(
    ("seed", "victims"),
    [
        (2, ("server", "link")),
        (3, ("link", "server")),
        (4, ("node", "server")),
        (5, ("server", "node")),
        (6, ("link", "node")),
    ],
)
def test_whoever_is_killed_whenever_the_run_goes_on(tmp_path: Path, seed: int, victims: tuple[Victim, Victim]) -> None:
    with scripted_federation(tmp_path / "federation", N_NODES, script=SCRIPT) as federation:
        run = crashing(federation, tmp_path / "run", 8, seed=seed)
        run.submit()
        before = []
        for victim, rounds in zip(victims, ([0, 1, 2], [3, 4]), strict=True):
            before.append(run.kill(victim, max(run.draw.choice(rounds), n_rounds(run.out))))
            if victim != "node":
                run.submit()
        run.end()

    assert_nothing_lost(run, before)
    reference = run.reference(tmp_path / "reference")
    if "node" in victims:
        assert reporters(run.out) == reporters(reference)
    else:
        assert_same_as_undisturbed(run, reference)
    assert lines(run.out, ROUNDS)[-1]["n_participants"] == N_NODES, "whoever was killed is back"
