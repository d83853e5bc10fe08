from pathlib import Path

import numpy as np
import pytest

from experiments.peers.comparing import HEAD, comparison_runs, markdown, partner_runs, run_name, table
from experiments.peers.grounds import GROUNDS, base_table, merged
from experiments.peers.rows import BUDGET, PARTNERS, ROWS, Chosen, rows_on, settings_of
from experiments.peers.tuning import candidate_name, candidates, choose, read_choice, tuned_rows, write_choice
from fielding._typing import Json
from fielding.comparing.sweep import Finished
from fielding.methods import METHODS

NATURAL = GROUNDS["zephyr"]


def finished(name: str, accuracy: float) -> Finished:
    summary: dict[str, Json] = {
        "final_accuracy": accuracy,
        "worst_decile": accuracy / 2,
        "bytes_down": 2e6,
        "dip": 0.01,
    }
    return Finished(name=name, summary=summary)


def test_every_method_has_a_row_and_nobody_gets_more_runs_for_tuning_than_others() -> None:
    rivals = set(METHODS) - {"clustered-sgd"}  # of the theory, which docs/results/theorem.md measures
    assert {str(row.settings["method"]["name"]) for row in ROWS.values()} == rivals  # type: ignore[index, call-overload]
    assert {len(row.knobs) for row in ROWS.values()} == {0, BUDGET}
    assert all(row.like is None or ROWS[row.like].knobs for row in ROWS.values())


@pytest.mark.parametrize("name", [name for name, ground in GROUNDS.items() if not ground.is_pool])
def test_all_runs_on_a_ground_are_configs_in_folders_of_their_own(name: str, tmp_path: Path) -> None:
    ground = GROUNDS[name]
    seeds = [1, 2]

    assert len(candidates(ground, tmp_path)) == BUDGET * len(tuned_rows(ground))
    assert len(comparison_runs(ground, tmp_path, Chosen(), seeds, list(rows_on(ground)))) == 2 * len(rows_on(ground))
    assert len(comparison_runs(ground, tmp_path, Chosen(), seeds, ["global"])) == 2
    assert len(partner_runs(ground, tmp_path, Chosen(), seeds)) == 2 * 2 * len(PARTNERS)


def test_a_ceiling_is_only_run_where_the_truth_is_known() -> None:
    assert "oracle" not in rows_on(NATURAL)
    assert "oracle" in rows_on(GROUNDS["fashion-places"])


def test_a_pool_is_cut_in_two_and_no_sample_is_in_both_parts(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIELDING_DATA", str(data_folder))
    ground = GROUNDS["fashion-places"]
    tables = [base_table(ground, tmp_path, is_tuning=is_tuning)["trace"] for is_tuning in (True, False)]
    files = [np.load(str(table["file"]), allow_pickle=False) for table in tables if isinstance(table, dict)]
    whole = np.load(data_folder / "fashion_mnist.npz", allow_pickle=False)["y"]

    assert [file["y"].size for file in files] == [20_000, 50_000]
    together = np.bincount(files[0]["y"]) + np.bincount(files[1]["y"])
    assert together.tolist() == np.bincount(whole).tolist()


def test_large_federations_do_not_ask_everybody_and_small_ones_do() -> None:
    assert settings_of(ROWS["cfl"], NATURAL)["method"] == {"name": "cfl", "participation": "sampled"}
    assert settings_of(ROWS["cfl"], GROUNDS["extrasensory"])["method"] == {"name": "cfl"}


def test_settings_are_laid_over_each_other_key_by_key() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}}, {"d": 5}) == {"a": {"b": 1, "c": 4}, "d": 5}


def test_the_best_on_the_validation_trace_is_chosen_and_ties_go_to_the_earlier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.peers.tuning.FOLDER", tmp_path)
    accuracies = (0.5, 0.7, 0.7, 0.6)
    done = {
        (name := candidate_name(row, at)): finished(name, accuracy)
        for row in tuned_rows(NATURAL)
        for at, accuracy in enumerate(accuracies)
    }
    done["ifca-1"] = Finished(name="ifca-1", summary=None, error="it broke")

    write_choice(NATURAL, choose(NATURAL, done))
    chosen = read_choice(NATURAL)

    assert chosen.of("fielding, tau tuned") == ROWS["fielding, tau tuned"].knobs[1]
    assert chosen.of("fielding+") == ROWS["fielding, tau tuned"].knobs[1]
    assert chosen.of("ifca") == ROWS["ifca"].knobs[2]
    assert chosen.of("global") == {}


def test_a_table_holds_every_row_against_the_global_model_and_names_failures(tmp_path: Path) -> None:
    done: dict[str, Finished] = {}
    for seed, (ours, theirs) in enumerate([(0.8, 0.7), (0.9, 0.8)], start=1):
        for name, accuracy in (("fielding", ours), ("global", theirs)):
            done[run_name(name, seed)] = finished(run_name(name, seed), accuracy)
            folder = tmp_path / run_name(name, seed)
            folder.mkdir()
            (folder / "rounds.jsonl").write_text(f'{{"round": 0, "time_s": 3600.0, "accuracy": {accuracy}}}\n')
        done[run_name("ifca", seed)] = Finished(name=run_name("ifca", seed), summary=None, error="no luck")

    head, fielding, broken = table(["fielding", "ifca"], [1, 2], done, tmp_path)

    assert tuple(head) == HEAD
    assert fielding[:5] == ["fielding", "85.0 ± 63.5", "+10.0 ± 0.0", "42.5 ± 31.8", "-"]
    assert broken[:2] == ["ifca", "failed: no luck"]
    assert markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"
