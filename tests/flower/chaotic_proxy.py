"""A proxy on loopback that loses connections, requests and answers, cuts them in flight and delays them.

It knows nothing of what goes through it, TLS as it is: what a client sends after it was answered is a request.
"""

import contextlib
import random
import select
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from fielding.flower.deploy.certificates import LOOPBACK

HANDSHAKE = 2  # times that a client sends something before its first request is whole
_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How likely it is that a request is lost, its answer is, or it is cut in half; and how long it may take more."""

    request_lost: float = 0.25
    response_lost: float = 0.25
    cut: float = 0.10
    delay_s: float = 2.0


class ChaoticProxy:
    """Listens on a port of its own and passes on to another one, as a block; calm until ``faults`` are set."""

    def __init__(self, to_port: int, seed: int) -> None:
        self.to_port, self.faults = to_port, Faults(request_lost=0.0, response_lost=0.0, cut=0.0, delay_s=0.0)
        self.happened: Counter[str] = Counter()
        self._draw, self._is_over = random.Random(seed), threading.Event()
        self._door = socket.create_server((LOOPBACK, 0))
        self._door.settimeout(_POLL_S)
        self.port: int = self._door.getsockname()[1]
        self._threads = [threading.Thread(target=self._listen, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in list(self._threads):
            thread.join()
        self._door.close()

    def _listen(self) -> None:
        while not self._is_over.is_set():
            try:
                client, _ = self._door.accept()
            except TimeoutError:
                continue
            self._threads = [self._threads[0], *(one for one in self._threads[1:] if one.is_alive())]
            self._threads.append(threading.Thread(target=self._pass_on, args=[client], daemon=True))
            self._threads[-1].start()

    def _happens(self, what: str) -> bool:
        is_so = self._draw.random() < float(getattr(self.faults, what))
        self.happened[what] += is_so
        return is_so

    def _pass_on(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.to_port)) as link:
            n_sent, was_answered, loses_answer = 0, True, False
            while not self._is_over.is_set():
                ready, _, _ = select.select([client, link], [], [], _POLL_S)
                for one in ready:
                    data = one.recv(65536)
                    if not data:
                        return
                    if one is link:
                        if loses_answer:
                            return
                        was_answered = True
                        client.sendall(data)
                        continue
                    n_sent += was_answered
                    if was_answered and n_sent >= HANDSHAKE:
                        self.happened["requests"] += 1
                        if self._happens("request_lost"):
                            return
                        loses_answer = self._happens("response_lost")
                        if self._happens("cut"):
                            return link.sendall(data[: len(data) // 2])
                        time.sleep(self._draw.uniform(0.0, self.faults.delay_s))
                    was_answered = False
                    link.sendall(data)
