"""A run of real processes that is extended, retuned and given a class more, with a kill -9 in between."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from fielding.records.changes import changes_in
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import ROUNDS, newest_checkpoint, read_manifest
from tests.flower.device_wire import lines
from tests.flower.real_runs import APP, committed, ended, n_rounds, needs_flwr, scripted_federation, wait_until

pytest.importorskip("flwr", reason="flwr is not installed; run: pip install 'fielding[flower]'")

from fielding.flower.deploy.flower_program import Value

N_NODES, N_FIRST, N_ALL, NEW = 3, 3, 7, 4
CLIENT = f'''

def load_with_new_label(node: DeviceNode, round_index: int) -> Samples:
    """Return the samples; from round {N_FIRST} on the rare ones have a label that was not there before."""
    given = load_data(node, round_index)
    y = np.where((np.asarray(given.rounds) >= {N_FIRST}) & (np.asarray(given.y) == RARE), {NEW}, given.y)
    return Samples(given.x, y, is_test=given.is_test, rounds=given.rounds)


app = client_app(load_data=load_with_new_label)
'''
SERVER = """from fielding.flower.server_app import server_app

app = server_app()
"""


@pytest.mark.slow
@needs_flwr
def test_a_living_run_is_extended_retuned_and_given_a_class_with_a_kill_between(tmp_path: Path) -> None:
    app, out = tmp_path / "app", tmp_path / "run"
    shutil.copytree(APP, app, ignore=shutil.ignore_patterns("__pycache__"))
    with (app / "scripted" / "client_app.py").open("a") as file:
        file.write(CLIENT)
    (app / "scripted" / "server_app.py").write_text(SERVER)
    settings = app / "pyproject.toml"
    settings.write_text(settings.read_text().replace("classes = 4\n", 'classes = 4\nshape = "5"\n'))
    first: dict[str, Value] = {"out": str(out), "min-nodes": N_NODES, "rounds": N_FIRST, "classes": NEW}
    then: dict[str, Value] = {**first, "rounds": N_ALL, "classes": NEW + 1, "training.learning_rate": 0.2}
    with scripted_federation(tmp_path / "federation", N_NODES, script="0:AAB 2:CAB") as federation:
        assert ended(federation, federation.run_app(app, first), out).is_completed
        federation.run_app(app, then)
        wait_until(lambda: n_rounds(out) > N_FIRST, "a round by the new settings")
        before = committed(out)
        assert len(federation.kill_server_apps()) == 1
        state = ended(federation, last := federation.run_app(app, then), out)
        assert state.is_completed, "\n".join(federation.log_lines(last)[-30:])

    assert before.lost_in(out) == []
    rows = lines(out, ROUNDS)
    assert [row["round"] for row in rows] == list(range(N_ALL))
    assert not any(row["n_failed"] for row in rows)
    changes = [(one.round_index, one.key, one.new) for one in changes_in(read_manifest(out))]
    assert sorted(changes) == [
        (N_FIRST, "classes", NEW + 1),
        (N_FIRST, "rounds", N_ALL),
        (N_FIRST, "training.learning_rate", 0.2),
    ]
    last_one = load_run(newest_checkpoint(out))
    assert last_one.layout.shapes[last_one.layout.n_parameters - 1] == (NEW + 1,)
    assert np.isfinite(last_one.models).all()
