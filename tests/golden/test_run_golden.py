import json

import pytest

from tests.golden.run_log import EXACT, GOLDEN, ROUNDED, run_log


def test_a_run_goes_as_it_always_did() -> None:
    """If this changes on purpose: `python -m tests.golden.run_log`, and a line in the changelog."""
    stored = json.loads(GOLDEN.read_text())
    now = run_log()

    assert [line.keys() for line in now] == [line.keys() for line in stored]
    for line, before in zip(now, stored, strict=True):
        for name in line.keys() - ROUNDED.keys():
            assert line[name] == before[name], (line["method"], line.get("round"), name)
        for name in line.keys() & ROUNDED.keys():
            # A digit may flip where a value lies between two roundings.
            assert line[name] == pytest.approx(before[name], abs=1.5 * 10.0 ** -ROUNDED[name]), (line["round"], name)


def test_the_golden_run_shows_drift_moves_and_a_re_clustering() -> None:
    rounds = [line for line in json.loads(GOLDEN.read_text()) if line["method"] == "fielding" and "round" in line]

    assert set(EXACT) <= rounds[0].keys()
    assert sum(line["n_moved"] for line in rounds) > 5
    assert any(line["n_straggler"] for line in rounds)
