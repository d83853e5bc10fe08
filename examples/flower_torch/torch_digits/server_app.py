"""What runs beside the SuperLink: Fielding's server, and the model that training begins with."""

from typing import TYPE_CHECKING

from fielding.flower.server_app import server_app

if TYPE_CHECKING:
    from .task import Net


def first_model() -> "Net":
    """Return an untrained network."""
    import torch

    from .task import Net

    torch.manual_seed(0)
    return Net()


app = server_app(first_model=first_model)
