"""`fielding deploy --local`: a real federation on this machine, for trying out an app before it meets real devices."""

import contextlib
import shlex
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding.cli.console import Bar, note_down, progress_bar, say, tell
from fielding.cli.following import finished, has_trained
from fielding.cli.options import Quiet
from fielding.cli.stopping import stop_on_signal
from fielding.errors import InputError

if TYPE_CHECKING:
    from fielding.flower.app_folder import AppFolder
    from fielding.flower.flower_program import RunState
    from fielding.flower.local_federation import LocalFederation

MOST_NODES = 64
_LOOK_S = 0.5


def deploy(
    local: Annotated[
        int, typer.Option("--local", min=1, max=MOST_NODES, help="How many nodes to start, on this machine.")
    ],
    app: Annotated[
        Path | None, typer.Option("--app", help="Folder of a Flower app; the example of this package by default.")
    ] = None,
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
    on with the same keys and states. If the server of the run is killed, the app is submitted again and goes on.
    """
    order = ["fielding", "deploy", "--local", str(local), *([] if app is None else ["--app", str(app)])]
    order += ["--out", str(out), *([] if rounds is None else ["--rounds", str(rounds)])]
    with stop_on_signal(is_stepping=False) as stop:
        try:
            state = _deployed(_checked(app, rounds, out, keep=keep), local, rounds, out=out, keep=keep, quiet=quiet)
        except KeyboardInterrupt:
            tell(f"stopped, and all that was started with it; go on with: {shlex.join(order)}")
            raise typer.Exit(stop.exit_code) from None
    if not has_trained(out / "run"):
        note_down(f"no node ever trained; what they say is in {out / 'federation' / 'logs'}")
    if not quiet:
        say(f"results: {out / 'run'}")
        say(f"traffic: {state.bytes_to_nodes} bytes to the nodes, {state.bytes_from_nodes} bytes from them")


def _checked(app: Path | None, rounds: int | None, out: Path, *, keep: bool) -> "AppFolder":
    """Return the app, after all that can be found wrong before anything is started."""
    from fielding.flower.app_folder import check_room, check_writable, is_complete, read_app, shipped_app
    from fielding.flower.environment import check_installation

    found, run = read_app(shipped_app() if app is None else app), out / "run"
    found.check_run(run, rounds)
    if is_complete(run) and not keep:
        raise InputError(f"{run} holds a complete run; look at it with: fielding report {run}, or name another --out")
    check_installation(out)
    check_writable(out)
    check_writable(run)
    check_room(out)
    return found


def _deployed(app: "AppFolder", n_nodes: int, rounds: int | None, *, out: Path, keep: bool, quiet: bool) -> "RunState":
    """Run an app on a federation that lives as long as this call."""
    from fielding.flower.app_folder import check_room
    from fielding.flower.local_federation import LocalFederation
    from fielding.flower.processes import ProcessError

    config = app.overrides((out / "run").resolve(), n_nodes=n_nodes, rounds=rounds)
    if "min-nodes" in config and not quiet:
        note_down(f"the app waits for {app.config['min-nodes']} nodes; here it waits for {n_nodes}")
    with progress_bar("starting", rounds or app.config.get("rounds"), quiet=quiet) as bar:
        bar.describe(f"starting a SuperLink and {n_nodes} nodes")
        federation = LocalFederation(out / "federation", n_nodes)
        try:
            federation.start()
            state = finished(federation, app.path, config, bar)
            if keep:
                _keep(federation)
        except ProcessError:
            check_room(out)  # whatever they say then, this is the reason
            raise
        finally:
            _stop(federation, bar)
    return state


def _stop(federation: "LocalFederation", bar: Bar) -> None:
    """Stop everything; who asks once more is told that it is being done, since else something would be left."""
    bar.describe("stopping")
    with _signals_told("all that was started is being stopped, a moment"):
        federation.stop()


@contextlib.contextmanager
def _signals_told(words: str) -> Iterator[None]:
    """Answer SIGINT and SIGTERM with a line, for as long as the block takes."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda _number, _frame: tell(words))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep(federation: "LocalFederation") -> None:
    """Wait for Ctrl-C, having said how to reach the federation."""
    home = shlex.quote(federation.supervisor.environment["FLWR_HOME"])
    tell(f"the SuperLink stays at {federation.address}; use it with: FLWR_HOME={home} flwr list here; Ctrl-C ends it")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(_LOOK_S)
