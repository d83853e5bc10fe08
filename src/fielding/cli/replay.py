"""`fielding replay`: what the coordinator would have done with recorded reports."""

from pathlib import Path
from typing import Annotated

import typer

from fielding._version import __version__
from fielding.cli.console import complain, progress_bar, say, say_json, say_table
from fielding.cli.options import (
    DeltaStep,
    Hysteresis,
    Inherit,
    JsonOutput,
    KindOption,
    KMax,
    MetricOption,
    Partitioner,
    Quiet,
    Reference,
    Seed,
    Tau,
    TriggerOption,
    WarmStart,
    policy_from_options,
)
from fielding.cli.stopping import stop_on_signal
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.policy import Json, Policy, policy_record
from fielding.engine.replay import replay as replay_steps
from fielding.engine.replay import replay_summary
from fielding.records.digest import file_digest
from fielding.records.replay_folder import ReplayFolder, ReplayRow
from fielding.records.report_file import read_reports
from fielding.reporting.replay_page import replay_page
from fielding.traces.reports import ReportStream


def replay(
    reports: Annotated[Path, typer.Argument(help="Reports: .npz with step, client, representation; or .csv[.gz].")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")],
    kind: KindOption = "histogram",
    metric: MetricOption = "l1",
    trigger: TriggerOption = "center-shift",
    tau: Tau = "1/3",
    reference: Reference = "previous",
    delta_step: DeltaStep = 0.1,
    k_max: KMax = 10,
    partitioner: Partitioner = "kmeans",
    hysteresis: Hysteresis = 0.0,
    warm_start: WarmStart = False,
    inherit: Inherit = "average",
    seed: Seed = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a stopped replay ended; start one if there is none.")
    ] = False,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Write report.html (5 MB).")] = True,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Replay recorded reports through the coordinator and write down every decision.

    Writes decisions.jsonl (a line per step), events.jsonl (who reported, moved, joined, fell silent), membership.npz
    (the cluster of every client at every step), summary.json, coordinator.ckpt and report.html.
    """
    policy = policy_from_options(
        kind=kind, metric=metric, trigger=trigger, tau=tau, reference=reference, delta_step=delta_step, k_max=k_max,
        partitioner=partitioner, hysteresis=hysteresis, warm_start=warm_start, inherit=inherit, seed=seed,
    )  # fmt: skip
    stream = read_reports(reports, kind=policy.kind)
    summary = run_replay(
        stream,
        policy,
        out,
        source=reports.name,
        digest=file_digest(reports),
        resume=resume,
        page=page,
        quiet=quiet,
    )
    say_summary(summary, out, as_json=as_json, quiet=quiet)


def run_replay(
    stream: ReportStream,
    policy: Policy,
    out: Path,
    *,
    source: str,
    digest: str,
    resume: bool,
    page: bool,
    quiet: bool,
) -> dict[str, Json]:
    """Replay a stream into a folder with progress and return the summary; exit with 130 or 143 if stopped."""
    manifest: dict[str, Json] = {
        "fielding": __version__,
        "source": source,
        "reports_blake2b": digest,
        "policy": policy_record(policy),
    }
    folder = ReplayFolder(out, manifest)
    found, after = None, None
    if resume and folder.is_begun():
        found, after = folder.resume()
    else:
        folder.begin()
    coordinator = found or Coordinator(policy)
    with stop_on_signal() as stop, progress_bar("replaying", len(stream), quiet=quiet) as advance:

        def goes_on(_row: ReplayRow) -> bool:
            advance(1)
            return stop.received is None

        done = replay_steps(stream, coordinator, folder, after=after, goes_on=goes_on)
    if not done:
        complain(f"stopped; what was done is in {out}, go on with --resume")
        raise typer.Exit(stop.exit_code)
    rows = folder.rows()
    summary = replay_summary(rows)
    if page:
        folder.write_page(replay_page(rows, summary, manifest))
    return summary


def say_summary(summary: dict[str, Json], out: Path, *, as_json: bool, quiet: bool) -> None:
    """Print the totals of a replay."""
    if as_json:
        say_json(summary)
    elif not quiet:
        names = {
            "n_steps": "steps",
            "n_clients": "clients",
            "n_reports": "reports",
            "n_moves": "moves one by one",
            "n_reclusterings": "re-clusterings of all",
            "n_clusters_last": "clusters at the end",
            "mean_client_distance": "mean distance within clusters",
            "mean_distance_unclustered": "mean distance without clusters",
        }
        rows = [[label, _plain(summary[name])] for name, label in names.items()]
        say_table("What the coordinator did", [["", ""], *rows])
        say(f"results: {out}")


def _plain(value: Json) -> str:
    return "-" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
