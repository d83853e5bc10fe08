from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding import Coordinator, save_coordinator
from fielding.errors import CheckpointError, InputError
from fielding.federation.models import mean_by_members
from fielding.records.container import Contents, read_contents, write_contents
from fielding.records.run_checkpoint import RunCheckpoint, load_run, save_run
from fielding.training.layout import Layout

LAYOUT = Layout(names=("weight", "bias"), shapes=((1, 2), (1,)), n_parameters=2)


def checkpoint() -> RunCheckpoint:
    return RunCheckpoint(
        round_index=7,
        time_s=12.5,
        method="fielding",
        layout=LAYOUT,
        models=np.array([[0, 0, 0], [4, 8, 12]], dtype=np.float32),
        cluster_ids=(2, 5),
        client_ids=("a", "b", "c", "d", "e"),
        membership=np.array([0, 0, 0, 1, -1], dtype=np.int32),
        values={"coordinator": {"n": 1}},
        arrays={"ledger/x": np.arange(3.0)},
        progress={"rounds.jsonl": 100},
    )


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    save_run(checkpoint(), tmp_path / "r.ckpt")
    got = load_run(tmp_path / "r.ckpt")

    for name in ("round_index", "time_s", "method", "layout", "cluster_ids", "client_ids", "values", "progress"):
        assert getattr(got, name) == getattr(checkpoint(), name)
    assert np.array_equal(got.models, checkpoint().models)
    assert np.array_equal(got.membership, checkpoint().membership)
    assert got.arrays["ledger/x"].tolist() == [0.0, 1.0, 2.0]


def test_ids_keep_their_type(tmp_path: Path) -> None:
    save_run(replace(checkpoint(), client_ids=(1, 2, 3, 4, 5)), tmp_path / "r.ckpt")

    assert load_run(tmp_path / "r.ckpt").client_ids == (1, 2, 3, 4, 5)


def test_models_are_found_by_the_stable_id_of_their_cluster() -> None:
    run = checkpoint()

    assert run.model_of_cluster(5).tolist() == [4.0, 8.0, 12.0]
    assert (run.cluster_of("a"), run.cluster_of("d"), run.cluster_of("e")) == (2, 5, None)
    with pytest.raises(InputError, match="there is no cluster 1; there are 2, 5"):
        run.model_of_cluster(1)
    with pytest.raises(InputError, match="there is no client 'z'; there are 5 others"):
        run.cluster_of("z")


def test_the_mean_model_counts_every_cluster_by_its_clients() -> None:
    assert checkpoint().mean_model().tolist() == [1.0, 2.0, 3.0]


def test_without_members_all_models_count_the_same() -> None:
    models = np.array([[0.0], [4.0]], dtype=np.float32)

    assert mean_by_members(models, np.array([-1, -1], dtype=np.int32)).tolist() == [2.0]


def test_a_checkpoint_of_a_coordinator_is_no_run(tmp_path: Path) -> None:
    save_coordinator(Coordinator(), tmp_path / "c.ckpt")

    with pytest.raises(CheckpointError, match="is a checkpoint of a coordinator, not of a run"):
        load_run(tmp_path / "c.ckpt")


@pytest.mark.parametrize("lost", ["round", "layout", "cluster_ids", "client_ids", "state", "models", "membership"])
def test_a_whole_file_without_a_part_is_refused(tmp_path: Path, lost: str) -> None:
    save_run(checkpoint(), tmp_path / "r.ckpt")
    contents = read_contents(tmp_path / "r.ckpt")
    kept = Contents(
        kind="run",
        values={name: value for name, value in contents.values.items() if name != lost},
        arrays={name: array for name, array in contents.arrays.items() if name != lost},
        progress=contents.progress,
    )
    write_contents(kept, tmp_path / "r.ckpt")

    with pytest.raises(CheckpointError):
        load_run(tmp_path / "r.ckpt")
