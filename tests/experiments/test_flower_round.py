import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.flower_round import FROM, Contender, Federation, descendants, local_steps, main, quiet, rows, stop


@pytest.mark.parametrize("missing", ["flwr", "ray"])
def test_without_flower_the_script_says_how_to_get_it(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in FROM:
        monkeypatch.setitem(sys.modules, name, None if name == missing else pytest)
    monkeypatch.setattr(sys, "argv", ["flower_round.py"])

    assert main() == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"error: {missing} is not installed; pip install 'flwr[simulation]==1.41.0'\n"


def test_a_client_of_flower_trains_to_the_model_that_ours_does(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="Flower's clients train with PyTorch")
    from benchmarks.workloads import load_model

    federation, clients = Federation(), np.array([3, 800])
    layout, start = federation.trainer.layout, federation.trainer.initial_model(1)
    federation.write(tmp_path, 2)
    trained = []
    for client in clients.tolist():
        load_model(federation.module, layout, start)
        local_steps(federation.module, tmp_path, client, 2)
        trained.append(layout.flat({key: one.numpy() for key, one in federation.module.state_dict().items()}))

    np.testing.assert_allclose(np.mean(trained, axis=0), federation.again(start, clients, 2), atol=1e-6)
    assert np.abs(trained[0] - trained[1]).max() > 1e-3
    np.testing.assert_allclose(federation.loop(2), federation.ours(2), atol=1e-6)


def test_every_contender_is_divided_by_the_first() -> None:
    ours = Contender(name="ours", seconds=[0.01, 0.02, 0.03])
    other = Contender(name="other", seconds=[0.4, 0.5, 1.2], start_up_s=9.04, largest_difference=1.23e-7, peak_mb=81.2)

    assert [row["times_ours"] for row in rows([ours, other])] == [1.0, 25.0]
    assert rows([ours, other])[1] == {
        "contender": "other",
        "median_ms": 500.0,
        "times_ours": 25.0,
        "fastest_ms": 400.0,
        "spread": 3.0,
        "rounds": 3,
        "start_up_s": 9.0,
        "peak_mb": 81,
        "largest_difference": 1.2e-7,
    }


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux lists its processes in /proc")
def test_a_process_that_does_not_end_by_itself_is_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as sleeper:
        started = {one for one in descendants(os.getpid()) if one[0] == sleeper.pid}
        stop({(sleeper.pid, -1)}, patience=0.0)  # the number of one that started at another time

        assert len(started) == 1
        assert sleeper.poll() is None
        stop(started, patience=0.0)
        assert sleeper.wait(timeout=10) != 0


def test_flower_and_ray_are_told_to_call_nobody_and_to_write_to_one_folder(tmp_path: Path) -> None:
    told = quiet(tmp_path)

    assert told["FLWR_TELEMETRY_ENABLED"] == told["RAY_USAGE_STATS_ENABLED"] == "0"
    assert told["FLWR_HOME"] == told["HOME"] == str(tmp_path)
    assert (tmp_path / "ray_bootstrap_config.yaml").exists()
