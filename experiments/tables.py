"""What all experiments share: config tables laid over each other, Markdown tables, pages with a measured part."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from fielding._typing import Json
from fielding.atomic import replaced_file

Table = dict[str, Json]
"""A config, or a part of one, as TOML has it."""
END = "<!-- end -->"
"""Ends the part of a page that a program writes; what stands before and after it is by hand."""
WIDTH = 100  # columns of Markdown text
_KEPT = re.compile(r"\s*([|#>]|<!--|```|!\[)")  # tables, headings, quotes, marks, fences and images stay on their lines


def merged(base: Mapping[str, Json], *changes: Mapping[str, Json]) -> Table:
    """Return a config table with the sections of others laid over it, key by key.

    Examples
    --------
    >>> merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}}, {"d": 5})
    {'a': {'b': 1, 'c': 4}, 'd': 5}
    """
    table: Table = dict(base)
    for change in changes:
        for name, value in change.items():
            before = table.get(name)
            table[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return table


def folder_name(row: str) -> str:
    """Return what a row of a table is called on disk."""
    return "".join(letter if letter.isalnum() or letter == "+" else "-" for letter in row)


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Return cells, heads first, as a Markdown table."""
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])


def wrapped(text: str) -> str:
    """Return Markdown with its paragraphs and list items wrapped; tables, headings and code stay as they are.

    Examples
    --------
    >>> print(wrapped("- " + "word " * 25))
    - word word word word word word word word word word word word word word word word word word word
      word word word word word word
    """
    blocks, is_code = [], False
    for block in text.split("\n\n"):
        n_fences = sum(line.lstrip().startswith("```") for line in block.splitlines())
        if is_code or n_fences:
            blocks.append(block)
            is_code ^= n_fences % 2 == 1
            continue
        blocks.append("\n".join(_wrapped_lines(block)))
    return "\n\n".join(blocks)


def _wrapped_lines(block: str) -> list[str]:
    """Return the lines of a block of Markdown; a list item begins a paragraph of its own."""
    paragraphs: list[str] = []
    for line in block.splitlines():
        is_item = re.match(r"\s*([-*]|\d+\.)\s", line) is not None
        if paragraphs and not is_item and not _KEPT.match(line) and not _KEPT.match(paragraphs[-1]):
            paragraphs[-1] += " " + line.strip()
        else:
            paragraphs.append(line.rstrip())
    lines: list[str] = []
    for one in paragraphs:
        if _KEPT.match(one) or not one.strip():
            lines.append(one)
            continue
        indent = re.match(r"(\s*)((?:[-*]|\d+\.)\s+)?", one)
        width = len(indent.group(0)) if indent else 0
        lines += textwrap.wrap(
            one, WIDTH, subsequent_indent=" " * width, break_long_words=False, break_on_hyphens=False
        )
    return lines


def write_measured(path: Path, part: str, *, begin: str, title: str, after: str = "") -> None:
    """Put the measured part of a page in its place; a page that is not there yet begins with ``title``.

    ``part`` stands between ``begin``, which names the program that writes it, and ``END``; ``after`` follows on a new
    page.
    """
    old = path.read_text(encoding="utf-8") if path.exists() else f"# {title}\n\n{begin}\n{END}\n{after}"
    if begin not in old or END not in old:
        raise SystemExit(f"{path} has no place for what was measured; put these two lines into it:\n{begin}\n{END}")
    before, _, rest = old.partition(begin)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as file:
        file.write(f"{before}{begin}\n\n{wrapped(part)}\n\n{END}{rest.partition(END)[2]}".encode())
