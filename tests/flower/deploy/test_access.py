"""Servers that answer processes of some users alone, whatever a request says about itself."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from fielding.flower.deploy.access import (
    HEADER,
    Receive,
    Scope,
    Send,
    can_tell_users,
    restrict_servers,
    user_by_list,
    user_by_question,
)
from tests.flower.strangers import LOOPBACK, OTHER_USER, ask

uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed; it comes with fielding[flower]")
pytestmark = pytest.mark.skipif(not can_tell_users(), reason="this system does not say whose a connection is")

Serve = Callable[..., int]


async def hello(scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer everything."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that serves for some users and returns the port."""

    def begin(*users: int) -> int:
        with monkeypatch.context() as patched:
            patched.setattr(uvicorn.Config, "__init__", uvicorn.Config.__init__)
            restrict_servers(users)
            config = uvicorn.Config(app=hello, port=0, ws="none", lifespan="off", log_level="error")
        return stack.enter_context(_serving(config))

    with ExitStack() as stack:
        yield begin


@contextmanager
def _serving(config: Any) -> Iterator[int]:
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("user_of", [user_by_question, user_by_list])
def test_the_system_says_whose_a_connection_is(
    user_of: Callable[[tuple[str, int], tuple[str, int]], int | None],
) -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        server = listener.getsockname()
        with socket.create_connection(server) as connection, listener.accept()[0]:
            client = connection.getsockname()

            assert user_of(client, server) == os.getuid()
            assert user_of((LOOPBACK, 1), server) is None
            assert user_of(client, (LOOPBACK, 1)) is None
            assert user_of(server, (LOOPBACK, 1)) is None  # somebody listens there, but is not connected
            assert user_of(("::1", client[1]), server) is None
        assert user_of(client, server) is None  # it has ended


def test_processes_of_the_user_are_answered_and_told_who_is(serve: Serve) -> None:
    answer = ask(serve(os.getuid(), 4294967), "/")

    assert (answer.status, answer.body) == (200, b"hello")
    assert f"{HEADER}: {os.getuid()},4294967" in answer.head


def test_processes_of_others_are_refused(serve: Serve) -> None:
    port = serve(os.getuid() + 1)

    assert ask(port, "/").status == 403
    if os.geteuid() == 0:  # who else could take the place of another?
        own = serve(0)
        assert ask(own, "/", user=OTHER_USER).status == 403
        assert ask(own, "/").status == 200


def test_what_a_request_says_about_its_origin_counts_for_nothing(serve: Serve) -> None:
    """Servers of this kind take the origin from headers, unless they are told not to."""
    port = serve(os.getuid())
    with socket.create_connection((LOOPBACK, port)) as ours:
        ours_at = f"{LOOPBACK}:{ours.getsockname()[1]}"

        for claim in ({"X-Forwarded-For": f"{LOOPBACK}:1"}, {"Forwarded": f'for="{LOOPBACK}:1"'}):
            assert ask(port, "/", headers=claim).status == 200
        if os.geteuid() == 0:
            assert ask(port, "/", headers={"X-Forwarded-For": ours_at}, user=OTHER_USER).status == 403
