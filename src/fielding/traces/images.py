"""Folders of images, and lists of images, turned into a pool or a trace; the pixels stay on disk."""

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath

import numpy as np

from fielding._typing import Codes
from fielding.errors import FileFormatError, InputError, OptionError, echo
from fielding.traces.columns import in_id_order, listed_classes, typed_ids
from fielding.traces.csv_table import CsvTable, open_table
from fielding.traces.image_cache import DEFAULT_SPEC, ImageList, ImageSpec, OnImages, cached_images
from fielding.traces.importers import DEFAULT_COLUMNS, Columns, Narrow
from fielding.traces.npz_file import Array, unreadable
from fielding.traces.pool import Pool
from fielding.traces.text_columns import Column, NameColumn, NumberColumn, check_names, fill_columns, time_parser
from fielding.traces.trace import Trace

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
"""Files that are taken for images, whatever the case of their suffix."""
FILE = "file"
"""The column of a list that names images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How images are decoded and where the result is kept.

    Parameters
    ----------
    spec
        What every image is turned into.
    folder
        Folder of the cache; None for ``~/.cache/fielding/images``.
    on_images
        Told how many images are done and how many there are.
    """

    spec: ImageSpec = DEFAULT_SPEC
    folder: Path | None = None
    on_images: OnImages | None = None


DEFAULT_DECODING = Decoding()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundImages:
    """The images of a folder or of a list, found but not yet decoded.

    Parameters
    ----------
    images
        Where they are: in a folder by class and then by name, else in the order of the list.
    y
        Their labels, shape ``(n_images,)``.
    classes
        The names of the labels or of the folders that hold images, numbers in the order of numbers.
    n_ignored
        How many files and folders were passed over because they are no images of a class.
    trace
        Whose images they are and when they came, without features; None if nobody knows.
    """

    images: ImageList
    y: Codes
    classes: tuple[str, ...]
    n_ignored: int = 0
    trace: Trace | None = None


def find_images(folder: Path) -> FoundImages:
    """Find the images of a folder laid out as ``<folder>/<class>/<image>``.

    Files with other suffixes, files beside the class folders and folders inside them are passed over and counted.

    Raises
    ------
    FileFormatError
        If the folder cannot be read or holds no image.
    """
    files: list[Path] = []
    names: list[str] = []
    beside = [place for place in _listed(folder) if not place.is_dir()]
    n_ignored = len(beside)
    for place in _listed(folder):
        if not place.is_dir():
            continue
        inside = _listed(place)
        found = [path for path in inside if _is_image(path)]
        n_ignored += len(inside) - len(found)
        files += found
        names += [place.name] * len(found)
    if not files:
        raise _no_images(folder, n_ignored, sum(map(_is_image, beside)))
    distinct = list(dict.fromkeys(names))
    classes, y = listed_classes(distinct, _codes(names))
    return FoundImages(images=ImageList(files=tuple(files)), y=y, classes=classes, n_ignored=n_ignored)


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file()


def _no_images(folder: Path, n_ignored: int, n_flat: int) -> FileFormatError:
    """Return the error for a folder without images of classes."""
    if n_flat:
        return FileFormatError(
            f"{n_flat} images lie directly in {folder}; put them into one folder per class, or list them in a CSV "
            "with file,label"
        )
    wanted = f"lay images out as <class>/<image> with one of the suffixes {', '.join(sorted(SUFFIXES))}"
    return FileFormatError(f"{folder} holds no images ({n_ignored} other files); {wanted}")


def _codes(names: list[str]) -> Codes:
    """Return the position of each name among the distinct ones, in order of appearance."""
    place = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.fromiter(map(place.__getitem__, names), dtype=np.int32, count=len(names))


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from None


def image_pool(folder: Path, decoding: Decoding = DEFAULT_DECODING) -> Pool:
    """Return the images of a folder ``<folder>/<class>/<image>`` as a pool whose features are mapped from disk."""
    found = find_images(folder)
    return Pool(x=_decoded(found.images, decoding), y=found.y, classes=found.classes)


def _decoded(images: ImageList, decoding: Decoding) -> Array:
    return cached_images(images, decoding.spec, folder=decoding.folder, on_images=decoding.on_images)


def image_index(
    path: Path,
    decoding: Decoding = DEFAULT_DECODING,
    *,
    columns: Columns = DEFAULT_COLUMNS,
    narrow: Narrow | None = None,
) -> Pool | Trace:
    """Return the images that a CSV file lists in the columns ``file,label`` and maybe ``client,time``.

    Parameters
    ----------
    path
        The list. Files are relative to its folder and must lie in it: no ``..``, no way out over a symbolic link.
    decoding
        How images are decoded.
    columns
        What the columns of label, client and time are called.
    narrow
        Leaves out rows of a trace before anything is decoded.

    Returns
    -------
    A trace if the list has clients and times, else a pool; the features are mapped from disk.

    Raises
    ------
    FileFormatError
        If the list or an image is not as it should be; the message names the line or the file.
    """
    found = listed_images(path, columns)
    if found.trace is None:
        return Pool(x=_decoded(found.images, decoding), y=found.y, classes=found.classes)
    return with_images(found.trace, found.images, decoding=decoding, narrow=narrow)


def is_image_list(path: Path) -> bool:
    """Return whether a CSV file lists images: it has a column ``file``."""
    return FILE in open_table(path).header


def listed_images(path: Path, columns: Columns = DEFAULT_COLUMNS) -> FoundImages:
    """Find the images that a CSV file lists; see :func:`image_index`."""
    table = open_table(path)
    is_trace = _has_clients(table, columns)
    file, label, client = NameColumn(), NameColumn(), NameColumn()
    time = NumberColumn(time_parser())
    wanted: list[tuple[str, Column]] = [(FILE, file), (columns.label, label)]
    wanted += [(columns.client, client), (columns.time, time)] if is_trace else []
    fill_columns(table, [(table.position(name), column) for name, column in wanted], None)
    check_names(table, table.position(columns.label), label)
    classes, y = listed_classes(label.names(), label.codes())
    distinct = _files_inside(table, file)
    images = ImageList(files=tuple(distinct[code] for code in file.codes().tolist()))
    if not is_trace:
        return FoundImages(images=images, y=y, classes=classes)
    check_names(table, table.position(columns.client), client)
    ids, codes = in_id_order(typed_ids(client.names()), client.codes())
    trace = Trace(client_ids=tuple(ids), client=codes, time=time.values(), y=y, classes=classes)
    return FoundImages(images=images, y=y, classes=classes, trace=trace)


def _has_clients(table: CsvTable, columns: Columns) -> bool:
    """Return whether a list says who saw an image and when; columns that the user named must be there."""
    names = (columns.client, columns.time)
    is_named = names != (DEFAULT_COLUMNS.client, DEFAULT_COLUMNS.time)
    there = [name in table.header for name in names]
    if not is_named and any(there) != all(there):
        shown = " and ".join(echo(name) for name in names)
        raise FileFormatError(f"{table.path} has only one of the columns {shown}; give both or none")
    return is_named or all(there)


def _files_inside(table: CsvTable, column: NameColumn) -> list[Path]:
    """Return the files that a column names, all of them below the folder of the list."""
    root = table.path.parent.resolve()
    files = []
    for code, name in enumerate(column.names()):
        reason = reason_against(root, name)
        if reason:
            row = int(np.argmax(column.codes() == code))
            raise table.mistake(row, FILE, got=name, wanted=reason)
        files.append(root / name)
    return files


def reason_against(root: Path, name: str) -> str:
    """Return why a name is no image below a folder, or nothing if it is one."""
    if "\0" in name or ".." in PurePosixPath(name).parts or ".." in PureWindowsPath(name).parts:
        return "no path inside the folder of the list; leave out '..'"
    if PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive:
        return "no path inside the folder of the list; give it relative to that folder"
    try:
        if not (root / name).resolve().is_relative_to(root):
            return "a link that leads out of the folder of the list; copy the image"
        return "" if (root / name).is_file() else "not there; check the path"
    except (OSError, RuntimeError):
        return "no path that can be followed; check it"


def with_images(trace: Trace, images: ImageList, *, decoding: Decoding, narrow: Narrow | None = None) -> Trace:
    """Return a trace whose features are images; those of rows that are left out are never decoded.

    Parameters
    ----------
    trace
        The trace without features.
    images
        The image of every row.
    decoding
        How images are decoded.
    narrow
        Leaves out rows.
    """
    if len(images.files) != trace.n_rows:
        raise InputError(f"{len(images.files)} images for {trace.n_rows} rows; give one image per row")
    rows = np.arange(trace.n_rows, dtype=np.int64)
    if narrow is not None:
        trace = narrow(replace(trace, x=rows))
        if trace.x is None:
            raise OptionError("the narrowing dropped the row numbers; narrow with last, most_active or rows")
        rows = trace.x
    kept = ImageList(
        files=tuple(images.files[row] for row in rows.tolist()),
        boxes=None if images.boxes is None else images.boxes[rows],
    )
    return replace(trace, x=_decoded(kept, decoding))
