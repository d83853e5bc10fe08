"""Who of those that a plan asks answers in time."""

from dataclasses import replace

import numpy as np
from fielding.simulation.answers import Settled
from fielding.simulation.availability import AlwaysAvailable, Availability, IntervalAvailability, Intervals
from fielding.simulation.devices import Devices
from fielding.simulation.settings import Hardware
from fielding.simulation.settling import Tasks, settled_plan

from fielding.federation.clients import TrainingPlan
from fielding.federation.ledger import Costs
from tests.simulation.plans import counts, plan_of

MODELS = np.zeros((2, 4), dtype=np.float32)
COSTS = Costs(down_bytes=16, up_bytes=16, forward_samples=100, train_samples=50)


def settled(
    plan: TrainingPlan,
    seconds: list[float],
    *,
    refused: list[bool] | None = None,
    availability: Availability | None = None,
    now_s: float = 0.0,
) -> Settled:
    """Return what becomes of a plan; client c computes at c + 1 ms per sample."""
    devices = Devices(ms_per_sample=np.arange(1.0, 6.0), kbps=np.full(5, 1000.0))
    tasks = Tasks(
        costs=COSTS, seconds=np.array(seconds), refused=np.array(refused or [False] * len(seconds), dtype=np.bool_)
    )
    hardware = Hardware(devices=devices, availability=availability or AlwaysAvailable())
    return settled_plan(plan, tasks, hardware=hardware, now_s=now_s)


def reasons(done: Settled) -> list[str]:
    return [str(reason) for reason in done.outcome.reasons]


def test_the_fastest_are_kept_and_start_from_what_the_plan_names() -> None:
    done = settled(plan_of([0, 3, 1], models=MODELS, start=[1, 0, 1], wanted=2), [3.0, 9.0, 5.0])

    assert reasons(done) == ["", "straggler", ""]
    assert done.kept.tolist() == [0, 2]
    assert done.outcome.duration_s == 5.0
    assert done.start.tolist() == [1, 0, 1]


def test_computing_takes_the_passes_and_three_for_each_sample_trained_on() -> None:
    done = settled(plan_of([0, 3], models=MODELS), [3.0, 9.0])

    # 100 + 3 * 50 passes, at 1 and 4 ms: no transfers.
    assert done.compute_seconds.tolist() == [0.25, 1.0]


def test_jobs_of_one_client_follow_each_other() -> None:
    done = settled(plan_of([2, 2, 0, 2], models=MODELS, wanted=3), [3.0, 3.0, 4.0, 3.0])

    assert done.finish.tolist() == [3.0, 6.0, 4.0, 9.0]
    assert reasons(done) == ["", "", "", "straggler"]


def test_who_is_gone_when_its_job_is_done_is_offline() -> None:
    # Client 0 leaves at 10 s, client 1 stays.
    stays = Intervals(
        clients=counts([0, 1]), start_s=np.zeros(2), stop_s=np.array([10.0, 1e6]), finish_s=np.full(2, 1e6)
    )
    availability = IntervalAvailability(2, stays)
    plan = plan_of([0, 1, 0], models=MODELS)

    early = settled(plan, [4.0, 4.0, 4.0], availability=availability)
    late = settled(plan, [4.0, 4.0, 4.0], availability=availability, now_s=5.0)

    assert reasons(early) == ["", "", ""]
    assert reasons(late) == ["", "", "offline"], "the second of its jobs would be done at 13 s"


def test_a_job_without_samples_is_refused_and_takes_nobodys_place() -> None:
    done = settled(plan_of([0, 1, 2], models=MODELS, wanted=1), [0.0, 3.0, 2.0], refused=[True, False, False])

    assert reasons(done) == ["refused", "straggler", ""]
    assert done.outcome.duration_s == 2.0


def test_if_all_jobs_are_refused_nothing_is_kept_and_no_time_passes() -> None:
    done = settled(plan_of([0, 1], models=MODELS), [0.0, 0.0], refused=[True, True])

    assert done.kept.size == 0
    assert done.outcome.duration_s == 0.0


def test_a_refused_job_holds_up_the_other_jobs_of_its_client_by_nothing() -> None:
    plan = replace(plan_of([4, 4], models=MODELS), groups=counts([0, 1]), wanted=counts([1, 1]))

    done = settled(plan, [0.0, 7.0], refused=[True, False])

    assert reasons(done) == ["refused", ""]
    assert done.finish.tolist() == [0.0, 7.0]
