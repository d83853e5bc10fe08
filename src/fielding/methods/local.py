"""Local training: every client trains a model of its own, and nothing is sent. The floor of a comparison."""

from collections.abc import Mapping, Sequence

import numpy as np

from fielding._typing import ClientId, Json, Membership, Models
from fielding.config.options import one_of
from fielding.errors import OptionError
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.kinds import MethodKind
from fielding.methods.method import MethodSetting, draw_clients

BUDGETS = ("everyone", "participants")
MOST_NUMBERS = 10**9  # numbers of all models together that are kept at once: 4 GB


class Local:
    """One model per client, and nothing is sent; selection and aggregation do not matter.

    Parameters
    ----------
    budget
        Which clients train in a round: ``"everyone"`` that has samples, N / M times the computing of other methods; or
        ``"participants"``, as many as take part in a round of other methods, drawn uniformly.
    """

    def __init__(self, setting: MethodSetting, *, budget: str = "everyone") -> None:
        is_everyone = one_of("budget", budget, BUDGETS) == "everyone"
        self._n_training = None if is_everyone else setting.parts.participants
        self._initial = setting.initial.astype(np.float32)
        self._models: Models = self._first_models(len(setting.client_ids))

    @property
    def models(self) -> Models:
        """One row per client; of those that never trained, the model that all start from."""
        return self._models

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Let clients that joined begin with the model that all start from."""
        known = self._models
        self._models = np.concatenate([known, self._first_models(len(client_ids))[len(known) :]])

    def _first_models(self, n_clients: int) -> Models:
        check_memory(n_clients, self._initial.size)
        return np.tile(self._initial, (n_clients, 1))

    def plan(self, clients: Clients) -> TrainingPlan:
        """Let clients with samples train their own models, all or as many as participants; none waits for others."""
        alone = draw_clients(clients, clients.askable(), self._n_training, purpose="select")
        nothing = np.zeros(alone.size)
        return TrainingPlan(
            models=self._models,
            clients=alone,
            groups=np.arange(alone.size),
            start=alone,
            wanted=np.ones(alone.size, dtype=np.int64),
            downloads=nothing,
            uploads=nothing,
            is_parallel=True,
        )

    def learn(self, updates: Updates) -> None:
        """Keep what each client made of its model."""
        models = self._models.copy()
        models[updates.clients] = updates.models
        self._models = models

    def membership(self) -> Membership:
        """Return that every client has its own."""
        return np.arange(self._models.shape[0], dtype=np.int32)

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return the models."""
        return {}, {"models": self._models}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        """Go on from a snapshot."""
        self._models = arrays["models"].astype(np.float32)


def check_memory(n_models: int, n_numbers: int) -> None:
    """Raise if so many models at once would not fit.

    Examples
    --------
    >>> check_memory(5078, 2_278_604)
    Traceback (most recent call last):
    ...
    fielding.errors.OptionError: 5078 models of 2278604 numbers are 46 GB, and 4 GB is the most; take fewer ...
    """
    if n_models * n_numbers > MOST_NUMBERS:
        raise OptionError(
            f"{n_models} models of {n_numbers} numbers are {4e-9 * n_models * n_numbers:.0f} GB, and 4 GB is the most; "
            "take fewer clients or a smaller model"
        )


KIND = MethodKind(
    summary="every client trains a model of its own, all in every round by default: the floor",
    sends="nothing, not even models",
    build=Local,
)
