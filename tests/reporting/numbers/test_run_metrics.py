import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

from fielding.federation.ledger import CATEGORIES, Ledger
from fielding.records.run_checkpoint import LEDGER, RunCheckpoint, save_run
from fielding.reporting.numbers.run_metrics import (
    TIMINGS,
    Response,
    churn,
    client_rounds,
    concept_changes,
    detection,
    fairness_figures,
    final_agreement,
    final_fairness,
    mean_response,
    mutual_information,
    purity,
    responses,
    run_metrics,
)
from fielding.reporting.numbers.run_record import parse_client_tests, read_run
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


def test_clusters_are_compared_with_the_truth(tmp_path: Path) -> None:
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


# ---------------------------------------------------------------- cluster quality


PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=30)


@given(PAIRS)
def test_purity_is_that_of_the_contingency_table(pairs: list[tuple[int, int]]) -> None:
    clusters, concepts = np.array(pairs).T

    expected = contingency_matrix(clusters, concepts).max(axis=1).sum() / len(pairs)
    assert purity(clusters, concepts) == pytest.approx(expected)


def test_mutual_information_is_adjusted() -> None:
    clusters, concepts = [0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1]

    assert mutual_information(clusters, concepts) == pytest.approx(adjusted_mutual_info_score(concepts, clusters))
    assert mutual_information([0, 0, 1, 1], [1, 1, 0, 0]) == 1.0
    assert mutual_information([0, 0, 0, 0], [1, 1, 0, 0]) == pytest.approx(0.0)


def test_agreement_is_that_of_the_rounds_that_count() -> None:
    clusters = [(0, [("ann", 0), ("bob", 0), ("cem", 1)]), (3, [("bob", 1)]), (9, [("ann", 1)])]
    concepts = [(0, [("ann", 5), ("bob", 6), ("cem", 6), ("dee", 6)])]

    found = final_agreement(clusters, concepts, [2, 3])

    # After round 2 one of three is in a cluster of others, after round 3 nobody is; dee has no cluster.
    assert found["final_purity"] == pytest.approx((2 / 3 + 1) / 2)
    first = adjusted_mutual_info_score([5, 6, 6], [0, 0, 1])
    assert found["final_ami"] == pytest.approx((first + 1.0) / 2)


def test_without_truth_or_clusters_there_is_no_agreement() -> None:
    known = [(0, [("ann", 0)])]
    nobody = {"final_ami": None, "final_purity": None}

    assert (
        final_agreement(known, [], [1])
        == final_agreement([], known, [1])
        == final_agreement(known, known, [])
        == nobody
    )
    assert final_agreement([(0, [("ann", -1)])], known, [1]) == nobody


def test_churn_counts_moves_but_neither_first_clusters_nor_clients_without_one() -> None:
    lines = [(0, [("ann", 0), ("bob", 0), ("cem", -1)]), (1, [("cem", 1)]), (2, [("ann", 1), ("bob", -1)])]

    # One of the two clients that are left in a cluster moved in round 2; there are four rounds after the first.
    assert churn(lines, 5) == pytest.approx((1 / 2) / 4)
    assert churn([], 5) is None
    assert churn(lines, 1) is None


# ---------------------------------------------------------------- detection


def found(changes: dict[str, list[int]], reports: dict[str, list[int]]) -> tuple[float | None, ...]:
    figures = detection(changes, reports, n_rounds=20, n_client_rounds=50)  # type: ignore[arg-type]
    return tuple(figures[name] for name in ("detection_delay", "miss_rate", "false_reports_per_100"))


def test_a_report_in_the_round_of_the_change_comes_at_once() -> None:
    assert found({"ann": [4]}, {"ann": [0, 4]}) == (0.0, 0.0, 0.0)


def test_the_delay_is_that_of_the_next_report_and_a_second_one_is_false() -> None:
    assert found({"ann": [4]}, {"ann": [0, 6, 9]}) == (2.0, 0.0, 2.0)


def test_a_change_without_a_report_before_the_next_one_is_missed() -> None:
    assert found({"ann": [4, 8]}, {"ann": [0, 8]}) == (0.0, 0.5, 0.0)


def test_a_change_that_is_never_reported_is_missed() -> None:
    assert found({"ann": [4], "bob": [5]}, {"ann": [0, 7]}) == (3.0, 0.5, 0.0)


def test_reports_of_clients_that_never_change_are_false_but_for_the_first() -> None:
    assert found({"ann": []}, {"ann": [0, 3, 5], "stranger": [1]}) == (None, None, 4.0)


def test_without_rounds_of_clients_there_is_no_rate() -> None:
    assert detection({}, {}, n_rounds=0, n_client_rounds=0)["false_reports_per_100"] is None


def test_a_break_is_no_change_if_the_concept_comes_back() -> None:
    lines = [(0, [("ann", 2), ("bob", -1)]), (4, [("ann", -1)]), (6, [("ann", 2), ("bob", 1)]), (8, [("bob", 2)])]

    assert concept_changes(lines) == {"ann": [], "bob": [8]}
    assert client_rounds(lines, 10) == 4 + 4 + 4


@pytest.mark.parametrize("at", [3, 5])
def test_a_break_into_another_concept_is_a_change(at: int) -> None:
    assert concept_changes([(0, [(7, 2)]), (2, [(7, -1)]), (at, [(7, 1)])]) == {7: [at]}


# ---------------------------------------------------------------- drift response


def respond(
    accuracies: Sequence[float], drifts: Sequence[float], *, every: int = 1, longest: float = np.inf
) -> list[Response]:
    rounds = np.arange(len(accuracies), dtype=np.float64) * every
    return responses(rounds, np.array(accuracies), drifts, n_rounds=len(accuracies) * every, longest=longest)


def test_a_fall_and_its_recovery_are_measured_from_the_drift_on() -> None:
    (found,) = respond([0.8, 0.8, 0.4, 0.75, 0.78, 0.8], [2.0])

    assert found.before == pytest.approx(0.8)
    assert found.dip == pytest.approx(0.4)
    assert found.recovery_rounds == 2.0  # 95 % of 0.8 is 0.76
    assert found.loss_area == pytest.approx(0.4 + 0.05 + 0.02)


def test_only_ten_rounds_before_the_drift_count() -> None:
    (found,) = respond([*[0.0] * 5, *[0.8] * 10, 0.4], [15.0])

    assert found.before == pytest.approx(0.8)


def test_the_last_evaluation_stands_in_if_the_ten_rounds_have_none() -> None:
    (found,) = respond([0.2, 0.8, 0.5], [39.0], every=20)

    assert found.before == pytest.approx(0.8)
    # The evaluation of round 40 stands for the 20 rounds to the end.
    assert found.loss_area == pytest.approx(20 * 0.3)


def test_who_never_falls_below_has_recovered_at_once() -> None:
    (found,) = respond([0.8, 0.79, 0.9], [1.0])

    assert found.recovery_rounds == 0.0
    assert found.dip == pytest.approx(0.01)


def test_accuracy_that_only_rises_has_a_negative_dip_and_no_loss() -> None:
    (found,) = respond([0.5, 0.6, 0.7], [1.0])

    assert found.dip == pytest.approx(-0.1)
    assert found.loss_area == 0.0


def test_a_response_ends_at_the_next_drift() -> None:
    first, second = respond([0.8, 0.4, 0.5, 0.2, 0.8], [1.0, 3.0])

    assert first.dip == pytest.approx(0.4)
    assert first.recovery_rounds is None
    assert second.before == pytest.approx((0.8 + 0.4 + 0.5) / 3)
    assert second.recovery_rounds == 1.0


def test_a_response_may_be_cut_short() -> None:
    (found,) = respond([0.8, 0.7, 0.1, 0.8], [1.0], longest=1)

    assert found.dip == pytest.approx(0.1)
    assert found.loss_area == pytest.approx(0.1)


def test_a_drift_before_the_first_or_after_the_last_evaluation_says_nothing() -> None:
    assert respond([0.8, 0.7], [0.0]) == respond([0.8, 0.7], [2.0]) == []
    assert set(mean_response([], "drift_").values()) == {None}


def test_means_tell_how_many_drifts_were_not_recovered_from() -> None:
    found = mean_response(respond([0.8, 0.4, 0.5, 0.2, 0.8], [1.0, 3.0]), "drift_")

    assert found["drift_unrecovered"] == 0.5
    assert found["drift_recovery_rounds"] == 1.0
    assert found["drift_dip_max"] == pytest.approx(0.4)


# ---------------------------------------------------------------- fairness


ACCURACIES = arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1.0))


def test_the_figures_are_those_of_twenty_clients_by_hand() -> None:
    accuracy = np.arange(20, 0, -1) / 20.0  # 0.05 to 1: two clients are a tenth

    found = fairness_figures(accuracy)

    assert found["worst_decile"] == pytest.approx((0.05 + 0.10) / 2)
    assert found["best_decile"] == pytest.approx((0.95 + 1.0) / 2)
    assert found["decile_gap"] == pytest.approx(0.9)
    assert found["client_p10"] == pytest.approx(0.05 + 1.9 * 0.05)
    assert found["client_min"] == 0.05
    assert found["client_std"] == pytest.approx(np.std(accuracy))
    # 10.5 is the sum, 7.175 that of the squares.
    assert found["jain_index"] == pytest.approx(10.5**2 / (20 * 7.175))


def test_a_tenth_of_eleven_clients_is_two() -> None:
    found = fairness_figures(np.array([0.0, 0.5, *[1.0] * 9]))

    assert (found["worst_decile"], found["best_decile"]) == (0.25, 1.0)


def test_clients_without_test_samples_are_left_out_and_nobody_has_no_figures() -> None:
    assert fairness_figures(np.array([np.nan, 0.5])) == fairness_figures(np.array([0.5]))
    assert fairness_figures(np.array([np.nan])) == {}


@given(ACCURACIES)
def test_the_index_is_between_one_over_n_and_one(accuracy: np.ndarray) -> None:
    index = fairness_figures(accuracy)["jain_index"]

    assert 1 / accuracy.size - 1e-9 <= index <= 1 + 1e-9


@pytest.mark.parametrize("level", [0.0, 0.5])
def test_clients_that_are_served_alike_are_served_fairly(level: float) -> None:
    found = fairness_figures(np.full(7, level))

    assert found["jain_index"] == pytest.approx(1.0)
    assert found["decile_gap"] == found["client_std"] == 0.0


def test_final_figures_are_means_over_the_final_evaluations_alone() -> None:
    same = {"client": ["ann", "bob"], "cluster": [0, 0], "n_test": [4, 4], "corrected": [4, 4]}
    lines = [{"round": at, "correct": right, **same} for at, right in ((0, [0, 0]), (5, [1, 4]), (9, [2, 4]))]

    found = final_fairness([parse_client_tests(line) for line in lines], [5, 9])  # type: ignore[arg-type]

    assert found["client_min"] == pytest.approx((0.25 + 0.5) / 2)
    assert found["decile_gap"] == pytest.approx((0.75 + 0.5) / 2)
    assert (found["client_min_corrected"], found["decile_gap_corrected"]) == (1.0, 0.0)
    assert "client_min_tuned" not in found
    assert final_fairness([], [5, 9]) == dict.fromkeys(found.keys() - {f"{name}_corrected" for name in found})
