"""Clusters that wait for each other when data arrive (``clock.barrier = "event"``), or in every round."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.federation.clients import TrainingPlan
from fielding.simulation.assembly import Own
from fielding.simulation.clients import SimulatedClients
from fielding.simulation.clock import Clock
from fielding.simulation.experiment import Result, run
from fielding.simulation.hardware import IntervalAvailability, Intervals
from tests.rotation import some_of
from tests.simulation.run_cases import N_ROUNDS, Table, left_behind, small_pool, stop_and_resume, table
from tests.simulation.small import one_group, small_clients

IN_PARALLEL = ("fielding", "always", "static", "selected", "oracle", "flexcfl", "auxo", "local")
TOGETHER = ("ifca", "feddrift", "fedac")
OPTIONS: dict[str, dict[str, Json]] = {"auxo": {"split": "forced", "forced_rounds": [1, 2], "min_results": 2}}
TIMES = {"time_s", "first_time_s"}


def run_with(folder: Path, barrier: str, **sections: Json) -> Result:
    """Return a run with eight rounds between two arrivals, evaluated in every round; sections count more."""
    usual: Table = {
        "rounds": 18,
        "trace": {"gap": 8, "window": 16},
        "evaluation": {"every": 1},
        "clock": {"barrier": barrier},
    }
    config = table(**{**usual, **sections})
    return run(config, folder / barrier, own=Own(samples=small_pool()), page=False)


def named(method: str) -> dict[str, Json]:
    """Return a method with options by which it has several clusters."""
    return {"name": method, **OPTIONS.get(method, {})}


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def times(result: Result) -> np.ndarray:
    return np.array([row["time_s"] for row in result.rounds])


def without_times(result: Result) -> list[dict[str, Json]]:
    return [{name: value for name, value in row.items() if name not in TIMES} for row in result.rounds]


# ---------------------------------------------------------------- the law, in whole runs


@pytest.mark.parametrize("method", some_of([*IN_PARALLEL, *TOGETHER], 5, always=["fielding"]))
def test_only_the_clock_tells_the_barriers_apart(tmp_path: Path, method: str) -> None:
    event, waiting = (run_with(tmp_path, one, method=named(method)) for one in ("event", "round"))

    assert without_times(event) == without_times(waiting)
    assert event.checkpoint.models.tobytes() == waiting.checkpoint.models.tobytes()
    for name in ("memberships", "events"):
        assert lines(tmp_path / "event", name) == lines(tmp_path / "round", name)
    if method in TOGETHER:
        assert (times(event) == times(waiting)).all()
    else:
        assert (times(event) <= times(waiting)).all()
        assert any("first_time_s" in row for row in event.rounds)
    assert not any("first_time_s" in row for row in waiting.rounds)


def test_clustered_rounds_become_shorter(tmp_path: Path) -> None:
    event, waiting = (run_with(tmp_path, one, seed=2) for one in ("event", "round"))

    assert times(event)[-1] < times(waiting)[-1]


@pytest.mark.parametrize(
    "sections",
    [
        {"method": {"name": "global"}},
        {"aggregation": {"shared_body": True}},
        {"selection": {"name": "pyramidfl"}},
    ],
    ids=["one model", "one body for all", "a selection over all clusters"],
)
def test_where_clusters_wait_anyway_the_logs_are_the_same(tmp_path: Path, sections: dict[str, Json]) -> None:
    for barrier in ("event", "round"):
        run_with(tmp_path, barrier, **sections)

    for name in ("rounds", "clients", "memberships", "events"):
        assert (tmp_path / "event" / f"{name}.jsonl").read_bytes() == (
            tmp_path / "round" / f"{name}.jsonl"
        ).read_bytes()


def test_with_data_in_every_round_both_barriers_take_the_same_time(tmp_path: Path) -> None:
    trace: Json = {"gap": 1, "window": 4}
    event, waiting = (run_with(tmp_path, one, trace=trace, rounds=6) for one in ("event", "round"))

    assert times(event).tolist() == times(waiting).tolist()


def test_the_log_tells_when_each_cluster_was_done(tmp_path: Path) -> None:
    result = run_with(tmp_path, "event", method={"name": "static"})

    n_apart = 0
    for row, tested in zip(result.rounds, lines(tmp_path / "event", "clients"), strict=True):
        sooner = tested.get("cluster_time_s", {})
        clusters = {str(cluster) for cluster in tested["cluster"]}
        assert sooner.keys() < clusters, "the latest cluster is done when the round is"
        assert all(time_s < row["time_s"] for time_s in sooner.values())
        if sooner:
            assert min(sooner.values()) == row["first_time_s"]
            n_apart += 1
    assert n_apart > 0


@pytest.mark.parametrize("method", ["fielding", "auxo", "local"])
def test_clusters_meet_when_data_arrive(tmp_path: Path, method: str) -> None:
    result = run_with(tmp_path, "event", method=named(method))

    for at in (8, 16):  # no cluster begins the round before the latest was done with the one before
        row = result.rounds[at]
        assert float(str(row.get("first_time_s", row["time_s"]))) >= float(str(result.rounds[at - 1]["time_s"]))
    apart = [row for row in result.rounds[1:8] if "first_time_s" in row]
    before = {int(str(row["round"])): float(str(row["time_s"])) for row in result.rounds}
    assert any(float(str(row["first_time_s"])) < before[int(str(row["round"])) - 1] for row in apart)


def test_clusters_meet_when_reports_act_a_round_later(tmp_path: Path) -> None:
    result = run_with(tmp_path, "event", coordinator={"reports": "with-training"})

    assert [row["round"] for row in result.rounds if row["n_reports"]] == [0, 9, 17]
    for at in (9, 17):
        first_s = result.rounds[at].get("first_time_s", result.rounds[at]["time_s"])
        assert float(str(first_s)) >= float(str(result.rounds[at - 1]["time_s"]))


# ---------------------------------------------------------------- clients that come and go, and stops


def sometimes_there(path: Path, n_clients: int = 12) -> str:
    """Write when clients can be reached: most of the time, each with a pause of its own."""
    rows = [f"{client},{0.11 * client:g},{0.11 * client + 3.0:g},4.5" for client in range(n_clients)]
    path.write_text("\n".join(["client,start_s,stop_s,finish_s", *rows]) + "\n")
    return str(path)


@pytest.mark.parametrize("method", some_of(["fielding", "selected", "auxo", "local"], 2))
@pytest.mark.parametrize("reports", ["before-round", "with-training"])
def test_a_run_that_is_stopped_while_clusters_are_apart_goes_on_alike(
    tmp_path: Path, method: str, reports: str
) -> None:
    config: Table = table(
        trace={"gap": 5, "window": 10},
        method=named(method),
        coordinator={"reports": reports},
        evaluation={"every": 1},
        clock={"availability": sometimes_there(tmp_path / "there.csv")},
    )
    own = Own(samples=small_pool())
    whole = run(config, tmp_path / "whole", own=own, page=False)

    stop_and_resume(config, tmp_path / "cut", list(range(1, N_ROUNDS)), own)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")
    assert any("first_time_s" in row for row in whole.rounds)
    assert any(row["n_offline"] for row in whole.rounds) or method == "local"


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    for workers in (1, 3):
        run_with(tmp_path / str(workers), "event", workers=workers)

    assert left_behind(tmp_path / "1" / "event") == left_behind(tmp_path / "3" / "event")


def test_the_round_in_which_the_latest_cluster_is_there_is_the_last(tmp_path: Path) -> None:
    whole = run_with(tmp_path, "event")
    stop_s = float(str(whole.rounds[4]["time_s"]))

    stopped = run_with(tmp_path / "stopped", "event", stop_at_time_s=stop_s)

    assert len(stopped.rounds) == 5
    assert stopped.rounds[-1] == whole.rounds[4]
    assert float(str(stopped.rounds[-1]["first_time_s"])) < stop_s


# ---------------------------------------------------------------- clients of one simulation


def two_groups(clients: SimulatedClients, first: int, second: int) -> TrainingPlan:
    """Return a plan in which two clients train a cluster each; client c takes as long as c + 1 clients 0."""
    plan = one_group(clients, [first, second], 1)
    models, rows = np.repeat(plan.models, 2, axis=0), np.arange(2)
    return replace(plan, models=models, groups=rows, start=rows, wanted=np.ones(2, dtype=np.int64), is_parallel=True)


def train_apart(clients: SimulatedClients) -> None:
    """Let cluster 0 be done soon and cluster 1 late, and each client be served by one of them."""
    clients.begin(0)
    clients.charge_reports()
    clients.train(two_groups(clients, 0, 5))
    clients.serve(np.zeros((2, 1), dtype=np.float32), np.array([0, 0, 0, 1, 1, 1]))


def test_each_cluster_begins_when_its_own_participants_are_back() -> None:
    clients = small_clients()
    train_apart(clients)
    begun = clients.begins_s(two_groups(clients, 0, 5))

    assert clients.done_s is not None
    assert clients.done_s.tolist() == [begun[0]] * 3 + [begun[1]] * 3
    assert begun[0] < begun[1] == clients.now_s


def test_clients_are_asked_at_the_time_of_their_cluster() -> None:
    met = small_clients()
    train_apart(met)
    assert met.done_s is not None
    soon, late = float(met.done_s[0]), met.now_s
    # All can be reached until the first cluster is done, and again a while after the second is.
    rows = Intervals(
        clients=np.repeat(np.arange(6), 2),
        start_s=np.tile([0.0, late + 1.0], 6),
        stop_s=np.tile([(soon + late) / 2, late + 2.0], 6),
    )
    clients = small_clients(availability=IntervalAvailability(6, rows))

    train_apart(clients)

    assert clients.askable().tolist() == [True, True, True, False, False, False]
    clients.wait_for_all()
    assert not clients.askable().any()


@pytest.mark.parametrize("is_back", [True, False])
def test_a_client_that_was_away_reports_at_the_time_of_the_latest_cluster(is_back: bool) -> None:
    met = small_clients()
    train_apart(met)
    assert met.done_s is not None
    soon, late = float(met.done_s[0]), met.now_s
    # Client 1, of the first cluster, is away at first; it is back when the second is done, or only when its own is.
    back = [(soon + late) / 2, late + 1.0] if is_back else [soon / 2, (soon + late) / 2]
    rows = Intervals(
        clients=np.arange(6),
        start_s=np.array([0.0, back[0], 0.0, 0.0, 0.0, 0.0]),
        stop_s=np.array([late + 9.0, back[1], *[late + 9.0] * 4]),
        finish_s=np.full(6, late + 9.0),
    )
    clients = small_clients(availability=IntervalAvailability(6, rows))
    train_apart(clients)

    reports = clients.begin(1)
    clients.charge_reports()

    assert reports.client_ids == ([1] if is_back else [])
    assert (clients.done_s is None) == is_back, "a report brings all clusters together"


@pytest.mark.parametrize("meeting", ["data", "question", "training together", "shared model", "wait"])
def test_clusters_meet(meeting: str) -> None:
    clients = small_clients()
    train_apart(clients)
    late = clients.now_s
    if meeting == "data":
        clients.begin(1)
        assert clients.done_s is not None, "in round 1 nothing arrives"
        clients.begin(2)
    elif meeting == "question":
        clients.losses(np.array([0]), clients.trainer.initial_model(1)[np.newaxis])
    elif meeting == "training together":
        clients.train(one_group(clients, [0, 5], 2))
    elif meeting == "shared model":
        clients.share(clients.trainer.initial_model(1))
    else:
        clients.wait_for_all()

    assert clients.done_s is None
    assert clients.now_s >= late
    if meeting in {"question", "training together"}:
        assert clients.now_s > late


# ---------------------------------------------------------------- the clock

N_CLUSTERS = 4
seconds = st.floats(0.0, 1e4)
rounds_of_clusters = st.lists(
    st.tuples(st.dictionaries(st.integers(0, N_CLUSTERS - 1), seconds, min_size=1), st.booleans()), max_size=12
)


@given(rounds_of_clusters)
def test_no_clock_is_ahead_of_the_one_that_waits_in_every_round(rounds: list[tuple[dict[int, float], bool]]) -> None:
    event, waiting, everyone = Clock(), Clock(), np.arange(N_CLUSTERS)
    for durations, meets in rounds:
        before = event.times_of(everyone)
        event.go_on(np.array([*durations]), np.array([*durations.values()]))
        waiting.advance(max(durations.values()))

        after = event.times_of(everyone)
        assert (after >= before).all()
        assert after.max() <= event.now_s <= waiting.now_s * (1 + 1e-12)
        for cluster in set(range(N_CLUSTERS)) - durations.keys():
            assert after[cluster] == event.now_s, "a cluster without a place waits for the round"
        if meets:
            event.meet()
            assert (event.times_of(everyone) == event.now_s).all()


@given(st.lists(seconds, max_size=12))
def test_one_cluster_keeps_the_time_of_all(durations: list[float]) -> None:
    alone, waiting = Clock(), Clock()
    for one in durations:
        alone.go_on(np.array([3]), np.array([one]))
        waiting.advance(one)

    assert alone.now_s == waiting.now_s
    assert not alone.sooner


@given(rounds_of_clusters)
def test_a_clock_goes_on_from_its_arrays(rounds: list[tuple[dict[int, float], bool]]) -> None:
    clock = Clock()
    for durations, _ in rounds:
        clock.go_on(np.array([*durations]), np.array([*durations.values()]))

    again = Clock.restored(clock.now_s, clock.arrays())

    assert (again.now_s, again.sooner) == (clock.now_s, clock.sooner)
