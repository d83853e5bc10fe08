"""`fielding recommend`: short runs on the user's own data that tell whether clusters pay for her."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from fielding._typing import Json
from fielding.cli.compare import BaseConfig, Jobs, run_with_progress
from fielding.cli.console import say, say_json, say_table, tell
from fielding.cli.options import JsonOutput, Quiet
from fielding.cli.run import Overrides, as_options
from fielding.config.keys import Config
from fielding.config.reader import config_from, config_table
from fielding.errors import InputError, OptionError
from fielding.records.run_folder import PAGE
from fielding.reporting.comparison_tables import named_records
from fielding.reporting.formatting import megabytes
from fielding.reporting.numbers.paired import estimate_of
from fielding.traces.catalog import entry_named
from fielding.traces.sources import NATURAL

KEPT = ("rounds", "seed", "workers", "trace", "model", "training", "clock", "evaluation")
"""What is taken over from a config: the data, the model, how clients train. All else is what the rows differ in."""
ONE_MODEL: dict[str, Json] = {"method.name": "global", "serving.experts": "auto"}
SCORES = {"window": "final_accuracy", "next interval": "final_next_accuracy", "worst tenth": "worst_decile"}
MOST_ROUNDS, LONGEST_TRACE = 80, 200
"""Rounds of a scenario, which never ends, that are looked at, and of a trace that does: as many as `new` chooses."""
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the runs; runs/NAME-recommend by default.")]
Rounds = Annotated[
    int | None,
    typer.Option(help=f"Rounds of each run; a trace is seen to its end, a scenario for {MOST_ROUNDS} at most."),
]
Seeds = Annotated[int, typer.Option(help="How many seeds; differences need at least 2.")]


def recommend(
    config: BaseConfig,
    out: Out = None,
    rounds: Rounds = None,
    seeds: Seeds = 3,
    changes: Overrides = None,
    jobs: Jobs = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Try one model, the published method and auto on your data, for a few minutes, and say which to take.

    Of the config the data, the model and local training count. Each row is told as it serves clients: on test samples
    of their windows, and on the interval to come, which nobody has trained on. Started again, it goes on.
    """
    from fielding.comparing.plan import base_table, plan_comparison
    from fielding.comparing.variants import named_variants, preset_settings

    sys.path.insert(0, str(Path.cwd()))
    if seeds < 2:
        raise OptionError(f"--seeds is {seeds}; give at least 2, else nothing is known of differences")
    if jobs is not None and jobs < 1:
        raise OptionError(f"--jobs is {jobs}; give at least 1")
    folder = Path("runs") / f"{config.stem}-recommend" if out is None else out
    try:
        table = {key: value for key, value in base_table(config, changes or ()).items() if key in KEPT}
        whole = config_from(table)
        table |= {"rounds": rounds} if rounds is not None else shortened(whole)
        seen = seen_words(whole, config_from(table))
        # One model for all clients, the published method, and what Fielding makes of it; all train alike.
        rows = {"global": ONE_MODEL, **{name: preset_settings(table, name) for name in ("paper", "auto")}}
        planned = plan_comparison(table, named_variants(rows), seeds=seeds, out=folder, reference="global")
        compared, stop = run_with_progress(planned, jobs, page=True, quiet=quiet)
    except InputError as error:
        raise InputError(as_options(str(error))) from None
    if compared is None or not compared.is_ended:
        tell(f"stopped; go on with the same command: {shlex.join(['fielding', *sys.argv[1:]])}")
        raise typer.Exit(stop.exit_code)
    for name, why in compared.failures.items():
        tell(f"{folder / name}: {why}")
    summary = compared.summary or {}
    if as_json:
        say_json(dict(summary))
    elif not quiet:
        say_table("", recommendation_table(summary))
        say(f"± is a 95 % interval over {seeds} seeds, {table['rounds']} rounds each; bytes are those of a run")
        if seen:
            say(seen)
        for line in advice(summary):
            say(line)
        say(f"page: {folder / PAGE}")
    if compared.failures:
        raise typer.Exit(1)


def shortened(config: Config) -> dict[str, Json]:
    """Return what of a config a short look changes: the rounds, and of a long trace the rounds between arrivals.

    A trace that has an end is seen to its end, since what comes late may differ most; where that takes more than 200
    rounds, fewer of them lie between arrivals.
    """
    trace = config.trace
    is_natural = trace.scenario in (None, NATURAL) and (trace.file or entry_named(trace.name).defaults is not None)
    if not is_natural:
        return {"rounds": min(config.rounds, MOST_ROUNDS)}
    gap = trace.gap if config.rounds <= LONGEST_TRACE else max(1, trace.gap * LONGEST_TRACE // config.rounds)
    if gap == trace.gap:
        return {"rounds": min(config.rounds, LONGEST_TRACE)}
    section = config_table(config)["trace"]
    shorter: dict[str, Json] = {"gap": gap, "window": trace.window}
    if isinstance(trace.window, int):
        shorter["window"] = max(gap, trace.window * gap // trace.gap)
    rounds = min(LONGEST_TRACE, max(1, config.rounds * gap // trace.gap))
    return {"rounds": rounds, "trace": {**(section if isinstance(section, dict) else {}), **shorter}}


def seen_words(whole: Config, short: Config) -> str:
    """Return in a line what a short look leaves out; nothing if it leaves nothing out."""
    if short.trace.gap != whole.trace.gap:
        per = f"{short.trace.gap} rounds between arrivals in place of {whole.trace.gap}"
        whole_rounds = whole.rounds * short.trace.gap // whole.trace.gap
        cut = "" if short.rounds >= whole_rounds else f"; saw {short.rounds} of {whole_rounds} of these rounds"
        return f"{per}, so that more of the time is seen{cut}"
    return "" if short.rounds >= whole.rounds else f"saw {short.rounds} of {whole.rounds} rounds"


def figure_of(record: Mapping[str, Json], name: str) -> str:
    """Return which figure a row is told by: what its clients are served, where they do anything to their models."""
    return f"{name}_served" if estimate_of(record.get(f"{name}_served")) is not None else name


def recommendation_table(summary: Mapping[str, Json]) -> list[list[str]]:
    """Return scores with their intervals, and costs, below the column heads."""
    rows = [["", *SCORES, "sent to clients", "sent back"]]
    for name, record in named_records(summary, "methods").items():
        cells = [name, *(_percent(record.get(figure_of(record, score))) for score in SCORES.values())]
        for direction in ("bytes_down", "bytes_up"):
            estimate = estimate_of(record.get(direction))
            cells.append("-" if estimate is None else megabytes(estimate.mean))
        rows.append(cells)
    return rows


def advice(summary: Mapping[str, Json]) -> list[str]:
    """Return in words what clusters gain over one model, on both scores, and which row to take."""
    methods, lines, gains = named_records(summary, "methods"), [], []
    one, auto = methods.get("global"), methods.get("auto")
    if one is None or auto is None:
        return ["runs of global or auto failed: nothing to advise"]
    paired = named_records(summary, "paired").get("auto", {})
    for score, name in list(SCORES.items())[:2]:
        found = estimate_of(paired.get(figure_of(auto, name)))
        if found is None:
            lines.append(f"{score}: there is no difference to tell; are there test samples, and an interval to come?")
            continue
        half = found.half_width or 0.0
        gains.append((found.mean, half))
        words = "ahead of" if found.mean > half else "behind" if found.mean < -half else "level with"
        lines.append(f"{score}: auto is {words} one model, {100 * found.mean:+.1f} ± {100 * half:.1f} points")
    if gains and all(mean > half for mean, half in gains):
        lines.append("take auto: clusters pay on your data")
    elif gains and any(mean < -half for mean, half in gains):
        lines.append('take method "global" with serving.experts = "auto": clusters do not pay on your data')
    else:
        lines.append("clusters make no difference that so short a look can see; auto does no harm, global is simpler")
    return lines


def _percent(record: Json) -> str:
    found = estimate_of(record)
    if found is None:
        return "-"
    return f"{100 * found.mean:.1f} %" + ("" if found.half_width is None else f" ± {100 * found.half_width:.1f}")
