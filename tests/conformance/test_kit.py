"""The checks find what is wrong: every method here does one thing that no method may do."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fielding._typing import Json, Membership
from fielding.conformance.audited_clients import ConformanceError
from fielding.conformance.method_checks import CHECKS, check_method
from fielding.errors import OptionError
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.global_model import GlobalModel
from fielding.methods.method import MethodSetting

COUNTER = itertools.count()


class Moody(GlobalModel):
    """Learns from some rounds, and nobody knows from which."""

    def learn(self, updates: Updates) -> None:
        if next(COUNTER) % 3:
            super().learn(updates)


class Forgetful(GlobalModel):
    """Counts its rounds and does not write the number down."""

    n_rounds = 0

    def learn(self, updates: Updates) -> None:
        self.n_rounds += 1
        if self.n_rounds > 3:
            super().learn(updates)


class Peeking(GlobalModel):
    """Looks at samples of whomever it likes."""

    def plan(self, clients: Clients) -> TrainingPlan:
        windows: Any = getattr(clients, "windows")  # noqa: B009
        windows.gather(np.arange(3))
        return super().plan(clients)


class Examining(GlobalModel):
    """Looks at the test samples."""

    def plan(self, clients: Clients) -> TrainingPlan:
        clients.scores(self.models, self.membership().astype(np.int64))
        return super().plan(clients)


class Blind(GlobalModel):
    """Asks clients that have nothing."""

    def plan(self, clients: Clients) -> TrainingPlan:
        everyone = np.arange(len(clients.client_ids))
        return replace(super().plan(clients), clients=everyone, groups=0 * everyone, start=0 * everyone)


class Misplaced(GlobalModel):
    """Serves clients with a model that is not there."""

    def membership(self) -> Membership:
        return super().membership() + np.int32(1)


class Cooking(GlobalModel):
    """Keeps its own books."""

    def plan(self, clients: Clients) -> TrainingPlan:
        driver: Any = clients
        driver.ledger.charge("probe", [0], up_bytes=1)
        return super().plan(clients)


class Restless(GlobalModel):
    """Shrinks its model whether or not anybody answers."""

    def learn(self, updates: Updates) -> None:
        super().learn(updates)
        self._cluster_models.models = self._cluster_models.models * np.float32(0.9)


class Trusting(GlobalModel):
    """Takes every answer to a question for a number."""

    def plan(self, clients: Clients) -> TrainingPlan:
        losses = clients.losses(np.flatnonzero(clients.askable()), self.models)
        self._cluster_models.models = self._cluster_models.models / np.float32(1.0 + losses.mean())
        return super().plan(clients)


class Pretending(GlobalModel):
    """Says that clients hold models that nobody sent them."""

    def plan(self, clients: Clients) -> TrainingPlan:
        who = np.flatnonzero(clients.askable())
        clients.losses(who, self.models, held=np.ones(who.size, dtype=np.bool_))
        return super().plan(clients)


class Unplain(GlobalModel):
    """Puts an array where a checkpoint wants plain values."""

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        values: dict[str, Any] = {"everyone": self._everyone}
        return values, super().snapshot()[1]


class Failing(GlobalModel):
    """Cannot be restored."""

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:  # noqa: ARG002
        raise KeyError("everyone")


class Odd(GlobalModel):
    """Is sound, and has an option."""

    def __init__(self, setting: MethodSetting, *, oddity: float = 1.0) -> None:
        if oddity < 0:
            raise OptionError("oddity is negative; give a number from 0")
        super().__init__(setting)


FLAWS = {
    "Moody": "is not repeatable: a second run of the same seed differs in line",
    "Forgetful": "is not resumable: a run that was stopped and resumed after every round differs in line",
    "Peeking": r"it reads samples of clients \[0\], which it did not ask",
    "Examining": "it asks for scores on test samples",
    "Blind": r"it asks clients \[7, 9\] without samples; ask those of clients.askable",
    "Misplaced": "membership holds 1, but there are 1 models",
    "Cooking": "client 0 has to send 0 bytes .probe., but 8 are charged",
    "Restless": "is not calm when nobody answers: a model changed in round 0",
    "Trusting": "is not honest: a plan sends a model that is not finite",
    "Pretending": "are said to hold models that they were not sent",
    "Unplain": "is not honest: the values of its snapshot are not plain",
    "Failing": "fails with KeyError: 'everyone' .*test_kit.py, line .*; in the check: resumable",
}


@pytest.mark.parametrize("name", FLAWS)
def test_a_flaw_is_found_and_said(name: str) -> None:
    passed: list[str] = []

    with pytest.raises(ConformanceError, match=FLAWS[name]):
        check_method(f"{__name__}:{name}", on_check=passed.append)

    assert len(passed) < len(CHECKS)


def test_a_sound_method_passes_every_check_with_its_options() -> None:
    passed: list[str] = []

    check_method(f"{__name__}:Odd", {"oddity": 2.0}, on_check=passed.append)

    assert passed == list(CHECKS)


@pytest.mark.parametrize(("options", "words"), [({"oddity": -1.0}, "give a number from 0"), ({"oddly": 1.0}, "oddity")])
def test_wrong_options_are_a_mistake_of_the_caller(options: dict[str, Json], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        check_method(f"{__name__}:Odd", options)
