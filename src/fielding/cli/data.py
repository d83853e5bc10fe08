"""`fielding data`: what a file holds, and how to turn it into a trace or into reports."""

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from fielding.cli.completion import complete_data_sets
from fielding.cli.console import Advance, counting, note_down, progress_bar, say, say_json, say_table
from fielding.cli.options import OUT, JsonOutput, KindOption, MetricOption, Quiet
from fielding.client.drift import DRIFT_TESTS, drift_test_named
from fielding.config.parts import LAYOUTS
from fielding.errors import unknown_name
from fielding.records.report_file import read_reports, write_reports
from fielding.reporting.formatting import plain
from fielding.traces.catalog import CATALOG, FOLDER_VARIABLE, Entry, Narrowing, NaturalDefaults, Opening, data_folder
from fielding.traces.features import TEXT_FEATURES
from fielding.traces.histograms import WindowPlan, report_stream
from fielding.traces.images import DEFAULT_SPEC, Decoding, attach_images, find_images, is_image_list, read_image_list
from fielding.traces.importers import (
    Columns,
    OnNote,
    feature_names,
    header_of,
    ignore_note,
    import_pool,
    import_trace,
)
from fielding.traces.intervals import LAST_MOMENT, parse_block, parse_interval
from fielding.traces.likeness import describe_split
from fielding.traces.pool import Pool
from fielding.traces.sources import sort_samples
from fielding.traces.statistics import PoolDescription, TraceDescription, describe_pool
from fielding.traces.trace import EARLIEST_DATE, Trace, write_trace

if TYPE_CHECKING:
    from fielding.traces.diagnosis import DriftDiagnosis

DataFolder = Annotated[
    Path | None,
    typer.Option("--data", help=f"Folder of data sets; without it {FOLDER_VARIABLE}, or ~/.cache/fielding/data."),
]
TargetFolder = Annotated[
    Path | None,
    typer.Option("--to", help=f"Folder to write into; without it {FOLDER_VARIABLE}, or ~/.cache/fielding/data."),
]
Source = Annotated[Path, typer.Argument(help="A .npz, .csv[.gz] or .parquet file.")]
ClientColumn = Annotated[str, typer.Option("--client", help="Column that says who.")]
TimeColumn = Annotated[str, typer.Option("--time", help="Column that says when: unix seconds, ISO dates or months.")]
LabelColumn = Annotated[str, typer.Option("--label", help="Column that says what: the class.")]
CountColumn = Annotated[str | None, typer.Option("--count", help="Column that says how many equal samples.")]
FeatureColumns = Annotated[
    str | None,
    typer.Option("--features", help="Columns of numbers or categories, separated by commas; acc_* is a pattern."),
]
TextColumn = Annotated[str | None, typer.Option("--text", help="Column of text, hashed to features.")]
LayoutOption = Annotated[
    str | None, typer.Option("--layout", help=f"What the folders of images are: {' or '.join(LAYOUTS)}; seen.")
]
TextFeatures = Annotated[int, typer.Option("--text-features", help="Features that a text is hashed to.")]
Last = Annotated[str | None, typer.Option("--last", help="Keep only the last so much time, e.g. 1050d.")]
MostActive = Annotated[int | None, typer.Option("--clients", help="Keep only the so many most active clients.")]
IntervalOption = Annotated[str, typer.Option("--interval", help="Real time between arrivals: 6h, 1d, month, ...")]
Gap = Annotated[int, typer.Option(help="Rounds between arrivals.")]
Window = Annotated[str, typer.Option(help="Rounds that a sample stays visible, or a length of time: 14d.")]
UsualInterval = Annotated[
    str | None,
    typer.Option(
        "--interval",
        help="Time between which drift is measured: 6h, month, ...; chosen as by `new`, or as suits a known set.",
    ),
]
AlignOption = Annotated[str, typer.Option("--align", help="calendar (real dates) or client (each one's own start).")]
UsualAlign = Annotated[
    str | None,
    typer.Option("--align", help="calendar (real dates) or client (each one's own start); as suits the data."),
]
Detector = Annotated[str, typer.Option(help=f"When a client reports: {', '.join(DRIFT_TESTS)}.")]
data_app = typer.Typer(help="Look at data, import traces, turn traces into reports.", no_args_is_help=True)


@data_app.command("info")
def info_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .npz, .csv[.gz] or .parquet file, a folder of images, or a known data set.",
            autocompletion=complete_data_sets,
        ),
    ],
    client: ClientColumn = "client",
    time: TimeColumn = "time",
    label: LabelColumn = "label",
    count: CountColumn = None,
    features: FeatureColumns = None,
    text: TextColumn = None,
    layout: LayoutOption = None,
    last: Last = None,
    clients: MostActive = None,
    interval: UsualInterval = None,
    window: Annotated[
        str, typer.Option(help="Intervals, or time (14d), that a histogram sums up, for delta and Delta.")
    ] = "1",
    align: UsualAlign = None,
    block: Annotated[
        str | None,
        typer.Option(help="Time that is all train or all test: 1h, 1d, ..., none; measured, or as suits a known set."),
    ] = None,
    metric: MetricOption = "l1",
    kind: KindOption = "histogram",
    data: DataFolder = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Tell whether data drift, in which way, whether grouping looks worthwhile, what to use, and what the data hold.

    FILE is a file, a folder of images or a known data set. For a trace: the verdict first; then rows, clients,
    classes, shape, span; the L1 distance between a client's label shares of consecutive intervals and what sampling
    alone would give. Then, for its windowed histograms or for the reports in the file: the largest step of one client
    (delta) and the largest distance within the clusters of the first step (Delta). Then whether label mixes, inputs of
    a label and meanings of labels change over time and differ between clients. Then how train and test are split: the
    block of time, how alike the labels of a client are by lag, and how often a test sample has the label of the nearest
    training sample. For samples without clients and times: how many, their shape, and how many of each class.
    """
    from fielding.traces.diagnosis import POOL_ADVICE, inspect_reports
    from fielding.traces.guessing import SHORTEST_SPAN, choose_plan

    if block is not None:
        parse_block(block)  # a mistake is told before anything is read
    entry = _find_known_set(file)
    names = () if entry is not None or file.is_dir() else header_of(file)
    if "representation" in names or ("step" in names and "client" in names):
        _say_description(asdict(inspect_reports(read_reports(file, kind), metric)), as_json=as_json)
        return
    columns = Columns(
        client=client, time=time, label=label, count=count, text=text, features=feature_names(features)
    )  # fmt: skip
    part = Narrowing(last=last, clients=clients)
    if entry is not None:
        samples = _read_known(entry, part, folder=data, quiet=quiet)
    else:
        samples = read_own(file, columns, part, layout=layout, quiet=quiet)
    if isinstance(samples, PoolDescription):
        _say_description({"advice": POOL_ADVICE, "pool": asdict(samples)}, as_json=as_json)
        return
    usual = (entry and entry.defaults) or NaturalDefaults()
    if entry is None and (interval is None or align is None) and float(np.ptp(samples.time)) >= SHORTEST_SPAN:
        chosen, _ = choose_plan(samples, interval)  # as `new` would, so that both come to the same verdict
        usual = replace(usual, interval=str(chosen.interval), align=chosen.align)
    plan = WindowPlan(interval=interval or usual.interval, gap=1, window=_window(window), align=align or usual.align)
    split: dict[str, object] = {}
    if samples.count is None or int(samples.count.max()) == 1:  # counts have no features to train on
        bare = sort_samples(replace(samples, x=None))
        found, warning = describe_split(bare, parse_interval(plan.interval), given=block, usual=usual.block)
        split = {"split": asdict(found)} | ({} if warning is None else {"warning": warning})
    _say_description(_inspect(samples, plan, metric, split, quiet=quiet), as_json=as_json)


def _window(text: str) -> int | str:
    """Return a number of rounds, or a length of time as it is."""
    return int(text) if text.strip().isdecimal() else text


@data_app.command("import")
def import_command(
    file: Source,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write: .npz (with --reports also .csv[.gz]).", **OUT)
    ],
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
    window: Window = "100",
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
    trace = Narrowing(last=last, clients=clients).apply(_read_trace(file, columns, quiet=quiet))
    written: dict[str, int | str] = {"file": str(out), "clients": len(trace.client_ids), "classes": len(trace.classes)}
    if reports:
        plan = WindowPlan(interval=interval, gap=gap, window=_window(window), align=align)
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


@data_app.command("list")
def list_data(data: DataFolder = None, as_json: JsonOutput = False) -> None:
    """List the known data sets: which are here, how large they are, and how to get the others."""
    folder = data_folder(data)
    if as_json:
        say_json({"folder": str(folder), "sets": [_record(entry, folder) for entry in CATALOG.values()]})
        return
    rows: list[tuple[str, ...]] = [("name", "kind", "here", "samples", "clients", "classes")]
    for entry in CATALOG.values():
        counts = ("-" if one is None else f"{one:,}" for one in (entry.n_samples, entry.n_clients, entry.n_classes))
        rows.append((entry.name, entry.kind, "yes" if entry.missing(folder) is None else "no", *counts))
    say_table(f"data sets, looked for in {folder}", rows)
    width = max(map(len, CATALOG))
    for entry in CATALOG.values():
        way = "" if entry.missing(folder) is None else f"; {entry.how_to_get}"
        say(f"{entry.name:<{width}}  {entry.summary}{way}")


def _record(entry: Entry, folder: Path) -> dict[str, object]:
    defaults = entry.defaults
    return {
        "name": entry.name,
        "kind": entry.kind,
        "here": entry.missing(folder) is None,
        "samples": entry.n_samples,
        "clients": entry.n_clients,
        "classes": entry.n_classes,
        "summary": entry.summary,
        "licence": entry.licence,
        "files": list(entry.files),
        "how_to_get": entry.how_to_get,
        "fetchable": entry.fetchable,
        "interval": None if defaults is None else defaults.interval,
        "align": None if defaults is None else defaults.align,
        "block": None if defaults is None else defaults.block,
        "last": None if defaults is None else defaults.narrowing.last,
        "most_active": None if defaults is None else defaults.narrowing.clients,
    }


@data_app.command("fetch")
def fetch_command(
    name: Annotated[
        str,
        typer.Argument(
            help="A data set that can be downloaded freely; see `fielding data list`.",
            autocompletion=complete_data_sets,
        ),
    ],
    to: TargetFolder = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Download a data set, check its checksum, and write it in the form that Fielding reads.

    A data set that is there already is left alone. If anything goes wrong, nothing is left behind.
    """
    from fielding.traces.catalog.fetching import fetch  # brings TLS, which no other command needs

    with progress_bar(f"fetching {name}", None, quiet=quiet) as advance:
        counters: dict[str, Advance] = {}  # of each file

        def on_bytes(file: str, n_bytes: int, _total: int | None) -> None:
            counters.setdefault(file, counting(advance))(n_bytes)

        path, is_new = fetch(name, data_folder(to), on_bytes=on_bytes)
    written: dict[str, int | str] = {"file": str(path), "bytes": path.stat().st_size, "fetched": is_new}
    if as_json:
        say_json(written)
    elif not quiet:
        say(plain(written) if is_new else f"{path} is there already; delete it to fetch it again")


# ---------------------------------------------------------------- reading samples


def _find_known_set(place: Path) -> Entry | None:
    """Return the data set of this name, None for a path; files and folders that are there come first."""
    if place.exists() or place.suffix or len(place.parts) != 1:
        return None
    if str(place) not in CATALOG:
        raise unknown_name("file or data set", str(place), CATALOG)
    return CATALOG[str(place)]


def _read_known(
    entry: Entry, narrowing: Narrowing, *, folder: Path | None, quiet: bool = False
) -> Trace | PoolDescription:
    """Return a known data set; of a natural trace the part that is used by default, unless another is wanted."""
    usual = Narrowing() if entry.defaults is None else entry.defaults.narrowing
    part = Narrowing(last=narrowing.last or usual.last, clients=narrowing.clients or usual.clients)
    with progress_bar(f"reading {entry.name}", None, quiet=quiet) as bar:
        advance = counting(bar)
        opening = Opening(narrowing=part, on_images=lambda done, _total: advance(done))
        source = entry.open(data_folder(folder), opening)
    return describe_pool(source.y, source.classes, shape=source.shape) if isinstance(source, Pool) else source


def read_own(
    place: Path, columns: Columns, narrowing: Narrowing, *, layout: str | None = None, quiet: bool = False
) -> Trace | PoolDescription:
    """Return the trace of a file or of a folder of images, or its description if clients and times are not known.

    Images of a trace are decoded as `fielding run` would, and kept for it; those of a pool are not.
    """
    note: OnNote = ignore_note if quiet else note_down
    if place.is_dir() or (not (columns.features or columns.text) and is_image_list(place)):
        index = place / "index.csv" if place.is_dir() else place
        if index.exists():
            found = read_image_list(index, columns, on_note=note)
        else:
            found = find_images(place, layout, on_note=note)
        if found.trace is None:
            return describe_pool(found.y, found.classes, shape=DEFAULT_SPEC.shape)
        with progress_bar("decoding images", len(found.images.files), quiet=quiet) as bar:
            advance = counting(bar)
            decoding = Decoding(on_images=lambda done, _total: advance(done))
            return attach_images(found.trace, found.images, decoding=decoding, narrow=narrowing.apply)
    names = header_of(place)
    if place.suffix == ".npz" and "x" in names and not {columns.client, columns.time} & set(names):
        pool = import_pool(place, columns)
        return describe_pool(pool.y, pool.classes, shape=pool.shape)
    return narrowing.apply(_read_trace(place, columns, quiet=quiet))


def _read_trace(source: Path, columns: Columns, *, quiet: bool) -> Trace:
    with progress_bar(f"reading {source.name}", None, quiet=quiet) as advance:
        note: OnNote = ignore_note if quiet else note_down
        return import_trace(source, columns, on_rows=counting(advance), on_note=note)


def _inspect(
    trace: Trace, plan: WindowPlan, metric: str, split: Mapping[str, object], *, quiet: bool
) -> dict[str, object]:
    """Return all that can be told of a trace: the verdict, what to use, its numbers, and its kinds of drift."""
    from fielding.traces.diagnosis import inspect_trace

    found = inspect_trace(trace, plan, metric)
    told, diagnosis = judge_drift(trace, found.trace, quiet=quiet)
    kinds = asdict(diagnosis)
    probe = {name: kinds.pop(name) for name in ("n_trained", "n_compared", "accuracy")}
    told["advice"] = kinds.pop("advice")
    parts = {name: part for name, part in asdict(found).items() if name != "verdict"}
    return {**told, **parts, **kinds, "probe": probe, **split}


def judge_drift(
    trace: Trace, description: TraceDescription, *, quiet: bool
) -> tuple[dict[str, object], "DriftDiagnosis"]:
    """Return the answers to three questions, by their names in ``TITLES``, and what they rest on."""
    from fielding.traces.diagnosis import judge_trace

    with progress_bar("telling kinds of drift apart", None, quiet=quiet) as bar:
        found = judge_trace(trace, description, on_pair=bar)
    return {"verdict": found.drift, "kinds": found.kinds, "grouping": found.grouping}, found.found


# ---------------------------------------------------------------- descriptions
_UNITS = (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))
_SHOWN = 12  # classes whose counts are told; of more only the largest are
TITLES = {
    "trace": "samples over time",
    "pool": "samples without clients and times: a scenario deals them",
    "reports": "reports (of a trace: one whenever the label shares in the window change)",
    "clusters": "clusters of the first reports",
    "over_time": "what changes from interval to interval of a client?",
    "between_clients": "what differs between clients in the same interval?",
    "probe": "the small model through which inputs and meanings were looked at",
    "verdict": "does it drift beyond sampling noise?",
    "kinds": "in which way?",
    "grouping": "does grouping look worthwhile?",
    "advice": "what to use:",
    "split": "how train and test are split",
    "warning": "warning:",
}
WORDS = {
    "n_rows": "rows",
    "n_samples": "samples",
    "n_clients": "clients",
    "n_classes": "classes",
    "first_time": "first sample",
    "last_time": "last sample",
    "span": "time between them",
    "samples_per_client": "samples per client",
    "samples_per_class": "samples per class",
    "shape": "shape of a sample",
    "interval": "length of an interval",
    "align": "intervals begin by",
    "n_intervals": "intervals",
    "active_per_interval": "clients with samples, per interval",
    "drift": "change of label shares, interval to interval (L1)",
    "noise": "the same by sampling alone",
    "excess": "standard errors between the two",
    "min_samples": "samples that an interval needs to be compared",
    "n_pairs": "pairs that were compared",
    "n_clients_compared": "clients that were compared",
    "n_steps": "steps",
    "n_features": "numbers in a report",
    "n_silent": "reports of having no data",
    "first_step": "first step",
    "last_step": "last step",
    "reports_per_client": "reports per client",
    "metric": "distance",
    "delta": "largest step of a client between reports (the paper's delta)",
    "mean_step": "mean step, over reports",
    "n_clusters": "clusters",
    "delta_within": "largest distance within a cluster (the paper's Delta)",
    "is_exact": "measured on all pairs",
    "labels": "label mix",
    "inputs": "inputs of a label",
    "meanings": "meaning of labels",
    "n_trained": "samples it was trained on",
    "n_compared": "samples that were compared",
    "accuracy": "share of these that it gets right",
    "block": "block of time that is all train or all test",
    "chosen": "chosen",
    "measured": "what the measurement says",
    "is_short": "samples so far apart are still alike",
    "lags": "same label by lag (by chance)",
    "by_sample": "copying the nearest training label, split by sample",
    "by_block": "the same, split by the block",
}
OWN_WORDS = {"reports": {"drift": "mean step, over clients"}}
"""Words for what has another meaning in one part than elsewhere."""
NO_FEATURES = "- (labels alone; name columns with --features or --text)"
ABSENT = {
    "trace": "- (nothing to compare; the verdict says why)",
    "reports": "- (no client reports twice)",
    "clusters": "- (every client is a cluster of its own)",
    "probe": "- (nothing to look at but labels)",
}
"""Why there is nothing to tell."""


def _say_description(record: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        say_json(record)
        return
    for part, values in record.items():
        title = TITLES.get(part, part)
        if not isinstance(values, dict):
            say(f"{title} {values}")
            continue
        say(title)
        known = WORDS | OWN_WORDS.get(part, {})
        words = {name: known[name] if name in known else str(name) for name in values}
        width = max(map(len, words.values()))
        for name, value in values.items():
            absent = NO_FEATURES if name == "shape" else ABSENT.get(part, "-")
            shown = absent if value is None else _format_value(name, value)
            say(f"  {words[name]:<{width}}  {shown}")


def _format_value(name: str, value: object) -> str:
    if name in ("first_time", "last_time") and isinstance(value, float):
        return format_moment(value)
    if name in ("span", "interval") and isinstance(value, float):
        return _format_span(value)
    if name == "samples_per_class" and isinstance(value, dict):
        return _format_counts(value)
    if name == "lags" and isinstance(value, dict):
        return ", ".join(f"{lag} {one['same']:.0%} ({one['chance']:.0%})" for lag, one in value.items()) or "-"
    if isinstance(value, dict) and "majority" in value:
        usual = f"a client's most frequent label {value['majority']:.1%}, chance {value['chance']:.1%}"
        return f"right in {value['same']:.1%} ({usual})" if value["n_tested"] else "-"
    if isinstance(value, dict) and "verdict" in value:
        return str(value["verdict"])
    if isinstance(value, dict):
        return ", ".join(f"{inner} {format_number(one)}" for inner, one in value.items())
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    return format_number(value)


def format_number(value: object) -> str:
    """Return a number with few digits and no exponent where none is needed; yes or no; a dash for nothing.

    Examples
    --------
    >>> format_number(0.12345), format_number(2156012.0), format_number(True), format_number(None)
    ('0.1235', '2,156,012', 'yes', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and abs(value) < 1000.0:
        return f"{value:.4g}"
    return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)


def format_moment(time: float) -> str:
    """Return a time as a date if it can be unix seconds, else the number.

    Examples
    --------
    >>> format_moment(1.7e9), format_moment(2156012.0)
    ('2023-11-14 22:13 UTC', '2,156,012 (no unix time)')
    """
    if EARLIEST_DATE < time < LAST_MOMENT:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{format_number(time)} (no unix time)"


def _format_span(seconds: float) -> str:
    """Return a length of time in its longest unit.

    Examples
    --------
    >>> _format_span(86400.0), _format_span(21600.0), _format_span(0.5)
    ('1 day', '6 hours', '0.5 seconds')
    """
    unit, length = next((pair for pair in _UNITS if seconds >= pair[1]), _UNITS[-1])
    amount = format_number(seconds / length)
    return f"{amount} {unit}{'' if amount == '1' else 's'}"


def _format_counts(counts: Mapping[str, int]) -> str:
    """Return how many samples classes have; of many classes those with most."""
    if len(counts) <= _SHOWN:
        return ", ".join(f"{name} {count:,}" for name, count in counts.items())
    most = sorted(counts.items(), key=lambda pair: -pair[1])[:_SHOWN]
    shown = ", ".join(f"{name} {count:,}" for name, count in most)
    return f"{shown}, and {len(counts) - _SHOWN:,} more with at least {min(counts.values()):,} each"
