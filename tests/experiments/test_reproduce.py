import re
import shutil
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.reproduce import __main__ as program
from experiments.reproduce.figures import FIGURES
from experiments.reproduce.page import BEGIN, PAGES, claims_on, index_part, measured_in, measured_part, write_page
from experiments.reproduce.plots import draw
from experiments.reproduce.reading import HERE, ORDER, RELATIONS, STANDINS, Experiment, names, read, standin
from experiments.reproduce.running import Way, base_config, check_data, comparison_of
from experiments.reproduce.tables import USUAL
from experiments.tables import END
from fielding._typing import Json
from fielding.comparing.variants import named_variants, variant_config, with_settings
from fielding.errors import InputError, OptionError
from fielding.records.plan import write_plan
from tests.rotation import some_of

SOURCE = re.compile(r"^(Abstract|Section \d(\.\d)?|Appendix [A-F](\.\d)?)")
DRAWN = {
    "fmow": (
        {"fielding", "global", "auxo", "flexcfl"},
        {"+5.9", "+0.9", "0", "1.27 times", "1.05 times", "1 times", "52.4 %"},
    ),
    "cityscapes": (
        {"fielding", "global", "auxo", "flexcfl"},
        {"+1.9", "+0.9", "0", "1.16 times", "1.05 times", "1 times"},
    ),
    "waymo": ({"fielding", "global", "auxo", "flexcfl"}, {"+3.4", "+0.9", "0", "2.23 times", "1.05 times", "1 times"}),
    "open-images": ({"fielding", "global", "auxo", "flexcfl"}, {"+17.9 to +26.1"}),
    "differences": ({"fielding minus always", "always minus selected"}, {"up to +5", "+1.5 to +4"}),
    "clusters": ({"fielding", "global", "moves", "always", "static"}, set()),
    "tau": ({"tau = 0", "tau = 1/6", "tau = 1/3", "tau = 1/2", "tau = 2/3"}, set()),
    "static-data": ({"fielding", "global", "auxo", "flexcfl"}, {"+9.2", "+3.9", "+5.6"}),
    "feddrift": ({"fielding", "feddrift"}, {"+2.5", "2.01 times"}),
    "selection": (
        {"fielding + Oort", "global + Oort", "fielding + nearest", "global + nearest"},
        {"+6", "2.62 times", "+4.5", "1.17 times"},
    ),
    "aggregation": (
        {"fielding, FedYogi", "global, FedYogi", "fielding, q-FedAvg", "global, q-FedAvg"},
        {"+5.9", "1.34 times", "+4.9", "1.25 times"},
    ),
    "malicious": ({"fielding", "global"}, set()),
    "heterogeneity": ({"fielding", "global"}, {"+3.2 to +4.4"}),
    "representations": ({"global", "label", "embedding", "gradient"}, set()),
    "concept-drift": ({"global", "label", "embedding", "gradient"}, set()),
    "pairwise": ({"global", "center shift", "pairwise, k-center"}, set()),
    "jensen-shannon": ({"global", "L1", "Jensen-Shannon"}, set()),
}
"""What each figure of the paper holds, and the numbers that the text of the paper states about it."""
UP_TO = {"1.05 times", "1 times"}
"""Speed-ups that the paper only says not to be exceeded: no point in time, so not on the curves."""
COMPARED = [name for name in ORDER if read(name).measure is None]


def curves_of(figure: str) -> Counter[str]:
    """Return the names of what is drawn as a line or as bars over the paper's axis, and how often."""
    shapes = [one for one in ET.fromstring(figure).iter() if one.tag.rpartition("}")[2] in ("path", "rect")]
    return Counter(one.attrib["data-series"] for one in shapes if "data-series" in one.attrib)


def n_marks(figure: str) -> Counter[str]:
    """Return how often each number of the paper is marked."""
    return Counter(one.attrib["data-paper"] for one in ET.fromstring(figure).iter() if "data-paper" in one.attrib)


def paper_marks(figure: str) -> set[str]:
    """Return the numbers that are marked as the paper's, of which each is also to be read."""
    marks = set(n_marks(figure))
    words = " ".join(
        one.text or "" for one in ET.fromstring(figure).iter() if "paper" in one.attrib.get("class", "").split()
    )
    assert all(mark in words for mark in marks)
    return marks


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
            assert claim.relation in RELATIONS
            assert claim.relation == "equal" or len(claim.value) == 1
            if one.measure is None:
                assert claim.ours["figure"] in FIGURES
                assert claim.ours["of"] in one.variants
                assert claim.ours.get("against", one.held_against(str(claim.ours["of"]))) in one.variants

    @pytest.mark.parametrize("name", COMPARED)
    def test_references_and_curves_are_variants(self, name: str) -> None:
        one = read(name)
        named = {one.reference, *one.against, *one.against.values(), *(side for pair in one.curves for side in pair)}

        assert named <= set(one.variants)

    def test_what_is_a_figure_in_the_paper_and_nothing_else_is_drawn(self) -> None:
        assert {name for name in ORDER if read(name).plot} == set(DRAWN)
        assert {name for name in ORDER if re.match("Figure", read(name).of_paper)} == set(DRAWN)

    @pytest.mark.parametrize("name", DRAWN)
    def test_what_is_drawn_are_variants(self, name: str) -> None:
        one = read(name)

        assert one.plot is not None
        assert {variant for variants in one.plot.panels.values() for variant in variants} <= set(one.variants)

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
            assert "corrected" in (one.columns or USUAL)


class TestPages:
    def test_words_by_hand_survive_and_the_measured_part_is_replaced(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        write_page("Title", "first", page)
        page.write_text(
            page.read_text().replace("*What we see: not written yet.*", "Our words.").replace("# T", "# My t")
        )

        write_page("Title", "second", page)

        text = page.read_text()
        assert text.startswith("# My title")
        assert "Our words." in text
        assert "second" in text
        assert "first" not in text
        assert text.count(BEGIN) == text.count(END) == 1

    def test_the_list_has_the_first_claim_of_every_experiment(self) -> None:
        rows = {"tau": [["what", "2", "3 / 4", "agrees"], ["more", "5", "6", "not clear"]]}

        part = index_part(rows, [read("tau"), read("fmow")])

        assert "| [tau](tau.md) | what | 2 | 3 / 4 | agrees |" in part
        assert "| [fmow](fmow.md) | not measured yet | - | - | - |" in part

    def test_the_list_describes_every_stand_in_once(self) -> None:
        part = index_part({}, [read("tau"), read("fmow"), read("waymo")])

        assert [part.count(f"**{standin(name).title}**") for name in ("zephyr", "street", "cifar")] == [1, 1, 0]

    def test_the_list_in_the_docs_is_that_of_the_pages(self) -> None:
        pages, everything = HERE.parents[1] / PAGES, [read(name) for name in names()]

        told = index_part(claims_on(pages, everything), everything)

        assert measured_in(pages / "index.md").split() == told.split()

    def test_verdicts_are_counted_above_the_list(self) -> None:
        rows = {"tau": [["what", "2", "3", so] for so in ("agrees", "disagrees", "agrees", "-")]}

        part = index_part(rows, [read("tau"), read("fmow")])

        words = "**4 numbers.** 3 are judged by a 95 % interval of ours: agrees 2, disagrees 1. 1 are not: the paper"
        assert part.index(words) < part.index("| [tau](tau.md)")

    def test_the_quick_form_says_that_it_means_nothing_and_not_what_it_would_stand_for(self) -> None:
        quick, whole = (measured_part(read("pairwise"), [], minutes=None, n_seeds=n_seeds) for n_seeds in (1, 5))

        assert "The numbers mean nothing." in quick
        assert "Stand-in for" not in quick
        assert "Stand-in for" in whole

    def test_what_has_no_seeds_claims_no_interval(self) -> None:
        part = measured_part(
            read("overhead"), [], minutes=None, n_seeds=len(Way(out=Path()).parse_seeds(read("overhead")))
        )

        assert "No seeds; ends are the fastest and the slowest." in part
        assert "95 %" not in part

    def test_every_experiment_has_a_page(self) -> None:
        pages = HERE.parents[1] / "docs" / "results" / "reproduce"

        for name in ORDER:
            text = (pages / f"{name}.md").read_text(encoding="utf-8")
            assert BEGIN in text
            assert END in text

    @pytest.mark.parametrize("name", DRAWN)
    def test_every_page_shows_its_figure_with_the_numbers_of_the_paper(self, name: str) -> None:
        pages, (drawn, marks) = HERE.parents[1] / PAGES, DRAWN[name]
        figure = (pages / f"{name}.svg").read_text(encoding="utf-8")

        assert re.search(rf"^!\[.*measured on other data.*\]\({name}\.svg\)$", (pages / f"{name}.md").read_text(), re.M)
        assert paper_marks(figure) == marks
        assert all(f'data-series="{one}"' in figure for one in drawn)
        assert "a stand-in" in figure
        assert ("has no number" in figure) == (not marks)

    def test_a_figure_is_drawn_anew_from_the_tables_of_its_page(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        page = tmp_path / "tau.md"
        shutil.copy(HERE.parents[1] / PAGES / "tau.md", page)
        before = page.read_text(encoding="utf-8")
        page.write_text(before.replace("| tau = 0 | 48.6 ± 2.9 |", "| tau = 0 | 12.3 ± 0.4 |"), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["reproduce", "tau", "--from-page", "--page", str(page)])

        assert program.main() == 0

        assert "12.3 ± 0.4" in (tmp_path / "tau.svg").read_text(encoding="utf-8")
        assert page.read_text(encoding="utf-8") == before.replace("48.6 ± 2.9", "12.3 ± 0.4", 1)

    def test_without_a_page_there_is_nothing_to_draw(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        page = tmp_path / "none.md"
        monkeypatch.setattr(sys, "argv", ["reproduce", "tau", "--from-page", "--page", str(page)])

        assert program.main() == 1
        assert "run the experiment first" in capsys.readouterr().err


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

    def test_who_shows_the_runs_of_another_leaves_its_reference(self, tmp_path: Path) -> None:
        way = Way(out=tmp_path, is_quick=True)
        other = comparison_of(read("differences"), way)
        other.folder.mkdir()
        write_plan(other.folder, other.plan)

        assert comparison_of(read("clusters"), way).plan.reference == "always"

    def test_the_full_form_has_the_settings_of_the_experiment(
        self, data_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FIELDING_DATA", str(data_folder))
        base = base_config(read("static-data"), Way(out=Path("unused")))
        trace = base["trace"]

        assert isinstance(trace, dict)
        assert (trace["interval"], trace["gap"], trace["clients"]) == ("2000d", 240, 302)


@pytest.mark.parametrize("name", some_of(ORDER, 4))
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
    if name in DRAWN:
        drawn, marks = DRAWN[name]
        figure = (tmp_path / "page.svg").read_text(encoding="utf-8")
        assert set(curves_of(figure)) == drawn
        assert paper_marks(figure) == marks
        on_curves = n_marks(figure) - n_marks(draw(one, measured_in(page)))  # what the tables alone do not give
        assert set(on_curves) == (marks - UP_TO if one.plot and one.plot.kind == "time" else set())
        assert "Our numbers mean nothing" in figure
        assert "](page.svg)" in text
        assert len(list((tmp_path / "runs").rglob(f"{name}.svg"))) == 1
    else:
        assert not list(tmp_path.rglob("*.svg"))


def test_two_seeds_have_intervals_and_what_is_done_is_not_done_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two: Experiment = replace(read("differences"), seeds=2)
    monkeypatch.setattr(Way, "parse_seeds", lambda _way, one: list(range(1, one.seeds + 1)))
    way = Way(out=tmp_path, is_quick=True)
    first = program.reproduced(two, way)
    capsys.readouterr()

    again = program.reproduced(two, way)

    assert " ± " in first
    assert "one seed" not in first
    figure = (tmp_path / "differences-quick" / "differences.svg").read_text(encoding="utf-8")
    assert figure.count('class="band"') == 2
    table = first[first.index("## All rows") :].split("Seeds 1 to")[0]
    assert table in again
    assert len(list((tmp_path / "differences-quick").glob("*-2"))) == len(two.variants)

    tuned = replace(
        two,
        variants={**two.variants, "static": {**two.variants["static"], "method.name": "moves", "coordinator.tau": 0.5}},
    )
    capsys.readouterr()
    program.reproduced(tuned, way)

    assert "static was tuned anew" in capsys.readouterr().err
