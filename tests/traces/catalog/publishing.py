"""Data sets as their publishers pack them, but small, and a web server that hands them out."""

import gzip
import hashlib
import io
import struct
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from fielding.traces.catalog.fetching import ACTIVITIES

Pages = dict[str, bytes]


def idx(array: np.ndarray) -> bytes:
    """Return bytes in the format of MNIST."""
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes())


def fashion_files(n_train: int = 3, n_test: int = 2) -> Pages:
    """Return the four files of Fashion-MNIST; image number i is all i, its label i modulo 10."""
    pages = {}
    for part, numbers in (("train", np.arange(n_train)), ("t10k", n_train + np.arange(n_test))):
        images = np.broadcast_to(numbers[:, None, None], (numbers.size, 28, 28))
        pages[f"{part}-images-idx3-ubyte.gz"] = idx(images)
        pages[f"{part}-labels-idx1-ubyte.gz"] = idx(numbers % 10)
    return pages


def cifar_archive(n_train: int = 2, n_test: int = 1) -> bytes:
    """Return a binary CIFAR-100 archive; image i is 4 i + row in red, the column in green, and 7 in blue."""
    row, column = np.mgrid[:32, :32]
    content = {"fine_label_names.txt": "\n".join(f"class{code}" for code in range(100)).encode()}
    for part, numbers in (("train", range(n_train)), ("test", range(n_train, n_train + n_test))):
        records = [
            bytes([9, 10 + number])
            + np.stack([4 * number + row, column, np.full((32, 32), 7)]).astype(np.uint8).tobytes()
            for number in numbers
        ]
        content[f"{part}.bin"] = b"".join(records)
    return tar_gz({f"cifar-100-binary/{name}": raw for name, raw in content.items()})


def tar_gz(members: Pages) -> bytes:
    """Return a gzipped tar archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, raw in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return packed.getvalue()


def sensor_archive(people: dict[str, list[str]]) -> bytes:
    """Return an ExtraSensory archive with two features; rows are ``timestamp,f1,f2,`` and the six labels."""
    header = ",".join(["timestamp", "acc:mean", "acc:std", *(f"label:{name}" for name in ACTIVITIES), "label_source"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for person, rows in people.items():
            raw = gzip.compress("\n".join([header, *(f"{row},2" for row in rows)]).encode())
            archive.writestr(f"{person}-AAAA-BBBB.features_labels.csv.gz", raw)
    return packed.getvalue()


def md5(raw: bytes) -> str:
    """Return the digest as publishers give it."""
    return f"md5:{hashlib.md5(raw, usedforsecurity=False).hexdigest()}"


@contextmanager
def serving(pages: Pages, *, cut: int | None = None, redirects: dict[str, str] | None = None) -> Iterator[str]:
    """Serve pages on this machine and give the address; ``cut`` ends every answer after so many bytes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            if redirects and name in redirects:
                self.send_response(302)
                self.send_header("Location", redirects[name])
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif name in pages:
                self.send_response(200)
                self.send_header("Content-Length", str(len(pages[name])))
                self.end_headers()
                self.wfile.write(pages[name][:cut])
            else:
                self.send_error(404)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
