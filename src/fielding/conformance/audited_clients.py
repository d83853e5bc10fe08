"""Clients that audit a method: which samples it reads, which clients it asks, and what that has to cost."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from fielding._typing import Codes, Counts, Features, Mask, Matrix, Models, Vector
from fielding.client.report import ReportBatch
from fielding.errors import FieldingError
from fielding.federation.clients import TrainingPlan, Updates
from fielding.federation.evaluation import ClientScores
from fielding.federation.ledger import CATEGORIES
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.hardware import Availability

N_BYTES = 4


class ConformanceError(FieldingError):
    """A method does what no method may do; the message says what."""


class AuditedClients:
    """Simulated clients that raise :class:`ConformanceError` if a method reads what it did not ask for.

    ``clients``: do the work; they are changed so that they tell whose samples are read. ``mute``: clients that answer
    no questions; they do train. ``is_silent``: whether no answer ever arrives, to training or to questions.
    ``before_training``, ``after_learning``: called whenever clients are asked to train, and once the method has learned
    from what came back.
    """

    def __init__(
        self,
        clients: SimulatedClients,
        availability: Availability,
        *,
        mute: tuple[int, ...] = (),
        is_silent: bool = False,
    ) -> None:
        self._clients, self._availability = clients, availability
        self._mute, self._is_silent = mute, is_silent
        self.before_training: Callable[[], None] = lambda: None
        self.after_learning: Callable[[], None] = lambda: None
        n_clients = len(clients.client_ids)
        self.down = {category: np.zeros(n_clients, dtype=np.int64) for category in CATEGORIES}
        self.up = {category: np.zeros(n_clients, dtype=np.int64) for category in CATEGORIES}
        self._may_be_read = np.zeros(n_clients, dtype=np.bool_)
        self._was_sent = np.zeros(n_clients, dtype=np.int64)
        self._is_measuring = False
        self._watch_windows()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)

    # ---- what a round calls ------------------------------------------------------------------------------------

    def begin(self, round_index: int) -> ReportBatch:
        """Begin a round; the clients look at their own windows."""
        self._is_measuring = False
        self._was_sent[:] = 0
        with self._reading(np.ones_like(self._may_be_read)):
            return self._expect_reports(self._clients.begin(round_index))

    def collect(self, clients: Counts) -> ReportBatch:
        """Collect the reports of participants; what comes after is measured by us."""
        self._is_measuring = True
        self.after_learning()
        return self._expect_reports(self._clients.collect(clients))

    def train(self, plan: TrainingPlan) -> Updates:
        """Let clients train; only samples of those that are asked may be read, and each of them is charged."""
        self._check_plan(plan)
        self.before_training()
        began_s = self._clients.begins_s(plan)
        with self._reading(self._those(plan.clients)):
            updates = self._clients.train(plan)
        self._expect_updates(plan, updates, began_s)
        n_missing = sum(map(len, updates.missing.values()))
        if plan.clients.size != updates.clients.size + n_missing:  # the clients give the reasons, not the method
            raise ConformanceError(
                f"of {plan.clients.size} jobs, {updates.clients.size} came back and {n_missing} did not"
            )
        return _without_answers(plan, updates) if self._is_silent else updates

    def losses(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,
        held: Mask | None = None,
        corrected: bool = False,
    ) -> Matrix:
        """Ask clients how well models serve them."""
        with self._reading(self._those(clients)):
            found = self._clients.losses(clients, models, blocks=blocks, held=held, corrected=corrected)
        return self._expect_answers(clients, models, found, held)

    def accuracies(
        self, clients: Counts, models: Models, *, blocks: Sequence[Counts] | None = None, held: Mask | None = None
    ) -> Matrix:
        """Ask clients how often models are right."""
        with self._reading(self._those(clients)):
            found = self._clients.accuracies(clients, models, blocks=blocks, held=held)
        return self._expect_answers(clients, models, found, held)

    def block_sizes(self, clients: Counts, blocks: Sequence[Counts]) -> Counts:
        """Ask clients how many samples they have; who has some sends a number."""
        sizes = self._clients.block_sizes(clients, blocks)
        np.add.at(self.up["probe"], clients[sizes > 0], N_BYTES)
        return np.where(np.isin(clients, self._mute) | self._is_silent, 0, sizes)

    def scores(self, models: Models, row: Counts) -> dict[str, ClientScores]:
        """Measure on test samples and on those that come next, which is ours to do and not the method's."""
        if not self._is_measuring:
            raise ConformanceError("it asks for scores on test samples; ask for losses or accuracies, which are paid")
        with self._reading(np.ones_like(self._may_be_read)):
            return self._clients.scores(models, row)

    # ---- who may be read ---------------------------------------------------------------------------------------

    def _watch_windows(self) -> None:
        windows, may_be_read = self._clients.windows, self._may_be_read
        gather, owner = windows.gather, windows.schedule.client

        def watched(rows: Counts) -> tuple[Features, Codes]:
            strangers = np.unique(owner[rows][~may_be_read[owner[rows]]])
            if strangers.size:
                raise ConformanceError(
                    f"it reads samples of clients {strangers.tolist()}, which it did not ask; reach them by a plan, "
                    "losses or accuracies"
                )
            return gather(rows)

        setattr(windows, "gather", watched)  # noqa: B010

    @contextmanager
    def _reading(self, clients: Mask) -> Iterator[None]:
        """Let samples of some clients be read for a while."""
        self._may_be_read[:] = clients
        yield
        self._may_be_read[:] = False

    def _those(self, clients: Counts) -> Mask:
        mask = np.zeros_like(self._may_be_read)
        mask[clients] = True
        return mask

    # ---- what it has to cost -----------------------------------------------------------------------------------

    def _expect_reports(self, reports: ReportBatch) -> ReportBatch:
        senders = [self._clients.client_ids.index(one) for one in reports.client_ids]
        self.up["report"][senders] += N_BYTES * reports.representations.shape[1]
        return reports

    def _expect_answers(self, clients: Counts, models: Models, found: Matrix, held: Mask | None) -> Matrix:
        """Expect every client that answered to pay for all models down, if it lacks them, and a number for each up."""
        is_reached = ~np.isnan(found).all(axis=1)
        lacking = is_reached if held is None else is_reached & ~held
        said_to_hold = clients[is_reached & ~lacking]
        without = np.unique(said_to_hold[self._was_sent[said_to_hold] < N_BYTES * models.size])
        if without.size:
            raise ConformanceError(f"clients {without.tolist()} are said to hold models that they were not sent")
        self.down["probe"][np.unique(clients[lacking])] += N_BYTES * models.size
        self._was_sent[clients[lacking]] = N_BYTES * models.size
        np.add.at(self.up["probe"], clients[is_reached], N_BYTES * models.shape[0])
        is_lost = np.isin(clients, self._mute) | self._is_silent
        return np.where(is_lost[:, np.newaxis], np.nan, found)

    def _expect_updates(self, plan: TrainingPlan, updates: Updates, began_s: Vector) -> None:
        """Expect every job to pay for what it receives, and for what it sends unless it went offline."""
        kind = "probe" if plan.is_probe else "model"
        n_models, n_numbers = plan.models.shape
        shares = np.full(plan.clients.size, float(n_models if plan.chooses else 1))
        received = shares if plan.downloads is None else plan.downloads
        asked_for = plan.uploads if plan.upload_shares is None else plan.upload_shares
        sent = np.ones(plan.clients.size) if asked_for is None else asked_for
        extra = int(plan.chooses and n_models > 1) + int(plan.with_start_loss)
        arrives = self._availability.available(plan.clients, began_s + updates.seconds)
        up = np.where(arrives, np.round(sent * n_numbers * N_BYTES) + N_BYTES * extra, 0)
        np.add.at(self.down[kind], plan.clients, np.round(received * n_numbers * N_BYTES).astype(np.int64))
        np.add.at(self.up[kind], plan.clients, up.astype(np.int64))

    def check_ledger(self) -> None:
        """Raise if the ledger does not say what was used."""
        ledger = self._clients.ledger
        for category in CATEGORIES:
            pairs = ((self.down, ledger.client_bytes_down, "receive"), (self.up, ledger.client_bytes_up, "send"))
            for expected, charged, verb in pairs:
                wrong = np.flatnonzero(expected[category] != charged(category))
                if wrong.size:
                    client = int(wrong[0])
                    raise ConformanceError(
                        f"client {client} has to {verb} {expected[category][client]} bytes ({category}), but "
                        f"{charged(category)[client]} are charged; reach clients only through the door"
                    )

    def _check_plan(self, plan: TrainingPlan) -> None:
        """Raise if a plan contradicts itself or asks clients that have nothing to train on."""
        n_jobs = plan.clients.size
        if not plan.groups.shape == plan.start.shape == (n_jobs,):
            raise ConformanceError("clients, groups and start of a plan differ in length; give one of each per job")
        if n_jobs and not (plan.start.min() >= 0 and plan.start.max() < plan.models.shape[0]):
            raise ConformanceError(f"a plan starts from rows {plan.start.tolist()} of {plan.models.shape[0]} models")
        if plan.is_parallel and not np.unique(plan.groups).size == np.unique(plan.start).size == len(
            set(zip(plan.groups.tolist(), plan.start.tolist(), strict=True))
        ):
            raise ConformanceError(
                "a plan is parallel, but its groups do not train one cluster each; set is_parallel = False"
            )
        if not np.isfinite(plan.models).all():
            raise ConformanceError("a plan sends a model that is not finite; leave such answers out of what is learned")
        idle = plan.clients[~self._clients.has_data()[plan.clients]]
        if plan.blocks is None and idle.size:
            raise ConformanceError(f"it asks clients {idle.tolist()} without samples; ask those of clients.askable()")


def _without_answers(plan: TrainingPlan, updates: Updates) -> Updates:
    """Return what a round looks like in which no answer arrived."""
    none = np.empty(0, dtype=np.int64)
    return replace(
        updates,
        clients=none,
        groups=none,
        start=none,
        models=updates.models[:0],
        n_samples=none,
        loss=updates.loss[:0],
        square_loss=updates.square_loss[:0],
        start_loss=None if updates.start_loss is None else updates.start_loss[:0],
        missing={"straggler": [], "offline": plan.clients.tolist(), "failed": []},
        jobs=none,
        late=none,
    )
