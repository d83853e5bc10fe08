"""Trackers beside a run: told of every round once, and never a reason to stop it."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fielding._typing import Json
from fielding.engine.runner import Watch
from fielding.json_text import parse_json
from fielding.records.logs import read_lines
from fielding.records.run_folder import ROUNDS, SUMMARY
from fielding.simulation.experiment import Watching
from fielding.tracking.mlflow import without_password
from fielding.tracking.tracker import SUMMARY_PREFIX, Ending, Tracker, figures_of, tracked_run

LONGEST_REASON = 200


def warn(message: str) -> None:
    """Warn users of Python."""
    warnings.warn(message, RuntimeWarning, stacklevel=2)


@contextmanager
def tracked(
    folder: str | Path,
    trackers: Sequence[Tracker],
    *,
    watch: Watch = lambda _row: True,
    note: Callable[[str], None] = warn,
) -> Iterator[Watching]:
    """Show a run in trackers while it goes on in its folder.

    A tracker that fails is left out until the run ends, and is then given once more what it missed. A run that is
    resumed goes on in the same places, and rounds that are there already are not sent again; so a run that was not
    tracked can be resumed, even if it is complete, to be tracked from its first round.

    ``watch``: what else is told of rounds, and may stop the run. ``note``: told in a line what fails; a warning by
    default.

    Examples
    --------
    >>> import tempfile
    >>> from fielding.simulation.experiment import run
    >>> config = {"rounds": 2, "trace": {"clients": 8, "gap": 2, "window": 4}, "training": {"participants": 4}}
    >>> with tempfile.TemporaryDirectory() as out, tracked(out, []) as watch:  # for example [TensorBoard("tb")]
    ...     len(run(config, out, watch=watch, page=False).rounds)
    2
    """
    feeds = [_Feed(tracker, Path(folder), note) for tracker in trackers]
    watching = watch if isinstance(watch, Watching) else Watching(after_round=watch)

    def after_round(row: Mapping[str, Json]) -> object:
        for feed in feeds:
            feed.take(row)
        return watching.after_round(row)

    try:
        yield replace(watching, after_round=after_round)
    except BaseException as error:
        for feed in feeds:
            feed.abandon("failed" if isinstance(error, Exception) else "stopped")
        raise
    for feed in feeds:
        feed.finish()


class _Feed:
    """Tells one tracker of the rounds that it has not got.

    ``_next`` is the first round that the tracker lacks; None before it has begun.
    """

    def __init__(self, tracker: Tracker, folder: Path, note: Callable[[str], None]) -> None:
        self._tracker, self._folder, self._note = tracker, folder, note
        self._next: int | None = None
        self._has_failed = False

    def take(self, row: Mapping[str, Json]) -> None:
        """Pass a round on, and before the first one those that came before this process."""
        if self._has_failed:
            return
        try:
            if self._next is None:
                self._begin(before=int(str(row["round"])))
            self._pass_on(row)
        except Exception as error:
            self._has_failed = True
            self._note(f"{self._failure(error)}; the run goes on, and what is missing is sent once more at its end")

    def abandon(self, ending: Ending) -> None:
        """Close the place of a run that did not come to its end, if it was opened and all is well with it."""
        if self._next is None or self._has_failed:
            return
        try:
            self._tracker.end(ending, {})
        except Exception as error:
            self._note(self._failure(error))

    def finish(self) -> None:
        """Close the place of a run; what is missing in it is sent first."""
        try:
            if self._next is None or self._has_failed:
                self._begin(before=None)
            path = self._folder / SUMMARY
            summary = parse_json(path.read_text(encoding="utf-8")) if path.exists() else None
            if not isinstance(summary, dict) or summary.get("n_rounds") != self._next:
                summary = None  # or that of an earlier part of the run
            self._tracker.end("stopped" if summary is None else "complete", figures_of(summary or {}, SUMMARY_PREFIX))
        except Exception as error:
            self._note(f"{self._failure(error)}; send what is missing by resuming the run with the same tracker")

    def _begin(self, before: int | None) -> None:
        """Open the place of the run and fill it with what is in the log, up to a round or to the end."""
        self._next = self._tracker.begin(tracked_run(self._folder))
        if before == 0:
            return
        for row in read_lines(self._folder / ROUNDS):
            if before is not None and int(str(row["round"])) >= before:
                break
            self._pass_on(row)

    def _pass_on(self, row: Mapping[str, Json]) -> None:
        round_index = int(str(row["round"]))
        if self._next is not None and round_index >= self._next:
            self._tracker.add(round_index, figures_of(row))
            self._next = round_index + 1

    def _failure(self, error: Exception) -> str:
        words = " ".join(without_password(f"{type(error).__name__}: {error}").split())
        cut = words if len(words) <= LONGEST_REASON else f"{words[: LONGEST_REASON - 3]}..."
        return f"{self._tracker.name} could not be told of the run ({cut})"
