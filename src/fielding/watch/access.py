"""Access to the live page: which requests are answered, and headers that keep other pages and scripts out."""

import contextlib
import hashlib
import hmac
import ipaddress
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from fielding.reporting.page import LIVE_POLICY

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "fielding_watch"
LOCAL_NAME = "localhost"
METHODS = ("GET", "HEAD")
HEADERS = {
    "content-security-policy": LIVE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
"""What every answer carries, also those that refuse."""
_DAY_S = 24 * 3600

Refusal = Callable[["Request"], "Response | None"]
"""Returns the answer to a request that is refused, and None for one that is not."""


def restrict_access(app: "ASGIApp", *, token: str | None) -> "ASGIApp":
    """Return an application that answers only requests that may be answered, and that only read.

    Without a ``token`` that a browser must know, only this machine can ask, and only by its own name: the page of
    another site that a browser here has open could else have its own name lead here and read everything.
    """
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse

    refuse = _refuse_foreign_host if token is None else _require_token(token)

    async def restricted(scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            return

        async def send_sealed(message: "Message") -> None:
            if message["type"] == "http.response.start":
                own = [pair for pair in message.get("headers", ()) if pair[0].decode("latin-1").lower() not in HEADERS]
                sealed = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*own, *sealed]}
            await send(message)

        answer: ASGIApp | None = None
        if scope["method"] not in METHODS:
            words = "this page can be read, not changed\n"
            answer = PlainTextResponse(words, status_code=405, headers={"allow": ", ".join(METHODS)})
        await (answer or refuse(Request(scope)) or app)(scope, receive, send_sealed)

    return restricted


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host.

    Examples
    --------
    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "localhost.evil.org", "")]
    [True, True, True, False, False, False]
    """
    if host.lower() == LOCAL_NAME:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def named_host(header: str) -> str:
    """Return the host of a ``Host`` header, without its port.

    Examples
    --------
    >>> named_host("127.0.0.1:8707"), named_host("[::1]:8707")
    ('127.0.0.1', '::1')
    """
    return header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]


def _refuse_foreign_host(request: "Request") -> "Response | None":
    from starlette.responses import PlainTextResponse

    if is_loopback(named_host(request.headers.get("host", ""))):
        return None
    return PlainTextResponse("ask this machine by its own name, as in http://127.0.0.1\n", status_code=400)


def _require_token(token: str) -> Refusal:
    """Return what refuses requests without the token: in the address once, then by a cookie, or as a bearer."""
    from starlette.responses import PlainTextResponse

    # Only a digest is left with the browser: cookies go to every port of a host.
    ticket = hashlib.blake2b(token.encode(errors="replace"), digest_size=32, person=b"fielding-watch").hexdigest()

    def refusal(request: "Request") -> "Response | None":
        if "token" in request.query_params and _same(request.query_params["token"], token):
            return _redirect_with_cookie(request, ticket)
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(bearer.strip(), token):
            return None
        with contextlib.suppress(CookieError):
            cookie = SimpleCookie(request.headers.get("cookie", "")).get(_cookie_name(request))
            if cookie is not None and _same(cookie.value, ticket):
                return None
        words = "this page asks for a token: open it with ?token=TOKEN, as it was given to fielding watch\n"
        return PlainTextResponse(words, status_code=401, headers={"www-authenticate": "Bearer"})

    return refusal


def _same(given: str, wanted: str) -> bool:
    """Compare in a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode(errors="replace"))


def _cookie_name(request: "Request") -> str:
    # Browsers share cookies between ports: two pages on one host have two tokens.
    _, port = request.scope.get("server") or ("", 0)
    return f"{COOKIE}_{port}"


def _redirect_with_cookie(request: "Request", ticket: str) -> "Response":
    """Return the way to the same page without the token in its address, where histories and screenshots show it."""
    from starlette.responses import Response

    rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
    # A path of two slashes would be the name of another host.
    path = "/" + quote(request.url.path.lstrip("/\\"))
    where = path + (f"?{urlencode(rest, errors='replace')}" if rest else "")
    answer = Response(status_code=303, headers={"location": where})
    answer.set_cookie(_cookie_name(request), ticket, max_age=_DAY_S, httponly=True, samesite="strict")
    return answer
