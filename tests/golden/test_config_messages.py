"""Every message about a mistake in a config stays as it is, word for word."""

import json

from tests.golden.config_messages import GOLDEN, TAKEN, messages
from tests.golden.config_mistakes import keys, parts


def stored() -> dict[str, str]:
    told: dict[str, str] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return told


def test_users_are_told_of_mistakes_in_the_words_that_they_always_were() -> None:
    """If this changes on purpose: `python -m tests.golden.config_messages`, and a line in the changelog."""
    before, now = stored(), messages()
    differing = [
        f"{name}\n  before: {before.get(name, 'not asked')}\n  now:    {now.get(name, 'not asked')}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]

    assert not differing, f"{len(differing)} of {len(now)} messages differ:\n" + "\n".join(differing)


def test_every_key_and_every_part_is_got_wrong() -> None:
    told = stored()
    refused = "\n".join(name for name, message in told.items() if message != TAKEN)

    assert len(keys()) > 70
    assert len(parts()) > 60
    assert [key.path for key in keys() if f"\nrun: {key.path} = " not in f"\n{refused}"] == []
    assert [part.name for part in parts() if f" {part.name}s" not in refused] == []


def test_what_is_stored_are_messages_of_one_line() -> None:
    told = stored()

    assert sum(message == TAKEN for message in told.values()) < len(told) / 10
    assert [name for name, message in told.items() if "CRASH" in message or not message.isprintable()] == []
