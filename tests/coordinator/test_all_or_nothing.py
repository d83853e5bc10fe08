"""An event that breaks off, wherever it does, leaves the coordinator as it was, and the same event can follow."""

import inspect
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fielding
from fielding.client.report import ClientReport, ReportBatch
from fielding.coordinator import Coordinator, Policy
from fielding.coordinator.movement import Movement, TriggerMemory, Verdict
from fielding.coordinator.snapshot import restore_coordinator, snapshot
from fielding.coordinator.trigger import CenterShift
from fielding.errors import ReportError
from tests.rotation import seed

HOME = str(Path(fielding.__file__).parent)
RNG = np.random.default_rng(5)
FIRST = {f"client {at}": RNG.dirichlet([0.3] * 4) for at in range(12)}
N_DRAWN = 16
LATER = {f"client {at}": RNG.dirichlet([0.3] * 4) for at in range(6, 90)}  # more than there is room for


class Broken(BaseException):
    """Stands for whatever comes from outside, as Ctrl-C does."""


def batch_of(rows: dict[str, Any]) -> ReportBatch:
    return ReportBatch(client_ids=list(rows), representations=np.stack(list(rows.values())))


def begun(policy: Policy | None = None) -> Coordinator:
    coordinator = Coordinator(policy or Policy(seed=3, trigger=CenterShift(tau=0.0)))
    coordinator.update(batch_of(FIRST))
    return coordinator


def state_of(coordinator: Coordinator) -> tuple[object, dict[str, bytes]]:
    found = snapshot(coordinator)
    return found.values, {name: np.ascontiguousarray(one).tobytes() for name, one in found.arrays.items()}


def breaks_at(call: int, act: Callable[[], object]) -> bool:
    """Do something that breaks at its so-manieth call of a function of Fielding; return whether it got so far."""
    left = call

    def watch(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal left
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HOME) and not code.co_flags & inspect.CO_GENERATOR:
            left -= 1
            if left == 0:
                raise Broken

    sys.setprofile(watch)
    try:
        act()
    except Broken:
        return True
    finally:
        sys.setprofile(None)
    return False


def moments(act: Callable[[], object], *, n_drawn: int | None) -> list[int]:
    """Return calls at which something may break: the first ones, every eleventh of the others, or a sample of them."""
    n_calls = 0

    def count(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal n_calls
        code = frame.f_code
        is_ours = code.co_filename.startswith(HOME) and not code.co_flags & inspect.CO_GENERATOR
        n_calls += event == "call" and is_ours

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    # In the middle of the long loops one call is as good as the next.
    found = [*range(1, min(n_calls, 30)), *range(30, n_calls, 11)]
    if n_drawn is not None:
        found = sorted(random.Random(seed()).sample(found, min(n_drawn, len(found))))
    return [*found, n_calls - 1, n_calls]


def receive_all(coordinator: Coordinator) -> None:
    for client_id, row in LATER.items():
        coordinator.receive(ClientReport(client_id=client_id, representation=row, n_samples=7))


EVENTS: dict[str, tuple[Callable[[Coordinator], None], Callable[[Coordinator], object]]] = {
    "update": (lambda _one: None, lambda one: one.update(batch_of(LATER))),
    "decide": (receive_all, lambda one: one.decide()),
    "grow_labels": (lambda _one: None, lambda one: one.grow_labels(9)),
}


@pytest.mark.parametrize("n_drawn", [N_DRAWN, pytest.param(None, marks=pytest.mark.slow)])
@pytest.mark.parametrize("event", EVENTS)
def test_wherever_an_event_breaks_off_nothing_changed_and_the_same_event_can_follow(
    event: str, n_drawn: int | None
) -> None:
    prepare, act = EVENTS[event]
    whole = begun()
    prepare(whole)
    before = state_of(whole)
    calls = moments(lambda: act(whole), n_drawn=n_drawn)
    after = state_of(whole)
    assert after != before

    for call in calls:
        one = begun()
        prepare(one)
        assert breaks_at(call, lambda one=one: act(one)), f"call {call}"  # type: ignore[misc]
        now = state_of(one)
        # The very last calls come after all is done.
        assert now in (before, after), f"call {call}"
        if now == before:
            act(one)
            assert state_of(one) == after, f"call {call}"
    assert len(calls) > 10


@pytest.mark.parametrize("n_drawn", [N_DRAWN, pytest.param(None, marks=pytest.mark.slow)])
def test_the_first_event_of_all_may_break_off_too(n_drawn: int | None) -> None:
    whole = Coordinator(Policy(seed=3))
    for call in moments(lambda: whole.update(batch_of(FIRST)), n_drawn=n_drawn):
        one = Coordinator(Policy(seed=3))
        assert breaks_at(call, lambda one=one: one.update(batch_of(FIRST))), f"call {call}"  # type: ignore[misc]
        one.update(batch_of(FIRST)) if one.n_events == 0 else None
        assert state_of(one) == state_of(whole)


def test_numbers_as_ids_are_taken_back_too() -> None:
    one, whole = Coordinator(Policy(seed=3)), Coordinator(Policy(seed=3))
    for coordinator in (one, whole):
        rows = np.stack(list(FIRST.values()))[:8]
        coordinator.update(ReportBatch(client_ids=list(range(8)), representations=rows))
    more = ReportBatch(client_ids=[3, 5000, 9], representations=np.stack(list(FIRST.values()))[:3])
    for call in range(1, 300, 2):
        if not breaks_at(call, lambda: one.update(more)) or one.n_events == 2:
            break
        assert len(one.registry) == 8
        assert 9 not in one.registry
        assert one.cluster_of(3) == whole.cluster_of(3)
    else:
        one.update(more)
    whole.update(more)
    assert state_of(one) == state_of(whole)


class Raising:
    """A trigger of the user's own that is not finished yet."""

    name: ClassVar[str] = "raising"

    def assess(self, movement: Movement, memory: TriggerMemory) -> Verdict:  # noqa: ARG002
        raise ZeroDivisionError


def test_a_trigger_that_raises_leaves_everything_and_is_asked_again_once_it_is_mended() -> None:
    one = begun()
    good, before = one.policy, state_of(one)
    one.policy = replace(good, trigger=Raising())
    with pytest.raises(ZeroDivisionError):
        one.update(batch_of(LATER))

    one.policy = good
    assert state_of(one) == before
    whole = begun()
    assert one.update(batch_of(LATER)).moved == whole.update(batch_of(LATER)).moved
    assert state_of(one) == state_of(whole)


def test_memory_that_ends_while_the_registry_grows_ends_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    from fielding.coordinator import registry

    whole = begun()
    whole.update(batch_of(LATER))
    grow = registry.GrowingColumn.grow
    for n_good in range(8):
        one, left = begun(), n_good

        def fails(column: registry.GrowingColumn[Any], n_rows: int) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise MemoryError
            grow(column, n_rows)

        monkeypatch.setattr(registry.GrowingColumn, "grow", fails)
        before = state_of(one)
        with pytest.raises(MemoryError):
            one.update(batch_of(LATER))
        monkeypatch.setattr(registry.GrowingColumn, "grow", grow)
        assert state_of(one) == before
        one.update(batch_of(LATER))
        assert state_of(one) == state_of(whole)


@given(
    client_id=st.one_of(st.text(max_size=5), st.integers(-(2**65), 2**65), st.none(), st.booleans()),
    row=st.one_of(
        st.lists(st.one_of(st.floats(), st.integers(-(2**70), 2**70)), max_size=6),
        st.sampled_from([[1.0, 0, 0, 0], [0, 0, 0, 0], [0.25] * 4, [3e38] * 4, [1e-45] * 4]),
    ),
    n_samples=st.one_of(st.integers(-1, 2**80), st.floats(), st.none(), st.booleans()),
    label_version=st.one_of(st.none(), st.integers(-2, 3), st.floats()),
    kind=st.sampled_from(["histogram", "vector"]),
)
def test_what_is_received_can_be_acted_on(
    client_id: Any, row: Any, n_samples: Any, label_version: Any, kind: Any
) -> None:
    coordinator = begun(Policy(seed=3, kind=kind))
    report = ClientReport(client_id=client_id, representation=row, n_samples=n_samples, label_version=label_version)
    before = state_of(coordinator)
    try:
        coordinator.receive(report)
    except ReportError:
        assert state_of(coordinator) == before
        return
    again = restore_coordinator(snapshot(coordinator))
    coordinator.decide()
    again.decide()

    assert state_of(again) == state_of(coordinator)
    assert not coordinator.inbox
