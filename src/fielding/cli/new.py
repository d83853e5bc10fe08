"""`fielding new`: a config for one's own data, guessed and explained, or one of the examples."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding.atomic import replaced_file
from fielding.cli.completion import complete_examples
from fielding.cli.console import say, say_json
from fielding.cli.data import (
    TITLES,
    FeatureColumns,
    LayoutOption,
    TextColumn,
    format_moment,
    judge_drift,
    read_own,
)
from fielding.cli.examples import example_configs
from fielding.cli.options import OUT, JsonOutput, Quiet
from fielding.errors import FileFormatError, InputError, OptionError, echo, unknown_name
from fielding.traces.catalog import CATALOG, Narrowing
from fielding.traces.features import describe_columns
from fielding.traces.importers import Columns, feature_names
from fielding.traces.statistics import PoolDescription, describe_trace
from fielding.traces.trace import Trace

if TYPE_CHECKING:
    pass

Data = Annotated[
    Path | None, typer.Argument(help="A .csv[.gz], .parquet or .npz file, or a folder of images.", show_default=False)
]
Client = Annotated[str | None, typer.Option("--client", help="Column that says who; guessed.")]
Time = Annotated[str | None, typer.Option("--time", help="Column that says when; guessed.")]
Label = Annotated[str | None, typer.Option("--label", help="Column that says what, the class; guessed.")]
IntervalChoice = Annotated[str | None, typer.Option("--interval", help="Real time between arrivals: 6h, 1d; chosen.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="File to write; NAME.toml by default.", **OUT)]
Force = Annotated[bool, typer.Option("--force", "-f", help="Write over a file that is there.")]
Example = Annotated[
    str | None,
    typer.Option("--example", help="Write one of the examples instead.", autocompletion=complete_examples),
]
FEWEST_SAMPLES = 20  # samples of a pool for each client that it is dealt to
MOST_CLIENTS, FEWEST_CLIENTS = 100, 10


def new(
    data: Data = None,
    client: Client = None,
    time: Time = None,
    label: Label = None,
    features: FeatureColumns = None,
    text: TextColumn = None,
    layout: LayoutOption = None,
    interval: IntervalChoice = None,
    out: Out = None,
    example: Example = None,
    force: Force = False,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Look at data, say whether and how they drift, and write a config that trains on them.

    DATA is a CSV, Parquet or .npz file, or a folder of images. Which column says what is guessed, and so is the
    interval; every guess has an option. With --example NAME, write a config that comes with Fielding instead.
    """
    if (data is None) == (example is None):
        raise OptionError("give the data to look at, or --example NAME; for example fielding new visits.csv")
    if example is not None:
        configs = example_configs()
        if example not in configs:
            raise unknown_name("example", example, configs)
        target = out or Path(f"{example}.toml")
        _write(target, configs[example].read_text(encoding="utf-8"), force=force)
        _say({"file": str(target), "example": example}, [], target, as_json=as_json, quiet=quiet)
        return
    place = data or Path()
    if not place.exists():
        known = f"; {place} is a known data set, see fielding new --example" if str(place) in CATALOG else ""
        raise FileFormatError(f"there is no file or folder {echo(str(place))}; check the path{known}")
    target = out or Path(f"{place.name.partition('.')[0] or 'data'}.toml")
    _check_free(target, force=force)
    given = {"client": client, "time": time, "label": label, "text": text}
    columns, left_out = _find_columns(place, given, feature_names(features))
    found = read_own(place, columns, Narrowing(), layout=layout, quiet=quiet)
    if isinstance(found, PoolDescription):
        lines = [f"{place}: {_count(found.n_samples, 'sample')} of {_count(found.n_classes, 'class')}, no clients"]
        words = _pool_config(place, found, label=columns.label, layout=layout)
        record: dict[str, object] = {"samples": found.n_samples, "classes": found.n_classes}
    else:
        lines, words, record = _trace_config(
            place, found, columns, layout=layout, interval=interval, left_out=left_out, quiet=quiet
        )
    _write(target, "\n".join([*_head(target, lines), "", *words, ""]), force=force)
    _say({"file": str(target), **record}, lines, target, as_json=as_json, quiet=quiet)


def _find_columns(
    place: Path, given: Mapping[str, str | None], features: tuple[str, ...]
) -> tuple[Columns, Mapping[str, str]]:
    """Return which column says what, as named or guessed, and which are left out and why."""
    from fielding.traces.guessing import guess_columns, is_pool_file
    from fielding.traces.images import is_image_list

    client, time, label, text = (given[role] for role in ("client", "time", "label", "text"))
    is_list = not (features or text) and not place.is_dir() and is_image_list(place)
    if place.is_dir() or is_list or is_pool_file(place, given):
        usual = Columns()
        columns = Columns(client=client or usual.client, time=time or usual.time, label=label or usual.label, text=text)
        return columns, {}
    guess = guess_columns(place, given, features)
    return guess.columns, guess.left_out


def _trace_config(
    place: Path,
    trace: Trace,
    columns: Columns,
    *,
    layout: str | None,
    interval: str | None,
    left_out: Mapping[str, str],
    quiet: bool,
) -> tuple[list[str], list[str], dict[str, object]]:
    """Return what to say of a trace, its config, and the same for programs."""
    from fielding.config.keys import TraceSection
    from fielding.traces.guessing import choose_plan, participants_for
    from fielding.traces.pool import scale_note
    from fielding.traces.sources import deal_samples, first_samples

    if trace.x is None:
        raise InputError(f"{place} has labels but no features; name columns with --features or --text")
    plan, rounds = choose_plan(trace, interval)
    description = describe_trace(trace, plan.interval, align=plan.align)
    told, diagnosis = judge_drift(trace, description, quiet=quiet)
    section = TraceSection(interval=str(plan.interval), align=plan.align, gap=plan.gap, window=plan.window)
    dealt = deal_samples(section, rounds=rounds, seed=1, source=trace)  # what cannot be run is told now
    first = first_samples(dealt)
    if not first.size:
        raise InputError(
            f"{place}: no client has a sample to train on in the first {_count(plan.n_first, 'interval')} of "
            f"{plan.interval}; give more samples, or a longer --interval"
        )
    is_unequal = scale_note(dealt.pool, first) is not None
    n_clients = len(trace.client_ids)
    times = f"{format_moment(description.first_time)} to {format_moment(description.last_time)}"
    lines = [
        f"{place}: {_count(n_clients, 'client')}, {_count(len(trace.classes), 'class')}, "
        f"{_count(trace.n_rows, 'sample')}, {times}",
        *describe_columns(trace.columns, trace.x),
        *([f"left out: {', '.join(f'{_plain(name)} ({why})' for name, why in left_out.items())}"] if left_out else []),
        *(f"{TITLES[name]} {words}" for name, words in told.items()),
    ]
    keys = _file_keys(place, columns, layout) | {
        "standardize": (True, "features lie on different scales") if is_unequal else None,
        "interval": (plan.interval, f"real time between arrivals: {_count(description.n_intervals, 'interval')}"),
        "align": (plan.align, "client: each one's own start" if plan.align == "client" else "real dates"),
        "gap": (plan.gap, "rounds between arrivals"),
        "window": (plan.window, f"rounds that a sample stays visible: {_count(plan.n_first, 'interval')}"),
    }
    some = participants_for(n_clients)
    words = [
        _line("rounds", rounds, "the whole trace; its last interval is only tested on"),
        *_section("trace", keys),
        *_section("training", {"participants": (some, f"per round, of {_count(n_clients, 'client')}")}),
        *_method(str(told["grouping"]), diagnosis.advice),
    ]
    record = {
        "columns": {name: getattr(columns, name) for name in ("client", "time", "label", "text") if not place.is_dir()}
        | {"features": list(columns.features)},
        "left_out": dict(left_out),
        "interval": plan.interval,
        "align": plan.align,
        "rounds": rounds,
        "clients": n_clients,
        "classes": len(trace.classes),
        "samples": trace.n_rows,
        **told,
        "advice": diagnosis.advice,
    }
    return lines, words, record


def _pool_config(place: Path, found: PoolDescription, *, label: str, layout: str | None) -> list[str]:
    """Return the config of samples without clients and times."""
    is_square = found.shape is None or len(found.shape) == 1 or found.shape[0] == found.shape[1]
    n_clients = max(FEWEST_CLIENTS, min(MOST_CLIENTS, found.n_samples // FEWEST_SAMPLES))
    keys = _file_keys(place, Columns(label=label), layout) | {
        "scenario": ("mixed" if is_square else "dirichlet", "how they are dealt and drift: docs/scenarios.md"),
        "clients": (n_clients, "that they are dealt to"),
    }
    return [
        _line("rounds", 200),
        *_section("trace", keys),
        *_section("training", {"participants": (max(1, n_clients // 5), f"per round, of {n_clients} clients")}),
        *_method("", ""),
    ]


def _method(grouping: str, advice: str) -> list[str]:
    """Return the sections that say how clients are grouped."""
    hint = [f"# {_plain(advice)}"] if advice else []
    if grouping.startswith(("no", "cannot")):
        method = _section("method", {"name": ("global", "one model for all; fielding groups clients")})
        experts = {"experts": ("auto", "each client's own samples correct the one model: docs/serving.md")}
        return [*method[:1], *hint, *method[1:], *_section("serving", experts)]
    auto = _section(
        "coordinator", {"representation": ("auto", "groups by what differs, corrects label mixes: docs/auto.md")}
    )
    return [*auto[:1], *hint, *auto[1:]]


def _file_keys(place: Path, columns: Columns, layout: str | None) -> dict[str, tuple[object, str] | None]:
    """Return the keys that say what a file holds, each with a comment; columns of the usual names need none."""
    where = "" if place.is_absolute() else "relative to where fielding is started"
    keys: dict[str, tuple[object, str] | None] = {"file": (str(place), where)}
    for name, words in (("client", "who"), ("time", "when"), ("label", "what is to be predicted")):
        value = getattr(columns, name)
        keys[name] = None if value == getattr(Columns(), name) else (value, words)
    keys["text"] = None if columns.text is None else (columns.text, "hashed to features")
    keys["features"] = (",".join(columns.features), "columns that samples are told by") if columns.features else None
    keys["layout"] = None if layout is None else (layout, "what the folders are")
    return keys


def _section(name: str, keys: Mapping[str, tuple[object, str] | None]) -> list[str]:
    return ["", f"[{name}]", *(_line(key, *pair) for key, pair in keys.items() if pair is not None)]


def _line(key: str, value: object, comment: str = "") -> str:
    import tomli_w

    return f"{tomli_w.dumps({key: value}).strip()}{f'  # {comment}' if comment else ''}"


def _head(target: Path, lines: Iterable[str]) -> list[str]:
    run = shlex.join(["fielding", "run", str(target)])
    told = [f"# {_plain(line)}" for line in lines]
    return [f"# Written by fielding new; `{run} --dry-run` tells how long it takes. All keys: docs/config.md", *told]


def _plain(text: str) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 'es' if name.endswith('s') else 's'}"


def _check_free(target: Path, *, force: bool) -> None:
    if target.exists() and not force:
        raise InputError(f"{target} is there already; add --force to write over it, or name another file with --out")


def _write(target: Path, content: str, *, force: bool) -> None:
    _check_free(target, force=force)
    with replaced_file(target) as file:
        file.write(content.encode("utf-8"))


def _say(record: Mapping[str, object], lines: Iterable[str], target: Path, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        say_json(record)
    elif not quiet:
        for line in lines:
            say(line)
        say(f"wrote {target}; run it: {shlex.join(['fielding', 'run', str(target)])}")
