"""`fielding bench`: ours, the peers and the bound in one run."""

from dataclasses import asdict
from typing import Annotated

import typer

from fielding.cli.bench_flower import flower
from fielding.cli.console import progress_bar, say, say_json, say_table
from fielding.cli.options import JsonOutput, Quiet
from fielding.errors import unknown_name
from fielding.reporting.formatting import plain

PAPER = {"adjust_s": 2.0, "recluster_s": 15.6, "clients": 5078, "labels": 100}
"""What the paper reports of its own coordinator."""

bench_app = typer.Typer(help="Measure Fielding beside its peers, in turns, in one run.", no_args_is_help=True)


@bench_app.command()
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
    from fielding.bench.adjusting import compare_adjusting
    from fielding.bench.clustering import METRICS, compare_clustering
    from fielding.bench.importing import import_seconds
    from fielding.bench.scaling import measure_scaling

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
        _say_tables(record)
    say_json(record)


@bench_app.command()
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
    from fielding._extras import require
    from fielding.bench.evaluating import compare_evaluation
    from fielding.bench.local_training import compare_training
    from fielding.bench.method_overhead import method_overhead
    from fielding.bench.whole_rounds import large_trace, whole_rounds
    from fielding.bench.workloads import WORKLOADS

    names = [name.strip() for name in workloads.split(",")]
    for name in names:
        if name not in WORKLOADS:
            raise unknown_name("workload", name, WORKLOADS)
    require("torch")
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


bench_app.command()(flower)


def _say_tables(record: dict[str, object]) -> None:
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
