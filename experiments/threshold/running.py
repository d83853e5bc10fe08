"""Runs in the order of their thresholds, so that one that never re-clustered is not done twice."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.sweeping import swept
from experiments.threshold.cases import FIXED, FLOORS, ROWS, Case
from fielding.comparing.sweep import Finished
from fielding.config.keys import Config


def run_all(chosen: Sequence[Case], seeds: Sequence[int], out: Path, n_jobs: int) -> dict[str, Finished]:
    """Do all runs, rising in tau; one that never re-clustered is also the run of every higher threshold.

    Reports of label histograms do not depend on training, so with a higher tau, or with a noise floor, nothing would
    re-cluster either, and everything else is the same to the bit.
    """
    done: dict[str, Finished] = {}
    for wave in waves(chosen):
        left: dict[str, Config] = {}
        for case in wave:
            for seed in seeds:
                name, stand_in = case.run_name(seed), calm_below(case, chosen, done, seed)
                if stand_in is None or (out / name).exists():
                    left[name] = case.config(seed)
                else:
                    done[name] = stand_in
        done |= swept(left, out, n_jobs)
    return done


def waves(chosen: Sequence[Case]) -> list[list[Case]]:
    """Return the cases in the order of their thresholds, all of a tau at a time, without the noise floor first."""
    ranks = sorted({_rank(case) for case in chosen})
    return [[case for case in chosen if _rank(case) == rank] for rank in ranks]


def _rank(case: Case) -> tuple[bool, int]:
    return FLOORS[case.floor], list(ROWS).index(case.row) if case.row in FIXED else 0


def calm_below(case: Case, chosen: Sequence[Case], done: Mapping[str, Finished], seed: int) -> Finished | None:
    """Return a run with a lower threshold that never re-clustered, if there is one."""
    fixed = list(FIXED)
    lower = fixed[: fixed.index(case.row) + 1] if case.row in fixed else []
    for other in chosen:
        same = (other.ground, other.detector) == (case.ground, case.detector) and other.floor in ("off", case.floor)
        one = done.get(other.run_name(seed)) if same and other.row in lower else None
        if one is not None and one.summary is not None and one.summary.get("reclusterings") == 0:
            return one
    return None
