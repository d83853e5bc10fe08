"""The sentence that a page opens with, and the charts that carry it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fielding import compare
from fielding._typing import Json
from fielding.reporting.comparison_tables import named_records
from fielding.reporting.headline import choose_subject, draw_highlights, write_sentence
from fielding.reporting.report_page import read_report
from tests.comparing.forked import forked_runs as forked_runs
from tests.reporting.run_folders import compared, round_rows, run_folder

pytestmark = pytest.mark.usefixtures("forked_runs")
LOW = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
SEEDS = (0.0, 0.01, 0.02, 0.03, 0.04)


def curve(level: float, n: int = 6) -> list[float]:
    return [level] * n


def sentence_of(*folders: Path) -> str:
    return write_sentence(*read_report(folders))


def methods(folder: Path, gains: Mapping[str, Sequence[float]], **more: Any) -> Path:
    """Write runs of six rounds at a level of accuracy for each seed."""
    for method, levels in gains.items():
        for seed, level in enumerate(levels, start=1):
            rows = round_rows(curve(level), **more.get(method, {}))
            run_folder(folder / f"{method}-{seed}", rows, method=method, seed=seed)
    return folder


def test_a_clear_gain_is_told_in_points_with_its_p_value_and_the_bytes(tmp_path: Path) -> None:
    theirs = [0.8 + one for one in SEEDS]
    ours = [0.827, 0.838, 0.846, 0.857, 0.867]
    folder = methods(
        tmp_path, {"global": theirs, "fielding": ours}, fielding={"bytes_down": [900] * 6, "bytes_up": [480] * 6}
    )

    # 1,380 bytes a round instead of 1,500.
    assert sentence_of(folder) == (
        "fielding +2.7 points over one model on the window, clear (p < 0.001), with 8 % fewer bytes."
    )


def test_a_loss_on_the_next_interval_is_told_with_the_gain_on_the_window(tmp_path: Path) -> None:
    folder = methods(
        tmp_path, {"global": [0.5, 0.5, 0.5], "fielding": [0.6, 0.61, 0.62]},
        **{"global": {"next_accuracy": [0.5] * 6}, "fielding": {"next_accuracy": [0.4] * 6}},
    )  # fmt: skip

    said = sentence_of(folder)

    assert said.startswith(
        "fielding +11.0 points over one model on the window, clear (p = 0.003), but -10.0 on the next"
    )
    assert said.endswith("with as many bytes.")


def test_a_gain_that_seeds_do_not_show_is_not_clear_and_one_seed_is_not_tested(tmp_path: Path) -> None:
    unclear = methods(tmp_path / "a", {"global": [0.5, 0.5, 0.5], "fielding": [0.4, 0.7, 0.52]})
    alone = methods(tmp_path / "b", {"global": [0.5], "fielding": [0.6]})

    assert "not clear (p = 0.69)" in sentence_of(unclear)
    assert sentence_of(alone) == (
        "fielding +10.0 points over one model on the window (one seed, not tested), with as many bytes."
    )


def test_another_method_that_is_higher_is_named(tmp_path: Path) -> None:
    folder = methods(tmp_path, {"global": [0.5], "fielding": [0.6], "ifca": [0.65], "oracle": [0.9]})

    assert sentence_of(folder).endswith("; ifca is higher (+15.0).")
    runs, summary = read_report([folder])
    assert choose_subject(runs, summary) == "fielding"


def test_without_fielding_the_sentence_is_about_the_best_method_but_the_oracle(tmp_path: Path) -> None:
    runs, summary = read_report([methods(tmp_path, {"global": [0.5], "ifca": [0.65], "cfl": [0.6], "oracle": [0.9]})])

    assert choose_subject(runs, summary) == "ifca"


def test_of_several_variants_the_best_is_told_to_be_the_best_of_so_many(tmp_path: Path) -> None:
    levels = {"global": [0.5], "ifca": [0.55], "cfl": [0.6]}

    assert sentence_of(methods(tmp_path, levels)).startswith("cfl, the best of 2, +10.0 points over one model")


def test_the_best_of_ours_is_told_also_where_it_has_a_reference_of_its_own(tmp_path: Path) -> None:
    trace = {"clients": 8, "samples": 40, "gap": 4, "window": 4}
    config: dict[str, Any] = {"preset": "paper", "rounds": 4, "trace": trace, "training": {"participants": 8}}
    axes: dict[str, list[float]] = {"training.learning_rate": [1e-6, 0.1]}
    compare(config, ["fielding", "global"], vary=axes, seeds=1, out=tmp_path / "runs", progress=False)
    runs, summary = read_report([tmp_path / "runs"])
    told: dict[str, Any] = named_records(summary, "paired")
    gains = {name: float(one["final_accuracy"]["mean"]) for name, one in told.items()}

    assert len(set(runs.references.values()) - {None}) == 2
    assert choose_subject(runs, summary) == max(gains, key=lambda name: gains[name])
    assert runs.references[str(choose_subject(runs, summary))] != runs.reference


def test_what_clients_are_served_counts_where_both_have_experts(tmp_path: Path) -> None:
    served = {
        name: {"served_accuracy": [level] * 6, "experts": [{"served": 39, "local": 61}] * 6}
        for name, level in (("global", 0.5), ("fielding", 0.75))
    }
    folder = methods(tmp_path, {"global": [0.5], "fielding": [0.5]}, **served)

    said = sentence_of(folder)

    assert said.startswith("fielding +25.0 points over one model")
    assert said.endswith("; 61 % of clients are served best by their own samples, past ones too.")


def test_a_run_tells_its_scores_its_clusters_and_what_serves_its_clients(tmp_path: Path) -> None:
    rows = round_rows(
        LOW, next_accuracy=[0.25] * 6, n_clusters=[1, 2, 2, 3, 3, 3], experts=[{"served": 3, "heads": 1}] * 6
    )
    tests: dict[str, Json] = {
        "round": 5, "client": ["a", "b", "c", "d"], "cluster": [0] * 4, "n_test": [4, 4, 4, 0], "correct": [4, 4, 4, 0],
    }  # fmt: skip

    said = sentence_of(run_folder(tmp_path / "run", rows, logs={"clients": [tests]}))

    assert said == (
        "Final accuracy 0.500 on the window and 0.250 on the next interval, 0.250 for the worst tenth of the clients; "
        "3 clusters; 75 % of clients are served best by the model as it is; 25 % of clients have no test samples now."
    )


def test_seeds_of_one_method_are_told_as_their_mean(tmp_path: Path) -> None:
    said = sentence_of(methods(tmp_path, {"global": [0.5, 0.7]}))

    assert said == "Final accuracy 0.600 on the window, 0.300 for the worst tenth of the clients, mean over 2 seeds."


def test_runs_that_go_on_tell_how_far_they_are(tmp_path: Path) -> None:
    alone = run_folder(tmp_path / "alone", round_rows(LOW), finished=False)
    run_folder(tmp_path / "both" / "done", round_rows(LOW), method="global")
    run_folder(tmp_path / "both" / "long", round_rows(LOW), seed=1, finished=False)
    blank = run_folder(tmp_path / "blank", round_rows([None, None]), finished=False)

    assert sentence_of(alone) == "Accuracy so far: 0.600 (round 6 of 6)."
    assert (
        sentence_of(tmp_path / "both") == "Accuracy on the window so far: global 0.600, fielding 0.600 (round 6 of 6)."
    )
    assert sentence_of(blank) == "No run has been evaluated yet."


def test_three_charts_carry_the_sentence_of_a_comparison(tmp_path: Path) -> None:
    folder = compared(
        tmp_path, {"global": {1: LOW, 2: LOW, 3: LOW}, "fielding": {1: curve(0.6), 2: curve(0.7), 3: LOW}}
    )

    gains, rounds, sent = draw_highlights(*read_report([folder]))

    assert [one.title for one in (gains, rounds, sent)] == [
        "Points over one model", "Accuracy over rounds", "Accuracy against bytes",
    ]  # fmt: skip
    assert gains.figure is not None
    dots = {trace["name"]: trace for trace in gains.figure["data"]}
    # 0.6, 0.7 and 0.5, the final accuracy of the rising curve, minus 0.5.
    assert [round(one, 6) for one in dots["fielding"]["x"]] == [10.0]
    assert dots["fielding"]["error_x"]["array"][0] > 0
    assert dots["global"]["x"] == [0.0]
    assert len({one.figure["layout"]["height"] for one in (gains, rounds, sent) if one.figure}) == 1


def test_of_very_many_groups_the_first_chart_shows_the_best_and_the_one_that_is_told(tmp_path: Path) -> None:
    levels = {f"m{at:02d}": [0.5 + at / 100] for at in range(20)}
    runs, summary = read_report([methods(tmp_path, {"global": [0.5], "fielding": [0.4], **levels})])

    figure = draw_highlights(runs, summary)[0].figure

    assert figure is not None
    names = figure["layout"]["yaxis"]["ticktext"]
    assert (len(names), names[0], names[-1]) == (12, "m19", "fielding")
