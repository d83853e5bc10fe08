import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.client.report import ReportBatch
from fielding.coordinator import CenterShift, Coordinator, LearnedTau, Policy
from fielding.coordinator.movement import Movement, TriggerMemory
from fielding.coordinator.policy import policy_from, policy_record
from fielding.coordinator.snapshot import Snapshot, restore_coordinator, snapshot
from fielding.errors import InputError, OptionError
from tests.coordinator.test_trigger import movement

HALVES = LearnedTau(arms=(0.0, 0.5), tries=2, revisit=8)


def played(trigger: LearnedTau, events: list[Movement], *, if_fires: float, if_not: float) -> list[bool]:
    """Return the verdicts of a world in which firing brings one gain and not firing another."""
    memory, fired = TriggerMemory(), []
    for event in events:
        verdict = trigger.assess(event, memory)
        fired.append(verdict.fires)
        memory = trigger.rewarded(verdict.memory, if_fires if verdict.fires else if_not)
    return fired


def test_arms_take_turns_and_then_the_better_one_stays() -> None:
    contested = [movement(0.2)] * 8  # beyond 0, not beyond half of theta

    assert played(HALVES, contested, if_fires=0.1, if_not=0.3) == [True, False, True, False] + [False] * 4
    assert played(HALVES, contested, if_fires=0.3, if_not=0.1) == [True, False, True, False] + [True] * 4


def test_all_arms_are_tried_again_after_a_while_and_may_win_then() -> None:
    memory, fired = TriggerMemory(), []
    for event in range(24):
        verdict = HALVES.assess(movement(0.2), memory)
        fired.append(verdict.fires)
        gain = float(verdict.fires) if event < 8 else float(not verdict.fires)
        memory = HALVES.rewarded(verdict.memory, gain)

    assert fired[4:8] == [True] * 4
    assert fired[8:12] != [True] * 4
    assert fired[20:] == [False] * 4


def test_the_reward_of_an_event_goes_to_every_arm_that_would_have_decided_alike() -> None:
    trigger = LearnedTau()
    verdict = trigger.assess(movement(0.15), TriggerMemory())  # a quarter of theta: beyond 0 and 1/6

    assert verdict.fires
    assert verdict.memory.credited == (0, 1)
    memory = trigger.rewarded(verdict.memory, 0.5)
    assert memory.weights == (1.0, 1.0, 0.0, 0.0, 0.0)
    assert trigger.rewarded(memory, 0.5) == memory, "once per event"
    assert trigger.choose_arm(memory) == 2, "the first of those not yet tried"


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_an_event_at_which_all_agree_teaches_nothing(shift: float) -> None:
    verdict = LearnedTau().assess(movement(shift), TriggerMemory())
    memory = LearnedTau().rewarded(verdict.memory, 3.0)

    assert verdict.fires == bool(shift)
    assert memory.credited == ()
    assert not any(memory.weights)
    assert memory.fresh == (0,) * 5
    assert memory.n_assessed == 1


def test_gains_that_shrink_for_all_alike_prefer_no_arm() -> None:
    memory = TriggerMemory()
    for event in range(12):
        verdict = LearnedTau(arms=(0.0, 0.5), tries=6).assess(movement(0.2), memory)
        memory = LearnedTau(arms=(0.0, 0.5), tries=6).rewarded(verdict.memory, 0.5**event)

    one, other = np.array(memory.sums) / np.array(memory.weights)
    assert abs(one - other) < 0.1, "raw means would differ by a factor of two"


def test_without_any_reward_the_paper_decides_after_the_tries() -> None:
    trigger = LearnedTau(tries=1)
    memory = TriggerMemory()
    for shift in (0.05, 0.05, 0.15, 0.15, 0.25, 0.25, 0.35, 0.35):
        memory = trigger.assess(movement(shift), memory).memory

    assert min(memory.fresh) >= 1
    assert trigger.arms[trigger.choose_arm(memory)] == pytest.approx(1.0 / 3.0)
    assert trigger.assess(movement(0.19), memory).fires == CenterShift().assess(movement(0.19), memory).fires


def test_of_arms_that_always_agreed_the_nearest_to_the_papers_decides() -> None:
    memory, trigger = TriggerMemory(), LearnedTau()
    for _ in range(6):  # a twentieth of theta: only tau = 0 fires, and does worse
        verdict = trigger.assess(movement(0.03), memory)
        memory = trigger.rewarded(verdict.memory, 0.0 if verdict.fires else 1.0)

    assert trigger.arms[trigger.choose_arm(memory)] == pytest.approx(1.0 / 3.0)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(-5.0, 5.0)), max_size=60))
def test_equal_histories_give_equal_verdicts_also_by_way_of_json(events: list[tuple[float, float]]) -> None:
    trigger = LearnedTau(revisit=7)
    one, other = TriggerMemory(), TriggerMemory()
    for shift, gain in events:
        ours, theirs = trigger.assess(movement(shift), one), trigger.assess(movement(shift), other)
        assert ours == theirs
        one = trigger.rewarded(ours.memory, gain)
        other = TriggerMemory(**json.loads(json.dumps(asdict(trigger.rewarded(theirs.memory, gain)))))
        assert one == other


def shares(coordinator: Coordinator, rng: np.random.Generator) -> ReportBatch:
    return ReportBatch(client_ids=list(range(9)), representations=rng.dirichlet([0.7] * 3, size=9))


def test_a_coordinator_passes_rewards_on_and_finds_them_again_after_a_checkpoint() -> None:
    first, rng = (
        Coordinator(Policy(trigger=LearnedTau(tries=1, reference="last-global"), seed=2)),
        np.random.default_rng(5),
    )
    for event in range(6):
        first.update(shares(first, rng))
        first.reward(0.1 * event)
    state = snapshot(first)
    arrays = {name: array.copy() for name, array in state.arrays.items()}
    second = restore_coordinator(Snapshot(values=json.loads(json.dumps(state.values)), arrays=arrays))

    assert sum(first.memory.weights) > 0.0
    assert second.memory == first.memory
    for event in range(4):
        same = shares(first, rng)
        assert first.update(same).shift == second.update(same).shift
        first.reward(-0.1 * event)
        second.reward(-0.1 * event)
    assert second.memory == first.memory


def test_triggers_that_do_not_learn_pass_rewards_over_and_old_memories_load() -> None:
    coordinator = Coordinator()
    coordinator.reward(1.0)

    assert coordinator.memory == TriggerMemory() == TriggerMemory(**{"delta": None, "fired": False})  # type: ignore[arg-type]
    assert policy_from(policy_record(Policy(trigger=HALVES))).trigger == HALVES


@pytest.mark.parametrize("gain", [float("nan"), float("inf"), "much", True])
def test_a_gain_that_is_no_number_is_refused(gain: object) -> None:
    with pytest.raises(InputError, match="the gain of an event"):
        HALVES.rewarded(TriggerMemory(), gain)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arms", [(), (0.5,), (0.5, 0.5), (0.5, 0.1), (-0.1, 0.5), (0.0, float("inf")), "ab", (0.0, True)]
)
def test_arms_that_are_none_are_refused(arms: object) -> None:
    with pytest.raises(OptionError, match="arms is"):
        LearnedTau(arms=arms)  # type: ignore[arg-type]


def test_the_other_options_are_checked_too() -> None:
    with pytest.raises(OptionError, match="tries is 0"):
        LearnedTau(tries=0)
    with pytest.raises(OptionError, match="revisit is"):
        LearnedTau(revisit=True)
    with pytest.raises(OptionError, match="reference is"):
        LearnedTau(reference="yesterday")  # type: ignore[arg-type]


def test_rewards_that_are_noise_leave_the_decision_to_the_papers_factor() -> None:
    contested, left = movement(0.03), 0  # a twentieth of theta: only tau = 0 fires
    for world in range(200):
        rng, memory, trigger = np.random.default_rng(world), TriggerMemory(), LearnedTau(tries=3)
        for _ in range(19):
            verdict = trigger.assess(contested, memory)
            memory = trigger.rewarded(verdict.memory, float(rng.normal()))
        left += trigger.arms[trigger.choose_arm(memory)] == 0.0

    assert left < 30


def test_a_gain_well_beyond_the_noise_is_found() -> None:
    contested, found = movement(0.03), 0
    for world in range(50):
        rng, memory, trigger = np.random.default_rng(world), TriggerMemory(), LearnedTau()
        for _ in range(40):
            verdict = trigger.assess(contested, memory)
            memory = trigger.rewarded(verdict.memory, 3.0 * verdict.fires + 0.3 * float(rng.normal()))
        found += trigger.arms[trigger.choose_arm(memory)] == 0.0

    assert found > 40
