"""Figures for Prometheus: their format by a strict parser, their names in docs and dashboard, and the server."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from fielding._typing import Json
from fielding.errors import OptionError
from fielding.watch.connections import REQUEST_S
from fielding.watch.metrics import (
    CONTENT_TYPE,
    METRICS,
    MOST_CONNECTIONS,
    exposition,
    metrics_server,
    serve_metrics,
)
from tests.cli.invoke import CODE
from tests.reporting.run_folders import round_rows, run_folder

ROOT = Path(__file__).resolve().parents[2]
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
HALF = b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n"
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} ([0-9eE.+-]+|NaN|[+-]Inf)")
Found = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parsed(text: str) -> Found:
    """Return samples by metric and labels, or fail: every line must be of the format, every metric declared once."""
    assert text.endswith("\n")
    found: Found = {}
    kinds: dict[str, str] = {}
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current, help_text = line.removeprefix("# HELP ").split(" ", 1)
            assert re.fullmatch(NAME, current)
            assert current not in kinds, "a metric is told in one piece"
            assert help_text
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert (name, kind in ("gauge", "counter")) == (current, True)
            assert kind != "counter" or name.endswith("_total")
            kinds[name], found[name] = kind, {}
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample.group(1) == current
            labels = tuple((key, value) for key, value in re.findall(LABEL, sample.group(2)))
            assert len({key for key, _ in labels}) == len(labels)
            assert labels not in found[current], "a sample is told once"
            found[current][labels] = float(sample.groups()[-1])
            assert kinds[current] != "counter" or found[current][labels] >= 0
    return found


def a_run(folder: Path) -> Path:
    rows: list[dict[str, Json]] = [dict(row) for row in round_rows([0.25, 0.5, 0.75])]
    rows[-1] |= {"n_failing": 2, "metric/f1": 0.5, "n_failed": 3}
    return run_folder(folder, rows)


def test_the_text_is_of_the_format_and_tells_the_run(tmp_path: Path) -> None:
    found = parsed(exposition([a_run(tmp_path / 'ru"n\\1')]))

    run = ("run", 'ru\\"n\\\\1')
    assert list(found) == [one.name for one in METRICS]
    assert found["fielding_rounds_total"] == {(run,): 3.0}
    assert found["fielding_accuracy"] == {(run,): 0.75}
    assert found["fielding_failing_clients"] == {(run,): 2.0}
    assert found["fielding_metric"] == {(run, ("name", "f1")): 0.5}
    assert found["fielding_missing_total"][run, ("reason", "failed")] == 3.0
    assert sum(found["fielding_run_state"].values()) == 1.0


def test_several_runs_and_folders_without_one(tmp_path: Path) -> None:
    found = parsed(exposition([a_run(tmp_path / "a"), tmp_path / "nothing", a_run(tmp_path / "b")]))

    assert [dict(labels)["run"] for labels in found["fielding_rounds_total"]] == ["a", "b"]
    assert all(not samples for samples in parsed(exposition([tmp_path / "nothing"])).values())


def test_a_real_run_has_a_sample_of_nearly_every_metric(tmp_path: Path) -> None:
    from fielding import run

    run({"rounds": 3, "trace": {"clients": 8}, "evaluation": {"every": 1}}, tmp_path / "run", page=False)

    found = parsed(exposition([tmp_path / "run"]))

    assert {name for name, samples in found.items() if not samples} == {"fielding_metric"}
    assert sum(found["fielding_cluster_clients"].values()) == 8.0


def test_docs_tell_every_metric_and_no_other() -> None:
    rows = re.findall(r"^- `(fielding_\w+)`: (.*)$", (ROOT / "docs/watch.md").read_text(), re.MULTILINE)

    assert rows == [(one.name, one.help.rstrip(".")) for one in METRICS]
    assert all((one.kind == "counter") == one.name.endswith("_total") for one in METRICS)


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    board = json.loads((ROOT / "deploy/grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]

    names = {name for one in asked for name in re.findall(r"fielding_\w+", one)}

    assert names <= {one.name for one in METRICS}
    assert len(names) >= 15
    assert all(re.findall(r"fielding_\w+", one) for one in asked)
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {one["name"] for one in board["templating"]["list"]}
    assert {name for one in asked for name in re.findall(r"\$\{?(\w+)", one)} <= variables
    for panel in board["panels"]:
        assert all(panel["gridPos"][side] >= 0 for side in "xywh")
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="can be reached by other machines"):
        serve_metrics([tmp_path], host="0.0.0.0", port=0)


def fetched(address: str, headers: dict[str, str] | None = None) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers or {}), timeout=30) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, "", error.read().decode()


@pytest.mark.parametrize("token", [None, "t" * 16])
def test_the_command_serves_until_it_is_told_to_end(tmp_path: Path, token: str | None) -> None:
    folder = a_run(tmp_path / "run")
    words = [sys.executable, "-c", CODE, "serve-metrics", str(folder), "--port", "0", "--quiet"]
    process = subprocess.Popen(
        [*words, *(["--token", token] if token else [])], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        pass_word = {"authorization": f"Bearer {token}"} if token else {}
        status, kind, text = fetched(address, pass_word)
        assert (status, kind) == (200, CONTENT_TYPE)
        assert parsed(text)["fielding_rounds_total"] == {(("run", "run"),): 3.0}
        assert fetched(address.removesuffix("/metrics") + "/other", pass_word)[0] == 404
        assert fetched(address, {"host": "evil.example"} if token is None else {})[0] == (400 if token is None else 401)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def listening(folder: Path, request_s: float = REQUEST_S) -> Iterator[tuple[str, int]]:
    with metrics_server([folder], host="127.0.0.1", port=0, token=None, request_s=request_s) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield "127.0.0.1", server.server_address[1]
        finally:
            server.shutdown()
            thread.join(20)
            assert not thread.is_alive()


def test_half_requests_have_a_bounded_number_of_places(tmp_path: Path) -> None:
    with listening(a_run(tmp_path / "run"), request_s=600.0) as where, contextlib.ExitStack() as stack:
        waiting = {stack.enter_context(socket.create_connection(where, timeout=30)) for _ in range(3 * 16)}
        for one in waiting:
            with contextlib.suppress(ConnectionError):  # closed before
                one.sendall(HALF)
        while len(waiting) > MOST_CONNECTIONS and (closed := select.select(waiting, [], [], 30)[0]):
            waiting -= set(closed)
        assert len(waiting) == MOST_CONNECTIONS == 16

        for one in waiting:  # they have lost nothing, and free their places
            one.sendall(b"\r\n")
            assert one.recv(12) == b"HTTP/1.0 200"
            while one.recv(1 << 16):
                pass
        until = time.monotonic() + 30
        status = 0
        while status != 200 and time.monotonic() < until:
            with contextlib.suppress(OSError):  # a place is free a moment after its connection was closed
                status = fetched(f"http://127.0.0.1:{where[1]}/metrics")[0]
        assert status == 200


def test_a_request_that_drips_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    is_closed = False
    with listening(tmp_path, request_s=1.0) as where, socket.create_connection(where, timeout=30) as one:
        one.sendall(HALF + b"x: ")
        until = time.monotonic() + 30
        while not is_closed and time.monotonic() < until:
            is_closed = bool(select.select([one], [], [], 0.1)[0])
            with contextlib.suppress(ConnectionError):
                one.sendall(b"y")
    assert is_closed


@pytest.mark.parametrize(
    "request_bytes",
    [
        HALF + b"".join(b"x%d: %s\r\n" % (at, b"y" * 1000) for at in range(30)),
        HALF.replace(b" H", b"?" * 30_000 + b" H"),
    ],
    ids=["headers", "request-line"],
)
def test_a_request_has_a_longest_length(tmp_path: Path, request_bytes: bytes) -> None:
    with listening(tmp_path) as where, socket.create_connection(where, timeout=30) as one:
        got = b""
        with contextlib.suppress(ConnectionError):  # perhaps while more is sent
            one.sendall(request_bytes + b"\r\n")
            got = one.recv(12)
        assert got == b""


@pytest.mark.parametrize("sent", [HALF, HALF + b"\r\n"])
def test_clients_that_hang_up_are_not_worth_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sent: bytes
) -> None:
    with listening(a_run(tmp_path / "run")) as where:
        before = set(threading.enumerate())
        for _ in range(4):
            with socket.create_connection(where, timeout=30) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset when closed
                one.sendall(sent)
        assert fetched(f"http://127.0.0.1:{where[1]}/metrics")[0] == 200  # those before it were accepted
        for thread in set(threading.enumerate()) - before:
            thread.join(30)
            assert not thread.is_alive()
    assert capsys.readouterr() == ("", "")
