"""`fielding deploy --local`: a real federation on this machine, for trying out an app before it meets real devices."""

import contextlib
import re
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding._typing import Json
from fielding.cli.console import Bar, note_down, progress_bar, say, tell
from fielding.cli.options import OUT, Quiet, stop_on_signal
from fielding.errors import InputError
from fielding.reporting.formatting import score_words

if TYPE_CHECKING:
    from fielding.flower.deploy.app_folder import AppFolder
    from fielding.flower.deploy.federation import LocalFederation
    from fielding.flower.deploy.flower_program import RunState

MOST_NODES = 64
MOST_RETURNS = 3  # how often an app is submitted again
MOST_SILENCES = 3  # how often in a row the federation may fail to tell how a run is
_LOOK_S, _ASK_S = 0.5, 5.0
_LAST_LINES = 5
_FAILED = re.compile(r"(client|node) [^,]*, \w+: failed \(.*\)")
"""How the server tells of an answer that counts for nothing."""


def deploy(
    local: Annotated[
        int, typer.Option("--local", min=1, max=MOST_NODES, help="How many nodes to start, on this machine.")
    ],
    app: Annotated[
        Path | None, typer.Option("--app", help="Folder of a Flower app; the example of this package by default.")
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="Rounds; what the app says by default.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.", **OUT)] = Path(
        "fielding-deployment"
    ),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave SuperLink and nodes up after the run, until Ctrl-C.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Start a SuperLink and nodes on this machine, with TLS and a key for every node, and run an app on them.

    Writes the run folder OUT/run, and OUT/federation (readable by you alone) with keys, logs, the database and the
    states of the clients. Everything that was started ends with the command, also after Ctrl-C. The same command goes
    on with the same keys and states. If the server of the run is killed, the app is submitted again and goes on.
    """
    from fielding.reporting.numbers.run_record import LogReader

    order = ["fielding", "deploy", "--local", str(local), *([] if app is None else ["--app", str(app)])]
    order += ["--out", str(out), *([] if rounds is None else ["--rounds", str(rounds)])]
    with stop_on_signal(is_stepping=False) as stop:
        try:
            checked = _check_before_start(app, rounds, out, keep=keep)
            state = _run_federation(checked, local, rounds, out=out, keep=keep, quiet=quiet)
        except KeyboardInterrupt:
            tell(f"stopped, and all that was started with it; go on with: {shlex.join(order)}")
            raise typer.Exit(stop.exit_code) from None
    if not any(row.get("n_participants") for row in LogReader().lines(out / "run" / "rounds.jsonl").rows):
        note_down(f"no node ever trained; what they say is in {out / 'federation' / 'logs'}")
    if not quiet:
        say(f"results: {out / 'run'}")
        say(f"traffic: {state.bytes_to_nodes} bytes to the nodes, {state.bytes_from_nodes} bytes from them")


def _check_before_start(app: Path | None, rounds: int | None, out: Path, *, keep: bool) -> "AppFolder":
    """Return the app, after all that can be found wrong before anything is started."""
    from fielding.flower.deploy.app_folder import check_room, check_writable, read_app, shipped_app
    from fielding.flower.deploy.environment import check_installation

    found, run = read_app(shipped_app() if app is None else app), out / "run"
    found.check_run(run, rounds)
    if found.is_complete(run, rounds) and not keep:
        raise InputError(
            f"{run} holds a complete run; look at it with: fielding report {run}, give more --rounds, or name another "
            "--out"
        )
    check_installation(out)
    check_writable(out)
    check_writable(run)
    check_room(out)
    return found


def _run_federation(
    app: "AppFolder", n_nodes: int, rounds: int | None, *, out: Path, keep: bool, quiet: bool
) -> "RunState":
    """Run an app on a federation that lives as long as this call."""
    from fielding.flower.deploy.app_folder import check_room
    from fielding.flower.deploy.federation import LocalFederation
    from fielding.flower.deploy.processes import ProcessError

    config = app.overrides((out / "run").resolve(), n_nodes=n_nodes, rounds=rounds)
    if "min-nodes" in config and not quiet:
        note_down(f"the app waits for {app.config['min-nodes']} nodes; here it waits for {n_nodes}")
    with progress_bar("starting", rounds or app.config.get("rounds"), quiet=quiet) as bar:
        bar.describe(f"starting a SuperLink and {n_nodes} nodes")
        federation = LocalFederation(out / "federation", n_nodes)
        try:
            federation.start()
            state = submit_app(federation, app.path, config, bar)
            if keep:
                home = shlex.quote(federation.supervisor.environment["FLWR_HOME"])
                use = f"FLWR_HOME={home} flwr list here"
                tell(f"the SuperLink stays at {federation.address}; use it with: {use}; Ctrl-C ends it")
                with contextlib.suppress(KeyboardInterrupt):
                    while True:
                        time.sleep(_LOOK_S)
        except ProcessError:
            check_room(out)  # whatever they say then, this is the reason
            raise
        finally:
            # A second signal is answered with a line: else something would be left.
            bar.describe("stopping")
            with _answer_signals("all that was started is being stopped, a moment"):
                federation.stop()
    return state


@contextlib.contextmanager
def _answer_signals(words: str) -> Iterator[None]:
    """Answer SIGINT and SIGTERM with a line, for as long as the block takes."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda _number, _frame: tell(words))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def submit_app(
    federation: "LocalFederation", app: Path, config: Mapping[str, str | int | float | bool], bar: Bar
) -> "RunState":
    """Submit an app, show how it comes along, and return its last state, with the traffic of all submissions.

    ``config`` holds settings of the app to change, with ``out``. ProcessError if the app fails, is stopped from
    elsewhere, or its process dies again and again.
    """
    from fielding.flower.deploy.flower_program import RunState
    from fielding.flower.deploy.processes import ProcessError

    look, lost = round_viewer(Path(str(config["out"])), bar), RunState(status="", bytes_to_nodes=0, bytes_from_nodes=0)
    for returns_left in reversed(range(MOST_RETURNS + 1)):
        bar.describe("submitting the app")
        run_id = federation.run_app(app, config)
        state = wait_for_run(federation, run_id, look)
        state = replace(
            state,
            bytes_to_nodes=state.bytes_to_nodes + lost.bytes_to_nodes,
            bytes_from_nodes=state.bytes_from_nodes + lost.bytes_from_nodes,
        )
        if state.is_completed:
            kept, lines = _keep_log(federation, run_id)
            failures = [found.group() for line in lines if (found := _FAILED.search(line))]
            if failures:
                tell(f"{len(failures)} answers of nodes failed; the first: {failures[0]} (all in {kept})")
            return state
        if not state.was_lost:
            break
        lost = state
        if returns_left:
            tell(f"the server of the run is gone ({state.details or state.status}); the app is submitted again")
    kept, lines = _keep_log(federation, run_id)
    more = f" (more in {kept})" if lines else ""
    if state.own_error:
        raise ProcessError(f"the app failed: {state.own_error}{more}")
    if state.was_lost:
        why = state.details or state.status
        raise ProcessError(f"the server of the run died {MOST_RETURNS + 1} times: {why}{more}")
    said = " / ".join(lines[-_LAST_LINES:]) or "nothing"
    raise ProcessError(f"the run ended as {state.status}; it said: {said}{more}")


def round_viewer(folder: Path, bar: Bar) -> Callable[[], None]:
    """Return a function that looks for new rounds in a run folder and shows them."""
    from fielding.reporting.numbers.run_record import LogReader

    reader, seen = LogReader(), 0

    def look() -> None:
        nonlocal seen
        rows = reader.lines(folder / "rounds.jsonl").rows
        if len(rows) > seen:
            bar.advance(len(rows) - seen)
            bar.describe(_round_words(rows[-1]))
            seen = len(rows)

    return look


def wait_for_run(federation: "LocalFederation", run_id: str, look: Callable[[], None]) -> "RunState":
    """Look at a run until it has ended, and return its last state."""
    from fielding.flower.deploy.processes import ProcessError

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


def _keep_log(federation: "LocalFederation", run_id: str) -> tuple[Path, list[str]]:
    """Keep what the server of a run said, if that can be found out; return the file and the lines."""
    from fielding.flower.deploy.processes import ProcessError

    kept, lines = federation.folder / "logs" / f"run-{run_id}.log", []
    with contextlib.suppress(ProcessError, OSError):
        lines = federation.log_lines(run_id)
        kept.write_text("\n".join([*lines, ""]))
    return kept, lines


def _round_words(row: Mapping[str, Json]) -> str:
    """Return one line about a round.

    Examples
    --------
    >>> _round_words({"round": 4, "accuracy": 0.51234, "n_clusters": 3})
    'round 5, accuracy 0.512, 3 clusters'
    >>> _round_words({"round": 5, "n_clusters": 3, "n_failed": 2})
    'round 6, 3 clusters, 2 nodes failed'
    """
    words = score_words(row)
    measured = f", {words}" if words else ""
    failed = f", {row['n_failed']} nodes failed" if row.get("n_failed") else ""
    return f"round {int(str(row.get('round', 0))) + 1}{measured}, {row.get('n_clusters', '?')} clusters{failed}"
