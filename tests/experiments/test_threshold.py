from pathlib import Path

import pytest

from experiments.threshold.__main__ import main
from experiments.threshold.cases import FIXED, GROUNDS, LEARNED, PAIRWISE, ROWS, Case, cases
from experiments.threshold.running import calm_below, waves
from experiments.threshold.verdicts import Outcome, best_fixed, outcome, rows_of, side_by_side, verdict, verdict_line
from fielding._typing import Json
from fielding.comparing.sweep import Finished

TAU_0, TAU_1_6, TAU_1_3, TAU_1_2, TAU_2_3 = FIXED


def came(*accuracy: float) -> Outcome:
    return Outcome(accuracy=accuracy, reclusterings=(2.0,) * len(accuracy), n_clusters=(3.0,) * len(accuracy))


def case(row: str, *, floor: str = "off", detector: str = "chi2") -> Case:
    return Case(ground="zephyr", detector=detector, floor=floor, row=row)


def finished(one: Case, seed: int, *, reclusterings: int) -> Finished:
    summary: dict[str, Json] = {"final_accuracy": 0.5, "reclusterings": reclusterings, "n_clusters_last": 4}
    return Finished(name=one.run_name(seed), summary=summary)


def test_the_best_fixed_tau_has_the_highest_mean_and_of_equal_ones_the_lower_is_it() -> None:
    outcomes = {TAU_0: came(0.5, 0.7), TAU_1_6: came(0.7, 0.7), TAU_1_3: came(0.6, 0.8), LEARNED: came(0.9, 0.9)}

    assert best_fixed(outcomes) == TAU_1_6
    assert best_fixed({**outcomes, TAU_1_6: Outcome(error="it broke")}) == TAU_1_3
    assert best_fixed({LEARNED: came(0.9)}) is None


@pytest.mark.parametrize(
    ("learned", "holds"),
    [
        ((0.70, 0.80, 0.90), True),  # the same
        ((0.71, 0.78, 0.90), True),  # -0.3 points on average, but within what seeds vary by
        ((0.69, 0.79, 0.89), False),  # a point less on every seed
        ((0.75, 0.85, 0.95), True),  # clearly ahead
    ],
)
def test_learned_tau_holds_up_unless_the_interval_of_the_difference_lies_below_zero(
    learned: tuple[float, ...], holds: bool
) -> None:
    found = verdict({TAU_0: came(0.1, 0.1, 0.1), TAU_1_3: came(0.70, 0.80, 0.90), LEARNED: came(*learned)})

    assert found is not None
    assert found.best == TAU_1_3
    assert found.holds == holds


def test_there_is_no_verdict_where_learned_tau_failed_or_was_not_run() -> None:
    assert verdict({TAU_0: came(0.5)}) is None
    assert verdict({TAU_0: came(0.5), LEARNED: Outcome(error="it broke")}) is None
    assert verdict_line("zephyr", "chi2", "off", None)[-1] == "not known"


def test_a_table_holds_every_row_against_the_best_fixed_one_and_says_what_failed() -> None:
    lines = rows_of(
        {TAU_0: came(0.5, 0.7), TAU_1_3: came(0.6, 0.8), LEARNED: came(0.7, 0.9), PAIRWISE: Outcome(error="no luck")}
    )

    assert lines[1] == [TAU_0, "60.0 ± 127.1", "-10.0 ± 0.0", "2.0", "3.0"]
    assert lines[2][2] == "best"
    assert lines[3][2] == "+10.0 ± 0.0"
    assert lines[4][:2] == [PAIRWISE, "failed: no luck"]


def test_figures_with_the_noise_floor_stand_beside_those_without_and_pairwise_has_none() -> None:
    off = rows_of({TAU_0: came(0.5), PAIRWISE: came(0.6)})
    both = side_by_side(off, rows_of({TAU_0: came(0.7)}))

    assert both[0][-3:] == ["final accuracy, floor", "against the best fixed, floor", "re-clusterings, floor"]
    assert both[1][5:] == ["70.0", "best", "2.0"]
    assert both[2][5:] == ["-", "-", "-"]


def test_a_run_that_never_re_clustered_stands_for_all_higher_thresholds_and_for_no_other() -> None:
    chosen = [case(row, floor=floor) for floor in ("off", "on") for row in ROWS]
    done = {
        one.name: one
        for one in (
            finished(case(TAU_0), 1, reclusterings=5),
            finished(case(TAU_1_3), 1, reclusterings=0),
            finished(case(LEARNED), 1, reclusterings=0),
        )
    }

    def stands_for(one: Case, seed: int = 1) -> bool:
        return calm_below(one, chosen, done, seed) is not None

    assert [stands_for(case(row)) for row in (TAU_0, TAU_1_6, TAU_1_2, TAU_2_3)] == [False, False, True, True]
    assert stands_for(case(TAU_1_3, floor="on"))
    assert not stands_for(case(TAU_1_6, floor="on"))
    assert not stands_for(case(LEARNED, floor="on"))
    assert not stands_for(case(TAU_2_3, detector="any-change"))
    assert not stands_for(case(TAU_2_3), seed=2)


def test_a_higher_threshold_is_never_run_before_a_lower_one() -> None:
    chosen = [case(row, floor=floor) for floor in ("on", "off") for row in reversed(ROWS)]
    order = [one for wave in waves(chosen) for one in wave]

    assert sorted(map(repr, order)) == sorted(map(repr, chosen))
    fixed = [(one.floor, one.row) for one in order if one.row in FIXED]
    assert fixed == [(floor, row) for floor in ("off", "on") for row in FIXED]


def test_all_runs_are_configs_in_folders_of_their_own_and_pairwise_has_no_noise_floor() -> None:
    chosen = cases(list(GROUNDS), ["any-change", "chi2"], ["off", "on"])

    assert len({one.run_name(1) for one in chosen}) == len(chosen) == 4 * 2 * (7 + 6)
    assert case(LEARNED, floor="on").config(3).coordinator.tau == "learned"
    assert case(LEARNED, floor="on").config(3).coordinator.noise_floor
    assert case(PAIRWISE).config(3).coordinator.partitioner == "k-center"
    assert {one.config(3).coordinator.representation for one in chosen} == {"label"}


def test_what_failed_names_the_first_error() -> None:
    one = case(TAU_0)
    done = {
        one.run_name(1): finished(one, 1, reclusterings=2),
        one.run_name(2): Finished(name="", summary=None, error="no"),
    }

    assert outcome(one, done, [1]).reclusterings == (2.0,)
    assert outcome(one, done, [1, 2]).error == "no"


def test_unknown_grounds_and_detectors_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["mars"], ["zephyr", "--detectors", "nose"]):
        with pytest.raises(SystemExit):
            main([*words, "--out", str(tmp_path)])
    assert "unknown ground 'mars'" in (told := capsys.readouterr().err)
    assert "'nose' is none of any-change, chi2" in told
