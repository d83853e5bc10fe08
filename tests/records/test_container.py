"""The file format of checkpoints holds what it is given, and notices every damage."""

import errno
import json
import os
import struct
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fielding._typing import Json
from fielding.errors import CheckpointError, DamagedCheckpointError
from fielding.records import container
from fielding.records.container import Contents, check_contents, map_contents, read_contents, write_contents


def example() -> Contents:
    arrays = {"models": np.arange(600, dtype=np.float32).reshape(3, 200), "who": np.array([2, -1, 0], dtype=np.int32)}
    return Contents(values={"round": 7, "names": ["ä", None]}, arrays=arrays, progress={"rounds.jsonl": 12}, kind="run")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_contents(example(), tmp_path / "c.ckpt")
    got = read_contents(tmp_path / "c.ckpt")

    assert (got.values, got.progress, got.kind) == (example().values, example().progress, "run")
    for name, array in example().arrays.items():
        assert got.arrays[name].dtype == array.dtype
        assert np.array_equal(got.arrays[name], array)


@given(
    array=hnp.arrays(
        dtype=st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.bool_, np.uint8]),
        shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_arrays_of_any_shape_come_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, array: npt.NDArray[np.generic]
) -> None:
    path = tmp_path_factory.mktemp("container") / "c.ckpt"
    write_contents(Contents(values={}, arrays={"a": array, "b": array.T}, progress={}), path)
    got = read_contents(path).arrays

    assert got["a"].tobytes() == array.tobytes()
    assert got["b"].tobytes() == np.ascontiguousarray(array.T).tobytes()
    assert (got["a"].shape, got["b"].shape) == (array.shape, array.T.shape)


def test_arrays_can_stay_in_the_file_until_they_are_used(tmp_path: Path) -> None:
    write_contents(example(), tmp_path / "c.ckpt")
    read, mapped = read_contents(tmp_path / "c.ckpt"), map_contents(tmp_path / "c.ckpt")
    (tmp_path / "c.ckpt").unlink()

    assert (mapped.values, mapped.progress, mapped.kind) == (read.values, read.progress, read.kind)
    assert mapped.arrays.keys() == read.arrays.keys()
    for name, array in mapped.arrays.items():
        assert (array.dtype, array.shape, array.tolist()) == (
            read.arrays[name].dtype,
            read.arrays[name].shape,
            read.arrays[name].tolist(),
        )
        assert not array.flags.writeable


def test_a_file_whose_arrays_stay_in_it_is_checked_apart(tmp_path: Path) -> None:
    path = tmp_path / "c.ckpt"
    write_contents(example(), path)
    check_contents(path)
    whole = path.read_bytes()

    for content in (b"", b"FIELDING", whole[:-200], whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(CheckpointError):
            map_contents(path)
    path.write_bytes(whole[:-33] + bytes([whole[-33] ^ 1]) + whole[-32:])
    map_contents(path)
    with pytest.raises(CheckpointError, match="checksum does not match"):
        check_contents(path)


def test_equal_contents_give_equal_bytes(tmp_path: Path) -> None:
    for name in "ab":
        write_contents(example(), tmp_path / name)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("n_flips", [400, pytest.param(5000, marks=pytest.mark.slow)])
def test_every_truncation_and_every_flipped_bit_is_noticed(tmp_path: Path, n_flips: int) -> None:
    path = tmp_path / "c.ckpt"
    write_contents(example(), path)
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [whole[:size] for size in (*range(0, len(whole), 64), len(whole) - 1)]
    damaged += [whole + b"\0", whole[:-64] + bytes(64), whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2)]
    for bit in rng.integers(8 * len(whole), size=n_flips).tolist():
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))

    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(CheckpointError) as caught:
            read_contents(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "header",
    [
        {},
        [],
        {"values": 5, "arrays": {}, "progress": {}},
        {"values": {}, "arrays": {"a": {"dtype": "<f4", "shape": [10**12]}}, "progress": {}},
        {"values": {}, "arrays": {"a": {"dtype": "<f4", "shape": [-1]}}, "progress": {}},
        {"values": {}, "arrays": {"a": {"dtype": "|O8", "shape": [1]}}, "progress": {}},
        {"values": {}, "arrays": {"a": {"shape": [1]}}, "progress": {}},
    ],
)
def test_a_whole_file_that_describes_nonsense_is_refused(tmp_path: Path, header: Json) -> None:
    text = json.dumps(header).encode()
    body = struct.pack("<8sIQ", b"FIELDING", 1, len(text)) + text
    (tmp_path / "c.ckpt").write_bytes(body + blake2b(body, digest_size=32).digest())

    with pytest.raises(CheckpointError):
        read_contents(tmp_path / "c.ckpt")


def test_a_header_of_brackets_in_brackets_is_refused(tmp_path: Path) -> None:
    text = b"[" * 200_000
    body = struct.pack("<8sIQ", b"FIELDING", 1, len(text)) + text
    (tmp_path / "c.ckpt").write_bytes(body + blake2b(body, digest_size=32).digest())

    with pytest.raises(CheckpointError, match="nested too deeply"):
        read_contents(tmp_path / "c.ckpt")


def test_a_newer_format_is_told_apart_from_damage(tmp_path: Path) -> None:
    write_contents(example(), tmp_path / "c.ckpt")
    whole = (tmp_path / "c.ckpt").read_bytes()
    newer = whole[:8] + struct.pack("<I", 2) + whole[12:-32]
    (tmp_path / "c.ckpt").write_bytes(newer + blake2b(newer, digest_size=32).digest())

    with pytest.raises(CheckpointError, match="format version 2, this Fielding reads version 1") as told:
        read_contents(tmp_path / "c.ckpt")
    assert not isinstance(told.value, DamagedCheckpointError)
    (tmp_path / "c.ckpt").write_bytes(newer + whole[-32:])
    with pytest.raises(DamagedCheckpointError, match="checksum does not match"):
        read_contents(tmp_path / "c.ckpt")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO])
def test_what_the_system_does_not_let_be_read_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    write_contents(example(), tmp_path / "c.ckpt")
    monkeypatch.setattr(Path, "open", refusing(number))

    with pytest.raises(CheckpointError, match=os.strerror(number)) as told:
        read_contents(tmp_path / "c.ckpt")
    assert not isinstance(told.value, DamagedCheckpointError)


def refusing(number: int) -> Callable[..., NoReturn]:
    def refuse(path: Path, *_arguments: object, **_options: object) -> NoReturn:
        raise OSError(number, os.strerror(number), str(path))

    return refuse


def test_a_file_that_is_cut_while_it_is_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.ckpt"
    write_contents(Contents(values={}, arrays={"a": np.ones(1 << 20, dtype=np.float32)}, progress={}), path)
    monkeypatch.setattr(container, "_check_digest", lambda *_of: os.truncate(path, 1 << 20))

    with pytest.raises(CheckpointError, match="cut short while it was read"):
        read_contents(path)
