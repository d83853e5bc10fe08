"""One HTML page: a sentence, figures, tables, switches; readable on a phone, in light and dark, without a network.

Python says what is to be seen, as one JSON record; ``assets/page.js`` draws it. The same record, sent again and again,
makes the page live (``fielding watch``).
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from importlib.resources import files
from itertools import count
from typing import Any

from fielding._typing import Json
from fielding.reporting.charts.figures import Figure, library_script

LIVE_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src data: blob:; frame-ancestors 'none'; form-action 'self'; base-uri 'none'"
)
"""The content security policy of a live page; plotly sets styles within its drawings."""
_POLICY = "style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; base-uri 'none'"
_HEAD = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
)
_BODY = '<body><main id="page"><noscript>The figures of this page are drawn by its own script.</noscript></main>'
PARTS = ("Result", "Clients", "Clusters", "Cost", "Settings")
"""The parts of the page about runs, in their order."""
_OWN_IDS = (
    "page", "head", "highlights", "lead", "side", "contents", "switches", "sections", "foot", "inside", "client",
    "client-ids", "record", *(f"part-{part.lower()}" for part in PARTS),
)  # fmt: skip
"""Ids of parts of the page, which no section may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A number that matters, with its name and a word of explanation.

    A warning is to be looked at first; with ``group`` the page switches the card with that group of runs; ``color``
    is that of a stripe at its side, as ``#rrggbb``, none if empty.
    """

    name: str
    value: str
    note: str = ""
    is_warning: bool = False
    group: str | None = None
    color: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """A moment that a slider below a figure can show: ``traces`` replace parts of each of its traces, in order."""

    label: str
    traces: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Section:
    """A heading, a paragraph, and a figure, cards or a table; or several of these, one of which is shown at a time."""

    title: str
    part: str = ""  # the part of the page that it is in, one of PARTS; none on a page without parts
    text: str = ""
    more: str = ""  # what else there is to say about reading it, for those who ask; folded in
    figure: Figure | None = None  # as charts.figures makes them
    frames: Sequence[Frame] = ()  # moments of the figure, for a slider; the last one is shown first
    table: Sequence[Sequence[str]] = ()  # rows of text; the first row holds the column heads
    # The group of each row of the table after the first, if the page switches rows with it.
    row_groups: Sequence[str | None] = ()
    copies: Mapping[str, str] = field(default_factory=dict)  # by format: the table as a text that a button copies
    cards: Sequence[Card] = ()
    missing: str = ""  # why there is nothing to be seen, if there is nothing
    # What a reader chooses from, the first one shown at first; each has the words of its buttons, a row a word.
    views: Sequence["Section"] = ()
    words: Sequence[str] = ()
    # The group that it shows the inside of; only the sections of one group are shown at a time.
    group: str | None = None
    key: str = ""  # what tells it from other sections of the page; made of title and group if empty


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Page:
    """All that a page shows."""

    title: str
    lead: str  # what was run; below the rest of the head
    sentence: str = ""  # what came of it
    highlights: Sequence[Section] = ()  # the charts that carry the sentence, side by side
    cards: Sequence[Card] = ()
    sections: Sequence[Section] = ()
    # Groups of runs by name, each with its colour: each gets a switch that acts on all figures.
    groups: Mapping[str, str] | None = None
    notes: Sequence[str] = ()  # what is missing or damaged
    footer: str = ""


def page_html(page: Page) -> str:
    """Return the page as one file that asks no network for anything.

    Texts reach the page as texts, never as mark-up, so ids and labels from data cannot inject anything; scripts
    other than ours are refused by its content security policy.
    """
    # Of JSON in HTML only "<" can be taken for something else.
    record = json.dumps(page_record(page), allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    scripts = [library_script(), asset("page.js")]
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = f"default-src 'none'; script-src {allowed}; {_POLICY}"
    return (
        f'{_HEAD}<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(page.title)}</title><style>{asset('page.css')}</style></head>\n"
        f'{_BODY}<script type="application/json" id="record">{record}</script>\n'
        f"{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>\n"
    )


def live_html(title: str, scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return the page without its content, which scripts ask for; they and the styles are files beside it."""
    links = "".join(f'<link rel="stylesheet" href="{escape(one)}">' for one in styles)
    tags = "".join(f'<script src="{escape(one)}"></script>' for one in scripts)
    return f"{_HEAD}<title>{escape(title)}</title>{links}</head>\n{_BODY}{tags}</body></html>\n"


@cache
def asset(name: str) -> str:
    """Return the text of a file that pages are made with."""
    return files("fielding.reporting").joinpath("assets", name).read_text(encoding="utf-8")


def page_record(page: Page) -> dict[str, Json]:
    """Return all that a page shows as JSON; each section has a digest that tells whether it changed."""
    return {
        "title": page.title,
        "lead": page.lead,
        "sentence": page.sentence,
        "footer": page.footer,
        "notes": list(page.notes),
        "groups": [{"name": name, "color": color} for name, color in (page.groups or {}).items()],
        "cards": [_card_record(card) for card in page.cards],
        "highlights": [section_record(replace(one, key=f"head-{key_of(one)}")) for one in page.highlights],
        "sections": [section_record(section) for section in distinct(page.sections)],
    }


def section_record(section: Section) -> dict[str, Json]:
    """Return a section as JSON."""
    record: dict[str, Json] = {
        "key": key_of(section),
        "title": section.title,
        "part": section.part,
        "text": section.text,
        "more": section.more,
        "group": section.group,
        "figure": section.figure,
        "frames": [{"label": frame.label, "traces": [dict(one) for one in frame.traces]} for frame in section.frames],
        "table": [list(row) for row in section.table],
        "rowGroups": list(section.row_groups),
        "copies": dict(section.copies),
        "cards": [_card_record(card) for card in section.cards],
        "missing": section.missing,
        "views": [section_record(view) for view in section.views],
        "words": list(section.words),
    }
    return {**record, "digest": hashlib.blake2b(json.dumps(record).encode(), digest_size=8).hexdigest()}


def merge_views(title: str, views: Mapping[str, Section]) -> Section:
    """Return several sections as one, by the words of their buttons; those without anything to be seen are left out.

    A single one that is left stays as it is, under its own title.

    Examples
    --------
    >>> shown = {"sent": Section(title="Bytes sent", text="..."), "received": Section(title="", missing="no round")}
    >>> merge_views("Bytes", shown).title
    'Bytes sent'
    """
    left = {word: one for word, one in views.items() if not one.missing}
    if len(left) < 2:
        return next(iter(left.values()), replace(next(iter(views.values())), title=title))
    group = next(iter(left.values())).group
    return Section(title=title, views=[replace(one, words=(word,)) for word, one in left.items()], group=group)


def distinct(sections: Sequence[Section]) -> list[Section]:
    """Return sections each with a key of its own: names of groups that differ in signs alone would share one.

    Examples
    --------
    >>> [one.key for one in distinct([Section(title="Map", group=group) for group in ("tau=1/6", "tau=1.6", None)])]
    ['map-tau-1-6', 'map-tau-1-6-2', 'map']
    """
    used = set(_OWN_IDS)
    found: list[Section] = []
    for section in sections:
        stem = key_of(section)
        key = next(one for n in count(1) if (one := stem if n == 1 else f"{stem}-{n}") not in used)
        used.add(key)
        found.append(replace(section, key=key))
    return found


def key_of(section: Section) -> str:
    """Return what tells a section from others: its key, else one made of its title and group."""
    # Keys become ids and names of files, which may not be too long.
    words = f"{section.title} {section.group or ''}".lower()
    return section.key or re.sub("[^a-z0-9]+", "-", words).strip("-")[:80] or "section"


def _card_record(card: Card) -> dict[str, Json]:
    return {
        "name": card.name,
        "value": card.value,
        "note": card.note,
        "warning": card.is_warning,
        "group": card.group,
        "color": card.color if re.fullmatch("#[0-9A-Fa-f]{6}", card.color) else "",
    }
