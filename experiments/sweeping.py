"""Many runs, with a line about each on the way."""

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from fielding._typing import Json
from fielding.comparing.sweep import Finished, sweep
from fielding.config.keys import Config
from fielding.records.plan import read_plan, write_plan


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


def forget_changed(folder: Path, settings: Mapping[str, Mapping[str, Json]]) -> None:
    """Remove from the folder of a comparison the runs of rows that were tuned anew since; the others stay."""
    plan = read_plan(folder)
    if plan is None:
        return
    stale = [one for one in plan.variants if one.name in settings and dict(one.settings) != dict(settings[one.name])]
    for one in stale:
        print(f"{one.name} was tuned anew: it is run again", file=sys.stderr, flush=True)
        for seed in plan.seeds:
            shutil.rmtree(folder / plan.folder_of(one, seed), ignore_errors=True)
    kept = tuple(one for one in plan.variants if one not in stale)
    if not kept:
        shutil.rmtree(folder)
    elif stale:
        names = [one.name for one in kept]
        write_plan(
            folder, replace(plan, variants=kept, reference=plan.reference if plan.reference in names else names[0])
        )
