"""`fielding data`: what a file holds, and how to turn it into a trace or into reports."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fielding.cli.console import say, say_json
from fielding.cli.data_catalog import DataFolder, fetch, list_data
from fielding.cli.description import say_description
from fielding.cli.inspected import (
    inspected_trace,
    is_reports,
    known_samples,
    known_set,
    own_samples,
    read_trace_with_progress,
)
from fielding.cli.options import JsonOutput, KindOption, MetricOption, Quiet
from fielding.client.drift import DRIFT_TESTS, drift_test_named
from fielding.records.report_file import read_reports, write_reports
from fielding.reporting.words import plain
from fielding.traces.catalog import Narrowing, NaturalDefaults
from fielding.traces.hashing import TEXT_FEATURES
from fielding.traces.histograms import WindowPlan, report_stream
from fielding.traces.importers import Columns, feature_names
from fielding.traces.statistics import PoolDescription
from fielding.traces.trace import write_trace

data_app = typer.Typer(help="Look at data, import traces, turn traces into reports.", no_args_is_help=True)

Source = Annotated[Path, typer.Argument(help="A .npz or .csv[.gz] file.")]
ClientColumn = Annotated[str, typer.Option("--client", help="Column that says who.")]
TimeColumn = Annotated[str, typer.Option("--time", help="Column that says when: unix seconds, ISO dates or months.")]
LabelColumn = Annotated[str, typer.Option("--label", help="Column that says what: the class.")]
CountColumn = Annotated[str | None, typer.Option("--count", help="Column that says how many equal samples.")]
FeatureColumns = Annotated[
    str | None, typer.Option("--features", help="Columns of numbers, separated by commas; acc_* is a pattern.")
]
TextColumn = Annotated[str | None, typer.Option("--text", help="Column of text, hashed to features.")]
TextFeatures = Annotated[int, typer.Option("--text-features", help="Features that a text is hashed to.")]
Last = Annotated[str | None, typer.Option("--last", help="Keep only the last so much time, e.g. 1050d.")]
MostActive = Annotated[int | None, typer.Option("--clients", help="Keep only the so many most active clients.")]
IntervalOption = Annotated[str, typer.Option("--interval", help="Real time between arrivals: 6h, 1d, month, ...")]
Gap = Annotated[int, typer.Option(help="Rounds between arrivals.")]
Window = Annotated[int, typer.Option(help="Rounds that a sample stays visible.")]
UsualInterval = Annotated[
    str | None,
    typer.Option(
        "--interval", help="Time between which drift is measured: 6h, month, ...; 1d, or what suits a known set."
    ),
]
UsualAlign = Annotated[
    str | None,
    typer.Option("--align", help="calendar (real dates) or client (each one's own start); as suits the data."),
]
AlignOption = Annotated[str, typer.Option("--align", help="calendar (real dates) or client (each one's own start).")]
Detector = Annotated[str, typer.Option(help=f"When a client reports: {', '.join(DRIFT_TESTS)}.")]


@data_app.command()
def info(
    file: Annotated[Path, typer.Argument(help="A .npz or .csv[.gz] file, a folder of images, or a known data set.")],
    client: ClientColumn = "client",
    time: TimeColumn = "time",
    label: LabelColumn = "label",
    count: CountColumn = None,
    last: Last = None,
    clients: MostActive = None,
    interval: UsualInterval = None,
    window: Annotated[int, typer.Option(help="Intervals that a histogram sums up, for delta and Delta.")] = 1,
    align: UsualAlign = None,
    metric: MetricOption = "l1",
    kind: KindOption = "histogram",
    data: DataFolder = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Tell what a file, a folder of images or a known data set holds, which kinds of drift it has, and what to use.

    For a trace: rows, clients, classes, span; the L1 distance between a client's label shares of consecutive
    intervals and what sampling alone would give. Then, for its windowed histograms or for the reports in the file: the
    largest step of one client (delta) and the largest distance within the clusters of the first step (Delta). Then
    whether label mixes, inputs of a label and meanings of labels change over time and differ between clients, and
    what to use for that. For samples without clients and times: how many, their shape, and how many of each class.
    """
    from fielding.engine.inspection import inspect_reports
    from fielding.simulation.drift_advice import POOL_ADVICE

    entry = known_set(file)
    if entry is None and is_reports(file):
        say_description(asdict(inspect_reports(read_reports(file, kind), metric)), as_json=as_json)
        return
    columns, part = Columns(client=client, time=time, label=label, count=count), Narrowing(last=last, clients=clients)
    if entry is not None:
        samples = known_samples(entry, part, folder=data, quiet=quiet)
    else:
        samples = own_samples(file, columns, part, quiet=quiet)
    if isinstance(samples, PoolDescription):
        say_description({"pool": asdict(samples), "advice": POOL_ADVICE}, as_json=as_json)
        return
    usual = (entry and entry.defaults) or NaturalDefaults()
    plan = WindowPlan(interval=interval or usual.interval, gap=1, window=window, align=align or usual.align)
    say_description(inspected_trace(samples, plan, metric, quiet=quiet), as_json=as_json)


@data_app.command("import")
def import_file(
    file: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .npz (with --reports also .csv[.gz]).")],
    client: ClientColumn = "client",
    time: TimeColumn = "time",
    label: LabelColumn = "label",
    count: CountColumn = None,
    features: FeatureColumns = None,
    text: TextColumn = None,
    text_features: TextFeatures = TEXT_FEATURES,
    last: Last = None,
    clients: MostActive = None,
    reports: Annotated[bool, typer.Option("--reports", help="Write label-histogram reports for `replay`.")] = False,
    interval: IntervalOption = "1d",
    gap: Gap = 2,
    window: Window = 100,
    align: AlignOption = "calendar",
    detector: Detector = "chi2",
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Turn a CSV or npz file with client, time and label into a trace, or with --reports into reports for replay."""
    columns = Columns(
        client=client, time=time, label=label, count=count, text=text, n_text_features=text_features,
        features=feature_names(features),
    )  # fmt: skip
    trace = Narrowing(last=last, clients=clients).apply(read_trace_with_progress(file, columns, quiet=quiet))
    written: dict[str, int | str] = {"file": str(out), "clients": len(trace.client_ids), "classes": len(trace.classes)}
    if reports:
        plan = WindowPlan(interval=interval, gap=gap, window=window, align=align)
        stream = report_stream(trace, plan=plan, drift_test=drift_test_named(detector))
        write_reports(stream, out)
        written |= {"reports": stream.n_rows, "steps": len(stream)}
    else:
        write_trace(trace, out)
        written |= {"rows": trace.n_rows}
        written |= {} if trace.x is None else {"features": math.prod(trace.x.shape[1:])}
    if as_json:
        say_json(written)
    elif not quiet:
        say(plain(written))


data_app.command("list")(list_data)
data_app.command()(fetch)
