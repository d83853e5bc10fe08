"""Tables of the page: results in numbers, the state of each run, settings and versions, and what they leave out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fielding._typing import Json
from fielding.client.privacy.ledger import LEDGER, read_ledger
from fielding.client.privacy.sums import EVERYONE, SUMS
from fielding.reporting.charts.curves import time_word
from fielding.reporting.comparison_tables import (
    MARK,
    comparison_table,
    latex_table,
    markdown_table,
    page_words,
    plain_latex,
    plain_markdown,
)
from fielding.reporting.formatting import digits, plain, run_table
from fielding.reporting.numbers.budget import describe_ledger, describe_sums, round_words
from fielding.reporting.numbers.comparison import compare_groups
from fielding.reporting.numbers.groups import FIRST, WAITING, Group, RunGroups
from fielding.reporting.numbers.run_record import FAILED, FINISHED, RUNNING, STOPPED, RunRecord
from fielding.reporting.numbers.run_summary import evaluations, final_words, run_summary
from fielding.reporting.page import Section

STATES = "State of the runs"
_VERSIONS = {
    "fielding": "Fielding", "machine": "machine", "data_blake2b": "digest of the data",
    "initial_blake2b": "digest of the first model", "trainer": "trainer", "n_numbers": "numbers of a model",
}  # fmt: skip
MOST_COLUMNS = 11  # as many as a screen has room for
# Columns that are left to those who ask for all: by what their heads end in, and, where that is not enough, in turn.
_DETAILS = (
    "newest",
    "to target",
    "speed-up",
    "moves",
    "re-clusterings",
    "corrected",
    "tuned",
    "(next)",
    "(next, served)",
)
_LESSER = ("worst tenth", "MB down/up", "seeds")
_URGENT = (FAILED, RUNNING, STOPPED, WAITING, FINISHED)  # what to look at first


def tabulate_results(gathered: RunGroups, summary: Mapping[str, Json] | None = None) -> Section:
    """Return the table of a comparison, a row for each group; ``summary`` is the comparison, if it was made already."""
    title = "Results in numbers"
    if not any(group.finished for group in gathered.groups):
        return Section(title=title, missing="No run is finished yet. The table is filled as runs end.")
    record = compare_groups(gathered) if summary is None else summary
    methods, (text, more) = record.get("methods"), page_words(record)
    # A narrow screen must not break a cell behind a sign.
    rows = [[cell.replace("± ", "±\xa0").replace("< ", "<\xa0") for cell in row] for row in comparison_table(record)]
    groups = list(methods) if isinstance(methods, dict) else ()
    copies = {"LaTeX": latex_table(record), "Markdown": markdown_table(record)}
    whole = Section(title=title, text=text, more=more, table=rows, row_groups=groups, copies=copies)
    whole = leave_out_columns(whole)
    if len(whole.table[0]) <= MOST_COLUMNS:
        return whole
    kept = [at for at, head in enumerate(whole.table[0]) if not head.endswith(_DETAILS)]
    for head in _LESSER:
        if len(kept) > MOST_COLUMNS - 1:
            kept = [at for at in kept if whole.table[0][at] != head]
    main = replace(whole, table=[[row[at] for at in kept] for row in whole.table], words=("what matters most",))
    return Section(title=title, views=[main, replace(whole, words=("all columns",))])


def tabulate_run(run: RunRecord) -> Section:
    """Return the figures of one run; those of its end only if it is finished."""
    summary = run_summary(run.rounds, run.events, gap=run.gap)
    figures = dict(summary)
    if not run.is_clustered:
        figures |= dict.fromkeys(("n_clusters_last", "n_first_reports", "moves", "reclusterings"))
    other_words = {"simulated time": time_word([run])}
    if run.state != FINISHED:
        figures |= dict.fromkeys(name for name in summary if name.startswith(("final_", "worst_")))
        other_words |= {"clusters at the end": "clusters now", "final accuracy": ""}
    rows = [[other_words.get(name, name), value] for name, value in run_table(figures)]
    table = [["figure", "value"], *[row for row in rows if row[0]]]
    copies = {"LaTeX": plain_latex(table), "Markdown": plain_markdown(table)}
    text = f"Final figures: {final_words(summary)}." if run.state == FINISHED and summary["n_final_evaluations"] else ""
    return Section(title="Results in numbers", text=text, table=table, copies=copies)


def tabulate_clusters(run: RunRecord, name: str | None = None) -> Section:
    """Return the newest metrics of the user's own by cluster, of tests, of training and of the server."""
    title = "Your own metrics by cluster"
    found: dict[str, dict[str, Json]] = {}
    for row in run.rounds:
        by_cluster = row.get("by_cluster")
        for cluster, figures in by_cluster.items() if isinstance(by_cluster, dict) else ():
            if isinstance(figures, dict):
                found[cluster] = {**found.get(cluster, {}), **figures, "round": row["round"]}
    if not found:
        return Section(title=title, missing="The run has no metrics of your own.", group=name)
    heads = list(dict.fromkeys(one for figures in found.values() for one in figures if one != "round"))
    rows = [[cluster, *(digits(figures.get(one)) for one in heads)] for cluster, figures in found.items()]
    text = "The newest values of each cluster. train/: of training; server/: measured at the server."
    return Section(title=title, text=text, table=[["cluster", *heads], *rows], group=name)


def tabulate_budgets(gathered: RunGroups) -> list[Section]:
    """Return what private reports and training have told of samples or clients; nothing if none is private."""
    rows = []
    for group, run in gathered.runs:
        path = run.folder / LEDGER
        if not path.exists():
            continue
        ledger = read_ledger(path)
        for what in ledger.kinds():
            own = ledger.of(what)
            rounds = sorted({one.round_index for one in own.spendings})
            if what == SUMS:
                sums = describe_sums(own)
                found = {**sums, "worst_client": EVERYONE, "n_reports": sums["n_releases"]}
            else:
                found = describe_ledger(own)
            delta = "-" if "delta" not in found else plain(found["delta"])
            rows.append(
                [
                    *(group.name, str(run.seed), what, digits(found["epsilon"]), delta),
                    *(digits(found["epsilon_spent"]), str(found["worst_client"]), f"{found['n_reports']:,}"),
                    round_words(rounds),
                ]
            )
    if not rows:
        return []
    head = ["group", "seed", "of", "epsilon", "delta", "spent at most", "by client", "releases", "in rounds"]
    text = (
        "Epsilon is what all releases in any window of rounds tell at most of a sample (models, sums: of a client, in "
        "the whole run); spent is what the client with the most has told."
    )
    return [Section(title="Privacy", text=text, table=[head, *rows])]


def leave_out_columns(section: Section) -> Section:
    """Return a section whose table tells nothing twice, and that says what its table leaves out.

    Of two rows or more: columns that have one value everywhere, and those that are the same as one before.

    Examples
    --------
    >>> table = [["method", "seeds", "moves", "all"], ["ours", "5", "0", "5"], ["theirs", "5", "1", "5"]]
    >>> left = leave_out_columns(Section(title="", table=table))
    >>> left.table, left.text
    ([['method', 'moves'], ['ours', '0'], ['theirs', '1']], 'The same in all rows: seeds 5, all 5.')
    """
    if len(section.table) < 3:
        return section
    heads, *columns = [list(one) for one in zip(*section.table, strict=True)]
    kept, constant, twins = [heads], [], []
    for column in columns:
        head, *cells = column
        twin = next(
            (one[0] for one in kept[1:] if [_bare(cell) for cell in one[1:]] == [_bare(cell) for cell in cells]), ""
        )
        if len(set(cells)) == 1:
            constant += [f"{head} {cells[0]}"] if cells[0] not in ("-", "") else []
        elif twin:
            twins.append(f"{head} (the same as {twin})")
        else:
            kept.append(column)
    words = [f"The same in all rows: {', '.join(constant)}."] if constant else []
    words += [f"Left out: {', '.join(twins)}."] if twins else []
    text = " ".join([section.text, *words]).strip()
    if len(kept) > 1:
        return replace(section, text=text, table=[list(row) for row in zip(*kept, strict=True)])
    # Rows that are all the same are told in words, unless they are all that there is.
    return section if section.figure is None else replace(section, text=text, table=(), row_groups=())


def _bare(cell: str) -> str:
    return cell.removesuffix(MARK)


def tabulate_left_out(sections: Sequence[Section]) -> list[Section]:
    """Return one table of the sections that have nothing to show, and why; nothing if all have."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in sections:
        groups.setdefault((one.title, one.missing), []).extend([one.group] if one.group else [])
    if not groups:
        return []
    rows = [[f"{title} ({', '.join(mine)})" if mine else title, why] for (title, why), mine in groups.items()]
    return [Section(title="What is left out", table=[["section", "why"], *rows])]


def tabulate_states(gathered: RunGroups) -> Section:
    """Return a table of all runs, also of those that have not begun: first what failed, last what is finished."""
    title = STATES
    rows = [(group.name, _state_cells(run)) for group, run in gathered.runs]
    rows += [(one.group, [str(one.seed), one.state, "-", "-", "-", one.problem or "-"]) for one in gathered.awaited]
    if not rows:
        return Section(title=title, missing="There is no run.")
    order = {name: at for at, name in reversed(list(enumerate(name for name, _ in rows)))}
    rows.sort(key=lambda row: (_URGENT.index(row[1][1]), order[row[0]], row[1][0].rjust(9)))
    states = [cells[1] for _, cells in rows]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    heads = ["group", "seed", "state", "rounds", "last accuracy", "next", "problem"]
    return Section(
        title=title,
        text=f"{len(rows)} {'run' if len(rows) == 1 else 'runs'}: {counts}.",
        table=[heads, *[[name, *cells] for name, cells in rows]],
        row_groups=[name for name, _ in rows],
    )


def _state_cells(run: RunRecord) -> list[str]:
    tested = evaluations(run.rounds)
    scores = [digits(tested[-1].get(name)) if tested else "-" for name in ("accuracy", "next_accuracy")]
    rounds = f"{len(run.rounds):,}\xa0of\xa0{run.n_expected:,}" if run.n_expected else f"{len(run.rounds):,}"
    seed = "-" if run.seed is None else str(run.seed)
    return [seed, run.state, rounds, *scores, "; ".join(run.problems) or "-"]


CHANGED = "Settings that changed"


def tabulate_settings(gathered: RunGroups) -> list[Section]:
    """Return the settings in which groups differ, those that all runs share, and versions."""
    tables = {group.name: _settings(group) for group in gathered.groups}
    if not any(tables.values()):
        return [Section(title="Settings", missing="No manifest.json could be read: config and versions are not known.")]
    keys = list(dict.fromkeys(key for table in tables.values() for key in table))
    differing = [key for key in keys if len({table.get(key, "-") for table in tables.values()}) > 1]
    first = next(iter(tables.values()))
    sections = []
    if differing:
        # A row for each group, or for each key if those are more; first what most readers look for.
        by_use = sorted(differing, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST))
        rows = [["group", *by_use]]
        rows += [[name, *[table.get(key, "-") for key in by_use]] for name, table in tables.items()]
        is_upright = len(differing) <= len(tables)
        sections.append(
            Section(
                title="Settings in which groups differ",
                text="Keys of the config, as it was resolved; a dash where a group has no such key.",
                table=rows if is_upright else [list(column) for column in zip(*rows, strict=True)],
                row_groups=list(tables) if is_upright else (),
            )
        )
    seeds = ", ".join(dict.fromkeys(str(run.seed) for _, run in gathered.runs if run.seed is not None))
    shared = [[key, first.get(key, "-")] for key in keys if key not in differing]
    sections.append(
        Section(
            title="Settings that all groups share" if len(tables) > 1 else "Settings",
            text=f"Keys of the config, as it was resolved. Seeds: {seeds or 'not known'}.",
            table=[["setting", "value"], *shared],
        )
    )
    return [*sections, *_tabulate_changes(gathered), _tabulate_versions([run for _, run in gathered.runs])]


def _tabulate_changes(gathered: RunGroups) -> list[Section]:
    """Return which settings changed while runs went on, and in which round; nothing if none did."""
    rows = [
        [f"{group.name}, seed {run.seed}", str(one.round_index), one.key, plain(one.old), plain(one.new)]
        for group, run in gathered.runs
        for one in run.changes
    ]
    if not rows:
        return []
    text = "Keys that have another value from a round on; the settings above are the last ones."
    return [Section(title=CHANGED, text=text, table=[["run", "round", "setting", "before", "after"], *rows])]


def _settings(group: Group) -> dict[str, str]:
    """Return the settings of a group but for the seed; where its runs differ, all values."""

    def words(value: Json) -> str:
        return str(value).lower() if isinstance(value, bool) else plain(value)

    tables = [run.settings for run in group.runs]
    keys = dict.fromkeys(key for table in tables for key in table)
    return {key: " / ".join(dict.fromkeys(words(table.get(key)) for table in tables)) for key in keys}


def _tabulate_versions(runs: Sequence[RunRecord]) -> Section:
    """Return what made the runs; where runs differ, a row for each value with the runs that have it."""
    rows = []
    for key, name in _VERSIONS.items():
        values: dict[str, list[RunRecord]] = {}
        for run in runs:
            if key in run.manifest:
                values.setdefault(plain(run.manifest[key]), []).append(run)
        for value, mine in values.items():
            rows.append([name, value, "all runs" if len(mine) == len(runs) else _whose(mine)])
    if all(row[2] == "all runs" for row in rows):
        rows = [row[:2] for row in rows]
    return Section(
        title="Versions",
        text="What results depend on beside the settings. The same digest says: the same data, the same first model.",
        table=[["what", "value", "of"][: len(rows[0]) if rows else 2], *rows],
    )


def _whose(runs: Sequence[RunRecord], most: int = 4) -> str:
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    names = [run.folder.name for run in runs]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
