"""Methods, one file each: who is in which cluster, and which model serves whom. They know no driver.

To add one, write a class with the verbs of :class:`~fielding.methods.method.Method` and name it in ``METHODS``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fielding._typing import ClientId, Models
from fielding.coordinator.policy import Policy
from fielding.methods.fielding import Fielding
from fielding.methods.global_model import GlobalModel
from fielding.methods.method import Method, Parts

__all__ = ["METHODS", "Fielding", "GlobalModel", "Method", "MethodKind", "MethodSetting", "Parts"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MethodSetting:
    """What a method is made of.

    Parameters
    ----------
    initial
        The model that training starts from, float32, shape ``(n_numbers,)``.
    client_ids
        The clients.
    policy
        The rules of a coordinator, for methods that have one.
    parts
        The plug-ins.
    """

    initial: Models
    client_ids: Sequence[ClientId]
    policy: Policy
    parts: Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodKind:
    """A method that configs can name.

    Parameters
    ----------
    summary
        What it does, in a line.
    sends
        What its clients send beside models, in a line.
    listens
        Whether clients report to it.
    build
        Makes one.
    """

    summary: str
    sends: str
    listens: bool
    build: Callable[[MethodSetting], Method]


METHODS: dict[str, MethodKind] = {
    "fielding": MethodKind(
        summary="one model per cluster; drifted clients move, and all are grouped anew when a center moved too far",
        sends="a representation of the window, when it drifted",
        listens=True,
        build=lambda setting: Fielding(setting.initial, setting.client_ids, setting.policy, parts=setting.parts),
    ),
    "global": MethodKind(
        summary="one model for everybody: federated averaging",
        sends="nothing",
        listens=False,
        build=lambda setting: GlobalModel(setting.initial, len(setting.client_ids), setting.parts),
    ),
}
"""Every method, by the name that configs use."""
