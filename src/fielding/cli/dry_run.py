"""`fielding run --dry-run`: what a run would do, how long it would take and how much memory, without writing a file."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fielding.cli.console import counting, note_down, progress_bar, say, say_json
from fielding.reporting.formatting import as_time, megabytes

if TYPE_CHECKING:
    from fielding.config.keys import Config
    from fielding.simulation.experiment import Start

TRY_S, LONGEST_TRY_S, FEWEST_ROUNDS = 3.0, 20.0, 3
"""Seconds for which first rounds are really run; so many rounds in any case, unless they take too long."""


def dry_run(config: "Config", folder: Path, start: "Start", *, as_json: bool, quiet: bool) -> None:
    """Put a run together as it would be, run its first rounds in memory, and tell what the whole would take."""
    from fielding.config.reader import config_text
    from fielding.engine.round import peak_bytes, run_round
    from fielding.records.run_folder import check_free
    from fielding.simulation.assembly import Own, assemble, initial_model
    from fielding.simulation.config_check import check_effects
    from fielding.simulation.experiment import federation_of, next_notes, participant_notes

    check_effects(config)
    if not start.resume:
        check_free(folder, config_text(config))
    begun, seconds, n_workers = time.perf_counter(), list[dict[str, float]](), config.workers or os.cpu_count() or 1
    with progress_bar("preparing", None, quiet=quiet) as bar:
        advance = counting(bar)
        own = Own(on_images=lambda done, _total: advance(done))
        simulation = assemble(config, own, n_workers=n_workers)
        try:
            method = simulation.method(initial_model(simulation, start.init_from))
            federation = federation_of(simulation, method, simulation.clients)
            prepared, waiting, passed = time.perf_counter() - begun, None, 0.0
            bar.describe("trying the first rounds")
            while len(seconds) < config.rounds and (
                passed < TRY_S or (len(seconds) < FEWEST_ROUNDS and passed < LONGEST_TRY_S)
            ):
                done = run_round(federation, len(seconds), waiting)
                waiting = done.waiting
                seconds.append({**done.seconds, "tested": float(bool(done.scores))})
                passed += done.seconds["whole"]
        finally:
            simulation.clients.close()
    every, n_clients = config.evaluation.every, simulation.dealt.schedule.n_clients
    n_tests = len({0, config.rounds - 1, *range(every - 1, config.rounds, every)})
    # The first round is another one than all others, where there are others.
    later, tests = seconds[1:] or seconds, [one["evaluate"] for one in seconds if one["tested"]]
    per_round = sum(one["whole"] - one["evaluate"] for one in later) / len(later)
    tests = tests[1:] or tests
    expected = prepared + config.rounds * per_round + n_tests * sum(tests) / len(tests)
    pool, n_numbers = simulation.dealt.pool, simulation.trainer.layout.size
    notes = (
        *simulation.dealt.notes,
        *next_notes(config, simulation.clients.windows),
        *participant_notes(config, n_clients),
    )
    n_train = min(config.training.participants, n_clients)
    section = config.trace
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
    rows = [
        ["data", f"{record['data']}, {how}"],
        ["samples", f"{len(pool):,} of shape {' x '.join(map(str, pool.shape))}, {len(pool.classes):,} classes"],
        ["clients", f"{n_clients:,}, of which {n_train:,} train in a round"],
        ["rounds", f"{config.rounds:,}, new data every {section.gap}, {record['intervals']:,} intervals"],
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
