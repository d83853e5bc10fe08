"""Serves the live page, on this machine alone unless a token is given."""

import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from fielding._extras import require
from fielding.errors import OptionError, OutputError, echo
from fielding.watch.access import is_loopback
from fielding.watch.connections import MOST_HEADER_BYTES, bounded_connections
from fielding.watch.live_page import LivePage

if TYPE_CHECKING:
    import asyncio

    import uvicorn
    from starlette.types import ASGIApp

DEFAULT_PORT = 8707
FEWEST_TOKEN_CHARACTERS = 16


def serve_page(
    folders: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    on_ready: Callable[[str], None] = lambda _address: None,
) -> int:
    """Serve the live page until a signal comes, and return which.

    ``folders``: of runs or comparisons; they may not be there yet. ``host``, ``port``: where to listen; port 0 takes
    any that is free. ``token``: what a browser must know; needed if others than this machine can reach the host.
    ``on_ready``: told the address of the page as soon as it can be opened. OptionError if other machines could see the
    page without a token, or the package that serves is missing. OutputError if the port cannot be listened on.
    """
    check_exposure(host, token)
    require("watch")
    import uvicorn

    from fielding.watch.application import application

    app = application(LivePage(folders), token=token)
    with open_listener(host, port) as listener:
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listener.getsockname()[1]}/")
        server = uvicorn.Server(server_config(app, bounded_connections()))
        received = [signal.SIGINT.value]

        def note(number: int, _frame: FrameType | None) -> None:
            received.append(number)
            server.force_exit = server.should_exit  # a second one ends it at once
            server.should_exit = True

        # Left to itself, the server raises the signal once more, which an ignored Ctrl-C would swallow.
        server.handle_exit = note  # type: ignore[assignment, method-assign]
        server.run(sockets=[listener])
        return received[-1]


def server_config(app: "ASGIApp", connections: "type[asyncio.Protocol]") -> "uvicorn.Config":
    """Return how a page is served: what is invalid is not logged, and headers have a longest length."""
    import uvicorn

    return uvicorn.Config(
        app, http=connections, h11_max_incomplete_event_size=MOST_HEADER_BYTES, ws="none", lifespan="off",
        log_level="error", access_log=False, server_header=False, proxy_headers=False, timeout_graceful_shutdown=2,
    )  # fmt: skip


def check_exposure(host: str, token: str | None) -> None:
    """Raise if other machines could see the page without knowing a token worth the name.

    Examples
    --------
    >>> check_exposure("127.0.0.1", None)
    >>> try:
    ...     check_exposure("0.0.0.0", None)
    ... except OptionError as error:
    ...     print(error)
    0.0.0.0 can be reached by other machines; give a --token that a browser must know, or listen on 127.0.0.1
    """
    if token is not None and len(token) < FEWEST_TOKEN_CHARACTERS:
        raise OptionError(f"the token has {len(token)} characters; give at least {FEWEST_TOKEN_CHARACTERS}")
    if token is None and not is_loopback(host):
        raise OptionError(
            f"{host or 'every address'} can be reached by other machines; give a --token that a browser must know, "
            "or listen on 127.0.0.1"
        )


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens, before the server is built: a port that is taken is told at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, ValueError) as error:  # names of hosts can be too long to be encoded
        reason = getattr(error, "strerror", None) or error
        raise OutputError(
            f"cannot listen on {echo(host)}, port {port}: {reason}; name another --port, or 0 for any that is free"
        ) from error
