"""A page of docs/results/reproduce: what was measured stands between two marks, words around them stay."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from experiments.reproduce.claims import HEAD, verdicts_in
from experiments.reproduce.plots import CLAIMS, alt_text, tables_in
from experiments.reproduce.reading import Experiment
from experiments.tables import END, markdown, write_measured
from fielding.atomic import replaced_file
from fielding.errors import InputError

BEGIN = "<!-- measured by experiments.reproduce -->"
PAGES = Path("docs/results/reproduce")
VERDICTS = (
    "agrees",
    "level",
    "within",
    "overlaps",
    "not clear",
    "differs",
    "disagrees",
    "lower",
    "higher",
)
"""What a 95 % interval of ours may say of the paper's number, from agreement to disagreement."""
WAITING = "*What we see: not written yet.*"
"""Stands after the measured part until somebody says what it shows."""


def measured_part(experiment: Experiment, sections: Sequence[str], *, minutes: float | None, n_seeds: int) -> str:
    """Return what stands between the marks."""
    standin, is_quick = experiment.standin, n_seeds == 1
    took = "" if minutes is None else f" {minutes:.1f} minutes."
    lines = [f"**{experiment.of_paper} of the paper.**"]
    if is_quick:
        lines.append("**The quick form: a few rounds of other data, one seed. The numbers mean nothing.**")
    elif standin is not None:
        short = standin.title.partition(":")[0]
        lines.append(f"Stand-in for {standin.stands_for}: [{short}](index.md#stand-ins).")
    if experiment.note and not is_quick:
        lines.append(experiment.note)
    lines += sections
    spread = f"Seeds 1 to {n_seeds}; 95 % intervals." if n_seeds else "No seeds; ends are the fastest and the slowest."
    lines.append(
        f"{spread}{took} `make experiment-{experiment.name}`, {datetime.now(UTC):%Y-%m-%d}; "
        "[how to read it](index.md#how-to-read-it)."
    )
    return "\n\n".join(lines)


def waiting_part(experiment: Experiment) -> str:
    """Return what stands between the marks before anything was measured."""
    words = f"**{experiment.of_paper} of the paper.** Not measured yet: `make experiment-{experiment.name}`."
    return words


def index_part(rows: Mapping[str, Sequence[Sequence[str]]], experiments: Sequence[Experiment]) -> str:
    """Return what the list of all says: the verdicts, the first claim of every experiment, and the stand-ins.

    Parameters
    ----------
    rows
        By experiment, the cells of its claims; none for one that was not run.
    experiments
        All of them, in order.
    """
    cells = [["page", *HEAD]]
    for one in experiments:
        first = rows.get(one.name) or [["not measured yet", *["-"] * (len(HEAD) - 1)]]
        cells.append([f"[{one.name}]({one.name}.md)", *first[0]])
    told = tally_words([so for one in experiments for row in rows.get(one.name, []) for so in verdicts_in(row)])
    standins = {one.standin.name: one.standin for one in experiments if one.standin is not None}
    described = [f"- **{one.title}**, for {one.stands_for}. {one.why.strip()}" for one in standins.values()]
    return "\n\n".join([told, markdown(cells), "## Stand-ins", "\n".join(described)])


def claims_on(pages: Path, experiments: Sequence[Experiment]) -> dict[str, list[list[str]]]:
    """Return the cells of all claims that stand on the pages of a folder, by experiment."""
    found = {}
    for one in experiments:
        if (page := pages / f"{one.name}.md").exists():
            found[one.name] = tables_in(measured_in(page)).get(CLAIMS, [[]])[1:]
    return found


def tally_words(verdicts: Sequence[str]) -> str:
    """Return how many claims have each verdict, and how many of these come from an interval.

    Examples
    --------
    >>> words = tally_words(["agrees", "not clear", "agrees", "other machines", "-"])
    >>> for sentence in words.split(". ")[:2]:
    ...     print(sentence)
    **5 numbers.** 3 are judged by a 95 % interval of ours: agrees 2, not clear 1
    2 are not: other machines 1, the paper has no such number 1
    """
    judged = [one for one in verdicts if one in VERDICTS]
    others = Counter(_reason(one) for one in verdicts if one not in VERDICTS)
    told = ", ".join(f"{one} {judged.count(one)}" for one in VERDICTS if one in judged)
    reasons = ", ".join(f"{reason} {count}" for reason, count in others.most_common())
    return (
        f"**{len(verdicts)} numbers.** {len(judged)} are judged by a 95 % interval of ours: "
        f"{told or 'none'}. {others.total()} are not: {reasons or 'none'}. Each interval is at 95 % by "
        f"itself, so of {len(judged)} about {len(judged) * 0.05:.0f} miss by chance."
    )


def _reason(verdict: str) -> str:
    """Return why a number is not judged, so that like reasons count together."""
    if verdict.startswith("calibrated to it"):
        return "calibrated to it"
    if verdict.startswith("reached on"):
        return "reached on some seeds only"
    return "the paper has no such number" if verdict == "-" else verdict


def section(title: str, cells: Sequence[Sequence[str]]) -> str:
    """Return a heading and a table."""
    return f"## {title}\n\n{markdown(cells)}"


def write_page(title: str, part: str, path: Path) -> None:
    """Write a page, or put the measured part in its place in one that is there."""
    write_measured(path, part, begin=BEGIN, title=title, after=f"\n{WAITING}\n")


def write_illustrated(experiment: Experiment, part: str, path: Path, figure: str | None) -> None:
    """Write the page of an experiment and, beside it, its figure, if it has one."""
    if figure is not None:
        drawn = path.with_suffix(".svg")
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_file(drawn) as file:
            file.write(figure.encode())
        part = with_image(part, f"![{alt_text(experiment)}]({drawn.name})")
    write_page(experiment.title, part, path)


def with_image(part: str, image: str) -> str:
    r"""Return a measured part with an image after its first paragraph, in the place of one that is there.

    Examples
    --------
    >>> with_image("**Figure 1.**\n\n![old](a.svg)\n\nWords.", "![new](b.svg)").split("\n\n")
    ['**Figure 1.**', '![new](b.svg)', 'Words.']
    """
    first, *rest = (block for block in part.split("\n\n") if not block.startswith("!["))
    return "\n\n".join([first, image, *rest])


def measured_in(path: Path) -> str:
    """Return the measured part of a page.

    Raises
    ------
    InputError
        If the page is not there or has no such part.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if BEGIN not in text or END not in text:
        raise InputError(f"{path} has no measured part to draw; run the experiment first")
    return text.partition(BEGIN)[2].partition(END)[0].strip()
