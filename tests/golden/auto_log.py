"""The log of a small run that sees all kinds of drift, rounded; run as a script it renews the golden file."""

import json
import tempfile
from pathlib import Path

from fielding import run
from fielding.records.run_folder import EVENTS
from tests.golden.run_log import logged, write_golden

GOLDEN = Path(__file__).with_name("auto.json")
AUTO = {
    "seed": 3,
    "rounds": 18,
    "trace": {"scenario": "mixed", "clients": 24, "samples": 60, "gap": 6, "window": 12, "share": 0.3, "held_out": 20},
    "training": {"participants": 12},
    "model": {"hidden": 16},
    "coordinator": {"representation": "auto"},
    "evaluation": {"every": 4},
    "workers": 1,
}


def auto_log() -> list[dict[str, object]]:
    """Return the lines of the run, and in which rounds clients saw which kinds of drift."""
    with tempfile.TemporaryDirectory() as folder:
        result = run(AUTO, Path(folder) / "run", page=False)
        events = [json.loads(line) for line in (Path(folder) / "run" / EVENTS).read_text().splitlines()]
    kinds = {str(event["round"]): event["kinds"] for event in events if "kinds" in event}
    return [*logged(result, "auto"), {"method": "auto", "kinds": kinds}]


if __name__ == "__main__":
    write_golden(auto_log(), GOLDEN)
