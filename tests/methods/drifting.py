"""Clients of a plane that drift, and FedDrift among them."""

from typing import Any

import numpy as np

from fielding.methods.feddrift import FedDrift, FedDriftEager
from fielding.simulation.clients import SimulatedClients
from tests.methods.plane import (
    setting_of,
)

GAP, N_CLIENTS = 5, 6
CALM = np.zeros((8, N_CLIENTS), dtype=np.int64)
STAGGERED = np.array([[int(interval >= 3 + client // 2) for client in range(N_CLIENTS)] for interval in range(8)])
"""Two clients switch in interval 3, two in 4, two in 5."""
AT_ONCE = np.array([[int(interval >= 3 and client < 3) for client in range(N_CLIENTS)] for interval in range(8)])
RECURRING = np.array([[int(interval in (3, 4) and client < 3) for client in range(N_CLIENTS)] for interval in range(8)])
METHODS: dict[str, type[FedDrift]] = {"feddrift": FedDrift, "feddrift-eager": FedDriftEager}


def drift_of(clients: SimulatedClients, name: str = "feddrift", *, participants: int = 4, **options: Any) -> FedDrift:
    return METHODS[name](setting_of(clients, participants=participants), **options)


def total(clients: SimulatedClients, figure: str, category: str) -> float:
    sums = clients.ledger.totals()[figure]
    assert isinstance(sums, dict)
    return float(str(sums[category]))


def check_blocks(method: FedDrift) -> None:
    """Every block that came has exactly one owner, and that is a model that there is."""
    owner = method.state.blocks.owner
    assert np.isin(owner, method.cluster_ids()).all()
    assert (owner[-1] == np.array(method.cluster_ids())[method.membership()]).all()
