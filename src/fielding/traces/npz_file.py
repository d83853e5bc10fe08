"""Arrays in and out of ``.npz`` files: nothing is ever unpickled, nothing is left half written.

Also how much a packed file may hold (:func:`check_unpacked`): a few megabytes can be made to fill any memory.
"""

import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding.atomic import replaced_file
from fielding.errors import FileFormatError, OptionError, echo

Array: TypeAlias = npt.NDArray[Any]  # an array of any type, as it came out of a file

MOST_UNPACKED = 1 << 30  # bytes that any packed file may hold,
MOST_TEXT = 1 << 27  # if they are text, whose cells take several times the room in memory
MOST_TIMES = 32  # and how many times its own size, if that is more
UNPACKED_GB = "FIELDING_MAX_UNPACKED_GB"
"""Environment variable: gigabytes that a packed file may hold instead."""
ZIP_MAGIC = b"PK"
NPY_MAGIC = b"\x93NUMPY"


def unreadable(path: Path, error: OSError) -> FileFormatError:
    """Return the error for a file that the system will not let us read."""
    return FileFormatError(f"{path} cannot be read ({error.strerror or error}); check the path and its permissions")


def first_bytes(path: Path, size: int) -> bytes:
    """Return the first bytes of a file, fewer if it is shorter."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise unreadable(path, error) from None


def most_unpacked(path: Path, most: int = MOST_UNPACKED) -> int:
    """Return how many bytes a packed file may hold: ``most``, 32 times its size if that is more, or UNPACKED_GB."""
    if said := os.environ.get(UNPACKED_GB):
        try:
            return int(float(said) * (1 << 30))
        except (ValueError, OverflowError):
            raise OptionError(f"{UNPACKED_GB} is {echo(said)}; give a number of gigabytes") from None
    return max(most, MOST_TIMES * path.stat().st_size)


def check_unpacked(path: Path, n_bytes: int, most: int = MOST_UNPACKED) -> None:
    """Raise if a packed file holds more than it may."""
    if n_bytes > (limit := most_unpacked(path, most)):
        raise FileFormatError(
            f"{path} holds more than {limit >> 20} MB in {path.stat().st_size:,} bytes, as files do that are made to "
            f"fill the memory; if you trust it, set {UNPACKED_GB} to the gigabytes that it may hold"
        )


def missing_name(path: Path, *, kind: str, name: str, known: Sequence[str]) -> FileFormatError:
    """Return the error for a column or an array that a file does not have, with the nearest that it has.

    Examples
    --------
    >>> print(missing_name(Path("a.csv"), kind="column", name="label", known=["client", "time", "labels"]))
    a.csv has no column 'label'; did you mean 'labels'? It has: 'client', 'time', 'labels'
    """
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f" did you mean {echo(near[0])}?" if near else ""
    shown = ", ".join(echo(one) for one in known[:12]) + (", ..." if len(known) > 12 else "")
    return FileFormatError(f"{path} has no {kind} {echo(name)};{hint} It has: {shown or 'nothing'}")


def read_arrays(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Array]:
    """Return the named arrays of an ``.npz`` file; other arrays in it are not even read.

    A ``required`` one that is missing is a :class:`FileFormatError` with the nearest name; an ``optional`` one is left
    out.
    """
    with _open_archive(path, required) as archive:
        for name in required:
            if name not in archive.files:
                raise missing_name(path, kind="array", name=name, known=archive.files)
        wanted = [name for name in (*required, *optional) if name in archive.files]
        _check_sizes(path, archive.zip, wanted)
        return {name: _load(path, name, archive.__getitem__) for name in wanted}


def array_names(path: Path, wanted: Sequence[str]) -> list[str]:
    """Return the names of the arrays in an ``.npz`` file; an error says which ones are wanted."""
    with _open_archive(path, wanted) as archive:
        return list(archive.files)


@contextmanager
def _open_archive(path: Path, wanted: Sequence[str]) -> Iterator[Any]:
    """Open the archive: numpy's, with the names in it as ``files``."""
    start = first_bytes(path, len(NPY_MAGIC))
    if not start:
        raise FileFormatError(f"{path} is empty; an .npz file with {', '.join(wanted)} is wanted")
    if not start.startswith(ZIP_MAGIC):
        what = "a single .npy array" if start == NPY_MAGIC else f"no .npz file (it starts with {start!r})"
        raise FileFormatError(f"{path} is {what}; write it with numpy.savez and the arrays {', '.join(wanted)}")
    # Opened here and not by numpy, which forgets to close what it cannot read.
    with path.open("rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
        # Damaged bytes make zipfile and numpy raise almost anything, from struct.error to NotImplementedError.
        except Exception as error:
            raise FileFormatError(f"{path} is no readable .npz file ({_short(error)}); write it again") from None
        with archive:
            yield archive


def _check_sizes(path: Path, archive: zipfile.ZipFile, names: Sequence[str]) -> None:
    """Raise if arrays are larger than they may be, by the headers of the archive; none of them is unpacked.

    An array is not given more memory than its part of the archive has bytes.
    """
    sizes = {one.filename.removesuffix(".npy"): one.file_size for one in archive.infolist()}
    check_unpacked(path, sum(sizes[name] for name in names))
    for name in names:
        try:
            with archive.open(f"{name}.npy") as part:
                version = np.lib.format.read_magic(part)
                read_header = getattr(np.lib.format, f"read_array_header_{min(version, (2, 0))[0]}_0")
                shape, _, dtype = read_header(part)
        except Exception:  # loading it tells what is wrong
            continue
        if math.prod(shape) * dtype.itemsize > sizes[name]:
            raise FileFormatError(
                f"{path}: array {name!r} is damaged (by its header it has shape {echo(shape)}, but it has "
                f"{sizes[name]} bytes); write the file again"
            )


def _load(path: Path, name: str, load: Callable[[str], Array]) -> Array:
    try:
        array = load(name)
    except Exception as error:
        if "allow_pickle" in str(error):
            raise FileFormatError(
                f"{path}: array {name!r} holds Python objects, which are never unpickled; save it as numbers or as "
                "texts of fixed width (dtype U)"
            ) from None
        raise FileFormatError(f"{path}: array {name!r} is damaged ({_short(error)}); write the file again") from None
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{path}: {name!r} is no array; write the file with numpy.savez")
    return array


def _short(error: Exception) -> str:
    """Return the first line of an error, or its type when it has no text."""
    lines = str(error).splitlines()
    return lines[0][:100] if lines else type(error).__name__


def write_arrays(path: Path, arrays: Mapping[str, Array], *, compress: bool) -> None:
    """Write the arrays as an ``.npz`` file, whole or not at all; equal arrays give equal bytes."""
    save = np.savez_compressed if compress else np.savez
    with replaced_file(path) as file:
        save(file, allow_pickle=False, **arrays)
