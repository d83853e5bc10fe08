from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import InputError, OptionError
from fielding.federation.budget import invited_count
from fielding.federation.ledger import Costs
from fielding.simulation.clock import Clock, RoundOutcome, seconds_of, settle_round
from fielding.simulation.hardware import Devices

RESNET_18 = 350_000 * 1024 // 8
"""Bytes of about 350,000 kbit, the size of ResNet-18 in the paper's figures."""

SPEEDS = st.floats(1e-3, 1e6)
SIZES = st.integers(0, 10**10)
TASKS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20).map(float), st.booleans()), max_size=25)
WANTED = st.lists(st.integers(0, 6), min_size=4, max_size=4)


def one_device(ms_per_sample: float, kbps: float) -> Devices:
    return Devices(ms_per_sample=np.array([ms_per_sample]), kbps=np.array([kbps]))


def seconds_on(device: Devices, costs: Costs) -> float:
    return float(seconds_of(device, np.array([0]), costs)[0])


def settled(tasks: list[tuple[int, float, bool]], wanted: list[int]) -> RoundOutcome:
    return settle_round(
        np.array([group for group, _, _ in tasks], dtype=np.int64),
        np.array([seconds for _, seconds, _ in tasks], dtype=np.float64),
        wanted=np.array(wanted, dtype=np.int64),
        finishes_online=np.array([online for _, _, online in tasks], dtype=np.bool_),
    )


def settled_one_by_one(tasks: list[tuple[int, float, bool]], wanted: list[int]) -> tuple[list[str], list[float]]:
    """Say the same as settle_round, group by group and client by client."""
    reasons, durations = [""] * len(tasks), []
    for group, enough in enumerate(wanted):
        invited = [at for at, task in enumerate(tasks) if task[0] == group]
        kept = sorted((at for at in invited if tasks[at][2]), key=lambda at: (tasks[at][1], at))[:enough]
        for at in invited:
            if at not in kept:
                reasons[at] = "straggler" if tasks[at][2] else "offline"
        if kept:
            durations.append(max(tasks[at][1] for at in kept))
        else:
            durations.append(median(tasks[at][1] for at in invited) if invited and enough else 0.0)
    return reasons, durations


def test_the_papers_transfer_of_resnet_18_takes_117_seconds() -> None:
    costs = Costs(down_bytes=RESNET_18, up_bytes=RESNET_18)

    assert seconds_on(one_device(42, 6000), costs) == pytest.approx(116.7, abs=0.05)


def test_the_papers_local_steps_take_50_seconds() -> None:
    assert seconds_on(one_device(42, 6000), Costs(train_samples=20 * 20)) == pytest.approx(50.4)


def test_a_forward_pass_takes_a_third_of_training() -> None:
    assert seconds_on(one_device(10, 1), Costs(forward_samples=300)) == pytest.approx(3.0)
    assert seconds_on(one_device(10, 1), Costs(train_samples=300)) == pytest.approx(9.0)


@given(SPEEDS, SPEEDS, SIZES, SIZES)
def test_halving_the_bandwidth_doubles_the_time_of_communication(
    ms_per_sample: float, kbps: float, down_bytes: int, up_bytes: int
) -> None:
    costs = Costs(down_bytes=down_bytes, up_bytes=up_bytes)

    # Halving is exact in binary numbers, so the times are exactly twice as long.
    assert seconds_on(one_device(ms_per_sample, kbps / 2), costs) == 2 * seconds_on(
        one_device(ms_per_sample, kbps), costs
    )


@given(st.lists(st.tuples(SPEEDS, SPEEDS, SIZES, SIZES, SIZES), min_size=1, max_size=8), SIZES)
def test_tasks_take_the_same_time_together_as_alone(
    rows: list[tuple[float, float, int, int, int]], down_bytes: int
) -> None:
    devices = Devices(ms_per_sample=np.array([row[0] for row in rows]), kbps=np.array([row[1] for row in rows]))
    clients = np.arange(len(rows))[::-1]
    up, forward, train = (np.array([rows[at][place] for at in clients]) for place in (2, 3, 4))

    together = seconds_of(
        devices, clients, Costs(down_bytes=down_bytes, up_bytes=up, forward_samples=forward, train_samples=train)
    )

    for place, at in enumerate(clients.tolist()):
        ms_per_sample, kbps, up_bytes, forward_samples, train_samples = rows[at]
        compute = (forward_samples + 3 * train_samples) * ms_per_sample / 1000
        assert together[place] == pytest.approx(compute + (up_bytes + down_bytes) * 8 / 1024 / kbps)


@given(TASKS, WANTED)
def test_a_round_is_settled_as_by_a_loop_over_clients(tasks: list[tuple[int, float, bool]], wanted: list[int]) -> None:
    outcome = settled(tasks, wanted)

    reasons, durations = settled_one_by_one(tasks, wanted)
    assert outcome.reasons.tolist() == reasons
    assert outcome.kept.tolist() == [reason == "" for reason in reasons]
    assert outcome.durations_s.tolist() == durations
    assert outcome.duration_s == max(durations)


@given(TASKS, WANTED)
def test_no_round_keeps_more_than_wanted_or_takes_longer_than_the_slowest(
    tasks: list[tuple[int, float, bool]], wanted: list[int]
) -> None:
    outcome = settled(tasks, wanted)

    kept = [group for (group, _, _), is_kept in zip(tasks, outcome.kept, strict=True) if is_kept]
    assert all(kept.count(group) <= enough for group, enough in enumerate(wanted))
    assert outcome.duration_s <= max((seconds for _, seconds, _ in tasks), default=0.0)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_without_over_commitment_a_round_takes_as_long_as_its_slowest_client(seconds: list[float]) -> None:
    n_invited = invited_count(len(seconds), 1.0, 1000)
    outcome = settled([(0, one, True) for one in seconds[:n_invited]], [len(seconds)])

    assert outcome.kept.all()
    assert outcome.duration_s == max(seconds)


def test_a_tie_goes_to_the_client_that_stands_first() -> None:
    assert settled([(0, 2.0, True), (0, 1.0, True), (0, 2.0, True)], [2]).kept.tolist() == [True, True, False]


def test_groups_run_side_by_side_and_the_round_waits_for_the_slowest() -> None:
    outcome = settled([(0, 5.0, True), (1, 8.0, True), (1, 9.0, True)], [1, 1])

    assert outcome.durations_s.tolist() == [5.0, 8.0]
    assert outcome.duration_s == 8.0
    assert outcome.reasons.tolist() == ["", "", "straggler"]


def test_a_group_of_which_nobody_survives_takes_the_median_time() -> None:
    outcome = settled([(0, 1.0, False), (0, 4.0, False), (0, 10.0, False)], [2])

    assert not outcome.kept.any()
    assert outcome.reasons.tolist() == ["offline"] * 3
    assert outcome.duration_s == 4.0


def test_a_round_without_clients_or_groups_takes_no_time() -> None:
    assert settled([], [3]).duration_s == 0.0
    assert settled([], []).duration_s == 0.0


def test_stragglers_pay_for_all_and_those_offline_for_all_but_the_upload() -> None:
    outcome = settled([(0, 1.0, True), (0, 2.0, True), (0, 3.0, False)], [1])

    spent = outcome.spent(Costs(down_bytes=7, up_bytes=5, train_samples=9))

    assert np.asarray(spent.up_bytes).tolist() == [5, 5, 0]
    assert (spent.down_bytes, spent.train_samples) == (7, 9)


@pytest.mark.parametrize(
    ("wanted", "overcommit", "n_available", "invited"),
    [
        (10, 1.3, 100, 13),
        (100, 1.15, 1000, 115),  # 114.99999999999999 in floats
        (200, 1.15, 1000, 230),
        (5, 1.3, 100, 6),
        (3, 4 / 3, 100, 4),
        (1, 1.3, 100, 1),
        (10, 1, 100, 10),
        (10, 1.3, 12, 12),
        (10, 1.3, 4, 4),
        (10, 1.3, 0, 0),
        (0, 1.3, 9, 0),
    ],
)
def test_invitations_are_the_over_committed_number_rounded_down(
    wanted: int, overcommit: float, n_available: int, invited: int
) -> None:
    assert invited_count(wanted, overcommit, n_available) == invited


@pytest.mark.parametrize("overcommit", [0.9, -1, float("nan"), float("inf"), True, "1.3"])
def test_over_commitment_below_one_is_refused(overcommit: float) -> None:
    with pytest.raises(OptionError, match=r"overcommit is .*; give a number from 1 \(no spare clients\) to 1000"):
        invited_count(1, overcommit, 1)


def test_rounds_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(InputError, match=r"groups hold \[1\]; give positions in wanted, from 0 to 0"):
        settled([(1, 1.0, True)], [1])
    with pytest.raises(InputError, match=r"seconds hold \[nan\]"):
        settled([(0, float("nan"), True)], [1])
    with pytest.raises(InputError, match=r"have shapes \(1,\), \(2,\) and \(1,\)"):
        settle_round(
            np.zeros(1, dtype=np.int64), np.zeros(2), wanted=np.array([1]), finishes_online=np.ones(1, dtype=np.bool_)
        )


def test_time_is_the_sum_of_what_passed() -> None:
    clock = Clock(now_s=10.0)
    clock.advance(2.5)
    clock.advance(0.0)

    assert clock.now_s == 12.5


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_time_does_not_run_backwards(seconds: float) -> None:
    clock = Clock()

    with pytest.raises(InputError, match="seconds to advance is"):
        clock.advance(seconds)
    assert clock.now_s == 0.0
    with pytest.raises(InputError, match="now_s is"):
        Clock(seconds)
