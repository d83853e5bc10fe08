"""A real SuperLink behind the nginx of ``deploy/``: what devices can do with their access, and what they cannot."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fielding.flower.deploy import access
from fielding.flower.deploy.certificates import Certificates, NodeKey, issue_certificates, node_key
from fielding.flower.deploy.environment import clean_environment, free_port
from fielding.flower.deploy.flower_program import (
    FlowerProgram,
    Link,
    is_online,
    node_command,
    was_refused,
    write_node_config,
)
from fielding.flower.deploy.processes import Process, ProcessError, Supervisor
from tests.flower.real_runs import APP, here, needs_flwr, wait_until
from tests.flower.strangers import LOOPBACK, OTHER_USER, Answer, ask, issue_operator

CONFIG = Path(__file__).resolve().parents[2] / "deploy" / "nginx.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
PROXY_USER = "www-data"
READY_S = 120.0

FLEET = frozenset(
    f"/v1/fleet/{name}"
    for name in (
        *("activate-node", "deactivate-node", "send-node-heartbeat", "pull-messages", "push-messages", "get-run"),
        *("get-fab", "push-object", "pull-object", "confirm-message-received"),
    )
)
LIST = "/v1/control/list-runs"
TRICKS = (
    f"/v1/fleet/..{LIST.removeprefix('/v1')}",
    "/v1/fleet/%2e%2e/control/list-runs",
    "/v1/fleet/..%2fcontrol%2flist-runs",
    "/v1/fleet/pull-messages/../../control/list-runs",
    "/v1/fleet/pull-messages%2f..%2f..%2fcontrol%2flist-runs",
    "/v1/fleet/pull-messages;/../../control/list-runs",
    "/v1/fleet/pull-messages/",
    f"/{LIST}",
    f"{LIST}?/v1/fleet/pull-messages",
    f"{LIST}#/v1/fleet/pull-messages",
    f"{LIST}%3f/v1/fleet/pull-messages",
    f"{LIST}%00/v1/fleet/pull-messages",
    f"{LIST}/%2e%2e/%2e%2e/control/list-runs",
    "/V1/CONTROL/LIST-RUNS",
    f"https://localhost{LIST}",
    f"http://{LOOPBACK}{LIST}",
)
"""Paths that servers read differently: a proxy that passes one on opens more than it says."""

pytestmark = [
    needs_flwr,
    pytest.mark.skipif(NGINX is None, reason="no nginx here; install it (Debian: apt-get install nginx)"),
    pytest.mark.skipif(not access.can_tell_users(), reason="this system does not say whose a connection is"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A SuperLink, its proxy, and who may do what: all that a production server has, on loopback."""

    folder: Path
    scratch: Path
    supervisor: Supervisor
    link: Link
    fleet_port: int
    control_port: int
    operator: Path
    forged: Path

    @property
    def certificates(self) -> Certificates:
        """Of the server; devices know that of its authority."""
        return self.link.certificates

    def flwr(self, *words: str, certificate: Path, port: int) -> "subprocess.CompletedProcess[str]":
        """Call Flower's command line with a client certificate."""
        program = FlowerProgram(supervisor=self.supervisor)
        program.connect(f"localhost:{port}", self.certificates.authority)
        command = [sys.executable, "-P", access.__file__, "--certificate", str(certificate), "flwr", *words]
        return subprocess.run(
            command, env=self.supervisor.marked_environment, capture_output=True, text=True, check=False
        )

    def operate(self, *words: str) -> str:
        """Call Flower's command line as the operator does, and return what it said."""
        done = self.flwr(*words, certificate=self.operator, port=self.control_port)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start_node(self, name: str, key: NodeKey, **config: str | int) -> Process:
        """Start a node that knows the devices' address and the authority."""
        table = {"partition-id": 0, "num-partitions": 1, "state-dir": str(self.folder / name), **config}
        outside = Link(port=self.fleet_port, certificates=self.certificates, database=self.link.database)
        written = write_node_config(self.folder / f"{name}.toml", table)
        return self.supervisor.start(name, node_command(outside, key, port=free_port(), config=written))

    def ask_fleet(self, path: str, **more: object) -> Answer:
        """Ask the listener of devices."""
        return ask(self.fleet_port, path, authority=self.certificates.authority, **more)  # type: ignore[arg-type]

    def ask_control(self, path: str, certificate: Path | None, **more: object) -> Answer:
        """Ask the listener of operators."""
        trust = self.certificates.authority
        return ask(self.control_port, path, authority=trust, certificate=certificate, **more)  # type: ignore[arg-type]

    def ask_link(self, path: str, **more: object) -> Answer:
        """Ask the SuperLink itself, as it can be asked on its machine alone."""
        return ask(self.link.port, path, authority=self.certificates.authority, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site") / "federation"
    with (
        tempfile.TemporaryDirectory() as scratch,  # where the proxy's user can go
        Supervisor(folder=folder, environment=clean_environment(folder / "home", here())) as supervisor,
    ):
        certificates = issue_certificates(folder / "tls")
        operators, operator = issue_operator(folder / "operators", "jo")
        _, forged = issue_operator(folder / "forged", "jo")
        link = Link(port=free_port(), certificates=certificates, database=folder / "state.db")
        running = Site(
            folder=folder,
            scratch=Path(scratch),
            supervisor=supervisor,
            link=link,
            fleet_port=free_port(),
            control_port=free_port(),
            operator=operator,
            forged=forged,
        )
        python, isolated, path, *rest = link.command()
        superlink = supervisor.start("superlink", [python, isolated, path, "--user", PROXY_USER, *rest])
        proxy = supervisor.start("nginx", nginx_command(running, operators))
        supervisor.wait_until(superlink, lambda: answers(running, superlink), within_s=READY_S)
        supervisor.wait_until(proxy, lambda: answers(running, proxy), within_s=READY_S)
        yield running


def answers(site: Site, process: Process) -> bool:
    """Return whether a server is there."""
    try:
        return bool(
            (site.ask_link("/health", method="GET") if process.name == "superlink" else site.ask_fleet("/")).head
        )
    except OSError:
        return False


def nginx_command(site: Site, operators: Path) -> list[str | Path | int]:
    """Return how to start nginx with the shipped file: only names, paths and ports are ours."""
    text, tls = CONFIG.read_text(encoding="utf-8"), site.certificates
    changes = {
        "127.0.0.1:8000": f"{LOOPBACK}:{site.link.port}",
        "listen 8443 ssl": f"listen {LOOPBACK}:{site.fleet_port} ssl",
        "listen 8444 ssl": f"listen {LOOPBACK}:{site.control_port} ssl",
        "superlink.example.org": "localhost",
        "/var/log/nginx": str(site.folder / "logs"),
        "/etc/flower/server.crt": str(tls.server),
        "/etc/flower/server.key": str(tls.server_key),
        "/etc/flower/ca.crt": str(tls.authority),
        "/etc/flower/operators.crt": str(operators),
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert "/etc/" not in text.replace("/etc/nginx/conf.d", "")
    (site.folder / "flower.conf").write_text(text)
    site.scratch.chmod(0o755)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"    {kind}_temp_path {site.scratch / kind};\n" for kind in kinds)
    user = f"user {PROXY_USER};\n" if os.geteuid() == 0 else ""
    main = f"{user}daemon off;\nworker_processes 1;\npid {site.scratch / 'pid'};\nerror_log stderr;\nevents {{}}\n"
    (site.folder / "nginx.conf").write_text(f"{main}http {{\n{paths}    include {site.folder / 'flower.conf'};\n}}\n")
    return [str(NGINX), "-p", site.scratch, "-e", "stderr", "-c", site.folder / "nginx.conf"]


def every_path(site: Site) -> list[str]:
    """Return all paths of the SuperLink, as it describes itself."""
    described = json.loads(site.ask_link("/openapi.json", method="GET").body)
    return [*described["paths"], "/openapi.json", "/docs", "/", "/v1/fleet", "/v1/fleet/", "/v1/fleet/none"]


def test_devices_reach_what_nodes_call_and_nothing_else(site: Site) -> None:
    paths = every_path(site)
    beyond = {path: site.ask_fleet(path).status for path in paths if path not in FLEET}

    assert set(paths) >= FLEET
    assert {LIST, "/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/acquire-task"} <= set(beyond)
    assert {path: status for path, status in beyond.items() if status != 404} == {}
    assert {path: site.ask_fleet(path).status for path in FLEET} == dict.fromkeys(FLEET, 401)  # no key of a node
    assert site.ask_fleet("/v1/fleet/pull-messages", method="GET").status == 403
    assert site.ask_link(LIST).status == 200  # what an attacker would get without the proxy


def test_no_spelling_of_a_path_leads_devices_to_another(site: Site) -> None:
    claims = ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix", "X-HTTP-Method-Override")
    statuses = {path: site.ask_fleet(path).status for path in TRICKS}
    claimed = [site.ask_fleet("/v1/fleet/pull-messages", headers={name: LIST}).status for name in claims]
    smuggled = site.ask_fleet(
        "/v1/fleet/pull-messages",
        headers={"Transfer-Encoding": "chunked", "Content-Length": "5"},
        body=f"0\r\n\r\nPOST {LIST} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    )

    assert {path: status for path, status in statuses.items() if status not in (400, 404)} == {}
    assert set(claimed) == {401}
    assert (smuggled.status, smuggled.body.count(b"HTTP/1.1")) == (400, 0)


def test_operators_are_who_has_a_certificate_of_their_authority(site: Site) -> None:
    paths = every_path(site)

    for certificate in (None, site.forged):
        refused = {path: site.ask_control(path, certificate).status for path in paths}
        assert set(refused.values()) <= {0, 400}
    assert site.ask_control(LIST, site.operator).status == 200
    beyond = [path for path in paths if not path.startswith("/v1/control/")]
    assert {site.ask_control(path, site.operator).status for path in beyond} == {404}


def test_too_much_at_once_is_refused(site: Site) -> None:
    bodies = {"Content-Length": "33554433"}

    assert site.ask_fleet("/v1/fleet/push-object", headers=bodies).status == 413
    assert site.ask_fleet("/v1/fleet/push-object", headers={"X": "x" * 9000}).status == 400


def test_users_of_the_server_do_not_get_round_the_proxy(site: Site) -> None:
    assert f"{access.HEADER}: " in site.ask_link("/health", method="GET").head
    if os.geteuid() == 0:  # who else could take the place of another?
        assert site.ask_link(LIST, user=OTHER_USER).status == 403


def test_an_attacker_with_the_access_of_a_device_gets_neither_control_nor_data(site: Site, tmp_path: Path) -> None:
    """The attack that works on an open SuperLink, by Flower's own programs; then the operator does the same."""
    key, stranger = node_key(site.folder / "keys", "node-0"), node_key(site.folder / "keys", "stranger")
    with Supervisor(folder=tmp_path / "attacker", environment=clean_environment(tmp_path / "home")) as own:
        attacker = FlowerProgram(supervisor=own)
        for port in (site.fleet_port, site.control_port):
            attacker.connect(f"localhost:{port}", site.certificates.authority)
            with pytest.raises(ProcessError, match="could not be registered"):
                attacker.register({"stranger": stranger.public})
            with pytest.raises(ProcessError, match="flwr run failed"):
                attacker.submit(APP, {"out": str(tmp_path / "stolen")}, tmp_path / "config.toml")
    forged = site.flwr("list", "here", "--format", "json", certificate=site.forged, port=site.control_port)
    intruder = site.start_node("stranger", stranger)
    site.operate("supernode", "register", str(key.public), "here", "--name", "node-0")
    node = site.start_node("node-0", key, script="0:A")
    site.supervisor.wait_until(node, lambda: is_online(node), within_s=READY_S)
    wait_until(lambda: was_refused(intruder), "the stranger's refusal", within_s=READY_S)
    out = tmp_path / "run"
    settings = f'out="{out}" rounds=1 min-nodes=1'
    run = json.loads(site.operate("run", str(APP), "here", "--format", "json", "-c", settings))
    wait_until((out / "summary.json").exists, "the end of the operator's run")

    runs = json.loads(site.operate("list", "here", "--format", "json"))["runs"]
    nodes = json.loads(site.operate("supernode", "list", "here", "--format", "json"))["nodes"]
    assert [one["run-id"] for one in runs] == [run["run-id"]]  # and none of the attacker's
    assert len(nodes) == 1
    assert json.loads(forged.stdout)["success"] is False
    assert "400" in forged.stdout
    assert not (tmp_path / "stolen").exists()
    assert "CN=jo" in (site.folder / "logs" / "flower-control.log").read_text()
