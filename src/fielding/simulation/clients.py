"""The simulator's clients: a runtime of N clients in process, a clock that says how long it would take, a ledger."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Codes, Counts, Json, Mask, Matrix, Membership, Models, Vector
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.sums import Asked, choose_clusters, parts_of, randomise_ids
from fielding.client.ranges import Ranges
from fielding.client.report import ReportBatch
from fielding.coordinator.heterogeneity import mean_client_distance
from fielding.coordinator.points import Points
from fielding.distance import metric_named
from fielding.errors import InputError
from fielding.federation.budget import invited_count
from fielding.federation.clients import Reason, TrainingPlan, Updates
from fielding.federation.evaluation import SCORES, ClientScores
from fielding.federation.ledger import Costs, Ledger
from fielding.federation.noised_sums import NoisedSums
from fielding.federation.report_budget import ReportBudget, sample_clients
from fielding.methods.kinds import ReportsFrom
from fielding.rng import Hashes, client_keys, hashed, stream
from fielding.runtime.observe import Observer
from fielding.runtime.own_code import Metric, OwnCompute
from fielding.runtime.private_reports import count_labels
from fielding.runtime.runtime import ClientRuntime
from fielding.runtime.serve import Serving
from fielding.runtime.train import LocalRule, NoiseOf
from fielding.runtime.workers import Compute, Crew, Workers
from fielding.simulation.attacks import Spoiling
from fielding.simulation.clock import seconds_of, settle_round
from fielding.simulation.costs import BYTES_PER_NUMBER, IDLE_S, Accounts, answer_costs, finish_times, job_costs, without
from fielding.simulation.hardware import Hardware
from fielding.simulation.reports import NO_LETTERS, Mailbox, SentReports, SharedModel, judging_rows
from fielding.traces.sliding import SlidingWindows
from fielding.training.label_mix import plain_model
from fielding.training.trainer import Trainer

CrewOf: TypeAlias = Callable[[Trainer, SlidingWindows], Crew]
"""Returns what trains the participants of a simulation elsewhere."""


class SimulatedClients:
    """All clients of a simulation, at one round at a time; see :class:`~fielding.engine.round.Driver`.

    Parameters
    ----------
    observer
        What they report; None if the method hears no reports.
    reports_from, spoiling
        Whose reports the method hears, and how attackers spoil the models that they send.
    sharing
        How a shared model reaches the observer; None: it needs none.
    serving
        What clients do to the model that serves them; None: nothing.
    metrics
        What the user's own functions measure, by name.
    budget
        Which clients are asked what is new; None: all. With one, reports travel with training, as on Flower: those of
        participants and of the clients asked act in the next round. No budget is needed, and none is kept, where the
        method hears no clients but participants.
    n_tested
        How many clients are tested in an evaluation, drawn anew each time; None: all.
    sums
        Adds noise to sums over clients; None: none are asked for.
    barrier
        When clusters that train in parallel wait for each other: ``"event"``, when data arrive or reports act;
        ``"round"``, in every round.
    training_ledger, noise_of
        For private training: what clients spend, and where chance comes from.
    n_workers, crew
        How many threads may train, and what trains elsewhere instead; they change nothing but the time it takes.
    """

    def __init__(
        self,
        windows: SlidingWindows,
        observer: Observer | None,
        trainer: Trainer | OwnCompute,
        *,
        rule: LocalRule,
        hardware: Hardware,
        reports_from: ReportsFrom = "drifted",
        sharing: SharedModel | None = None,
        spoiling: Spoiling | None = None,
        serving: Serving | None = None,
        barrier: str = "event",
        has_heads: bool = False,
        metrics: Mapping[str, Metric] | None = None,
        budget: ReportBudget | None = None,
        n_tested: int | None = None,
        sums: NoisedSums | None = None,
        training_ledger: PrivacyLedger | None = None,
        noise_of: NoiseOf | None = None,
        seed: int,
        n_workers: int = 1,
        crew: Crew | None = None,
    ) -> None:
        self.windows, self._trainer, self.reports_from = windows, trainer, reports_from
        self._hardware, self._barrier, self._seed = hardware, barrier, seed
        self._accounts = Accounts(windows.n_clients, hardware)
        self.budget = None if observer is None or reports_from in ("nobody", "participants") else budget
        self._n_tested, self._sums = n_tested, sums
        if self.budget is not None:
            self.budget.grow(windows.n_clients)
        self._mailbox = Mailbox(observer, reports_from, waits=self.budget is not None)
        self._letters: SentReports | None = None
        # With a budget: what acts in the next round, and which clients are in touch in this one before it trains.
        self._arrived: SentReports | None = None
        self._in_touch: Counts = np.empty(0, dtype=np.int64)
        self._compute: Compute = trainer if isinstance(trainer, OwnCompute) else Workers(trainer, n_workers, crew=crew)
        self._keys = client_keys(windows.schedule.client_ids)
        self.runtime = ClientRuntime(
            windows,
            self._compute,
            rule,
            serving=serving,
            attack=None if spoiling is None else spoiling.apply,
            has_heads=has_heads,
            metrics=metrics,
            seed=seed,
            keys=self._keys,
            budget=None if training_ledger is None else (training_ledger, self.client_ids),
            noise_of=noise_of,
        )
        self._sharing = sharing or SharedModel(None, rounds=0)
        self._sharing.listen(self.runtime.errors)

    @property
    def trainer(self) -> Trainer:
        """Fielding's trainer; there is none where code of the user's own trains."""
        if isinstance(self._trainer, OwnCompute):
            raise RuntimeError("code of the user's own trains")
        return self._trainer

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        """The clients."""
        return self.windows.schedule.client_ids

    def on_trained(self, call: Callable[[int, int], None]) -> None:
        """Call a function, during a round, with how many participants of how many are trained."""
        self._compute.on_trained = call

    def close(self) -> None:
        """Release the worker threads."""
        self._compute.close()

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start, of the latest cluster."""
        return self._accounts.now_s

    @property
    def done_s(self) -> Vector | None:
        """Simulated time at which the cluster of each client was done with the round; None if all are at ``now_s``."""
        return self._accounts.times_of(np.arange(self.windows.n_clients)) if self._accounts.clock.sooner else None

    def wait_for_all(self) -> None:
        """Let all clusters wait for the latest."""
        self._accounts.clock.meet()

    @property
    def ledger(self) -> Ledger:
        """What was charged so far."""
        return self._accounts.ledger

    @property
    def round_costs(self) -> Mapping[str, float]:
        """What this round cost so far."""
        return self._accounts.round_costs

    @property
    def round_index(self) -> int:
        """The round in hand."""
        return self.runtime.round_index

    @property
    def interval(self) -> int:
        """The newest interval of data that has come."""
        return self.windows.n_complete(self.round_index) - 1

    @property
    def worked_s(self) -> float:
        """Wall-clock seconds that local steps took in this round."""
        return self.runtime.local.worked_s

    # ---- a round begins ----------------------------------------------------------------------------------------

    def begin(self, round_index: int) -> ReportBatch:
        """Let data arrive and windows slide, and return the reports of the clients that can be reached.

        Rounds come one after the other, from 0. A client that is offline reports as soon as it is back. Clusters meet
        if data arrive or a client reports, which acts on all of them: so reports come at the time of the latest.
        """
        if round_index != self.round_index + 1:
            raise InputError(f"round {round_index} cannot follow round {self.round_index}; go round by round")
        self.runtime.begin(round_index)
        self._accounts.begin()
        if self.runtime.experts is not None and self.runtime.experts.looked.any():  # the round does not wait for it
            everyone = np.arange(self.windows.n_clients)
            self._accounts.charge("probe", everyone, Costs(forward_samples=self.runtime.experts.looked))
        if self.windows.n_complete(round_index) > self.windows.n_complete(max(0, round_index - 1)):
            self.wait_for_all()
        if round_index:  # what is known of a model that is shared from the start is told in round 0
            self._sharing.skill = None
        now_s, availability = self.now_s, self._hardware.availability
        self._letters = self._mailbox.send(round_index, lambda clients: availability.available(clients, now_s))
        acting = self._letters
        if self.budget is not None:
            self._in_touch = np.empty(0, dtype=np.int64)
            if round_index:  # first reports later than that follow a shared model, and travel with training
                acting, self._arrived = self._arrived or NO_LETTERS, self._letters
            self.budget.note_reports(acting.clients)
        return acting.batch(self.client_ids)

    def _ask_others(self, plan: TrainingPlan, missing: Counts) -> None:
        """Let participants, all but those ``missing``, and the clients that the budget asks send what is new.

        No client is waited for. Clients that train on trial send it with the others.
        """
        budget, everyone = self.budget, np.arange(self.windows.n_clients)
        if budget is None:
            return
        self._in_touch = np.union1d(self._in_touch, np.setdiff1d(plan.clients, missing))
        if plan.is_probe:
            return
        budget.note_heard(plan.clients, self.round_index)
        others = self._accounts.is_online(everyone) & self._mailbox.is_worth_asking(everyone.size)
        others[plan.clients] = False
        if self._arrived is not None and self._arrived.clients.size:  # first reports: all are heard
            budget.note_heard(np.flatnonzero(others), self.round_index)
            return
        asked = budget.choose(others, self.draws("ask", everyone), self.round_index)
        self._take_answers(np.union1d(self._in_touch, asked))
        if self._arrived is not None and self._arrived.clients.size:
            self._accounts.charge("report", *self._arrived.costs())

    def _take_answers(self, clients: Counts) -> None:
        sent = self._mailbox.answer(clients, self.round_index)
        if sent.clients.size:
            self._arrived = sent

    def collect(self, clients: Counts) -> ReportBatch:
        """Return what clients send with the models that they trained."""
        self._letters = self._mailbox.collect(clients, self.round_index)
        return self._letters.batch(self.client_ids)

    def charge_reports(self) -> None:
        """Charge the reports that came last, and looking at samples for them; the round waits for the slowest."""
        letters, self._letters = self._letters, None
        if letters is not None and (letters.clients.size or letters.looked.clients.size):
            self._accounts.wait(float(self._accounts.charge("report", *letters.costs()).max()))

    @property
    def has_late_start(self) -> bool:
        """Whether clients train before they can report, since a shared model has to be trained first."""
        return self._sharing.comes_late and self.reports_from != "participants"

    @property
    def awaits_model(self) -> bool:
        """Whether clients wait for a shared model that is due."""
        return self._sharing.is_time(self.round_index + 1)

    def share(self, model: Models) -> None:
        """Send a model of all clusters to all clients; these are charged for it when they look at samples with it."""
        self.wait_for_all()
        self._sharing.share(plain_model(model, self._compute.layout, self.windows.n_classes))
        self._sharing.measure_skill(judging_rows(self.windows, self.round_index), self.windows.gather)

    @property
    def round_notes(self) -> Mapping[str, Json]:
        """What is to be written down of a shared model that came in this round; nothing in others."""
        return self._sharing.record()

    @property
    def cluster_figures(self) -> Mapping[int, Mapping[str, float]]:
        """Nothing: clients measure all."""
        return {}

    def serve(self, models: Models, row: Counts) -> None:
        """Let clients know the models that serve them."""
        self.runtime.serve(models, row)
        self._accounts.serve(row)

    def snapshot(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what cannot be found out by going through the data again."""
        return {
            **self._mailbox.arrays(),
            **self.runtime.arrays(),
            **self._sharing.arrays(),
            **self._accounts.clock.arrays(),
            **({} if self.budget is None else self.budget.arrays()),
        }

    def return_to(
        self,
        round_index: int,
        times: Sequence[float],
        *,
        ledger: Ledger,
        arrays: Mapping[str, npt.NDArray[np.generic]],
    ) -> ReportBatch:
        """Come back to the end of a round without training again; see :class:`~fielding.engine.round.Driver`."""
        self._sharing.restore(arrays)
        for done in range(round_index + 1):
            self._accounts.return_to(times[done])
            self._sharing.share_again(done)
            reports = self.begin(done)
            sent = self._mailbox.sent_in(done, dict(arrays))
            if self.budget is None:
                self.collect(sent)
            else:
                self._take_answers(sent)
        self._accounts.return_to(times[round_index + 1], ledger, arrays)
        self._letters = None
        if self.budget is not None:
            self.budget.restore(arrays)
        self.runtime.restore(arrays)
        self._sharing.share_again(round_index + 1)
        return reports

    # ---- the client API ----------------------------------------------------------------------------------------

    def draws(self, purpose: str, clients: Counts) -> Hashes:
        """Return a random number for each client that depends on seed, round and its id alone."""
        return hashed(self._seed, purpose, self.round_index, self._keys[clients])

    def has_data(self) -> Mask:
        """Return which clients have samples to train on, shape ``(n_clients,)``."""
        return np.asarray(self.runtime.training.sizes > 0)

    def fresh(self) -> Mask:
        """Return which clients can be reached and received training samples in this round, shape ``(n_clients,)``."""
        return self.runtime.has_new() & self._accounts.is_online(np.arange(self.windows.n_clients))

    def askable(self) -> Mask:
        """Return which clients have data and can be reached now, shape ``(n_clients,)``."""
        return self.has_data() & self._accounts.is_online(np.arange(self.windows.n_clients))

    def invitations(self, wanted: int, available: int) -> int:
        """Return how many to ask so that enough answer in time."""
        return invited_count(wanted, self._hardware.overcommit, available)

    def begins_s(self, plan: TrainingPlan) -> Vector:
        """Return the time at which the jobs of a plan begin: that of their clusters if these are in parallel."""
        if self._goes_on(plan):
            return self._accounts.clock.times_of(plan.start)
        return np.full(plan.clients.shape, self.now_s)

    def _goes_on(self, plan: TrainingPlan) -> bool:
        """Return whether the clusters of a plan go on by themselves."""
        return plan.is_parallel and self._barrier == "event"

    def train(self, plan: TrainingPlan) -> Updates:
        """Find which clients answer in time, let those train, charge all that were asked, and let time pass."""
        samples = self.runtime.samples(plan.clients, plan.blocks)
        refused = samples.sizes == 0
        rule = self.runtime.rule
        experts = None if plan.is_probe else self.runtime.experts
        costs = job_costs(
            plan,
            n_trained=rule.steps(plan) * rule.batch_size,
            n_passed=self.runtime.passes(plan, samples.sizes),
            along=(0, 0) if experts is None else experts.count_numbers(plan.models.shape[0]),
        )
        costs = without(costs, refused)
        seconds = self._accounts.seconds(plan.clients, costs)
        finish = finish_times(plan.clients, seconds)
        online = self._hardware.availability.available(plan.clients, self.begins_s(plan) + finish) & ~refused
        outcome = settle_round(plan.groups, finish, wanted=plan.wanted, finishes_online=online)
        reasons = np.where(refused, "refused", outcome.reasons)
        self._ask_others(plan, plan.clients[reasons == "offline"])
        self._accounts.charge(
            "probe" if plan.is_probe else "model", plan.clients, outcome.spent(costs), seconds=seconds
        )
        if not ((~refused).any() or plan.is_probe):
            self._accounts.wait(IDLE_S)  # else no time would pass, and a client that is offline now be so for ever
        elif self._goes_on(plan):
            groups, first = np.unique(plan.groups, return_index=True)
            self._accounts.clock.go_on(plan.start[first], outcome.durations_s[groups])
        else:
            self._accounts.wait(outcome.duration_s)
        updates = self.runtime.train(plan, np.flatnonzero(outcome.kept), samples)
        if experts is not None and updates.expert_losses is not None:
            experts.hear(updates.expert_losses)
        names: tuple[Reason, ...] = ("straggler", "offline", "refused")
        computing = Costs(forward_samples=costs.forward_samples, train_samples=costs.train_samples)
        missing = {**{name: plan.clients[reasons == name].tolist() for name in names}, **updates.missing}
        missing["refused"] = plan.clients[refused].tolist() + updates.missing.get("refused", [])
        return replace(
            updates,
            missing=missing,
            duration_s=outcome.duration_s,
            late=np.flatnonzero(reasons == "straggler"),
            seconds=finish,
            compute_seconds=seconds_of(self._hardware.devices, plan.clients, computing),
        )

    def losses(
        self,
        clients: Counts,
        models: Models,
        *,
        blocks: Sequence[Counts] | None = None,
        held: Mask | None = None,
        corrected: bool = False,
    ) -> Matrix:
        """Return the mean loss of models on clients' training samples; NaN without samples or out of reach."""
        more = None
        if corrected and self.runtime.serving.is_corrected and blocks is not None:
            # The mix is that of the window: not what they are asked about.
            more = self.runtime.serving.count_looks(self.runtime.training.sizes[clients])
        return self._ask(
            clients,
            models,
            self.runtime.samples(clients, blocks),
            lambda asked, samples: self.runtime.losses(asked, models, samples, corrected=corrected),
            held=held,
            more_passes=more,
        )

    def accuracies(
        self, clients: Counts, models: Models, *, blocks: Sequence[Counts] | None = None, held: Mask | None = None
    ) -> Matrix:
        """Return the share of clients' training samples that models get right; otherwise as :meth:`losses`."""
        samples = self.runtime.samples(clients, blocks)
        return self._ask(
            clients, models, samples, lambda _asked, some: self.runtime.accuracies(models, some), held=held
        )

    def block_sizes(self, clients: Counts, blocks: Sequence[Counts]) -> Counts:
        """Return how many training samples clients have of some intervals; 0 for a client out of reach."""
        samples = self.runtime.samples(clients, blocks)
        none: Models = np.empty((0, 0), dtype=np.float32)
        sizes = self._ask(clients, none, samples, lambda _asked, some: some.sizes[:, np.newaxis].astype(np.float64))
        return np.nan_to_num(sizes[:, 0]).astype(np.int64)

    def _ask(
        self,
        clients: Counts,
        models: Models,
        samples: Ranges,
        measure: Callable[[Counts, Ranges], Matrix],
        *,
        held: Mask | None = None,
        more_passes: Counts | None = None,
    ) -> Matrix:
        """Return the answers of the clients that can be reached and have samples, a row each, and charge them.

        A client may be asked several times. ``held`` says which have these models already, ``more_passes`` how many
        samples each puts through each model beside those that it is asked about; None for none.
        """
        reached = np.flatnonzero(self._accounts.is_online(clients) & (samples.sizes > 0))
        asked = clients[reached]
        seen = samples.sizes if more_passes is None else samples.sizes + more_passes
        self._accounts.answer(
            asked, answer_costs(asked, models, seen[reached], None if held is None else held[reached])
        )
        found = np.full((clients.size, models.shape[0] or 1), np.nan)
        found[reached] = measure(asked, samples.some(reached))
        return found

    # ---- only sums, with noise (docs/privacy-client.md) ----------------------------------------------------------

    def noised_sum(self, asked: Asked, candidates: tuple[Matrix, ...]) -> Counts | None:
        """Return a sum over the clients that can be reached, with noise; None once the budget is spent."""
        if self._sums is None or not self._sums.grant(self.round_index):
            return None
        clients = np.flatnonzero(self.askable())
        parts = parts_of(asked, count_labels(self.windows, clients, self.round_index), candidates)
        n_sent = sum(one.size for one in candidates)
        self._charge_sums(clients, Costs(down_bytes=BYTES_PER_NUMBER * n_sent, up_bytes=8 * parts.shape[1]))
        return self._sums.noised(parts.sum(axis=0), self.round_index)

    def choose(self, clients: Counts, centers: Matrix) -> Membership:
        """Return the cluster that clients ask for; -1 without data or out of reach."""
        found = np.full(clients.size, -1, dtype=np.int32)
        reached = np.flatnonzero(self.askable()[clients])
        asking = clients[reached]
        ids = choose_clusters(count_labels(self.windows, asking, self.round_index), centers)
        id_epsilon = None if self._sums is None else self._sums.rule.id_epsilon
        if id_epsilon is not None:
            ids = randomise_ids(ids, len(centers), id_epsilon, lambda _n: self.draws("privacy id", asking))
        self._charge_sums(asking, Costs(down_bytes=BYTES_PER_NUMBER * centers.size, up_bytes=BYTES_PER_NUMBER))
        found[reached] = ids
        return found

    def _charge_sums(self, clients: Counts, costs: Costs) -> None:
        """Charge an answer of clients; all clusters meet, and the round waits for the slowest client."""
        self.wait_for_all()
        if clients.size:
            self._accounts.wait(float(self._accounts.charge("report", clients, costs).max()))

    # ---- measurements, which no method sees ----------------------------------------------------------------------

    def scores(self, models: Models, row: Counts) -> dict[str, ClientScores]:
        """Measure clients' models on the samples that :data:`~fielding.federation.evaluation.SCORES` names.

        Those of all clients, or of a sample of those that have data. What clients do to the models that serve them is
        charged, testing is not.
        """
        now, windows, serving = self.round_index, self.windows, self.runtime.serving
        others = {"next": windows.next(now)}
        if windows.n_visible > 1:  # else the newest interval is the window
            others = {"newest": windows.newest(now), **others}
        everyone, testable = np.arange(windows.n_clients), self.has_data()
        sample = None
        if self._n_tested is not None:
            sample = sample_clients(testable, self.draws("test", everyone), self._n_tested)
        tested = self.runtime.test(models, row, others, clients=sample)
        found = {name: tested.get(name, tested["window"]) for name in SCORES}
        if sample is not None:
            found = {name: replace(one, n_of=int(testable.sum())) for name, one in found.items()}
        if self.budget is not None:
            self.budget.note_losses(found["window"].clients, found["window"].loss)
        if serving.has_own_work:  # the round does not wait for it
            sizes = self.runtime.training.sizes
            if sample is not None:
                sizes = np.where(np.isin(everyone, sample), sizes, 0)
            steps = np.zeros_like(sizes)
            for one in tested.values():
                steps[one.clients] = serving.fine_tune
            looks = serving.count_looks(sizes)
            if self.runtime.experts is not None:
                looks = looks + self.runtime.experts.count_passes(sizes)
            costs = Costs(forward_samples=looks, train_samples=steps * self.runtime.rule.batch_size)
            self._accounts.charge("probe", everyone, costs)
        return found

    def concepts(self) -> Codes | None:
        """Return the true concept of each client now, or None if the trace does not tell."""
        return self.windows.concepts(self.round_index)

    def heterogeneity(self, membership: Membership) -> float | None:
        """Return the mean L1 distance between label histograms of clients of the same cluster; None without pairs."""
        training = self.runtime.training
        clients = np.flatnonzero((training.sizes > 0) & (membership >= 0))
        measured = mean_client_distance(
            Points(self.windows.histograms(training, clients)),
            membership[clients],
            metric=metric_named("l1"),
            rng=stream(self._seed, "measured heterogeneity", self.round_index),
        )
        return float(measured.mean) if measured.mean is not None and np.isfinite(measured.mean) else None
