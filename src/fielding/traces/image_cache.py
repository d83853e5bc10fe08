"""Decoded images on disk: written once, mapped into memory, never held as a whole."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fielding._extras import install_words
from fielding._typing import Counts
from fielding.atomic import replaced_file
from fielding.errors import FileFormatError, InputError, OptionError, OutputError, echo
from fielding.traces.npz_file import Array

if TYPE_CHECKING:
    from PIL import Image

CHUNK = 256
"""Images that are decoded, and held in memory, at a time; fewer if they are large."""
LARGEST_CHUNK = 64 << 20
"""Bytes of decoded images at a time."""
LARGEST_SIDE = 4096
_VERSION = b"fielding images 1"
_THREADS = 4

OnImages = Callable[[int, int], None]
"""Called with how many images are done and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpec:
    """What every image is turned into, whatever its own size and colors.

    Parameters
    ----------
    size
        Height and width in pixels; images of other shapes are stretched to it.
    channels
        3 for red, green and blue, 1 for gray. Transparency is dropped.
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

    Parameters
    ----------
    files
        Where each image is; a file may stand several times, best in a row.
    boxes
        Left, top, right and bottom of what is cut out, in pixels, shape ``(n_images, 4)``; None for whole images.
    """

    files: tuple[Path, ...]
    boxes: Counts | None = None


def cache_folder(kind: str) -> Path:
    """Return the folder below ``XDG_CACHE_HOME`` (or ``~/.cache``) where Fielding keeps things of this kind."""
    named = os.environ.get("XDG_CACHE_HOME")
    return (Path(named) if named else Path.home() / ".cache") / "fielding" / kind


def cached_images(
    images: ImageList, spec: ImageSpec = DEFAULT_SPEC, *, folder: Path | None = None, on_images: OnImages | None = None
) -> Array:
    """Return the images as one array of bytes that is mapped from disk, shape ``(n_images, size, size[, 3])``.

    The first call decodes every image, a chunk at a time, and writes the array; later ones map it. The array belongs to
    the paths, sizes and times of change of the files, to the boxes and to the spec; if any of these changes, a new one
    is written.

    Parameters
    ----------
    images
        Which images.
    spec
        What they are turned into.
    folder
        Where the array is kept; None for ``~/.cache/fielding/images``.
    on_images
        Told about progress.

    Raises
    ------
    FileFormatError
        If an image cannot be read; nothing is written then.
    OutputError
        If the array cannot be written.
    """
    folder = cache_folder("images") if folder is None else folder
    path = folder / f"{_key(images, spec)}.npy"
    shape = (len(images.files), *spec.shape)
    kept = _mapped(path, shape)
    if kept is not None:
        return kept
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the image cache {folder}: {error.strerror or error}") from error
    _clear_leftovers(path)
    with replaced_file(path) as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for n_done, chunk in _decoded(images, spec):
            file.write(chunk.data)
            if on_images is not None:
                on_images(n_done, shape[0])
    written = _mapped(path, shape)
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


def _mapped(path: Path, shape: tuple[int, ...]) -> Array | None:
    """Return the array of a cache file, or None if it is missing or damaged."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array if isinstance(array, np.ndarray) and array.shape == shape and array.dtype == np.uint8 else None


def _clear_leftovers(path: Path) -> None:
    """Remove what processes that were killed while writing this cache file have left behind."""
    for scratch in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(OSError, ValueError):
            try:
                os.kill(int(scratch.suffixes[-2][1:]), 0)
            except ProcessLookupError:
                scratch.unlink()


def _decoded(images: ImageList, spec: ImageSpec) -> Iterator[tuple[int, Array]]:
    """Yield decoded chunks with the number of images done; files that stand in a row are opened once a chunk."""
    from_pillow = _pillow()
    step = max(1, min(CHUNK, LARGEST_CHUNK // int(np.prod(spec.shape))))
    with ThreadPoolExecutor(max_workers=min(_THREADS, os.cpu_count() or 1)) as threads:
        for start in range(0, len(images.files), step):
            places = range(start, min(start + step, len(images.files)))
            groups = [list(group) for _, group in groupby(places, key=images.files.__getitem__)]
            parts = threads.map(lambda group: _decode_file(from_pillow, images, group, spec), groups)
            yield places.stop, np.concatenate(list(parts))


def _pillow() -> Callable[[Path], "Image.Image"]:
    """Return the function that opens an image, or say what to install."""
    try:
        from PIL import Image
    except ImportError:
        raise InputError(f"images are decoded by Pillow, which is missing; {install_words('images')}") from None
    return Image.open


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
