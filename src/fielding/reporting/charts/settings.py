"""What the runs were set to, and what made them."""

from collections.abc import Iterable, Mapping, Sequence

from fielding._typing import Json
from fielding.reporting.gathering import Gathered, Group
from fielding.reporting.group_names import FIRST
from fielding.reporting.page import Section
from fielding.reporting.run_record import RunRecord
from fielding.reporting.words import plain

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
