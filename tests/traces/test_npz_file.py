import io
from pathlib import Path

import numpy as np
import pytest

from fielding.errors import FileFormatError
from fielding.traces.npz_file import read_arrays


def test_only_the_arrays_that_are_asked_for_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=[1], b=np.array([{}], dtype=object), allow_pickle=True)

    assert list(read_arrays(path, ("a",), ("c",))) == ["a"]


def test_python_objects_are_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.array([{}], dtype=object), allow_pickle=True)

    with pytest.raises(FileFormatError, match="array 'a' holds Python objects, which are never unpickled"):
        read_arrays(path, ("a",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; an .npz file with step, client is wanted"),
        (b"step,client\n", r"is no .npz file \(it starts with b'step,c'\)"),
        (b"PK\x03\x04 and nothing else", "is no readable .npz file"),
    ],
)
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)

    with pytest.raises(FileFormatError, match=message):
        read_arrays(path, ("step", "client"))


def test_a_single_array_is_told_from_an_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3), allow_pickle=False)

    with pytest.raises(FileFormatError, match=r"is a single .npy array; write it with numpy.savez"):
        read_arrays(tmp_path / "a.npy", ("a",))


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.savez_compressed(whole, a=np.arange(1000))
    (tmp_path / "a.npz").write_bytes(whole.getvalue()[:-30])

    with pytest.raises(FileFormatError, match=r"no readable \.npz file"):
        read_arrays(tmp_path / "a.npz", ("a",))


@pytest.mark.parametrize("name", ["missing.npz", "."])
def test_a_path_that_is_no_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileFormatError, match=r"cannot be read \(.*\); check the path and its permissions"):
        read_arrays(tmp_path / name, ("a",))
