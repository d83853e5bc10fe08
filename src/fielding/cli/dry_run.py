"""`fielding run --dry-run`: what a run would do, how long it would take and how much memory, without writing a file."""

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fielding._typing import Json
from fielding.cli.console import counting, note_down, progress_bar, say, say_json
from fielding.reporting.formatting import as_time, megabytes

if TYPE_CHECKING:
    from fielding.config.keys import Config
    from fielding.simulation.experiment import Start

TRY_S, LONGEST_TRY_S, FEWEST_ROUNDS = 3.0, 20.0, 3
"""Seconds for which first rounds are really run; so many rounds in any case, unless they take too long."""


def dry_run(config: "Config", folder: Path, start: "Start", *, as_json: bool, quiet: bool) -> None:
    """Put a run together as it would be, run its first rounds in a scratch folder, and tell what all would take."""
    from fielding.config.reader import config_text
    from fielding.engine.round import peak_bytes
    from fielding.engine.runner import Rules, Runner
    from fielding.records.run_folder import RunFolder, check_free, claim_folder
    from fielding.simulation.assembly import Own, assemble, initial_model
    from fielding.simulation.config_check import check_effects
    from fielding.simulation.experiment import federation_of, next_notes, participant_notes, run_manifest
    from fielding.traces.natural import n_rounds

    check_effects(config)
    if not start.resume:
        check_free(folder, config_text(config))
    begun, seconds, n_workers = time.perf_counter(), list[tuple[bool, float]](), config.workers or os.cpu_count() or 1
    with (
        progress_bar("preparing", None, quiet=quiet) as bar,
        tempfile.TemporaryDirectory(prefix="fielding-") as scratch,
        claim_folder(Path(scratch) / "run") as lock,
    ):
        advance = counting(bar)
        own = Own(on_images=lambda done, _total: advance(done))
        simulation = assemble(config, own, n_workers=n_workers, folder=Path(scratch) / "own")
        initial = initial_model(simulation, start.init_from)
        manifest = run_manifest(config, simulation, initial)
        tried = RunFolder(Path(scratch) / "run", manifest, kind=simulation.policy.kind, lock=lock)
        try:
            tried.begin(config_text(config))
            runner = Runner(
                federation_of(simulation, simulation.method(initial), simulation.clients),
                tried,
                layout=simulation.model.layout,
                method_name=config.method.name,
                rules=Rules(gap=config.trace.gap, checkpoint_every=config.checkpoint.every),
            )
            prepared = last = time.perf_counter()

            def after_round(row: Mapping[str, Json]) -> bool:
                nonlocal last
                now = time.perf_counter()
                seconds.append(("accuracy" in row, now - last))
                last, passed = now, now - prepared
                return passed < TRY_S or (len(seconds) < FEWEST_ROUNDS and passed < LONGEST_TRY_S)

            bar.describe("trying the first rounds")
            runner.run(after_round)
        finally:
            tried.close()
            simulation.clients.close()
    every, n_clients = config.evaluation.every, simulation.dealt.schedule.n_clients
    n_tests = len({0, config.rounds - 1, *range(every - 1, config.rounds, every)})
    later = seconds[1:] or seconds  # the first round is another one than all others, where there are others
    tested, plain = ([took for has_test, took in later if has_test is wanted] for wanted in (True, False))
    tested = tested or [took for has_test, took in seconds if has_test]
    plain = plain or tested
    expected = prepared - begun
    expected += n_tests * sum(tested) / len(tested) + (config.rounds - n_tests) * sum(plain) / len(plain)
    pool, n_numbers = simulation.dealt.pool, simulation.model.layout.size
    notes = (
        *simulation.dealt.notes,
        *next_notes(config, simulation.clients.windows),
        *participant_notes(config, n_clients),
    )
    n_train = min(config.training.participants, n_clients)
    section, dealt = config.trace, simulation.dealt
    lasts = n_rounds(dealt.schedule.n_intervals, dealt.plan) if dealt.is_natural else None
    record = {
        "data": section.file or section.name,
        "dealt_by": "nature" if simulation.dealt.is_natural else section.scenario or "places",
        "samples": len(pool),
        "shape": list(pool.shape),
        "classes": len(pool.classes),
        "clients": n_clients,
        "participants": n_train,
        "intervals": simulation.dealt.schedule.n_intervals,
        "rounds": config.rounds,
        "trace_rounds": lasts,
        "method": config.method.name,
        "model": config.model.factory or config.model.name,
        "model_numbers": n_numbers,
        "model_bytes": 4 * n_numbers,
        "out": str(folder),
        "tried_rounds": len(seconds),
        "seconds": round(expected, 3),
        "memory_bytes": peak_bytes(),
        "notes": list(notes),
    }
    for note in () if as_json else notes:
        note_down(note)
    if as_json:
        say_json(record)
        return
    took = "under a second" if expected < 1.0 else f"about {as_time(expected)}"
    how = "real clients and times" if simulation.dealt.is_natural else f"scenario {record['dealt_by']}"
    of = "" if lasts is None else f" of the {lasts:,} that the trace lasts"
    rows = [
        ["data", f"{record['data']}, {how}"],
        ["samples", f"{len(pool):,} of shape {' x '.join(map(str, pool.shape))}, {len(pool.classes):,} classes"],
        ["clients", f"{n_clients:,}, of which {n_train:,} train in a round"],
        ["rounds", f"{config.rounds:,}{of}, new data every {section.gap}, {record['intervals']:,} intervals"],
        ["method", config.method.name],
        ["model", f"{record['model']}, {n_numbers:,} numbers, {megabytes(4 * n_numbers)}"],
        ["real time", f"{took} on this machine, by {len(seconds)} rounds that were tried"],
        ["memory", f"about {megabytes(record['memory_bytes'])}, more if there are many groups"],
        ["results", f"{folder} (nothing was written)"],
    ]
    for name, words in rows:
        say(f"{name:<9}  {words}")
    if config.stop_at_accuracy is not None or config.stop_at_time_s is not None:
        say("A stop rule of the config may end it sooner.")
