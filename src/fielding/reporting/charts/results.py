"""The comparison in numbers."""

from collections.abc import Iterable, Mapping, Sequence

from fielding._typing import Json
from fielding.reporting.comparison_tables import comparison_table, page_words
from fielding.reporting.numbers.comparison import comparison
from fielding.reporting.numbers.groups import FIRST, WAITING, Gathered, Group
from fielding.reporting.numbers.run_record import FAILED, FINISHED, RUNNING, STOPPED, RunRecord
from fielding.reporting.numbers.run_summary import evaluations
from fielding.reporting.page import Section
from fielding.reporting.words import digits, plain

_VERSIONS = ("fielding", "machine", "data_blake2b", "initial_blake2b", "trainer", "n_numbers")
_NAMES = {
    "fielding": "Fielding", "machine": "machine", "data_blake2b": "digest of the data",
    "initial_blake2b": "digest of the first model", "trainer": "trainer", "n_numbers": "numbers of a model",
}  # fmt: skip


def settings(gathered: Gathered) -> list[Section]:
    """Return the settings in which groups differ, those that all runs share, and versions."""
    tables = {group.name: _settings(group) for group in gathered.groups}
    if not any(tables.values()):
        return [Section(title="Settings", missing="No manifest.json could be read: config and versions are not known.")]
    keys = list(dict.fromkeys(key for table in tables.values() for key in table))
    differing = [key for key in keys if len({table.get(key, "-") for table in tables.values()}) > 1]
    first = next(iter(tables.values()))
    sections = []
    if differing:
        sections.append(_differing(tables, differing))
    seeds = ", ".join(dict.fromkeys(str(run.seed) for _, run in gathered.runs if run.seed is not None))
    shared = [[key, first.get(key, "-")] for key in keys if key not in differing]
    sections.append(
        Section(
            title="Settings that all groups share" if len(tables) > 1 else "Settings",
            text=f"Keys of the config, as it was resolved. Seeds: {seeds or 'not known'}.",
            table=[["setting", "value"], *shared],
        )
    )
    return [*sections, _versions(gathered)]


def _differing(tables: Mapping[str, Mapping[str, str]], keys: Sequence[str]) -> Section:
    """Return a row for each group, or for each key if those are more; what most readers look for first."""
    keys = sorted(keys, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST))
    rows = [["group", *keys], *[[name, *[table.get(key, "-") for key in keys]] for name, table in tables.items()]]
    is_upright = len(keys) <= len(tables)
    return Section(
        title="Settings in which groups differ",
        text="Keys of the config, as it was resolved; a dash where a group has no such key.",
        table=rows if is_upright else [list(column) for column in zip(*rows, strict=True)],
        row_groups=list(tables) if is_upright else (),
    )


def _settings(group: Group) -> dict[str, str]:
    """Return the settings of a group but for the seed; where its runs differ, all values."""
    tables = [run.settings for run in group.runs]
    keys = dict.fromkeys(key for table in tables for key in table)
    return {key: _values(_words(table.get(key)) for table in tables) for key in keys}


def _words(value: Json) -> str:
    return str(value).lower() if isinstance(value, bool) else plain(value)


def _values(found: Iterable[str]) -> str:
    """Return values that are the same once, others one after the other.

    Examples
    --------
    >>> _values(["3", "3"]), _values(["3", "4", "3"])
    ('3', '3 / 4')
    """
    return " / ".join(dict.fromkeys(found))


def _versions(gathered: Gathered) -> Section:
    """Return what made the runs; where runs differ, a row for each value with the runs that have it."""
    runs = [run for _, run in gathered.runs]
    rows = []
    for name in _VERSIONS:
        values: dict[str, list[RunRecord]] = {}
        for run in runs:
            if name in run.manifest:
                values.setdefault(plain(run.manifest[name]), []).append(run)
        for value, mine in values.items():
            whose = "all runs" if len(mine) == len(runs) else _whose(mine)
            rows.append([_NAMES[name], value, whose])
    return Section(
        title="Versions",
        text="What results depend on beside the settings. The same digest says: the same data, the same first model.",
        table=[["what", "value", "of"], *rows],
    )


def _whose(runs: Sequence[RunRecord], most: int = 4) -> str:
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    names = [run.folder.name for run in runs]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


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


_TITLE = "Results in numbers"


def results(gathered: Gathered, summary: Mapping[str, Json] | None = None) -> Section:
    """Return the table of a comparison, a row for each group.

    Parameters
    ----------
    gathered
        The runs.
    summary
        Their :func:`comparison <fielding.reporting.numbers.comparison.comparison>`, if it was made already.
    """
    if not any(group.finished for group in gathered.groups):
        return Section(title=_TITLE, missing="No run is finished yet. The table is filled as runs end.")
    record = comparison(gathered) if summary is None else summary
    methods, (text, more) = record.get("methods"), page_words(record)
    return Section(
        title=_TITLE,
        text=text,
        more=more,
        table=[[_held_together(cell) for cell in row] for row in comparison_table(record)],
        row_groups=list(methods) if isinstance(methods, dict) else (),
    )


def _held_together(cell: str) -> str:
    r"""Return a cell that a narrow screen does not break behind a sign.

    Examples
    --------
    >>> _held_together("0.975 ± 0.003"), _held_together("< 0.001")
    ('0.975 ±\xa00.003', '<\xa00.001')
    """
    return cell.replace("± ", "±\xa0").replace("< ", "<\xa0")
