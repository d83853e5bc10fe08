"""The most memory that was held so far."""

import json
import subprocess
import sys

import pytest

from fielding.engine.round import peak_bytes

HELD = 1 << 26
# Runs in a new process: this one may have held much more already.
PROBE = f"""
import json
from fielding.engine.round import peak_bytes
before = peak_bytes()
held = b"x" * {HELD}
during = peak_bytes()
del held
print(json.dumps([before, during, peak_bytes()]))
"""


def test_it_rises_with_what_is_held_and_stays_when_that_is_let_go() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    before, during, after = json.loads(done.stdout)

    # Systems count roughly, and what the process let go before is held again first.
    assert during >= before + HELD // 2
    assert after >= before + HELD // 2


def test_it_is_unknown_where_the_system_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_arguments: object, **_options: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr("fielding.engine.round.Path.read_text", missing)
    found = peak_bytes()
    assert found is not None, "without /proc another call tells"
    assert found > HELD // 8

    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_bytes() is None
