import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fielding.records.plan import Plan, Variant, write_failure, write_plan
from fielding.reporting.numbers.comparison import ALWAYS, compare_groups
from fielding.reporting.numbers.groups import gather_runs
from tests.reporting.run_folders import compared, round_rows, run_folder

OURS = {1: [0.25, 0.5, 0.75, 0.75], 2: [0.75, 0.25, 0.75, 0.25], 3: [0.5, 0.5, 0.875, 0.875]}
THEIRS = {1: [0.0, 0.0, 0.25, 0.25], 2: [0.0, 0.5, 0.25, 0.75], 3: [0.25, 0.5, 0.5, 0.5]}


def summary_of(folder: Path) -> Any:
    """Return the summary as it comes out of a file."""
    return json.loads(json.dumps(compare_groups(gather_runs([folder])), allow_nan=False))


@pytest.fixture
def summary(tmp_path: Path) -> Any:
    return summary_of(compared(tmp_path, {"fielding": OURS, "global": THEIRS}))


def test_every_figure_is_a_mean_over_seeds_with_its_interval(summary: Any) -> None:
    found = summary["methods"]["fielding"]["final_accuracy"]

    finals = [0.75, 0.5, 0.875]  # the second half of the rounds
    assert found["per_seed"] == finals
    assert found["mean"] == pytest.approx(np.mean(finals))
    low, high = stats.t.interval(0.95, 2, np.mean(finals), stats.sem(finals))
    assert high > 1.0
    assert found["ci95"] == pytest.approx((low, 1.0)), "no share is above 1"
    assert summary["methods"]["fielding"]["worst_decile"]["per_seed"] == [value / 2 for value in finals]
    assert summary["methods"]["fielding"]["bytes_down"]["mean"] == 4000.0
    assert summary["seeds"] == [1, 2, 3]


def test_no_interval_of_a_share_leaves_0_and_1_and_none_of_an_amount_falls_below_0(summary: Any) -> None:
    for figures in summary["methods"].values():
        for name in ("final_accuracy", "worst_decile", "final_next_accuracy", "bytes_up", "time_s"):
            low, high = figures[name]["ci95"] or (0.0, 1.0)
            assert low >= 0.0, name
            assert high <= 1.0 or name in ("bytes_up", "time_s"), name


def test_both_differences_stand_side_by_side_also_for_runs_of_an_older_version(tmp_path: Path) -> None:
    for method, levels in {"fielding": (0.5, 0.75, 0.625), "global": (0.5, 0.5, 0.5)}.items():
        for seed, level in enumerate(levels, 1):
            # An older version called the score on the next interval prequential.
            rows = round_rows([0.25, 0.5, 0.5, 0.5], prequential_accuracy=[level] * 4)
            run_folder(tmp_path / f"{method}-{seed}", rows, method=method, seed=seed)

    ours = summary_of(tmp_path)["methods"]["fielding"]

    assert ours["final_next_accuracy"]["per_seed"] == [0.5, 0.75, 0.625]
    assert ours["difference"]["per_seed"] == [0.0, 0.0, 0.0]
    assert ours["next_difference"]["per_seed"] == [0.0, 0.25, 0.125]
    assert {"ci95", "p_holm"} <= ours["next_difference"].keys()
    assert summary_of(tmp_path)["methods"]["global"]["next_difference"] is None


def test_the_figures_that_users_rely_on_are_always_there(summary: Any) -> None:
    for figures in summary["methods"].values():
        assert list(figures)[: len(ALWAYS) + 1] == ["n_seeds", *ALWAYS]
        assert all({"mean", "ci95", "per_seed"} <= set(figures[name]) for name in ALWAYS)
    assert summary["methods"]["global"]["final_accuracy_corrected"]["per_seed"] == [None, None, None]


def test_differences_are_taken_and_tested_seed_by_seed(summary: Any) -> None:
    found = summary["paired"]["fielding"]["final_accuracy"]

    assert summary["reference"] == "global"
    assert set(summary["paired"]) == {"fielding"}
    assert found["per_seed"] == [0.75 - 0.25, 0.5 - 0.5, 0.875 - 0.5]
    assert found["p"] == pytest.approx(stats.ttest_rel([0.75, 0.5, 0.875], [0.25, 0.5, 0.5]).pvalue)
    assert found["p_holm"] == found["p"]
    assert found["n_seeds"] == 3


def test_p_values_are_adjusted_for_the_number_of_methods(tmp_path: Path) -> None:
    same = {"fielding": OURS, "ifca": OURS, "global": THEIRS}

    found = summary_of(compared(tmp_path, same))["paired"]["ifca"]["final_accuracy"]

    assert found["p_holm"] == pytest.approx(2 * found["p"])


def test_the_target_is_the_global_models_accuracy_on_the_same_seed(summary: Any) -> None:
    assert summary["target_of"] == "global"
    assert summary["target_accuracy"]["per_seed"] == [0.25, 0.5, 0.5]
    ours, theirs = (summary["methods"][name] for name in ("fielding", "global"))
    # On seed 2 Fielding ends below 0.5; the global model's curve of seed 1 comes to stay in round 3.
    assert ours["rounds_to_target"]["per_seed"] == [1.0, None, 1.0]
    assert theirs["rounds_to_target"]["per_seed"] == [3.0, 4.0, 2.0]
    assert ours["time_to_target_s"]["mean"] == 60.0
    assert ours["rounds_to_first_crossing"]["per_seed"] == [1.0, 1.0, 1.0]


def test_speedup_is_over_the_seeds_on_which_both_got_there(summary: Any) -> None:
    found = summary["methods"]["fielding"]["speedup"]

    assert found["per_seed"] == [3.0, None, 2.0]
    assert found["mean"] == pytest.approx(6**0.5)
    assert (found["ci95"], found["n_seeds"]) == (None, 2)
    assert summary["methods"]["global"]["speedup"]["mean"] == 1.0


def test_without_a_global_model_the_first_method_is_reference_and_target(tmp_path: Path) -> None:
    found = summary_of(compared(tmp_path, {"feddrift": THEIRS, "ifca": OURS}))

    assert (found["reference"], found["target_of"]) == ("feddrift", "feddrift")
    assert found["target_accuracy"]["per_seed"] == [0.25, 0.5, 0.5]
    assert set(found["paired"]) == {"ifca"}


def test_a_single_method_has_figures_but_nothing_to_be_compared_with(tmp_path: Path) -> None:
    found = summary_of(compared(tmp_path, {"fielding": OURS}))

    assert found["reference"] is found["target_of"] is None
    assert found["paired"] == {}
    assert found["best"]["final_accuracy"]["marked"] == []
    assert found["methods"]["fielding"]["final_accuracy"]["per_seed"] == [0.75, 0.5, 0.875]
    assert found["methods"]["fielding"]["speedup"] == {
        "mean": None, "ci95": None, "per_seed": [None] * 3, "n_seeds": 0,
    }  # fmt: skip


def test_only_seeds_that_both_have_are_paired(tmp_path: Path) -> None:
    found = summary_of(compared(tmp_path, {"fielding": {1: OURS[1], 3: OURS[3]}, "global": THEIRS}))

    ours = found["methods"]["fielding"]
    assert ours["n_seeds"] == 2
    assert ours["final_accuracy"]["per_seed"] == [0.75, None, 0.875]
    assert found["paired"]["fielding"]["final_accuracy"]["per_seed"] == [0.5, None, 0.375]
    assert found["paired"]["fielding"]["final_accuracy"]["n_seeds"] == 2
    assert found["methods"]["global"]["n_seeds"] == 3


def test_a_seed_without_a_target_has_no_time_to_it(tmp_path: Path) -> None:
    found = summary_of(compared(tmp_path, {"fielding": OURS, "global": {1: THEIRS[1], 3: THEIRS[3]}}))

    assert found["target_accuracy"]["per_seed"] == [0.25, None, 0.5]
    assert found["methods"]["fielding"]["rounds_to_target"]["per_seed"] == [1.0, None, 1.0]


def test_runs_that_are_not_finished_do_not_count_and_are_named(tmp_path: Path) -> None:
    compared(tmp_path, {"fielding": {1: OURS[1]}, "global": {1: THEIRS[1], 2: THEIRS[2]}})
    stopped = run_folder(tmp_path / "fielding-2", round_rows([0.9] * 4), seed=2, finished=False)
    failed = run_folder(tmp_path / "fielding-3", round_rows([0.9] * 4), seed=3, finished=False)
    write_failure(failed, "the disk is full")

    found = summary_of(tmp_path)

    assert stopped.exists()
    assert found["methods"]["fielding"]["final_accuracy"]["per_seed"] == [0.75, None, None]
    assert found["failed"] == [{"method": "fielding", "seed": 3, "error": "the disk is full"}]
    assert found["unfinished"] == [{"method": "fielding", "seed": 2, "state": "stopped"}]


def test_a_variant_without_any_finished_run_appears_with_nulls(tmp_path: Path) -> None:
    names = ("global", "fielding tau=1/6")
    variants = tuple(Variant(name=name, folder=name.split()[0], settings={}) for name in names)
    write_plan(tmp_path, Plan(config={}, variants=variants, seeds=(1, 2), reference="global"))
    compared(tmp_path, {"global": {1: THEIRS[1], 2: THEIRS[2]}})
    (tmp_path / "fielding-1").mkdir()
    write_failure(tmp_path / "fielding-1", "no such model")

    found = summary_of(tmp_path)

    ours = found["methods"]["fielding tau=1/6"]
    assert ours["n_seeds"] == 0
    assert all(ours[name]["mean"] is None and ours[name]["per_seed"] == [None, None] for name in ALWAYS)
    assert found["paired"]["fielding tau=1/6"]["final_accuracy"]["p"] is None
    assert found["failed"] == [{"method": "fielding tau=1/6", "seed": 1, "error": "no such model"}]
    assert found["unfinished"] == [{"method": "fielding tau=1/6", "seed": 2, "state": "waiting"}]


def test_a_damaged_run_leaves_no_number_that_json_does_not_know(tmp_path: Path) -> None:
    rows = round_rows([0.5, float("nan"), 0.5, float("inf")])
    for method in ("fielding", "global", "oracle"):
        run_folder(tmp_path / f"{method}-1", rows, method=method)

    found = summary_of(tmp_path)

    # No run writes such numbers: the lines are damaged and left out, and the report says so.
    assert found["methods"]["fielding"]["final_accuracy"]["per_seed"] == [0.5]
    assert found["methods"]["fielding"]["dynamic_regret"]["per_seed"] == [0.0]


def test_regret_is_what_is_lost_against_the_oracle_of_the_same_seed(tmp_path: Path) -> None:
    oracle = {1: [0.5, 1.0, 1.0, 1.0], 3: [1.0] * 4}

    found = summary_of(compared(tmp_path, {"fielding": OURS, "global": THEIRS, "oracle": oracle}))

    assert found["methods"]["fielding"]["dynamic_regret"]["per_seed"] == [0.3125, None, 0.3125]
    assert found["methods"]["oracle"]["dynamic_regret"]["per_seed"] == [0.0, None, 0.0]


def test_the_oracle_is_no_rival_but_others_are_marked_if_someone_is_clearly_worse(tmp_path: Path) -> None:
    levels = {"oracle": (0.9, 0.9, 0.9), "fielding": (0.7, 0.81, 0.75), "global": (0.5, 0.6, 0.55)}
    curves = {name: {seed: [one] * 4 for seed, one in enumerate(mine, 1)} for name, mine in levels.items()}

    found = summary_of(compared(tmp_path, curves))

    assert found["best"]["final_accuracy"] == {"marked": ["fielding"], "winner": "fielding", "worse": ["global"]}


def test_corrected_models_are_compared_where_both_have_them(tmp_path: Path) -> None:
    for method, corrected in (("fielding", 0.75), ("global", 0.625), ("ifca", None)):
        rows = round_rows([0.5] * 4, **({} if corrected is None else {"corrected_accuracy": [corrected] * 4}))
        run_folder(tmp_path / f"{method}-1", rows, method=method)

    found = summary_of(tmp_path)

    assert found["paired"]["fielding"]["final_accuracy_corrected"]["mean"] == 0.125
    assert found["paired"]["ifca"]["final_accuracy_corrected"]["mean"] is None
    assert found["methods"]["ifca"]["final_accuracy_corrected"]["mean"] is None


def test_only_timings_depend_on_the_machine(tmp_path: Path) -> None:
    for name, seconds in (("slow", 9.0), ("fast", 1.0)):
        lines = [{"round": 0, "adapt": seconds, "whole": seconds, "peak_bytes": int(seconds)}]
        run_folder(tmp_path / name / "fielding-1", round_rows([0.5]), logs={"timings": lines})

    slow, fast = (summary_of(tmp_path / name) for name in ("slow", "fast"))

    assert slow.pop("timings")["fielding"]["wall_s"]["mean"] == 9.0
    assert fast.pop("timings")["fielding"]["wall_s"]["mean"] == 1.0
    assert slow == fast


def planned(folder: Path, variants: dict[str, dict[str, Any]], *, reference: str, seeds: tuple[int, ...]) -> Path:
    """Write the plan of variants whose folders have their names."""
    folder.mkdir(exist_ok=True)
    made = tuple(Variant(name=name, folder=name, settings=settings) for name, settings in variants.items())
    write_plan(folder, Plan(config={}, variants=made, seeds=seeds, reference=reference))
    return folder


def test_a_reference_without_a_run_stays_and_nothing_is_known_against_it(tmp_path: Path) -> None:
    names = ("global", "fielding", "static")
    planned(tmp_path, {name: {"method.name": name} for name in names}, reference="global", seeds=(1, 2, 3))
    compared(tmp_path, {"fielding": OURS, "static": THEIRS})

    found = summary_of(tmp_path)

    assert (found["reference"], found["target_of"]) == ("global", "global")
    assert found["target_accuracy"]["mean"] is None
    assert found["paired"]["fielding"]["final_accuracy"]["mean"] is None
    assert found["methods"]["fielding"]["speedup"]["mean"] is None
    assert found["methods"]["fielding"]["n_targets"] == 0
    assert found["notes"] == ["global has no finished run: what is compared with it is not known."]


def test_variants_are_compared_with_the_reference_method_with_the_same_settings(tmp_path: Path) -> None:
    easy, hard = (0.9, 0.91, 0.95), (0.3, 0.32, 0.37)
    levels = {
        "fielding-easy": [one + gain for one, gain in zip(easy, (0.02, 0.021, 0.022), strict=True)],
        "fielding-hard": [one + gain for one, gain in zip(hard, (0.1, 0.101, 0.102), strict=True)],
        "global-easy": easy,
        "global-hard": hard,
    }
    settings = {name: dict(zip(("method.name", "trace.scenario"), name.split("-"), strict=True)) for name in levels}
    planned(tmp_path, settings, reference="global-easy", seeds=(1, 2, 3))
    compared(tmp_path, {name: {at: [one] * 4 for at, one in enumerate(mine, 1)} for name, mine in levels.items()})

    found = summary_of(tmp_path)

    methods, marks = found["methods"], found["best"]["final_accuracy"]
    assert [one["reference"] for one in methods.values()] == ["global-easy", "global-hard", None, None]
    assert methods["fielding-hard"]["target_of"] == "global-hard"
    assert set(found["paired"]) == {"fielding-easy", "fielding-hard"}
    assert found["paired"]["fielding-hard"]["final_accuracy"]["mean"] == pytest.approx(0.101)
    assert methods["fielding-hard"]["rounds_to_target"]["per_seed"] == [1.0, 1.0, 1.0]
    assert marks["marked"] == ["fielding-easy", "fielding-hard"]
    assert marks["within"]["global-hard"]["winner"] == "fielding-hard"
    assert found["target_accuracy"]["per_seed"] == pytest.approx(list(easy))


def test_each_variant_of_the_oracle_is_the_oracle_of_its_settings(tmp_path: Path) -> None:
    levels = {"oracle-easy": 1.0, "oracle-hard": 0.75, "ifca-easy": 0.75, "ifca-hard": 0.25}
    settings = {name: dict(zip(("method.name", "trace.scenario"), name.split("-"), strict=True)) for name in levels}
    planned(tmp_path, settings, reference="ifca-easy", seeds=(1,))
    compared(tmp_path, {name: {1: [level] * 4} for name, level in levels.items()})

    found = summary_of(tmp_path)["methods"]

    assert found["ifca-easy"]["dynamic_regret"]["mean"] == 0.25
    assert found["ifca-hard"]["dynamic_regret"]["mean"] == 0.5


def test_a_run_on_other_data_does_not_count(tmp_path: Path) -> None:
    compared(tmp_path, {"fielding": OURS, "global": THEIRS})
    for name, digest in (("fielding-1", "new"), ("global-1", "old")):
        path = tmp_path / name / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "data_blake2b": digest}))

    found = summary_of(tmp_path)

    assert found["methods"]["fielding"]["final_accuracy"]["per_seed"][0] is None
    assert found["paired"]["fielding"]["final_accuracy"]["n_seeds"] == 2
    (failed,) = found["failed"]
    assert (failed["method"], failed["seed"]) == ("fielding", 1)
    assert "made on other data than global" in failed["error"]
    assert found["notes"] == ["Runs that do not count since they were made on other data than the others: 1."]


def test_runs_of_several_versions_are_told(tmp_path: Path) -> None:
    compared(tmp_path, {"fielding": OURS, "global": THEIRS})
    path = tmp_path / "global-2" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fielding": "0.9"}))

    (note,) = summary_of(tmp_path)["notes"]

    assert "several versions of Fielding (0, 0.9)" in note


def test_a_finished_run_that_a_comparison_refused_does_not_count(tmp_path: Path) -> None:
    compared(tmp_path, {"fielding": OURS, "global": THEIRS})
    write_failure(tmp_path / "fielding-2", "the folder holds another run")

    found = summary_of(tmp_path)

    assert found["methods"]["fielding"]["n_seeds"] == 2
    assert found["failed"] == [{"method": "fielding", "seed": 2, "error": "the folder holds another run"}]


def test_seeds_without_a_target_are_not_counted_as_missed(tmp_path: Path) -> None:
    found = summary_of(compared(tmp_path, {"fielding": OURS, "global": {1: THEIRS[1], 3: THEIRS[3]}}))
    untested = summary_of(compared(tmp_path / "untested", {"fielding": {1: [None] * 4}, "global": {1: [None] * 4}}))

    assert found["methods"]["fielding"]["n_targets"] == 2
    assert untested["methods"]["fielding"]["n_targets"] == 0


def test_a_run_without_a_manifest_is_of_the_seed_that_the_plan_says(tmp_path: Path) -> None:
    names = ("fielding", "global")
    planned(tmp_path, {name: {"method.name": name} for name in names}, reference="global", seeds=(1, 2))
    compared(tmp_path, {"fielding": {1: OURS[1], 2: OURS[2]}, "global": {1: THEIRS[1], 2: THEIRS[2]}})
    (tmp_path / "fielding-2" / "manifest.json").unlink()

    found = summary_of(tmp_path)

    assert found["seeds"] == [1, 2]
    assert found["paired"]["fielding"]["final_accuracy"]["n_seeds"] == 2
