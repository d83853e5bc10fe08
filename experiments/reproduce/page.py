"""A page of docs/results/reproduce: what was measured stands between two marks, words around them stay."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from experiments.peers.comparing import markdown
from experiments.reproduce.claims import HEAD
from experiments.reproduce.reading import Experiment
from fielding.atomic import replaced_file

BEGIN = "<!-- measured: written by python -m experiments.reproduce; what stands before and after is by hand -->"
END = "<!-- end of what was measured -->"
PAGES = Path("docs/results/reproduce")
WAITING = "*What we see: not written yet.*"
"""Stands after the measured part until somebody says what it shows."""


def measured_part(experiment: Experiment, sections: Sequence[str], *, minutes: float | None, n_seeds: int) -> str:
    """Return what stands between the marks."""
    standin = experiment.standin
    took = "" if minutes is None else f" Took {minutes:.1f} minutes on {os.cpu_count()} cores that others used as well."
    lines = [BEGIN, f"**{experiment.of_paper} of the paper.**"]
    if standin is not None:
        lines.append(f"**Stand-in for {standin.stands_for}: {standin.title}.** {standin.why}")
    if experiment.note:
        lines.append(experiment.note)
    if n_seeds == 1:
        lines.append("**The quick form: a few rounds of other data, one seed. The numbers mean nothing.**")
    lines += sections
    spread = f"Seeds 1 to {n_seeds}; 95 % intervals." if n_seeds else "No seeds; ends are the fastest and the slowest."
    lines.append(
        f"{spread}{took} Measured {datetime.now(UTC):%Y-%m-%d}; again: "
        f"`make experiment-{experiment.name}`. [How to read it](index.md)."
    )
    return "\n\n".join([*lines, END])


def waiting_part(experiment: Experiment) -> str:
    """Return what stands between the marks before anything was measured."""
    words = f"**{experiment.of_paper} of the paper.** Not measured yet: `make experiment-{experiment.name}`."
    return f"{BEGIN}\n\n{words}\n\n{END}"


def index_part(rows: Mapping[str, Sequence[Sequence[str]]], experiments: Sequence[Experiment]) -> str:
    """Return the table of all claims of the paper, experiment by experiment; one that was not run has a dash.

    Parameters
    ----------
    rows
        By experiment, the cells of its claims.
    experiments
        All of them, in order.
    """
    cells = [["experiment", "of the paper", *HEAD[:1], *HEAD[2:]]]
    for one in experiments:
        link = f"[{one.name}]({one.name}.md)"
        for row in rows.get(one.name, []) or [["not measured yet", *["-"] * (len(HEAD) - 1)]]:
            cells.append([link, one.of_paper, row[0], *row[2:]])
    return f"{BEGIN}\n\n{markdown(cells)}\n\n{END}"


def section(title: str, cells: Sequence[Sequence[str]]) -> str:
    """Return a heading and a table."""
    return f"## {title}\n\n{markdown(cells)}"


def write_page(title: str, part: str, path: Path) -> None:
    """Write a page, or put the measured part in its place in one that is there."""
    old = path.read_text(encoding="utf-8") if path.exists() else f"# {title}\n\n{BEGIN}\n{END}\n\n{WAITING}\n"
    before, _, rest = old.partition(BEGIN)
    after = rest.partition(END)[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as file:
        file.write(f"{before}{part}{after}".encode())
