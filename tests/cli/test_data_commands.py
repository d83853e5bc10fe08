import json
from pathlib import Path

import numpy as np
import pytest

from fielding.traces.trace import Trace, write_trace
from tests.cli.invoke import assert_one_line_error, fielding
from tests.traces.dealt_traces import dealt_trace


def write_csv(path: Path, *, n_days: int = 120) -> Path:
    rng = np.random.default_rng(1)
    lines = ["author,when,area,lines"]
    for day in range(n_days):
        for author in range(12):
            favourite = (author + day // 40) % 3
            area = ["docs", "net", "kernel"][favourite if rng.random() < 0.8 else int(rng.integers(3))]
            when = np.datetime64("2024-01-01") + day
            lines.append(f"a{author:02d},{when},{area},{rng.integers(1, 4)}")
    path.write_text("\n".join(lines))
    return path


COLUMNS = ("--client", "author", "--time", "when", "--label", "area")


def test_a_csv_becomes_a_trace_then_reports_then_a_replay(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "commits.csv")

    made = fielding("data", "import", source, *COLUMNS, "--count", "lines", "--out", tmp_path / "trace.npz", "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout) == {
        "file": str(tmp_path / "trace.npz"),
        "clients": 12,
        "classes": 3,
        "rows": 12 * 120,
    }

    options = ("--reports", "--interval", "1d", "--gap", "1", "--window", "10", "--detector", "any-change")
    told = fielding("data", "import", tmp_path / "trace.npz", *options, "--out", tmp_path / "reports.npz", "--json")
    assert told.returncode == 0, told.stderr
    n_steps = json.loads(told.stdout)["steps"]
    assert 100 < n_steps <= 111

    done = fielding("replay", tmp_path / "reports.npz", "--out", tmp_path / "out", "--json", "--no-page")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["n_steps"] == n_steps


def test_the_calibrated_test_sends_fewer_reports(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "commits.csv")
    counts = {}
    for detector in ("any-change", "chi2", "never"):
        options = ("--reports", "--gap", "1", "--window", "20", "--detector", detector, "--out", tmp_path / "r.npz")
        counts[detector] = json.loads(fielding("data", "import", source, *COLUMNS, *options, "--json").stdout)[
            "reports"
        ]

    assert counts["never"] == 12
    assert 12 < counts["chi2"] < counts["any-change"] / 5


def test_info_tells_a_trace_and_reports_apart(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "commits.csv")
    fielding("data", "import", source, *COLUMNS, "--reports", "--window", "20", "--out", tmp_path / "reports.csv.gz")

    trace = fielding("data", "info", source, *COLUMNS, "--interval", "30d", "--json")
    reports = fielding("data", "info", tmp_path / "reports.csv.gz", "--json")

    assert trace.returncode == 0, trace.stderr
    described = json.loads(trace.stdout)
    assert described["trace"]["n_clients"] == 12
    assert described["trace"]["drift"] > described["trace"]["noise"] > 0
    assert 0 < described["clusters"]["delta_within"] <= 2
    assert reports.returncode == 0, reports.stderr
    assert json.loads(reports.stdout)["reports"]["n_clients"] == 12
    assert json.loads(reports.stdout)["reports"]["delta"] > 0


def test_info_for_people_names_its_numbers_and_answers_the_question(tmp_path: Path) -> None:
    done = fielding("data", "info", write_csv(tmp_path / "commits.csv"), *COLUMNS, "--interval", "30d")

    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    for words in (
        "clients 12",
        "first sample 2024-01-01 00:00 UTC",
        "length of an interval 30 days",
        "(the paper's delta)",
        "(the paper's Delta)",
        "measured on all pairs yes",
    ):
        assert words in told
    names = [line.split("  ")[1] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert not {"drift", "delta"} & set(names)
    verdict, kinds, grouping, advice = done.stdout.splitlines()[:4]
    assert verdict.startswith("does it drift beyond sampling noise? yes: label shares move by")
    assert kinds.startswith("in which way? over time label mixes change (open: inputs, meanings of labels); between")
    assert grouping.startswith("does grouping look worthwhile? perhaps: label mixes differ between clients")
    assert advice.startswith('what to use: label mixes differ: serving.correction = "prior" with method "global"')


def test_info_says_why_there_is_nothing_to_tell(tmp_path: Path) -> None:
    done = fielding("data", "info", write_csv(tmp_path / "commits.csv"), *COLUMNS, "--interval", "1d")

    assert "- (nothing to compare; the verdict says why)" in done.stdout
    assert "length of an interval" in done.stdout
    assert "1 day\n" in done.stdout
    verdict, _, grouping, advice = done.stdout.splitlines()[:4]
    assert verdict.endswith("take a longer --interval")
    assert grouping.startswith("does grouping look worthwhile? cannot be told")
    assert "shape of a sample - (labels alone; name columns with --features or --text)" in " ".join(done.stdout.split())
    assert advice == 'what to use: too little to tell: method "global" is the safe choice'


def test_info_takes_pools_lists_folders_and_known_data_sets(tmp_path: Path) -> None:
    np.savez(tmp_path / "pool.npz", x=np.ones((3, 4, 5)), y=np.array([0, 1, 1]), classes=np.array(["cat", "dog"]))
    for name in ("cat/1.png", "dog/2.png", "dog/3.png"):  # which are never decoded
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).touch()
    (tmp_path / "set" / "which.csv").write_text("file,label\ncat/1.png,cat\ndog/2.png,dog\ndog/3.png,dog\n")
    sizes = {"n_samples": 3, "n_classes": 2, "samples_per_class": {"cat": 1, "dog": 2}}

    told = {}
    for place in ("pool.npz", "set", "set/which.csv"):
        done = fielding("data", "info", tmp_path / place, "--json")
        assert done.returncode == 0, done.stderr
        told[place] = json.loads(done.stdout)
    digits = fielding("data", "info", "digits", cwd=tmp_path)

    for one in told.values():
        assert one.pop("advice").startswith("samples without clients and times do not drift by themselves: choose a")
    assert told["pool.npz"] == {"pool": {**sizes, "shape": [4, 5]}}
    assert told["set"] == told["set/which.csv"] == {"pool": {**sizes, "shape": [32, 32, 3]}}
    assert "samples 1,797 classes 10 shape of a sample 8 x 8" in " ".join(digits.stdout.split())


def test_info_tells_kinds_of_drift_apart_and_what_to_use(tmp_path: Path) -> None:
    write_trace(dealt_trace("covariate", {"alpha": 0.5}), tmp_path / "looks.npz")

    people = fielding("data", "info", tmp_path / "looks.npz", "--interval", "100s")
    programs = fielding("data", "info", tmp_path / "looks.npz", "--interval", "100s", "--json", "--quiet")

    assert people.returncode == 0, people.stderr
    told = " ".join(people.stdout.split())
    over_time, between = told.split("what changes from interval")[1].split("what differs between clients")
    assert "label mix no: " in over_time
    assert "inputs of a label yes: " in over_time
    assert "label mix yes: " in between
    assert "meaning of labels no: " in between
    _, kinds, grouping, advice = people.stdout.splitlines()[:4]
    assert kinds == "in which way? over time inputs change; between clients label mixes and inputs differ"
    assert grouping.startswith("does grouping look worthwhile? yes: inputs differ between clients")
    assert advice.startswith("what to use: inputs differ, which no correction mends")
    described = json.loads(programs.stdout)
    assert programs.stderr == ""
    assert described["between_clients"]["inputs"]["excess"] > 3.0
    assert described["over_time"]["labels"].keys() == {"difference", "excess", "n_pairs", "verdict"}
    assert described["probe"]["accuracy"] > 0.8
    assert list(described)[:4] == ["verdict", "kinds", "grouping", "advice"]
    assert f"what to use: {described['advice']}" == advice


def test_info_looks_at_the_features_that_it_is_told_of(tmp_path: Path) -> None:
    rng, lines = np.random.default_rng(1), ["client,time,label,heart,steps"]
    for at in range(16_000):
        client, label = at % 16, int(rng.integers(2))
        lines.append(f"{client},{at // 16},{label},{rng.normal(3 * label):.3f},{rng.normal(2 * (client % 2)):.3f}")
    (tmp_path / "t.csv").write_text("\n".join(lines))

    done = fielding(
        "data", "info", tmp_path / "t.csv", "--features", "heart,steps", "--interval", "50s", "--json", "-q"
    )

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["trace"]["shape"] == [2]
    assert told["between_clients"]["inputs"]["verdict"].startswith("yes: ")
    assert told["grouping"].startswith("yes: inputs differ")


def test_info_looks_at_the_pixels_of_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL", reason="images need the extra 'images'")
    from tests.traces.pictures import paint

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(1)
    for client in range(4):
        for at in range(120):
            label = int(rng.integers(2))
            shade = int(60 + 80 * label + 40 * (client % 2) + rng.integers(10))
            paint(tmp_path / "set" / f"c{client}" / "ab"[label] / f"IMG_{at}.png", (shade,) * 3, size=(4, 4))

    done = fielding("data", "info", tmp_path / "set", "--json")

    assert done.returncode == 0, done.stderr
    assert "note: " in done.stderr
    assert "<client>/<class>/<image>: 4 clients" in done.stderr
    told = json.loads(done.stdout)
    assert told["trace"]["shape"] == [32, 32, 3]
    assert told["trace"]["n_clients"] == 4
    assert told["probe"]["n_compared"] > 0
    assert "labels alone" not in done.stdout


def test_info_tells_how_train_and_test_are_split_and_warns_of_near_duplicates(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    y = np.repeat(rng.integers(0, 4, 200, dtype=np.int32), 40)  # a sample a minute, the same thing for 40 minutes
    trace = Trace(
        client_ids=("a",),
        client=np.zeros(8000, dtype=np.int32),
        time=np.arange(8000, dtype=np.float64) * 60.0,
        y=y,
        classes=tuple("wxyz"),
    )
    write_trace(trace, tmp_path / "minutes.npz")

    measured = fielding("data", "info", tmp_path / "minutes.npz", "--interval", "1d", "--json", "--quiet")
    by_sample = fielding(
        "data", "info", tmp_path / "minutes.npz", "--interval", "1d", "--block", "none", "--json", "--quiet"
    )
    people = fielding("data", "info", tmp_path / "minutes.npz", "--interval", "1d", "--block", "none")
    wrong = fielding("data", "info", tmp_path / "minutes.npz", "--interval", "1d", "--block", "soon")

    found = json.loads(measured.stdout)
    assert found["split"].keys() == {"block", "chosen", "measured", "is_short", "lags", "by_sample", "by_block"}
    assert (found["split"]["block"], found["split"]["chosen"]) == ("1h", "measured")
    assert found["split"]["lags"]["1m"]["same"] > 0.95
    assert abs(found["split"]["lags"]["1h"]["excess"]) < 0.1
    assert found["split"]["by_sample"]["same"] > 0.95
    assert found["split"]["by_block"]["same"] < 0.75
    assert "warning" not in found
    split = json.loads(by_sample.stdout)
    assert (split["split"]["block"], split["split"]["measured"]) == ("none", "1h")
    assert split["split"]["by_block"] == split["split"]["by_sample"]
    (line,) = [line for line in people.stdout.splitlines() if line.startswith("warning: ")]
    assert line == f"warning: {split['warning']}"
    assert "near-duplicates" in line
    assert 'set trace.block = "1h"' in line
    assert "block of time that is all train or all test none" in " ".join(people.stdout.split())
    assert_one_line_error(wrong, "'soon' is no length of time")


def test_info_of_a_name_that_is_nothing_names_the_nearest(tmp_path: Path) -> None:
    done = fielding("data", "info", "digit", cwd=tmp_path)
    assert_one_line_error(done, "unknown file or data set 'digit'", "did you mean 'digits'")
    assert_one_line_error(fielding("data", "info", "no.csv", cwd=tmp_path), "no.csv", "No such file")


def test_import_tells_how_many_features_it_wrote(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "commits.csv", n_days=3)

    done = fielding("data", "import", source, *COLUMNS, "--features", "lines", "--out", tmp_path / "t.npz", "--json")

    assert json.loads(done.stdout)["features"] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--client", "autor"], ["no column 'autor'", "did you mean 'author'"]),
        (["--interval", "fortnight"], ["'fortnight'"]),
        (["--align", "calender"], ["calender", "calendar"]),
        (["--gap", "0"], ["gap is 0"]),
        (["--clients", "0"], ["0 clients"]),
        (["--last", "-3d"], ["-3d"]),
        (["--detector", "chi"], ["unknown drift test 'chi'", "did you mean 'chi2'"]),
        (["--count", "area"], ["area"]),
    ],
)
def test_a_wrong_option_gets_one_clear_line(tmp_path: Path, options: list[str], words: list[str]) -> None:
    source = write_csv(tmp_path / "commits.csv", n_days=3)

    done = fielding("data", "import", source, *COLUMNS, "--reports", "--out", tmp_path / "r.npz", *options)

    assert_one_line_error(done, *words)
    assert not (tmp_path / "r.npz").exists()


def test_an_output_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "commits.csv", n_days=3)

    done = fielding("data", "import", source, *COLUMNS, "--out", tmp_path / "no" / "such" / "t.npz")

    assert_one_line_error(done, "cannot write", code=1)
