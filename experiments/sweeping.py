"""Many runs, with a line about each on the way."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from fielding.engine.config import Config
from fielding.simulation.sweep import Finished, sweep


def swept(configs: Mapping[str, Config], out: Path, n_jobs: int) -> dict[str, Finished]:
    """Do the runs, telling about each on the way."""
    begun, n_done = time.monotonic(), 0

    def note(one: Finished) -> None:
        nonlocal n_done
        n_done += 1
        what = one.error or f"{float(str((one.summary or {}).get('final_accuracy') or 0)):.4f}"
        minutes = (time.monotonic() - begun) / 60
        print(f"{n_done}/{len(configs)} {one.name}: {what} ({minutes:.1f} min)", file=sys.stderr, flush=True)

    return sweep(configs, out, n_jobs=n_jobs, on_done=note)
