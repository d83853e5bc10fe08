"""Data that nobody would wish for: defined behaviour, or a clear refusal before training starts (QUALITY.md R22).

What each of these does stands in docs/reliability.md.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fielding._typing import Mask
from fielding.errors import InputError
from fielding.records.run_folder import ROUNDS
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result, run
from fielding.traces.pool import Pool
from fielding.traces.scenarios import SCENARIOS
from fielding.traces.trace import Trace
from tests.simulation.run_cases import N_ROUNDS, Table, small_pool, small_trace, table

TRACE = small_trace()
assert TRACE.x is not None
X = TRACE.x


def natural(**more: int) -> Table:
    config = table()
    config["trace"] = {"interval": "1d", "gap": 2, "window": 4}
    return config | more


def only(keep: Mask) -> Trace:
    """Return some rows of the trace; clients that lose all of them stay in the list."""
    return replace(TRACE, client=TRACE.client[keep], time=TRACE.time[keep], y=TRACE.y[keep], x=X[keep])


def participants(result: Result) -> list[int]:
    return [int(str(row["n_participants"])) for row in result.rounds]


def refusal(config: Table, samples: Pool | Trace, folder: Path) -> str:
    """Return why a run is refused, and check that it left nothing behind."""
    with pytest.raises(InputError) as caught:
        run(config, folder / "out", own=Own(samples=samples))
    assert list(folder.iterdir()) == []
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_client_without_samples_is_served_by_the_mean_of_all_models() -> None:
    result = run(natural(), own=Own(samples=replace(TRACE, client_ids=(*TRACE.client_ids, "nobody"))))

    assert result.cluster_of("nobody") is None
    assert len(result.checkpoint.cluster_ids) > 1
    mean = result.layout.tensors(result.checkpoint.mean_model())
    assert all(np.array_equal(tensor, mean[name]) for name, tensor in result.model_of("nobody").items())
    assert max(participants(result)) == 8


def test_a_client_with_fewer_samples_than_a_batch_draws_them_again() -> None:
    first = np.flatnonzero(TRACE.client == 4)[:1]
    keep = TRACE.client != 4
    keep[first] = True
    config = natural()
    config["training"] = {"participants": 8, "batch_size": 50, "local_steps": 2}

    result = run(config, own=Own(samples=only(keep)))

    assert participants(result)[0] == 8, "one sample is enough to take part"
    assert result.cluster_of("client-04") is not None


def test_a_client_with_one_class_reports_and_trains_like_any_other() -> None:
    result = run(natural(), own=Own(samples=only((TRACE.client != 0) | (TRACE.y == 0))))

    assert result.cluster_of("client-00") is not None
    assert result.rounds[-1]["accuracy"] is not None


def test_a_label_that_only_test_samples_have_is_never_learned_and_breaks_nothing() -> None:
    pool = small_pool()
    y = np.where(pool.is_test() & (pool.y == 3), 3, pool.y % 3).astype(np.int32)
    assert set(y[~pool.is_test()]) == {0, 1, 2}

    result = run(table(), own=Own(samples=Pool(x=pool.x, y=y, classes=pool.classes)))

    assert result.layout.shapes[-1] == (4,), "the model has an output for every class of the list"
    assert isinstance(result.rounds[-1]["accuracy"], float)


def test_classes_without_samples_cost_an_output_and_nothing_else() -> None:
    pool = small_pool()

    result = run(table(), own=Own(samples=Pool(x=pool.x, y=pool.y, classes=tuple("abcdefgh"))))

    assert result.layout.shapes[-1] == (8,)


def test_features_that_are_no_numbers_are_refused_by_row(tmp_path: Path) -> None:
    x = X.copy()
    x[5, 1] = np.nan

    assert "x in row 5 holds NaN or infinity" in refusal(natural(), replace(TRACE, x=x), tmp_path)


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((2, 4)), np.array([["a"], ["b"], ["c"]]), np.zeros((3, 0))])
def test_features_of_the_wrong_shape_are_refused(x: np.ndarray) -> None:
    with pytest.raises(InputError, match="x "):
        Pool(x=x, y=np.zeros(3, dtype=np.int32), classes=("a",))


def test_ragged_features_in_a_file_are_refused(tmp_path: Path) -> None:
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("client,time,label,a,b\n1,0,x,1,2\n1,1,y,3\n")
    config = natural()
    config["trace"] = {"file": str(ragged), "features": "a,b", "interval": "1s", "gap": 2, "window": 4}

    with pytest.raises(InputError, match=r"ragged\.csv, line 3"):
        run(config, tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_a_trace_without_features_is_refused(tmp_path: Path) -> None:
    assert "labels but no features" in refusal(natural(), replace(TRACE, x=None), tmp_path)


def test_a_trace_that_ends_early_is_refused_with_the_rounds_it_lasts(tmp_path: Path) -> None:
    line = refusal(natural(rounds=15), TRACE, tmp_path)

    assert "rounds is 15, but the trace ends after 14 rounds" in line
    assert len(run(natural(rounds=14), own=Own(samples=TRACE)).rounds) == 14


def test_nobody_with_a_training_sample_at_the_start_is_refused(tmp_path: Path) -> None:
    pool = small_pool()
    tested = np.flatnonzero(pool.is_test()[:1])
    assert tested.size, "the first sample of every pool is for testing"

    lonely = Pool(x=pool.x[:1], y=pool.y[:1], classes=pool.classes)

    assert "no client has a sample to train on at the start" in refusal(table(), lonely, tmp_path)


def test_a_window_shorter_than_the_gap_is_refused(tmp_path: Path) -> None:
    line = refusal(table(trace={"window": 2, "gap": 3}), small_pool(), tmp_path)

    assert "trace.window is 2; it must be at least trace.gap, which is 3" in line


@pytest.mark.parametrize("method", ["fielding", "global"])
def test_one_client_is_a_federation_of_one_cluster(method: str) -> None:
    result = run(table(trace={"clients": 1}, method={"name": method}), own=Own(samples=small_pool()))

    assert participants(result) == [1] * N_ROUNDS
    assert result.checkpoint.cluster_ids == (0,)


def test_more_clusters_than_clients_are_never_made() -> None:
    config = table(trace={"clients": 3}, coordinator={"k_max": 100}, training={"participants": 400})

    result = run(config, own=Own(samples=small_pool()))

    assert 1 <= len(result.checkpoint.cluster_ids) <= 3
    assert participants(result) == [3] * N_ROUNDS


def test_identical_clients_are_one_cluster_and_report_once() -> None:
    alike = replace(TRACE, y=np.zeros_like(TRACE.y), x=np.ones_like(X))

    result = run(natural(), own=Own(samples=alike))

    assert {row["n_clusters"] for row in result.rounds} == {1}
    assert [row["n_reports"] for row in result.rounds] == [8] + [0] * (N_ROUNDS - 1)


def test_all_clients_may_drift_at_once() -> None:
    result = run(table(trace={"share": 1.0}), own=Own(samples=small_pool()))

    assert [row["n_reports"] for row in result.rounds if int(str(row["round"])) % 3 == 0] == [12] * 4
    assert participants(result) == [8] * N_ROUNDS


def test_a_client_that_vanishes_for_ever_keeps_its_cluster_and_is_asked_no_more() -> None:
    result = run(natural(), own=Own(samples=only((TRACE.client != 2) | (TRACE.time < 2 * 86400.0))))

    assert participants(result) == [8] * 4 + [7] * 8, "the second day leaves the window at round 4"
    assert result.cluster_of("client-02") is not None


def test_rounds_in_which_nobody_has_data_pass_and_change_no_model(tmp_path: Path) -> None:
    away = (TRACE.time < 2 * 86400.0) | (TRACE.time > 7.5 * 86400.0)
    result = run(natural(), tmp_path / "out", own=Own(samples=only(away)), page=False)

    assert participants(result)[:4] == [8] * 4
    assert participants(result)[4:] == [0] * 8
    times = [float(str(row["time_s"])) for row in result.rounds]
    assert times == sorted(set(times)), "time stood still"
    assert (tmp_path / "out" / ROUNDS).read_text().count("\n") == N_ROUNDS


def test_a_client_that_can_never_be_reached_holds_its_report_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "there.csv"
    rows = ["client,start_s,stop_s", *(f"{client},0,{0 if client == 3 else 1e6:.0f}" for client in range(12))]
    path.write_text("\n".join(rows) + "\n")

    result = run(table(clock={"availability": str(path)}), own=Own(samples=small_pool()))

    assert result.cluster_of(3) is None
    assert all(result.cluster_of(client) is not None for client in range(12) if client != 3)


def test_a_run_that_starts_with_everybody_away_waits_for_them(tmp_path: Path) -> None:
    path = tmp_path / "there.csv"
    rows = ["client,start_s,stop_s", *(f"{client},150,1000" for client in range(12))]
    path.write_text("\n".join(rows) + "\n")

    result = run(table(clock={"availability": str(path)}), own=Own(samples=small_pool()))

    assert participants(result)[:3] == [0, 0, 0], "a minute a round, until second 150"
    assert participants(result)[3] == 8
    assert result.cluster_of(0) is not None


ONE_CLASS_IS_TOO_FEW = {"new-label": "the pool has samples of 1", "mixed": "swaps of 1 labels give fewer"}


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_pool_of_one_class_is_dealt_or_refused(tmp_path: Path, scenario: str) -> None:
    pool = small_pool()
    config = table()
    config["trace"] = {"clients": 6, "gap": 3, "window": 6, "scenario": scenario}
    single = Pool(x=pool.x, y=np.zeros_like(pool.y), classes=("a",))

    if scenario in ONE_CLASS_IS_TOO_FEW:
        assert ONE_CLASS_IS_TOO_FEW[scenario] in refusal(config, single, tmp_path)
    else:
        assert run(config, own=Own(samples=single)).rounds[-1]["accuracy"] == 1.0


def test_training_that_diverges_fails_client_by_client_and_spoils_no_model() -> None:
    result = run(table(training={"learning_rate": 1e30}), own=Own(samples=small_pool()))

    assert participants(result) == [0] * N_ROUNDS
    assert {row["n_failed"] for row in result.rounds} == {8}
    assert np.isfinite(result.checkpoint.models).all()
