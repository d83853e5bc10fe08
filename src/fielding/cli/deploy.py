"""`fielding deploy --local`: a real federation on this machine, for trying out an app before it meets real devices."""

import contextlib
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding.cli.console import Bar, progress_bar, say, tell
from fielding.cli.options import Quiet
from fielding.cli.stopping import stop_on_signal

if TYPE_CHECKING:
    from fielding.flower.flower_program import RunState
    from fielding.flower.local_federation import LocalFederation

EXAMPLE = Path("examples") / "flower"
"""The app that runs unless another is named."""
MOST_NODES = 64
_OUT_KEY, _ROUNDS_KEY = "out", "rounds"
_LOOK_S, _ASK_S = 0.5, 5.0
_LAST_LINES = 5


def deploy(
    local: Annotated[
        int, typer.Option("--local", min=1, max=MOST_NODES, help="How many nodes to start, on this machine.")
    ],
    app: Annotated[Path, typer.Option("--app", help="Folder of a Flower app.")] = EXAMPLE,
    rounds: Annotated[int | None, typer.Option("--rounds", min=1, help="Rounds; what the app says by default.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("fielding-deployment"),
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave SuperLink and nodes up after the run, until Ctrl-C.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Start a SuperLink and nodes on this machine, with TLS and a key for every node, and run an app on them.

    Writes the run folder OUT/run, and OUT/federation (readable by you alone) with keys, logs, the database and the
    states of the clients. Everything that was started ends with the command, also after Ctrl-C. The same command goes
    on with the same keys and states.
    """
    from fielding._extras import require

    require("flower")
    order = ["fielding", "deploy", "--local", str(local), "--app", str(app), "--out", str(out)]
    order += [] if rounds is None else ["--rounds", str(rounds)]
    with stop_on_signal(is_stepping=False) as stop:
        try:
            state = _deployed(local, app, rounds, out=out, keep=keep, quiet=quiet)
        except KeyboardInterrupt:
            tell(f"stopped, and all that was started with it; go on with: {shlex.join(order)}")
            raise typer.Exit(stop.exit_code) from None
    if not quiet:
        say(f"results: {out / 'run'}")
        say(f"traffic: {state.bytes_to_nodes} bytes to the nodes, {state.bytes_from_nodes} bytes from them")


def _deployed(n_nodes: int, app: Path, rounds: int | None, *, out: Path, keep: bool, quiet: bool) -> "RunState":
    """Run an app on a federation that lives as long as this call."""
    from fielding.flower.local_federation import LocalFederation

    config: dict[str, str | int | float | bool] = {_OUT_KEY: str((out / "run").resolve())}
    config |= {} if rounds is None else {_ROUNDS_KEY: rounds}
    with progress_bar("starting", rounds, quiet=quiet) as bar:
        bar.describe(f"starting a SuperLink and {n_nodes} nodes")
        federation = LocalFederation(out / "federation", n_nodes)
        with federation:
            bar.describe("submitting the app")
            run_id = federation.run_app(app, config)
            state = followed(federation, run_id, out / "run", bar)
            if keep:
                _keep(federation)
            bar.describe("stopping")
    return state


def followed(federation: "LocalFederation", run_id: str, folder: Path, bar: Bar) -> "RunState":
    """Show how a run comes along until it has ended, and return its last state.

    Raises
    ------
    ProcessError
        If it did not come to its own end; the message has the last lines of its log.
    """
    from fielding.flower.processes import ProcessError
    from fielding.reporting.log_reader import LogReader

    reader, seen, asked = LogReader(), 0, 0.0
    while True:
        rows = reader.lines(folder / "rounds.jsonl").rows
        if len(rows) > seen:
            bar.advance(len(rows) - seen)
            bar.describe(_words(rows[-1]))
            seen = len(rows)
        if time.monotonic() - asked >= _ASK_S:  # asking costs a second of a core
            state, asked = federation.state(run_id), time.monotonic()
            if state.is_completed:
                return state
            if state.is_ended:
                said = " / ".join(federation.log_lines(run_id)[-_LAST_LINES:])
                raise ProcessError(f"the run ended as {state.status}; it said: {said}")
        time.sleep(_LOOK_S)


def _words(row: dict[str, object]) -> str:
    """Return one line about a round.

    Examples
    --------
    >>> _words({"round": 4, "accuracy": 0.51234, "n_clusters": 3})
    'round 5, accuracy 0.512, 3 clusters'
    """
    accuracy = row.get("accuracy")
    measured = f", accuracy {accuracy:.3f}" if isinstance(accuracy, float) else ""
    return f"round {int(str(row.get('round', 0))) + 1}{measured}, {row.get('n_clusters', '?')} clusters"


def _keep(federation: "LocalFederation") -> None:
    """Wait for Ctrl-C, having said how to reach the federation."""
    home = shlex.quote(federation.supervisor.environment["FLWR_HOME"])
    tell(f"the SuperLink stays at {federation.address}; use it with: FLWR_HOME={home} flwr list here; Ctrl-C ends it")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(_LOOK_S)
