"""What methods are made of, for clients small enough to think through."""

from collections.abc import Callable

from fielding._typing import Codes
from fielding.coordinator.clustering import Clusterer
from fielding.coordinator.policy import Policy
from fielding.engine.round import Federation
from fielding.methods.method import Method, MethodSetting, Parts
from fielding.simulation.clients import SimulatedClients


def setting_of(
    clients: SimulatedClients,
    *,
    k_max: int = 3,
    participants: int = 4,
    truth: Callable[[int], Codes | None] | None = None,
) -> MethodSetting:
    """Return what a method for these clients is made of."""
    layout = clients.trainer.layout
    return MethodSetting(
        initial=clients.trainer.initial_model(1),
        client_ids=clients.client_ids,
        policy=Policy(clusterer=Clusterer(k_max=k_max), seed=1),
        parts=Parts(participants=participants),
        seed=1,
        n_parameters=layout.parameter_size,
        draw_model=clients.trainer.initial_model,
        truth=truth,
    )


def federation_of(clients: SimulatedClients, method: Method) -> Federation:
    """Return a method at work with these clients."""
    return Federation(clients=clients, method=method, evaluate_every=1, n_rounds=5)
