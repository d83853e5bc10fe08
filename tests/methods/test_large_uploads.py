"""Finite uploads as large as float32 allows: whatever the method, nothing that it keeps ever becomes infinite."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fielding._typing import Json
from fielding.engine.round import Federation, run_round
from fielding.federation.clients import TrainingPlan, Updates
from fielding.methods import METHODS, Method, method_named
from fielding.methods.kinds import resolve_reports_from
from fielding.simulation.clients import SimulatedClients
from tests.methods.planted import planted_clients, setting_of

N_CLIENTS, N_ROUNDS = 24, 12
LARGE = 3e38
OPTIONS: dict[str, dict[str, Json]] = {"fedac": {"pca_every": 4, "tune_every": 4}}


class Attacked:
    """Clients of which two thirds send the largest numbers there are, in some rounds."""

    def __init__(self, clients: SimulatedClients, rounds: range) -> None:
        self._clients, self._rounds = clients, rounds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)

    def train(self, plan: TrainingPlan) -> Updates:
        updates = self._clients.train(plan)
        if self._clients.round_index not in self._rounds:
            return updates
        sent = np.where(updates.clients % 2, LARGE, -LARGE).astype(np.float32)[:, np.newaxis]
        return replace(updates, models=np.where((updates.clients % 3 == 0)[:, np.newaxis], updates.models, sent))


def attacked_method(name: str, rounds: range) -> Method:
    """Return a method after a run with planted groups."""
    kind, options = METHODS[name], OPTIONS.get(name, {})
    concepts = [[at % 2 for at in range(N_CLIENTS)]] * N_ROUNDS
    clients = planted_clients(concepts, reports_from=resolve_reports_from(kind, options, N_CLIENTS))
    setting = replace(
        setting_of(clients, participants=12),
        n_head=3,
        draw_model=clients.trainer.initial_model,
        truth=clients.windows.concepts,
    )
    method = method_named(kind, setting, options)
    federation = Federation(clients=Attacked(clients, rounds), method=method, evaluate_every=4, n_rounds=N_ROUNDS)
    for at in range(N_ROUNDS):
        run_round(federation, at)
    return method


CASES = [
    pytest.param(
        name,
        first,
        id=f"{name} from round {first}",
    )
    for name in sorted(METHODS)
    for first in (0, 4)
]


@pytest.mark.parametrize(("name", "first"), CASES)
def test_nothing_that_a_method_keeps_becomes_infinite(name: str, first: int) -> None:
    method = attacked_method(name, range(first, first + 4))

    assert np.isfinite(method.models).all()
    for kept, array in method.snapshot()[1].items():
        assert array.dtype.kind != "f" or np.isfinite(array.astype(np.float64)).all(), kept
