"""The demo: Fielding, parts of it and one global model on digits whose clients move between places, over some seeds."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fielding._typing import Json
from fielding._version import __version__
from fielding.atomic import replaced_file
from fielding.engine.config import Config
from fielding.engine.config_reader import config_from
from fielding.errors import InputError
from fielding.records.lock import locked_folder
from fielding.records.manifest import difference, write_json
from fielding.records.run_folder import MANIFEST, PAGE, SUMMARY
from fielding.reporting.comparison import comparison
from fielding.reporting.demo_page import demo_page
from fielding.reporting.demo_rasters import Truth
from fielding.simulation.experiment import Result, Start, run
from fielding.simulation.sources import dealt_samples
from fielding.traces.sliding import SlidingWindows

METHODS = ("fielding", "moves", "static", "global")
"""Each lacks something that the one before it has: grouping everyone anew, moving drifted clients, clusters."""
FIRST_METHODS = ("fielding", "global")
"""Of the first demos, whose manifests do not name their methods."""
N_ROUNDS = 200
SETTINGS: dict[str, Json] = {
    "preset": "paper",
    "rounds": N_ROUNDS,
    "trace": {"name": "digits", "scenario": "places", "clients": 100, "gap": 20, "window": 20, "samples": 100},
    "model": {"name": "mlp", "hidden": 64},
    "training": {"participants": 20, "local_steps": 20, "batch_size": 20, "learning_rate": 0.05},
}
"""What all methods share; all other keys have the defaults of the preset. Not tuned, but for the window: with one of
100 rounds clusters do not win, and docs/demo.md says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the demo has come.

    Parameters
    ----------
    method, seed
        Of the run in hand.
    n_rounds
        Rounds that are done, over all runs.
    accuracy
        The newest of this run, None before the first.
    """

    method: str
    seed: int
    n_rounds: int
    accuracy: float | None


def demo_config(method: str, seed: int, settings: Mapping[str, Json] = SETTINGS) -> Config:
    """Return the config of one run.

    Examples
    --------
    >>> config = demo_config("global", 3)
    >>> config.method.name, config.seed, config.training.momentum
    ('global', 3, 0.9)
    """
    return config_from({**settings, "seed": seed, "method": {"name": method}})


def run_demo(
    out: Path,
    n_seeds: int,
    *,
    watch: Callable[[Progress], bool] = lambda _progress: True,
    settings: Mapping[str, Json] = SETTINGS,
) -> dict[str, Json] | None:
    """Run all methods on seeds 1 to ``n_seeds`` into a folder, or go on where an earlier demo there was stopped.

    Parameters
    ----------
    out
        Each run goes into a folder ``METHOD-SEED`` in it; ``summary.json`` and ``report.html`` are written last.
    n_seeds
        At least 1.
    watch
        Called after each round; a False stops the demo.
    settings
        What all runs share, as a config table.

    Returns
    -------
    The content of ``summary.json``; None if the demo was stopped.

    Raises
    ------
    InputError
        If there is something else in the folder.
    """
    if n_seeds < 1:
        raise InputError(f"the number of seeds is {n_seeds}; give at least 1")
    lock = locked_folder(out)
    try:
        _claim(out, settings)
        runs: dict[str, list[list[dict[str, Json]]]] = {method: [] for method in METHODS}
        for seed in range(1, n_seeds + 1):
            for method in METHODS:
                result = _run_one(out, demo_config(method, seed, settings), watch)
                if result.summary is None:
                    return None
                runs[method].append(result.rounds)
        seeds = list(range(1, n_seeds + 1))
        summary = comparison(runs, seeds)
        folders = {method: [out / f"{method}-{seed}" for seed in seeds] for method in METHODS}
        with replaced_file(out / PAGE) as file:
            file.write(demo_page(folders, summary, truth_of(demo_config(METHODS[0], 1, settings))).encode())
        write_json(out / SUMMARY, summary)
        return summary
    finally:
        lock.close()


def truth_of(config: Config) -> Truth:
    """Return where each client really is, for the rounds in which that may change."""
    dealt = dealt_samples(config.trace, rounds=config.rounds, seed=config.seed)
    windows = SlidingWindows(dealt.pool, dealt.schedule, dealt.plan)
    complete = np.array([windows.n_complete(at) for at in range(config.rounds)])
    rounds = [0, *(1 + np.flatnonzero(np.diff(complete))).tolist()]
    found = [windows.concepts(at) for at in rounds]
    places = [one for one in found if one is not None]
    if len(places) != len(rounds):
        raise InputError("the truth about a natural trace is not known; choose a scenario")
    return Truth(rounds=rounds, client_ids=dealt.schedule.client_ids, places=np.stack(places).astype(np.int32))


def _claim(out: Path, settings: Mapping[str, Json]) -> None:
    """Make a folder the demo's own, or raise: nothing of others, no other numbers and no other version are mixed in."""
    manifest: dict[str, Json] = {"methods": list(METHODS), "demo": dict(settings), "fielding": __version__}
    if (out / MANIFEST).exists():
        if problem := _mismatch(out / MANIFEST, manifest):
            raise InputError(f"{out} holds {problem}; name another folder with --out")
        return
    ours = [SUMMARY, PAGE, *(path.name for method in METHODS for path in out.glob(f"{method}-*"))]
    foreign = [name for name in ours if (out / name).exists()]
    if foreign:
        raise InputError(f"{out} holds a {foreign[0]} that no demo wrote; name another folder with --out")
    write_json(out / MANIFEST, manifest)


def _mismatch(path: Path, manifest: Mapping[str, Json]) -> str:
    """Return what the folder of a manifest holds instead of this demo; nothing if it is this one."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = None
    if not isinstance(stored, dict) or not isinstance(stored.get("demo"), dict):
        return "something else than this demo"
    whole: dict[str, Json] = {"methods": list(FIRST_METHODS), **stored}
    return next(
        (f"another demo ({words})" for key in manifest if (words := difference(whole.get(key), manifest[key], key))), ""
    )


def _run_one(out: Path, config: Config, watch: Callable[[Progress], bool]) -> Result:
    """Run one method on one seed, or what is left of it; only the first seed gets a page of its own."""
    method, seed = config.method.name, config.seed
    before = config.rounds * ((seed - 1) * len(METHODS) + METHODS.index(method))
    newest: list[float] = []

    def watch_round(row: Mapping[str, Json]) -> bool:
        if isinstance(accuracy := row.get("accuracy"), float):
            newest.append(accuracy)
        n_rounds = before + int(str(row["round"])) + 1
        progress = Progress(method=method, seed=seed, n_rounds=n_rounds, accuracy=newest[-1] if newest else None)
        return watch(progress)

    return run(config, out / f"{method}-{seed}", start=Start(resume=True), watch=watch_round, page=seed == 1)
