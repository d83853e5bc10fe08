"""`fielding demo`: the embedded example, from samples on devices to groups on the server."""

from pathlib import Path
from typing import Annotated

import typer

from fielding.cli.console import say
from fielding.cli.options import JsonOutput, Quiet, Seed
from fielding.cli.replay import say_summary, watched_replay
from fielding.client.drift import Chi2
from fielding.coordinator.policy import Policy
from fielding.engine.replay import Origin
from fielding.records.digest import stream_digest
from fielding.records.replay_folder import remove_replay
from fielding.rng import stream
from fielding.traces.demo import demo_stream
from fielding.traces.histograms import report_stream

SOURCE = "the embedded example"


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("fielding-demo"),
    seed: Seed = 1,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Replay an embedded drifting stream and show what the coordinator did, here and as a page.

    Clients in four places, later five, each with its own mix of labels, see samples arrive day by day. They report
    only when the calibrated test says that their data drifted; the coordinator keeps the groups right.
    """
    policy = Policy(seed=seed)
    example = demo_stream(stream(seed, "demo"))
    reports = report_stream(example.trace, plan=example.plan, drift_test=Chi2())
    remove_replay(out, source=SOURCE)
    origin = Origin(source=SOURCE, digest=stream_digest(reports))
    summary = watched_replay(reports, policy, out, origin=origin, quiet=quiet, hint="run the demo again")
    say_summary(summary, out, as_json=as_json, quiet=quiet)
    if not (as_json or quiet):
        say(f"page:    {out / 'report.html'}")
