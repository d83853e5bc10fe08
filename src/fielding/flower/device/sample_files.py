"""Features of a device's samples: files that never change, one per arrival, of which only what is used is read."""

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Features, Mask
from fielding.errors import CheckpointError, InputError
from fielding.flower.device.samples import IN_APP, Kept, pieces
from fielding.records.container import Contents, check_contents, map_contents, raise_if_unreadable, write_contents

PREFIX = "samples-"  # how the names of these files begin
_KIND = "samples"


class DamagedSamplesError(CheckpointError):
    """A file of samples is damaged: the device has to start anew."""


class SampleFiles:
    """Features of samples, in the type that they came in: rows of arrays, each in a file of its own.

    Files are named by their content, written before the state that names them and removed after the one that does no
    longer. ``names``: of the files in ``folder``; ``arrays``: what they hold, mapped.

    Examples
    --------
    >>> files = SampleFiles(arrays=(np.zeros((2, 3), np.uint8), np.ones((1, 3), np.float32)))
    >>> files.gather(np.array([1, 0]), np.array([0, 1])).tolist()
    [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        folder: Path | None = None,
        names: tuple[str, ...] = (),
        arrays: tuple[npt.NDArray[np.generic], ...] = (),
        *,
        whole: frozenset[str] = frozenset(),
    ) -> None:
        self.folder, self.names, self.arrays = folder, names, arrays
        self._whole = set(whole)  # names of files whose digests were found right

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.arrays[-1].shape[1:] if self.arrays else (0,)

    def add(self, x: npt.NDArray[np.generic]) -> "SampleFiles":
        """Write samples into a file of their own, and return these files and that one."""
        if self.arrays and x.shape[1:] != self.shape:
            raise InputError(
                f"samples of load_data have shape {x.shape[1:]}; earlier ones had {self.shape}, keep to it"
            )
        if self.folder is None:
            return SampleFiles(arrays=(*self.arrays, x))
        digest = blake2b(f"{x.dtype.str} {x.shape}".encode(), digest_size=16)
        for piece in pieces(x):
            digest.update(piece.tobytes())
        name = f"{PREFIX}{digest.hexdigest()}.fielding"
        write_contents(Contents(values={}, arrays={"x": x}, progress={}, kind=_KIND), self.folder / name)
        array = _mapped(self.folder / name)
        return SampleFiles(
            self.folder, (*self.names, name), (*self.arrays, array), whole=frozenset({*self._whole, name})
        )

    def beside(self, x: npt.NDArray[np.generic]) -> "SampleFiles":
        """Return these files, and samples that are in memory alone as one more."""
        return SampleFiles(self.folder, (*self.names, ""), (*self.arrays, x), whole=frozenset({*self._whole, ""}))

    def gather(self, file: Counts, row: Counts, shape: tuple[int, ...] | None = None) -> Features:
        """Return samples as models see them, float32, of a shape; a file is checked when it is used first."""
        found = np.empty((row.size, *(self.shape if shape is None else shape)), dtype=np.float32)
        for one in np.unique(file).tolist():
            at = file == one
            self._check(one)
            found[at] = self.arrays[one][row[at]]
        return found

    def _check(self, one: int) -> None:
        """Raise if a file is damaged; one that another process has removed since cannot be."""
        if self.folder is None or self.names[one] in self._whole:
            return
        path = self.folder / self.names[one]
        try:
            check_contents(path)
        except (CheckpointError, OSError) as error:
            raise_if_unreadable(path, error)
            if not isinstance(error.__cause__, FileNotFoundError):
                raise DamagedSamplesError(str(error)) from error
        self._whole.add(self.names[one])

    def compact(self, kept: Kept, is_current: Mask) -> tuple["SampleFiles", Kept]:
        """Return files without those of which little is kept, and where the samples are now.

        What is left of a file goes to a new one when it is less than half, or none of it ``is_current``: so files are
        at most twice as large as what is kept, and nothing stays longer than the newest sample that came with it.
        """
        n_rows = np.array([len(array) for array in self.arrays], dtype=np.int64)
        n_kept, n_current = (
            np.bincount(file[file != IN_APP], minlength=n_rows.size) for file in (kept.file, kept.file[is_current])
        )
        is_sparse = (n_kept < n_rows) & ((2 * n_kept < n_rows) | (n_current == 0))
        if not is_sparse.any():
            return self, kept
        files = SampleFiles(
            self.folder,
            tuple(name for name, leaves in zip(self.names, is_sparse, strict=False) if not leaves),
            tuple(array for array, leaves in zip(self.arrays, is_sparse, strict=True) if not leaves),
            whole=frozenset(self._whole),
        )
        file, row = np.append(np.cumsum(~is_sparse) - 1, IN_APP)[kept.file], kept.row.copy()
        moved, n_moved = list[npt.NDArray[np.generic]](), 0
        for one in np.flatnonzero(is_sparse & (n_kept > 0)).tolist():
            at = np.flatnonzero(kept.file == one)
            self._check(one)
            moved.append(self.arrays[one][kept.row[at]])
            file[at], row[at] = len(files.arrays), np.arange(n_moved, n_moved + at.size)
            n_moved += at.size
        return files.add(np.concatenate(moved)) if moved else files, replace(kept, file=file, row=row)


def open_files(folder: Path, names: tuple[str, ...]) -> SampleFiles:
    """Return files of a folder, or raise :class:`CheckpointError`; nothing of them is read but their headers."""
    return SampleFiles(folder, names, tuple(_mapped(folder / name) for name in names))


def _mapped(path: Path) -> npt.NDArray[np.generic]:
    array = map_contents(path).arrays.get("x")
    if array is None or array.ndim < 2:
        raise CheckpointError(f"{path} holds no samples")
    return array
