"""One self-contained HTML page: cards, figures, tables; readable on a phone, in light and dark, without a network."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from fielding.reporting.figures import figure_html, library_script


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A number that matters, with its name and a word of explanation; a warning is one to look at first."""

    name: str
    value: str
    note: str = ""
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, a paragraph and a figure or a table (first row: column heads)."""

    title: str
    text: str = ""
    figure: Any = None
    table: Sequence[Sequence[str]] = ()


_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --paper: #fff; --card: #f6f8fa;
  --alarm: #b35900; --shade: rgba(0, 0, 0, .22); }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9aa5b1; --line: #30363d; --paper: #0d1117; --card: #161b22;
    --alarm: #f0a04b; --shade: rgba(255, 255, 255, .28); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 1.5rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .25rem; }
p { margin: .25rem 0 .75rem; color: var(--soft); max-width: 75ch; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem .9rem; }
.card b { display: block; font-size: 1.45rem; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .85rem; display: block; }
.warning { border: 2px solid var(--alarm); grid-column: 1 / -1; } .warning b { color: var(--alarm); }
.scroll { overflow-x: auto; background:
  linear-gradient(to right, var(--paper) 50%, transparent) left / 48px 100% no-repeat local,
  linear-gradient(to left, var(--paper) 50%, transparent) right / 48px 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) left / 14px 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) right / 14px 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:first-child { white-space: normal; min-width: 7.5rem; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
@media (max-width: 600px) {
  th, td { white-space: normal; overflow-wrap: break-word; padding-right: .7rem; }
}
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
"""

_FOLLOW_COLOR_SCHEME = """
const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const ink = dark.matches ? "#c9d1d9" : "#444c56", card = dark.matches ? "#161b22" : "#ffffff";
  const look = {"font.color": ink, "hoverlabel.bgcolor": card, "hoverlabel.font.color": ink};
  for (const plot of document.querySelectorAll(".js-plotly-plot")) Plotly.relayout(plot, look);
}
dark.addEventListener("change", paint); paint();
"""


def page_html(title: str, lead: str, *, cards: Sequence[Card], sections: Sequence[Section], footer: str = "") -> str:
    """Return the page; every text is escaped, so ids and labels from data cannot inject anything."""
    body = "".join(_section_html(section, at) for at, section in enumerate(sections))
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
        "style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; base-uri 'none'\">"
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><script>{library_script()}</script></head>\n"
        f"<body><h1>{escape(title)}</h1><p>{escape(lead)}</p>"
        f'<div class="cards">{"".join(map(_card_html, cards))}</div>{body}'
        f"<footer>{escape(footer)}</footer><script>{_FOLLOW_COLOR_SCHEME}</script></body></html>\n"
    )


def _card_html(card: Card) -> str:
    kind = "card warning" if card.is_warning else "card"
    return (
        f'<div class="{kind}"><span>{escape(card.name)}</span><b>{escape(card.value)}</b>'
        f"<span>{escape(card.note)}</span></div>"
    )


def _section_html(section: Section, at: int) -> str:
    text = f"<p>{escape(section.text)}</p>" if section.text else ""
    figure = figure_html(section.figure, f"figure-{at}") if section.figure is not None else ""
    table = _table_html(section.table) if section.table else ""
    return f"<section><h2>{escape(section.title)}</h2>{text}{figure}{table}</section>\n"


def _table_html(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows[1:])
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
