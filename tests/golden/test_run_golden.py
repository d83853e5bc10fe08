import json

from tests.golden.run_log import EXACT, GOLDEN, check_alike, run_log


def test_a_run_goes_as_it_always_did() -> None:
    """If this changes on purpose: `python -m tests.golden.run_log`, and a line in the changelog."""
    check_alike(run_log(), json.loads(GOLDEN.read_text()))


def test_the_golden_run_shows_drift_moves_and_a_re_clustering() -> None:
    rounds = [line for line in json.loads(GOLDEN.read_text()) if line["method"] == "fielding" and "round" in line]

    assert set(EXACT) <= rounds[0].keys()
    assert sum(line["n_moved"] for line in rounds) > 5
    assert any(line["n_straggler"] for line in rounds)
