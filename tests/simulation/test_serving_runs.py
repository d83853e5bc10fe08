"""Whole runs whose clients correct or tune the models that serve them: every method can, and nothing else changes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from fielding._typing import Json
from fielding.errors import FieldingError, OptionError
from fielding.methods import METHODS
from fielding.records.model_file import write_model
from fielding.records.run_folder import CLIENTS
from fielding.runtime.experts import EXPERTS, HEDGE
from fielding.serving.experts import Said, Seen, Window
from fielding.simulation.assembly import Own
from fielding.simulation.experiment import Result, Start, run
from tests.rotation import some_of
from tests.simulation.run_cases import N_ROUNDS, Table, left_behind, small_pool, stop_and_resume, table
from tests.simulation.test_log_docs import listed

SERVINGS: dict[str, dict[str, Json]] = {
    "prior": {"correction": "prior"},
    "predicted": {"correction": "predicted", "smoothing": 5.0},
    "tuned": {"fine_tune": 2},
    "both": {"correction": "prior", "fine_tune": 2, "mix_rate": 0.5},
    "experts": {"correction": "prior", "experts": "auto"},
}
FIGURES = ("accuracy", "worst_decile", "test_loss", "ari", "train_loss", "n_moved", "n_clusters", "n_participants")
WITH_HEADS = ("served", "common", "heads", "residual", "local")  # where clusters share a body
N_CLASSES = 4


def result_of(config: Table, **more: Any) -> Result:
    return run(config, own=Own(samples=small_pool()), page=False, **more)


@pytest.mark.parametrize("name", SERVINGS)
@pytest.mark.parametrize("method", ["fielding", "global"])
def test_serving_changes_nothing_but_what_it_adds(method: str, name: str) -> None:
    plain = result_of(table(method={"name": method}))
    more = result_of(table(method={"name": method}, serving=SERVINGS[name]))

    for before, after in zip(plain.rounds, more.rounds, strict=True):
        # Clients that were tuned or looked at are busier; models that carry a mix are larger and travel longer.
        same = {figure: value for figure, value in before.items() if figure in FIGURES}
        assert {figure: after[figure] for figure in same} == pytest.approx(same, rel=1e-5)
    added = {figure for row in more.rounds for figure in row} - {figure for row in plain.rounds for figure in row}
    keys = {"correction": "corrected", "fine_tune": "tuned", "experts": "served"}
    ways = [way for key, way in keys.items() if key in SERVINGS[name]]
    assert {f"{way}_{figure}" for way in ways for figure in ("accuracy", "worst_decile", "test_loss")} <= added
    assert {figure.split("_")[0] for figure in added if "expert" not in figure} == set(ways)


def test_what_each_expert_alone_would_give_is_told_by_every_score() -> None:
    result = result_of(table(serving=SERVINGS["experts"]))

    tested = [row for row in result.rounds if "served_accuracy" in row]
    assert tested
    for row in tested:
        for where in ("", "newest_", "next_"):
            alone: Any = row[f"{where}expert_accuracy"]
            assert set(alone) == {*EXPERTS, "window"} - {"heads", "common"}
            assert alone["served"] == pytest.approx(row[f"{where}accuracy"])
            assert alone["corrected"] == pytest.approx(row[f"corrected_{where}accuracy"])


def test_what_experts_count_for_sums_to_one_and_the_mixture_is_taken_apart(tmp_path: Path) -> None:
    run(table(serving=SERVINGS["experts"]), tmp_path / "run", own=Own(samples=small_pool()), page=False)

    rows = [json.loads(line) for line in (tmp_path / "run" / CLIENTS).read_text().splitlines()]
    assert rows
    for row in rows:
        assert set(row["expert_weights"]) == set(row["expert_losses"]) - {"window"}
        weights = np.array(list(row["expert_weights"].values()), dtype=np.float64)
        np.testing.assert_allclose(weights[:, ~np.isnan(weights).any(axis=0)].sum(axis=0), 1.0, atol=5e-3)


def test_a_mix_travels_with_every_model_and_is_charged() -> None:
    plain, mixed = (result_of(table(serving=serving)) for serving in ({}, SERVINGS["prior"]))

    for before, after in zip(plain.rounds, mixed.rounds, strict=True):
        assert int(str(after["bytes_down"])) - int(str(before["bytes_down"])) == 4 * N_CLASSES * int(
            str(after["n_asked"])
        )


@pytest.mark.parametrize("method", some_of(METHODS, 6, always=["fielding"]))
def test_every_method_carries_the_mix(method: str) -> None:
    if method == "oracle":
        trace: dict[str, Json] = {"scenario": "concept-swap"}
    else:
        trace = {}

    result = result_of(table(method={"name": method}, trace=trace, serving=SERVINGS["prior"]))

    tested = [row for row in result.rounds if "accuracy" in row]
    assert all(isinstance(row["corrected_accuracy"], float) for row in tested)
    mixes = result.checkpoint.models[:, -N_CLASSES:]
    assert mixes.sum(axis=1) == pytest.approx(np.ones(len(mixes)), abs=0.01)
    assert mixes.min() >= 0.0
    assert result.summary is not None
    assert isinstance(result.summary["final_accuracy_corrected"], float)


@pytest.mark.parametrize("name", some_of(SERVINGS, 2))
def test_a_run_stopped_after_every_round_ends_as_one_never_stopped(tmp_path: Path, name: str) -> None:
    config, own = table(serving=SERVINGS[name]), Own(samples=small_pool())
    run(config, tmp_path / "whole", own=own, page=False)

    stop_and_resume(config, tmp_path / "cut", list(range(1, N_ROUNDS)), own)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")


@pytest.mark.parametrize(
    ("method", "server"),
    some_of([("fielding", "mean"), ("fielding", "wiener"), ("ifca", "wiener"), ("global", "mean")], 1),
)
def test_experts_of_clusters_with_one_body_survive_every_stop(tmp_path: Path, method: str, server: str) -> None:
    config = table(
        method={"name": method}, serving=SERVINGS["experts"], aggregation={"name": server, "shared_body": True}
    )
    own = Own(samples=small_pool())
    result = run(config, tmp_path / "whole", own=own, page=False)

    stop_and_resume(config, tmp_path / "cut", [2, 3, 7], own)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")
    told = [row["experts"] for row in result.rounds if "experts" in row]
    assert told
    assert all(list(one) == list(WITH_HEADS) for one in told if isinstance(one, dict))
    arrays = result.checkpoint.arrays
    losses = next(array for name, array in arrays.items() if name.endswith("expert_losses"))
    assert np.isfinite(losses).any(), "samples came, and experts predicted them"


def test_a_run_with_some_experts_goes_on_after_a_stop(tmp_path: Path) -> None:
    config, own = table(serving={"experts": ["residual", "local"]}), Own(samples=small_pool())
    run(config, tmp_path / "whole", own=own, page=False)

    stop_and_resume(config, tmp_path / "cut", [4], own)

    assert left_behind(tmp_path / "cut") == left_behind(tmp_path / "whole")


def test_what_experts_need_and_tell_travels_with_models_and_is_charged() -> None:
    bodies: dict[str, Json] = {"shared_body": True}
    plain = result_of(table(serving=SERVINGS["prior"], aggregation=bodies))
    served = result_of(table(serving=SERVINGS["experts"], aggregation=bodies))

    n_told, head = len(WITH_HEADS) + 1, N_CLASSES * (8 + 1) + N_CLASSES
    for before, after in zip(plain.rounds, served.rounds, strict=True):
        n_asked, n_clusters = int(str(after["n_asked"])), int(str(after["n_clusters"]))
        heads = n_clusters if n_clusters > 1 else 0  # all of them and the one for all, but for the client's own
        more = [int(str(after[name])) - int(str(before[name])) for name in ("bytes_down", "bytes_up")]
        assert more == [4 * n_asked * (n_told + heads * head), 4 * n_asked * n_told]


def test_on_the_window_clients_are_served_by_both_kinds_of_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    def scores(hedge: float) -> list[list[float]]:
        monkeypatch.setattr("fielding.runtime.experts.HEDGE", hedge)
        tested = [row for row in result_of(table(serving=SERVINGS["experts"])).rounds if "served_test_loss" in row]
        return [[float(str(row.get(name))) for row in tested] for name in ("served_test_loss", "served_next_accuracy")]

    (both, later), (window, as_later), (stream, still_later) = scores(HEDGE), scores(0.0), scores(1.0)

    np.testing.assert_array_equal(later, as_later)
    np.testing.assert_array_equal(later, still_later)
    assert both != window != stream
    for loss, one, other in zip(both, window, stream, strict=True):
        assert loss <= (1.0 - HEDGE) * one + HEDGE * other + 1e-9, "log loss is convex"


def test_an_own_expert_is_weighed_like_the_others(tmp_path: Path) -> None:
    serving: dict[str, Json] = {"experts": ["residual", "tests.simulation.test_serving_runs:always_first"]}

    result = result_of(table(serving=serving))

    told = [one for row in result.rounds if isinstance(one := row.get("experts"), dict)]
    assert list(told[-1]) == ["served", "residual", "tests.simulation.test_serving_runs:always_first"]
    with pytest.raises(FieldingError, match="gave held_out of shape"):
        result_of(table(serving={"experts": ["tests.simulation.test_serving_runs:misshapen"]}))


def test_who_knows_windows_by_heart_and_nothing_else_is_not_believed() -> None:
    own = f"{__name__}:by_heart"
    result = result_of(table(rounds=12, serving={"experts": [own, "local"]}))

    last: Any = [row["expert_accuracy"] for row in result.rounds if "expert_accuracy" in row][-1]
    assert last["window"] > last[own] + 0.2, "the mixture of the window, in which it never errs"
    assert last["window"] >= last["local"] - 0.05


def by_heart(window: Window, asked: Seen, base: Said) -> Said:
    """Give each sample of the window its label, and all others the first class."""
    n_classes = base.asked.shape[-1]
    known, first = np.eye(n_classes)[window.labels], np.zeros_like(base.asked)
    first[..., 0] = 1.0
    return Said(held_out=0.99 * known + 0.01 / n_classes, asked=0.99 * first + 0.01 / n_classes)


def always_first(window: Window, asked: Seen, base: Said) -> Said:
    """Say the first class of every sample."""
    del window, asked
    first = np.eye(N_CLASSES)[0]
    return Said(np.broadcast_to(first, base.held_out.shape), np.broadcast_to(first, base.asked.shape))


def misshapen(window: Window, asked: Seen, base: Said) -> Said:
    """Say something of too few samples."""
    del window, asked
    return Said(base.held_out[:, :1], base.asked)


def test_balanced_training_is_another_training_and_carries_equal_shares() -> None:
    plain = result_of(table(serving=SERVINGS["prior"]))
    balanced = result_of(table(serving=SERVINGS["prior"], training={"balanced": True}))

    assert plain.checkpoint.models.tobytes() != balanced.checkpoint.models.tobytes()
    assert balanced.checkpoint.models[:, -N_CLASSES:] == pytest.approx(0.25, abs=1e-5)


def test_models_leave_a_run_without_the_mix_and_start_others_with_or_without(tmp_path: Path) -> None:
    mixed, file = result_of(table(serving=SERVINGS["prior"])), tmp_path / "m.safetensors"

    write_model(mixed.checkpoint.mean_model(), mixed.layout, file)

    assert "label_mix" in mixed.layout.names
    assert "label_mix" not in mixed.model_of(0)
    assert "label_mix" not in load_file(file)
    for serving in ({}, SERVINGS["prior"]):
        result_of(table(rounds=1, serving=serving), start=Start(init_from=file))


def test_a_smoothing_that_cannot_be_is_refused_by_its_key() -> None:
    with pytest.raises(OptionError, match="serving: smoothing is 'much'; give calibrated"):
        result_of(table(serving={"correction": "prior", "smoothing": "much"}))


def test_all_that_serving_writes_down_is_listed(tmp_path: Path) -> None:
    serving = {**SERVINGS["both"], "experts": "auto"}
    result = run(table(serving=serving), tmp_path / "r", own=Own(samples=small_pool()), page=False)
    plain = run(table(), tmp_path / "p", own=Own(samples=small_pool()), page=False)

    assert result.summary is not None
    assert plain.summary is not None
    written = {name for row in result.rounds for name in row} - {name for row in plain.rounds for name in row}
    written |= set(result.summary) - set(plain.summary)
    in_clients = {"corrected", "tuned", "served", "expert_weights", "expert_losses"}
    assert written == listed("More with `serving`") - in_clients
    first = json.loads((tmp_path / "r" / CLIENTS).read_text().splitlines()[0])
    assert in_clients <= set(first)
