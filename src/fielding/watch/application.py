"""The web application behind a live page: it answers questions and changes nothing."""

import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fielding._extras import require
from fielding._typing import Json
from fielding.errors import FieldingError
from fielding.reporting.charts.figures import library_script
from fielding.reporting.page import asset, live_html
from fielding.watch.access import METHODS, restrict_access
from fielding.watch.live_page import LivePage

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

TITLE = "Fielding: live"
SCRIPTS = ("plotly.js", "page.js", "live.js")
STYLES = ("page.css",)
_HTML, _SCRIPT, _STYLE, _JSON = "text/html", "text/javascript", "text/css", "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is sent, pressed once for all who ask.

    Parameters
    ----------
    pressed
        By gzip.
    kind
        Its media type.
    tag
        What tells it from what was there before.
    """

    pressed: bytes
    kind: str
    tag: str


def application(watched: LivePage, *, token: str | None = None) -> "ASGIApp":
    """Return the application.

    Parameters
    ----------
    watched
        What it shows.
    token
        What a browser must know to see it; None if only this machine can ask, and then only by its own name.
    """
    require("watch")
    from starlette.applications import Starlette
    from starlette.routing import Route

    # Plain functions: they run in threads of their own, so that a slow reading of a folder holds up nobody else.
    answers: dict[str, Callable[[Request], Response]] = {
        "/": lambda request: _sent(request, _page()),
        **{f"/{name}": _file_route(name) for name in (*SCRIPTS, *STYLES)},
        "/record": lambda request: _record(request, watched),
        "/clients": lambda request: _answer(request, lambda: list(watched.clients(_asked(request, "run")))),
        "/client": lambda request: _answer(
            request, lambda: list(watched.story(_asked(request, "run"), _asked(request, "id")))
        ),
    }
    app = Starlette(routes=[Route(path, answer, methods=list(METHODS)) for path, answer in answers.items()])
    app.router.redirect_slashes = False
    return restrict_access(app, token=token)


def content(body: bytes, kind: str) -> Content:
    """Return what is sent for some bytes."""
    tag = hashlib.blake2b(body, digest_size=12).hexdigest()
    return Content(pressed=gzip.compress(body, 4, mtime=0), kind=kind, tag=f'"{tag}"')


@cache
def _page() -> Content:
    return content(live_html(TITLE, scripts=SCRIPTS, styles=STYLES).encode(), _HTML)


@cache
def _file(name: str) -> Content:
    text = library_script() if name == "plotly.js" else asset(name)
    return content(text.encode(), _SCRIPT if name.endswith(".js") else _STYLE)


def _file_route(name: str) -> Callable[["Request"], "Response"]:
    return lambda request: _sent(request, _file(name))


def _record(request: "Request", watched: LivePage) -> "Response":
    shown = watched.shown()
    return _sent(request, Content(pressed=shown.pressed, kind=_JSON, tag=f'"{shown.tag}"'))


def _sent(request: "Request", what: Content) -> "Response":
    """Return some content, or that it has not changed since the browser asked last."""
    from starlette.responses import Response

    headers = {"etag": what.tag, "vary": "accept-encoding"}
    # A proxy may have made the tag a weak one.
    if request.headers.get("if-none-match", "").removeprefix("W/") == what.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(what.pressed, media_type=what.kind, headers={**headers, "content-encoding": "gzip"})
    return Response(gzip.decompress(what.pressed), media_type=what.kind, headers=headers)


def _answer(request: "Request", ask: Callable[[], Json]) -> "Response":
    """Return an answer, or in words why there is none."""
    try:
        found, status = ask(), 200
    except FieldingError as error:
        found, status = {"error": str(error)}, 404
    response = _sent(request, content(json.dumps(found, allow_nan=False).encode(), _JSON))
    response.status_code = status if response.status_code == 200 else response.status_code
    return response


def _asked(request: "Request", name: str) -> str:
    return request.query_params.get(name, "")
