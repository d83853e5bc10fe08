from dataclasses import replace
from pathlib import Path

import pytest

from experiments.reproduce.claims import compared_row, paper_words, reading, row_of
from experiments.reproduce.courses import (
    deeper_drop,
    differences,
    heterogeneity_change,
    late_change,
    late_difference,
    late_heterogeneity_change,
    share_above,
)
from experiments.reproduce.figures import FIGURES, gain
from experiments.reproduce.reading import Claim, read
from experiments.reproduce.results import Figure, Results
from experiments.reproduce.speed import ROUNDS, faster, n_reached
from experiments.reproduce.tables import course_table, variant_table
from fielding.reporting.numbers.run_record import LogReader, RunRecord

CLAIM = Claim(says="a", source="Section 1", value=(2.0,), unit="points", ours={"figure": "gain", "of": "fielding"})


def record(accuracies: list[float], *, seconds: float = 10.0) -> RunRecord:
    """Return a run that was evaluated in every round."""
    rounds = [
        {"round": at, "time_s": seconds * (at + 1), "accuracy": accuracy, "measured_heterogeneity": 1.0 + at}
        for at, accuracy in enumerate(accuracies)
    ]
    return RunRecord(
        folder=Path("none"), manifest={}, rounds=rounds, events=[], state="finished", problems=(), reader=LogReader()
    )


def results(**runs: list[RunRecord]) -> Results:
    """Return results whose final accuracy is that of the last round."""
    metrics = {
        name: [{"final_accuracy": one.rounds[-1]["accuracy"], "time_s": one.rounds[-1]["time_s"]} for one in mine]
        for name, mine in runs.items()
    }
    n_seeds = len(next(iter(runs.values())))
    return Results(seeds=list(range(1, n_seeds + 1)), runs=runs, metrics=metrics)


class TestFigures:
    def test_a_gain_is_paired_by_seed_and_in_points(self) -> None:
        found = gain(results(a=[record([0.5]), record([0.7])], b=[record([0.4]), record([0.6])]), "a", "b")

        assert found.mean == pytest.approx(10.0)
        assert found.low == pytest.approx(10.0)

    def test_a_reference_that_ends_below_its_own_mean_is_there_at_its_end(self) -> None:
        ours, theirs = record([0.2, 0.6, 0.6, 0.6]), record([0.2, 0.5, 0.6, 0.4])
        mixed = results(ours=[ours], theirs=[theirs])
        lifted = replace(mixed, metrics={**mixed.metrics, "theirs": [{"final_accuracy": 0.5}]})

        found = faster(lifted, "ours", "theirs")

        assert found is not None
        assert found.mean == pytest.approx(40.0 / 20.0)

    def test_who_never_stays_above_has_no_speedup(self) -> None:
        assert faster(results(ours=[record([0.1, 0.2])], theirs=[record([0.3, 0.4])]), "ours", "theirs") is None

    def test_a_speedup_in_rounds_does_not_look_at_the_clock(self) -> None:
        ours, theirs = record([0.2, 0.6, 0.6, 0.6], seconds=30.0), record([0.2, 0.3, 0.4, 0.5])
        both = results(ours=[ours, ours], theirs=[theirs, theirs])

        by_clock, in_rounds = faster(both, "ours", "theirs"), faster(both, "ours", "theirs", ROUNDS)

        assert by_clock is not None
        assert in_rounds is not None
        assert by_clock.mean == pytest.approx(40.0 / 60.0)
        assert in_rounds.mean == pytest.approx(4.0 / 2.0)
        assert in_rounds.low == pytest.approx(2.0)

    def test_survivors_have_a_ratio_but_no_interval(self) -> None:
        there, never, theirs = record([0.5, 0.5, 0.5]), record([0.1, 0.1, 0.1]), record([0.2, 0.3, 0.4])
        mixed = results(ours=[there, there, never], theirs=[theirs] * 3)

        found = faster(mixed, "ours", "theirs")

        assert found is not None
        assert found.mean == pytest.approx(3.0)
        assert found.low is None
        assert n_reached(mixed, "ours", "theirs") == 2

    def test_heterogeneity_is_a_mean_over_all_rounds_or_over_the_second_half(self) -> None:
        short, long = record([0.1]), record([0.1, 0.2, 0.3])
        both = results(a=[long], b=[short])

        assert heterogeneity_change(both, "a", "b").mean == pytest.approx(100.0)
        assert late_heterogeneity_change(both, "a", "b").mean == pytest.approx(150.0)

    def test_late_figures_look_at_the_last_quarter_and_at_what_was_before_it(self) -> None:
        both = results(a=[record([0.1, 0.1, 0.5, 0.4])], b=[record([0.0, 0.0, 0.0, 0.1])])

        assert late_difference(both, "a", "b").mean == pytest.approx(30.0)
        assert late_change(both, "a", "b").mean == pytest.approx(-10.0)

    def test_the_largest_fall_between_evaluations_is_held_against_the_others(self) -> None:
        both = results(a=[record([0.0, 0.5, 0.2, 0.6])], b=[record([0.0, 0.5, 0.4, 0.6])])

        assert deeper_drop(both, "a", "b").mean == pytest.approx(20.0)
        assert share_above(both, "a", "b").mean == 0.0
        assert share_above(both, "b", "a").mean == pytest.approx(100.0 / 3.0)

    def test_a_corrected_model_is_held_against_a_corrected_one_or_a_plain_one(self) -> None:
        plain = results(a=[record([0.5])], b=[record([0.4])])
        corrected = {name: [{**one, "final_accuracy_corrected": 0.7}] for name, (one,) in plain.metrics.items()}
        both = replace(plain, metrics=corrected)

        assert FIGURES["corrected gain"](both, "a", "b") == Figure(mean=0.0)
        found = FIGURES["gain over corrected"](both, "a", "b")
        assert found is not None
        assert found.mean == pytest.approx(-20.0)

    def test_differences_are_taken_round_by_round(self) -> None:
        rounds, rows = differences(results(a=[record([0.5, 0.7])], b=[record([0.4, 0.4])]), "a", "b")

        assert rounds.tolist() == [0.0, 1.0]
        assert rows.round(6).tolist() == [[10.0, 30.0]]


class TestClaims:
    @pytest.mark.parametrize(
        ("low", "high", "relation", "said"),
        [
            (0.1, 0.2, "above", "disagrees"),
            (2.1, 3.0, "above", "agrees"),
            (1.0, 3.0, "above", "not clear"),
            (0.1, 0.2, "below", "agrees"),
            (2.1, 3.0, "below", "disagrees"),
            (1.0, 3.0, "equal", "within"),
            (2.1, 3.0, "equal", "higher"),
            (0.1, 0.2, "equal", "lower"),
            (1.1, 2.9, "level", "level"),
            (0.5, 2.5, "level", "not clear"),
            (3.1, 3.5, "level", "differs"),
            (0.1, 0.9, "level", "differs"),
            (2.5, 3.0, "no gain", "agrees"),
            (2.5, 3.1, "no gain", "not clear"),
            (3.1, 4.0, "no gain", "disagrees"),
        ],
    )
    def test_a_reading_needs_the_whole_interval(self, low: float, high: float, relation: str, said: str) -> None:
        assert reading(Figure(mean=(low + high) / 2, low=low, high=high), replace(CLAIM, relation=relation)) == said

    def test_a_single_seed_says_nothing(self) -> None:
        assert reading(Figure(mean=9.0), CLAIM) == "one seed: no interval"

    def test_the_paper_and_ours_stand_side_by_side_with_one_unit(self) -> None:
        row = row_of(CLAIM, Figure(mean=3.0, low=2.5, high=3.5))

        assert row[1:] == ["2 points", "+3.0 [+2.5, +3.5]", "higher"]
        assert paper_words(replace(CLAIM, value=(2.0, 4.0))) == "2 to 4 points"

    @pytest.mark.parametrize(
        ("mean", "low", "high", "said"),
        [(2.5, 0.0, 9.0, "within"), (1.5, 0.5, 2.5, "overlaps"), (1.0, 0.5, 1.5, "lower")],
    )
    def test_a_range_holds_the_mean_or_only_part_of_the_interval(
        self, mean: float, low: float, high: float, said: str
    ) -> None:
        assert reading(Figure(mean=mean, low=low, high=high), replace(CLAIM, value=(2.0, 4.0))) == said

    def test_nothing_is_judged_without_a_number_or_on_other_data(self) -> None:
        ours = Figure(mean=3.0, low=2.5, high=3.5)

        assert row_of(replace(CLAIM, value=(0.0,), relation="above"), ours)[-1] == "agrees"
        assert row_of(replace(CLAIM, value=()), ours)[1:] == ["-", "+3.0 [+2.5, +3.5] points", "-"]
        assert row_of(replace(CLAIM, so="other data"), ours)[-1] == "other data"

    def test_a_speedup_is_told_by_the_clock_and_in_rounds_and_not_judged_by_survivors(self) -> None:
        one = replace(read("fmow"), reference="theirs", against={})
        claim = replace(CLAIM, unit="times", ours={"figure": "speedup", "of": "ours"})
        slow = [record([0.5, 0.5, 0.5], seconds=20.0), record([0.1, 0.1, 0.1], seconds=20.0)]
        both = results(ours=slow, theirs=[record([0.2, 0.3, 0.4])] * 2)

        assert compared_row(claim, one, both)[2:] == ["1.50 / 3.00", "reached on 1 of 2 seeds"]


def test_the_course_has_a_row_for_every_curve() -> None:
    one = replace(read("differences"), curves=(("a", "b"),))
    many = results(a=[record([0.5] * 16), record([0.6] * 16)], b=[record([0.4] * 16), record([0.4] * 16)])

    table = course_table(one, many)

    assert table[0][1] == "1 to 2"
    assert table[1][0] == "a minus b, points"
    assert table[1][1] == "+15.0 ± 63.5"


def test_the_table_says_which_row_is_the_reference() -> None:
    one = replace(read("tau"), reference="b", columns=("accuracy", "gain", "corrected"))
    table = variant_table(one, results(a=[record([0.5])], b=[record([0.4])]))

    assert table[1] == ["a", "50.0", "+10.0", "-"]
    assert table[2] == ["b", "40.0", "reference", "-"]


def test_the_table_tells_hours_and_both_scores_of_corrected_models() -> None:
    one = replace(read("tau"), reference="b", columns=("corrected", "hours"))
    plain = results(a=[record([0.5, 0.3, 0.5], seconds=7200.0)], b=[record([0.1, 0.2, 0.4], seconds=3600.0)])
    corrected = {"final_accuracy_corrected": 0.7, "final_next_accuracy_corrected": 0.6}
    metrics = {"a": [{**plain.metrics["a"][0], **corrected}], "b": plain.metrics["b"]}

    table = variant_table(one, replace(plain, metrics=metrics))

    assert table[1] == ["a", "70.0 / 60.0", "6.0"]
    assert table[2] == ["b", "-", "3.0"]


def test_data_without_an_interval_to_come_are_judged_on_the_window_alone() -> None:
    one = read("static-data")
    gains = next(claim for claim in one.claims if claim.ours.get("figure") == "gain")
    runs = {name: [record([0.5]), record([0.6])] for name in one.variants}
    found = results(**runs)
    later = replace(
        found,
        metrics={name: [{**run, "final_next_accuracy": 0.5} for run in mine] for name, mine in found.metrics.items()},
    )

    assert compared_row(gains, one, found)[2].count(" / ") == 0
    assert compared_row(gains, one, later)[2].count(" / ") == 1
