import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import contenders
from benchmarks.contenders import FEDAVG, FIELDING, compare_deployments, run_once
from benchmarks.shared_work import SharedWork
from fielding.flower.deploy.flower_program import RunState
from fielding.flower.deploy.processes import ProcessError
from tests.benchmarks.exchange_logs import LOG

WORK = SharedWork(n_rounds=4, hidden=2)


class FakeFederation:
    """Pretends to run apps: every one leaves the log that it is given, and ends as it is told."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], status: str = "finished:completed") -> None:
        self.n_nodes, self.rows, self.status = 2, rows, status

    def run_app(self, app: Path) -> str:
        config = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
        Path(config["log"]).write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        return "7"

    def state(self, run_id: str) -> RunState:
        assert run_id == "7"
        return RunState(status=self.status, bytes_to_nodes=4000, bytes_from_nodes=2000)

    def log_lines(self, run_id: str) -> list[str]:
        assert run_id == "7"
        return ["Traceback", "ValueError: no luck"]


def test_a_run_is_followed_to_its_end(tmp_path: Path) -> None:
    begun: list[int] = []

    found, state = run_once(FakeFederation(LOG), FEDAVG, WORK, place=tmp_path, show=begun.append)  # type: ignore[arg-type]

    assert (found.n_training, state.bytes_to_nodes) == (4, 4000)
    assert sum(begun) == 4


def test_a_run_that_failed_is_told_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "_LOOK_S", 0.01)
    monkeypatch.setattr(contenders, "_PATIENCE_S", 0.05)
    failed = FakeFederation(LOG[:3], "finished:failed")

    with pytest.raises(
        ProcessError, match="the run ended as finished:failed; it said: Traceback / ValueError: no luck"
    ):
        run_once(failed, FEDAVG, WORK, place=tmp_path)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_real_federation_counts_no_more_exchanges_and_fewer_bytes_than_plain_fedavg() -> None:
    pytest.importorskip("flwr", reason="flwr is not installed; run: pip install 'fielding[flower]'")

    record: dict[str, Any] = compare_deployments(2, [SharedWork(n_rounds=4, hidden=64)], contenders=(FEDAVG, FIELDING))

    (ratio,) = record["ratios"]
    ours = next(one for one in record["costs"] if one["contender"] == "Fielding")
    assert (ours["n_before"], ours["n_training"], ours["n_tests"], ours["n_trained"]) == (1, 4, 3, 8)
    assert ours["flower_down"] > ours["own_down"] > 4 * 4810 * 2
    assert ratio["more_exchanges"] == 0.0
    assert ratio["holds"]
