from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.peers import tuning
from experiments.peers.benchmarks import BENCHMARKS, base_table
from experiments.peers.comparing import (
    PAGE,
    accuracy_table,
    compare,
    partner_variants,
    tuning_table,
    variants,
    verdicts,
    with_served,
)
from experiments.peers.rows import PARTNERS, ROWS, Row, Settings, rows_on, settings_of
from experiments.peers.search import Point, is_inside, ranked, wanted
from experiments.peers.tuning import (
    ALLOWANCE,
    Choice,
    chosen_for,
    read_choices,
    score_of,
    tune,
    tuned_rows,
    values_at,
    write_choices,
)
from experiments.reproduce.results import Results
from fielding.comparing.sweep import Finished
from fielding.comparing.variants import with_settings
from fielding.config.keys import Config
from fielding.config.reader import config_from
from fielding.methods import METHODS
from fielding.simulation.config_check import check_config
from fielding.traces.catalog import Opening, open_source
from fielding.traces.pool import Pool

NATURAL = BENCHMARKS["zephyr"]


def searched(
    lengths: Sequence[int], start: Point, score: Callable[[Point, int], float], allowance: int
) -> dict[Point, list[float]]:
    """Return all scores of a search that is run to its end."""
    scores: dict[Point, list[float]] = {}
    while runs := wanted(lengths, start, scores, allowance):
        for point, number in runs:
            assert len(scores.get(point, [])) == number
            scores.setdefault(point, []).append(score(point, number))
    return scores


class TestSearch:
    @given(
        st.lists(st.integers(2, 9), min_size=1, max_size=4).flatmap(
            lambda lengths: st.tuples(
                st.just(lengths),
                st.tuples(*(st.integers(0, one - 1) for one in lengths)),
                st.tuples(*(st.integers(0, one - 1) for one in lengths)),
            )
        ),
        st.integers(1, 80),
    )
    def test_spends_its_allowance_exactly_and_finds_a_single_peak_if_it_suffices(
        self, problem: tuple[list[int], Point, Point], allowance: int
    ) -> None:
        lengths, start, peak = problem

        scores = searched(
            lengths,
            start,
            lambda point, _: -float(sum(abs(a - b) for a, b in zip(point, peak, strict=True))),
            allowance,
        )

        assert allowance - sum(map(len, scores.values())) in (0, 1)
        if is_inside(lengths, start, scores):
            assert ranked(lengths, start, scores)[0] == peak

    def test_the_best_two_share_what_is_left_over_and_their_mean_decides(self) -> None:
        noise: dict[tuple[Point, int], float] = {((2,), 1): -0.3, ((2,), 2): -0.3}
        level = {0: 0.1, 1: 0.4, 2: 0.5, 3: 0.3}

        scores = searched([4], (2,), lambda point, number: level[point[0]] + noise.get((point, number), 0.0), 8)

        # The second seed turns their order, so that the other neighbour of the new best is tried, too.
        assert {point: len(values) for point, values in scores.items()} == {(2,): 3, (1,): 3, (3,): 1, (0,): 1}
        assert ranked([4], (2,), scores)[0] == (1,)

    def test_equal_values_stay_where_they_are(self) -> None:
        scores = searched([9, 9], (4, 4), lambda _point, _number: 0.5, 9)

        assert ranked([9, 9], (4, 4), scores)[0] == (4, 4)


class TestRows:
    def test_every_method_has_a_row_and_whoever_is_tuned_has_the_local_and_the_server_rate(self) -> None:
        rivals = set(METHODS) - {"clustered-sgd"}  # of the theory, which docs/results/theorem.md measures
        assert {str(row.settings["method.name"]) for row in ROWS.values() if row.runs_of is None} == rivals
        for name, row in ROWS.items():
            keys = {knob.key for knob in row.knobs}
            if row.runs_of is not None or row.like is not None:
                assert not keys
                assert ROWS[row.runs_of or row.like or ""].knobs or row.runs_of
            else:
                assert row.knobs[0].key == "training.learning_rate"
                assert keys & {"aggregation.eta", "method.eta"} or name.startswith("local")

    def test_a_ceiling_is_only_run_where_the_truth_is_known(self) -> None:
        assert "oracle" not in rows_on(NATURAL)
        assert "oracle" in rows_on(BENCHMARKS["fashion-places"])

    def test_large_federations_do_not_ask_everybody_and_small_ones_do(self) -> None:
        assert settings_of(ROWS["cfl"], NATURAL)["method.participation"] == "sampled"
        assert "method.participation" not in settings_of(ROWS["cfl"], BENCHMARKS["extrasensory"])

    @pytest.mark.parametrize("name", [name for name, one in BENCHMARKS.items() if not one.is_pool])
    def test_all_rows_are_configs_at_every_value_of_their_knobs(self, name: str, tmp_path: Path) -> None:
        benchmark = BENCHMARKS[name]
        base = base_table(benchmark, tmp_path, is_tuning=False)
        for row in tuned_rows(benchmark).values():
            lengths = [len(knob.ladder) for knob in row.knobs]
            for at in range(max(lengths)):
                point = tuple(min(at, length - 1) for length in lengths)
                check_config(config_from(with_settings(base, {**settings_of(row, benchmark), **values_at(row, point)})))
        choices: dict[str, Choice] = {name: {"chosen": {}} for name in tuned_rows(benchmark)}
        combined = partner_variants(choices)
        for settings in (*variants(benchmark, choices, list(ROWS)).values(), *combined.values()):
            check_config(config_from(with_settings(base, settings)))
        assert len(combined) == 2 * len(PARTNERS)
        with pytest.raises(SystemExit, match="nothing was chosen for global; run"):
            variants(benchmark, {}, ["global"])


def test_a_pool_is_cut_in_two_and_no_sample_is_in_both_parts(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIELDING_DATA", str(data_folder))
    benchmark = BENCHMARKS["fashion-places"]
    tables = [base_table(benchmark, tmp_path, is_tuning=is_tuning)["trace"] for is_tuning in (True, False)]
    files = [np.load(str(table["file"]), allow_pickle=False) for table in tables if isinstance(table, dict)]
    whole = np.load(data_folder / "fashion_mnist.npz", allow_pickle=False)["y"]

    assert [file["y"].size for file in files] == [20_000, 50_000]
    together = np.bincount(files[0]["y"]) + np.bincount(files[1]["y"])
    assert together.tolist() == np.bincount(whole).tolist()


class TestTuning:
    def test_knobs_are_chosen_by_window_and_next_interval_together_and_failures_never(self) -> None:
        assert score_of({"final_accuracy": 0.5, "final_next_accuracy": 0.7}, "") == 0.6
        assert (
            score_of({"final_accuracy_tuned": 0.8, "final_next_accuracy_tuned": 0.6, "final_accuracy": 0.1}, "tuned")
            == 0.7
        )
        assert score_of(None, "") < 0

    def test_every_row_gets_as_many_runs_and_the_choice_is_frozen_in_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def swept(configs: dict[str, Config], _out: Path, _n_jobs: int) -> dict[str, Finished]:
            def accuracy(config: Config) -> float:
                return 0.9 - abs(np.log2(config.training.learning_rate / 0.4)) / 10

            found = {name: accuracy(config) for name, config in configs.items()}
            return {
                name: Finished(name=name, summary={"final_accuracy": one, "final_next_accuracy": one})
                for name, one in found.items()
            }

        monkeypatch.setattr(tuning, "FOLDER", tmp_path)
        monkeypatch.setattr(tuning, "swept", swept)

        write_choices(NATURAL, tune(NATURAL, tmp_path, n_jobs=1, names=["global", "ifca"]))
        write_choices(NATURAL, tune(NATURAL, tmp_path, n_jobs=1, names=["local"]))

        choices = read_choices(NATURAL)
        assert list(choices) == ["global", "ifca", "local"]
        assert chosen_for("ifca", ROWS["ifca"], choices)["training.learning_rate"] == 0.4
        assert (
            chosen_for("ifca, participants choose", ROWS["ifca, participants choose"], choices)
            == choices["ifca"]["chosen"]
        )
        head, first, second, _ = tuning_table(choices, list(choices))
        assert head[0] == "method"
        assert first[1] == "learning_rate 0.4, eta 1"
        assert {first[-2], second[-2]} == {str(ALLOWANCE)}
        assert first[-1] == "finished"

    def test_a_value_at_the_end_of_what_was_tried_is_told(self) -> None:
        row = Row(knobs=ROWS["local"].knobs)
        last = len(row.knobs[0].ladder) - 1

        found = tuning.choice_of(row, {(at,): [0.1 * at] for at in range(3, last + 1)})

        assert found["at_edge"] == ["training.learning_rate"]


class TestTables:
    @staticmethod
    def results(figures: dict[str, tuple[Sequence[float], Sequence[float]]]) -> Results:
        return Results(
            seeds=[1, 2, 3],
            runs={name: [] for name in figures},
            metrics={
                name: [
                    {"final_accuracy": one, "final_next_accuracy": other, "final_accuracy_corrected": 0.99}
                    for one, other in zip(window, following, strict=True)
                ]
                for name, (window, following) in figures.items()
            },
        )

    def test_above_means_above_on_the_window_and_on_the_next_interval(self) -> None:
        low, high, noisy = (0.50, 0.51, 0.52), (0.60, 0.612, 0.621), (0.9, 0.1, 0.52)
        found = verdicts(
            self.results({"global": (low, low), "both": (high, high), "window": (high, noisy), "none": (noisy, noisy)})
        )

        assert found == {"global": "reference", "both": "above", "window": "not clear", "none": "not clear"}

    def test_corrected_rows_show_corrected_scores_of_the_same_runs(self) -> None:
        both = with_served(self.results({"global": ((0.5,) * 3, (0.5,) * 3)}), NATURAL)

        table = accuracy_table(both)

        assert [line[0] for line in table] == ["method", "global", "global, corrected"]
        assert len(table[0]) == len(PAGE) + 1
        assert table[2][1].startswith("99.0")


def test_rows_that_come_to_the_same_config_share_their_runs(tmp_path: Path) -> None:
    tiny = replace(
        NATURAL,
        trace={"name": "digits", "scenario": "places", "clients": 8, "samples": 10, "gap": 1, "window": 2},
        training={"participants": 4, "local_steps": 1},
        rounds=2,
        hidden=4,
    )
    file = tmp_path / "digits-comparison.npz"
    pool = open_source("digits", None, Opening())
    assert isinstance(pool, Pool)
    np.savez(file, x=pool.features(np.arange(pool.y.size)), y=pool.y, classes=np.array(pool.classes))
    rows: dict[str, Settings] = {
        "fielding": {"method.name": "fielding"},
        "fielding, tau tuned": {"method.name": "fielding", "coordinator.tau": 1 / 3},
        "global": {"method.name": "global"},
    }

    found = compare(tiny, rows, tmp_path, name="compared", seeds=[1], n_jobs=1)

    assert list(found.runs) == list(rows)
    assert found.runs["fielding, tau tuned"] is found.runs["fielding"]
    assert len(list(tmp_path.glob("compared/*/summary.json"))) == 2

    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("compared/*/summary.json")}
    compare(
        tiny,
        {**rows, "global": {**rows["global"], "training.learning_rate": 0.2}},
        tmp_path,
        name="compared",
        seeds=[1],
        n_jobs=1,
    )
    after = {path: path.stat().st_mtime_ns for path in tmp_path.glob("compared/*/summary.json")}

    assert [path.parent.name for path in before if after[path] == before[path]] == ["fielding-1"]
    assert len(after) == 2
