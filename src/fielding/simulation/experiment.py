"""A whole experiment on one machine: from a config to a result, for commands and notebooks alike."""

import hashlib
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Json, Models
from fielding._version import __version__
from fielding.atomic import ScratchFolder
from fielding.client.privacy.ledger import LEDGER
from fielding.client.report import row_chunks
from fielding.config.keys import Config
from fielding.config.parts import named_parts
from fielding.config.reader import config_from, config_table, config_text, read_config
from fielding.engine.plugins import trainer_of
from fielding.engine.round import Driver, Federation
from fielding.engine.runner import Rules, Runner, Watch
from fielding.errors import InputError, OptionError, echo, unknown_name
from fielding.inputs import located
from fielding.methods.method import Method
from fielding.ray_cluster import LOCAL, check_place
from fielding.records.changes import FREE, Change, settings_of
from fielding.records.manifest import file_digest, first_difference
from fielding.records.run_checkpoint import RunCheckpoint, load_run
from fielding.records.run_folder import (
    CONFIG,
    ROUNDS,
    RunFolder,
    check_changes,
    check_free,
    check_same_config,
    claim_folder,
    n_committed,
    newest_checkpoint,
    read_manifest,
)
from fielding.reporting.client_reasons import Why, explain_client
from fielding.reporting.formatting import as_time, score_words
from fielding.reporting.frames import log_lines
from fielding.reporting.numbers.run_record import read_run
from fielding.reporting.numbers.run_summary import final_evaluations
from fielding.reporting.progress_bar import (
    LINE_EVERY_S,
    UNASKED_EVERY_S,
    Bar,
    at_intervals,
    is_seen,
    note_down,
    progress_bar,
)
from fielding.reporting.report_page import report_page
from fielding.reporting.results import Results
from fielding.simulation.assembly import Own, Simulation, assemble, initial_model, own_from
from fielding.simulation.config_check import check_effects
from fielding.simulation.hardware import PROFILES
from fielding.traces.catalog import Source
from fielding.traces.features import InputColumn, columns_from, columns_record
from fielding.traces.frames import rows_from_frame
from fielding.traces.natural import needed_intervals
from fielding.traces.pool import Scaling, scaling_from, scaling_record
from fielding.traces.schedule import same_past
from fielding.traces.sliding import SlidingWindows
from fielding.traces.sources import Dealt
from fielding.training.factory import DENSE
from fielding.training.label_mix import LABEL_MIX
from fielding.training.layout import Layout
from fielding.training.trainer import TrainingPath, path_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """Callbacks of a run; results depend on none of them, but that the first may stop it.

    Parameters
    ----------
    after_round
        Called after each round with its record; False stops the run, and nothing else does.
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

    def __call__(self, row: Mapping[str, Json]) -> object:
        """Tell what users should know of a round; a False that comes back stops the run."""
        if "note" in row:
            self.on_note(str(row["note"]))
        return self.after_round(row)

    def shown_by(self, bar: Bar, n_rounds: int) -> "Watching":
        """Return callbacks that also show on a progress bar how the run comes along."""
        scores, done, last = "accuracy -", 0, time.monotonic()
        describe_sometimes = at_intervals(bar.describe, SHORTEST_WORDS_S)

        def on_phase(phase: str) -> None:
            bar.describe(phase)
            self.on_phase(phase)

        def after_round(row: Mapping[str, Json]) -> object:
            nonlocal scores, done, last
            scores = score_words(row) or scores
            now, seconds = int(str(row["round"])) + 1, float(str(row["time_s"]))
            place = "" if bar.is_live else f"round {now} of {n_rounds}, "  # the bar itself shows it
            bar.describe(f"{place}{scores}, {row['n_clusters']} clusters, simulated {as_time(seconds)}")
            bar.advance(now - done)  # the first round of a resumed run is not the first
            done, last = now, time.monotonic()
            return self.after_round(row)

        def on_trained(now: int, total: int) -> None:
            if bar.is_live or time.monotonic() - last >= LINE_EVERY_S:  # of short rounds, lines tell only the end
                describe_sometimes(f"round {done + 1}: {now} of {total} trained")
            self.on_trained(now, total)

        def on_images(now: int, total: int) -> None:
            describe_sometimes(f"decoding images {now}/{total}")
            if self.on_images is not None:
                self.on_images(now, total)

        return replace(self, after_round=after_round, on_phase=on_phase, on_trained=on_trained, on_images=on_images)


SHORTEST_WORDS_S = 0.25  # seconds that words about a part of the work stay at least
TRAINING = "training"  # the phase in which rounds are run
OWN_FILES = "own"  # folder of a run for files that code of the user's own keeps, one per client


DATA = "data_blake2b"  # key of the manifest: the digest of what clients get
_HASHED_BYTES, _HASHED_ROWS = 1 << 28, 1 << 22


def recorded_table(config: Config) -> dict[str, Json]:
    """Return the config as a manifest has it: without keys that no round depends on."""
    return {name: value for name, value in config_table(config).items() if name not in FREE}


def run_manifest(config: Config, simulation: Simulation, initial: Models) -> dict[str, Json]:
    """Return what the results of a run depend on, and what its classes are called."""
    is_own = config.own.train is not None
    is_torch = not is_own and (config.model.factory is not None or config.training.trainer == "torch")
    # What code of one's own works with is known from what it has loaded.
    packages = ("numpy", "torch") if is_torch or (is_own and "torch" in sys.modules) else ("numpy",)
    return {
        "fielding": __version__,
        "machine": {
            "python": platform.python_version(),
            "system": platform.system(),
            **{name: metadata.version(name) for name in packages},
        },
        "classes": list(simulation.dealt.pool.classes),
        "input_shape": list(simulation.dealt.pool.shape),
        "inputs": {
            **scaling_record(simulation.dealt.pool.scaling or Scaling()),
            **({"columns": columns_record(simulation.dealt.columns)} if simulation.dealt.columns else {}),
        },
        "seed": config.seed,
        "config": recorded_table(config),
        "shared_model": simulation.config.coordinator.shared_model,
        DATA: _data_digest(simulation.dealt),
        "initial_blake2b": hashlib.blake2b(np.ascontiguousarray(initial).data, digest_size=16).hexdigest(),
        "clock_blake2b": {
            name: file_digest(located(path))
            for name, path in (("profile", config.clock.profile), ("availability", config.clock.availability))
            if path is not None and path not in PROFILES
        },
        "trainer": {"name": "own" if is_own else "torch" if is_torch else "numpy", **simulation.model.path.record()},
        "n_numbers": simulation.model.layout.size,
    }


def _data_digest(dealt: Dealt) -> str:
    """Return a digest of the samples that rounds reach; of more than 256 MB only every so many rows are read."""
    schedule, pool = dealt.schedule, dealt.pool
    is_reached = schedule.interval < schedule.n_intervals - schedule.n_ahead
    digest = hashlib.blake2b(repr((schedule.client_ids, pool.shape, pool.classes)).encode(), digest_size=16)
    for column in (schedule.client, schedule.interval, schedule.sample, schedule.y, schedule.look):
        for part in row_chunks(column.size, _HASHED_ROWS):
            rows = column[part][is_reached[part]]
            digest.update(np.ascontiguousarray(rows, dtype=np.int64 if column is schedule.sample else None).data)
    step = max(1, -(-pool.x.nbytes // _HASHED_BYTES))
    digest.update(np.ascontiguousarray(pool.x[::step]).data)
    return digest.hexdigest()


def check_past(simulation: Simulation, stored: Mapping[str, Json], now: Mapping[str, Json], out: Path) -> None:
    """Raise if the data that clients had in the rounds that are done would be others, by the manifests.

    What a client gets depends on the seed, its id and the interval, so most scenarios deal more rounds without changing
    the past; but some do something halfway, or number concepts as they come.
    """
    config, before = simulation.config, settings_of(stored).get("rounds")
    if stored.get(DATA) == now[DATA]:
        return
    if simulation.dealt.is_natural or not isinstance(before, int) or before == config.rounds:
        raise InputError(f"cannot resume {out}: {first_difference(stored.get(DATA), now[DATA], DATA)}")
    former = simulation.dealt_for(before)
    if _data_digest(former) != stored.get(DATA):
        raise InputError(f"cannot resume {out}: {first_difference(stored.get(DATA), _data_digest(former), DATA)}")
    n_done = n_committed(out)
    if n_done and not same_past(former.schedule, simulation.dealt.schedule, needed_intervals(n_done, former.plan)):
        raise InputError(
            f"cannot resume {out}: rounds was {before}, now it is {config.rounds}: the scenario deals what was before "
            "by the number of rounds; to train its models on, begin a run in another folder with "
            f"Start(init_from={str(out)!r})"
        )


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Result(Results):
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
        Where everything else is; if none was named, it is gone when the result is.
    notes
        What a user should know of: versions that changed since a resumed run was begun, a shared model without skill.
    scratch
        Keeps a folder that was not named as long as it is needed.
    """

    summary: Mapping[str, Json] | None
    rounds: list[dict[str, Json]]
    checkpoint: RunCheckpoint
    folder: Path
    notes: tuple[str, ...] = ()
    scratch: ScratchFolder | None = None

    def __repr__(self) -> str:
        """Return what matters in a line."""
        words = [f"{self.checkpoint.method}, {len(self.rounds)} rounds"]
        if self.summary is None:
            words.append("stopped before its end")
        else:
            scores = score_words({name.removeprefix("final_"): value for name, value in self.summary.items()})
            words += [one for one in (scores, f"{self.checkpoint.models.shape[0]} clusters") if one]
        return f"<fielding.Result: {', '.join(words)}{'' if self.scratch else f'; {self.folder}'}>"

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

    def model(self, client_id: ClientId) -> Any:
        """Return the model that serves a client: a torch module, ready to predict, or arrays by name without torch.

        A module of the caller's own must be there under the name that the config has. Models of training code of one's
        own are arrays.
        """
        manifest, tensors = read_manifest(self.folder), self.model_of(client_id)
        trainer, shape = manifest.get("trainer"), manifest.get("input_shape")
        if not isinstance(trainer, dict) or trainer.get("name") != "torch" or not isinstance(shape, list):
            return tensors
        from fielding.training.torch_module import module_with

        config, classes = read_config(self.folder / CONFIG), manifest["classes"]
        return module_with(
            tensors,
            name=config.model.factory or config.model.name,
            hidden=config.model.hidden,
            input_shape=tuple(int(str(size)) for size in shape),
            n_classes=len(classes) if isinstance(classes, list) else 0,
        )

    def why(self, client_id: ClientId, round: int | None = None) -> Why:
        """Return what happened to a client and why, in words and, as ``record``, in plain values.

        Without a ``round``: when it reported, when and why it changed its cluster, and how it was served. With one:
        what it reported, how far that is from all centers, and what was decided by which numbers. InputError if the
        run has no such client or round.
        """
        return explain_client(self.folder, client_id, round)

    @property
    def classes(self) -> tuple[str, ...]:
        """What the classes are called, in the order of scores and probabilities."""
        classes = read_manifest(self.folder).get("classes")
        return tuple(str(one) for one in classes) if isinstance(classes, list) else ()

    def predict(self, client_id: ClientId, rows: Any, *, proba: bool = False) -> npt.NDArray[Any]:
        """Return what the model of a client's cluster says of samples of the caller's own.

        As :meth:`model`: not corrected to the client's label mix, and without its experts, which need the samples in
        its window.

        Parameters
        ----------
        rows
            Samples in raw units, shape ``(n_samples, ...)`` as the run's own; or, where they came from a table, a
            DataFrame with the same columns. A gap becomes what it became in training, a category that is new is none.
        proba
            Return probabilities, shape ``(n_samples, n_classes)``, in the order of :attr:`classes`; else the name of
            the most likely class of each sample.

        Raises
        ------
        InputError
            If there is no such client, the rows do not fit, or models are those of training code of one's own.
        """
        manifest = read_manifest(self.folder)
        inputs, shape = manifest.get("inputs"), tuple(int(str(one)) for one in _listed(manifest.get("input_shape")))
        if not isinstance(inputs, dict):
            raise InputError(f"{self.folder} does not say how features were scaled; run it again with this version")
        config = read_config(self.folder / CONFIG)
        if config.own.train is not None:
            raise InputError("the models of training code of your own are arrays: predict with result.model(client)")
        x = scaling_from(inputs).apply(_raw_rows(rows, columns_from(_listed(inputs.get("columns"))), shape))
        if not np.isfinite(x).all():
            row = int(np.argmin(np.isfinite(x).reshape(len(x), -1).all(axis=1)))
            raise InputError(f"row {row} has a gap, or no finite number, where training had none; fill it")
        model = self.model(client_id)
        if isinstance(model, dict):
            trainer = trainer_of(config, shape, len(self.classes))
            scores = trainer.features(trainer.layout.flat(model), x)[1]
        else:
            from fielding.training.torch_module import class_scores

            is_dense = config.model.factory is None and config.model.name in DENSE
            scores = class_scores(model, x, is_dense=is_dense)
        if not proba:
            return np.asarray(np.array(self.classes)[scores.argmax(axis=1)])
        likely = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
        return np.asarray(likely / likely.sum(axis=1, keepdims=True))

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


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _raw_rows(rows: Any, columns: tuple[InputColumn, ...], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return samples of a DataFrame or an array as raw features, shape ``(n_samples, *shape)``."""
    if hasattr(rows, "columns") or callable(getattr(rows, "to_pandas", None)):
        if not columns:
            raise InputError("the samples of this run were no table; give an array of features instead of a DataFrame")
        return rows_from_frame(rows, columns)
    x = np.array(rows)  # a copy: scaling uses it up
    if x.dtype.kind not in "biuf" or x.shape[1:] != shape or not x.size:
        raise InputError(f"rows have shape {x.shape} and type {x.dtype}; give numbers of shape (n_samples, *{shape})")
    return x


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where a run begins.

    Parameters
    ----------
    resume
        Go on where an earlier run in the same folder was stopped or ended; begin one if there is none. Settings may be
        others than before, as far as :mod:`fielding.records.changes` says.
    init_from
        Begin with the model of a checkpoint, a run's folder or a safetensors file instead of random numbers; of several
        clusters it is the mean of their models, by their numbers of clients.
    may_change
        Whether a run that is resumed may have other settings at all.
    """

    resume: bool = False
    init_from: Path | None = None
    may_change: bool = True


def run(
    config: Config | Mapping[str, Any] | str | Path | None = None,
    out: str | Path | None = None,
    *,
    own: Own | Source | None = None,
    start: Start | None = None,
    watch: Watch | None = None,
    progress: bool | None = None,
    page: bool = True,
    on: str = LOCAL,
) -> Result:
    """Run an experiment.

    Parameters
    ----------
    config
        A config, a table of the same shape, or a TOML file; in a table, functions and classes may stand where a file
        names them as ``module:function``. None for the default of every key.
    out
        Folder for everything that `fielding run` writes; None for one that is gone when the result is.
    own
        A trace or a pool, or :class:`Own` with these, a model, a representation or a method of the caller's own.
    start
        Whether to resume, and what to begin with.
    watch
        Called after each round with its record; False stops the run, and nothing else does. Or a :class:`Watching`,
        with more callbacks.
    progress
        Show a progress bar, where there is no terminal and no notebook a line now and then on standard error; by
        default unless there is a ``watch``.
    page
        Write ``report.html`` into the folder.
    on
        Where participants train: ``"local"``, in threads of this process; ``"ray"`` or ``"ray://HOST:PORT"``, on
        actors of a Ray cluster, as many as ``workers`` says, one for each CPU by default. Results are the same.

    Examples
    --------
    >>> result = run({"rounds": 2, "trace": {"clients": 8, "gap": 2, "window": 4}, "training": {"participants": 4}})
    >>> len(result.rounds), sorted(result.model_of(0))
    (2, ['0.bias', '0.weight', '2.bias', '2.weight'])
    """
    check_place(on)
    own, start = own_from(own), start or Start()
    if config is None or isinstance(config, Mapping):
        settled = config_from(named_parts(config or {}))
    else:
        settled = config if isinstance(config, Config) else read_config(Path(config))
    for key, name in own.settings.items():
        section, _, field = key.partition(".")
        settled = replace(settled, **{section: replace(getattr(settled, section), **{field: name})})
    check_effects(settled, source=own.samples)
    if out is None and start.resume:
        raise InputError("a run can only be resumed from a folder; name it")
    is_shown = watch is None if progress is None else progress
    every_s = UNASKED_EVERY_S if progress is None else LINE_EVERY_S
    with progress_bar("preparing", settled.rounds, quiet=not is_shown, line_every_s=every_s) as bar:
        watching = Watching(on_note=note_down) if is_shown and (progress or is_seen()) else Watching()
        if watch is not None:
            watching = watch if isinstance(watch, Watching) else replace(watching, after_round=watch)
        if is_shown:
            watching = watching.shown_by(bar, settled.rounds)
        if out is not None:
            return _run_into(Path(out), settled, own, start, watching, page=page, on=on)
        scratch = ScratchFolder()
        result = _run_into(scratch.path / "run", settled, own, start, watching, page=False, on=on)
        return replace(result, scratch=scratch)


def _run_into(out: Path, config: Config, own: Own, start: Start, watching: Watching, *, page: bool, on: str) -> Result:
    with claim_folder(out) as lock, ExitStack() as stack:
        # A folder that is not free or holds another run is refused before data are read.
        changes: list[Change] = []
        if start.resume and start.may_change:
            changes = check_changes(out, {"config": recorded_table(config)})
        else:
            check_same_config(out, recorded_table(config))
        if not start.resume:
            check_free(out, config_text(config))
        n_workers, crew_of = config.workers or os.cpu_count() or 1, None
        if on != LOCAL:
            from fielding.simulation.ray_workers import crew_on

            if config.own.train is not None:
                raise OptionError("own.train keeps files beside the run, so it cannot train on Ray; run it on local")

            watching.on_phase("connecting to Ray")
            n_gpus = int(config.training.device.startswith("cuda"))
            crew_of = stack.enter_context(crew_on(on, n_actors=config.workers, n_gpus=n_gpus, on_note=watching.on_note))
            n_workers = os.cpu_count() or 1  # tests are done here
        watching.on_phase(f"reading {config.trace.file or config.trace.name}")
        simulation = assemble(
            config,
            own if own.on_images is not None else replace(own, on_images=watching.on_images),
            n_workers=n_workers,
            crew_of=crew_of,
            path=recorded_path(out) if start.resume else None,
            folder=out / OWN_FILES,
            ledger=out / LEDGER,
        )
        simulation.clients.on_trained(watching.on_trained)
        notes = (*simulation.dealt.notes, *next_notes(config, simulation.clients.windows))
        notes += participant_notes(config, simulation.dealt.schedule.n_clients)
        try:
            initial = initial_model(simulation, start.init_from)
            manifest = run_manifest(config, simulation, initial)
            if start.resume and (stored := read_manifest(out)):
                check_past(simulation, stored, manifest, out)
                notes += version_notes(stored, manifest)
                notes += tuple(f"from {one}" for one in changes if one.round_index == n_committed(out))
            for note in notes:
                watching.on_note(note)
            folder = RunFolder(out, manifest, kind=simulation.policy.kind, lock=lock)
            try:
                watching.on_phase(TRAINING)
                runner = Runner(
                    federation_of(simulation, simulation.method(initial), simulation.clients),
                    folder,
                    layout=simulation.model.layout,
                    method_name=config.method.name,
                    rules=Rules(
                        gap=config.trace.gap,
                        stop_at_accuracy=config.stop_at_accuracy,
                        checkpoint_every=config.checkpoint.every,
                    ),
                )
                if not (start.resume and folder.is_begun()):
                    folder.begin(config_text(config))
                elif (found := folder.resume(config_text(config), compared=(DATA,))) is not None:
                    runner.restore(found)
                for note in folder.notes:
                    watching.on_note(note)
                notes += tuple(folder.notes)
                summary = runner.run(watching)
                if summary is not None:
                    folder.write_summary(summary)  # first: the page tells of a finished run
                    if page:
                        folder.write_page(report_page([out]))
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
        is_delayed=config.coordinator.reports == "with-training" and simulation.clients.budget is None,
        has_late_start=simulation.clients.has_late_start,
        selection=simulation.parts.selection,
        n_train_samples=config.training.local_steps * config.training.batch_size,
        keeps_reports=simulation.clients.reports_from != "flags",
        has_heads=simulation.parts.n_shared > 0,
    )


def load_result(folder: Path) -> Result:
    """Return what a run left in its folder; of one that was stopped, what was committed."""
    record = read_run(folder)
    return Result(
        summary=record.summary() or None,
        rounds=list(log_lines(folder / ROUNDS)),
        checkpoint=load_run(newest_checkpoint(folder)),
        folder=folder,
        notes=record.problems,
    )
