"""What the comparison of ``auto`` with its rivals runs, which rivals it chooses, and what its tables say."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.beyond import __main__ as beyond
from experiments.beyond import tables
from experiments.beyond.choosing import SCORES, best_rival, chosen_rivals, figures, read_choice, write_choice
from experiments.beyond.personal import neighbours, own_head
from experiments.beyond.rows import (
    AUTO,
    CHOOSING,
    GLOBAL,
    PARTS,
    RIVALS,
    ROWS,
    SCORING,
    TRYING,
    config_of,
    run_name,
    runs,
    scoring_seeds,
)
from experiments.beyond.running import run_all, stored_run, timed_run, wall_file, wall_seconds
from experiments.beyond.scenarios import ALL, SCENARIOS, UNSEEN, Scenario
from experiments.beyond.traffic import Traffic, most_judged, traffic_of
from experiments.beyond.worse import experts_alone, final_counts, share_worse
from experiments.tables import merged
from fielding import run
from fielding._typing import Json
from fielding.comparing.sweep import Finished
from fielding.config.reader import config_from, config_table
from fielding.methods.guard import MOST_JUDGES
from fielding.records.run_folder import CLIENTS, MANIFEST, ROUNDS
from fielding.serving.experts import Seen, Window, served
from fielding.simulation.config_check import check_config
from fielding.simulation.experiment import Start
from fielding.traces.pool import BLOCKS_PER_TEST
from tests.rotation import some_of

SEEDS = [4, 5, 6]
TINY = Scenario(
    name="tiny",
    trace={"name": "digits", "scenario": "static", "clients": 8, "gap": 1, "window": 2},
    training={"participants": 4, "local_steps": 1},
    rounds=8,  # clients of auto report after five, when there is a shared model
    model={"name": "mlp", "hidden": 4},
)


def summary(window: float, following: float | None = None, **others: Json) -> dict[str, Json]:
    second = {} if following is None else {"final_next_accuracy_served": following}
    return {"final_accuracy": 0.01, "final_accuracy_served": window, **second, **others}


def all_rivals(window: float, following: float) -> dict[tuple[str, int], dict[str, Json]]:
    return {(row, seed): summary(window, following) for row in RIVALS for seed in SEEDS}


def test_scenarios_and_rivals_differ_in_nothing_but_method_and_trace() -> None:
    configs = [config_of(scenario, rival, 1) for scenario in ALL.values() for rival in RIVALS]
    own = {rival: config_of(TINY, rival, 1).serving.experts for rival in RIVALS}

    assert (len(SCENARIOS), len(UNSEEN), len(ALL), len(RIVALS)) == (8, 4, 14, 13)
    assert {rival for rival, experts in own.items() if experts != "auto"} == {"knn-per", "fedrod"}
    assert {config.serving.correction for config in configs} == {"prior"}
    assert {config.trace.held_out for config in configs} == {None}
    assert {config.workers for config in configs} == {1}


@pytest.mark.parametrize("row", ROWS)
def test_no_row_has_a_key_without_an_effect(row: str) -> None:
    for scenario in (*SCENARIOS.values(), TINY):
        check_config(config_of(scenario, row, 1))


def test_files_of_unseen_traces_are_the_only_thing_that_their_configs_may_lack(tmp_path: Path) -> None:
    for scenario in UNSEEN.values():
        table = config_table(config_of(scenario, AUTO, 1))
        trace = table["trace"]
        assert isinstance(trace, dict)
        if "file" in trace:
            path = tmp_path / Path(str(trace["file"])).name
            path.touch()
            trace["file"] = str(path)
        check_config(config_from(table))


@pytest.mark.parametrize("row", some_of(ROWS, 6, always=[AUTO]))
def test_every_row_gives_both_scores(row: str, tmp_path: Path) -> None:
    ((name, config),) = runs([TINY], [row], [11]).items()
    done = timed_run(name, config_table(config), tmp_path)

    assert done.error is None
    assert all(figures({(row, 11): done.summary or {}}, row, [11], figure) is not None for figure in SCORES.values())


def test_seeds_for_choosing_scoring_and_trying_are_other_ones() -> None:
    assert not set(CHOOSING) & set(SCORING)
    assert not set(TRYING) & {*CHOOSING, *SCORING}


def test_nothing_but_the_representation_is_set_for_auto() -> None:
    assert PARTS[AUTO] == {"coordinator": {"representation": "auto"}}


def test_each_part_is_one_change_of_auto() -> None:
    def keys_of(part: str) -> dict[tuple[str, str], Json]:
        table = config_table(config_of(TINY, part, 11))
        return {
            (name, key): value for name, one in table.items() if isinstance(one, dict) for key, value in one.items()
        }

    whole = keys_of(AUTO)
    changed = {
        part: {key for key in whole | one if whole.get(key) != one.get(key)} for part in PARTS if (one := keys_of(part))
    }
    experts = {part for part, keys in changed.items() if keys == {("serving", "experts")}}

    assert experts == {f"auto, without {name}" for name in ("common", "heads", "residual", "local")}
    assert {part: keys for part, keys in changed.items() if part not in experts} == {
        AUTO: set(),
        "auto, averaging at the server": {("aggregation", "name")},
        "auto, Flash at the server": {("aggregation", "name")},
        "auto, no guard": {("method", "guard")},
        "auto, shared model from a pool": {("coordinator", "shared_model")},
        # The guard comes along with auto alone, and label histograms need no shared model.
        "auto, label histograms": {
            ("coordinator", "representation"),
            ("coordinator", "shared_model"),
            ("method", "guard"),
        },
    }


def test_a_part_without_an_expert_has_all_others() -> None:
    found = config_of(TINY, "auto, without heads", 11).serving.experts

    assert set(found) == {"served", "common", "residual", "local"}


def test_label_histograms_keep_the_guard_that_auto_has() -> None:
    parts = ("auto, label histograms", "auto, no guard")

    assert [config_of(TINY, part, 11).method.options for part in parts] == [{"guard": True}, {"guard": False}]


def test_every_run_has_a_folder_of_its_own() -> None:
    assert len(runs(ALL.values(), list(ROWS), SEEDS)) == 14 * len(ROWS) * 3


def test_what_takes_minutes_a_run_is_scored_on_fewer_seeds() -> None:
    few = {name for name, scenario in ALL.items() if len(scoring_seeds(scenario)) == 3}

    assert few == {"zephyr", "flights", "cifar-cnn", "cifar-resnet18"}
    assert {len(scoring_seeds(scenario)) for name, scenario in ALL.items() if name not in few} == {5}


def test_natural_traces_are_scored_on_blocks_of_time_that_no_other_seed_tested() -> None:
    natural = [scenario for scenario in ALL.values() if scenario.trace.get("fold") == "seed"]

    assert {scenario.name for scenario in natural} == {"zephyr", "extrasensory", "flights", "summer-time"}
    tested = {seed % BLOCKS_PER_TEST for scenario in natural for seed in scoring_seeds(scenario)}
    assert not tested & {seed % BLOCKS_PER_TEST for seed in (*CHOOSING, 11, 12, 13)}


def test_each_score_has_a_best_rival_of_its_own() -> None:
    found = all_rivals(0.5, 0.6)
    for seed, window in zip(SEEDS, (0.7, 0.7, 0.61), strict=True):
        found["ifca", seed] = summary(window, 0.4)
        found["local", seed] = summary(0.4, 0.65)
    best = {score: best_rival(found, SEEDS, score) for score in SCORES}

    assert best["window"] is not None
    assert best["next"] is not None
    assert (best["window"]["rival"], best["next"]["rival"]) == ("ifca", "local")
    assert best["window"]["mean"] == pytest.approx(0.67)
    assert best["window"]["seeds"] == SEEDS
    assert best["next"]["means"] == pytest.approx(dict.fromkeys(RIVALS, 0.6) | {"ifca": 0.4, "local": 0.65})


def test_ties_go_to_the_earlier_rival_and_one_that_lacks_a_run_is_not_chosen() -> None:
    found = all_rivals(0.5, 0.6)
    for seed in SEEDS:
        found["flash", seed] = summary(0.9, 0.9)
    del found["flash", 5]
    best = best_rival(found, SEEDS, "next")

    assert best is not None
    assert best["rival"] == GLOBAL
    assert isinstance(best["means"], dict)
    assert best["means"]["flash"] is None
    assert best_rival({}, CHOOSING, "next") is None


def test_a_choice_of_one_scenario_leaves_those_of_others_alone(tmp_path: Path) -> None:
    path = tmp_path / "chosen.json"
    write_choice(path, {"places": {"window": {"rival": "ifca"}, "next": {"rival": "local"}}})
    write_choice(path, {"mixed": {"window": {"rival": "flash"}}})

    assert chosen_rivals(path) == {"places": {"window": "ifca", "next": "local"}, "mixed": {"window": "flash"}}
    assert read_choice(tmp_path / "other.json") == {}


def scored(differences: list[float]) -> dict[tuple[str, int], dict[str, Json]]:
    """Return runs in which auto is so much better than flash by the window, and twice that by the next interval."""
    found = {(AUTO, seed): summary(0.8 + one, 0.6 + 2 * one) for seed, one in zip(SEEDS, differences, strict=True)}
    return found | {("flash", seed): summary(0.8, 0.6) for seed in SEEDS}


# By hand: the t quantile of two degrees of freedom is 4.303, so the half width for +-0.01 about a mean is 2.48 points.
@pytest.mark.parametrize(
    ("middle", "word", "is_below"),
    [
        (0.03, "ahead", False),
        (0.02, "level", False),
        (-0.02, "level", False),
        (-0.03, "behind", False),
        (-0.04, "behind", True),
    ],
)
def test_a_verdict_is_read_off_the_paired_interval(middle: float, word: str, *, is_below: bool) -> None:
    result = tables.verdict(scored([middle - 0.01, middle, middle + 0.01]), "flash", SEEDS, "window")

    assert result is not None
    assert result.difference.mean == pytest.approx(middle)
    assert result.difference.half_width == pytest.approx(0.02484, abs=1e-5)
    assert (result.word, result.is_below) == (word, is_below)


def test_the_front_table_holds_auto_against_the_best_rival_by_each_score() -> None:
    found = {"places": scored([0.02, 0.03, 0.04]), "mixed": {}}
    found["places"] |= {(GLOBAL, seed): summary(0.7, 0.7) for seed in SEEDS}
    bests = {"places": {"window": "flash", "next": GLOBAL}}
    seeds = dict.fromkeys(found, SEEDS)
    _, places, mixed = tables.front_cells(found, bests, seeds, {"places": [(0.3, 0.1), (0.3, 0.0)]})

    assert places[:3] == ["places", "83.0 ± 2.5", "+3.0 ± 2.5 (flash)"]
    assert places[3:5] == ["66.0 ± 5.0", "-4.0 ± 5.0 (global)"]
    assert places[5:] == ["+13.0 ± 2.5 / -4.0 ± 5.0", "5 %"]
    assert mixed == ["mixed", "-", "-", "-", "-", "- / -", "-"]


def test_what_is_served_stands_beside_the_best_expert_of_all_seeds_and_the_correction() -> None:
    corrected = {"final_accuracy_corrected": 0.9, "final_next_accuracy_corrected": 0.1}
    found = {"places": {(AUTO, seed): summary(0.8, 0.6, **corrected) for seed in SEEDS}, "mixed": {}}
    window = [
        {"served": 0.7, "heads": 0.82},
        {"served": 0.84, "heads": 0.78},
        {"served": 0.7, "heads": 0.8},
    ]
    following = {"served": 0.65, "heads": 0.1}
    alone = {"places": {seed: {"window": one, "next": following} for seed, one in zip(SEEDS, window, strict=True)}}
    _, first, second, *rest = tables.expert_cells(found, alone)

    assert first[1:4] == ["window", "80.0 ± 0.0", "heads: 80.0 ± 5.0"]
    assert second[1:] == ["next", "60.0 ± 0.0", "served: 65.0 ± 0.0", "-5.0 ± 0.0", "10.0 ± 0.0"]
    assert rest == [["mixed", score, "-", "-", "-", "-"] for score in SCORES]


def test_the_conclusion_names_where_auto_is_lower() -> None:
    middles = {"places": 0.02, "mixed": -0.02, "covariate": -0.006, "zephyr": -0.004}
    verdicts = {
        name: tables.verdict(scored([middle] * 3), "flash", SEEDS, "window") for name, middle in middles.items()
    }

    assert tables.conclusion({**verdicts, "static": None}) == [
        "scored: 4 of 5 scenarios; ahead 1, level 0, behind 3",
        "mean above 0: 1 of 4",
        "mean below -0.5 points: mixed, covariate",
        "whole interval below -1 point: mixed",
    ]
    assert tables.conclusion({})[2:] == ["mean below -0.5 points: nowhere", "whole interval below -1 point: nowhere"]


def test_the_table_of_rivals_marks_the_best_of_each_score() -> None:
    found = all_rivals(0.5, 0.6)
    for seed in SEEDS:
        found["ifca", seed] = summary(0.65, 0.55)
        found["local", seed] = summary(0.4, 0.7)
    del found["flexcfl", 4]
    cells = {line[0]: line[1] for line in tables.rival_cells({"places": found}, SEEDS)}

    assert (cells["global"], cells["ifca"], cells["local"]) == ("50.0 / 60.0", "**65.0** / 55.0", "40.0 / **70.0**")
    assert cells["flexcfl"] == "- / -"


def test_the_worst_tenth_stands_beside_that_of_the_best_rival_and_the_share_served_worse() -> None:
    tenths = {AUTO: 0.5, "ifca": 0.4, "local": 0.9, GLOBAL: 0.3}
    found = {(row, seed): summary(0.5, worst_decile_served=tenth) for row, tenth in tenths.items() for seed in SEEDS}
    bests = {"places": {"window": "ifca", "next": "local"}}
    _, places, mixed = tables.fairness_cells(
        {"places": found, "mixed": {}},
        bests,
        {"places": SEEDS, "mixed": SEEDS},
        {"places": [(0.1, 0.0), (0.2, 0.0), (0.3, 0.0)], "mixed": []},
    )

    assert places == ["places", "50.0 ± 0.0", "ifca: 40.0 ± 0.0", "30.0 ± 0.0", "20.0 ± 24.8", "0.0 ± 0.0"]
    assert mixed == ["mixed", "-", "-", "-", "-", "-"]


def test_costs_are_means_over_the_seeds_and_a_rival_is_not_shown_twice() -> None:
    found: dict[tuple[str, int], dict[str, Json]] = {
        (AUTO, seed): summary(0.5, bytes_up=seed * 1e6, bytes_down=2e6, client_seconds=7200.0, n_reports=seed)
        for seed in SEEDS
    }
    found |= {(GLOBAL, seed): summary(0.5, bytes_up=3e6, bytes_down=1e6) for seed in SEEDS}
    lines = tables.cost_cells({"places": found}, {"places": {"window": "global", "next": "local"}}, {"places": SEEDS})

    assert [line[1] for line in lines[1:]] == [AUTO, "global", "flash", "local"]
    assert lines[1][2:] == ["5.0", "2.0", "2.0", "-", "5", "-", "-", "1.75"]
    assert (lines[2][-1], lines[4][-1]) == ("1.00", "-")


def test_a_part_switched_off_is_held_against_auto_by_both_scores() -> None:
    found: dict[tuple[str, int], dict[str, Json]] = {(AUTO, seed): summary(0.8, 0.7) for seed in SEEDS}
    found |= {
        ("auto, no guard", seed): summary(value, 0.65) for seed, value in zip(SEEDS, (0.82, 0.81, 0.8), strict=True)
    }
    cells = {line[0]: line[1] for line in tables.part_cells({"places": found}, SEEDS)}

    assert cells[AUTO] == "80.0 / 70.0"
    assert cells["auto, no guard"] == "+1.0 / -5.0"
    assert cells["auto, without heads"] == "- / -"


def leave_tests(folder: Path, served: list[list[int]], correct: list[list[int]]) -> None:
    """Leave a run of four rounds behind, tested after each, of which the last two count; bob has no sample in one."""
    folder.mkdir()
    (folder / MANIFEST).write_text(json.dumps({"config": {"rounds": 4}}))
    rounds = [{"round": at, "time_s": 60.0 * at, "accuracy": 0.5, "n_clusters": 1} for at in range(4)]
    (folder / ROUNDS).write_text("".join(json.dumps(row) + "\n" for row in rounds))
    tests = [
        {
            "round": at,
            "client": ["ann", "bob", "cat"],
            "cluster": [0, 0, 0],
            "n_test": [100, 0 if at == 2 else 100, 100],
            "correct": correct[at],
            "served": served[at],
        }
        for at in range(4)
    ]
    (folder / CLIENTS).write_text("".join(json.dumps(row) + "\n" for row in tests))


def test_a_client_is_served_worse_if_the_plain_model_is_more_than_a_point_better_at_the_end(tmp_path: Path) -> None:
    never, right = [0, 0, 0], [100, 100, 100]
    leave_tests(tmp_path / "auto", [never, never, [50, 0, 50], [52, 70, 50]], [right] * 4)
    leave_tests(tmp_path / "plain", [never] * 4, [right, right, [52, 0, 52], [54, 71, 50]])
    served = final_counts(tmp_path / "auto", "served")

    assert {client: counts.tolist() for client, counts in served.items()} == {
        "ann": [102, 200],
        "bob": [70, 100],
        "cat": [100, 200],
    }
    assert final_counts(tmp_path / "plain", "")["ann"].tolist() == [106, 200]
    assert share_worse(tmp_path / "auto", tmp_path / "plain") == pytest.approx((1 / 3, 0.0))


def test_a_lack_of_two_standard_errors_is_clear(tmp_path: Path) -> None:
    never = [0, 0, 0]
    # Of 200 samples at a share of about a half a standard error is 5 points, at 100 samples 7.
    leave_tests(tmp_path / "auto", [never, never, [45, 0, 45], [45, 45, 45]], [never] * 4)
    leave_tests(tmp_path / "plain", [never] * 4, [never, never, [55, 0, 54], [56, 58, 54]])

    assert share_worse(tmp_path / "auto", tmp_path / "plain") == pytest.approx((1.0, 1 / 3))


def test_reports_and_answers_to_the_guard_both_break_the_silence() -> None:
    traffic = Traffic(n_client_rounds=1000, n_reports=7, n_joins=5, most_judged=2, beside_bytes=4000)
    _, static, places = tables.traffic_cells({"static": [traffic, traffic], "places": []})

    assert traffic.silent_share == pytest.approx(0.991)
    assert static == ["static", "2000", "14", "10", "4", "8", "99.10 %"]
    assert places == ["places", *["-"] * 6]


def test_a_guard_is_counted_by_the_times_that_it_asked_whatever_its_verdicts_still_count_for() -> None:
    notes: list[dict[str, Json]] = [{"guard": {"n_judged": 10}}, {"fired": True}, {"guard": {"n_judged": 15}}]

    assert most_judged(notes) == 2 * MOST_JUDGES
    assert most_judged([{"started": True}]) == 0


def test_a_run_is_timed_told_of_its_traffic_and_not_done_again(tmp_path: Path) -> None:
    ((name, config),) = runs([TINY], [AUTO], [11]).items()
    done = timed_run(name, config_table(config), tmp_path)
    before = wall_file(tmp_path, name).read_text()
    told: list[Finished] = []
    again = run_all({name: config}, tmp_path, n_jobs=1, on_done=told.append)
    traffic = traffic_of(tmp_path / name)

    assert done.error is None
    assert figures({(AUTO, 11): done.summary or {}}, AUTO, [11], SCORES["window"]) is not None
    assert [one.name for one in told] == [name] == ["tiny/auto-11"]
    assert again[name].summary == json.loads((tmp_path / name / "summary.json").read_text())
    assert wall_file(tmp_path, name).read_text() == before
    assert wall_seconds(tmp_path, name) is not None
    assert traffic.n_client_rounds == 64
    assert traffic.n_joins == 8 <= traffic.n_reports
    assert traffic.beside_bytes > 0


def test_a_folder_with_a_run_of_another_config_is_named_and_a_stopped_run_has_no_time(tmp_path: Path) -> None:
    ((name, config),) = runs([TINY], ["global"], [11]).items()
    (tmp_path / name).mkdir(parents=True)
    timed_run(name, config_table(config), tmp_path)  # into a folder that was there before, as after a stop
    ((_, other),) = runs([TINY], ["flash"], [11]).items()
    found = stored_run(name, other, tmp_path)

    assert wall_seconds(tmp_path, name) is None
    assert found is not None
    assert found.summary is None
    assert "holds another run" in str(found.error)
    assert stored_run("tiny/none-1", config, tmp_path) is None


def test_the_best_rivals_are_chosen_scored_and_told_from_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beyond, "ALL", {"tiny": TINY})
    for row in RIVALS:
        for seed in CHOOSING:
            folder = tmp_path / "tiny" / run_name(row, seed)
            folder.mkdir(parents=True)  # without a manifest it cannot be told from another run
            best = summary(0.9 if row == "ifca" else 0.5, 0.8 if row == "local" else 0.4)
            (folder / "summary.json").write_text(json.dumps(best))
    asked: list[list[str]] = []
    monkeypatch.setattr(beyond, "run_all", lambda configs, *_args, **_options: asked.append(list(configs)))
    for command in ("rivals", "score", "table"):
        monkeypatch.setattr(sys, "argv", ["beyond", command, "--out", str(tmp_path), "--scenarios", "tiny"])
        beyond.main()
    told = capsys.readouterr().out
    chosen = read_choice(tmp_path / "chosen.json")

    assert "tiny: ifca (window), local (next)" in told
    assert [len(names) for names in asked] == [13, 5 * 5]
    assert asked[1][:5] == ["tiny/auto-4", "tiny/global-4", "tiny/flash-4", "tiny/ifca-4", "tiny/local-4"]
    assert "| ifca | **90.0** / 40.0 |" in told
    assert isinstance(chosen["tiny"], dict)
    assert chosen["tiny"]["next"] == {
        "rival": "local",
        "mean": pytest.approx(0.8),
        "seeds": [1],
        "means": {rival: pytest.approx(0.8 if rival == "local" else 0.4) for rival in RIVALS},
    }


def test_tables_of_whole_runs_tell_of_traffic_and_of_clients_served_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beyond, "ALL", {"tiny": TINY})
    for name, config in runs([TINY], [AUTO, GLOBAL], [4]).items():
        assert timed_run(name, config_table(config), tmp_path).error is None
    told = "\n".join(beyond.whole_table(["tiny"], tmp_path))

    shares = share_worse(tmp_path / "tiny" / "auto-4", tmp_path / "tiny" / "global-4")
    assert f"| tiny | - | - | - | {100 * shares[0]:.1f} | {100 * shares[1]:.1f} |" in told
    (row,) = [line for line in told.splitlines() if line.startswith("| tiny | next |")]
    assert row.count("±") == 0  # of a single seed
    alone = experts_alone(tmp_path / "tiny" / "auto-4")["next"]
    assert f"{max(alone, key=alone.__getitem__)}: {100 * max(alone.values()):.1f}" in row
    assert "| tiny | 64 |" in told


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], SCENARIOS),
        (["--traces", "unseen"], ["flights", "summer-time", "cifar-places", "dirichlet"]),
        (["--traces", "all"], [*SCENARIOS, *UNSEEN]),
        (["--scenarios", "flights,static"], ["flights", "static"]),
    ],
)
def test_scenarios_are_taken_by_set_or_by_name(
    options: list[str], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(beyond, "choose", lambda chosen, *_args: asked.extend(chosen))
    monkeypatch.setattr(sys, "argv", ["beyond", "rivals", *options])
    beyond.main()

    assert asked == list(names)


def test_an_unknown_scenario_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["beyond", "table", "--scenarios", "static,nowhere"])

    with pytest.raises(SystemExit, match="there is no scenario nowhere"):
        beyond.main()


def test_ditto_draws_models_of_ones_own_towards_the_one_for_all() -> None:
    apart = []
    for pull in (0.0, 10.0):
        table = merged(
            config_table(config_of(TINY, "ditto", 3)), {"method": {"pull": pull}, "training": {"local_steps": 20}}
        )
        checkpoint = run(table).checkpoint
        own = np.unique(checkpoint.membership[checkpoint.membership > 0])
        assert own.size >= 6, "who took part has a model of its own"
        apart.append(np.linalg.norm(checkpoint.models[own] - checkpoint.models[0], axis=1).mean())

    assert apart[1] < 0.7 * apart[0]


def test_ditto_goes_on_after_a_stop_to_the_same_bytes(tmp_path: Path) -> None:
    table = config_table(config_of(TINY, "ditto", 3))
    whole = run(table)
    run(table, tmp_path / "run", watch=lambda row: row["round"] != 3, page=False)
    again = run(table, tmp_path / "run", start=Start(resume=True), page=False)

    assert np.array_equal(whole.checkpoint.models, again.checkpoint.models)


def test_an_own_head_learns_what_the_model_for_all_gets_wrong_and_is_judged_out_of_fold() -> None:
    rng = np.random.default_rng(5)
    features, labels = rng.normal(size=(2, 90, 6)), rng.integers(0, 3, (2, 90))
    labels[0] = np.argmax(features[0, :, :3], axis=1)  # which scores of zeros do not tell; the other client: noise
    window = Window(
        features=features[:, :60],
        scores=np.zeros((2, 1, 60, 3)),
        offsets=np.zeros((2, 1, 1, 3)),
        waves=features[:, :60],
        labels=labels[:, :60],
        is_sample=np.ones((2, 60), dtype=np.bool_),
        past=np.zeros((2, 6, 9)),
    )
    asked = Seen(
        features=features[:, 60:],
        scores=np.zeros((2, 1, 30, 3)),
        offsets=np.zeros((2, 1, 1, 3)),
        waves=features[:, 60:],
    )
    said = own_head(window, asked, served(window, asked))

    right = [
        (one.argmax(axis=2) == truth).mean(axis=1)
        for one, truth in zip(said, (labels[:, :60], labels[:, 60:]), strict=True)
    ]
    assert min(right[0][0], right[1][0]) > 0.7
    assert right[0][1] < 0.6, "labels that mean nothing cannot be told out of fold"


@pytest.mark.slow
def test_networks_of_torch_are_run_on_some_rows_and_told_beside_auto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    tiny = replace(TINY, model={"name": "cnn"}, training={**TINY.training, "trainer": "torch"}, every=2)
    monkeypatch.setattr(beyond, "ALL", {"tiny": tiny})
    monkeypatch.setattr(beyond, "TORCH", {"tiny": tiny})
    monkeypatch.setattr(beyond, "SIX", (AUTO, GLOBAL))
    monkeypatch.setattr(beyond, "scoring_seeds", lambda _scenario: (4, 5))
    monkeypatch.setattr(sys, "argv", ["beyond", "torch", "--out", str(tmp_path), "--jobs", "1"])
    beyond.main()

    told = capsys.readouterr().out
    assert "### Served, window" in told
    assert re.search(r"\| tiny \| \d+\.\d ± \d+\.\d \| \d+\.\d ± \d+\.\d \([+-]\d+\.\d ± \d+\.\d\) \|", told)


def test_neighbours_say_the_labels_of_near_samples_of_other_stretches() -> None:
    n = 20
    places = np.repeat([0.0, 5.0], n // 2)[np.newaxis, :, np.newaxis] + 0.01 * np.arange(n)[np.newaxis, :, np.newaxis]
    labels = np.repeat([0, 1], n // 2)[np.newaxis]
    scores, none = np.zeros((1, 1, n, 2)), np.zeros((1, 1, 1, 2))
    window = Window(
        features=places,
        scores=scores,
        offsets=none,
        waves=np.zeros((1, n, 0)),
        labels=labels,
        is_sample=np.ones((1, n), dtype=np.bool_),
        past=np.zeros((1, 0, 0)),
    )
    asked = Seen(features=places[:, [2, 17]], scores=scores[:, :, :2], offsets=none, waves=np.zeros((1, 2, 0)))
    said = neighbours(window, asked, served(window, asked))
    alone = replace(window, labels=np.where(window.folds == 0, 1 - labels, labels))
    held_out = neighbours(alone, asked, served(window, asked)).held_out

    assert said.asked[0].argmax(axis=1).tolist() == [0, 1]
    assert (said.asked[0].max(axis=1) > 0.9).all()
    assert (held_out[0, :4, 0] > 0.5).all(), "labels of its own stretch do not count for a sample"
    np.testing.assert_allclose(said.asked.sum(axis=2), 1.0)
