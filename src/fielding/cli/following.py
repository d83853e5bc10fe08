"""Follow a run of a real federation until it has ended; one whose server was killed is submitted again."""

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fielding.cli.console import Bar, tell

if TYPE_CHECKING:
    from fielding.flower.flower_program import RunState
    from fielding.flower.local_federation import LocalFederation

MOST_RETURNS = 3
"""How often an app is submitted again."""
MOST_SILENCES = 3
"""How often in a row the federation may fail to tell how a run is."""
_LOOK_S, _ASK_S = 0.5, 5.0
_LAST_LINES = 5
_FAILED = re.compile(r"(client|node) [^,]*, \w+: failed \(.*\)")
"""How the server tells of an answer that counts for nothing."""


def finished(
    federation: "LocalFederation", app: Path, config: Mapping[str, str | int | float | bool], bar: Bar
) -> "RunState":
    """Submit an app, show how it comes along, and return its last state, with the traffic of all submissions.

    Parameters
    ----------
    federation
        Where it runs.
    app
        Its folder.
    config
        Settings of the app to change, with ``out``.
    bar
        Shows the rounds.

    Raises
    ------
    ProcessError
        If the app fails, is stopped by somebody else, or its process dies again and again.
    """
    from fielding.flower.flower_program import RunState
    from fielding.flower.processes import ProcessError

    look, lost = rounds_shown(Path(str(config["out"])), bar), RunState(status="", bytes_to_nodes=0, bytes_from_nodes=0)
    for returns_left in reversed(range(MOST_RETURNS + 1)):
        bar.describe("submitting the app")
        run_id = federation.run_app(app, config)
        state = followed(federation, run_id, look)
        state = replace(
            state,
            bytes_to_nodes=state.bytes_to_nodes + lost.bytes_to_nodes,
            bytes_from_nodes=state.bytes_from_nodes + lost.bytes_from_nodes,
        )
        if state.is_completed:
            _tell_failures(*_kept_log(federation, run_id))
            return state
        if not state.was_lost:
            break
        lost = state
        if returns_left:
            tell(f"the server of the run is gone ({state.details or state.status}); the app is submitted again")
    raise ProcessError(_failure(federation, run_id, state))


def rounds_shown(folder: Path, bar: Bar) -> Callable[[], None]:
    """Return what looks for new rounds in a run folder and shows them."""
    from fielding.reporting.log_reader import LogReader

    reader, seen = LogReader(), 0

    def look() -> None:
        nonlocal seen
        rows = reader.lines(folder / "rounds.jsonl").rows
        if len(rows) > seen:
            bar.advance(len(rows) - seen)
            bar.describe(_words(rows[-1]))
            seen = len(rows)

    return look


def has_trained(folder: Path) -> bool:
    """Return whether any client took part in any round of a run."""
    from fielding.reporting.log_reader import LogReader

    return any(row.get("n_participants") for row in LogReader().lines(folder / "rounds.jsonl").rows)


def followed(federation: "LocalFederation", run_id: str, look: Callable[[], None]) -> "RunState":
    """Look at a run until it has ended, and return its last state."""
    from fielding.flower.processes import ProcessError

    asked, n_silences = -_ASK_S, 0
    while True:
        look()
        if time.monotonic() - asked >= _ASK_S:  # asking costs a second of a core
            try:
                state, n_silences = federation.state(run_id), 0
            except ProcessError:  # a busy machine, as a rule
                n_silences += 1
                if n_silences > MOST_SILENCES:
                    raise
            else:
                if state.is_ended:
                    look()
                    return state
            asked = time.monotonic()
        time.sleep(_LOOK_S)


def _kept_log(federation: "LocalFederation", run_id: str) -> tuple[Path, list[str]]:
    """Return what the server of a run said, if that can be found out, and the file where it is kept."""
    from fielding.flower.processes import ProcessError

    kept, lines = federation.folder / "logs" / f"run-{run_id}.log", []
    with contextlib.suppress(ProcessError, OSError):
        lines = federation.log_lines(run_id)
        kept.write_text("\n".join([*lines, ""]))
    return kept, lines


def _tell_failures(kept: Path, lines: list[str]) -> None:
    """Tell in a line that nodes failed, and what the first one said."""
    failures = [found.group() for line in lines if (found := _FAILED.search(line))]
    if failures:
        tell(f"{len(failures)} answers of nodes failed; the first: {failures[0]} (all in {kept})")


def _failure(federation: "LocalFederation", run_id: str, state: "RunState") -> str:
    """Return in a line what became of a run, and keep what its server said."""
    kept, lines = _kept_log(federation, run_id)
    more = f" (more in {kept})" if lines else ""
    if state.own_error:
        return f"the app failed: {state.own_error}{more}"
    if state.was_lost:
        return f"the server of the run died {MOST_RETURNS + 1} times: {state.details or state.status}{more}"
    said = " / ".join(lines[-_LAST_LINES:]) or "nothing"
    return f"the run ended as {state.status}; it said: {said}{more}"


def _words(row: dict[str, object]) -> str:
    """Return one line about a round.

    Examples
    --------
    >>> _words({"round": 4, "accuracy": 0.51234, "n_clusters": 3})
    'round 5, accuracy 0.512, 3 clusters'
    >>> _words({"round": 5, "n_clusters": 3, "n_failed": 2})
    'round 6, 3 clusters, 2 nodes failed'
    """
    accuracy = row.get("accuracy")
    measured = f", accuracy {accuracy:.3f}" if isinstance(accuracy, float) else ""
    failed = f", {row['n_failed']} nodes failed" if row.get("n_failed") else ""
    return f"round {int(str(row.get('round', 0))) + 1}{measured}, {row.get('n_clusters', '?')} clusters{failed}"
