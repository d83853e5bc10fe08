import json

from tests.golden.auto_log import GOLDEN, auto_log
from tests.golden.run_log import check_alike


def test_a_run_that_sees_all_kinds_of_drift_goes_as_it_always_did() -> None:
    """If this changes on purpose: `python -m tests.golden.auto_log`, and a line in the changelog."""
    check_alike(auto_log(), json.loads(GOLDEN.read_text()))


def test_the_golden_run_shows_drift_of_several_kinds_and_clusters() -> None:
    lines = json.loads(GOLDEN.read_text())
    reports = [line["n_reports"] for line in lines if line.get("n_reports")]
    rounds = [line for line in lines if "n_reports" in line]

    assert reports[0] == 24, "all report as soon as there is a shared model"
    assert sum(reports[1:]) > 5
    assert max(line["n_clusters"] for line in rounds) > 1
    assert len({kind for seen in lines[-1]["kinds"].values() for kind in seen}) > 1
