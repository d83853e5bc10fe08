"""`fielding replay`: what the coordinator would have done with recorded reports."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fielding.cli.console import counting, progress_bar, say, say_json, say_table, tell
from fielding.cli.options import (
    OUT,
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
    Robust,
    Seed,
    Tau,
    TriggerOption,
    WarmStart,
    policy_from_options,
    stop_on_signal,
)
from fielding.coordinator.trigger import LearnedTau
from fielding.engine.replay import run_replay
from fielding.errors import OptionError
from fielding.records.manifest import file_digest, stream_digest
from fielding.records.replay_folder import ReplayRow
from fielding.records.report_file import read_reports
from fielding.records.run_folder import CONFIG, read_manifest, read_run_reports
from fielding.reporting.formatting import plain

_LABELS = {
    "n_steps": "steps",
    "n_clients": "clients",
    "n_reports": "reports",
    "n_moves": "moves one by one",
    "n_reclusterings": "re-clusterings of all",
    "n_clusters_last": "clusters at the end",
    "mean_client_distance": "mean distance within clusters",
    "mean_distance_unclustered": "mean distance without clusters",
}


def replay_command(
    context: typer.Context,
    reports: Annotated[
        Path, typer.Argument(help="Reports: .npz with step, client, representation; .csv[.gz]; or a run.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.", **OUT)],
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
    robust: Robust = False,
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

    The reports of a run are replayed by the rules of that run; options that are given count instead of them.
    Writes decisions.jsonl (a line per step), events.jsonl (who reported, moved, joined, fell silent), membership.npz
    (the cluster of every client at every step), summary.json, coordinator.ckpt and report.html.
    """
    options = {
        "kind": kind, "metric": metric, "trigger": trigger, "tau": tau, "reference": reference,
        "delta_step": delta_step, "k_max": k_max, "partitioner": partitioner, "hysteresis": hysteresis,
        "warm_start": warm_start, "robust": robust, "inherit": inherit, "seed": seed,
    }  # fmt: skip
    # Options that stand on the command line, even with their defaults.
    sources = {name: context.get_parameter_source(name) for name in options}
    given = {name: options[name] for name, one in sources.items() if one is not None and one.name == "COMMANDLINE"}
    of_run = _run_options(reports) if (reports / CONFIG).is_file() else {}
    policy = policy_from_options(**{**options, **of_run, **given})
    if reports.is_dir():
        stream = read_run_reports(reports, policy.kind)
        digest = stream_digest(stream)
    else:
        with progress_bar(f"reading {reports.name}", None, quiet=quiet) as bar:
            stream = read_reports(reports, kind=policy.kind, on_rows=counting(bar))
        digest = file_digest(reports)
    with stop_on_signal() as stop, progress_bar("replaying", len(stream), quiet=quiet) as advance:

        def watch(_row: ReplayRow | None) -> bool:
            advance(1)
            return stop.received is None

        summary = run_replay(
            stream, policy, out, source=reports.name, digest=digest, resume=resume, page=page, watch=watch
        )
    if summary is None:
        tell(f"stopped; what was done is in {out}, go on with --resume")
        raise typer.Exit(stop.exit_code)
    if as_json:
        say_json(summary)
    elif not quiet:
        rows = [[label, plain(summary[name])] for name, label in _LABELS.items()]
        say_table("What the coordinator did", [["", ""], *rows])
        say(f"results: {out}")
        if of_run:
            changed = ", ".join(name.replace("_", "-") for name in given)
            say("rules: as in the run" + (f", except {changed}" if changed else ""))


def _run_options(folder: Path) -> dict[str, Any]:
    """Return the rules that the coordinator of a run followed, as the options of this command."""
    from fielding.config.reader import read_config
    from fielding.engine.plugins import CLIENT, RECORD, policy_of
    from fielding.engine.report_rule import is_own_function, report_rule_of

    config = read_config(folder / CONFIG)
    section, own = config.coordinator, read_manifest(folder).get("own")
    is_own = (isinstance(own, dict) and own.get("represent") is True) or is_own_function(section)
    for name, known in (("k_choice", "silhouette"), ("noise_floor", False)):
        if (value := getattr(section, name)) != known:
            raise OptionError(
                f"{folder} ran with coordinator.{name} = {value!r}; only runs with {known!r} can be replayed"
            )
    if config.privacy.mode in (RECORD, CLIENT):
        raise OptionError(f"{folder} ran with private reports; only runs with exact ones can be replayed")
    report_rule = report_rule_of(section, is_own=is_own, seed=config.seed)
    policy = policy_of(config, kind=report_rule.kind, metric=report_rule.metric)
    if isinstance(policy.trigger, LearnedTau):
        raise OptionError(
            f"{folder} learned tau from how training went; only runs with a tau that is given can be replayed"
        )
    return {
        "kind": policy.kind,
        "metric": policy.metric,
        "trigger": section.trigger,
        "tau": str(section.tau),
        "reference": section.reference,
        "delta_step": section.delta_step,
        "delta_rule": section.delta_rule,
        "k_max": policy.clusterer.k_max,
        "partitioner": section.partitioner,
        "hysteresis": section.hysteresis,
        "warm_start": section.warm_start,
        "robust": section.robust,
        "inherit": policy.inherit,
        "seed": policy.seed,
    }
