"""The live page over HTTP: who may ask what, and that nothing that is asked changes anything or breaks it."""

import hashlib
import http.client
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fielding.watch.access import HEADERS
from tests.reporting.big_folder import Shape, big_folder
from tests.watch.serving import HOST, Served, serving

pytest.importorskip("starlette", reason="the extra watch is not installed")

TOKEN = "correct horse battery staple"
RUN = "fielding, seed 1"
PATHS = ("/", "/record", "/page.js", "/live.js", "/page.css", "/plotly.js", f"/clients?run={quote(RUN)}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small run."""
    return big_folder(tmp_path_factory.mktemp("served") / "run", Shape(n_clients=8, n_rounds=45))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    """Serve it to this machine."""
    with serving([folder]) as served:
        yield served


@pytest.fixture(scope="module")
def locked(folder: Path) -> Iterator[Served]:
    """Serve it to who knows a token."""
    with serving([folder], TOKEN) as served:
        yield served


def digest(folder: Path) -> str:
    """Return what tells whether anything in a folder changed, times included."""
    found = hashlib.blake2b()
    for path in sorted(folder.rglob("*")):
        known = path.stat()
        found.update(f"{path} {known.st_size} {known.st_mtime_ns}\n".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


@pytest.mark.parametrize("path", PATHS)
def test_everything_that_the_page_needs_is_there_and_sealed(server: Served, path: str) -> None:
    answer = server.ask(path)

    assert answer.status == 200
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "server" not in answer.headers
    assert answer.body


@pytest.mark.parametrize("path", PATHS)
def test_head_tells_the_same_without_content(server: Served, path: str) -> None:
    answer = server.ask(path, method="HEAD")

    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["etag"] == server.ask(path).headers["etag"]


@pytest.mark.parametrize("path", PATHS)
def test_what_has_not_changed_is_not_sent_again(server: Served, path: str) -> None:
    tag = server.ask(path).headers["etag"]

    answers = [server.ask(path, if_none_match=one) for one in (tag, f"W/{tag}", '"other"')]

    assert [(one.status, bool(one.body)) for one in answers] == [(304, False), (304, False), (200, True)]


def test_content_is_pressed_for_who_can_unpress_it(server: Served) -> None:
    plain, pressed = server.ask("/page.js"), server.ask("/page.js", accept_encoding="gzip, br")

    assert "content-encoding" not in plain.headers
    assert pressed.headers["content-encoding"] == "gzip"
    assert plain.body == pressed.body
    assert int(pressed.headers["content-length"]) < len(plain.body) / 2


def test_a_client_is_told_by_its_id_and_an_unknown_one_in_words(server: Served) -> None:
    known, unknown, no_run = server.client(RUN, "3"), server.client(RUN, "33"), server.client("none", "3")

    assert isinstance(known.json, list)
    assert len(known.json) == 3
    assert (unknown.status, no_run.status) == (404, 404)
    assert unknown.json == {"error": "no such client in this run: '33'; did you mean 3?"}
    assert no_run.json == {"error": "there is no run 'none'; choose one of the page"}
    assert {name: unknown.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", "/record", "/client", "/nothing"])
def test_nothing_but_reading_is_allowed(server: Served, method: str, path: str) -> None:
    answer = server.ask(path, method=method)

    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/record/", "//record", "/../manifest.json", "/%2e%2e/%2e%2e/etc/passwd", "/page.js/..", "/.lock"],
)
def test_other_paths_are_not_found(server: Served, path: str) -> None:
    answer = server.ask(path)

    assert (answer.status, answer.body) == (404, b"Not Found")
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "[::2]:80", "0.0.0.0"]
)
def test_another_site_cannot_have_its_own_name_lead_here(server: Served, host: str) -> None:
    answer = server.ask_raw("/record", "GET", {"Host": host})

    assert answer.status == 400
    assert b"fielding" not in answer.body
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8707", "localhost", "LOCALHOST:80", "[::1]", "[::1]:8707", "127.0.0.2"]
)
def test_this_machine_is_known_by_all_its_own_names(server: Served, host: str) -> None:
    assert server.ask_raw("/record", "GET", {"Host": host}).status == 200


@pytest.mark.parametrize("path", [*PATHS, "/nothing"])
@pytest.mark.parametrize(
    "given", [{}, {"authorization": "Bearer wrong"}, {"authorization": TOKEN}, {"cookie": f"a={TOKEN}"}]
)
def test_without_the_token_nothing_is_told(locked: Served, path: str, given: dict[str, str]) -> None:
    answer = locked.ask_raw(path, "GET", given)

    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.body.startswith(b"this page asks for a token")
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_the_token_is_asked_for_once_and_then_known_by_a_cookie(locked: Served) -> None:
    answer = locked.ask(f"/client?token={quote(TOKEN)}&run={quote(RUN)}&id=3")
    cookie, *rest = answer.headers["set-cookie"].split("; ")

    assert (answer.status, answer.headers["location"]) == (303, "/client?run=fielding%2C+seed+1&id=3")
    assert {"HttpOnly", "SameSite=strict"} <= set(rest)
    assert TOKEN not in cookie
    assert quote(TOKEN) not in cookie
    assert locked.ask(answer.headers["location"], cookie=cookie).status == 200
    assert locked.ask("/record", cookie=cookie[:-1]).status == 401
    assert locked.ask("/record", cookie=f"{cookie}0").status == 401


def test_a_program_may_send_the_token_as_a_bearer_and_by_any_name(locked: Served) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "runs.example.org"}

    assert locked.ask_raw("/record", "GET", headers).status == 200


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "///evil.example/x"])
def test_the_way_back_from_the_token_leads_nowhere_else(locked: Served, path: str) -> None:
    where = locked.ask(f"{path}?token={quote(TOKEN)}").headers["location"]

    assert where.startswith("/evil.example")


def test_a_token_of_any_signs_works(folder: Path) -> None:
    token = 'žluť; "a"=b,\\ & 馬 %41'
    with serving([folder], token) as served:
        cookie = served.ask(f"/?token={quote(token)}").headers["set-cookie"].partition(";")[0]

        assert served.ask("/record", cookie=cookie).status == 200
        assert served.ask("/record").status == 401


Query = list[tuple[str, str]]
TEXTS = st.text(max_size=30)
PATH_TEXTS = st.one_of(
    TEXTS.map(lambda words: "/" + quote(words)),
    st.sampled_from(["/record", "/client", "/clients", "/"]),
    st.text("/.%\\2efab?#&=", max_size=20).map(lambda words: f"/{words}".replace("#", "%23")),
)
HEADER_TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=PATH_TEXTS,
    query=st.lists(st.tuples(st.sampled_from(["run", "id", "token", "x"]), st.one_of(TEXTS, st.just(RUN))), max_size=3),
    headers=st.dictionaries(
        st.sampled_from(["Cookie", "Authorization", "If-None-Match", "Accept-Encoding", "Range", "X-Forwarded-For"]),
        HEADER_TEXTS,
    ),
    method=st.sampled_from(["GET", "GET", "GET", "HEAD", "POST", "DELETE"]),
)
def test_nothing_that_is_asked_breaks_the_server_or_changes_the_folder(
    server: Served, locked: Served, folder: Path, path: str, query: Query, headers: dict[str, str], method: str
) -> None:
    words = "&".join(f"{name}={quote(value)}" for name, value in query)
    before = digest(folder)

    answers = [one.ask_raw(f"{path}{'&' if '?' in path else '?'}{words}", method, headers) for one in (server, locked)]

    assert digest(folder) == before
    for answer in answers:
        assert answer.status < 500
        assert b"Traceback" not in answer.body
        assert answer.status == 400 or {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answers[1].status in (400, 401, 405)


@pytest.mark.parametrize(
    "noise", [b"\x00\xff\xfe\r\n\r\n", b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n", b"GET  HTTP/9\r\n\r\n"]
)
def test_what_is_no_request_is_refused_and_the_next_one_answered(server: Served, noise: bytes) -> None:
    with socket.create_connection((HOST, server.port), timeout=10) as connection:
        connection.sendall(noise)
        assert connection.recv(100).startswith(b"HTTP/1.1 400")

    assert server.ask("/record").status == http.client.OK
