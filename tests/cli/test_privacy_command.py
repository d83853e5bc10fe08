import json
from pathlib import Path

from tests.cli.invoke import assert_one_line_error, fielding

RUN = """
rounds = 8
workers = 1
[trace]
clients = 8
gap = 2
window = 4
[training]
participants = 4
local_steps = 2
[privacy]
mode = "record"
epsilon = 3
reports_per_window = 2
"""


def test_a_run_is_told_with_its_worst_client_and_what_was_sent_when(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN)
    done = fielding("run", tmp_path / "run.toml", "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 0, done.stderr

    record = json.loads(fielding("privacy", tmp_path / "run", "--json").stdout)
    text = fielding("privacy", tmp_path / "run").stdout
    one = json.loads(fielding("privacy", tmp_path / "run", "--client", "5", "--json").stdout)

    assert (record["epsilon"], record["reports_per_window"], record["window"]) == (3.0, 2, 4)
    assert record["epsilon_spent"] == 3.0
    assert record["reports"][0] == {"round": 0, "reports": 8, "epsilon": 1.5}
    assert sum(row["reports"] for row in record["reports"]) == record["n_reports"] > 16
    assert "epsilon per window  3 (2 reports in 4 rounds)" in text
    assert "spent at most       3 by client" in text
    assert one["worst_client"] == 5
    assert one["n_clients"] == 1
    assert one["n_reports"] in (3, 4)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "cannot" not in page.partition("<main")[0]
    assert '"title":"Privacy"' in page
    assert '"report","3.000"' in page
    why = fielding("show", tmp_path / "run", "--client", "5", "--round", "0")
    assert why.returncode == 0, why.stderr


def test_a_line_that_a_crash_cut_short_counts(tmp_path: Path) -> None:
    (tmp_path / "privacy.jsonl").write_text(
        '{"rule": {"epsilon": "1", "reports": 2, "window": 10}}\n'
        '{"round": 0, "client": "device", "epsilon": "1/2", "next": 5}\n{"round": 7, "cl'
    )

    text = fielding("privacy", tmp_path).stdout

    assert "spent at most       0.5 by client device" in text
    assert "cut short           1 lines by a crash" in text


def test_what_is_no_private_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()

    assert_one_line_error(fielding("privacy", tmp_path), "holds no privacy.jsonl")
    assert_one_line_error(fielding("privacy", "a.toml"), "type fielding privacy plan a.toml")
    assert_one_line_error(fielding("privacy", "plan"), "type fielding privacy plan CONFIG")
    assert_one_line_error(fielding("privacy", tmp_path, "a.toml"), "a.toml is one too many")
    assert_one_line_error(fielding("privacy", "plan", tmp_path / "none.toml"), "none.toml")
    assert_one_line_error(fielding("privacy", tmp_path / "empty.jsonl"), "holds no rule of private reports")
