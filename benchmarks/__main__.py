"""`python -m benchmarks NAME`: Fielding, its peers and the bound, in turns, in one run."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fielding import _extras
from fielding._typing import Json
from fielding.cli.app import run_app
from fielding.cli.console import progress_bar, say, say_json, say_table, say_wide_table, tell
from fielding.cli.options import JsonOutput, Quiet, stop_on_signal
from fielding.errors import OptionError, OutputError, echo, unknown_name
from fielding.reporting.formatting import plain

SIZES = "64,13333"
"""Hidden units: a model of 4,810 numbers, as that of the example app, and one of a million."""
MOST_HIDDEN = 10**7

PAPER = {"adjust_s": 2.0, "recluster_s": 15.6, "clients": 5078, "labels": 100}
"""What the paper reports of its own coordinator."""

app = typer.Typer(
    help="Measure Fielding beside its peers, in turns, in one run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@app.command()
def coordinator(
    clients: Annotated[int, typer.Option(min=50, help="Clients of the comparison with scikit-learn.")] = 5078,
    labels: Annotated[int, typer.Option(min=2, help="Labels.")] = 100,
    k_max: Annotated[int, typer.Option(min=2, max=49, help="Most clusters.")] = 10,
    repeat: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 3,
    largest: Annotated[int, typer.Option(help="Clients of the largest size, from 10,000 up in steps of ten.")] = 10**6,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Time re-clustering against scikit-learn, and adjusting and re-clustering up to a million clients.

    Only ratios taken in one run are solid: machines differ and are busy.
    """
    from benchmarks.coordinator import METRICS, compare_adjusting, compare_clustering, import_seconds, measure_scaling

    sizes = [size for size in (10**4, 10**5, 10**6, 10**7) if size <= largest]
    with progress_bar("bench", 3 * len(METRICS) * repeat + len(sizes) + 2, quiet=quiet) as advance:
        clustering = compare_clustering(clients, labels, k_max=k_max, repeat=repeat, on_turn=advance)
        adjusting = compare_adjusting(clients, labels, repeat=max(5, repeat))
        advance(1)
        scaling = []
        for size in sizes:
            scaling.append(measure_scaling(size, labels, "l1"))
            advance(1)
        imported = import_seconds(repeat=max(5, repeat))
        advance(1)
    record = {
        "clients": clients,
        "labels": labels,
        "k_max": k_max,
        "repeat": repeat,
        "paper": PAPER,
        "clustering": [asdict(row) for row in clustering],
        "adjusting": [asdict(row) for row in adjusting],
        "scaling": [asdict(row) for row in scaling],
        "import": asdict(imported),
    }
    if not (as_json or quiet):
        _say_coordinator_tables(record)
    say_json(record)


@app.command()
def simulator(
    workloads: Annotated[str, typer.Option(help="Which, separated by commas: w1, w2, w3.")] = "w1,w2,w3",
    repeat: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 5,
    rounds: Annotated[int, typer.Option(min=5, help="Rounds of the run that is measured whole.")] = 100,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Time rounds of local training and evaluation against plain PyTorch loops; needs the extra `torch`.

    w1 is a small network, w2 a small convolutional one, w3 a ResNet-18. Only ratios taken in one run are solid:
    machines differ and are busy.
    """
    from benchmarks.simulator import compare_evaluation, compare_training, large_trace, method_overhead, whole_rounds
    from benchmarks.workloads import WORKLOADS

    names = [name.strip() for name in workloads.split(",")]
    for name in names:
        if name not in WORKLOADS:
            raise unknown_name("workload", name, WORKLOADS)
    _extras.require("torch")
    with progress_bar("bench", None, quiet=quiet) as bar:
        rows = [row for name in names for row in compare_training(name, repeat=repeat, on_turn=bar.advance)]
        for name in names:
            if name != "w3":
                rows += compare_evaluation(name, repeat=repeat, on_turn=bar.advance)
        record = {
            "repeat": repeat,
            "rows": [asdict(row) for row in rows],
            "whole_rounds": whole_rounds(n_rounds=rounds),
            "method_overhead": method_overhead(n_rounds=rounds),
            "large_trace": large_trace(),
        }
    if not (as_json or quiet):
        heads = ["workload", "contender", "median ms", "times as fast", "spread", "largest difference"]
        say_table("Seconds a round", [heads, *[[plain(value) for value in asdict(row).values()] for row in rows]])
        say(f"a whole round of `fielding run`, w1: {plain(record['whole_rounds'])}")
        say(f"rounds of methods between drift events, w1: {plain(record['method_overhead'])}")
        say(f"a large trace: {plain(record['large_trace'])}")
    say_json(record)


@app.command()
def ray(
    workloads: Annotated[str, typer.Option(help="Which, separated by commas: w2, w3.")] = "w2,w3",
    workers: Annotated[str, typer.Option(help="How many, separated by commas.")] = "1,2",
    repeat: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 5,
    seeds: Annotated[int, typer.Option(min=0, help="Of the comparison; 0 leaves it out.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Of each of its runs.")] = 200,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Time rounds on Ray workers beside workers of this process, and comparisons on Ray; needs `torch` and `ray`."""
    from benchmarks.on_ray import compare_comparisons, compare_workers

    counts = [int(one) for one in workers.split(",")]
    for extra in ("torch", "ray"):
        _extras.require(extra)
    with progress_bar("bench", None, quiet=quiet) as bar:
        rows = [
            row
            for name in workloads.split(",")
            if name
            for row in compare_workers(name, n_workers=counts, repeat=repeat, on_turn=bar.advance)
        ]
        runs = []
        if seeds:
            runs = compare_comparisons(n_seeds=seeds, rounds=rounds, repeat=max(1, repeat // 2), on_turn=bar.advance)
    if not (as_json or quiet):
        heads = ["workload", "contender", "median ms", "times as fast", "spread", "largest difference"]
        say_table("A round on Ray", [heads, *[[plain(value) for value in asdict(row).values()] for row in rows]])
        heads = ["on", "runs per hour", "times local"]
        say_table("Comparisons", [heads, *[[plain(value) for value in asdict(row).values()] for row in runs]])
    say_json({"repeat": repeat, "rows": [asdict(row) for row in rows], "comparisons": [asdict(row) for row in runs]})


@app.command()
def serving(
    clients: Annotated[int, typer.Option(min=1, help="Clients that are served together.")] = 64,
    windows: Annotated[str, typer.Option(help="Samples in a window, separated by commas.")] = "100,350",
    repeat: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 5,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Time the experts of clients, together and one by one, beside the forward pass of as many samples."""
    from benchmarks.serving import compare_serving

    sizes = [int(one) for one in windows.split(",") if one.strip().isdigit() and int(one) > 1]
    if len(sizes) != len(windows.split(",")):
        raise OptionError(f"--windows is {echo(windows)}; give whole numbers above 1, separated by commas")
    with progress_bar("bench", None, quiet=quiet) as bar:
        rows = [row for size in sizes for row in compare_serving(clients, size, repeat=repeat, on_turn=bar.advance)]
    if not (as_json or quiet):
        heads = ["window", "contender", "ms a client", "times the pass", "spread", "largest difference"]
        say_table("Experts", [heads, *[[plain(value) for value in asdict(row).values()] for row in rows]])
    say_json({"clients": clients, "rows": [asdict(row) for row in rows]})


@app.command()
def clients(
    largest: Annotated[int, typer.Option(help="Clients of the largest size, from 1,000 up in steps of ten.")] = 10**5,
    budgets: Annotated[
        str, typer.Option(help="Budgets of questions, separated by commas: numbers, or all.")
    ] = "20,all",
    rounds: Annotated[int, typer.Option(min=2, help="Rounds that are measured.")] = 8,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Measure CPU of the server of a deployment per round as clients become many, on nodes that answer at once.

    5 clients train in a round, one in a hundred drifts. Network and devices are not counted.
    """
    from benchmarks.many_clients import compare_sizes

    sizes = [size for size in (10**3, 10**4, 10**5, 10**6) if size <= largest]
    chosen: list[Json] = [int(one) if one.strip().isdigit() else one.strip() for one in budgets.split(",")]
    rows = compare_sizes(sizes, chosen, n_rounds=rounds)
    if not (as_json or quiet):
        heads = ["clients", "budget", "CPU s a round", "times the smallest", "messages a round"]
        say_table("A round", [heads, *[[plain(value) for value in asdict(row).values()] for row in rows]])
    say_json({"rounds": rounds, "rows": [asdict(row) for row in rows]})


@app.command()
def population(
    largest: Annotated[int, typer.Option(help="Clients of the largest run, from 10,000 up in steps of ten.")] = 10**6,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Measure runs of the simulator of up to a million clients: set-up, memory, rounds, checkpoint and resume.

    Samples come to all clients every 4 rounds, and 1 % of them drift. A run of a million takes about two minutes.
    """
    from benchmarks.population import exponents, measure_populations

    rows = measure_populations([size for size in (10**4, 10**5, 10**6, 10**7) if size <= largest])
    if not (as_json or quiet):
        heads = ["clients", "set-up, s", "first round, s", "arrival, s", "other rounds, s", "page, s"]
        heads += ["checkpoint, MB", "checkpoint, s", "resume, s", "peak, GB", "bytes a client"]
        say_wide_table([heads, *[[plain(value) for value in asdict(row).values()] for row in rows]])
    say_json({"rows": [asdict(row) for row in rows], "exponents": exponents(rows)})


@app.command()
def flower(
    nodes: Annotated[int, typer.Option(min=2, max=64, help="SuperNodes on this machine.")] = 4,
    rounds: Annotated[int, typer.Option(min=4, help="Rounds of each run.")] = 6,
    hidden: Annotated[str, typer.Option(help="Sizes of the model: hidden units, separated by commas.")] = SIZES,
    repeat: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File for the JSON; else it is printed.")] = None,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Count exchanges, bytes and seconds of rounds against plain FedAvg on the same nodes; needs the extra `flower`.

    Starts a SuperLink and nodes on this machine, with TLS and node keys, and runs one app after the other on them.
    Everything ends with the command, also after Ctrl-C. Bytes are exact; of seconds only ratios taken in one run are
    solid: machines differ and are busy.
    """
    _extras.require("flower")
    sizes = hidden_sizes(hidden)
    if out is not None and (out.is_dir() or not out.parent.is_dir()):  # said before minutes are spent on it
        raise OutputError(f"cannot write {out}; name a file in a folder that is there")
    with stop_on_signal(is_stepping=False) as stop:
        try:
            record = _compare_deployments(nodes, rounds, sizes, repeat=repeat, quiet=quiet)
        except KeyboardInterrupt:
            tell("stopped, and all that was started with it")
            raise typer.Exit(stop.exit_code) from None
    if not (as_json or quiet):
        _say_flower_tables(record)
    if out is None:
        say_json(record)
    else:
        out.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


@app.command("simulated-nodes")
def simulated_nodes(
    nodes: Annotated[str, typer.Option(help="Numbers of nodes, separated by commas; 1000 is slow.")] = "4,50,200",
    rounds: Annotated[int, typer.Option(min=6, help="Rounds of each run.")] = 14,
    repeat: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 2,
    as_json: JsonOutput = False,
    quiet: Quiet = False,
) -> None:
    """Time rounds with 5 participants in Flower's simulation against Flower's own FedAvg; needs `flwr[simulation]`.

    The same model, samples and local steps, in turns. "No questions" is Fielding's `global`. Of seconds only ratios
    taken in one run are solid: machines differ and are busy.
    """
    _extras.require("flower")
    from benchmarks.simulated_nodes import CONTENDERS, compare_rounds, cost_rows

    sizes = [int(one) for one in nodes.split(",") if one.strip().isdigit() and int(one) > 1]
    if len(sizes) != len(nodes.split(",")):
        raise OptionError(f"--nodes is {echo(nodes)}; give whole numbers above 1, separated by commas")
    with stop_on_signal(is_stepping=False) as stop:
        try:
            with progress_bar("bench", len(sizes) * len(CONTENDERS) * repeat, quiet=quiet) as bar:

                def show(words: str) -> None:
                    bar.describe(words)
                    bar.advance(1)

                costs = compare_rounds(sizes, n_rounds=rounds, repeat=repeat, show=show)
        except KeyboardInterrupt:
            tell("stopped, and all that was started with it")
            raise typer.Exit(stop.exit_code) from None
    if not (as_json or quiet):
        heads, *rows = cost_rows(costs)
        say_table(
            "A round in Flower's simulation", [[str(one) for one in heads], *[[plain(v) for v in r] for r in rows]]
        )
    say_json({"rounds": rounds, "repeat": repeat, "rows": [asdict(one) for one in costs]})


def hidden_sizes(text: str) -> list[int]:
    """Return the sizes that a text names, or raise.

    Examples
    --------
    >>> hidden_sizes("64, 13333")
    [64, 13333]
    """
    try:
        sizes = [int(part) for part in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1 or max(sizes) > MOST_HIDDEN or len(set(sizes)) < len(sizes):
        raise OptionError(f"--hidden is {echo(text)}; give different numbers from 1 to {MOST_HIDDEN}, as {SIZES}")
    return sizes


def _compare_deployments(nodes: int, rounds: int, sizes: list[int], *, repeat: int, quiet: bool) -> dict[str, Json]:
    """Let the contenders take turns behind a progress bar."""
    from benchmarks.contenders import CONTENDERS, compare_deployments
    from benchmarks.shared_work import SharedWork

    works = [SharedWork(n_rounds=rounds, hidden=units) for units in sizes]
    with progress_bar("bench", rounds * len(works) * len(CONTENDERS) * repeat, quiet=quiet) as bar:

        def show(words: str, n_more: int) -> None:
            bar.describe(words)
            bar.advance(n_more)

        compared = compare_deployments(nodes, works, repeat=repeat, show=show)
    return {"nodes": nodes, "rounds": rounds, "repeat": repeat, **compared}


def _say_flower_tables(record: dict[str, Any]) -> None:
    from benchmarks.traffic import cost_rows, ratio_rows

    say(
        f"{record['rounds']} rounds on {record['nodes']} nodes. Bytes are per round, as Flower counts them; own bytes "
        "those of values and names in messages; both include the start and tests. Seconds: median round without a test"
    )
    say_wide_table(cost_rows(record["costs"]))
    say("\nHeld against each other")
    say_wide_table(ratio_rows(record["ratios"]))
    say("")


def _say_coordinator_tables(record: dict[str, object]) -> None:
    shape = f"{record['clients']} x {record['labels']}"
    titles = {
        "clustering": f"Re-clustering {shape}, K = 2..{record['k_max']}, against KMeans(n_init=10) + silhouette_score",
        "adjusting": f"Adjusting {shape} to 10 centers in L1",
        "scaling": "Growing: start, adjust all, re-cluster all (seconds), one client (microseconds), memory",
    }
    for name, title in titles.items():
        rows = record[name]
        if isinstance(rows, list) and rows:
            say_table(
                title,
                [
                    [name.replace("_", " ") for name in rows[0]],
                    *[[plain(value) for value in row.values()] for row in rows],
                ],
            )
            say("")
    imported = record["import"]
    if isinstance(imported, dict):
        say(", ".join(f"{name.replace('_', ' ')} {plain(value)}" for name, value in imported.items()))
    say(f"The paper, on its server (other hardware): {plain(PAPER)}\n")


if __name__ == "__main__":
    run_app(app)
