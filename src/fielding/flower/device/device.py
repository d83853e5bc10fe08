"""A device: takes in its samples, tells how they drift, trains and tests; any order may come twice."""

from dataclasses import replace
from functools import partial

from fielding.errors import CheckpointError
from fielding.flower.device.local_jobs import Scorer, settings_from
from fielding.flower.device.model_observe import DeviceSight, ModelWatcher
from fielding.flower.device.models import HeldModel, confirmation, keep_served, served_here, shared_here
from fielding.flower.device.observe import Arrived, LabelWatcher, Watcher
from fielding.flower.device.own_code import OwnCode
from fielding.flower.device.partial_uploads import sent_part
from fielding.flower.device.probes import block_samples, chosen, probed
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.samples import NOTHING, DeviceNode, Kept, checked_samples
from fielding.flower.device.scoring import DeviceScoring
from fielding.flower.device.state import (
    STATE,
    DeviceState,
    order_digest,
    read_state,
    read_training,
    run_folder,
    set_aside,
    write_state,
    write_training,
)
from fielding.flower.device.tests import device_test
from fielding.flower.device.training import Workplace, device_training
from fielding.flower.wire.orders import NO_REPORT, DescribeOrder, EvaluateOrder, Order, ProbeOrder, TrainOrder
from fielding.flower.wire.replies import DescribeReply, ProbeReply, Reply, Report, TrainReply


class Device:
    """Answers the server's orders, from files alone: each message may meet a new process.

    The samples of a round are taken in once, when it is first heard of. The last report goes with every answer until
    an order confirms it; a device that takes in new samples meanwhile makes a new one of them. An order of an earlier
    round is answered from what is known now: nothing can be unseen.

    Parameters
    ----------
    node
        Where this is; state lies in its folder.
    rule
        What to keep, and when to report.
    own
        The user's code.
    """

    def __init__(self, node: DeviceNode, rule: DeviceRule, own: OwnCode) -> None:
        self._node, self._rule, self._own = node, rule, own

    def answer(self, order: Order) -> Reply:
        """Do what an order says; what was learned of the data is on disk before anything is trained."""
        here = replace(self._node, folder=run_folder(self._node.folder, order.run_id))
        view = order.shared if isinstance(order, (TrainOrder, DescribeOrder)) else None
        shared = shared_here(here.folder, view) if self._rule.needs_model else None
        is_silent = view is None and isinstance(order, (TrainOrder, DescribeOrder))  # the server knows of no model
        state = self._caught_up(here, order, None if is_silent else shared)
        if self._rule.needs_errors:
            keep_served(here.folder, order)
        if isinstance(order, EvaluateOrder):
            return device_test(order, state.window(), self._own)
        if isinstance(order, ProbeOrder):
            return self._probed(order, state)
        samples = state.window().training()
        report = state.report if state.number > order.confirmed else None
        holds = confirmation(view, shared) if self._rule.needs_model else None
        if isinstance(order, TrainOrder):
            own = block_samples(state.kept, order.block, window=samples, rule=self._rule)
            if own.y.size:
                place = Workplace(node=here, state=state, rule=self._rule, own=self._own)
                return replace(self._trained(order, own, report, place=place), holds=holds)
        return DescribeReply(n_samples=int(samples.y.size), report=report, partition=here.partition, holds=holds)

    # ---- what is known of the data ---------------------------------------------------------------------------------

    def _caught_up(self, here: DeviceNode, order: Order, shared: HeldModel | None) -> DeviceState:
        """Return what the device knows in the round of an order, on disk."""
        state, watcher = self._remembered(here, order, shared)
        confirmed = None if isinstance(order, EvaluateOrder) else order.confirmed
        number = NO_REPORT if state is None else state.number
        is_new = state is None or order.round_index > state.round_index
        is_behind = confirmed is not None and confirmed > number  # the server knows more of this device than it does
        if state is not None and not (is_new or is_behind or watcher.is_behind):
            return state
        if confirmed is not None and confirmed != number:
            watcher.report_again()
        known = NOTHING if state is None else state.kept
        now = order.round_index if state is None or is_new else state.round_index
        coming = self._loaded(replace(here, since=None if state is None else state.round_index), now, is_new=is_new)
        clock = max(self._rule.struck(now), *coming.rounds[-1:].tolist(), watcher.clock)
        everything = known.followed_by(coming)
        first = clock - self._rule.max_rounds + 1
        kept = everything.some(everything.rounds >= first - self._rule.memory_rounds)
        window = kept.some(kept.rounds >= first).training()
        told = watcher.observe(Arrived(round_index=now, clock=clock, new=coming.training(), window=window))
        report = None if state is None else state.report
        if told is not None:
            report = replace(told, number=max(number, confirmed or NO_REPORT) + 1)
        state = DeviceState(
            round_index=now,
            kept=kept,
            monitor=watcher.arrays(),
            report=report,
            first=first,
            n_taken=coming.y.size + (0 if state is None else state.n_taken),
        )
        write_state(here.folder, state)
        return state

    def _remembered(
        self, here: DeviceNode, order: Order, shared: HeldModel | None
    ) -> tuple[DeviceState | None, Watcher]:
        """Return what is on disk, and a watcher that goes on from there."""
        state, watcher = read_state(here.folder), self._watcher(here, order, shared)
        if state is None:
            return None, watcher
        try:
            watcher.restore(state.monitor)
        except CheckpointError as error:
            set_aside(here.folder, STATE, error)
            return None, self._watcher(here, order, shared)
        return state, watcher

    def _watcher(self, here: DeviceNode, order: Order, shared: HeldModel | None) -> Watcher:
        rule, own = self._rule, self._own
        if rule.judge is None:
            return LabelWatcher(rule, own.describe)
        sight = DeviceSight(
            n_classes=rule.n_classes,
            shared=shared,
            served=lambda: served_here(here.folder, order),
            own=own,
        )
        return ModelWatcher(rule, sight)

    def _loaded(self, here: DeviceNode, now: int, *, is_new: bool) -> Kept:
        if not is_new:
            return NOTHING
        given = self._own.load_data(here, now)
        rule = self._rule
        return checked_samples(given, n_classes=rule.n_classes, now=now, since=here.since, kept_aside=rule.kept_aside)

    # ---- models ----------------------------------------------------------------------------------------------------

    def _trained(self, order: TrainOrder, samples: Kept, report: Report | None, *, place: Workplace) -> TrainReply:
        digest = order_digest(order)
        training = read_training(place.folder, digest)
        if training is None:
            choice, start = chosen(order, samples, self._scoring(order).score)
            training = replace(device_training(choice, samples, place), start=start)
            write_training(place.folder, digest, training)
        return TrainReply(
            model=sent_part(order, training.model),
            n_samples=training.n_samples,
            loss=training.loss,
            square_loss=training.square_loss,
            start_loss=training.start_loss,
            start=training.start,
            is_part=order.share is not None,
            report=report,
        )

    def _probed(self, order: ProbeOrder, state: DeviceState) -> ProbeReply:
        window = state.window()
        training = window.training()
        if order.aside:
            asked = [window.aside() for _ in order.blocks]
        else:
            asked = [block_samples(state.kept, one, window=training, rule=self._rule) for one in order.blocks]
        return probed(order, asked, self._scorer(order, training))

    def _scorer(self, order: ProbeOrder, window: Kept) -> Scorer:
        """Return how the device scores models: as they are, or as they would serve it."""
        if not order.models:
            return lambda _model, _samples: (0, 0.0)  # nobody asks
        scoring = self._scoring(order)
        return partial(scoring.served, window=window) if order.corrected else scoring.score

    def _scoring(self, order: TrainOrder | ProbeOrder) -> DeviceScoring:
        return DeviceScoring(order.layout, settings_from(order.settings), self._own)
