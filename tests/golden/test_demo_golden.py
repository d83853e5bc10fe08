import json

from tests.golden.demo_log import GOLDEN, demo_log


def test_the_embedded_example_decides_as_it_always_did() -> None:
    """If this changes on purpose: `python -m tests.golden.demo_log`, and a line in the changelog."""
    assert demo_log() == json.loads(GOLDEN.read_text())


def test_the_same_seed_gives_the_same_log() -> None:
    assert demo_log() == demo_log()
