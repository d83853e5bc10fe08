"""Figures of runs for Prometheus, in its text format, read from run folders; served with the standard library alone."""

import hmac
import io
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_INET6, socket
from time import monotonic
from typing import Literal, TypeAlias

import numpy as np

from fielding._typing import Json
from fielding._version import __version__
from fielding.errors import InputError, OutputError, echo
from fielding.records.run_folder import ROUNDS
from fielding.reporting.numbers.run_record import (
    FAILED,
    FINISHED,
    RUNNING,
    STOPPED,
    LogReader,
    RunRecord,
    column,
    read_run,
    sizes_over_time,
)
from fielding.reporting.numbers.run_summary import evaluations
from fielding.watch.access import is_loopback, named_host
from fielding.watch.connections import MOST_HEADER_BYTES, REQUEST_S
from fielding.watch.server import check_exposure

DEFAULT_PORT = 8708
MOST_CONNECTIONS = 16  # each has a thread; Prometheus needs one
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels: TypeAlias = Mapping[str, str]
Sample: TypeAlias = tuple[Labels, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric as Prometheus knows it: name, kind, what it is, and how its samples are found in a run."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: Callable[[RunRecord], Iterator[Sample]]


def _total(field: str) -> Callable[[RunRecord], Iterator[Sample]]:
    return lambda run: iter([({}, float(np.nansum(column(run.rounds, field))))])


def _by(label: str, fields: Mapping[str, str]) -> Callable[[RunRecord], Iterator[Sample]]:
    return lambda run: (({label: name}, float(np.nansum(column(run.rounds, one)))) for name, one in fields.items())


def _last(
    field: str, rows: Callable[[RunRecord], Sequence[Mapping[str, Json]]]
) -> Callable[[RunRecord], Iterator[Sample]]:
    def samples(run: RunRecord) -> Iterator[Sample]:
        found = rows(run)
        value = found[-1].get(field) if found else None
        if isinstance(value, (int, float)):
            yield {}, float(value)

    return samples


def _rounds(run: RunRecord) -> Sequence[Mapping[str, Json]]:
    return run.rounds


def _evaluations(run: RunRecord) -> Sequence[Mapping[str, Json]]:
    return evaluations(run.rounds)


def _info(run: RunRecord) -> Iterator[Sample]:
    method = str(run.setting("method", "name"))
    yield {"method": method, "engine": "flower" if run.is_deployed else "simulator", "fielding": __version__}, 1.0


def _state(run: RunRecord) -> Iterator[Sample]:
    for state in (RUNNING, FINISHED, STOPPED, FAILED):
        yield {"state": state}, float(run.state == state)


def _written(run: RunRecord) -> Iterator[Sample]:
    try:
        yield {}, (run.folder / ROUNDS).stat().st_mtime
    except OSError:
        return


def _failing(run: RunRecord) -> Iterator[Sample]:
    value = run.rounds[-1].get("n_failing", 0) if run.rounds else 0
    yield {}, float(value) if isinstance(value, (int, float)) else 0.0


def _cluster_sizes(run: RunRecord) -> Iterator[Sample]:
    sizes: dict[int, int] = {}
    for _, sizes in sizes_over_time(run.memberships()):  # noqa: B007
        pass
    for cluster, size in sorted(sizes.items()):
        yield {"cluster": str(cluster)}, float(size)


def _cluster_accuracy(run: RunRecord) -> Iterator[Sample]:
    """Yield the mean accuracy of the clients of each cluster in the last evaluation."""
    test = run.last_test()
    if test is None:
        return
    known = (test.cluster >= 0) & (test.n_test > 0)
    for cluster in np.unique(test.cluster[known]).tolist():
        mine = known & (test.cluster == cluster)
        yield {"cluster": str(cluster)}, float((test.correct[mine] / test.n_test[mine]).mean())


def _own_metrics(run: RunRecord) -> Iterator[Sample]:
    found = evaluations(run.rounds)
    for name, value in (found[-1] if found else {}).items():
        if name.startswith("metric/") and isinstance(value, (int, float)):
            yield {"name": name.removeprefix("metric/")}, float(value)


METRICS = (
    Metric(
        name="fielding_run_info", kind="gauge", help="Always 1; method, engine and version as labels.", samples=_info
    ),
    Metric(name="fielding_run_state", kind="gauge", help="1 for the state that the run is in.", samples=_state),
    Metric(
        name="fielding_rounds_total",
        kind="counter",
        help="Rounds done.",
        samples=lambda run: iter([({}, float(len(run.rounds)))]),
    ),
    Metric(
        name="fielding_rounds_planned",
        kind="gauge",
        help="Rounds that the run is to have.",
        samples=lambda run: iter([({}, float(run.n_expected))]),
    ),
    Metric(
        name="fielding_last_round_timestamp_seconds",
        kind="gauge",
        help="When the last round was written down, in seconds since 1970.",
        samples=_written,
    ),
    Metric(
        name="fielding_time_seconds",
        kind="gauge",
        help="Time of the run so far: measured on devices, else simulated.",
        samples=_last("time_s", _rounds),
    ),
    Metric(name="fielding_clusters", kind="gauge", help="Clusters with members.", samples=_last("n_clusters", _rounds)),
    Metric(name="fielding_cluster_clients", kind="gauge", help="Clients of a cluster.", samples=_cluster_sizes),
    Metric(
        name="fielding_cluster_accuracy",
        kind="gauge",
        help="Mean accuracy of the clients of a cluster that were tested last.",
        samples=_cluster_accuracy,
    ),
    Metric(
        name="fielding_accuracy",
        kind="gauge",
        help="Mean accuracy over clients on their windows, of the last evaluation.",
        samples=_last("accuracy", _evaluations),
    ),
    Metric(
        name="fielding_accuracy_worst_decile",
        kind="gauge",
        help="Mean accuracy of the tenth of the clients that fares worst.",
        samples=_last("worst_decile", _evaluations),
    ),
    Metric(
        name="fielding_test_loss",
        kind="gauge",
        help="Mean test loss over clients, of the last evaluation.",
        samples=_last("test_loss", _evaluations),
    ),
    Metric(
        name="fielding_metric",
        kind="gauge",
        help="Metrics of the user's own, of the last evaluation, by name.",
        samples=_own_metrics,
    ),
    Metric(
        name="fielding_train_loss",
        kind="gauge",
        help="Mean training loss of the last round.",
        samples=_last("train_loss", _rounds),
    ),
    Metric(
        name="fielding_reports_total", kind="counter", help="Drift reports that acted.", samples=_total("n_reports")
    ),
    Metric(
        name="fielding_moves_total", kind="counter", help="Clients that changed cluster.", samples=_total("n_moved")
    ),
    Metric(
        name="fielding_reclusterings_total",
        kind="counter",
        help="Rounds in which all clients were grouped anew.",
        samples=_total("reclustered"),
    ),
    Metric(name="fielding_asked_total", kind="counter", help="Jobs asked for.", samples=_total("n_asked")),
    Metric(
        name="fielding_participants_total",
        kind="counter",
        help="Answers that counted.",
        samples=_total("n_participants"),
    ),
    Metric(
        name="fielding_missing_total",
        kind="counter",
        help="Answers that did not count, by reason.",
        samples=_by("reason", {one: f"n_{one}" for one in ("straggler", "offline", "refused", "failed")}),
    ),
    Metric(
        name="fielding_failing_clients",
        kind="gauge",
        help="Clients that failed when they were asked last.",
        samples=_failing,
    ),
    Metric(
        name="fielding_bytes_total",
        kind="counter",
        help="Bytes of messages, down to clients or up from them.",
        samples=_by("direction", {"down": "bytes_down", "up": "bytes_up"}),
    ),
    Metric(
        name="fielding_client_seconds_total",
        kind="counter",
        help="Seconds that clients were busy.",
        samples=_total("client_seconds"),
    ),
)
"""All metrics; each also has the label ``run``, the name of the run's folder."""


def exposition(folders: Sequence[Path], reader: LogReader | None = None) -> str:
    """Return the figures of runs in the text format of Prometheus, version 0.0.4.

    A folder without a run is left out: it may not have begun. ``reader``: one that may have read some of them before.
    """
    runs: dict[str, RunRecord] = {}
    for folder in folders:
        name = folder.name if folder.name and folder.name not in runs else str(folder)
        try:
            runs[name] = read_run(folder, reader)
        except InputError:
            continue
    lines = []
    for metric in METRICS:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for name, run in runs.items():
            for labels, value in metric.samples(run):
                inner = ",".join(f'{key}="{_escape(one)}"' for key, one in {"run": name, **labels}.items())
                lines.append(f"{metric.name}{{{inner}}} {value:.17g}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class _BoundedServer(ThreadingHTTPServer):
    """Closes connections beyond `MOST_CONNECTIONS` at once, and says nothing of clients that hang up."""

    daemon_threads = True
    request_queue_size = 128  # what is one too many is told so, not left to wait for its turn

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = AF_INET6 if ":" in host else AF_INET
        self.held: set[object] = set()  # only the thread that accepts adds to it
        super().__init__((host, port), handler)

    def process_request(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if len(self.held) >= MOST_CONNECTIONS:
            self.shutdown_request(request)
            return
        self.held.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket | tuple[bytes, socket]) -> None:
        super().shutdown_request(request)
        self.held.discard(request)

    def handle_error(self, request: socket | tuple[bytes, socket], client_address: object) -> None:
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


def metrics_server(
    folders: Sequence[Path], *, host: str, port: int, token: str | None, request_s: float = REQUEST_S
) -> ThreadingHTTPServer:
    """Return a server of the figures of runs that listens, bounded before anything of a request is looked at.

    A connection is closed when it is one too many, when its request is too long, or not whole after ``request_s``
    seconds. Other parameters as of `serve_metrics`.
    """
    check_exposure(host, token)
    reader, reading = LogReader(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "fielding", ""

        def handle(self) -> None:
            head, until = b"", monotonic() + request_s
            while b"\n\r\n" not in head and b"\n\n" not in head:
                self.connection.settimeout(max(until - monotonic(), 1e-3))  # 0 would be not to wait at all
                more = self.connection.recv(MOST_HEADER_BYTES)
                head += more
                if not more or len(head) > MOST_HEADER_BYTES or monotonic() > until:
                    return
            self.connection.settimeout(request_s)  # of all that is sent, not of each piece
            self.rfile = io.BytesIO(head)
            super().handle()

        def do_GET(self) -> None:
            status, words, kind = self._answer()
            content = words.encode(errors="replace")
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.send_header("x-content-type-options", "nosniff")
            if status == 401:
                self.send_header("www-authenticate", "Bearer")
            self.end_headers()
            self.wfile.write(content)

        def _answer(self) -> tuple[int, str, str]:
            plain = "text/plain; charset=utf-8"
            given = self.headers.get("authorization", "").partition(" ")[2].strip()
            if token is not None and not hmac.compare_digest(given.encode(errors="replace"), token.encode()):
                return 401, "a bearer token is asked for\n", plain
            # The page of another site could have its own name lead here.
            if token is None and not is_loopback(named_host(self.headers.get("host", ""))):
                return 400, "ask this machine by its own name, as in http://127.0.0.1\n", plain
            if self.path != "/metrics":
                return 404, "metrics are at /metrics\n", plain
            with reading:
                return 200, exposition(folders, reader), CONTENT_TYPE

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: Prometheus asks every few seconds."""

    try:
        return _BoundedServer(host, port, Handler)
    except OSError as error:
        raise OutputError(
            f"cannot listen on {echo(host)}, port {port}: {error.strerror or error}; name another --port, or 0 for any "
            "that is free"
        ) from error


def serve_metrics(
    folders: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    on_ready: Callable[[str], None] = lambda _address: None,
) -> int:
    """Serve the figures of runs at ``/metrics`` until a signal comes, and return which; parameters as of `serve_page`.

    ``token``: what must come as a bearer token; needed if others than this machine can reach the host.
    """
    server = metrics_server(folders, host=host, port=port, token=token)
    received = [signal.SIGINT.value]

    def end(number: int, _frame: object) -> None:
        received.append(number)
        threading.Thread(target=server.shutdown).start()  # from this thread it would wait for itself

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with server:
            shown = f"[{host}]" if ":" in host else host
            on_ready(f"http://{shown}:{server.server_address[1]}/metrics")
            server.serve_forever(poll_interval=0.2)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return received[-1]
