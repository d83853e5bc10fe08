"""Folders of images, and lists of images, turned into a pool or a trace; the pixels stay on disk."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import groupby
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

import numpy as np

from fielding._extras import install_words
from fielding._typing import Codes, Counts, Vector
from fielding.atomic import replaced_file
from fielding.config.parts import LAYOUTS
from fielding.errors import FileFormatError, InputError, OptionError, OutputError, echo, unknown_name
from fielding.traces.csv_table import (
    CsvColumn,
    NameColumn,
    NumberColumn,
    check_printable,
    fill_columns,
    open_table,
    parse_ids,
    sort_classes,
    sort_ids,
    time_parser,
)
from fielding.traces.importers import DEFAULT_COLUMNS, Columns, Narrow, OnNote, check_labels, ignore_note, naming
from fielding.traces.intervals import SECONDS, epoch_seconds
from fielding.traces.npz_file import Array, unreadable
from fielding.traces.parquet_file import is_parquet
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace

if TYPE_CHECKING:
    from PIL import Image

CHUNK = 256  # images that are decoded, and held in memory, at a time; fewer if they are large
LARGEST_CHUNK = 64 << 20  # bytes of decoded images at a time
LARGEST_SIDE = 4096
_VERSION = b"fielding images 1"
_THREADS = 4

OnImages = Callable[[int, int], None]  # called with how many images are done and how many there are


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec:
    """What every image is turned into, whatever its own size and colors.

    ``size`` is height and width in pixels; images of other shapes are stretched to it. ``channels``: 3 for red, green
    and blue, 1 for gray. Transparency is dropped.
    """

    size: int = 32
    channels: int = 3

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not 1 <= self.size <= LARGEST_SIDE:
            raise OptionError(f"image size is {echo(self.size)}; give 1 to {LARGEST_SIDE} pixels")
        if self.channels not in (1, 3):
            raise OptionError(f"channels is {echo(self.channels)}; give 3 (color) or 1 (gray)")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image."""
        return (self.size, self.size) if self.channels == 1 else (self.size, self.size, self.channels)


DEFAULT_SPEC = ImageSpec()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageList:
    """Images in files, or boxes cut out of them.

    A file may stand several times, best in a row. ``boxes``: left, top, right and bottom of what is cut out, in pixels,
    shape ``(n_images, 4)``; None for whole images.
    """

    files: tuple[Path, ...]
    boxes: Counts | None = None


def cache_folder(kind: str) -> Path:
    """Return the folder below ``XDG_CACHE_HOME`` (or ``~/.cache``) where Fielding keeps things of this kind."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "fielding" / kind


def cache_images(
    images: ImageList, spec: ImageSpec = DEFAULT_SPEC, *, folder: Path | None = None, on_images: OnImages | None = None
) -> Array:
    """Return the images as one array of bytes that is mapped from disk, shape ``(n_images, size, size[, 3])``.

    The first call decodes every image, a chunk at a time, and writes the array; later ones map it. The array belongs to
    the paths, sizes and times of change of the files, to the boxes and to the spec; if any of these changes, a new one
    is written.

    An image that cannot be read raises, and nothing is written. ``folder`` is ``~/.cache/fielding/images`` by default.
    """
    folder = cache_folder("images") if folder is None else folder
    path = folder / f"{_key(images, spec)}.npy"
    shape = (len(images.files), *spec.shape)
    kept = _map_cache(path, shape)
    if kept is not None:
        return kept
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the image cache {folder}: {error.strerror or error}") from error
    # What processes that were killed while writing this file have left behind.
    for scratch in folder.glob(f".{path.name}.*.tmp"):
        with suppress(OSError, ValueError):
            try:
                os.kill(int(scratch.suffixes[-2][1:]), 0)
            except ProcessLookupError:
                scratch.unlink()
    with replaced_file(path) as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for n_done, chunk in _decode_chunks(images, spec):
            file.write(chunk.data)
            if on_images is not None:
                on_images(n_done, shape[0])
    written = _map_cache(path, shape)
    if written is None:
        raise OutputError(f"the image cache {path} is gone or damaged right after writing; try another folder")
    return written


def _key(images: ImageList, spec: ImageSpec) -> str:
    """Return a name that changes whenever the decoded images would."""
    digest = blake2b(_VERSION, digest_size=16)
    digest.update(f"{spec.size} {spec.channels} {len(images.files)}".encode())
    for path in images.files:
        try:
            facts = path.stat()
        except OSError as error:
            raise FileFormatError(f"image {path} cannot be read ({error.strerror or error}); check the path") from None
        digest.update(f"\0{path.absolute()}\0{facts.st_size} {facts.st_mtime_ns}".encode("utf-8", "surrogateescape"))
    if images.boxes is not None:
        digest.update(np.ascontiguousarray(images.boxes, dtype=np.int64).tobytes())
    return digest.hexdigest()


def _map_cache(path: Path, shape: tuple[int, ...]) -> Array | None:
    """Return the array of a cache file, or None if it is missing or damaged."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array if isinstance(array, np.ndarray) and array.shape == shape and array.dtype == np.uint8 else None


def _decode_chunks(images: ImageList, spec: ImageSpec) -> Iterator[tuple[int, Array]]:
    """Yield decoded chunks with the number of images done; files that stand in a row are opened once a chunk."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError(f"images are decoded by Pillow, which is missing; {install_words('images')}") from None
    step = max(1, min(CHUNK, LARGEST_CHUNK // int(np.prod(spec.shape))))
    with ThreadPoolExecutor(max_workers=min(_THREADS, os.cpu_count() or 1)) as threads:
        for start in range(0, len(images.files), step):
            places = range(start, min(start + step, len(images.files)))
            groups = [list(group) for _, group in groupby(places, key=images.files.__getitem__)]
            parts = threads.map(lambda group: _decode_file(Image.open, images, group, spec), groups)
            yield places.stop, np.concatenate(list(parts))


def _decode_file(
    open_image: Callable[[Path], "Image.Image"], images: ImageList, group: Sequence[int], spec: ImageSpec
) -> Array:
    """Return the images of one file, shape ``(n_images, size, size[, 3])``."""
    path = images.files[group[0]]
    try:
        with open_image(path) as image:
            return np.stack([_pixels(image, None if images.boxes is None else images.boxes[at], spec) for at in group])
    except InputError as error:
        raise FileFormatError(f"image {path}: {error}") from None
    # Damaged bytes make Pillow raise almost anything, from SyntaxError to struct.error.
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
        raise FileFormatError(f"image {path} cannot be read ({reason}); replace it or take it out") from None


def _pixels(image: "Image.Image", box: Counts | None, spec: ImageSpec) -> Array:
    """Return one image, or what a box cuts out of it, as bytes of the wanted shape."""
    if image.mode.startswith(("I", "F")):
        raise InputError(f"its pixels have more than 8 bits (mode {image.mode}); save it with 8 bits a channel")
    if box is not None:
        width, height = image.size
        left, top = max(int(box[0]), 0), max(int(box[1]), 0)
        right, bottom = min(int(box[2]), width), min(int(box[3]), height)
        if left >= right or top >= bottom:
            raise InputError(f"box {box.tolist()} lies outside its {width} x {height} pixels; mend the list")
        image = image.crop((left, top, right, bottom))
    if "transparency" in image.info:
        image = image.convert("RGBA")
    image = image.convert("L" if spec.channels == 1 else "RGB")
    # 2 is Pillow's bilinear filter, which averages over all source pixels when it shrinks.
    return np.asarray(image.resize((spec.size, spec.size), 2), dtype=np.uint8)


SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
"""Files that are taken for images, whatever the case of their suffix."""
FILE = "file"  # the column of a list that names images


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How images are decoded and where the result is kept.

    The cache is in ``folder``, ``~/.cache/fielding/images`` by default.
    """

    spec: ImageSpec = DEFAULT_SPEC
    folder: Path | None = None
    on_images: OnImages | None = None


DEFAULT_DECODING = Decoding()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundImages:
    """The images of a folder or of a list, found but not yet decoded.

    ``images`` stand by class and then by name, or in the order of the list; ``classes`` in the order of names, or of
    numbers. ``n_ignored``: files and folders passed over because they are no images of a class. ``trace``: whose images
    they are and when they came, without features; None if that is not known.
    """

    images: ImageList
    y: Codes
    classes: tuple[str, ...]
    n_ignored: int = 0
    trace: Trace | None = None


BY_CLASS, BY_CLIENT = LAYOUTS
DAY = SECONDS["d"]
N_PARTS = 10  # intervals, of a day each, that images without times are spread over
_CLIENT_WORDS = (
    "account|author|camera|client|customer|device|driver|household|hospital|member|node|owner|participant|patient|"
    "person|phone|player|sensor|site|station|subject|user|vehicle|watch|worker|writer"
)
_CLIENT_NAME = re.compile(rf"(?:{_CLIENT_WORDS})s?(?:[ _.-]?\w*[0-9]\w*|[ _.-][a-z])", re.IGNORECASE)  # user_7, node b
_DATE_IN_NAME = re.compile(
    r"(?<![0-9])((?:19|20)[0-9]{2})[-_.]?([01][0-9])[-_.]?([0-3][0-9])"
    r"(?:[T_ .-]*([0-2][0-9])[-_.h:]?([0-5][0-9])[-_.m:]?([0-5][0-9])?)?"
)


def find_images(folder: Path, layout: str | None = None, *, on_note: OnNote = ignore_note) -> FoundImages:
    """Find the images of a folder laid out as ``<class>/<image>`` (a pool) or ``<client>/<class>/<image>`` (a trace).

    Files with other suffixes, and files and folders beside those of the layout, are passed over and counted. Without a
    ``layout`` it is seen from where the images lie; what was understood is told in a note. Folders that are called like
    clients but hold images themselves would have a model learn who took an image: they are refused, unless the layout
    says that they are classes.

    Raises :class:`FileFormatError` if the folder cannot be read, holds no image, or leaves open what its folders are.
    """
    if layout is not None and layout not in LAYOUTS:
        raise unknown_name("layout", layout, LAYOUTS)
    places = _list_folder(folder)
    outer = {place: _list_folder(place) for place in places if place.is_dir()}
    inner = {one: _list_folder(one) for inside in outer.values() for one in inside if one.is_dir()}
    shallow = [path for inside in outer.values() for path in inside if _is_image(path)]
    deep = [path for inside in inner.values() for path in inside if _is_image(path)]
    if layout is None and shallow and len(deep) > len(shallow):
        raise FileFormatError(
            f"{folder} holds {len(shallow)} images as <folder>/<image> and {len(deep)} one folder deeper; "
            f'set trace.layout to "{BY_CLASS}" or "{BY_CLIENT}", and the others are passed over'
        )
    is_by_client = layout == BY_CLIENT or (layout is None and not shallow)
    files = deep if is_by_client else shallow
    if not files:
        raise _no_images(folder, [place for place in places if not place.is_dir()], layout)
    n_seen = len(places) - len(outer) + sum(map(len, outer.values()))
    n_ignored = n_seen + sum(map(len, inner.values())) - len(inner) - len(deep) if is_by_client else n_seen - len(files)
    classes, y = _encode([path.parent.name for path in files])
    if not is_by_client:
        _check_classes(folder, [place.name for place, inside in outer.items() if any(map(_is_image, inside))], layout)
        if layout is None:
            on_note(
                f"the {len(classes)} folders of {folder} are taken for classes ({_some(classes)}); if they are "
                "clients, lay images out as <client>/<class>/<image>"
            )
        return FoundImages(images=ImageList(files=tuple(files)), y=y, classes=classes, n_ignored=n_ignored)
    clients, codes = _encode([path.parent.parent.name for path in files])
    time, words = _times_of(files, codes, y)
    on_note(
        f"{folder} is taken for <client>/<class>/<image>: {len(clients)} clients ({_some(clients)}), {len(classes)} "
        f"classes ({_some(classes)}); {words}"
    )
    ids, client = sort_ids(parse_ids(clients), codes)
    trace = Trace(client_ids=tuple(ids), client=client, time=time, y=y, classes=classes)
    return FoundImages(images=ImageList(files=tuple(files)), y=y, classes=classes, n_ignored=n_ignored, trace=trace)


def _no_images(folder: Path, beside: Sequence[Path], layout: str | None) -> FileFormatError:
    n_flat = sum(map(_is_image, beside))
    if n_flat:
        return FileFormatError(
            f"{n_flat} images lie directly in {folder}; put them into one folder per class, or list them in a CSV "
            "with file,label"
        )
    wanted = f"<{layout.replace('/', '>/<')}>" if layout else "<class>/<image> or <client>/<class>/<image>"
    wanted = f"lay images out as {wanted} with one of the suffixes {', '.join(sorted(SUFFIXES))}"
    return FileFormatError(f"{folder} holds no images ({len(beside)} other files); {wanted}")


def _encode(names: Sequence[str]) -> tuple[tuple[str, ...], Codes]:
    """Return the distinct names in rising order, and the place of each among them."""
    place_of = {name: at for at, name in enumerate(dict.fromkeys(names))}
    codes = np.fromiter(map(place_of.__getitem__, names), dtype=np.int32, count=len(names))
    return sort_classes(list(place_of), codes)


def _check_classes(folder: Path, names: Sequence[str], layout: str | None) -> None:
    """Raise if folders that would be classes are called like clients, unless the user said that they are classes."""
    if layout is None and all(map(_CLIENT_NAME.fullmatch, names)):
        raise FileFormatError(
            f"the folders of {folder} ({_some(names)}) are called like clients, not like classes, and models would "
            "learn to tell clients apart; lay images out as <client>/<class>/<image> or <class>/<image>, list them in "
            f'index.csv with file,label,client,time, or set trace.layout = "{BY_CLASS}" if they are classes'
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _times_of(files: Sequence[Path], client: Codes, y: Codes) -> tuple[Vector, str]:
    """Return when images came, and in words how that is known.

    By the dates in their names, if all have one. Else each client's images are spread over ten days: in the order of
    the numbers in their names, if one numbering goes through all classes of each client; else evenly within each class,
    so that no drift is made up. Times of change are not asked: copies have other ones.
    """
    dates = [_DATE_IN_NAME.search(path.stem) for path in files]
    try:
        parts = [[int(part or 0) for part in date.groups()] for date in dates if date]
        moments = [datetime(one[0], one[1], one[2], one[3], one[4], one[5], tzinfo=UTC) for one in parts]
    except ValueError:  # a month 13, an hour 25: digits that are no date
        moments = []
    if len(moments) == len(files):
        return np.array([one.timestamp() for one in moments]), "times are the dates in the names of the images"
    numbers = [[int(part) for part in re.findall("[0-9]+", path.stem)] for path in files]
    patterns = [re.sub("[0-9]+", "0", path.stem) for path in files]
    keys = list(zip(client.tolist(), map(tuple, numbers), strict=True))
    has_numbering = all(numbers) and len(set(keys)) == len(files)
    has_numbering = has_numbering and len(set(zip(client.tolist(), patterns, strict=True))) == len(set(client.tolist()))
    group = client if has_numbering else _encode([f"{one} {label}" for one, label in zip(client, y, strict=True)])[1]
    order = sorted(range(len(files)), key=lambda at: (int(group[at]), numbers[at], files[at].name))
    rank = np.empty(len(files))
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    rank[order] = np.arange(len(files)) - starts[group[order]]
    time = np.floor(rank / sizes[group] * N_PARTS) * DAY
    how = "in the order of the numbers in their names" if has_numbering else "each class evenly, as no order is known"
    return time, f"no times are known, so each client's images are spread over {N_PARTS} days, {how}"


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and path.is_file()


def _list_folder(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from None


def image_folder(
    folder: Path,
    decoding: Decoding = DEFAULT_DECODING,
    *,
    layout: str | None = None,
    narrow: Narrow | None = None,
    on_note: OnNote = ignore_note,
) -> Pool | Trace:
    """Return the images of a folder (:func:`find_images`) as a pool or a trace whose features are mapped from disk."""
    return _decode_found(find_images(folder, layout, on_note=on_note), decoding, narrow)


def _decode_found(found: FoundImages, decoding: Decoding, narrow: Narrow | None) -> Pool | Trace:
    if found.trace is None:
        return Pool(x=_decode(found.images, decoding), y=found.y, classes=found.classes)
    return attach_images(found.trace, found.images, decoding=decoding, narrow=narrow)


def _decode(images: ImageList, decoding: Decoding) -> Array:
    return cache_images(images, decoding.spec, folder=decoding.folder, on_images=decoding.on_images)


def image_index(
    path: Path,
    decoding: Decoding = DEFAULT_DECODING,
    *,
    columns: Columns = DEFAULT_COLUMNS,
    narrow: Narrow | None = None,
    on_note: OnNote = ignore_note,
) -> Pool | Trace:
    """Return the images that a CSV file lists in the columns ``file,label`` and maybe ``client,time``.

    A trace if the list has clients and times, else a pool; the features are mapped from disk. Files are relative to the
    folder of the list and must lie in it: no ``..``, no way out over a symbolic link. ``narrow`` leaves out rows of a
    trace before anything is decoded. Errors name the line or the file.
    """
    return _decode_found(read_image_list(path, columns, on_note=on_note), decoding, narrow)


def is_image_list(path: Path) -> bool:
    """Return whether a file is a CSV file that lists images: its column ``file`` begins with an image, or a file."""
    if path.suffix == ".npz" or is_parquet(path) or FILE not in (table := open_table(path)).header:
        return False
    first = next(table.chunks(), None)
    name = "" if first is None else first[0][table.header.index(FILE)]
    try:
        return Path(name).suffix.lower() in SUFFIXES or (path.parent / name).is_file()
    except (OSError, ValueError):  # a text that no file can have for a name
        return False


def read_image_list(path: Path, columns: Columns = DEFAULT_COLUMNS, *, on_note: OnNote = ignore_note) -> FoundImages:
    """Find the images that a CSV file lists; see :func:`image_index`."""
    table = open_table(path)
    owners = (columns.client, columns.time)
    is_named = owners != (DEFAULT_COLUMNS.client, DEFAULT_COLUMNS.time)
    there = [name in table.header for name in owners]
    if not is_named and any(there) != all(there):
        shown = " and ".join(echo(name) for name in owners)
        raise FileFormatError(f"{table.path} has only one of the columns {shown}; give both or none")
    is_trace = is_named or all(there)  # columns that the user named must be there
    file, label, client = NameColumn(), NameColumn(), NameColumn()
    time = NumberColumn(time_parser())
    wanted: list[tuple[str, CsvColumn]] = [(FILE, file), (columns.label, label)]
    wanted += [(columns.client, client), (columns.time, time)] if is_trace else []
    fill_columns(table, [(table.position(name), column) for name, column in wanted], None)
    check_printable(table, table.position(columns.label), label)
    classes, y = sort_classes(label.names(), label.codes())
    with naming(path):
        check_labels(columns.label, classes, y.size)
    root, distinct = path.parent.resolve(), []
    for code, name in enumerate(file.names()):
        if reason := reason_against(root, name):
            raise table.mistake(int(np.argmax(file.codes() == code)), FILE, got=name, wanted=reason)
        distinct.append(root / name)
    images = ImageList(files=tuple(distinct[code] for code in file.codes().tolist()))
    if not is_trace:
        return FoundImages(images=images, y=y, classes=classes)
    check_printable(table, table.position(columns.client), client)
    ids, codes = sort_ids(parse_ids(client.names()), client.codes())
    seconds, note = epoch_seconds(time.values(), name=columns.time)
    if note is not None:
        on_note(note)
    trace = Trace(client_ids=tuple(ids), client=codes, time=seconds, y=y, classes=classes)
    return FoundImages(images=images, y=y, classes=classes, trace=trace)


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


def images_below(root: Path, names: Sequence[str], *, kind: str = "image", boxes: Counts | None = None) -> ImageList:
    """Return the images of these names below a folder, or raise if one is not there or leads out of it."""
    for name in dict.fromkeys(names):
        if reason := reason_against(root, name):
            raise FileFormatError(f"{root}: {kind} {echo(name)} is {reason}")
    return ImageList(files=tuple(root / name for name in names), boxes=boxes)


def attach_images(trace: Trace, images: ImageList, *, decoding: Decoding, narrow: Narrow | None = None) -> Trace:
    """Return a trace whose features are images, one per row; what ``narrow`` leaves out is not decoded."""
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
    return replace(trace, x=_decode(kept, decoding))
