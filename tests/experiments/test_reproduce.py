import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.reproduce import __main__ as program
from experiments.reproduce.claims import compared_row, difference_words, paper_words, reading, row_of
from experiments.reproduce.figures import FIGURES, Figure, Results, differences, faster, gain, heterogeneity_change
from experiments.reproduce.page import BEGIN, END, index_part, write_page
from experiments.reproduce.reading import HERE, ORDER, STANDINS, Claim, Experiment, names, read, standin
from experiments.reproduce.running import Way, base_config, check_data, comparison_of
from experiments.reproduce.tables import course_table, variant_table
from fielding._typing import Json
from fielding.errors import InputError, OptionError
from fielding.reporting.log_reader import LogReader
from fielding.reporting.run_record import RunRecord
from fielding.simulation.variants import named_variants, variant_config, with_settings

SOURCE = re.compile(r"^(Section \d(\.\d)?|Appendix [A-F](\.\d)?)")
COMPARED = [name for name in ORDER if read(name).measure is None]
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


class TestFiles:
    def test_every_file_is_in_the_order_and_the_other_way_round(self) -> None:
        assert {path.stem for path in HERE.glob("*.toml")} == set(ORDER)
        assert len(set(names())) == len(ORDER)

    @pytest.mark.parametrize("name", COMPARED)
    @pytest.mark.parametrize("form", ["config", "quick"])
    def test_all_variants_resolve(self, name: str, form: str, tmp_path: Path) -> None:
        one = read(name)
        assert one.standin is not None
        made = tmp_path / "made.npz"
        made.touch()
        file: dict[str, Json] = {"trace.file": str(made)} if one.standin.builder else {}
        base = (
            with_settings(one.standin.quick, one.quick)
            if form == "quick"
            else with_settings(one.standin.config, {**one.config, **file})
        )

        configs = [variant_config(base, variant, 1) for variant in named_variants(one.variants)]

        assert {config.preset for config in configs} == {"paper"}
        assert {config.serving.correction for config in configs} == {"prior"}

    @pytest.mark.parametrize("name", ORDER)
    def test_every_number_of_the_paper_names_its_source_and_a_figure_of_ours(self, name: str) -> None:
        one = read(name)

        assert one.claims
        for claim in one.claims:
            assert SOURCE.match(claim.source), claim.source
            assert claim.relation in ("above", "below", "equal")
            if one.measure is None:
                assert claim.ours["figure"] in FIGURES
                assert claim.ours["of"] in one.variants
                assert claim.ours.get("against", one.held_against(str(claim.ours["of"]))) in one.variants

    @pytest.mark.parametrize("name", COMPARED)
    def test_references_and_curves_are_variants(self, name: str) -> None:
        one = read(name)
        named = {one.reference, *one.against, *one.against.values(), *(side for pair in one.curves for side in pair)}

        assert named <= set(one.variants)

    @pytest.mark.parametrize("path", sorted(STANDINS.glob("*.toml")), ids=lambda path: path.stem)
    def test_a_stand_in_says_what_it_stands_for_and_why(self, path: Path) -> None:
        one = standin(path.stem)

        assert one.stands_for
        assert len(one.why) > 200
        assert one.needs

    def test_an_unknown_name_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(OptionError, match="did you mean 'tau'"):
            read("tua")

    def test_the_corrected_global_model_is_in_every_end_to_end_table(self) -> None:
        for name in ("fmow", "cityscapes", "waymo", "open-images"):
            one = read(name)
            assert {"global", "static", "fielding", "ifca", "flexcfl", "auxo"} <= set(one.variants)
            assert not one.columns


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

    def test_heterogeneity_is_a_mean_over_all_rounds(self) -> None:
        short, long = record([0.1]), record([0.1, 0.2, 0.3])

        assert heterogeneity_change(results(a=[long], b=[short]), "a", "b").mean == pytest.approx(100.0)

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
            (1.0, 3.0, "equal", "within the interval"),
            (2.1, 3.0, "equal", "ours is higher"),
            (0.1, 0.2, "equal", "ours is lower"),
        ],
    )
    def test_a_reading_needs_the_whole_interval(self, low: float, high: float, relation: str, said: str) -> None:
        assert reading(Figure(mean=(low + high) / 2, low=low, high=high), replace(CLAIM, relation=relation)) == said

    def test_a_single_seed_says_nothing(self) -> None:
        assert reading(Figure(mean=9.0), CLAIM) == "one seed: no interval"

    def test_the_paper_ours_and_the_difference_stand_side_by_side(self) -> None:
        row = row_of(CLAIM, Figure(mean=3.0, low=2.5, high=3.5))

        assert row[2:] == ["2 points", "+3.0 (+2.5 to +3.5) points", "+1.0", "ours is higher"]

    def test_ours_beside_a_range_is_measured_from_its_nearer_end(self) -> None:
        claim = replace(CLAIM, value=(2.0, 4.0))

        assert paper_words(claim) == "2 to 4 points"
        assert difference_words(Figure(mean=1.0), claim) == "-1.0"
        assert difference_words(Figure(mean=4.5), claim) == "+0.5"

    def test_a_speedup_tells_on_how_many_seeds_it_is(self) -> None:
        one = replace(read("fmow"), reference="theirs", against={})
        claim = replace(CLAIM, unit="times", ours={"figure": "speedup", "of": "ours"})
        both = results(ours=[record([0.5, 0.5, 0.5]), record([0.1, 0.1, 0.1])], theirs=[record([0.2, 0.3, 0.4])] * 2)

        assert compared_row(claim, one, both)[3] == "3.00 times (1 of 2 seeds get there)"


class TestPages:
    def test_words_by_hand_survive_and_the_measured_part_is_replaced(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        write_page("Title", f"{BEGIN}\nfirst\n{END}", page)
        page.write_text(
            page.read_text().replace("*What we see: not written yet.*", "Our words.").replace("# T", "# My t")
        )

        write_page("Title", f"{BEGIN}\nsecond\n{END}", page)

        text = page.read_text()
        assert text.startswith("# My title")
        assert "Our words." in text
        assert "second" in text
        assert "first" not in text
        assert text.count(BEGIN) == text.count(END) == 1

    def test_the_list_has_a_line_for_every_claim_and_for_what_was_not_run(self) -> None:
        part = index_part({"tau": [["what", "where", "2", "3", "+1", "so"]]}, [read("tau"), read("fmow")])

        assert "| [tau](tau.md) | Figure 14 | what | 2 | 3 | +1 | so |" in part
        assert "| [fmow](fmow.md) | Figure 4, first panel | not measured yet |" in part

    def test_every_experiment_has_a_page(self) -> None:
        pages = HERE.parents[1] / "docs" / "results" / "reproduce"

        for name in ORDER:
            text = (pages / f"{name}.md").read_text(encoding="utf-8")
            assert BEGIN in text
            assert END in text


class TestRunning:
    def test_missing_data_are_named_before_anything_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FIELDING_DATA", str(tmp_path))

        with pytest.raises(InputError, match=r"has no zephyr_commits\.csv\.gz.*FIELDING_DATA"):
            check_data(read("tau"))

    def test_an_experiment_may_show_the_runs_of_another(self, tmp_path: Path) -> None:
        way = Way(out=tmp_path, is_quick=True)
        shown, other = comparison_of(read("clusters"), way), comparison_of(read("differences"), way)

        assert shown.folder == other.folder
        assert shown.configs == other.configs

    def test_the_full_form_has_the_settings_of_the_experiment(
        self, data_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FIELDING_DATA", str(data_folder))
        base = base_config(read("static-data"), Way(out=Path("unused")))
        trace = base["trace"]

        assert isinstance(trace, dict)
        assert (trace["interval"], trace["gap"], trace["clients"]) == ("2000d", 240, 302)


@pytest.mark.parametrize("name", ORDER)
def test_the_quick_form_runs_and_fills_a_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    options = ["reproduce", name, "--quick", "--out", str(tmp_path / "runs"), "--page", str(page)]
    monkeypatch.setattr(sys, "argv", options)

    assert program.main() == 0

    text, one = page.read_text(encoding="utf-8"), read(name)
    assert one.of_paper in text
    assert all(claim.says in text for claim in one.claims)
    assert all(f"| {variant} |" in text for variant in one.variants)
    assert "failed" not in capsys.readouterr().out


def test_two_seeds_have_intervals_and_what_is_done_is_not_done_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two: Experiment = replace(read("differences"), seeds=2)
    monkeypatch.setattr(Way, "seeds_of", lambda _way, one: list(range(1, one.seeds + 1)))
    way = Way(out=tmp_path, is_quick=True)
    first = program.reproduced(two, way)
    capsys.readouterr()

    again = program.reproduced(two, way)

    assert " ± " in first
    assert "one seed" not in first
    table = first[first.index("## All rows") :].split("Seeds 1 to")[0]
    assert table in again
    assert len(list((tmp_path / "differences-quick").glob("*-2"))) == len(two.variants)


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
