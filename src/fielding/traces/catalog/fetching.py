"""Download what may be downloaded freely, check it, and turn it into a file of the catalog: whole or not at all."""

import csv
import gzip
import hashlib
import http.client
import io
import math
import ssl
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

import numpy as np

from fielding._typing import Features
from fielding.errors import FieldingError, FileFormatError, OptionError, OutputError
from fielding.traces.catalog import entry_named
from fielding.traces.npz_file import Array, write_arrays

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
LARGEST_FEATURE = 5.0  # standardized features beyond this are cut off


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
        "x": _standardize(np.concatenate(x)),
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
        active = [at for at, place in enumerate(labels) if cells[place] and float(cells[place]) == 1.0]
        if len(active) == 1:
            numbers = [float(cells[at]) if cells[at] else math.nan for at in chosen]
            rows.append([*numbers, float(active[0]), float(cells[when])])
    return tuple(header[at] for at in chosen), np.array(rows, dtype=np.float64).reshape(-1, len(chosen) + 2)


def _standardize(x: Array) -> Features | Array:
    """Return features of mean 0 and spread 1 over all minutes, cut off at 5, as float16; a missing one is 0."""
    is_known = np.isfinite(x)
    n_known = np.maximum(is_known.sum(axis=0), 1)
    mean = np.where(is_known, x, 0.0).sum(axis=0) / n_known
    centered = np.where(is_known, x - mean, 0.0)
    spread = np.sqrt((centered * centered).sum(axis=0) / n_known)
    scaled = centered / np.where(spread > 0.0, spread, 1.0)
    return np.clip(scaled, -LARGEST_FEATURE, LARGEST_FEATURE).astype(np.float16)


Convert: TypeAlias = Callable[[dict[str, Path]], Arrays]  # turns downloaded files, by name, into arrays


TIMEOUT = 30.0  # seconds without an answer after which a server counts as out of reach
LARGEST_FILE = 4 << 30
_CHUNK = 1 << 18

OnBytes: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the name of a file, how much of it is there, and how long it is if the server says so."""


class FetchError(FieldingError, OSError):
    """Something could not be downloaded; nothing was left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file on a public server.

    ``digest``: what the publisher says its bytes hash to, as ``"md5:..."`` or ``"sha256:..."``; None if nothing is
    published: then only the checksums inside the archive tell damage.
    """

    url: str
    digest: str | None
    size: int | None = None

    @property
    def name(self) -> str:
        """The last part of the address."""
        return urlsplit(self.url).path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a file of the catalog is made from public ones; ``convert`` makes its arrays."""

    files: tuple[RemoteFile, ...]
    convert: Convert


_FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"

RECIPES: dict[str, Recipe] = {
    "fashion_mnist": Recipe(
        files=tuple(
            RemoteFile(url=f"{_FASHION}/{name}", digest=f"md5:{digest}")
            for name, digest in (
                ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
                ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
                ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
            )
        ),
        convert=fashion_mnist_arrays,
    ),
    "cifar100": Recipe(
        files=(
            RemoteFile(
                url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                digest="md5:03b5dce01913d631647c71ecec9e9cb8",
            ),
        ),
        convert=cifar100_arrays,
    ),
    "extrasensory": Recipe(
        files=(
            RemoteFile(
                url="http://extrasensory.ucsd.edu/data/primary_data_files/ExtraSensory.per_uuid_features_labels.zip",
                digest=None,
            ),
        ),
        convert=extrasensory_arrays,
    ),
}
"""The data sets that can be fetched; the digests are the ones that their publishers give."""


def fetch(
    name: str, folder: Path, *, recipes: Mapping[str, Recipe] = RECIPES, on_bytes: OnBytes | None = None
) -> tuple[Path, bool]:
    """Download a data set, check it and write it into a folder; if it is there already, nothing is done.

    Returns the file, and whether it is new. Raises :class:`OptionError` if the data set is unknown or must be got by
    hand, :class:`FetchError` if a server is out of reach or a checksum differs; nothing is left behind.
    """
    entry = entry_named(name)
    if name not in recipes:
        can = ", ".join(sorted(recipes))
        raise OptionError(f"{name} cannot be fetched: {entry.how_to_get}. Fetched can be: {can}")
    target = folder / entry.files[0]
    if target.exists():
        return target, False
    made = [place for place in (folder, *folder.parents) if not place.exists()]  # the innermost first
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    try:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
            files = {one.name: download(one, Path(scratch), on_bytes=on_bytes) for one in recipes[name].files}
            try:
                arrays = recipes[name].convert(files)
            except FileFormatError as error:
                raise FetchError(str(error)) from None
            write_arrays(target, arrays, compress=True)
    except BaseException:
        for place in made:
            with suppress(OSError):
                place.rmdir()
        raise
    return target, True


def download(remote: RemoteFile, folder: Path, *, on_bytes: OnBytes | None = None) -> Path:
    """Download a file into a folder, or raise :class:`FetchError` if it cannot be had, or length or digest differ."""
    path = folder / remote.name
    kind, _, wanted = (remote.digest or "sha256:").partition(":")
    digest = hashlib.new(kind, usedforsecurity=False)
    try:
        with _open_address(remote.url) as answer, path.open("wb") as file:
            announced = answer.headers.get("Content-Length", "")
            is_plain = announced.isdigit() and not answer.headers.get("Content-Encoding")
            total = remote.size if remote.size is not None else int(announced) if is_plain else None
            n_bytes = 0
            while chunk := answer.read(_CHUNK):
                n_bytes += len(chunk)
                if n_bytes > (LARGEST_FILE if total is None else total):
                    raise FetchError(f"{remote.url} sends more than the {total or LARGEST_FILE} bytes it should have")
                try:
                    file.write(chunk)
                except OSError as error:
                    raise OutputError(f"cannot write {file.name}: {error.strerror or error}") from error
                digest.update(chunk)
                if on_bytes is not None:
                    on_bytes(remote.name, n_bytes, total)
    except (FetchError, OutputError):
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchError(_reason(remote, error)) from None
    if total is not None and n_bytes < total:
        raise FetchError(f"{remote.url} broke off after {n_bytes} of {total} bytes; try again")
    if wanted and digest.hexdigest() != wanted:
        raise FetchError(
            f"{remote.url} has the {kind} {digest.hexdigest()}, not {wanted}; it is refused, try again later"
        )
    return path


def _reason(remote: RemoteFile, error: Exception) -> str:
    """Return one line about why a download failed and what to do."""
    if isinstance(error, HTTPError):
        error.close()
        return f"{remote.url} answers {error.code} {error.reason}; try again later"
    why: object = error.reason if isinstance(error, URLError) else error
    if isinstance(why, ssl.SSLCertVerificationError):
        return f"{remote.url} has no valid certificate ({why.verify_message}); nothing was fetched"
    text = getattr(why, "strerror", None) or why or type(error).__name__
    return f"cannot fetch {remote.url} ({text}); are you on-line? Nothing was left behind"


class _SafeRedirects(request.HTTPRedirectHandler):
    """Follows redirects to web servers only, and never from an encrypted connection to a plain one."""

    def redirect_request(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> request.Request | None:
        schemes = ("https",) if req.type == "https" else ("http", "https")
        if urlsplit(newurl).scheme not in schemes:
            fp.close()
            raise FetchError(
                f"{req.full_url} leads to {newurl}, which is refused; only {' or '.join(schemes)} is followed"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open_address(url: str) -> http.client.HTTPResponse:
    """Open an address of a web server; files and other protocols are not even known here."""
    opener = request.OpenerDirector()
    handlers = (
        request.ProxyHandler,
        request.UnknownHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPErrorProcessor,
        _SafeRedirects,
    )
    for handler in handlers:
        opener.add_handler(handler())
    answer: http.client.HTTPResponse = opener.open(url, timeout=TIMEOUT)
    return answer
