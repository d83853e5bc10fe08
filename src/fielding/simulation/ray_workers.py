"""Participants of a round on Ray actors, on one machine or many; what they give has the same bits as here."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from fielding._typing import Counts, Models
from fielding.errors import LostClusterError
from fielding.ray_cluster import START_S, begin_worker, capacity, last_line, ray_cluster, start_worker
from fielding.runtime.workers import Crew
from fielding.simulation.clients import CrewOf
from fielding.traces.sliding import SlidingWindows
from fielding.training.trainer import LocalWork, Trained, Trainer

_TICK_S = 1.0


@contextmanager
def crew_on(on: str, *, n_actors: int | None, n_gpus: int, on_note: Callable[[str], None]) -> Iterator[CrewOf]:
    """Connect to Ray; yields what makes a crew there, of as many actors as the cluster has CPUs unless told."""
    with ray_cluster(on) as ray:
        crews: list[RayCrew] = []

        def crew_of(trainer: Trainer, windows: SlidingWindows) -> Crew:
            n_cpus = trainer.path.n_threads
            wanted = n_actors or max(1, capacity(ray, n_cpus, n_gpus))
            start = _starter(ray, trainer, windows, n_cpus, n_gpus)
            crews.append(RayCrew(ray, start, wanted, on_note=on_note))
            return crews[-1]

        try:
            yield crew_of
        finally:
            for crew in crews:
                crew.close()


def _starter(ray: Any, trainer: Trainer, windows: SlidingWindows, n_cpus: int, n_gpus: int) -> Callable[[], Any]:
    """Return what starts an actor; the samples get to each machine once."""
    shared = ray.put(trainer), ray.put(windows)
    return lambda: start_worker(ray, TrainingActor, *shared, n_cpus=n_cpus, n_gpus=n_gpus)


class TrainingActor:
    """Trains participants on a machine of the cluster; has the samples of all clients."""

    def __init__(self, version: str, trainer: Trainer, windows: SlidingWindows) -> None:
        begin_worker(version)
        self._trainer, self._gather = trainer, windows.gather

    def ready(self) -> bool:
        """Return that the actor is there."""
        return True

    def train(self, work: LocalWork, *models: Models) -> Trained:
        """Do the work of some participants, which start from the models in this order."""
        start = models[0][np.newaxis] if len(models) == 1 else np.stack(models)
        return self._trainer.train(replace(work, models=start, gather=self._gather))


class RayCrew:
    """Actors that train pieces of a round's work; the piece of an actor that is lost is done again by another.

    Parameters
    ----------
    start
        Starts an actor.
    n_actors
        How many there shall be; one that is lost is replaced, as soon as the cluster has a place for it.
    on_note
        Told in a line when one is lost.
    """

    def __init__(
        self, ray: Any, start: Callable[[], Any], n_actors: int, *, on_note: Callable[[str], None] = lambda _note: None
    ) -> None:
        self._ray, self._start, self._n_actors, self._on_note = ray, start, n_actors, on_note
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}  # by the answer that says that it is there
        self._working: dict[Any, tuple[Any, int]] = {}  # actor and piece, by the answer to come

    def close(self) -> None:
        """Let all actors go."""
        actors = [*self._idle, *self._starting.values(), *(actor for actor, _ in self._working.values())]
        self._idle, self._starting, self._working = [], {}, {}
        for actor in actors:
            self._ray.kill(actor)

    def train(self, pieces: Sequence[LocalWork]) -> Iterator[tuple[int, Trained]]:
        """Yield what each piece of work gave, with its position, as they are done.

        LostClusterError if there is no actor left and none comes; what the code of an actor raises is raised here.
        """
        put: dict[int, Any] = {}  # models in Ray's store, by their row: each is sent to a machine once
        waiting, since_s = deque(range(len(pieces))), time.monotonic()
        while waiting or self._working:
            self._fill_up(min(self._n_actors, len(pieces)))
            while waiting and self._idle:
                actor, at = self._idle.pop(), waiting.popleft()
                self._working[self._send(actor, pieces[at], put)] = actor, at
            for answer in self._answers():
                since_s = time.monotonic()
                if answer in self._starting:
                    self._welcome(answer)
                    continue
                actor, at = self._working.pop(answer)
                trained = self._open(answer)
                if trained is None:
                    self._on_note("a Ray worker was lost; its participants train again on another")
                    waiting.appendleft(at)
                    continue
                self._idle.append(actor)
                yield at, trained
            if not (self._idle or self._working) and time.monotonic() - since_s > START_S:
                raise LostClusterError(
                    f"no Ray worker could be started within {START_S:.0f} s; what was committed is kept: resume the "
                    "run when the cluster has free CPUs, or with fewer workers"
                )

    def _fill_up(self, n_actors: int) -> None:
        """Start actors until there are so many, those included that are on their way."""
        n_there = len(self._idle) + len(self._starting) + len(self._working)
        for _ in range(n_actors - n_there):
            actor = self._start()
            self._starting[actor.ready.remote()] = actor

    def _answers(self) -> list[Any]:
        """Return what has been answered, after a tick at most."""
        open_answers = [*self._working, *self._starting]
        return list(self._ray.wait(open_answers, num_returns=1, timeout=_TICK_S)[0]) if open_answers else []

    def _welcome(self, answer: Any) -> None:
        actor = self._starting.pop(answer)
        if self._open(answer):
            self._idle.append(actor)
        else:
            self._on_note("a Ray worker was lost while it started; another is started")

    def _open(self, answer: Any) -> Any:
        """Return an answer; None if its actor was lost before it came. An error of its code is raised."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer)
        except (errors.RayActorError, errors.ObjectLostError, errors.WorkerCrashedError) as error:
            if getattr(error, "actor_init_failed", False):  # another would fail alike
                raise LostClusterError(f"a Ray worker cannot start: {last_line(error)}") from error
            return None
        except errors.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            raise cause from None

    def _send(self, actor: Any, work: LocalWork, put: dict[int, Any]) -> Any:
        """Let an actor do some work; returns the answer to come."""
        light, rows = lighten(work)
        for row in rows:
            if row not in put:
                put[row] = self._ray.put(np.ascontiguousarray(work.models[row]))
        return actor.train.remote(light, *(put[row] for row in rows))


def lighten(work: LocalWork) -> tuple[LocalWork, list[int]]:
    """Return work as it is sent, without samples and models, and the rows of the models that belong to it, in order."""
    rows, start = np.unique(work.start, return_inverse=True)
    pull = work.pull
    if pull is not None:  # with the anchors alone that count
        anchors, row = np.unique(pull.row, return_inverse=True)
        pull = replace(pull, anchors=pull.anchors[anchors], row=row)
    nothing = np.empty((0, 0), dtype=np.float32)
    return replace(work, models=nothing, start=start, gather=_not_here, pull=pull), rows.tolist()


def _not_here(rows: Counts) -> Any:
    raise RuntimeError(f"the {rows.size} samples are with the actor")
