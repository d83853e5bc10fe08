"""Download what may be downloaded freely, check it, and turn it into a file of the catalog: whole or not at all."""

import hashlib
import http.client
import ssl
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from fielding.errors import FieldingError, FileFormatError, OptionError, OutputError
from fielding.traces.catalog import entry_named
from fielding.traces.npz_file import write_arrays
from fielding.traces.published import Arrays, Convert, cifar100_arrays, extrasensory_arrays, fashion_mnist_arrays

TIMEOUT = 30.0
"""Seconds without an answer after which a server counts as out of reach."""
LARGEST_FILE = 4 << 30
_CHUNK = 1 << 18

OnBytes: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the name of a file, how much of it is there, and how long it is if the server says so."""


class FetchError(FieldingError, OSError):
    """Something could not be downloaded; nothing was left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file on a public server.

    Parameters
    ----------
    url
        Where it is: http or https.
    digest
        What the publisher says its bytes hash to, as ``"md5:..."`` or ``"sha256:..."``; None if nothing is published:
        then only the checksums inside the archive tell damage.
    size
        Its exact length in bytes; None if not known.
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
    """How a file of the catalog is made from public ones.

    Parameters
    ----------
    files
        What is downloaded.
    convert
        Makes the arrays of the catalog's file.
    """

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

    Parameters
    ----------
    name
        A data set of the catalog that has a recipe.
    folder
        Where it goes; made if needed.
    recipes
        How data sets are made from public files.
    on_bytes
        Told about progress.

    Returns
    -------
    The file, and whether it is new.

    Raises
    ------
    OptionError
        If the data set is unknown or must be got by hand; the message says how.
    FetchError
        If a server is out of reach or a checksum differs. Nothing is left behind.
    """
    entry = entry_named(name)
    if name not in recipes:
        can = ", ".join(sorted(recipes))
        raise OptionError(f"{name} cannot be fetched: {entry.how_to_get}. Fetched can be: {can}")
    target = folder / entry.files[0]
    if target.exists():
        return target, False
    made = _made_folders(folder)
    try:
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
            files = {one.name: download(one, Path(scratch), on_bytes=on_bytes) for one in recipes[name].files}
            write_arrays(target, _converted(recipes[name], files), compress=True)
    except BaseException:
        for place in made:
            with suppress(OSError):
                place.rmdir()
        raise
    return target, True


def _converted(recipe: Recipe, files: dict[str, Path]) -> Arrays:
    try:
        return recipe.convert(files)
    except FileFormatError as error:
        raise FetchError(str(error)) from None


def _made_folders(folder: Path) -> list[Path]:
    """Make a folder and return those that were missing, the innermost first."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    return missing


def download(remote: RemoteFile, folder: Path, *, on_bytes: OnBytes | None = None) -> Path:
    """Download a file into a folder and check its length and its digest.

    Raises
    ------
    FetchError
        If the server is out of reach, answers with an error, sends too little or too much, or the digest differs.
    """
    path = folder / remote.name
    kind, _, wanted = (remote.digest or "sha256:").partition(":")
    digest = hashlib.new(kind, usedforsecurity=False)
    try:
        with _opened(remote.url) as answer, path.open("wb") as file:
            total = remote.size if remote.size is not None else _length(answer)
            n_bytes = 0
            while chunk := answer.read(_CHUNK):
                n_bytes += len(chunk)
                if n_bytes > (LARGEST_FILE if total is None else total):
                    raise FetchError(f"{remote.url} sends more than the {total or LARGEST_FILE} bytes it should have")
                _write(file, chunk)
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


def _write(file: IO[bytes], chunk: bytes) -> None:
    try:
        file.write(chunk)
    except OSError as error:
        raise OutputError(f"cannot write {file.name}: {error.strerror or error}") from error


def _length(answer: IO[bytes]) -> int | None:
    """Return the length that a server announces."""
    headers = getattr(answer, "headers", {})
    text = headers.get("Content-Length", "")
    return int(text) if text.isdigit() and not headers.get("Content-Encoding") else None


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

    def redirect_request(  # noqa: PLR0913 - the signature is urllib's
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> request.Request | None:
        schemes = ("https",) if req.type == "https" else ("http", "https")
        if urlsplit(newurl).scheme not in schemes:
            fp.close()
            raise FetchError(
                f"{req.full_url} leads to {newurl}, which is refused; only {' or '.join(schemes)} is followed"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(url: str) -> http.client.HTTPResponse:
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
