from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from fielding.errors import CheckpointError, FileFormatError, InputError
from fielding.records.model_file import read_model, write_model
from fielding.records.run_checkpoint import save_run
from fielding.training.label_mix import LABEL_MIX
from tests.records.test_run_checkpoint import LAYOUT, checkpoint

MODEL = np.array([1.0, 2.0, 3.0], dtype=np.float32)


def test_a_model_is_written_by_the_names_of_its_tensors(tmp_path: Path) -> None:
    write_model(MODEL, LAYOUT, tmp_path / "m.safetensors")

    tensors = load_file(tmp_path / "m.safetensors")
    assert {name: tensor.tolist() for name, tensor in tensors.items()} == {"weight": [[1.0, 2.0]], "bias": [3.0]}
    assert read_model(tmp_path / "m.safetensors", LAYOUT).tolist() == MODEL.tolist()


def test_a_model_needs_the_right_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"m\.pt is no name for a model; end it with \.safetensors"):
        write_model(MODEL, LAYOUT, tmp_path / "m.pt")


def test_the_mean_of_all_clusters_is_what_training_starts_from(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    save_run(checkpoint(), tmp_path / "run" / "checkpoints" / "00000007.ckpt")
    older = replace(checkpoint(), models=np.zeros((2, 3), dtype=np.float32))
    save_run(older, tmp_path / "run" / "checkpoints" / "00000006.ckpt")

    assert read_model(tmp_path / "run", LAYOUT).tolist() == [1.0, 2.0, 3.0]
    assert read_model(tmp_path / "run" / "checkpoints" / "00000006.ckpt", LAYOUT).tolist() == [0.0, 0.0, 0.0]


def test_models_of_another_shape_are_refused(tmp_path: Path) -> None:
    save_run(checkpoint(), tmp_path / "r.ckpt")
    wider = replace(LAYOUT, shapes=((1, 3), (1,)))
    renamed = replace(LAYOUT, names=("weight", "offset"))
    write_model(MODEL, LAYOUT, tmp_path / "m.safetensors")

    with pytest.raises(
        InputError, match="holds a model of 3 numbers in 2 tensors, but this config makes one of 4 in 2"
    ):
        read_model(tmp_path / "r.ckpt", wider)
    with pytest.raises(InputError, match=r"m\.safetensors: tensor 'weight' has shape \(1, 2\); it must be \(1, 3\)"):
        read_model(tmp_path / "m.safetensors", wider)
    with pytest.raises(InputError, match="tensor 'bias' is missing or unknown; the model has weight, offset"):
        read_model(tmp_path / "m.safetensors", renamed)


def test_models_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    save_file({"weight": np.array([[1.0, np.nan]]), "bias": np.zeros(1)}, tmp_path / "m.safetensors")

    with pytest.raises(InputError, match="holds a model with NaN or infinity"):
        read_model(tmp_path / "m.safetensors", LAYOUT)


@pytest.mark.parametrize("content", [b"", b"junk", b"\xff" * 100, b"\x08\0\0\0\0\0\0\0{}      "])
def test_what_is_no_safetensors_file_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.safetensors").write_bytes(content)

    with pytest.raises((FileFormatError, InputError), match=r"m\.safetensors"):
        read_model(tmp_path / "m.safetensors", LAYOUT)


def test_a_pickle_under_a_false_name_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(b"\x80\x04cos\nsystem\n(S'touch /tmp/never'\ntR.")
    (tmp_path / "r.ckpt").write_bytes(b"\x80\x04cos\nsystem\n(S'touch /tmp/never'\ntR.")

    with pytest.raises(FileFormatError, match="is no safetensors file"):
        read_model(tmp_path / "m.safetensors", LAYOUT)
    with pytest.raises(CheckpointError, match="is not a Fielding checkpoint"):
        read_model(tmp_path / "r.ckpt", LAYOUT)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    for name in ("none.safetensors", "none.ckpt"):
        with pytest.raises(CheckpointError, match=f"cannot read .*{name}: No such file"):
            read_model(tmp_path / name, LAYOUT)


# ---- a model that carries a label mix --------------------------------------------------------------------------

MIXED = replace(LAYOUT, names=(*LAYOUT.names, LABEL_MIX), shapes=(*LAYOUT.shapes, (2,)))
WITH_MIX = np.array([1.0, 2.0, 3.0, 0.25, 0.75], dtype=np.float32)


def test_a_file_holds_no_label_mix_and_whoever_needs_one_starts_from_equal_shares(tmp_path: Path) -> None:
    write_model(WITH_MIX, MIXED, tmp_path / "m.safetensors")

    assert sorted(load_file(tmp_path / "m.safetensors")) == ["bias", "weight"]
    assert read_model(tmp_path / "m.safetensors", LAYOUT).tolist() == MODEL.tolist()
    assert read_model(tmp_path / "m.safetensors", MIXED).tolist() == [1.0, 2.0, 3.0, 0.5, 0.5]


def test_a_checkpoint_keeps_its_label_mix_for_whoever_needs_one(tmp_path: Path) -> None:
    save_run(replace(checkpoint(), layout=MIXED, models=np.stack([WITH_MIX] * 2)), tmp_path / "mixed.ckpt")
    save_run(checkpoint(), tmp_path / "plain.ckpt")

    assert read_model(tmp_path / "mixed.ckpt", MIXED).tolist() == WITH_MIX.tolist()
    assert read_model(tmp_path / "mixed.ckpt", LAYOUT).tolist() == MODEL.tolist()
    assert read_model(tmp_path / "plain.ckpt", MIXED).tolist() == [1.0, 2.0, 3.0, 0.5, 0.5]
