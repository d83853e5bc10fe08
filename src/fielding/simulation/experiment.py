"""A whole experiment on one machine: from a config to a result, for commands and notebooks alike."""

import hashlib
import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Json, Models
from fielding._version import __version__
from fielding.config.keys import Config
from fielding.config.reader import config_from, config_table, config_text, read_config
from fielding.engine.plugins import GLOBAL
from fielding.engine.round import Driver, Federation
from fielding.engine.runner import Rules, Runner, Watch
from fielding.errors import InputError, echo, unknown_name
from fielding.methods.method import Method
from fielding.records.manifest import file_digest, first_difference
from fielding.records.run_checkpoint import RunCheckpoint
from fielding.records.run_folder import (
    ROUNDS,
    RunFolder,
    check_free,
    check_same_config,
    claim_folder,
    read_manifest,
)
from fielding.reporting.numbers.run_summary import final_evaluations
from fielding.reporting.report_page import report_page
from fielding.simulation.assembly import Own, Simulation, assemble, initial_model
from fielding.simulation.config_check import check_effects
from fielding.simulation.hardware import PROFILES
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import Dealt
from fielding.training.label_mix import LABEL_MIX
from fielding.training.layout import Layout
from fielding.training.trainer import TrainingPath, path_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """Callbacks of a run; results depend on none of them, but that the first may stop it.

    Parameters
    ----------
    after_round
        Called after each round with its record; a False stops the run.
    on_phase
        Called with what begins: ``"reading digits"``, ..., and at last ``"training"``.
    on_images
        Called with how many images of how many are decoded.
    on_trained
        Called with how many participants of how many have trained in this round.
    on_note
        Called with each line that users should know, before the first round or after one.

    Examples
    --------
    >>> Watching(after_round=lambda row: row["round"] < 3)({"round": 3})
    False
    """

    after_round: Watch = lambda _row: True
    on_phase: Callable[[str], None] = lambda _phase: None
    on_images: Callable[[int, int], None] | None = None
    on_trained: Callable[[int, int], None] = lambda _done, _total: None
    on_note: Callable[[str], None] = lambda _note: None

    def __call__(self, row: Mapping[str, Json]) -> bool:
        """Tell what users should know of a round, and return whether to go on after it."""
        if "note" in row:
            self.on_note(str(row["note"]))
        return self.after_round(row)


TRAINING = "training"  # the phase in which rounds are run


FREE = ("workers", "stop_at_accuracy", "stop_at_time_s", "checkpoint")  # keys that may change when a run is resumed
_HASHED_BYTES = 1 << 28


def run_manifest(config: Config, own: Own, simulation: Simulation, initial: Models) -> dict[str, Json]:
    """Return what the results of a run depend on, and what its classes are called."""
    is_torch = own.model is not None or config.model.factory is not None or config.training.trainer == "torch"
    packages = ("numpy", "torch") if is_torch else ("numpy",)
    table = {name: value for name, value in config_table(config).items() if name not in FREE}
    given = {name: getattr(own, name) is not None for name in ("samples", "model", "represent")}
    return {
        "fielding": __version__,
        "machine": {
            "python": platform.python_version(),
            "system": platform.system(),
            **{name: metadata.version(name) for name in packages},
        },
        "classes": list(simulation.dealt.pool.classes),
        "seed": config.seed,
        "config": table,
        "shared_model": simulation.config.coordinator.shared_model,
        "own": dict(given),
        "data_blake2b": _data_digest(simulation.dealt),
        "initial_blake2b": hashlib.blake2b(np.ascontiguousarray(initial).data, digest_size=16).hexdigest(),
        "clock_blake2b": {
            name: file_digest(Path(path))
            for name, path in (("profile", config.clock.profile), ("availability", config.clock.availability))
            if path is not None and path not in PROFILES
        },
        "trainer": {"name": "torch" if is_torch else "numpy", **simulation.trainer.path.record()},
        "n_numbers": simulation.trainer.layout.size,
    }


def _data_digest(dealt: Dealt) -> str:
    """Return a digest of the samples that rounds reach; of more than 256 MB only every so many rows are read."""
    schedule, pool = dealt.schedule, dealt.pool
    is_reached = schedule.interval < schedule.n_intervals - schedule.n_ahead
    digest = hashlib.blake2b(repr((schedule.client_ids, pool.shape, pool.classes)).encode(), digest_size=16)
    for column in (schedule.client, schedule.interval, schedule.sample, schedule.y, schedule.look):
        digest.update(np.ascontiguousarray(column[is_reached]).data)
    step = max(1, -(-pool.x.nbytes // _HASHED_BYTES))
    digest.update(np.ascontiguousarray(pool.x[::step]).data)
    return digest.hexdigest()


def version_notes(stored: dict[str, Json], now: dict[str, Json]) -> tuple[str, ...]:
    """Return, in words, which versions differ from those that a run was begun with; its bits may differ then, too."""
    found = [first_difference(stored[name], now[name], name) for name in ("fielding", "machine") if name in stored]
    return tuple(f"{one}; results may differ in the last digits" for one in found if one)


def next_notes(config: Config, windows: SlidingWindows) -> tuple[str, ...]:
    """Return that no final evaluation has an interval to come, and how many rounds would leave one; else nothing."""
    every, n_rounds, n_intervals = config.evaluation.every, config.rounds, windows.schedule.n_intervals
    tested = {0, n_rounds - 1, *range(every - 1, n_rounds, every)}
    rows: list[Mapping[str, Json]] = [
        {"round": at, "accuracy": 0.0 if at in tested else None} for at in range(n_rounds)
    ]
    if any(windows.n_complete(int(str(row["round"]))) < n_intervals for row in final_evaluations(rows)):
        return ()
    most = windows.plan.step_of(n_intervals - 1)
    remedy = f"; set rounds to at most {most} to have it" if most else ""
    return (f"the trace ends with the run, so there is no final accuracy on the next interval{remedy}",)


def participant_notes(config: Config, n_clients: int) -> tuple[str, ...]:
    """Return that more participants are asked for than there are clients; else nothing."""
    wanted = config.training.participants
    if wanted <= n_clients:
        return ()
    return (f"training.participants is {wanted}, but there are {n_clients} clients: at most these train in a round",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """What a run gave.

    Parameters
    ----------
    summary
        Its figures; None if it was stopped before its end.
    rounds
        One record per round, as in ``rounds.jsonl``.
    checkpoint
        Models and clusters after the last round.
    folder
        Where everything else is; None if nothing was kept.
    notes
        What a user should know of: versions that changed since a resumed run was begun, a shared model without skill.
    """

    summary: Mapping[str, Json] | None
    rounds: list[dict[str, Json]]
    checkpoint: RunCheckpoint
    folder: Path | None
    notes: tuple[str, ...] = ()

    @property
    def layout(self) -> Layout:
        """What the numbers of a model mean."""
        return self.checkpoint.layout

    def cluster_of(self, client_id: ClientId) -> int | None:
        """Return the id of a client's cluster, None if it never had data."""
        ids = self.checkpoint.client_ids
        if client_id not in ids and ids and all(isinstance(one, int) for one in ids):
            raise InputError(f"there is no client {echo(client_id)}; the ids are whole numbers, for example {ids[0]}")
        return self.checkpoint.cluster_of(client_id)

    def model_of(self, client_id: ClientId) -> dict[str, npt.NDArray[np.float32]]:
        """Return the model that serves a client, as named tensors; those of torch models fit its state dict.

        The label mix that a model carries for a serving correction is left out.
        """
        cluster = self.cluster_of(client_id)
        flat: Models = self.checkpoint.mean_model() if cluster is None else self.checkpoint.model_of_cluster(cluster)
        tensors = self.layout.tensors(flat).items()
        return {name: tensor.copy() for name, tensor in tensors if name != LABEL_MIX}

    def column(self, name: str) -> tuple[list[int], list[float]]:
        """Return a figure over the rounds that have it: the rounds, and its values.

        Raises
        ------
        InputError
            If no round has it; the message names the nearest figure that there is.
        """
        known = {figure for row in self.rounds for figure in row}
        if self.rounds and name not in known:
            raise unknown_name("figure", name, known)
        pairs = [(row["round"], row[name]) for row in self.rounds if isinstance(row.get(name), (int, float))]
        return [int(str(at)) for at, _ in pairs], [float(str(value)) for _, value in pairs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a run begins.

    Parameters
    ----------
    resume
        Go on where an earlier run of the same config in the same folder was stopped; begin one if there is none.
    init_from
        Begin with the model of a checkpoint, a run's folder or a safetensors file instead of random numbers; of several
        clusters it is the mean of their models, by their numbers of clients.
    """

    resume: bool = False
    init_from: Path | None = None


def run(
    config: Config | Mapping[str, Any] | str | Path,
    out: str | Path | None = None,
    *,
    own: Own | None = None,
    start: Start | None = None,
    watch: Watch = lambda _row: True,
    page: bool = True,
) -> Result:
    """Run an experiment.

    Parameters
    ----------
    config
        A config, a table of the same shape, or a TOML file.
    out
        Folder for everything that `fielding run` writes; None keeps only the result.
    own
        A trace, a model or a representation of the caller's own.
    start
        Whether to resume, and what to begin with.
    watch
        Called after each round with its record; a False stops the run. Or a :class:`Watching`, with more callbacks.
    page
        Write ``report.html`` into the folder.

    Examples
    --------
    >>> result = run({"rounds": 2, "trace": {"clients": 8, "gap": 2, "window": 4}, "training": {"participants": 4}})
    >>> len(result.rounds), sorted(result.model_of(0))
    (2, ['0.bias', '0.weight', '2.bias', '2.weight'])
    """
    settled = read_config(Path(config)) if isinstance(config, (str, Path)) else config
    settled = settled if isinstance(settled, Config) else config_from(settled)
    watching = watch if isinstance(watch, Watching) else Watching(after_round=watch)
    own, start = own or Own(), start or Start()
    check_effects(settled, source=own.samples, has_own=own.represent is not None)
    if out is not None:
        return _run_into(Path(out), settled, own, start, watching, page=page)
    if start.resume:
        raise InputError("a run can only be resumed from a folder; name it")
    with tempfile.TemporaryDirectory(prefix="fielding-") as scratch:
        result = _run_into(Path(scratch) / "run", settled, own, start, watching, page=False)
    return replace(result, folder=None)


def _run_into(out: Path, config: Config, own: Own, start: Start, watching: Watching, *, page: bool) -> Result:
    with claim_folder(out) as lock:
        # A folder that is not free or holds another run is refused before data are read.
        table = {name: value for name, value in config_table(config).items() if name not in FREE}
        check_same_config(out, table, resume=start.resume)
        if not start.resume:
            check_free(out, config_text(config))
        watching.on_phase(f"reading {config.trace.file or config.trace.name}")
        simulation = assemble(
            config,
            own if own.on_images is not None else replace(own, on_images=watching.on_images),
            n_workers=config.workers or os.cpu_count() or 1,
            path=recorded_path(out) if start.resume else None,
        )
        simulation.clients.on_trained(watching.on_trained)
        notes = (*simulation.dealt.notes, *next_notes(config, simulation.clients.windows))
        notes += participant_notes(config, simulation.dealt.schedule.n_clients)
        try:
            initial = initial_model(simulation, start.init_from)
            manifest = run_manifest(config, own, simulation, initial)
            notes += version_notes(read_manifest(out), manifest) if start.resume else ()
            for note in notes:
                watching.on_note(note)
            folder = RunFolder(out, manifest, kind=simulation.policy.kind, lock=lock)
            try:
                watching.on_phase(TRAINING)
                runner = Runner(
                    federation_of(simulation, simulation.method(initial), simulation.clients),
                    folder,
                    layout=simulation.trainer.layout,
                    method_name=config.method.name,
                    rules=Rules(
                        gap=config.trace.gap,
                        stop_at_accuracy=config.stop_at_accuracy,
                        checkpoint_every=config.checkpoint.every,
                    ),
                )
                if not (start.resume and folder.is_begun()):
                    folder.begin(config_text(config))
                elif (found := folder.resume()) is not None:
                    runner.restore(found)
                summary = runner.run(watching)
                if summary is not None:
                    if page:
                        folder.write_page(report_page([out]))
                    folder.write_summary(summary)
                rounds = list(folder.logs.lines(ROUNDS))
                checkpoint = runner.checkpoint()
            finally:
                folder.close()
        finally:
            simulation.clients.close()
    told = tuple(str(row["note"]) for row in rounds if "note" in row)
    return Result(summary=summary, rounds=rounds, checkpoint=checkpoint, folder=out, notes=(*notes, *told))


def recorded_path(out: Path) -> TrainingPath | None:
    """Return how the trainer of an earlier run in this folder worked; None if there was none."""
    record = read_manifest(out).get("trainer")
    try:
        return path_from(record) if isinstance(record, dict) else None
    except (KeyError, ValueError):
        return None


def federation_of(simulation: Simulation, method: Method, clients: Driver) -> Federation:
    """Return the parts that a round puts to work; the clients may be others than the simulation's own."""
    config = simulation.config
    return Federation(
        clients=clients,
        method=method,
        evaluate_every=config.evaluation.every,
        n_rounds=config.rounds,
        stop_at_time_s=config.stop_at_time_s,
        is_delayed=config.coordinator.reports == "with-training",
        has_late_start=config.coordinator.shared_model == GLOBAL and simulation.clients.reports_from != "participants",
        selection=simulation.parts.selection,
        n_train_samples=config.training.local_steps * config.training.batch_size,
        keeps_reports=simulation.clients.reports_from != "flags",
        has_heads=simulation.parts.n_shared > 0,
    )
