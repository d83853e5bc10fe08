import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fielding.federation.ledger import CATEGORIES, Ledger
from fielding.records.run_checkpoint import LEDGER, RunCheckpoint, save_run
from fielding.reporting.numbers.run_metrics import TIMINGS, run_metrics
from fielding.reporting.numbers.run_record import read_run
from fielding.reporting.numbers.run_summary import run_summary
from fielding.training.layout import Layout
from tests.reporting.run_folders import round_rows, run_folder

if TYPE_CHECKING:
    from fielding._typing import Json

ROUNDS = 10


def event(at: int, *reported: str, **more: "Json") -> dict[str, "Json"]:
    return {"round": at, "fired": False, "reported": [*reported], "joined": [], "silenced": [], **more}


def evaluation(at: int, correct: list[int]) -> dict[str, "Json"]:
    ids = ["ann", "bob", "cem", "dee"][: len(correct)]
    return {
        "round": at,
        "client": [*ids],
        "cluster": [0] * len(ids),
        "n_test": [4] * len(ids),
        "correct": [*correct],
    }


def figures(folder: Path, rounds: list[dict[str, "Json"]], **logs: list[dict[str, "Json"]]) -> dict[str, "Json"]:
    return run_metrics(read_run(run_folder(folder / "run", rounds, logs=logs)))


def test_the_figures_of_the_summary_are_among_them_unchanged(tmp_path: Path) -> None:
    rounds = round_rows([0.1 * at for at in range(ROUNDS)], n_moved=[1] * ROUNDS, reclustered=[False, True] * 5)
    events = [event(2, "ann", mean_client_distance=0.5)]

    found = figures(tmp_path, rounds, events=events, clients=[evaluation(9, [1, 2])])

    expected = run_summary(rounds, events, gap=4)
    assert {name: found[name] for name in expected} == expected
    assert found["worst_decile"] == pytest.approx(np.mean([0.25, 0.3, 0.35, 0.4, 0.45]))


def test_fairness_is_that_of_the_final_evaluations(tmp_path: Path) -> None:
    lines = [evaluation(at, [0, 0] if at < 5 else [1, 4]) for at in range(ROUNDS)]

    found = figures(tmp_path, round_rows([0.5] * ROUNDS), clients=lines)

    assert found["client_min"] == 0.25
    assert found["decile_gap"] == 0.75
    assert found["jain_index"] == pytest.approx(1.25**2 / (2 * (0.0625 + 1)))


def test_drifts_are_the_changes_of_concept_where_these_are_known(tmp_path: Path) -> None:
    curve = [0.8] * 6 + [0.4, 0.8, 0.8, 0.8]
    concepts: list[dict[str, Json]] = [
        {"round": 0, "changed": [["ann", 0], ["bob", 0]]},
        {"round": 6, "changed": [["bob", 1]]},
    ]

    known = figures(tmp_path / "known", round_rows(list(curve)), concepts=concepts)
    unknown = figures(tmp_path / "unknown", round_rows(list(curve)))

    assert known["drift_dip"] == pytest.approx(0.4)
    assert known["drift_recovery_rounds"] == 1.0
    assert known["drift_loss_area"] == pytest.approx(0.4)
    # Samples arrive in rounds 4 and 8: the first arrival falls by 0.4, the second only rises.
    before = np.mean(curve[:8])
    assert unknown["drift_dip"] == pytest.approx((0.4 + before - 0.8) / 2)
    assert unknown["drift_recovery_rounds"] == pytest.approx((3.0 + 0.0) / 2)


def test_responses_to_reclusterings_last_a_gap(tmp_path: Path) -> None:
    curve: list[float | None] = [0.8, 0.8, 0.7, 0.8, 0.8, 0.8, 0.1, 0.8, 0.8, 0.8]

    found = figures(tmp_path, round_rows(curve, reclustered=[at == 2 for at in range(ROUNDS)]))

    assert found["recluster_dip"] == pytest.approx(0.1)
    assert found["dip"] == pytest.approx(0.1)


def test_detection_is_known_where_concepts_and_reports_are(tmp_path: Path) -> None:
    concepts: list[dict[str, Json]] = [
        {"round": 0, "changed": [["ann", 0], ["bob", 0]]},
        {"round": 4, "changed": [["ann", 1], ["bob", 1]]},
    ]
    events = [event(0, "ann", "bob"), event(5, "ann"), event(6, "ann"), event(7, "bob", silenced=["bob"])]

    found = figures(tmp_path, round_rows([0.5] * ROUNDS), concepts=concepts, events=events)

    assert found["detection_delay"] == 1.0
    assert found["miss_rate"] == 0.5  # bob only went silent
    assert found["false_reports_per_100"] == pytest.approx(100 * 1 / 20)
    silent = figures(tmp_path / "silent", round_rows([0.5] * ROUNDS), concepts=concepts)
    assert silent["detection_delay"] is silent["miss_rate"] is silent["false_reports_per_100"] is None


def test_clusters_are_held_against_the_truth(tmp_path: Path) -> None:
    memberships: list[dict[str, Json]] = [
        {"round": 0, "changed": [["ann", 0], ["bob", 0], ["cem", 1], ["dee", 1]]},
        {"round": 3, "changed": [["bob", 1]]},
    ]
    concepts: list[dict[str, Json]] = [{"round": 0, "changed": [["ann", 7], ["bob", 8], ["cem", 8], ["dee", 8]]}]
    events = [
        event(0, "ann", started=True, n_clusters=2, silhouettes={"2": 0.5, "3": 0.25}),
        event(3, "bob", n_clusters=2, silhouettes={}),
        event(5, "bob", fired=True, n_clusters=3, silhouettes={"2": 0.5, "3": 0.75}),
    ]

    found = figures(
        tmp_path,
        round_rows([0.5] * ROUNDS, n_clusters=[*[2] * 5, *[3] * 5]),
        memberships=memberships,
        concepts=concepts,
        events=events,
    )

    assert found["final_ami"] == pytest.approx(1.0)
    assert found["final_purity"] == 1.0
    assert found["churn"] == pytest.approx((1 / 4) / 9)
    assert found["mean_clusters"] == 2.5
    assert found["silhouette"] == pytest.approx((0.5 + 0.75) / 2)


def test_costs_are_split_by_what_they_were_for(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", round_rows([0.5] * ROUNDS))
    ledger = Ledger(2)
    for at, category in enumerate(CATEGORIES):
        ledger.charge(category, [0, 1], down_bytes=10**at, up_bytes=3, seconds=0.5 * at)
    (folder / "checkpoints").mkdir()
    save_run(checkpoint_of(ledger), folder / "checkpoints" / "00000009.ckpt")

    found = run_metrics(read_run(folder))

    assert [found[f"bytes_down_{one}"] for one in CATEGORIES] == [2, 20, 200]
    assert [found[f"bytes_up_{one}"] for one in CATEGORIES] == [6, 6, 6]
    assert [found[f"client_seconds_{one}"] for one in CATEGORIES] == [0.0, 1.0, 2.0]


def checkpoint_of(ledger: Ledger) -> RunCheckpoint:
    return RunCheckpoint(
        round_index=9,
        time_s=600.0,
        method="fielding",
        layout=Layout(names=("weight",), shapes=((1,),), n_parameters=1),
        models=np.zeros((1, 1), dtype=np.float32),
        cluster_ids=(0,),
        client_ids=("ann", "bob"),
        membership=np.zeros(2, dtype=np.int32),
        values={},
        arrays={f"{LEDGER}{name}": array for name, array in ledger.arrays().items()},
        progress={},
    )


def test_what_the_machine_took_is_told(tmp_path: Path) -> None:
    lines: list[dict[str, Json]] = [
        {"round": 0, "adapt": 0.25, "select": 0.125, "train": 4.0, "whole": 5.0, "peak_bytes": 100},
        {"round": 1, "adapt": 0.5, "learn": 0.125, "train": 1.0, "peak_bytes": 300},
    ]

    found = figures(tmp_path, round_rows([0.5, 0.5]), timings=lines)

    assert found["server_ms"] == 500.0
    assert found["adapt_ms_mean"] == 375.0
    assert found["adapt_ms_max"] == 500.0
    assert found["wall_s"] == 5.0 + 1.625  # a line without the whole is the sum of its stages
    assert found["peak_bytes"] == 300


def test_an_empty_run_has_no_figures_but_raises_nothing(tmp_path: Path) -> None:
    found = figures(tmp_path, [])

    assert found["final_accuracy"] is found["drift_dip"] is found["churn"] is found["mean_clusters"] is None
    assert {found[name] for name in TIMINGS} == {None}


def test_a_damaged_run_tells_what_is_left_of_it(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", round_rows([0.5] * ROUNDS))
    for name in ("events", "memberships", "concepts", "clients", "timings"):
        (folder / f"{name}.jsonl").write_text('{"round": 3, "changed": 7}\n[1]\nnot json\n{"round": "x"}\n{"rou')
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"round": 10, "time_s": 660.0, "accuracy": NaN, "n_clusters": []}\n')

    found = run_metrics(read_run(folder))

    assert found["n_rounds"] == 10  # no run writes such a line as the last one: it is left out
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_folder_without_logs_has_no_figures_but_raises_nothing(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", round_rows([0.5]))
    for path in folder.glob("*.jsonl"):
        path.unlink()

    assert run_metrics(read_run(folder))["final_accuracy"] is None
