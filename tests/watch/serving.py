"""A live page served on this machine, in a thread of the test, and what one can ask it."""

import contextlib
import gzip
import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import uvicorn

from fielding._typing import Json
from fielding.watch.application import application
from fielding.watch.connections import MOST_CONNECTIONS, REQUEST_S, bounded_connections
from fielding.watch.live_page import LivePage
from fielding.watch.server import open_listener, server_config

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back: names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        """The content as JSON."""
        found: Json = json.loads(self.body)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that runs."""

    port: int

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{HOST}:{self.port}/"

    def ask(self, path: str = "/", *, method: str = "GET", **headers: str) -> Answer:
        """Ask for a path as it is written; underscores in names of headers are hyphens."""
        return self.ask_raw(path, method, {name.replace("_", "-"): value for name, value in headers.items()})

    def ask_raw(self, path: str, method: str, headers: Mapping[str, str]) -> Answer:
        """Ask with any headers."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=20)
        with contextlib.closing(connection):
            is_own = "host" in {name.lower() for name in headers}
            connection.putrequest(method, path, skip_host=is_own, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            got = connection.getresponse()
            body = got.read()
        known = {name.lower(): value for name, value in got.getheaders()}
        if known.get("content-encoding") == "gzip" and body:
            body = gzip.decompress(body)
        return Answer(status=got.status, headers=known, body=body)

    def client(self, run: str, client: str) -> Answer:
        """Ask for a client."""
        return self.ask(f"/client?{urlencode({'run': run, 'id': client})}")


@contextlib.contextmanager
def serving(
    folders: Sequence[Path], token: str | None = None, *, most: int = MOST_CONNECTIONS, request_s: float = REQUEST_S
) -> Iterator[Served]:
    """Serve some folders."""
    app = application(LivePage(folders), token=token)
    server = uvicorn.Server(server_config(app, bounded_connections(most, request_s)))
    with open_listener(HOST, 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Served(port=listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()
