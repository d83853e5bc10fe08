"""A device: takes in its samples, tells how they drift, trains and tests; any order may come twice."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fielding.client.monitor import Monitor
from fielding.client.report import ClientReport, checked_rows
from fielding.client.window import Window
from fielding.errors import CheckpointError, InputError, echo
from fielding.flower.device_rule import DeviceRule
from fielding.flower.device_state import (
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
from fielding.flower.local_jobs import ModelFactory, Training, scored_here, settings_from, trained_here
from fielding.flower.orders import NO_REPORT, EvaluateOrder, Order, TrainOrder
from fielding.flower.replies import DescribeReply, EvaluateReply, Reply, Report, TrainReply
from fielding.flower.samples import (
    FARTHEST,
    NOTHING,
    Describe,
    DeviceNode,
    Evaluate,
    Fitted,
    Kept,
    LoadData,
    Scored,
    Train,
    checked_samples,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnCode:
    """What the user brings along.

    Parameters
    ----------
    load_data
        Where samples come from.
    train, evaluate
        Her training and test; None: Fielding's own.
    describe
        What stands for a window in place of label shares; drift is still judged by labels.
    model
        Makes the torch module that Fielding trains; None: the one that the server names.
    """

    load_data: LoadData
    train: Train | None = None
    evaluate: Evaluate | None = None
    describe: Describe | None = None
    model: ModelFactory | None = None


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
        state = self._caught_up(here, order)
        if isinstance(order, EvaluateOrder):
            return self._tested(order, state.kept.testing())
        samples = state.kept.training()
        report = state.report if state.number > order.confirmed else None
        if isinstance(order, TrainOrder) and samples.y.size:
            return self._trained(here, order, samples, report)
        return DescribeReply(n_samples=int(samples.y.size), report=report, partition=here.partition)

    # ---- what is known of the data ---------------------------------------------------------------------------------

    def _caught_up(self, here: DeviceNode, order: Order) -> DeviceState:
        """Return what the device knows in the round of an order, on disk."""
        state, monitor = self._remembered(here)
        confirmed = None if isinstance(order, EvaluateOrder) else order.confirmed
        number = NO_REPORT if state is None else state.number
        is_new = state is None or order.round_index > state.round_index
        is_behind = confirmed is not None and confirmed > number  # the server knows more of this device than it does
        if state is not None and not (is_new or is_behind):
            return state
        is_lost = confirmed is not None and confirmed != number
        if is_lost:
            monitor.report_again()
        known = NOTHING if state is None else state.kept
        now = order.round_index if state is None or is_new else state.round_index
        coming = self._loaded(replace(here, since=None if state is None else state.round_index), now, is_new=is_new)
        new = coming.training()
        is_asked = is_lost or self._rule.is_asked(now, new.y.size)
        clock = max(self._rule.struck(now), *coming.rounds[-1:].tolist(), _last_clock(monitor))
        told = _observed(monitor, new, clock) if is_asked else None
        everything = known.followed_by(coming)
        kept = everything.some(clock - everything.rounds < self._rule.max_rounds)
        report = None if state is None else state.report
        if told is not None:
            report = self._report(told, kept.training(), monitor, number=max(number, confirmed or NO_REPORT) + 1)
        state = DeviceState(round_index=now, kept=kept, monitor=monitor.arrays(), report=report)
        write_state(here.folder, state)
        return state

    def _remembered(self, here: DeviceNode) -> tuple[DeviceState | None, Monitor]:
        """Return what is on disk, and a monitor that goes on from there."""
        state, monitor = read_state(here.folder), self._monitor()
        if state is None:
            return None, monitor
        try:
            monitor.restore(state.monitor)
        except CheckpointError as error:
            set_aside(here.folder, STATE, error)
            return None, self._monitor()
        return state, monitor

    def _monitor(self) -> Monitor:
        rule = self._rule
        window = Window(max_rounds=rule.max_rounds)
        return Monitor("device", rule.n_classes, drift_test=rule.drift_test, window=window)

    def _loaded(self, here: DeviceNode, now: int, *, is_new: bool) -> Kept:
        if not is_new:
            return NOTHING
        given = self._own.load_data(here, now)
        return checked_samples(given, n_classes=self._rule.n_classes, now=now, since=here.since)

    def _report(self, told: ClientReport, samples: Kept, monitor: Monitor, *, number: int) -> Report:
        """Return a report of the window, in the words that were chosen for it."""
        vector = np.asarray(told.representation, dtype=np.float32)
        if not told.n_samples:
            vector = np.empty(0, dtype=np.float32)
        elif self._own.describe is not None:
            vector = np.asarray(self._own.describe(samples.shown(), self._rule.n_classes), dtype=np.float32)
            checked_rows(vector[np.newaxis], 1, kind="vector", width=None)
        elif self._rule.representation is not None:
            counts = monitor.counts.astype(np.float64)
            vector = np.asarray(self._rule.representation.vectors(counts[np.newaxis], counts)[0], dtype=np.float32)
        return Report(number=number, representation=vector, n_samples=told.n_samples)

    # ---- models ----------------------------------------------------------------------------------------------------

    def _trained(self, here: DeviceNode, order: TrainOrder, samples: Kept, report: Report | None) -> TrainReply:
        digest = order_digest(order)
        training = read_training(here.folder, digest)
        if training is None:
            training = self._training(order, samples)
            write_training(here.folder, digest, training)
        return TrainReply(
            model=training.model,
            n_samples=training.n_samples,
            loss=training.loss,
            square_loss=training.square_loss,
            start_loss=training.start_loss,
            report=report,
        )

    def _training(self, order: TrainOrder, samples: Kept) -> Training:
        if self._own.train is None:
            return trained_here(order, samples, factory=self._own.model)
        start_loss = self._start_loss(order, samples) if order.with_start_loss else None
        job = settings_from(order.settings).job(order)
        fitted = self._own.train(_tensors(order), samples.shown(), job)
        if not isinstance(fitted, Fitted):
            raise InputError(f"train gave {echo(fitted)}; return Fitted(model, n_samples, loss)")
        tensors = {name: np.asarray(array, dtype=np.float32) for name, array in fitted.model.items()}
        loss = float(fitted.loss)
        return Training(
            model=order.layout.flat(tensors),
            n_samples=int(fitted.n_samples),
            loss=loss,
            square_loss=loss**2 if fitted.square_loss is None else float(fitted.square_loss),
            start_loss=start_loss,
        )

    def _start_loss(self, order: TrainOrder, samples: Kept) -> float:
        if self._own.evaluate is None:
            raise InputError("the server wants the loss before training; give client_app an evaluate function")
        return float(_checked_score(self._own.evaluate(_tensors(order), samples.shown())).loss)

    def _tested(self, order: EvaluateOrder, samples: Kept) -> EvaluateReply:
        if not samples.y.size:
            return EvaluateReply(n_test=0, correct=0, loss=float("nan"))
        if self._own.evaluate is None:
            correct, loss = scored_here(order, samples, factory=self._own.model)
            return EvaluateReply(n_test=int(samples.y.size), correct=correct, loss=loss)
        scored = _checked_score(self._own.evaluate(_tensors(order), samples.shown()))
        return EvaluateReply(n_test=int(scored.n_test), correct=int(scored.correct), loss=float(scored.loss))


def _tensors(order: TrainOrder | EvaluateOrder) -> dict[str, npt.NDArray[np.float32]]:
    """Return a model by names, for code that may write to it."""
    return {name: array.copy() for name, array in order.layout.tensors(order.model).items()}


def _checked_score(scored: object) -> Scored:
    if not isinstance(scored, Scored):
        raise InputError(f"evaluate gave {echo(scored)}; return Scored(n_test, correct, loss)")
    return scored


def _last_clock(monitor: Monitor) -> int:
    """Return the round that a monitor was told last: time must not run backwards."""
    return -FARTHEST if monitor.newest_round is None else monitor.newest_round


def _observed(monitor: Monitor, samples: Kept, now: int) -> ClientReport | None:
    """Let samples arrive round by round, and return the report that is due at the end."""
    told: ClientReport | None = None
    for round_index in sorted({*samples.rounds.tolist(), now}):
        if told is not None:
            monitor.report_again()  # whoever reported while samples were handed in tells all of them now
        told = monitor.observe(samples.y[samples.rounds == round_index], round_index) or told
    return told
