"""Real processes: a device that was away gets the newest model of its cluster when it is back, and serves it alone."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from fielding.flower.deploy.flower_program import Value
from tests.flower.real_runs import APP, n_rounds, needs_flwr, scripted_federation, wait_until

AWAY, STAYS, LONG = 1, 0, 1000
TOLD = """

def on_model(model, info):
    with Path(str(info.node.config["script-dir"]), f"models-{info.node.partition}").open("a") as file:
        file.write(f"{info.version} {info.cluster} {float(abs(model['weights']).sum())}\\n")


app = client_app(load_data=load_data, train=train, evaluate=evaluate, on_model=on_model)
"""


@pytest.mark.slow
@needs_flwr
def test_a_node_that_was_away_gets_the_newest_model_with_its_first_message(tmp_path: Path) -> None:
    from fielding.flower import served

    app, place, out = tmp_path / "scripted_app", tmp_path / "federation", tmp_path / "run"
    shutil.copytree(APP, app, ignore=shutil.ignore_patterns("__pycache__"))
    with (app / "scripted" / "client_app.py").open("a") as file:
        file.write(TOLD)

    def told(node: int) -> list[list[str]]:
        path = place / f"models-{node}"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    with scripted_federation(place, 2, script="0:AB") as federation:
        settings: dict[str, Value] = {"out": str(out), "rounds": LONG, "min-nodes": 2, "deadline": 30.0}
        run_id = federation.run_app(app, {**settings, "evaluation.every": 2})
        wait_until(lambda: bool(told(AWAY)) and n_rounds(out) >= 1, "the first version on both nodes")
        federation.supervisor.stop(f"node-{AWAY}")
        before, done = told(AWAY), n_rounds(out)
        wait_until(lambda: n_rounds(out) >= done + 4, "rounds without the node")
        newest = max(int(version.partition("-")[0][1:]) for version, *_ in told(STAYS))
        federation.restart_node(AWAY, patience_s=150.0)
        wait_until(lambda: len(told(AWAY)) > len(before), "a model for the node that is back")
        first = told(AWAY)[len(before)]
        assert int(first[0].partition("-")[0][1:]) >= newest > int(before[-1][0].partition("-")[0][1:])
        assert "Traceback" not in "\n".join(federation.log_lines(run_id))

    here = served(place / "clients" / f"node-{AWAY}")
    said = {version: float(total) for version, _, total in told(AWAY)[-2:]}  # it may have been stopped after a word
    np.testing.assert_allclose(float(abs(here.model["weights"]).sum()), said[here.info.version], rtol=1e-6)
