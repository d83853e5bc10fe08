"""Data sets as their publishers pack them, turned into the arrays of a trace or a pool; nothing is unpickled."""

import csv
import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fielding._typing import Features
from fielding.errors import FileFormatError
from fielding.traces.npz_file import Array

Arrays: TypeAlias = dict[str, Array]

CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
ACTIVITIES = ("LYING_DOWN", "SITTING", "OR_standing", "FIX_walking", "FIX_running", "BICYCLING")
PEOPLE = frozenset((
    "00EABED2", "098A72A5", "0A986513", "0BFC35E2", "1155FF54", "1538C99F", "24E40C4C", "27E04243", "3600D531",
    "40E170A7", "4E98F91F", "4FC32141", "5152A2DF", "5EF64122", "61359772", "797D145F", "7D9BB102", "96A358A0",
    "99B204C0", "A5A30F76", "A5CDF89D", "A7599A50", "BEF6C611", "C48CE857", "CDA3BBF7", "CF722AA9", "E65577C1",
    "ECECC2AB", "F50235E0", "FDAA70A1",
))  # fmt: skip
"""The 30 people of ExtraSensory that Fielding uses, by the first eight letters of their ids."""
LARGEST_FEATURE = 5.0
"""Standardized features beyond this are cut off."""


_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    StopIteration,
    zlib.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    csv.Error,
)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged archive makes Python raise into one clear error."""
    try:
        yield
    except _DAMAGE as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path.name} is damaged or not what it should be ({error}); fetch it again") from None


def read_idx(path: Path) -> Array:
    """Return the bytes of a gzipped IDX file, the format of MNIST, in their shape."""
    with _reading(path):
        raw = gzip.decompress(path.read_bytes())
        if len(raw) < 4 or raw[:3] != b"\0\0\x08" or not raw[3] or len(raw) < 4 + 4 * raw[3]:
            raise FileFormatError(f"{path.name} is no IDX file of bytes (it starts with {raw[:4]!r}); fetch it again")
        shape = struct.unpack(f">{raw[3]}I", raw[4 : 4 + 4 * raw[3]])
        return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def fashion_mnist_arrays(files: dict[str, Path]) -> Arrays:
    """Return Fashion-MNIST, first its training set and then its test set."""
    parts = [
        (read_idx(files[f"{part}-images-idx3-ubyte.gz"]), read_idx(files[f"{part}-labels-idx1-ubyte.gz"]))
        for part in ("train", "t10k")
    ]
    for images, labels in parts:
        if images.ndim != 3 or labels.shape != images.shape[:1]:
            raise FileFormatError(f"{images.shape} images do not fit {labels.shape} labels; fetch them again")
    return {
        "x": np.concatenate([images for images, _ in parts]),
        "y": np.concatenate([labels for _, labels in parts]),
        "is_test": np.repeat([False, True], [labels.size for _, labels in parts]),
        "classes": np.array(CLOTHES),
    }


def cifar100_arrays(files: dict[str, Path]) -> Arrays:
    """Return CIFAR-100 from its binary archive, every image shrunk to the means of 2 x 2 pixels."""
    path = files["cifar-100-binary.tar.gz"]
    with _reading(path), tarfile.open(path, "r:gz") as archive:
        train, test = (_cifar_part(archive, f"cifar-100-binary/{part}.bin") for part in ("train", "test"))
        names = _member(archive, "cifar-100-binary/fine_label_names.txt").decode("ascii").split()
    return {
        "x": np.concatenate([train[0], test[0]]),
        "y": np.concatenate([train[1], test[1]]),
        "is_test": np.repeat([False, True], [train[1].size, test[1].size]),
        "classes": np.array(names),
    }


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return a file of an archive; nothing is unpacked to disk."""
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(f"{name} is no file")
    return file.read()


def _cifar_part(archive: tarfile.TarFile, name: str) -> tuple[Array, Array]:
    """Return the images, shape ``(n, 16, 16, 3)``, and the fine labels of one part."""
    # A record is a coarse label, a fine label, and 32 x 32 pixels of red, then of green, then of blue.
    records = np.frombuffer(_member(archive, name), dtype=np.uint8).reshape(-1, 2 + 3 * 32 * 32)
    blocks = records[:, 2:].reshape(-1, 3, 16, 2, 16, 2)
    sums = blocks.sum(axis=(3, 5), dtype=np.uint16)
    return ((sums + 2) // 4).astype(np.uint8).transpose(0, 2, 3, 1), records[:, 1].copy()


def extrasensory_arrays(files: dict[str, Path]) -> Arrays:
    """Return ExtraSensory: minutes with exactly one of six activities, features standardized, what is missing at 0."""
    path = files["ExtraSensory.per_uuid_features_labels.zip"]
    x, y, time, client = [], [], [], []
    names: tuple[str, ...] = ()
    with _reading(path), zipfile.ZipFile(path) as archive:
        for member in sorted(archive.namelist()):
            person = Path(member).name[:8]
            if person not in PEOPLE or not member.endswith(".features_labels.csv.gz"):
                continue
            header, rows = _person_rows(archive.read(member))
            names = names or header
            if header != names:
                raise ValueError(f"{member} has other features than the files before it")
            x.append(rows[:, :-2])
            y.append(rows[:, -2].astype(np.int8))
            time.append(rows[:, -1].astype(np.int64))
            client += [person] * rows.shape[0]
        if not client:
            raise ValueError("none of the people is in it")
    return {
        "x": _standardized(np.concatenate(x)),
        "y": np.concatenate(y),
        "client": np.array(client),
        "time": np.concatenate(time),
        "classes": np.array(ACTIVITIES),
        "features": np.array(names),
    }


def _person_rows(packed: bytes) -> tuple[tuple[str, ...], Array]:
    """Return the names of the features, and rows of features, activity and time for minutes with one activity."""
    lines = csv.reader(io.StringIO(gzip.decompress(packed).decode("utf-8")), strict=True)
    header = next(lines)
    labels = [header.index(f"label:{activity}") for activity in ACTIVITIES]
    chosen = [at for at, name in enumerate(header) if not name.startswith(("label:", "label_source", "timestamp"))]
    when = header.index("timestamp")
    rows = []
    for cells in lines:
        active = [at for at, place in enumerate(labels) if _number(cells[place]) == 1.0]
        if len(active) == 1:
            rows.append([*(_number(cells[at]) for at in chosen), float(active[0]), float(cells[when])])
    return tuple(header[at] for at in chosen), np.array(rows, dtype=np.float64).reshape(-1, len(chosen) + 2)


def _number(cell: str) -> float:
    return float(cell) if cell else float("nan")


def _standardized(x: Array) -> Features | Array:
    """Return features of mean 0 and spread 1 over all minutes, cut off at 5, as float16; a missing one is 0."""
    is_known = np.isfinite(x)
    n_known = np.maximum(is_known.sum(axis=0), 1)
    mean = np.where(is_known, x, 0.0).sum(axis=0) / n_known
    centered = np.where(is_known, x - mean, 0.0)
    spread = np.sqrt((centered * centered).sum(axis=0) / n_known)
    scaled = centered / np.where(spread > 0.0, spread, 1.0)
    return np.clip(scaled, -LARGEST_FEATURE, LARGEST_FEATURE).astype(np.float16)


Convert: TypeAlias = Callable[[dict[str, Path]], Arrays]
"""Turns downloaded files, by name, into arrays."""
