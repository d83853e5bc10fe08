"""A device: a runtime of one client with files, whose answers may be asked for twice."""

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Vector
from fielding.client.ranges import Ranges, joined_ranges
from fielding.errors import CheckpointError, InputError, error_words
from fielding.federation.clients import Updates
from fielding.federation.evaluation import NO_SCORES
from fielding.flower.device.dataset import References
from fielding.flower.device.delivered import (
    evidence_of,
    keep_delivered,
    model_info,
    read_shelf,
    write_shelf,
)
from fielding.flower.device.observe import (
    ME,
    DeviceObserver,
    LabelMonitor,
    ModelObserver,
    SilentObserver,
    model_key,
    observer_model_key,
)
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.sample_files import DamagedSamplesError, SampleFiles
from fielding.flower.device.samples import FARTHEST, IN_APP, LATEST_S, LOG, NOTHING, Kept, checked_samples
from fielding.flower.device.state import (
    MEMORY,
    STATE,
    DeviceState,
    HeldModel,
    confirmation,
    has_changed,
    keep_served,
    keep_shared,
    one_update,
    order_digest,
    read_held,
    read_memory,
    read_served,
    read_state,
    read_training,
    remove_run,
    run_folder,
    set_aside,
    write_memory,
    write_state,
    write_training,
)
from fielding.flower.device.store import DeviceStore
from fielding.flower.wire.orders import (
    NO_REPORT,
    OF_CENTERS,
    DescribeOrder,
    DescribeReply,
    EvaluateOrder,
    EvaluateReply,
    Holding,
    Order,
    ProbeOrder,
    ProbeReply,
    Reply,
    Report,
    ServedView,
    TrainOrder,
    TrainReply,
    WorkRule,
    one_line,
)
from fielding.rng import client_key
from fielding.runtime.own_code import DeviceNode, OwnCompute, named_tensors
from fielding.runtime.runtime import ClientRuntime
from fielding.runtime.workers import Compute, Workers
from fielding.training.factory import ModelRequest, trainer_for
from fielding.training.label_mix import LABEL_MIX, LabelMixTrainer
from fielding.training.layout import Layout
from fielding.training.trainer import Trainer

if TYPE_CHECKING:
    from fielding.runtime.train import NoiseOf

ID = "device"
"""How the ledger of a device calls it."""


class Device:
    """Answers the server's orders, from files alone: each message may meet a new process.

    The samples of a round are taken in once; as long as there are none, it is asked for again. The last report goes
    with every answer until an order confirms it; a device that takes in new samples meanwhile makes a new one of them.
    An order of an earlier round is answered from what is known now: nothing can be unseen.

    ``noise_of``: where the noise of private reports comes from; None for the system's cryptographic source.
    """

    def __init__(self, node: DeviceNode, rule: DeviceRule, own: OwnCode, *, noise_of: "NoiseOf | None" = None) -> None:
        self._node, self.rule, self._own, self._noise_of = node, rule, own, noise_of
        self._references = References(own.dataset, node)
        self._here = node  # where the user's own code is: the folder is that of the run in hand

    def answer(self, order: Order) -> Reply:
        """Do what an order says; what was learned of the data is on disk before anything is trained.

        Where nothing came, left or is to be reported, nothing is written.
        """
        if isinstance(order, DescribeOrder) and order.asks == "end":
            remove_run(self._node.folder, order.run_id)
            return DescribeReply(n_samples=0, partition=self._node.partition)
        here = self._here = replace(self._node, folder=run_folder(self._node.folder, order.run_id))
        self._references = References(self._own.dataset, here)
        try:
            return self._answer(order, here)
        except DamagedSamplesError as error:
            set_aside(here.folder, STATE, error)
            return self._answer(order, here)

    def _answer(self, order: Order, here: DeviceNode) -> Reply:
        view = order.shared if isinstance(order, (TrainOrder, DescribeOrder)) else None
        shared = keep_shared(here.folder, view) if self.rule.needs_model else None
        is_silent = view is None and isinstance(order, (TrainOrder, DescribeOrder))  # the server knows of no model
        state = self._catch_up(here, order, None if is_silent else shared)
        if self.rule.needs_errors or _has_experts(order):
            keep_served(here.folder, order)
        store = self._store(state.kept, state.files, first=state.first)
        if isinstance(order, ProbeOrder):
            return self._probe(order, store)
        holding = self._deliver(order, store, here, state)
        if isinstance(order, EvaluateOrder):
            return replace(self._test(order, store, state), holding=holding)
        report = self._widened(state.report) if state.number > order.confirmed else None
        holds = confirmation(view, shared) if self.rule.needs_model else None
        if isinstance(order, TrainOrder):
            updates = self._train(order, store, replace(here, since=state.round_index), state)
            if updates is not None:
                reply = TrainReply(updates=updates, report=report, holds=holds, holding=holding)
                if order.share is None:
                    return reply
                part = np.ascontiguousarray(updates.models[:, order.sent_numbers()])
                return replace(reply, updates=replace(updates, models=part), is_part=True)
        n_samples = int(store.training(order.round_index).sizes[0])
        return DescribeReply(n_samples=n_samples, report=report, partition=here.partition, holds=holds, holding=holding)

    # ---- what is known of the data ---------------------------------------------------------------------------------

    def _catch_up(self, here: DeviceNode, order: Order, shared: HeldModel | None) -> DeviceState:
        """Return what the device knows in the round of an order, on disk."""
        rule, state = self.rule, read_state(here.folder)
        is_introduction = isinstance(order, DescribeOrder) and order.asks == "name"
        confirmed = None if isinstance(order, EvaluateOrder) or is_introduction else order.confirmed
        number = NO_REPORT if state is None else state.number
        is_new = state is None or order.round_index > state.round_index
        is_behind = confirmed is not None and confirmed > number  # the server knows more of this device than it does
        has_new_model = (
            rule.needs_model
            and shared is not None
            and state is not None
            and observer_model_key(state.monitor) != model_key(shared)
        )
        if state is not None and not (is_new or is_behind or has_new_model):
            return state
        now = order.round_index if state is None or is_new else state.round_index
        known, coming, files, clock = self._take_in(here, state, now, is_new=is_new)
        everything, first = known.join(coming), clock - rule.length + 1
        experts = {} if state is None else self._judge_experts(here, order, state, coming, files, first)
        is_kept = is_recent = (everything.moment >= first) | (everything.rounds > self._last_left(now, first))
        if state is None or not is_recent.all():
            memory = read_memory(here.folder)
            if state is None and memory.rehearsal:  # its places are those of samples that were lost
                memory = replace(memory, rehearsal={})
                write_memory(here.folder, memory)
            # Samples that rehearsal remembers stay; their rows are places among all that ever came.
            is_kept = is_recent | np.isin(everything.places, memory.rehearsal.get("rehearsal.memory_row", ME[:0]))
        store = self._store(everything.some(is_kept), files, first=first)
        observer = self._observer(here, order, shared, store, clock)
        try:
            if state is not None:
                observer.resume(state.monitor)
        except CheckpointError as error:
            set_aside(here.folder, STATE, error)
            return self._catch_up(here, order, shared)
        if confirmed is not None and confirmed != number:
            observer.report_again()
        report = observer.observe(now, clock, coming.training())
        last = None if state is None else state.report
        if report is not None:
            last = replace(report, number=max(number, confirmed or NO_REPORT) + 1)
        after = DeviceState(
            round_index=now,
            kept=store.kept,
            files=files,
            monitor=observer.state(),
            report=last,
            first=first,
            n_taken=(0 if state is None else state.n_taken) + coming.y.size,
            experts=experts,
        )
        if has_changed(state, after):
            files, kept = files.compact(store.kept, is_recent[is_kept])
            after = replace(after, files=files, kept=kept)
            write_state(here.folder, after, state)
        return after

    def _take_in(
        self, here: DeviceNode, state: DeviceState | None, now: int, *, is_new: bool
    ) -> tuple[Kept, Kept, SampleFiles, int]:
        """Return the samples that are known, those that come, where their features are, and the clock of the window."""
        rule, since, n_taken = self.rule, None, 0
        known, files, left = NOTHING, SampleFiles(here.folder), -FARTHEST  # the window began after this moment
        if state is not None:
            known, files, since, n_taken, left = (
                state.kept,
                state.files,
                state.round_index,
                state.n_taken,
                state.first - 1,
            )
        clock = newest = None
        if rule.window_ms is not None:
            clock = self._milliseconds(replace(here, since=since), now)
            known = replace(known, moment=np.minimum(known.moment, clock))  # a clock that was ahead was set
            newest = min(clock, max([left, *known.moment[-1:].tolist()]))
        coming = NOTHING
        if is_new:
            given = self._own.load_data(replace(here, since=since), now)
            file = len(files.arrays) if self._own.dataset is None else IN_APP
            coming, x = checked_samples(
                given,
                n_classes=rule.n_classes,
                now=now,
                since=since,
                n_taken=n_taken,
                file=file,
                is_own=self._own.train is not None,
                clock=clock,
                newest=newest,
            )
            if coming.y.size and file == IN_APP:
                self._references.check(coming.row, coming.key)
            elif coming.y.size:
                files = files.add(x)
        if clock is None:  # it counts rounds, and must not run backwards
            before = -FARTHEST if state is None else left + rule.length
            clock = max(rule.last_tick(now), *coming.rounds[-1:].tolist(), before)
        return known, coming, files, clock

    def _last_left(self, now: int, first: int) -> int:
        """Return the last round of which no samples are kept for methods that ask for some of long ago."""
        start = first if self.rule.window_ms is None else now + 1
        return start - self.rule.memory_rounds - 1

    def _milliseconds(self, here: DeviceNode, now: int) -> int:
        """Return the time, milliseconds: by the device's clock, which its samples are stamped by, or the app's own."""
        seconds = time.time() if self._own.clock is None else float(self._own.clock(here, now))
        if not abs(seconds) < LATEST_S:
            raise InputError(f"clock of client_app gave {seconds:g}, which is no date in unix seconds")
        return round(seconds * 1000)

    def _widened(self, report: Report | None) -> Report | None:
        """Return a report that may be older than the class list with a share of zero for each class that came later."""
        is_shares = self.rule.detector is None and self.rule.representation is None and self._own.describe is None
        if report is None or not is_shares or not 0 < report.representation.size < self.rule.n_classes:
            return report
        extra = self.rule.n_classes - report.representation.size
        return replace(report, representation=np.pad(report.representation, (0, extra)))

    def _read_served(self, here: DeviceNode, order: Order) -> HeldModel | None:
        """Return the model that served this device before an order; None also if it knows fewer classes than now."""
        held = read_served(here.folder, order)
        return None if held is None or held.work.classes < self.rule.n_classes else held

    def _store(self, kept: Kept, files: SampleFiles, *, first: int) -> DeviceStore:
        return DeviceStore(kept, files, self.rule, first=first, references=self._references)

    def _judge_experts(
        self, here: DeviceNode, order: Order, state: DeviceState, coming: Kept, files: SampleFiles, first: int
    ) -> Mapping[str, npt.NDArray[np.generic]]:
        """Return what the device knows of its experts after they predicted the samples that came.

        Samples from before the moment ``first`` leave the window then.
        """
        new, known = coming.training(), state.window().training()
        n_left = int((known.moment < first).sum() + (new.moment < first).sum())
        held = self._read_served(here, order) if known.y.size and (new.y.size or n_left) else None
        if held is None or held.served is None:
            return state.experts
        store = self._store(state.kept.join(coming), files, first=state.first)
        runtime = self.runtime(held.layout, held.work, store, seed=order.seed, state=state, served=held.served)
        if runtime.experts is None:
            return state.experts
        models, row = held.served.models(held.model)
        if new.y.size:
            runtime.experts.learn(models, row, joined_ranges([new.places]), joined_ranges([known.places]))
        both = np.concatenate([known.places, new.places])
        before = Ranges(start=np.zeros(1, dtype=np.int64), stop=np.array([known.places.size]), entries=both)
        runtime.experts.keep(before, Ranges(start=np.array([n_left]), stop=np.array([both.size]), entries=both))
        return runtime.experts.own_arrays()

    def _observer(
        self, here: DeviceNode, order: Order, shared: HeldModel | None, store: DeviceStore, clock: int
    ) -> DeviceObserver:
        compute = None
        if self.rule.needs_model and shared is not None and store.kept.y.size:
            compute = self.runtime(shared.layout, shared.work, store, seed=order.seed).compute
        if self.rule.is_silent:
            return SilentObserver()
        if self.rule.privacy is not None:
            if self._own.describe is not None:
                raise InputError(
                    "client_app has describe, but reports are to be private: leave it out, how much one sample changes "
                    "what it returns is not known"
                )
            from fielding.flower.device.private_reports import PrivateReporter

            ledger = _ledger(here.folder)
            return PrivateReporter(
                self.rule, store, shared=shared, compute=compute, ledger=ledger, noise_of=self._noise_of
            )
        if self.rule.detector is None:
            by_time = clock if self.rule.window_ms is not None else None
            return LabelMonitor(self.rule, store, self._own.describe, clock=by_time)

        def errors(rows: Counts) -> Vector:
            """Return where the model that served this device before the order errs on rows; NaN without one."""
            served = self._read_served(here, order) if rows.size else None
            if served is None:
                return np.full(rows.size, np.nan)
            runtime = self.runtime(served.layout, served.work, store, seed=order.seed)
            runtime.begin(order.round_index)
            runtime.serve(served.model[np.newaxis], ME)
            return runtime.errors(rows)

        return ModelObserver(self.rule, store, shared=shared, compute=compute, errors=errors)

    # ---- models that are delivered ---------------------------------------------------------------------------------

    def _deliver(self, order: Order, store: DeviceStore, here: DeviceNode, state: DeviceState) -> Holding | None:
        """Keep a model that an order delivers, tell the app of it, and return what the server is told.

        The app is told again if this process dies before it is done. A version that it refuses is not served.
        """
        if self._own.on_model is None:
            return None
        keep_delivered(here.folder, order, is_own=self._own.train is not None)
        shelf, trouble = read_shelf(here.folder), ""
        if not shelf.delivered or not (here.folder / shelf.delivered).exists():  # a damaged one was put aside
            return Holding(key="")
        evidence = evidence_of(state) if shelf.has_experts else ""
        is_told = shelf.delivered == shelf.serving and shelf.evidence == evidence
        if is_told or shelf.refused == shelf.delivered:
            return Holding(key=shelf.key)
        held = read_held(here.folder, shelf.delivered)
        if held is None:
            return Holding(key="")
        info = model_info(held, replace(here, since=state.round_index), self.expert_weights(held, store, state))
        try:
            self._own.on_model(named_tensors(held.layout, held.model), info)
            shelf = replace(shelf, serving=shelf.delivered, evidence=evidence)
        except Exception as error:  # whatever the user's code does; the version before serves on
            trouble = one_line(error_words(error))
            LOG.warning("on_model refused version %s, which is not served: %s", info.version, trouble)
            shelf = replace(shelf, refused=shelf.delivered)
        write_shelf(here.folder, shelf)
        return Holding(key=shelf.key, trouble=trouble)

    def expert_weights(self, held: HeldModel, store: DeviceStore, state: DeviceState) -> dict[str, float]:
        """Return how much the device believes each of its experts, by name; none without experts or samples."""
        if held.served is None or not store.training(0).sizes[0]:
            return {}
        experts = self.runtime(held.layout, held.work, store, seed=0, state=state, served=held.served).experts
        return {} if experts is None else dict(zip(experts.told_names, experts.weights(ME)[0].tolist(), strict=True))

    # ---- models ----------------------------------------------------------------------------------------------------

    def runtime(
        self,
        layout: Layout,
        work: WorkRule,
        store: DeviceStore,
        *,
        seed: int,
        state: DeviceState | None = None,
        served: ServedView | None = None,
    ) -> ClientRuntime:
        """Return the runtime of this one client; there is at least one sample.

        With ``served`` it has experts, of which the device knows what ``state`` says.
        """
        serving, compute, private = work.serving, None, work.local.private
        if private is not None and self._own.train is not None:
            raise InputError("training is to be private, but client_app has train: what it does cannot be bounded")
        if self._own.train is not None:
            here = self._here if state is None else replace(self._here, since=state.round_index)
            visit = lambda _client, _round_index: nullcontext(here)  # noqa: E731
            compute = OwnCompute(self._own, store, layout, mix_rate=work.mix_rate, seed=seed, visit=visit)
            serving = replace(serving, fine_tune=0)
        keys = np.array([client_key(work.client)], dtype=np.uint64)
        made: Compute = compute or Workers(self._trainer(layout, work, store))
        if served is None or compute is not None:  # code of one's own shows no features
            serving = replace(serving, experts=())
        budget, noise_of = None, self._noise_of
        if private is not None:
            from fielding.client.privacy.geometric import secret_words  # most devices need none of it
            from fielding.client.privacy.ledger import PrivacyLedger

            budget = (PrivacyLedger(_ledger(self._here.folder), private.rule()), (ID,))
            noise_of = noise_of or (lambda _client, _round_index: secret_words)
        runtime = ClientRuntime(
            store,
            made,
            work.local,
            serving=serving,
            has_heads=served is not None and served.heads is not None,
            metrics=self._own.metrics,
            seed=seed,
            keys=keys,
            budget=budget,
            noise_of=noise_of,
        )
        if runtime.experts is not None and served is not None:
            runtime.experts.know(served.heard, {} if state is None else state.experts)
        return runtime

    def _trainer(self, layout: Layout, work: WorkRule, store: DeviceStore) -> Trainer:
        """Return the trainer of the model that came, or raise if it is another one than the rule describes."""
        factory = self._own.model
        request = ModelRequest(
            name=work.model,
            factory=factory,
            input_shape=store.shape,
            n_classes=work.classes,
            trainer=work.trainer if factory is None else "torch",
            device=work.device,
            hidden=work.hidden,
        )
        if (label := store.kept.y.max()) >= work.classes:
            raise InputError(f"a sample has label {label}, but the server's model knows {work.classes} classes")
        trainer = trainer_for(request)
        if LABEL_MIX in layout.names:
            trainer = LabelMixTrainer(trainer, work.classes, rate=work.mix_rate, is_balanced=work.local.balanced)
        if trainer.layout != layout:
            raise InputError(
                f"the server sent a model of {layout.size} numbers, but {work.model!r} on samples of shape "
                f"{request.input_shape} has {trainer.layout.size}; bring config and load_data into line, or give "
                "client_app train and evaluate if server_app has a first_model"
            )
        return trainer

    def _train(self, order: TrainOrder, store: DeviceStore, here: DeviceNode, state: DeviceState) -> Updates | None:
        """Return what a job gives, as it did if it was done before; None if there are no samples for it."""
        plan = order.plan
        training = store.training(order.round_index) if plan.blocks is None else store.training_blocks(ME, plan.blocks)
        if not training.sizes[0]:
            return None
        digest = order_digest(order)
        done = read_training(here.folder, digest)
        if done is not None:
            return done
        runtime = self.runtime(order.layout, order.work, store, seed=order.seed, state=state, served=order.served)
        runtime.begin(order.round_index)
        memory, local = read_memory(here.folder), runtime.local
        previous = memory.previous(order.round_index, order.layout.size)
        if local.previous_models is not None and previous is not None:
            local.previous_models.keep(ME, previous[np.newaxis])
        if local.rehearsal is not None and memory.rehearsal:
            try:
                local.rehearsal.restore(memory.rehearsal)
            except CheckpointError as error:
                set_aside(here.folder, MEMORY, error)
        updates = runtime.train(plan, ME)
        if updates.missing.get("refused"):  # no budget is left
            return None
        if updates.missing["failed"]:  # the server learns that it failed, and gets the report all the same
            return one_update(np.full(order.layout.size, np.nan, np.float32), n_samples=1, losses=np.ones(2), start=-1)
        model = updates.models[0] if local.previous_models is not None and not plan.is_probe else None
        kept = {} if local.rehearsal is None else local.rehearsal.arrays()
        if model is not None or kept:
            write_memory(here.folder, replace(memory.after(order.round_index, model), rehearsal=kept))
        updates = updates if plan.chooses else replace(updates, start=np.array([-1]))
        write_training(here.folder, digest, updates)
        return updates

    def _probe(self, order: ProbeOrder, store: DeviceStore) -> ProbeReply:
        """Return how models do on the samples of each question, or how many these are."""
        if order.wanted in OF_CENTERS:
            return self._answer_sums(order, store)
        who = np.zeros(len(order.blocks), dtype=np.int64)
        blocks = [None if one is None else np.array(one, dtype=np.int64) for one in order.blocks]
        training = store.training(order.round_index)
        sizes = np.zeros(who.size, dtype=np.int64)
        values = np.zeros((who.size, order.n_answers))
        for at, block in enumerate(blocks):
            samples = training if block is None else store.training_blocks(ME, [block])
            sizes[at] = samples.sizes[0]
            if not sizes[at] or order.work is None or not order.n_answers:
                continue
            runtime = self.runtime(order.layout, order.work, store, seed=order.seed)
            runtime.begin(order.round_index)
            if order.wanted == "losses":
                found = runtime.losses(ME, order.models, samples, corrected=order.corrected)[0]
                values[at] = np.where(np.isnan(found), np.inf, found)  # a model that diverged suits no client
            else:
                values[at] = runtime.accuracies(order.models, samples)[0]
        return ProbeReply(sizes=sizes, values=values)

    def _answer_sums(self, order: ProbeOrder, store: DeviceStore) -> ProbeReply:
        """Return what this device adds to a sum, or the cluster that it asks for; not how many samples it has."""
        if not self.rule.is_silent:
            raise InputError('sums are asked for, but not by privacy.mode = "client"; nothing was answered')
        from fielding.client.privacy.geometric import secret_words
        from fielding.client.privacy.sums import choose_clusters, parts_of, randomise_ids
        from fielding.runtime.private_reports import count_labels

        counts, sets = count_labels(store, ME, order.round_index), order.candidates()
        if any(one.shape[1] != counts.shape[1] for one in sets):
            raise InputError(f"centers have {sets[0].shape[1]} labels, but there are {counts.shape[1]}")
        values = np.zeros((1, order.n_answers))
        has_data = bool(counts.any())
        if has_data and order.wanted == "cluster":
            ids = choose_clusters(counts, sets[0])
            if order.id_epsilon is not None:
                ids = randomise_ids(ids, len(sets[0]), order.id_epsilon, secret_words)
            values[0] = ids
        elif has_data:
            values[0] = parts_of("step" if order.wanted == "step" else "silhouettes", counts, sets)[0]
        return ProbeReply(sizes=np.array([int(has_data)]), values=values)

    def _test(self, order: EvaluateOrder, store: DeviceStore, state: DeviceState) -> EvaluateReply:
        """Return how a model serves the device; without test or training samples the scores are empty."""
        now = order.round_index
        if not store.testing(now).sizes[0] or not store.training(now).sizes[0]:
            return EvaluateReply(scores=NO_SCORES)
        runtime = self.runtime(order.layout, order.work, store, seed=order.seed, state=state, served=order.served)
        runtime.begin(now)
        models, row = (order.model[np.newaxis], ME) if order.served is None else order.served.models(order.model)
        return EvaluateReply(scores=runtime.test(models, row)["window"])


def _ledger(folder: Path) -> Path:
    """Return the ledger of a run: beside its folder, since the run may go on after its end, when that is gone."""
    from fielding.client.privacy.ledger import LEDGER

    return folder.with_name(f"{folder.name}.{LEDGER}")


def _has_experts(order: Order) -> bool:
    """Return whether an order brings what experts need."""
    return isinstance(order, (TrainOrder, EvaluateOrder)) and order.served is not None
