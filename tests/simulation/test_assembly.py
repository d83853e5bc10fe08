"""What a caller brings along is what runs, and the manifest says so."""

import json
from pathlib import Path
from typing import Any

import pytest

from fielding.config.reader import config_from
from fielding.simulation.assembly import Own, assemble, initial_model
from fielding.simulation.experiment import run, run_manifest
from tests.simulation.run_cases import left_behind, small_pool, stop_and_resume, table


def normalized(*, input_shape: tuple[int, ...], n_classes: int) -> Any:
    """Return a module with a buffer, so that it is none of the built-in ones."""
    from torch import nn

    return nn.Sequential(nn.Linear(input_shape[0], 6), nn.BatchNorm1d(6), nn.Linear(6, n_classes))


def test_a_model_of_ones_own_is_the_one_that_is_trained(tmp_path: Path) -> None:
    pytest.importorskip("torch")

    result = run(table(rounds=2), tmp_path / "out", own=Own(samples=small_pool(), model=normalized), page=False)

    assert "1.running_mean" in result.model_of(0)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["trainer"]["name"] == "torch"
    assert "torch" in manifest["machine"]
    assert manifest["config"]["model"]["factory"] == "tests.simulation.test_assembly:normalized"


@pytest.mark.parametrize("is_own", [True, False])
def test_torch_models_resume_and_share_workers_to_the_same_bytes(tmp_path: Path, is_own: bool) -> None:
    pytest.importorskip("torch")
    own = Own(samples=small_pool(), model=normalized if is_own else None)
    config = table(rounds=6, training={"trainer": "torch"})
    for n_workers in (1, 2):
        run(config | {"workers": n_workers}, tmp_path / str(n_workers), own=own, page=False)

    stop_and_resume(config, tmp_path / "cut", [1, 4], own)

    assert left_behind(tmp_path / "1") == left_behind(tmp_path / "2") == left_behind(tmp_path / "cut")


def test_the_manifest_leaves_out_what_changes_nothing() -> None:
    plain = config_from(table())
    other = config_from(table(workers=7, stop_at_accuracy=0.5, stop_at_time_s=9.0, checkpoint={"every": 3}))
    own = Own(samples=small_pool())
    manifests = []
    for config in (plain, other):
        simulation = assemble(config, own, n_workers=1)
        manifests.append(run_manifest(config, simulation, initial_model(simulation, None)))

    assert manifests[0] == manifests[1]


def test_the_manifest_tells_other_samples_and_other_seeds() -> None:
    def digest(seed: int, pool_seed: int) -> object:
        own, config = Own(samples=small_pool(seed=pool_seed)), config_from(table(seed=seed))
        simulation = assemble(config, own, n_workers=1)
        return run_manifest(config, simulation, initial_model(simulation, None))["data_blake2b"]

    assert digest(1, 0) == digest(1, 0)
    assert len({digest(1, 0), digest(2, 0), digest(1, 1)}) == 3
