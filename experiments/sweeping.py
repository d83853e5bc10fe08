"""Many runs, with a line about each on the way."""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fielding.comparing.sweep import Finished, sweep
from fielding.config.keys import Config


def telling(n_runs: int, name: str = "") -> Callable[[Finished], None]:
    """Return what prints a line about each run that is done."""
    begun, n_done = time.monotonic(), 0

    def tell(one: Finished) -> None:
        nonlocal n_done
        n_done += 1
        what = one.error or f"{float(str((one.summary or {}).get('final_accuracy') or 0)):.4f}"
        minutes = (time.monotonic() - begun) / 60
        print(f"{name}{n_done}/{n_runs} {one.name}: {what} ({minutes:.1f} min)", file=sys.stderr, flush=True)

    return tell


def swept(configs: Mapping[str, Config], out: Path, n_jobs: int) -> dict[str, Finished]:
    """Do the runs, telling about each on the way."""
    return sweep(configs, out, n_jobs=n_jobs, on_done=telling(len(configs)))
