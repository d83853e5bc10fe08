"""What holds for every method: checks that run it on a small federation of difficult clients.

``fielding methods NAME --check`` and ``tests/conformance/test_methods.py`` both do no more than this.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, cast

import numpy as np

from fielding._typing import Counts, Features, Json
from fielding.config.reader import config_from
from fielding.conformance.audited_clients import AuditedClients, ConformanceError
from fielding.engine.round import Done, Driver, Federation, run_round
from fielding.engine.runner import changes_of, round_row
from fielding.errors import FieldingError, OptionError, error_place, error_words
from fielding.federation.models import finite_rows
from fielding.methods.method import Method, cluster_ids
from fielding.records.container import read_contents
from fielding.records.run_folder import CLIENTS, CONCEPTS, EVENTS, MEMBERSHIPS, ROUNDS
from fielding.rng import stream
from fielding.simulation.assembly import Own, Simulation, assemble, initial_model
from fielding.simulation.experiment import Start, federation_of, run
from fielding.simulation.hardware import read_availability
from fielding.traces.pool import Pool
from fielding.traces.trace import Trace
from fielding.training.trainer import LocalWork, Trained

LOGS = (ROUNDS, EVENTS, MEMBERSHIPS, CONCEPTS, CLIENTS, "summary.json")
N_CLIENTS, N_DAYS, PER_DAY, N_ROUNDS = 16, 6, 8, 8
DAY_S = 86400.0
WANDERER, GUEST, LATE, LEAVER, EMPTY, WAKING, GONE = 1, 6, 7, 8, 9, 10, 11
LONG_S = 1e9
WIDE = 9000  # hidden units of a model so large that two workers share the work
BROKEN = {2: np.nan, 5: np.inf}  # clients whose answers are no models, and what they hold
Table = dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """What a method is tried on: the config as a table, and the samples."""

    table: Table
    own: Own

    def changed(self, section: str, **values: Json) -> "Stage":
        """Return the same with other values in a section of the config."""
        inner = self.table.get(section)
        return replace(self, table={**self.table, section: {**(inner if isinstance(inner, dict) else {}), **values}})

    def simulation(self) -> Simulation:
        """Return a simulation that is ready to run."""
        return assemble(config_from(self.table), self.own, n_workers=1)


Check: TypeAlias = Callable[[Stage, Path], None]
"""Tries a method on a stage, with a folder to write into; raises :class:`ConformanceError`."""


def check_method(
    name: str, options: Mapping[str, Json] | None = None, *, on_check: Callable[[str], None] = lambda _check: None
) -> None:
    """Try a method in every way that ``CHECKS`` lists; takes some seconds.

    ``name``: as in a config: one of ``METHODS``, or ``my_module:MyMethod``. ConformanceError at the first thing that is
    wrong. InputError if there is no such method or option.
    """
    for check, call in CHECKS.items():
        with TemporaryDirectory(prefix="fielding-") as scratch:
            folder, stage = Path(scratch), None
            try:
                stage = stage_for(name, options or {}, folder)
                call(stage, folder)
            except ConformanceError as error:
                raise ConformanceError(f"{name} is not {check}: {error}") from error
            except Exception as error:  # whatever the user's method does
                if stage is None and isinstance(error, FieldingError):
                    raise
                words = f"{name} fails with {error_words(error)}"
                place, when = error_place(error), "when it is made" if stage is None else f"in the check: {check}"
                raise ConformanceError(f"{words} ({f'{place}; ' if place else ''}{when})") from error
        on_check(check)


def check_repeatable(stage: Stage, folder: Path) -> None:
    """Check that equal seeds leave equal logs and models."""
    for name in ("first", "second"):
        run(stage.table, folder / name, own=stage.own, page=False)
    _compare(folder / "first", folder / "second", "a second run of the same seed")


def check_resumable(stage: Stage, folder: Path) -> None:
    """Check that a run that is stopped after every round and resumed ends as one that was never stopped."""
    run(stage.table, folder / "whole", own=stage.own, page=False)
    start = Start(resume=True)
    for last in range(N_ROUNDS - 1):

        def watch(row: Mapping[str, Json], last: int = last) -> bool:
            return row["round"] != last

        run(stage.table, folder / "resumed", own=stage.own, start=start, watch=watch, page=False)
    run(stage.table, folder / "resumed", own=stage.own, start=start, page=False)
    _compare(folder / "whole", folder / "resumed", "a run that was stopped and resumed after every round")


def check_workers(stage: Stage, folder: Path) -> None:
    """Check that one worker and two leave the same bytes."""
    wide = stage.changed("model", name="mlp", hidden=WIDE)
    for n_workers in (1, 2):
        table = {**wide.table, "rounds": 3, "workers": n_workers}
        run(table, folder / str(n_workers), own=stage.own, page=False)
    _compare(folder / "1", folder / "2", "a run with two workers")


def _compare(expected: Path, got: Path, what: str) -> None:
    """Raise if two runs left different logs or checkpoints."""
    for name in LOGS:
        before, after = ((one / name).read_bytes().splitlines() for one in (expected, got))
        for number, (line, other) in enumerate(zip(before, after, strict=False), start=1):
            if line != other:
                raise ConformanceError(f"{what} differs in line {number} of {name}; draw from rng.stream, keep state")
        if len(before) != len(after):
            raise ConformanceError(f"{what} has {len(after)} lines in {name} instead of {len(before)}")
    last, other_last = (read_contents(max((one / "checkpoints").iterdir())) for one in (expected, got))
    names = sorted({*last.arrays, *other_last.arrays})
    arrays = [
        [array.tobytes() if (array := one.arrays.get(name)) is not None else b"" for name in names]
        for one in (last, other_last)
    ]
    if arrays[0] != arrays[1] or last.values != other_last.values:
        raise ConformanceError(f"{what} ends in another state; everything that decides the future is in snapshot()")


def check_charged(stage: Stage, folder: Path) -> None:  # noqa: ARG001
    """Check that it reads no samples unasked and pays for everything, and that its state is in order."""
    _rounds(stage.simulation()).check_ledger()


def check_broken_answers(stage: Stage, folder: Path) -> None:  # noqa: ARG001
    """Check that answers that are no models are left out and named, and that every model stays finite."""
    simulation = stage.simulation()
    _break_answers(simulation)
    _rounds(simulation, broken=set(BROKEN))


def check_no_answers(stage: Stage, folder: Path) -> None:  # noqa: ARG001
    """Check that rounds in which no client answers change no model."""
    _rounds(stage.simulation(), is_silent=True)


def _rounds(
    simulation: Simulation, *, broken: Collection[int] = frozenset(), is_silent: bool = False
) -> AuditedClients:
    """Run all rounds of a simulation with audited clients; without answers, models must stay as they are.

    Answers of ``broken`` clients are no models; if ``is_silent``, no answer ever arrives.
    """
    config = simulation.config
    method = simulation.method(initial_model(simulation, None))
    availability = read_availability(str(config.clock.availability), simulation.clients.client_ids)
    clients = AuditedClients(simulation.clients, availability, mute=tuple(BROKEN), is_silent=is_silent)
    _watch_state(clients, method, simulation, is_silent=is_silent)
    federation = federation_of(simulation, method, cast(Driver, clients))
    try:
        for round_index in range(config.rounds):
            done = run_round(federation, round_index)
            _check_row(federation, done)
            if through := sorted(set(done.updates.clients.tolist()) & set(broken)):
                raise ConformanceError(f"answers of clients {through}, which are no models, came through the door")
    finally:
        simulation.clients.close()
    return clients


def _watch_state(clients: AuditedClients, method: Method, simulation: Simulation, *, is_silent: bool) -> None:
    """Have the state of a method looked at whenever clients are asked to train, and when it has learned."""
    planned = method.models

    def before_training() -> None:
        nonlocal planned
        planned = method.models.copy()
        _check_state(method, simulation)

    def after_learning() -> None:
        if is_silent and not np.array_equal(planned, method.models):
            raise ConformanceError(f"a model changed in round {clients.round_index}, in which nobody answered")
        _check_state(method, simulation)

    clients.before_training, clients.after_learning = before_training, after_learning


def _check_row(federation: Federation, done: Done) -> None:
    """Raise if the log of a round does not name whose answers failed."""
    row = round_row(federation, done, changes_of(federation.method, None, None))
    failed = done.updates.missing.get("failed", [])
    if row.get("failed", []) != [federation.clients.client_ids[client] for client in failed]:
        raise ConformanceError(f"the log of round {done.round_index} does not name clients {failed}, which failed")


def _check_state(method: Method, simulation: Simulation) -> None:
    """Raise if models, clusters or snapshot of a method are not what they have to be."""
    models, membership, ids = method.models, method.membership(), cluster_ids(method)
    n_clients, size = len(simulation.clients.client_ids), simulation.trainer.layout.size
    if models.dtype != np.float32 or models.ndim != 2 or models.shape[1] != size or not len(models):
        raise ConformanceError(f"models are {models.dtype} of shape {models.shape}; float32 of (n, {size}) is wanted")
    if not finite_rows(models).all():
        raise ConformanceError("a model is not finite; learn only from what is")
    if membership.shape != (n_clients,) or membership.dtype.kind != "i":
        raise ConformanceError(f"membership is {membership.dtype} of shape {membership.shape}; give a row per client")
    if membership.min() < -1 or membership.max() >= models.shape[0]:
        raise ConformanceError(f"membership holds {membership.max()}, but there are {models.shape[0]} models")
    if len(ids) != models.shape[0] or len(set(ids)) != len(ids):
        raise ConformanceError(f"cluster_ids are {ids}; give each of {models.shape[0]} models its own")
    values, arrays = method.snapshot()
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConformanceError(f"the values of its snapshot are not plain: {error}; put arrays into arrays") from None
    odd = [
        name for name, array in arrays.items() if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf"
    ]
    if odd:
        raise ConformanceError(f"{odd[0]} in its snapshot is no array of numbers")


def _break_answers(simulation: Simulation) -> None:
    """Let some clients answer with numbers that are none, whenever they train."""
    trainer, owner = simulation.trainer, simulation.clients.windows.schedule.client
    train = trainer.train

    def broken(work: LocalWork) -> Trained:
        trained = train(work)
        models = trained.models.copy()
        for at, client in enumerate(owner[work.draws[:, 0, 0]].tolist()):
            if client in BROKEN:
                models[at] = BROKEN[client]  # all of it: some send only a share of their numbers
        return replace(trained, models=models)

    setattr(trainer, "train", broken)  # noqa: B010


CHECKS: dict[str, Check] = {
    "honest": check_charged,
    "calm when nobody answers": check_no_answers,
    "safe from broken answers": check_broken_answers,
    "repeatable": check_repeatable,
    "resumable": check_resumable,
    "independent of the number of workers": check_workers,
}
"""Every check, by what a method is that passes it; those with the plainest messages come first."""


# ---------------------------------------------------------------- the stage


def stage_for(name: str, options: Mapping[str, Json], folder: Path) -> Stage:
    """Return the stage of a method: a natural trace, or a scenario for methods that have to know the true concepts.

    InputError if the method cannot be made on either.
    """
    availability = folder / "availability.csv"
    write_availability(availability)
    table: Table = {
        "rounds": N_ROUNDS,
        "workers": 1,
        "model": {"name": "softmax"},
        "training": {"participants": 8, "local_steps": 2, "batch_size": 4, "learning_rate": 0.1},
        "method": {**options, "name": name},
        "coordinator": {"detector": "any-change", "k_max": 3},
        "clock": {"availability": str(availability)},
        "evaluation": {"every": 2},
        "checkpoint": {"every": 1},
    }
    natural = Stage(table=table, own=Own(samples=hard_trace())).changed("trace", interval="1d", gap=2, window=4)
    try:
        try_method(natural)
    except OptionError:
        dealt = Stage(table=table, own=Own(samples=two_kinds_pool()))
        dealt = dealt.changed("trace", scenario="places", clients=N_CLIENTS, samples=PER_DAY, gap=2, window=4)
        try_method(dealt)
        return dealt
    return natural


def try_method(stage: Stage) -> None:
    """Make the method of a stage, which raises if it cannot be made."""
    simulation = stage.simulation()
    try:
        simulation.method(initial_model(simulation, None))
    finally:
        simulation.clients.close()


def hard_trace() -> Trace:
    """Return six days of samples, of clients that move, come late, leave or have none."""
    rng = stream(0, "conformance")
    client = np.repeat(np.arange(N_CLIENTS, dtype=np.int32), N_DAYS * PER_DAY)
    day = np.tile(np.repeat(np.arange(N_DAYS), PER_DAY), N_CLIENTS)
    kind = (client % 2) ^ ((client == WANDERER) & (day >= N_DAYS // 2))
    y = np.where(rng.random(client.size) < 0.8, kind, 1 - kind) + 2 * (rng.random(client.size) < 0.3)
    is_away = ((client == LATE) & (day < N_DAYS // 2)) | ((client == LEAVER) & (day > 1)) | (client == EMPTY)
    kept = ~is_away
    return Trace(
        client_ids=tuple(range(N_CLIENTS)),
        client=client[kept],
        time=(DAY_S * day + np.arange(client.size) % PER_DAY)[kept].astype(np.float64),
        y=y[kept].astype(np.int32),
        classes=tuple("abcd"),
        x=_features(y, rng)[kept],
    )


def two_kinds_pool() -> Pool:
    """Return samples of four classes for a scenario to deal."""
    rng = stream(0, "conformance")
    y = rng.integers(0, 4, 240)
    return Pool(x=_features(y, rng), y=y.astype(np.int32), classes=tuple("abcd"))


def _features(y: Counts, rng: np.random.Generator) -> Features:
    return (rng.standard_normal((y.size, 4)) + 2.0 * np.eye(4)[y]).astype(np.float32)


def write_availability(path: Path) -> None:
    """Write when clients can be reached."""
    spans = dict.fromkeys(range(N_CLIENTS), (0.0, LONG_S))
    spans |= {WAKING: (0.5, LONG_S), GONE: (0.0, 0.0)}
    lines = [f"{client},{start},{stop},{LONG_S}" for client, (start, stop) in spans.items() if client != GUEST]
    lines += [f"{GUEST},{at},{at + 0.3},{LONG_S}" for at in np.arange(0.0, 20.0, 0.6).tolist()]
    path.write_text("\n".join(["client,start_s,stop_s,finish_s", *lines]) + "\n", encoding="utf-8")
