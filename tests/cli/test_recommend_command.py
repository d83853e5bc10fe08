"""`fielding recommend`: three rows on the user's own data, both scores, what they cost, and what to take."""

import json
import re
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.cli.recommend import advice, recommendation_table, seen_words, shortened
from fielding.config.keys import Config
from fielding.config.reader import config_from, config_table
from tests.cli.invoke import assert_one_line_error, fielding
from tests.comparing.forked import FORKING

SMALL = """
rounds = 300
[trace]
scenario = "static"
clients = 8
samples = 12
gap = 4
window = 8
[training]
participants = 3
local_steps = 2
batch_size = 5
learning_rate = 0.2
[coordinator]
tau = 0.25
"""


def summary_of(**differences: tuple[float, float]) -> dict[str, Json]:
    """Return a summary in which auto differs from global by so much, on two seeds, on the window and the next score."""
    figures: dict[str, Json] = {
        name: {"per_seed": [0.5, 0.6]} for name in ("final_accuracy_served", "final_next_accuracy_served")
    }
    paired: dict[str, Json] = {
        f"final_{name}_served": {"per_seed": [mean - spread, mean + spread]}
        for name, (mean, spread) in differences.items()
    }
    return {"methods": {"global": figures, "auto": figures}, "paired": {"auto": paired}}


def test_three_rows_are_run_on_the_data_of_a_config_alone_and_told_as_they_serve(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(SMALL)

    typed = ("recommend", "mine.toml", "--rounds", "6", "--seeds", "2", "--jobs", "1")
    done = fielding(*typed, cwd=tmp_path, code=FORKING)

    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / "mine-recommend"
    summary = json.loads((folder / "summary.json").read_text())
    assert list(summary["methods"]) == ["global", "paper", "auto"]
    runs = [json.loads(path.read_text())["config"] for path in sorted(folder.glob("*/manifest.json"))]
    assert {one["rounds"] for one in runs} == {6}
    assert {one["training"]["momentum"] for one in runs} == {0.0}, "all train alike"
    assert {one["training"]["learning_rate"] for one in runs} == {0.2}
    for words in ("window", "next interval", "worst tenth", "sent to clients", "paper", "page:"):
        assert words in done.stdout
    assert "saw 6 of 300 rounds" in done.stdout
    assert re.search(r"auto, seed 1: done, final accuracy [0-9.]+ .*, served [0-9.]+", done.stderr)
    assert "final_accuracy_served" in summary["methods"]["auto"]
    assert "final_accuracy_served" in summary["methods"]["global"]


def test_a_trace_is_seen_to_its_end_and_what_is_left_out_is_told() -> None:
    def config(rounds: int, **trace: Json) -> Config:
        return config_from({"rounds": rounds, "trace": {"file": "v.csv", "features": "a", **trace}})

    def short(whole: Config) -> Config:
        return config_from({**config_table(whole), **shortened(whole)})

    whole, long = config(150, gap=10, window=50), config(1000, gap=50, window=250)
    endless, dense = config_from({"rounds": 150}), config(900, gap=1, window=5)

    assert short(whole).rounds == 150
    assert seen_words(whole, short(whole)) == ""
    assert (short(long).rounds, short(long).trace.gap, short(long).trace.window) == (200, 10, 50)
    assert seen_words(long, short(long)).startswith("10 rounds between arrivals in place of 50")
    assert short(endless).rounds == 80
    assert seen_words(endless, short(endless)) == "saw 80 of 150 rounds"
    assert seen_words(dense, short(dense)) == "saw 200 of 900 rounds"


def test_nothing_is_known_of_differences_on_one_seed(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(SMALL)

    done = fielding("recommend", str(config), "--seeds", "1", cwd=tmp_path)

    assert_one_line_error(done, "give at least 2")
    assert not (tmp_path / "runs").exists()


def test_a_config_with_a_mistake_is_told_in_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(SMALL.replace("scenario", "scenarro"))

    done = fielding("recommend", str(config), cwd=tmp_path)

    assert_one_line_error(done, "scenarro")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("window", "then", "words"),
    [
        ((0.05, 0.001), (0.04, 0.001), "take auto"),
        ((-0.05, 0.001), (0.04, 0.001), 'take method "global"'),
        ((0.05, 0.001), (0.0, 0.02), "make no difference"),
    ],
)
def test_clusters_are_advised_where_they_gain_on_both_scores(
    window: tuple[float, float], then: tuple[float, float], words: str
) -> None:
    told = advice(summary_of(accuracy=window, next_accuracy=then))

    assert words in told[-1]
    assert len(told) == 3


def test_a_row_that_failed_leaves_nothing_to_advise() -> None:
    assert advice({"methods": {"global": {}}, "paired": {}}) == ["runs of global or auto failed: nothing to advise"]
    assert recommendation_table({"methods": {"global": {}}})[1][0] == "global"
