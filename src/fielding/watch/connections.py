"""Bounds on connections to the live page, kept before anything of a request is looked at, its token included."""

import asyncio
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 100
MOST_HEADER_BYTES = 16 << 10
REQUEST_S = 10.0  # within which a connection must have sent a whole request, after it was opened or answered


def bounded_connections(most: int = MOST_CONNECTIONS, request_s: float = REQUEST_S) -> "type[H11Protocol]":
    """Return the protocol of a server that closes connections which wait too long, or are too many.

    A connection waits unless it is being answered. One too many costs the one that has waited longest its place, so
    that those who hold many open without asking keep nobody out.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    turns = count()  # a clock of the loop may give many connections the same time

    class Connection(H11Protocol):
        """A connection that knows since when it waits."""

        waits_since = 0
        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.wait()
            if len(self.connections) > most:
                waiting = [one for one in self.connections if isinstance(one, Connection) and one.timer is not None]
                oldest = min(waiting, key=lambda one: one.waits_since)
                oldest.transport.abort()
                self.connections.discard(oldest)  # at once: it is lost only when other events have had their turn

        def handle_events(self) -> None:
            super().handle_events()
            if self.timer is not None and self.cycle is not None and not self.cycle.response_complete:
                self.timer.cancel()
                self.timer = None

        def on_response_complete(self) -> None:
            self.wait()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            if self.timer is not None:
                self.timer.cancel()
            super().connection_lost(exc)

        def wait(self) -> None:
            """Begin to wait for a request."""
            self.waits_since = next(turns)
            self.timer = self.loop.call_later(request_s, self.transport.abort)

    return Connection
