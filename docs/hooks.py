"""What the site of the docs needs beyond mkdocs; the pages themselves stay plain Markdown for a code host.

- In ``nav`` a path with ``*`` stands for all pages that match it.
- A folder without a front page gets one, a list of what its pages hold.
- A link to a file outside docs/ leads to a copy of the file within the site; one to a folder becomes plain text.
- Lists and tables may follow a paragraph without an empty line, as on a code host.
- Drawings are put into the page, so that they follow its colours.
- A figure and its interval stay on one line.
- Roles of docstrings (``:class:``) are left out: mkdocstrings shows what they name.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

LINK = re.compile(r"\[([^\[\]]*)\]\(((?:\.\./)+[^)#\s]*)(?:#[^)\s]*)?\)")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")
FIRST = re.compile(r"(?:[-*]|1\.) ")
DRAWING = re.compile(r'<img alt="[^"]*" src="((?:[\w.-]+/)*[\w-]+\.svg)"[^>]*>')
ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):(?=<code>)")
LISTED = {"decisions": "Decisions that a newcomer would question, by their numbers, each with what was measured."}
SLUG = slugify(case="lower")  # as mkdocs.yml has it for headings


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace patterns of the navigation by the pages that match them."""

    def expanded(entries: list[Any]) -> list[Any]:
        found: list[Any] = []
        for entry in entries:
            if isinstance(entry, dict):
                found.append({name: expanded(to) if isinstance(to, list) else to for name, to in entry.items()})
            elif "*" in entry:
                docs = Path(config.docs_dir)
                found += sorted(page.relative_to(docs).as_posix() for page in docs.glob(entry))
            else:
                found.append(entry)
        return found

    config.nav = expanded(config.nav or [])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the lists of pages, and the files outside docs/ that pages link to."""
    root = Path(config.docs_dir).parent
    for folder, intro in LISTED.items():
        lines = [f"# {folder.capitalize()}", "", intro]
        for page in sorted((Path(config.docs_dir) / folder).glob("*.md")):
            title, *parts = re.findall(r"^##? (.+)$", page.read_text("utf-8"), re.MULTILINE)
            lines += ["", f"**[{title}]({page.name})**", ""]
            lines += [f"- [{part}]({page.name}#{SLUG(part.replace('`', ''), '-')})" for part in parts]
        text = "\n".join(lines) + "\n"
        files.append(File.generated(config, f"{folder}/index.md", content=text))
    outside = {
        to
        for file in files.documentation_pages()
        for _, target in LINK.findall(file.content_string)
        if (to := place_outside(file.src_uri, target)) and (root / to).is_file()
    }
    for path in sorted(outside):
        files.append(File.generated(config, copy_of(path), content=(root / path).read_text("utf-8")))
    return files


def place_outside(page: str, target: str) -> str | None:
    """Return the path, from the root of the repository, of a target outside docs/; none for one inside.

    >>> place_outside("methods/index.md", "../../examples/own_method.py")
    'examples/own_method.py'
    >>> place_outside("methods/index.md", "../config.md") is None
    True
    """
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return None if path.startswith("docs/") else path


def copy_of(path: str) -> str:
    """Return where a file outside docs/ is found within the site; browsers show text, and save notebooks."""
    return f"source/{path}" if path.endswith(".ipynb") else f"source/{path}.txt"


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Lead links out of docs/ to copies, and put empty lines where Python-Markdown wants them."""

    def relinked(found: re.Match[str]) -> str:
        to = place_outside(page.file.src_uri, found[2])
        if to is None:
            return found[0]
        if not files.get_file_from_path(copy_of(to)):
            return found[1]
        return f"[{found[1]}]({posixpath.relpath(copy_of(to), posixpath.dirname(page.file.src_uri) or '.')})"

    lines: list[str] = []
    in_code = False
    for line in LINK.sub(relinked, markdown).split("\n"):
        before = lines[-1] if lines else ""
        in_code ^= line.startswith("```")
        plain = bool(before.strip()) and not in_code and not before.startswith((" ", "|")) and not ITEM.match(before)
        if plain and (FIRST.match(line) or line.startswith("|")):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def on_page_content(html: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Put the drawings into the page, take the roles of docstrings out, and keep ``1.0 ± 0.5`` on one line."""

    def drawn(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.dest_uri), found[1]))
        return (Path(config.docs_dir) / path).read_text("utf-8")

    return DRAWING.sub(drawn, ROLE.sub("", html).replace(" ± ", "&nbsp;±&nbsp;"))
