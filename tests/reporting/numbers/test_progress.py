"""Accuracy over time follows each cluster's progress."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding._typing import Json
from fielding.reporting.charts.curves import over_time
from fielding.reporting.numbers.progress import progress
from fielding.reporting.numbers.run_record import RunRecord, read_run
from fielding.reporting.numbers.run_summary import times_to_target
from tests.reporting.run_folders import round_rows, run_folder

CLIENTS, CLUSTERS = ["ann", "bob", "cid", "dan"], [0, 0, 1, 1]
N_TEST = 4


def client_line(
    at: int, correct: Sequence[int], sooner: Mapping[int, float] | None = None, **more: Json
) -> dict[str, Json]:
    """Return a line of ``clients.jsonl``: ann and bob are in cluster 0, cid and dan in 1."""
    times: dict[str, Json] = {str(cluster): time_s for cluster, time_s in (sooner or {}).items()}
    return {
        "round": at,
        **({"cluster_time_s": times} if times else {}),
        "client": list(CLIENTS),
        "cluster": list(CLUSTERS),
        "n_test": [N_TEST] * 4,
        "correct": list(correct),
        **more,
    }


def record(folder: Path, clients: Sequence[Mapping[str, Json]]) -> RunRecord:
    """Return a run with these tests; a round takes a minute, and its accuracy is the mean over clients."""
    accuracies = [float(np.mean(np.array(line["correct"]))) / N_TEST for line in clients]
    rows = round_rows(accuracies)
    for row, line in zip(rows, clients, strict=True):
        if isinstance(sooner := line.get("cluster_time_s"), dict):
            row["first_time_s"] = min(float(str(one)) for one in sooner.values())
    return read_run(run_folder(folder, rows, logs={"clients": clients}))


def listed(run: RunRecord, name: str = "accuracy") -> list[tuple[float, float]]:
    moments, values = progress(run, name)
    return list(zip(moments.tolist(), values.round(6).tolist(), strict=True))


def test_every_client_counts_with_what_its_own_cluster_has_done(tmp_path: Path) -> None:
    run = record(
        tmp_path / "run",
        [
            client_line(0, [0, 0, 0, 0], {0: 30.0}),
            client_line(1, [4, 4, 0, 0], {0: 55.0}),  # cluster 0 is done before cluster 1 is with the round before
            client_line(2, [4, 4, 4, 4], {0: 100.0}),
        ],
    )

    # Nothing is known before all clusters were tested once, at 60; by then cluster 0 is two rounds on.
    assert listed(run) == [(60.0, 0.5), (100.0, 0.5), (120.0, 0.5), (180.0, 1.0)]


def test_a_cluster_that_is_sooner_lifts_the_mean_sooner(tmp_path: Path) -> None:
    run = record(
        tmp_path / "run",
        [client_line(0, [0] * 4), client_line(1, [4, 4, 2, 2], {1: 90.0}), client_line(2, [4] * 4, {0: 130.0})],
    )

    assert listed(run) == [(60.0, 0.0), (90.0, 0.25), (120.0, 0.75), (130.0, 0.75), (180.0, 1.0)]
    found = times_to_target(run.rounds, 0.25, progress(run))
    assert (found["rounds_to_target"], found["time_to_target_s"], found["time_to_first_crossing_s"]) == (
        2.0,
        90.0,
        90.0,
    )
    assert times_to_target(run.rounds, 0.25)["time_to_target_s"] == 120.0
    assert times_to_target(run.rounds, 1.1, progress(run))["time_to_target_s"] is None
    drawn = over_time([run], "accuracy", n_points=5)  # at 60, 90, 120, 150, 180
    assert drawn is not None
    assert drawn.values[0].tolist() == [0.0, 0.25, 0.75, 0.75, 1.0]


def test_whether_a_target_is_held_is_told_by_evaluations(tmp_path: Path) -> None:
    # Cluster 0 gets worse before cluster 1 gets better: no evaluation shows it, nor would one of a single model.
    run = record(
        tmp_path / "run",
        [client_line(0, [4, 4, 0, 0]), client_line(1, [0, 0, 4, 4], {0: 70.0}), client_line(2, [4] * 4)],
    )

    assert listed(run) == [(60.0, 0.5), (70.0, 0.0), (120.0, 0.5), (180.0, 1.0)]
    assert times_to_target(run.rounds, 0.5, progress(run))["time_to_target_s"] == 60.0


def test_clients_that_are_tested_no_more_or_for_the_first_time_count_as_long_as_they_are(tmp_path: Path) -> None:
    first, second = client_line(0, [4, 4, 0, 0]), client_line(1, [4, 4, 0, 0], {1: 90.0})
    for name in ("client", "cluster", "n_test", "correct"):
        first[name] = list(first[name])[:3]  # type: ignore[arg-type]  # dan comes later,
        second[name] = list(second[name])[1:]  # type: ignore[arg-type]  # and ann has gone

    run = record(tmp_path / "run", [first, second])

    assert listed(run) == [(60.0, round(2 / 3, 6)), (90.0, 0.5), (120.0, round(1 / 3, 6))]


def test_what_clients_make_of_their_models_is_followed_too_and_other_figures_wait_for_all(tmp_path: Path) -> None:
    lines = [client_line(0, [0] * 4, corrected=[0] * 4), client_line(1, [2] * 4, {0: 90.0}, corrected=[4] * 4)]
    run = record(tmp_path / "run", lines)
    for row, value in zip(run.rounds, (0.0, 1.0), strict=True):
        row["corrected_accuracy"] = value  # type: ignore[index]

    assert listed(run, "corrected_accuracy") == [(60.0, 0.0), (90.0, 0.5), (120.0, 1.0)]
    assert listed(run, "worst_decile") == [(60.0, 0.0), (120.0, 0.25)]
    assert listed(run, "tuned_accuracy") == []


@pytest.mark.parametrize("damage", ["no line", "no number", "no clients"])
def test_without_the_tests_of_clients_evaluations_are_all_there_is(tmp_path: Path, damage: str) -> None:
    lines = [client_line(0, [0] * 4), client_line(1, [4] * 4, {0: 90.0})]
    record(tmp_path / "run", lines)
    log = tmp_path / "run" / "clients.jsonl"
    text = log.read_text()
    if damage == "no line":
        log.write_text(text.splitlines(keepends=True)[0])
    else:
        log.write_text(text.replace("90.0", '"soon"') if damage == "no number" else "")

    assert listed(read_run(tmp_path / "run")) == [(60.0, 0.0), (120.0, 1.0)]


@given(data=st.data())
def test_where_all_clusters_were_done_the_curve_is_what_was_measured(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    n_rounds = data.draw(st.integers(1, 5))
    lines = []
    for at in range(n_rounds):
        own = {
            cluster: 60.0 * at + data.draw(st.floats(1.0, 59.0))  # meets before each round
            for cluster in data.draw(st.sets(st.integers(0, 1), max_size=1))
        }
        lines.append(client_line(at, data.draw(st.lists(st.integers(0, N_TEST), min_size=4, max_size=4)), own))
    run = record(tmp_path_factory.mktemp("any") / "run", lines)

    moments, values = progress(run)

    assert (np.diff(moments) > 0).all()
    at_end = dict(zip(moments.tolist(), values.tolist(), strict=True))
    assert all(at_end[row["time_s"]] == row["accuracy"] for row in run.rounds)
    assert ((values >= -1e-9) & (values <= 1 + 1e-9)).all()
    target = data.draw(st.sampled_from([0.1, 0.5, 0.75]))
    by_curve, by_evaluation = (
        times_to_target(run.rounds, target, (moments, values)),
        times_to_target(run.rounds, target),
    )
    for name, usual in by_evaluation.items():
        found = by_curve[name]
        assert (found is None) == (usual is None)
        assert found is None or usual is None or found <= usual
        assert found == usual or name.startswith("time")
