import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fielding._typing import Json
from fielding.reporting.comparison_tables import (
    comparison_table,
    escape_latex,
    escape_markdown,
    latex_table,
    markdown_table,
    means_csv,
    page_words,
    runs_csv,
    table_words,
    write_tables,
)
from fielding.reporting.numbers.comparison import compare_groups
from fielding.reporting.numbers.groups import gather_runs
from tests.reporting.run_folders import compared, round_rows, run_folder

LEVELS = {"fielding": (0.7, 0.81, 0.75), "ifca": (0.71, 0.8, 0.73), "global": (0.5, 0.6, 0.55)}


def summary_of(folder: Path, levels: Mapping[str, Sequence[float]]) -> Any:
    curves = {name: {seed: [0.1, one, one, one] for seed, one in enumerate(mine, 1)} for name, mine in levels.items()}
    return json.loads(json.dumps(compare_groups(gather_runs([compared(folder, curves)]))))


@pytest.fixture
def summary(tmp_path: Path) -> Any:
    return summary_of(tmp_path / "runs", LEVELS)


def renamed(summary: Any, before: str, after: str) -> Any:
    """Return a summary in which a method has another name."""
    return json.loads(json.dumps(summary).replace(json.dumps(before), json.dumps(after)))


def by_head(table: list[list[str]]) -> dict[str, list[str]]:
    return {head: list(cells) for head, *cells in zip(*table, strict=True)}


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_terminal_shows_a_row_for_each_method(summary: Any) -> None:
    table = by_head(comparison_table(summary))

    assert table["method"] == ["fielding", "global", "ifca"]
    assert table["final accuracy"] == ["0.753 ± 0.137*", "0.550 ± 0.124", "0.747 ± 0.117*"]
    assert table["minus global"][0] == "+0.203 ± 0.014"
    assert table["minus global"][1] == table["p"][1] == "-"
    assert table["minutes to target"] == ["2.00", "2.00", "2.00"]
    # A method is as fast as itself.
    assert table["speed-up"] == ["1.00 [1.00, 1.00]", "1.00", "1.00 [1.00, 1.00]"]
    assert table["moves"] == ["-", "-", "-"]
    assert "corrected" not in table
    assert "seeds" not in table


def test_the_caption_tells_seeds_intervals_marks_and_target(summary: Any) -> None:
    words = table_words(summary)

    assert words.startswith("Means over 3 seeds ± half of the 95 % t-interval.")
    assert "*: best, or not clearly worse than the best" in words
    assert "final accuracy of global on the same seed (0.550 on average)" in words


def test_metrics_of_ones_own_have_columns_with_intervals_and_no_marks(tmp_path: Path) -> None:
    for method, mine in LEVELS.items():
        for seed, one in enumerate(mine, 1):
            more: dict[str, list[Json]] = {
                "metric/f1": [one] * 4,
                "next_metric/f1": [None] * 4,
                "served_next_metric/f1": [one] * 4,
                "metric/error": [1000 * one] * 4,
            }
            run_folder(tmp_path / f"{method}-{seed}", round_rows([one] * 4, **more), method=method, seed=seed)
    summary: Any = compare_groups(gather_runs([tmp_path]))
    table = by_head(comparison_table(summary))

    assert summary["methods"]["global"]["final_metric/f1"]["per_seed"] == [0.5, 0.6, 0.55]
    assert summary["methods"]["global"]["final_next_metric/f1_served"]["mean"] == pytest.approx(0.55)
    assert table["f1"] == table["f1 (next, served)"] == ["0.753 ± 0.137", "0.550 ± 0.124", "0.747 ± 0.117"]
    assert table["error"] == ["753 ± 137", "550 ± 124", "747 ± 117"]
    assert "f1 (next)" not in table  # no run has it
    assert "Metrics of one's own (error, f1) are means over clients; none is marked as best" in table_words(summary)
    assert "| f1 |" in markdown_table(summary)
    assert "& f1 &" in latex_table(summary)
    assert "f1 (next, served)" not in latex_table(summary)


def test_nothing_is_marked_for_one_seed(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, {"fielding": (0.9,), "global": (0.1,)})

    assert by_head(comparison_table(summary))["final accuracy"] == ["0.900", "0.100"]
    assert by_head(comparison_table(summary))["p"] == ["-", "-"]
    assert table_words(summary).startswith("One seed: no intervals, no tests")
    assert "**" not in markdown_table(summary)
    assert "textbf" not in latex_table(summary)


def test_seeds_that_a_method_lacks_and_targets_it_never_reached_are_shown(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, {"fielding": (0.6, 0.1), "ifca": (0.1,), "global": (0.5, 0.5)})

    table = by_head(comparison_table(summary))

    assert table["seeds"] == ["2", "2", "1"]
    assert table["minutes to target"] == ["2.00 (1/2)", "2.00", "never"]
    assert table["speed-up"] == ["1.00 (1/2)", "1.00", "-"]


def test_runs_that_are_missing_are_counted(summary: Any) -> None:
    summary |= {"failed": [{"method": "ifca", "seed": 4, "error": "no"}], "unfinished": [{}, {}]}

    assert table_words(summary).endswith("Runs that are missing here: 1 failed, 2 unfinished.")


def test_a_method_without_a_finished_run_has_dashes(summary: Any) -> None:
    summary["methods"]["ifca"] = {"n_seeds": 0}
    summary["paired"]["ifca"] = summary["best"] = {}

    row = next(row for row in comparison_table(summary) if row[0] == "ifca")

    assert row[1] == "0"
    assert set(row[2:]) == {"-", "-/-"}


def test_markdown_marks_in_bold_and_aligns_numbers(summary: Any) -> None:
    head, rule, first, *_ = markdown_table(summary).splitlines()

    assert head.startswith("| method | final accuracy | minus global | p |")
    assert rule.startswith("| --- | ---: | ---: |")
    assert first.startswith("| fielding | **0.753 ± 0.137** | +0.203 ± 0.014 |")
    assert "Bold: best, or not clearly worse" in markdown_table(summary)


def test_latex_marks_in_bold_between_the_rules_of_booktabs(summary: Any) -> None:
    lines = latex_table(summary).splitlines()

    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert len(body) == 3
    assert body[0].startswith(r"fielding & \textbf{0.753 $\pm$ 0.137} & +0.203 $\pm$ 0.014 &")
    assert all(line.endswith(r" \\") and line.count(" & ") == body[0].count(" & ") for line in body)
    assert body[2].startswith(r"ifca & \textbf{0.747 $\pm$ 0.117}")
    assert " & -- & -- & " in body[1]


def test_a_negative_number_has_a_minus_in_latex(tmp_path: Path) -> None:
    worse = summary_of(tmp_path, {"fielding": (0.3, 0.4), "global": (0.5, 0.6)})

    assert "$-$0.200 $\\pm$ 0.000" in latex_table(worse)


def test_latex_has_few_columns_a_short_caption_a_label_and_the_notes_below(summary: Any) -> None:
    lines = latex_table(summary).splitlines()

    head = lines[lines.index(r"\toprule") + 1]
    assert head == r"method & accuracy & minus global & p & worst tenth & minutes to target & speed-up \\"
    assert r"\caption{Comparison over 3 seeds.}" in lines
    assert r"\label{tab:comparison}" in lines
    notes = next(at for at, line in enumerate(lines) if r"95 \% t-interval" in line)
    assert notes > lines.index(r"\end{tabular}%")
    assert len(lines[notes]) < 120
    assert lines[notes + 1].startswith("% Differences to global are seed by seed")


def test_latex_has_what_clients_are_served_where_a_method_has_experts(tmp_path: Path) -> None:
    for method, served in (("global", {}), ("fielding", {"served_accuracy": [0.75] * 4})):
        run_folder(tmp_path / f"{method}-1", round_rows([0.5] * 4, **served), method=method, seed=1)
    latex = latex_table(compare_groups(gather_runs([tmp_path])))

    assert " & served & " in latex
    assert "0.750" in latex


def test_latex_says_which_letters_need_another_program(summary: Any) -> None:
    assert "xelatex" not in latex_table(renamed(summary, "ifca", "Größe \u2013 τ ≥ 1"))

    needed = latex_table(renamed(summary, "ifca", "ℵ 名")).splitlines()[1]

    assert needed == "% Needs xelatex or lualatex and a font that has: ℵ 名"


def test_latex_does_not_ask_for_letters_that_only_comments_have(summary: Any) -> None:
    assert "xelatex" in latex_table(renamed(summary, "global", "名"))  # the reference stands in a row, too
    assert "xelatex" not in latex_table(renamed(summary, "global", "θ"))  # and, as it is, in a comment


def test_speedup_has_an_interval_from_three_seeds_on_and_tells_how_many(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, {"fielding": (0.6, 0.6, 0.6, 0.1), "global": (0.5,) * 4})
    few = summary_of(tmp_path / "few", {"fielding": (0.6, 0.6, 0.1), "global": (0.5,) * 3})

    assert "| 2.00 (3/4) | 1.00 [1.00, 1.00] (3/4) |" in markdown_table(summary).replace("\\", "")
    assert "| 1.00 (2/3) |" in markdown_table(few)


def test_a_target_that_nobody_knows_is_not_one_that_was_never_reached(summary: Any) -> None:
    for figures in summary["methods"].values():
        figures |= {"n_targets": 0, "time_to_target_s": {"per_seed": [None] * 3}, "speedup": {"mean": None}}

    table = by_head(comparison_table(summary))

    assert table["minutes to target"] == table["speed-up"] == ["-", "-", "-"]


def test_two_seeds_are_too_few_for_marks_and_four_are_few(tmp_path: Path) -> None:
    two, three, five = (
        summary_of(tmp_path / str(n_seeds), {"fielding": (0.6,) * n_seeds, "global": (0.5,) * n_seeds})
        for n_seeds in (2, 3, 5)
    )

    assert "Nothing is marked as best: that takes three seeds." in table_words(two)
    assert "With fewer than five seeds only large differences are clear." in table_words(three)
    assert "fewer than five" not in table_words(five)


def test_several_references_are_named_and_notes_are_told(summary: Any) -> None:
    summary["methods"]["ifca"] |= {"reference": "other", "target_of": "other"}
    summary["notes"] = ["Beware\x1b."]

    assert "minus reference" in comparison_table(summary)[0]
    assert "Differences to whichever of global, other has the same settings are" in table_words(summary)
    assert "best among those compared with the same" in table_words(summary)
    assert table_words(summary).endswith("Beware?.")


def test_where_no_run_is_finished_nothing_is_said_of_means(summary: Any) -> None:
    summary["methods"] = {name: {"n_seeds": 0} for name in summary["methods"]}
    summary["failed"] = [{}]

    assert table_words(summary) == "No run is finished. Runs that are missing here: 1 failed."


@pytest.mark.parametrize(
    ("text", "latex", "markdown"),
    [
        ("a_b", r"a\_b", r"a\_b"),
        ("a & b", r"a \& b", "a &amp; b"),
        ("a|b", r"a\textbar{}b", r"a\|b"),
        ("50 %", r"50 \%", "50 %"),
        ("τ ≤ 1", r"$\tau$ $\le$ 1", "τ ≤ 1"),
        (r"\input{x}", r"\textbackslash{}input\{x\}", r"\\input{x}"),
        ("$x^2$ #1 ~", r"\$x\textasciicircum{}2\$ \#1 \textasciitilde{}", r"$x^2$ \#1 \~"),
        ("<script>", r"\textless{}script\textgreater{}", "&lt;script&gt;"),
        ("[x](y)*`", "{[}x{]}(y){*}`", r"\[x\](y)\*\`"),
        ("two\nlines\x1b[0m", "two lines?{[}0m", r"two lines?\[0m"),
    ],
)
def test_texts_are_shown_as_they_are(text: str, latex: str, markdown: str) -> None:
    assert escape_latex(text) == latex
    assert escape_markdown(text) == markdown


HOSTILE = ["=cmd|' /C calc'!A0", 'a, "b"\nc', "x | y & z_1 \\\\ [2]", "<img src=x onerror=alert(1)>", "\x1b[2J"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_break_no_table(summary: Any, name: str) -> None:
    odd = renamed(summary, "ifca", name)

    plain = markdown_table(summary).splitlines()
    lines = markdown_table(odd).splitlines()
    assert len(lines) == len(plain)
    assert {_n_bars(line) for line in lines[:5]} == {_n_bars(plain[0])}
    assert latex_table(odd).count("\\\\\n") == latex_table(summary).count("\\\\\n")
    assert {len(row) for row in comparison_table(odd)} == {len(comparison_table(summary)[0])}
    assert "\x1b" not in "".join(map("".join, comparison_table(odd))) + markdown_table(odd) + latex_table(odd)
    assert "<img" not in markdown_table(odd)
    for text in (means_csv(odd), runs_csv(odd)):
        rows = rows_of(text)
        assert all(None not in row and None not in row.values() for row in rows)
        assert not any(row["method"].startswith("=") for row in rows)


def _n_bars(line: str) -> int:
    """Return the number of borders in a line of a Markdown table, escaped bars not counted."""
    return line.replace(r"\\", "").replace(r"\|", "").count("|")


def test_names_that_csv_must_quote_come_back(summary: Any) -> None:
    odd = renamed(summary, "ifca", 'a, "b"')

    assert [row["method"] for row in rows_of(means_csv(odd))] == ["fielding", "global", 'a, "b"']


def test_the_csv_of_means_holds_intervals_and_tests(summary: Any) -> None:
    first, reference, _ = rows_of(means_csv(summary))

    record = summary["methods"]["fielding"]["final_accuracy"]
    assert float(first["final_accuracy"]) == record["mean"]
    assert [float(first[f"final_accuracy_{end}"]) for end in ("low", "high")] == record["ci95"]
    gain = summary["paired"]["fielding"]["final_accuracy"]
    assert float(first["final_accuracy_difference"]) == gain["mean"]
    assert float(first["final_accuracy_p_holm"]) == gain["p_holm"]
    assert reference["final_accuracy_difference"] == first["heterogeneity"] == ""


def test_the_csv_of_runs_has_a_row_for_each_finished_run(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, {"fielding": (0.6, 0.7), "global": (0.5,)})

    rows = rows_of(runs_csv(summary))

    assert [(row["method"], row["seed"]) for row in rows] == [("fielding", "1"), ("fielding", "2"), ("global", "1")]
    assert [float(row["final_accuracy"]) for row in rows] == [0.6, 0.7, 0.5]
    assert rows[1]["rounds_to_target"] == ""  # no global model on that seed
    assert {"wall_s", "jain_index", "drift_dip", "bytes_up_report"} <= set(rows[0])


def test_all_tables_are_written(summary: Any, tmp_path: Path) -> None:
    paths = write_tables(tmp_path, summary)

    assert [path.name for path in paths] == ["table.md", "table.csv", "table.tex", "runs.csv"]
    assert (tmp_path / "table.tex").read_text() == latex_table(summary)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted(path.name for path in paths)


def test_intervals_end_where_no_value_can_be_and_cells_say_so(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, {"fielding": (0.6, 0.1), "global": (0.5, 0.5)})

    (row, _) = csv.DictReader(io.StringIO(means_csv(summary)))

    assert (row["final_accuracy_low"], row["final_accuracy_high"]) == ("0.0", "1.0")
    assert float(row["final_accuracy_difference_low"]) < -1.0, "a difference is no share"
    assert by_head(comparison_table(summary))["final accuracy"] == ["0.350 [0.000, 1.000]", "0.500 ± 0.000"]


def test_the_three_scores_and_both_differences_stand_side_by_side(tmp_path: Path) -> None:
    for method, levels in {"fielding": (0.5, 0.75, 0.625), "global": (0.25, 0.25, 0.5)}.items():
        for seed, level in enumerate(levels, 1):
            more: dict[str, Any] = {"newest_accuracy": [level] * 2, "next_accuracy": [level - 0.25] * 2}
            run_folder(tmp_path / f"{method}-{seed}", round_rows([level] * 2, **more), method=method, seed=seed)
    summary = json.loads(json.dumps(compare_groups(gather_runs([tmp_path]))))

    heads = ["method", "final accuracy", "newest", "next", "minus global", "p", "next minus global", "p, next"]
    assert comparison_table(summary)[0][: len(heads)] == heads
    assert markdown_table(summary).startswith(f"| {' | '.join(heads)} |")
    assert latex_table(summary).count("next minus global") == 1
    assert "better on the window and on next" in table_words(summary)
    (row, _) = rows_of(means_csv(summary))
    assert float(row["final_next_accuracy"]) == 0.375
    assert float(row["final_next_accuracy_difference"]) == pytest.approx(0.875 / 3)
    assert [float(one["final_next_accuracy"]) for one in rows_of(runs_csv(summary))] == [
        0.25,
        0.5,
        0.375,
        0.0,
        0.0,
        0.25,
    ]


def test_the_page_folds_away_how_to_read_the_table(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, {"fielding": (0.6, 0.1), "global": (0.5, 0.5)})
    summary["failed"] = [{}]

    text, more = page_words(summary)

    assert text == (
        "Means over 2 seeds ± half of the 95 % t-interval, in brackets its ends where 0 or 1 cuts it off. "
        "Runs that are missing here: 1 failed."
    )
    assert more.startswith("Differences to global")
    assert "(2/3): on two of the three seeds" in more
    assert sorted(table_words(summary).split()) == sorted(f"{text} {more}".split())
