"""Connections that ask for nothing, too slowly or too much are closed before the token is looked at."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra watch is not installed")

from tests.watch.serving import HOST, Served, serving

TOKEN = "t" * 16
HALF = b"GET /record HTTP/1.1\r\nhost: 127.0.0.1\r\n"


@contextlib.contextmanager
def connected(served: Served, sent: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection((HOST, served.port), timeout=20) as one:
        one.sendall(sent)
        yield one


def is_closed(one: socket.socket) -> bool:
    """Wait until the server says something; return whether it closed without a word."""
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", HALF, HALF + b"\r\n" + HALF])
def test_half_a_request_is_not_waited_for_for_ever(tmp_path: Path, sent: bytes) -> None:
    with serving([tmp_path], TOKEN, request_s=1.0) as served, connected(served, sent) as one:
        if sent.count(b"GET") == 2:  # the first of them was whole, and is answered
            assert one.recv(12) == b"HTTP/1.1 401"
        with contextlib.suppress(ConnectionResetError):
            while one.recv(1 << 16):
                pass


def test_many_half_requests_keep_nobody_out(tmp_path: Path) -> None:
    with serving([tmp_path], TOKEN, most=10) as served, contextlib.ExitStack() as stack:
        assert served.ask("/").status == 401  # it listens
        held = [stack.enter_context(connected(served, HALF)) for _ in range(200)]

        assert served.ask("/", authorization=f"Bearer {TOKEN}").status == 200
        assert all(is_closed(one) for one in held[:150])


def test_headers_have_a_longest_length(tmp_path: Path) -> None:
    closed = contextlib.suppress(ConnectionError)  # perhaps while more is sent
    with serving([tmp_path], TOKEN) as served, connected(served) as one, closed:
        one.sendall(HALF + b"x: " + b"y" * 100_000)
        assert one.recv(12) in (b"HTTP/1.1 400", b"")


def test_requests_that_are_whole_are_answered_on_one_connection(tmp_path: Path) -> None:
    with serving([tmp_path], TOKEN) as served, connected(served) as one:
        for _ in range(3):
            one.sendall(HALF + b"\r\n")
            answer = one.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 401")
