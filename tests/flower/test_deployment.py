"""The example as a real federation: a SuperLink, four SuperNodes, TLS, keys, drift, and a run folder at the end."""

import time
from importlib.util import find_spec
from pathlib import Path

import pytest

import fielding
from fielding.flower import guard
from fielding.flower.flower_program import RunState
from fielding.flower.local_federation import LocalFederation
from fielding.records.run_folder import EVENTS, ROUNDS, stored_manifest
from fielding.reporting.report_page import report_page
from fielding.reporting.run_record import read_run
from tests.flower.device_wire import lines

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "flower"
N_NODES, N_ROUNDS, MOVER, ACTS_IN = 4, 6, 3, 4
PATIENCE_S, ASK_S = 240.0, 20.0


def ended(federation: LocalFederation, run_id: str, out: Path) -> RunState:
    """Return the last state of a run; asking costs a second of a core, so the run folder is looked at instead."""
    give_up, asked = time.monotonic() + PATIENCE_S, time.monotonic()
    while time.monotonic() < give_up:
        if (out / "summary.json").exists() or time.monotonic() - asked > ASK_S:
            state, asked = federation.state(run_id), time.monotonic()
            if state.is_ended:
                return state
        time.sleep(0.5)
    raise TimeoutError("\n".join(federation.log_lines(run_id)[-20:]))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("flwr") is None, reason="flwr is not installed; run: pip install 'fielding[flower]'")
def test_four_real_nodes_train_in_clusters_and_a_node_that_moves_changes_its_cluster(tmp_path: Path) -> None:
    out = tmp_path / "run"
    here = {"PYTHONPATH": str(Path(fielding.__file__).resolve().parents[1])}
    with LocalFederation(tmp_path / "federation", N_NODES, environment=here) as federation:
        run_id = federation.run_app(EXAMPLE, {"out": str(out), "rounds": N_ROUNDS})
        state = ended(federation, run_id, out)
        log = federation.log_lines(run_id)
        assert state.is_completed, "\n".join(log[-20:])

    rounds, events = lines(out, ROUNDS), lines(out, EVENTS)
    assert guard.marked_processes(federation.supervisor.mark) == []
    assert stored_manifest(out)["engine"] == "flower"
    assert [row["n_participants"] for row in rounds] == [N_NODES] * N_ROUNDS
    assert {row["n_clusters"] for row in rounds} == {2}
    assert {line["round"]: line["moved"] for line in events if line["moved"]} == {
        ACTS_IN: [federation.client_ids[MOVER]]
    }
    assert float(str(rounds[-1]["accuracy"])) > float(str(rounds[0]["accuracy"]))
    assert any(f"fielding: round {N_ROUNDS - 1}: n_clusters=2" in line for line in log)
    assert state.bytes_to_nodes > 0
    assert read_run(out).problems == ()
    assert "<html" in report_page([out])
