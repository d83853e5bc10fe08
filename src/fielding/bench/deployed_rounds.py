"""Rounds on real nodes, Fielding and FedAvg in turns on one federation of this machine."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fielding._typing import Json
from fielding.bench.contenders import CONTENDERS, PAIRS, Contender, log_of, run_config, write_app
from fielding.bench.counted_grid import END, PUSH
from fielding.bench.shared_work import SharedWork
from fielding.bench.traffic import Exchanges, cost_of, exchanges_of, ratio_of
from fielding.flower.deploy.processes import ProcessError
from fielding.reporting.numbers.run_record import LogReader

if TYPE_CHECKING:
    from fielding.flower.deploy.federation import LocalFederation
    from fielding.flower.deploy.flower_program import RunState

Show = Callable[[str, int], None]
"""Told what is going on, and how many rounds more are done."""
_LOOK_S = 0.5
_PATIENCE_S = 60.0
"""Seconds without news after which the SuperLink is asked: that costs a second of a core, which rounds would feel."""
_LAST_LINES = 5


def compare_deployments(
    n_nodes: int,
    works: Sequence[SharedWork],
    *,
    repeat: int = 1,
    show: Show = lambda _words, _done: None,
    contenders: Sequence[Contender] = CONTENDERS,
) -> dict[str, Json]:
    """Let contenders take turns on a federation that lives as long as this call, and return what each one costs.

    Parameters
    ----------
    n_nodes
        SuperNodes on this machine.
    works
        What they do, one after the other: models of several sizes.
    repeat
        Turns of each contender with each of them.
    show
        Told how it comes along.
    contenders
        Who takes part.

    Returns
    -------
    ``costs`` and ``ratios``, a record for each contender or pair and each of the works.
    """
    from fielding.flower.deploy.federation import LocalFederation

    measured: dict[tuple[Contender, SharedWork], list[tuple[Exchanges, RunState]]] = {
        (contender, work): [] for work in works for contender in contenders
    }
    with tempfile.TemporaryDirectory(prefix="fielding-bench-") as scratch:
        show(f"starting a SuperLink and {n_nodes} nodes", 0)
        with LocalFederation(Path(scratch) / "federation", n_nodes) as federation:
            for turn in range(repeat):
                for number, ((contender, work), turns) in enumerate(measured.items()):
                    place = Path(scratch).resolve() / f"turn-{turn}-{number}"
                    words = f"{contender.name}, {work.n_numbers} numbers, turn {turn + 1} of {repeat}"
                    turns.append(run_once(federation, contender, work, place=place, show=partial(show, words)))
            show("stopping", 0)
    return _record(measured)


def run_once(
    federation: "LocalFederation",
    contender: Contender,
    work: SharedWork,
    *,
    place: Path,
    show: Callable[[int], None] = lambda _done: None,
) -> "tuple[Exchanges, RunState]":
    """Run the app of a contender, and return what went over its grid and what the SuperLink counted.

    Parameters
    ----------
    federation
        Where it runs.
    contender
        Whose app it is.
    work
        What it does.
    place
        A new folder, by an absolute path.
    show
        Told how many rounds more have begun.
    """
    out = place / "run"
    config = run_config(contender, work, federation.n_nodes, out)
    run_id = federation.run_app(write_app(place / "app", contender, config))
    reader, seen, heard_at = LogReader(), 0, time.monotonic()
    while True:
        rows = reader.lines(log_of(out)).rows
        if len(rows) > seen:
            show(sum(row["what"] == PUSH and "train" in row["messages"] for row in rows[seen:]))
            seen, heard_at = len(rows), time.monotonic()
        elif time.monotonic() - heard_at > _PATIENCE_S:
            _checked_state(federation, run_id)
            heard_at = time.monotonic()
        if rows and rows[-1]["what"] == END:
            return exchanges_of(rows), _ended(federation, run_id)
        time.sleep(_LOOK_S)


def _ended(federation: "LocalFederation", run_id: str) -> "RunState":
    """Return the last state of a run whose work is done."""
    while not (state := _checked_state(federation, run_id)).is_completed:
        time.sleep(_LOOK_S)
    return state


def _checked_state(federation: "LocalFederation", run_id: str) -> "RunState":
    """Return how a run is doing, or raise if it has failed; the message has the last lines of its log."""
    state = federation.state(run_id)
    if state.is_ended and not state.is_completed:
        said = " / ".join(federation.log_lines(run_id)[-_LAST_LINES:])
        raise ProcessError(f"the run ended as {state.status}; it said: {said}")
    return state


def _record(measured: "Mapping[tuple[Contender, SharedWork], Sequence[tuple[Exchanges, RunState]]]") -> dict[str, Json]:
    """Return what was measured, and who is how much above whom."""
    costs = {
        (contender, work): cost_of(contender.name, work.n_numbers, turns)
        for (contender, work), turns in measured.items()
    }
    ratios = [
        ratio_of(cost, costs[against, work])
        for (contender, work), cost in costs.items()
        for one, against in PAIRS
        if one == contender and (against, work) in costs
    ]
    return {"costs": [asdict(cost) for cost in costs.values()], "ratios": [asdict(ratio) for ratio in ratios]}
