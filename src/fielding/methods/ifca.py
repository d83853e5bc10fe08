"""IFCA: k models, and every participant trains the one that fits its data best.

Ghosh, Chung, Yin and Ramchandran, "An Efficient Framework for Clustered Federated Learning", NeurIPS 2020 (METHODS.md
4). Read :meth:`Ifca.plan` first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fielding._typing import ClientId, Counts, Json, Mask, Matrix, Membership, Models
from fielding.client.report import ReportBatch
from fielding.config.options import number, one_of, whole
from fielding.coordinator.registry import UNASSIGNED
from fielding.errors import OptionError
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.federation.cluster_models import Arrays
from fielding.methods.kinds import MethodKind, ReportsFrom
from fielding.methods.method import MethodSetting, client_index, plan_training, positions_of, select_participants
from fielding.rng import client_keys, hashed, stream

INITS = ("restart", "random", "shared-backbone")
REASSESS = ("participants", "drifted", "evaluated")
SHARE_OF_TWO, SHARE_OF_EVEN = 0.35, 0.4
"""Smallest share of participants that a model must attract at the start: of two models 0.35, of more 0.4 of an even
share, which is 0.1 for four; both from the authors' code."""


class Ifca:
    """Keeps ``k`` models; each participant gets all of them and trains the one with the lowest loss on its window.

    Parameters
    ----------
    k
        How many models, at least 1; with 1 it is federated averaging.
    init
        ``"restart"``: first models are drawn anew until each attracts enough of the first participants, which are asked
        every time. ``"random"``: they are drawn once. ``"shared-backbone"``: only their last layers differ, and clients
        train on a random partition for ``warm_up`` rounds first.
    reassess
        Who chooses beside the participants: with ``"evaluated"`` all clients before each evaluation, as the authors
        have it; with ``"drifted"`` clients that report drift; with ``"participants"`` none. Clients without a choice
        always choose before an evaluation; one that chose in the same round is not asked again.
    min_share
        Share of the asked that each model must attract at a restart; 0 for the authors' numbers (only with
        ``"restart"``).
    tries
        At most so many draws of a restart; if none is good enough, the one whose least popular model attracts most
        (only with ``"restart"``).
    warm_up
        Rounds on the random partition (only with ``"shared-backbone"``).
    """

    def __init__(
        self,
        setting: MethodSetting,
        *,
        k: int = 4,
        init: str = "restart",
        reassess: str = "evaluated",
        min_share: float = 0.0,
        tries: int = 20,
        warm_up: int = 20,
    ) -> None:
        self._setting, self._parts = setting, setting.parts
        self._k = whole("k", k, most=10_000)
        self._init, self._reassess = one_of("init", init, INITS), one_of("reassess", reassess, REASSESS)
        self._min_share = number("min_share", min_share, most=1.0 / self._k) or least_share(self._k)
        self._tries, n_warm = whole("tries", tries), whole("warm_up", warm_up, least=0)
        if self._init == "shared-backbone" and self._k > 1 and not setting.n_head:
            raise OptionError(
                "init is 'shared-backbone', but the last layer of this model is not known; give 'restart' or 'random'"
            )
        self._warm_up = n_warm if self._init == "shared-backbone" and self._k > 1 else 0
        self._is_started = self._k == 1 or self._init != "restart"
        self._n_learned = 0
        self._everyone: Membership = np.zeros(len(setting.client_ids), dtype=np.int32)
        self._choice: Membership = np.full_like(self._everyone, 0 if self._k == 1 else UNASSIGNED)
        self._chose_in = np.full(self._choice.size, -1, dtype=np.int64)  # the round of each client's last choice
        self._partition = _random_partition(setting, self._k)
        self._index = client_index(setting.client_ids)
        self._cluster_models = setting.parts.cluster_models(setting.initial)
        self._cluster_models.mix(np.ones((self._k, 1)))
        if self._k > 1:
            self._cluster_models.models = self._draw_models(0)

    @property
    def models(self) -> Models:
        """The ``k`` models."""
        return self._cluster_models.models

    def grow(self, client_ids: Sequence[ClientId]) -> None:
        """Let clients that joined choose when they take part, or before the next evaluation."""
        n_new = len(client_ids) - self._everyone.size
        self._setting = replace(self._setting, client_ids=client_ids)
        self._everyone = np.zeros(len(client_ids), dtype=np.int32)
        self._choice = np.pad(self._choice, (0, n_new), constant_values=0 if self._k == 1 else UNASSIGNED)
        self._chose_in = np.pad(self._chose_in, (0, n_new), constant_values=-1)
        self._partition, self._index = _random_partition(self._setting, self._k), client_index(client_ids)

    def adapt(self, reports: ReportBatch, clients: Clients) -> None:
        """Let clients that reported drift choose again; one that never chose has time until it is asked."""
        if self._reassess == "drifted" and len(reports.client_ids) and not self._is_warming:
            has_data = np.asarray(reports.representations).any(axis=1)
            rows = positions_of(reports.client_ids, self._index)[has_data]
            self._choose(np.sort(rows[self._choice[rows] >= 0]), clients)

    def plan(self, clients: Clients) -> TrainingPlan:
        """Choose participants among all clients; they choose their models."""
        asked = select_participants(self._everyone, 1, clients, self._parts)
        rows = np.maximum(self.membership()[asked.clients], 0).astype(np.int64)
        # A client that measured the models just now has them and has said which it trains.
        held = self._chose_in[asked.clients] == clients.round_index
        if rows.size and not self._is_started:
            chosen, held = self._restart(asked.clients, clients)
            rows = np.where(held, chosen, rows)
        chooses = self._k > 1 and not self._is_warming and not (rows.size and held.all())
        return replace(
            plan_training(self._cluster_models, asked, self._parts),
            start=rows,
            rate_factors=self._cluster_models.rate_factors(np.arange(self._k) if chooses else rows),
            chooses=chooses,
            downloads=np.where(held, 0.0, float(self._k)) if held.any() else None,
        )

    def learn(self, updates: Updates) -> None:
        """Combine what came back, model by model, and remember who chose which."""
        self._cluster_models.learn(updates)
        if not self._is_warming:
            self._choice[updates.clients] = updates.start
            self._chose_in[updates.clients] = updates.round_index
        self._n_learned += 1

    def place(self, clients: Clients) -> None:
        """Let clients choose that never did; with ``reassess = "evaluated"`` all that did not in this round."""
        if self._k > 1 and not self._is_warming:
            is_asked = (self._reassess == "evaluated") & (self._chose_in != clients.round_index)
            waiting = (self._choice < 0) | is_asked
            self._choose(np.flatnonzero(waiting & clients.askable()), clients)

    def membership(self) -> Membership:
        """Return the last choice of each client, -1 for none; during the warm-up the random partition."""
        return self._partition.copy() if self._is_warming else self._choice.copy()

    def snapshot(self) -> tuple[dict[str, Json], Arrays]:
        """Return models, choices and how far the start has come."""
        values: dict[str, Json] = {"is_started": self._is_started, "n_learned": self._n_learned}
        return values, {**self._cluster_models.arrays(), "choice": self._choice}

    def restore(self, values: Mapping[str, Json], arrays: Arrays) -> None:
        """Go on from a snapshot."""
        self._is_started, self._n_learned = bool(values["is_started"]), int(str(values["n_learned"]))
        self._cluster_models.restore(arrays)
        self._choice = arrays["choice"].astype(np.int32)

    # ---- how it is done ----------------------------------------------------------------------------------------

    @property
    def _is_warming(self) -> bool:
        return self._n_learned < self._warm_up

    def _choose(self, who: Counts, clients: Clients) -> None:
        """Let some clients choose; one that does not answer keeps its choice."""
        if who.size:
            chosen, answered = choose_lowest(clients.losses(who, self.models))
            self._choice[who[answered]] = chosen[answered]
            self._chose_in[who[answered]] = clients.round_index

    def _restart(self, who: Counts, clients: Clients) -> tuple[Counts, Mask]:
        """Draw first models until each attracts enough of the participants, who are charged for every try.

        Returns the choice of each among the models that are kept, and which of them made one and have these models,
        shape ``(n_asked,)``; models of an earlier try are gone.
        """
        self._is_started, best = True, -1.0
        none = np.zeros(who.size, dtype=np.int64), np.zeros(who.size, dtype=np.bool_)
        if who.size < self._k:  # no draw could give each model a client
            return none
        for attempt in range(self._tries):
            models = self._draw_models(attempt)
            chosen, answered = choose_lowest(clients.losses(who, models))
            heads = np.bincount(chosen[answered], minlength=self._k)
            share = float(heads.min() / max(1, heads.sum()))
            if share > best:
                self._cluster_models.models, best = models, share
            if share >= self._min_share:
                return chosen, answered
        return none

    def _draw_models(self, attempt: int) -> Models:
        """Return first models: of the first attempt one is that of the run; shared bodies are its own, too."""
        setting = self._setting
        if setting.draw_model is None:
            raise OptionError(f"k is {self._k} but only one first model is at hand; give 1, or a way to draw models")
        numbers = stream(setting.seed, "ifca models", attempt).integers(2**31, size=self._k).tolist()
        drawn = np.stack([setting.draw_model(number) for number in numbers]).astype(np.float32)
        if self._init == "shared-backbone" or setting.parts.n_shared:  # a mean of random bodies would be no body
            models = np.repeat(setting.initial[np.newaxis].astype(np.float32), self._k, axis=0)
            head = slice(setting.n_parameters - setting.n_head, setting.n_parameters)
            models[:, head] = drawn[:, head]
            return models
        if attempt == 0:
            drawn[0] = setting.initial
        return drawn


def least_share(k: int) -> float:
    """Return the share of participants that each of ``k`` first models must attract, as the authors chose it.

    Examples
    --------
    >>> least_share(2), least_share(4)
    (0.35, 0.1)
    """
    return SHARE_OF_TWO if k == 2 else SHARE_OF_EVEN / k


def choose_lowest(losses: Matrix) -> tuple[Counts, Mask]:
    """Return the model with the lowest loss of each client (ties: the first), and which clients answered at all.

    Examples
    --------
    >>> chosen, answered = choose_lowest(np.array([[2.0, 1.0], [np.nan, np.nan], [np.nan, 9.0]]))
    >>> chosen.tolist(), answered.tolist()
    ([1, 0, 1], [True, False, True])
    """
    known = ~np.isnan(losses)
    return np.argmin(np.where(known, losses, np.inf), axis=1), np.asarray(known.any(axis=1))


def ifca_reports_from(options: Mapping[str, Json], n_clients: int) -> ReportsFrom:  # noqa: ARG001
    """Return whose reports reach IFCA: flags of drifted clients if these are to choose again."""
    return "flags" if options.get("reassess") == "drifted" else "nobody"


def _random_partition(setting: MethodSetting, k: int) -> Membership:
    """Return a random model for each client, which depends on its id alone."""
    keys = client_keys(setting.client_ids)
    return (hashed(setting.seed, "ifca partition", keys) % np.uint64(k)).astype(np.int32)


KIND = MethodKind(
    summary="k models; every participant gets all of them and trains the one that fits its data best (IFCA)",
    sends="which model it chose; receives all k models",
    reports_from=ifca_reports_from,
    build=Ifca,
)
