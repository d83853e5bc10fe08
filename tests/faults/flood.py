"""Floods of reports at the embedded coordinator, and of answers and nodes at the Flower server (QUALITY.md R13).

Run as ``python -m tests.faults.flood``: prints a JSON object with counts, bytes and times; times are told, not judged.
"""

import json
import sys
import time
from contextlib import suppress

import numpy as np

from fielding.client.report import ClientReport
from fielding.coordinator import Coordinator, Policy
from fielding.errors import ReportError
from fielding.flower.server.exchange import Node
from fielding.flower.server.roster import Roster, identity_of
from tests.faults.soak import resident_bytes
from tests.flower import mail
from tests.flower.simulated_wire import describe, exchange_with

N_CLIENTS, WIDTH = 1000, 10


def report_of(client: int, draw: np.random.Generator) -> ClientReport:
    return ClientReport(client_id=client, representation=draw.multinomial(50, np.full(WIDTH, 1 / WIDTH)) / 50)


def flood_coordinator(n_reports: int, n_unknown: int) -> dict[str, float]:
    """Send reports of all clients between those of one that is loud, and of clients that nobody knows."""
    draw = np.random.default_rng(13)
    coordinator = Coordinator(Policy(), most_clients=N_CLIENTS)
    honest = [report_of(client, draw) for client in range(N_CLIENTS)]
    loud, accepted = report_of(0, draw), {"loud": 0, "unknown": 0, "honest": 0}
    before, seconds = 0, dict[str, list[float]](calm=[], flooded=[])

    def send(one: ClientReport, of: str) -> None:
        with suppress(ReportError):
            coordinator.receive(one)
            accepted[of] += 1

    for when in seconds:
        for at, one in enumerate(honest):
            if when == "flooded":
                for _ in range(n_reports // N_CLIENTS):
                    send(loud, "loud")
                for number in range(n_unknown // N_CLIENTS):
                    send(report_of(N_CLIENTS + at * (n_unknown // N_CLIENTS) + number, draw), "unknown")
            start = time.perf_counter()
            send(one, "honest")
            seconds[when].append(time.perf_counter() - start)
        if when == "calm":
            coordinator.decide()
            before = resident_bytes()
    grown = resident_bytes() - before
    n_heard = len(coordinator.decide().reported)
    p99 = {f"p99_us_{when}": round(1e6 * float(np.quantile(one, 0.99)), 1) for when, one in seconds.items()}
    return {"n_heard": n_heard, **accepted, "grown_bytes": grown, **p99}


def flood_exchange(n_answers: int) -> dict[str, float]:
    """Answer one order of one node many times, under tickets that were never given out, and under its own."""
    exchange, wire, _ = exchange_with(1)
    pull, seen = wire.pull, [0]

    def flooded(asked: object) -> object:
        found = dict(pull(asked))  # type: ignore[arg-type]
        strange = {f"forged-{at}": (mail.describe_reply(), 10) for at in range(n_answers)}
        seen[0] += len(strange)
        return {**strange, **found}

    wire.pull = flooded  # type: ignore[method-assign, assignment]
    settled, _ = exchange.send([describe(1)])
    return {"n_settled": len(settled), "n_late": len(exchange.take_late()), "n_forged": seen[0]}


def flood_roster(n_nodes: int) -> dict[str, float]:
    """Let nodes without keys appear beside two that have some: Flower lets in no key that is not registered."""
    known = [Node(address=at, public_key=f"-----BEGIN {at}".encode()) for at in range(2)]
    strangers = [Node(address=10 + at, public_key=b"random") for at in range(n_nodes)]
    roster = Roster(identity_of([*known, *strangers]))
    before = resident_bytes()
    roster.see([*known, *strangers])
    return {"n_clients": len(roster), "n_strangers": n_nodes, "grown_bytes": resident_bytes() - before}


def flood(n_reports: int = 10_000, n_unknown: int = 100_000) -> dict[str, dict[str, float]]:
    return {
        "coordinator": flood_coordinator(n_reports, n_unknown),
        "exchange": flood_exchange(n_reports),
        "roster": flood_roster(n_unknown),
    }


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(flood())}\n")
