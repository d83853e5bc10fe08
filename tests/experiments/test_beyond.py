"""What the comparison of ``auto`` with its rivals runs, whom it chooses, and what its tables say."""

import json
import sys
from pathlib import Path

import pytest

from experiments.beyond import __main__ as beyond
from experiments.beyond import tables
from experiments.beyond.choosing import accuracies, best_rival, read_choice, write_choice
from experiments.beyond.rows import AUTO, CHOOSING, PARTS, RIVALS, ROWS, SCORING, TRYING, config_of, run_name, runs
from experiments.beyond.running import run_all, stored_run, timed_run, wall_file, wall_seconds
from experiments.beyond.scenarios import SCENARIOS, Scenario
from experiments.beyond.traffic import Traffic, most_judged, traffic_of
from fielding._typing import Json
from fielding.comparing.sweep import Finished
from fielding.config.reader import config_table
from fielding.methods.guard import MOST_JUDGES

SEEDS = [4, 5, 6]
TINY = Scenario(
    name="tiny",
    trace={"name": "digits", "scenario": "static", "clients": 8, "gap": 1, "window": 2, "held_out": 5},
    training={"participants": 4, "local_steps": 1},
    rounds=2,
    hidden=4,
)


def summary(raw: float, corrected: float | None = None, **figures: Json) -> dict[str, Json]:
    fixed = {} if corrected is None else {"final_accuracy_corrected": corrected}
    return {"final_accuracy": raw, **fixed, **figures}


def everybody(raw: float, corrected: float) -> dict[tuple[str, int], dict[str, Json]]:
    return {(row, seed): summary(raw, corrected) for row in RIVALS for seed in CHOOSING}


def test_there_are_eight_scenarios_and_ten_rivals_that_all_correct_and_hold_out_alike() -> None:
    configs = [config_of(scenario, row, 1) for scenario in SCENARIOS.values() for row in ROWS]

    assert (len(SCENARIOS), len(RIVALS)) == (8, 10)
    assert {config.serving.correction for config in configs} == {"prior"}
    assert {config.trace.held_out for config in configs} == {200}
    assert {config.workers for config in configs} == {1}


def test_seeds_for_choosing_scoring_and_trying_are_other_ones() -> None:
    assert not set(CHOOSING) & set(SCORING)
    assert not set(TRYING) & {*CHOOSING, *SCORING}


def test_nothing_but_the_representation_is_set_for_auto_and_one_part_in_each_ablation() -> None:
    assert PARTS[AUTO] == {"coordinator": {"representation": "auto"}}
    whole, *parts = (config_table(config_of(TINY, part, 11)) for part in PARTS)
    n_changed = [sum(one[name] != whole[name] for name in whole) for one in parts]

    assert n_changed == [1] * len(parts)


def test_every_run_has_a_folder_of_its_own() -> None:
    assert len(runs(SCENARIOS.values(), list(ROWS), CHOOSING)) == 8 * len(ROWS) * 3


def test_the_best_rival_has_the_highest_mean_raw_or_corrected() -> None:
    found = everybody(0.5, 0.6)
    for seed, raw in zip(CHOOSING, (0.7, 0.7, 0.61), strict=True):
        found["gradient", seed] = summary(raw, 0.4)
    best = best_rival(found, CHOOSING)

    assert best is not None
    assert (best.rival, best.how) == ("gradient", "raw")
    assert best.means["gradient"]["raw"] == pytest.approx(0.67)
    assert best.record(CHOOSING)["seeds"] == [1, 2, 3]


def test_ties_go_to_the_earlier_rival_and_whoever_lacks_a_run_is_not_chosen() -> None:
    found = everybody(0.5, 0.6)
    for seed in CHOOSING:
        found["flash", seed] = summary(0.9, 0.9)
        found["local", seed] = summary(1.0, 1.0)
    del found["flash", 2]
    best = best_rival(found, CHOOSING)

    assert best is not None
    assert (best.rival, best.how) == ("global", "corrected")
    assert best.means["flash"] == {"raw": None, "corrected": None}
    assert best_rival({}, CHOOSING) is None


def test_a_choice_of_one_scenario_leaves_those_of_others_alone(tmp_path: Path) -> None:
    path = tmp_path / "chosen.json"
    write_choice(path, {"places": {"rival": "ifca", "how": "raw"}})
    write_choice(path, {"mixed": {"rival": "flash", "how": "corrected"}})

    assert beyond.chosen_rivals(tmp_path) == {"places": ("ifca", "raw"), "mixed": ("flash", "corrected")}
    assert read_choice(tmp_path / "other.json") == {}


def scored(differences: list[float]) -> dict[tuple[str, int], dict[str, Json]]:
    """Return runs in which auto, corrected, is so much better than flash, raw."""
    found = {(AUTO, seed): summary(0.1, 0.8 + one) for seed, one in zip(SEEDS, differences, strict=True)}
    return found | {("flash", seed): summary(0.8, 0.0) for seed in SEEDS}


# By hand: the t quantile of two degrees of freedom is 4.303, so the half width for +-0.01 about a mean is 2.48 points.
@pytest.mark.parametrize(
    ("middle", "word", "is_below", "reaches_below"),
    [
        (0.03, "ahead", False, False),
        (0.02, "level", False, False),
        (-0.02, "level", False, True),
        (-0.03, "behind", False, True),
        (-0.04, "behind", True, True),
    ],
)
def test_a_verdict_is_read_off_the_paired_interval(
    middle: float, word: str, *, is_below: bool, reaches_below: bool
) -> None:
    result = tables.verdict(scored([middle - 0.01, middle, middle + 0.01]), ("flash", "raw"), SEEDS)

    assert result is not None
    assert result.difference.mean == pytest.approx(middle)
    assert result.difference.half_width == pytest.approx(0.02484, abs=1e-5)
    assert (result.word, result.is_below, result.reaches_below) == (word, is_below, reaches_below)


def test_the_table_of_verdicts_holds_auto_corrected_against_the_chosen_way_of_the_rival() -> None:
    found = {"places": scored([0.02, 0.03, 0.04]), "mixed": {}}
    _, places, mixed = tables.verdict_cells(found, {"places": ("flash", "raw")}, SEEDS)

    assert places[:4] == ["places", "flash, raw", "80.0 ± 0.0", "10.0 ± 0.0"]
    assert places[4:] == ["83.0 ± 2.5", "+3.0 ± 2.5", "ahead", "no", "-"]
    assert mixed == ["mixed", "-", "-", "-", "-", "-", "not run", "-", "-"]


def test_the_conclusion_says_what_holds_and_what_does_not() -> None:
    verdicts = {
        name: tables.verdict(scored([middle, middle, middle]), ("flash", "raw"), SEEDS)
        for name, middle in (("places", 0.02), ("mixed", -0.02))
    }
    lines = tables.conclusion({**verdicts, "static": None}, [0.995, 0.98], [30.0, 46.0])

    assert lines[0] == "scored: 2 of 3 scenarios; ahead 1, level 0, behind 1; higher mean on 1"
    assert lines[1:3] == ["whole interval below -1 point: mixed", "interval reaches below -1 point: mixed"]
    assert "98.75 %, at least 98.00 % (FAILS" in lines[3]
    assert lines[4] == "longest run: 46 s (FAILS: at most 45 s)"
    assert tables.conclusion(verdicts, [], [])[3:] == [
        "static, client-rounds that sent nothing: not known",
        "longest run: not known",
    ]


def test_the_table_of_rivals_marks_the_best_of_each_scenario_but_no_reference() -> None:
    found = everybody(0.5, 0.6)
    for seed in CHOOSING:
        found["ifca", seed] = summary(0.65, 0.55)
        found["local", seed] = summary(0.9, 0.9)
    cells = {line[0]: line[1] for line in tables.rival_cells({"places": found}, CHOOSING)}

    assert (cells["global"], cells["ifca"], cells["local"]) == ("50.0 / 60.0", "**65.0** / 55.0", "90.0 / 90.0")


def test_costs_are_means_over_the_seeds_and_a_rival_is_not_shown_twice() -> None:
    found: dict[tuple[str, int], dict[str, Json]] = {
        (AUTO, seed): summary(0.5, bytes_up=seed * 1e6, bytes_down=2e6, client_seconds=7200.0, n_reports=seed)
        for seed in SEEDS
    }
    lines = tables.cost_cells({"places": found}, {"places": ("global", "corrected")}, SEEDS)

    assert [line[1] for line in lines[1:]] == [AUTO, "global"]
    assert lines[1][2:] == ["5.0", "2.0", "2.0", "-", "5", "-", "-"]


def test_a_part_switched_off_is_held_against_auto_and_no_correction_is_its_raw_accuracy() -> None:
    found: dict[tuple[str, int], dict[str, Json]] = {(AUTO, seed): summary(0.7, 0.8) for seed in TRYING}
    found |= {("auto, no guard", seed): summary(0.0, value) for seed, value in zip(TRYING, (0.82, 0.81), strict=True)}
    cells = {line[0]: line[1] for line in tables.part_cells({"places": found}, TRYING)}

    assert cells[AUTO] == "80.0 ± 0.0"
    assert cells["auto, not corrected"] == "-10.0 (-10.0, -10.0)"
    assert cells["auto, no guard"] == "+1.5 (+2.0, +1.0)"
    assert cells["auto, every change is reported"] == "-"


def test_reports_and_answers_to_the_guard_both_break_the_silence() -> None:
    traffic = Traffic(n_client_rounds=1000, n_reports=7, n_joins=5, most_judged=2, beside_bytes=4000)
    _, static, places = tables.traffic_cells({"static": {4: traffic, 5: traffic}, "places": {}})

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
    assert accuracies({(AUTO, 11): done.summary or {}}, AUTO, [11], "corrected") is not None
    assert [one.name for one in told] == [name] == ["tiny/auto-11"]
    assert again[name].summary == json.loads((tmp_path / name / "summary.json").read_text())
    assert wall_file(tmp_path, name).read_text() == before
    assert wall_seconds(tmp_path, name) is not None
    assert traffic.n_client_rounds == 16
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


def test_the_best_rival_is_chosen_scored_and_told_from_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(beyond, "SCENARIOS", {"tiny": TINY})
    for row in RIVALS:
        for seed in CHOOSING:
            stored(tmp_path / "tiny" / run_name(row, seed), 0.9 if row == "ifca" else 0.5)
    stored(tmp_path / "tiny" / run_name("local", 1), 1.0)
    asked: list[list[str]] = []
    monkeypatch.setattr(beyond, "run_all", lambda configs, *_args, **_options: asked.append(list(configs)))
    for command in ("rivals", "score", "table"):
        monkeypatch.setattr(sys, "argv", ["beyond", command, "--out", str(tmp_path)])
        beyond.main()
    told = capsys.readouterr().out

    assert "tiny: ifca, corrected" in told
    assert [len(names) for names in asked] == [3 * 10 + 1, 3 * 5]
    assert asked[1][:3] == ["tiny/auto-4", "tiny/ifca-4", "tiny/global-4"]
    assert "| ifca | 89.0 / **90.0** |" in told


def stored(folder: Path, corrected: float) -> None:
    """Leave a run behind that came to its end; without a manifest nobody can say that it is another one."""
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(summary(corrected - 0.01, corrected)))
