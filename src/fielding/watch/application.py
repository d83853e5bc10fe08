"""The web application behind a live page: it answers questions and changes nothing."""

import gzip
import json
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from fielding._extras import require
from fielding._typing import Json
from fielding.errors import FieldingError
from fielding.reporting.charts.figures import library_script
from fielding.reporting.page import asset, live_html
from fielding.watch.access import METHODS, restrict_access
from fielding.watch.live_page import JSON, Content, LivePage, make_content

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

TITLE = "Fielding: live"
SCRIPTS = ("plotly.js", "page.js", "live.js")
STYLES = ("page.css",)


def application(page: LivePage, *, token: str | None = None) -> "ASGIApp":
    """Return the application that shows a page.

    A browser must know the token to see it; without one only this machine can ask, and only by its own name.
    """
    require("watch")
    from starlette.applications import Starlette
    from starlette.routing import Route

    def asked(request: "Request", name: str) -> str:
        return request.query_params.get(name, "")

    # Plain functions: they run in threads of their own, so that a slow reading of a folder holds up no other request.
    answers: dict[str, Callable[[Request], Response]] = {
        "/": lambda request: _send(request, _shell()),
        **{f"/{name}": partial(_send_file, name=name) for name in (*SCRIPTS, *STYLES)},
        "/record": lambda request: _send(request, page.read()),
        "/clients": lambda request: _answer(request, lambda: list(page.clients(asked(request, "run")))),
        "/client": lambda request: _answer(
            request, lambda: list(page.story(asked(request, "run"), asked(request, "id")))
        ),
    }
    app = Starlette(routes=[Route(path, answer, methods=list(METHODS)) for path, answer in answers.items()])
    app.router.redirect_slashes = False
    return restrict_access(app, token=token)


@cache
def _shell() -> Content:
    return make_content(live_html(TITLE, scripts=SCRIPTS, styles=STYLES).encode(), "text/html")


@cache
def _file(name: str) -> Content:
    text = library_script() if name == "plotly.js" else asset(name)
    return make_content(text.encode(), "text/javascript" if name.endswith(".js") else "text/css")


def _send_file(request: "Request", name: str) -> "Response":
    return _send(request, _file(name))


def _send(request: "Request", what: Content) -> "Response":
    """Return some content, or that it has not changed since the browser asked last."""
    from starlette.responses import Response

    headers = {"etag": what.tag, "vary": "accept-encoding"}
    # A proxy may have made the tag a weak one.
    if request.headers.get("if-none-match", "").removeprefix("W/") == what.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(what.gzipped, media_type=what.kind, headers={**headers, "content-encoding": "gzip"})
    return Response(gzip.decompress(what.gzipped), media_type=what.kind, headers=headers)


def _answer(request: "Request", ask: Callable[[], Json]) -> "Response":
    """Return an answer, or in words why there is none."""
    try:
        found, status = ask(), 200
    except FieldingError as error:
        found, status = {"error": str(error)}, 404
    response = _send(request, make_content(json.dumps(found, allow_nan=False).encode(), JSON))
    response.status_code = status if response.status_code == 200 else response.status_code
    return response
