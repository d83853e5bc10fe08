"""How far each run is."""

from fielding.reporting.gathering import WAITING, Gathered
from fielding.reporting.page import Section
from fielding.reporting.run_record import FAILED, FINISHED, RUNNING, STOPPED, RunRecord
from fielding.reporting.run_summary import evaluations
from fielding.reporting.words import digits

_URGENT = (FAILED, RUNNING, STOPPED, WAITING, FINISHED)
"""What to look at first."""
_HEADS = ["group", "seed", "state", "rounds", "newest accuracy", "problem"]


def states(gathered: Gathered) -> Section:
    """Return a table of all runs, also of those that have not begun: first what failed, last what is finished."""
    rows = [(group.name, _cells(run)) for group, run in gathered.runs]
    rows += [(one.group, [str(one.seed), one.state, "-", "-", one.problem or "-"]) for one in gathered.awaited]
    order = {name: at for at, name in reversed(list(enumerate(name for name, _ in rows)))}
    rows.sort(key=lambda row: (_URGENT.index(row[1][1]), order[row[0]], row[1][0].rjust(9)))
    kinds = [cells[1] for _, cells in rows]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    if not rows:
        return Section(title="State of the runs", missing="There is no run.")
    return Section(
        title="State of the runs",
        text=f"{len(rows)} {'run' if len(rows) == 1 else 'runs'}: {counts}.",
        table=[_HEADS, *[[name, *cells] for name, cells in rows]],
        row_groups=[name for name, _ in rows],
    )


def _cells(run: RunRecord) -> list[str]:
    tested = evaluations(run.rounds)
    newest = digits(tested[-1]["accuracy"]) if tested else "-"
    rounds = f"{len(run.rounds):,}\xa0of\xa0{run.n_expected:,}" if run.n_expected else f"{len(run.rounds):,}"
    seed = "-" if run.seed is None else str(run.seed)
    return [seed, run.state, rounds, newest, "; ".join(run.problems) or "-"]
