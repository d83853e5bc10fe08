"""Equal seeds give equal bytes: whatever the workers, the order of clients, and wherever a run was stopped."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits  # type: ignore[import-untyped]

from fielding._typing import Codes, Counts, Features, Floats, Json
from fielding.federation.aggregation import Mean
from fielding.records.run_folder import CONCEPTS, EVENTS, ROUNDS
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result, run
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import sort_samples
from tests.rotation import some_of
from tests.simulation.run_cases import (
    N_ROUNDS,
    Table,
    clusters_by_id,
    crash_and_resume,
    image_pool,
    left_behind,
    shuffled,
    small_pool,
    small_trace,
    stop_and_resume,
    table,
    write_availability,
)

NATURAL: Table = {"clients": None, "share": None, "samples": 1, "interval": "1d", "gap": 2, "window": 4}


def mean_features(x: Floats, y: Counts, n_classes: int) -> Floats:
    return np.append(x.reshape(x.shape[0], -1).mean(axis=0), 1.0)


def case(name: str, folder: Path) -> tuple[Table, Own]:
    """Return the config of a kind of run, and what it brings along."""
    if name == "natural":
        return natural_table(), Own(samples=small_trace())
    sections = CASES[name]
    if name in ("availability", "late-and-away"):
        sections = {**sections, "clock": {"availability": str(write_availability(folder / "availability.csv", 12))}}
    if name == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
        return table(**sections), Own(samples=image_pool())
    represent = mean_features if name == "own-representation" else None
    return table(**sections), Own(samples=small_pool(), represent=represent)


def natural_table(**sections: Json) -> Table:
    config = table(**sections)
    trace = config["trace"]
    assert isinstance(trace, dict)
    config["trace"] = {name: value for name, value in {**trace, **NATURAL}.items() if value is not None}
    return config


CASES: dict[str, dict[str, Json]] = {
    "plain": {},
    "with-training": {"coordinator": {"reports": "with-training"}},
    "availability": {},
    "late-and-away": {"coordinator": {"reports": "with-training"}},
    "periodic": {"coordinator": {"detector": "periodic", "rounds": 4}},
    "own-representation": {"coordinator": {"detector": "threshold", "eps": 0.3, "metric": "l2"}},
    "pairwise": {"coordinator": {"trigger": "pairwise", "warm_start": True}},
    "global": {"method": {"name": "global"}},
    "natural": {},
    # BatchNorm keeps statistics and counters, dropout draws numbers.
    "torch": {"model": {"factory": "tests.training.modules:noisy"}},
}


@pytest.mark.parametrize("name", some_of(CASES, 3, always=["plain", "torch"]))
def test_a_run_stopped_after_every_round_ends_as_one_never_stopped(tmp_path: Path, name: str) -> None:
    config, own = case(name, tmp_path)
    run(config, tmp_path / "whole", own=own, page=False)

    stop_and_resume(config, tmp_path / "cut", list(range(1, N_ROUNDS)), own)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")


@pytest.mark.parametrize("name", some_of(CASES, 3, always=["late-and-away"]))
def test_a_run_that_lost_rounds_since_its_checkpoint_does_them_again_alike(tmp_path: Path, name: str) -> None:
    config, own = case(name, tmp_path)
    config["checkpoint"] = {"every": 5}
    run(config, tmp_path / "whole", own=own, page=False)

    crash_and_resume(config, tmp_path / "cut", [3, 4, 8, 9, 12], own)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")


@pytest.mark.parametrize("n_rounds", some_of(range(1, N_ROUNDS), 3))
def test_a_run_stopped_once_ends_as_one_never_stopped(tmp_path: Path, n_rounds: int) -> None:
    config, own = case("late-and-away", tmp_path)
    config["checkpoint"] = {"every": 5}
    run(config, tmp_path / "whole", own=own, page=False)

    stop_and_resume(config, tmp_path / "stopped", [n_rounds], own)
    crash_and_resume(config, tmp_path / "crashed", [n_rounds], own)

    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")
    assert left_behind(tmp_path / "crashed") == left_behind(tmp_path / "whole")


@pytest.mark.parametrize("name", CASES)
def test_the_cases_are_worth_comparing(tmp_path: Path, name: str) -> None:
    config, own = case(name, tmp_path)
    result = run(config, tmp_path / "whole", own=own, page=False)

    lines = {log: (tmp_path / "whole" / log).read_text().splitlines() for log in (ROUNDS, EVENTS, CONCEPTS)}
    assert len(lines[ROUNDS]) == N_ROUNDS
    assert len(lines[CONCEPTS]) > 1 or (name == "natural" and not lines[CONCEPTS])
    assert name == "global" or len(lines[EVENTS]) > 1
    assert name == "global" or len(result.checkpoint.cluster_ids) > 1
    if "away" in name or "availability" in name:
        assert sum(int(str(row["n_offline"])) for row in result.rounds) > 0
        assert any(result.rounds[at]["n_reports"] for at in range(N_ROUNDS) if at % 3), "no report was held back"


WORKED: dict[str, dict[str, Json]] = {
    # Models of at least SMALL_MODEL numbers: smaller ones are left to one thread.
    "plain": {"model": {"hidden": 2400}},
    "global": {"method": {"name": "global"}, "model": {"hidden": 2400}},
    "torch": {"model": {"factory": "tests.training.modules:convolved"}},
    "random torch": {"model": {"factory": "tests.training.modules:noisy"}},
}


@pytest.mark.parametrize("name", WORKED)
def test_one_and_two_workers_leave_the_same_bytes(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "torch" in name:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    callers = watched_callers(monkeypatch)
    config = table(**WORKED[name], rounds=4, evaluation={"every": 2})
    # More participants than one call trains, so that there is something to share.
    config |= {"training": {"participants": 60, "local_steps": 2, "batch_size": 5}}
    config["trace"] = {"clients": 80, "gap": 2, "window": 4, "samples": 40}
    own = Own(samples=image_pool() if "torch" in name else small_pool())
    for n_workers in (1, 2):
        callers.clear()
        run(config | {"workers": n_workers}, tmp_path / str(n_workers), own=own, page=False)
        # Modules that draw numbers are trained in threads of their own only where there is a single core.
        assert name == "random torch" or any(one.startswith("fielding") for one in callers) is (n_workers > 1)

    assert left_behind(tmp_path / "1") == left_behind(tmp_path / "2")


def watched_callers(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the threads that fetch mini-batches, as they come."""
    callers: set[str] = set()
    real = SlidingWindows.gather

    def gather(windows: SlidingWindows, rows: Counts) -> tuple[Features, Codes]:
        callers.add(threading.current_thread().name)
        return real(windows, rows)

    monkeypatch.setattr(SlidingWindows, "gather", gather)
    return callers


def test_equal_seeds_are_equal_and_others_are_not(tmp_path: Path) -> None:
    for name, seed in (("first", 7), ("second", 7), ("other", 8)):
        run(table(seed=seed), own=Own(samples=small_pool()), out=tmp_path / name, page=False)

    assert left_behind(tmp_path / "first") == left_behind(tmp_path / "second")
    assert (tmp_path / "other" / ROUNDS).read_bytes() != (tmp_path / "first" / ROUNDS).read_bytes()


def test_more_checkpoints_change_nothing(tmp_path: Path) -> None:
    for every in (1, 5, 12):
        run(table(checkpoint={"every": every}), tmp_path / str(every), own=Own(samples=small_pool()), page=False)
    run({**table(), "checkpoint": {}}, tmp_path / "by-time", own=Own(samples=small_pool()), page=False)

    assert left_behind(tmp_path / "1") == left_behind(tmp_path / "5") == left_behind(tmp_path / "12")
    assert left_behind(tmp_path / "1") == left_behind(tmp_path / "by-time")


@pytest.mark.parametrize("name", ["plain", "own-representation", "global", "availability"])
def test_the_order_of_clients_and_rows_changes_nothing(tmp_path: Path, name: str) -> None:
    config = natural_table(**natural_sections(name, tmp_path))
    represent = mean_features if name == "own-representation" else None
    trace = small_trace()
    whole = run(config, tmp_path / "whole", own=Own(samples=trace, represent=represent), page=False)
    for seed in range(3):
        other = Own(samples=shuffled(trace, seed), represent=represent)
        result = run(config, tmp_path / str(seed), own=other, page=False)

        assert left_behind(tmp_path / str(seed)) == left_behind(tmp_path / "whole")
        assert clusters_by_id(result) == clusters_by_id(whole)
        assert same_models(result, whole)


def natural_sections(name: str, folder: Path) -> dict[str, Json]:
    if name == "global":
        return {"method": {"name": "global"}}
    if name == "own-representation":
        return {"coordinator": {"detector": "threshold", "eps": 0.2, "metric": "l2"}}
    if name == "availability":
        path = folder / "availability.csv"
        rows = [f"client-{at:02d},{at},{at + 9},{20 + at}" for at in range(8)]
        path.write_text("\n".join(["client,start_s,stop_s,finish_s", *rows]) + "\n")
        return {"clock": {"availability": str(path)}}
    return {}


def same_models(first: Result, second: Result) -> bool:
    return all(
        np.array_equal(tensor, second.model_of(client)[name])
        for client in first.checkpoint.client_ids
        for name, tensor in first.model_of(client).items()
    )


def test_rows_of_a_trace_come_in_the_order_of_ids_times_and_labels() -> None:
    trace = sort_samples(shuffled(small_trace(), 5))

    assert trace.client_ids == small_trace().client_ids
    keys = list(zip(trace.client.tolist(), trace.time.tolist(), trace.y.tolist(), strict=True))
    assert keys == sorted(keys)


def test_features_in_a_file_of_their_own_are_not_copied(tmp_path: Path) -> None:
    trace = shuffled(small_trace(), 5)
    assert trace.x is not None
    mapped = np.memmap(tmp_path / "x", dtype=trace.x.dtype, mode="w+", shape=trace.x.shape)
    mapped[:] = trace.x
    on_disk = type(trace)(
        client_ids=trace.client_ids, client=trace.client, time=trace.time, y=trace.y, classes=trace.classes, x=mapped
    )

    assert sort_samples(on_disk).x is mapped
    assert sort_samples(on_disk).client_ids == small_trace().client_ids


class Looking(Mean):
    """Means that write down with how many threads numpy's matrix library works meanwhile."""

    def combine(self, *arguments: Any) -> Any:
        """Return the mean."""
        found = [one["num_threads"] for one in threadpool_info() if "numpy" in one["filepath"]]
        (Path.cwd() / "threads").write_text(str(found))
        return super().combine(*arguments)


def test_what_the_server_computes_does_not_depend_on_the_number_of_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = table(rounds=1, aggregation={"name": "tests.simulation.test_repeatability:Looking"})

    with threadpool_limits(2, user_api="blas"):
        run(config, tmp_path / "run", own=Own(samples=small_pool()), page=False)

    assert (tmp_path / "threads").read_text() == "[1]"
