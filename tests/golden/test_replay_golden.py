import json

from tests.golden.replay_log import GOLDEN, replay_log


def test_the_coordinator_decides_as_it_always_did() -> None:
    """If this changes on purpose: `python -m tests.golden.replay_log`, and a line in the changelog."""
    assert replay_log() == json.loads(GOLDEN.read_text())


def test_the_same_seed_gives_the_same_log() -> None:
    assert replay_log() == replay_log()
