"""Messages that are not of the node that they claim to be of, at a real SuperLink with node keys (QUALITY.md R14).

What Flower's keys do: a node signs the time of each request with its key. What they do not: the request itself is not
signed, so that whoever sees one within TLS can send others in its name for five minutes.
"""

import http.client
import random
import ssl
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from fielding.flower.deploy.certificates import issue_certificates, node_key
from fielding.flower.deploy.environment import clean_environment, free_port
from fielding.flower.deploy.flower_program import FlowerProgram, Link
from fielding.flower.deploy.processes import Supervisor
from tests.flower.real_runs import here, needs_flwr

pytestmark = needs_flwr
PULL, ACTIVATE = "/v1/fleet/pull-messages", "/v1/fleet/activate-node"
N_EACH, N_EACH_IN_FULL = 4, 1250
Headers = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A SuperLink that knows the keys of two nodes, one of which is there."""

    port: int
    trust: ssl.SSLContext
    own: Any
    twin: Any  # its key is registered too
    stranger: Any
    address: int

    def post(self, path: str, message: Any, headers: Headers, link: http.client.HTTPSConnection) -> int:
        link.request("POST", path, message.SerializeToString(), {"Content-Type": "application/protobuf", **headers})
        answer = link.getresponse()
        answer.read()
        return answer.status

    def pull(self, address: int | None = None) -> Any:
        from flwr.proto.fleet_pb2 import PullMessagesRequest
        from flwr.proto.node_pb2 import Node

        return PullMessagesRequest(node=Node(node_id=self.address if address is None else address))


def signed(private: Any, *, claimed: Any = None, late_s: float = 0.0) -> Headers:
    """Return the headers of a request that a key signs, perhaps another one than is claimed, or at another time."""
    from flwr.supercore.date import now
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message

    time = (now() - timedelta(seconds=late_s)).isoformat()
    return {
        "flwr-public-key": b64encode(public_key_to_bytes((claimed or private).public_key())).decode(),
        "flwr-timestamp": time,
        "flwr-signature": b64encode(sign_message(private, time.encode())).decode(),
    }


def spoiled(headers: Headers, name: str, draw: random.Random) -> Headers:
    """Return headers of which one has another byte."""
    value = bytearray(headers[name].encode())
    at = draw.randrange(len(value) - 3)
    value[at] = ord("A") if value[at] != ord("A") else ord("B")
    return {**headers, name: value.decode()}


def connected(port: int, trust: ssl.SSLContext) -> "closing[http.client.HTTPSConnection]":
    return closing(http.client.HTTPSConnection("127.0.0.1", port, context=trust, timeout=60))


@pytest.fixture
def link(site: Site) -> Iterator[http.client.HTTPSConnection]:
    with connected(site.port, site.trust) as connection:
        yield connection


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key
    from flwr.proto.fleet_pb2 import ActivateNodeRequest, ActivateNodeResponse
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    folder = tmp_path_factory.mktemp("site") / "federation"
    with Supervisor(folder=folder, environment=clean_environment(folder / "home", here())) as supervisor:
        certificates = issue_certificates(folder / "tls")
        link = Link(port=free_port(), certificates=certificates, database=folder / "state.db")
        supervisor.wait_until(supervisor.start("superlink", link.command()), link.is_healthy, within_s=120.0)
        flower = FlowerProgram(supervisor=supervisor)
        flower.connect(link.address, certificates.authority)
        files = {name: node_key(folder / "keys", name) for name in ("own", "twin", "stranger")}
        flower.register({name: files[name].public for name in ("own", "twin")})
        keys = {}
        for name, file in files.items():
            raw = file.private.read_bytes()
            load: Callable[..., Any] = load_ssh_private_key if b"OPENSSH" in raw else load_pem_private_key
            keys[name] = load(raw, None)
        trust = ssl.create_default_context(cafile=str(certificates.authority))
        request = ActivateNodeRequest(public_key=public_key_to_bytes(keys["own"].public_key()), heartbeat_interval=600)
        with connected(link.port, trust) as connection:
            headers = {"Content-Type": "application/protobuf", **signed(keys["own"])}
            connection.request("POST", ACTIVATE, request.SerializeToString(), headers)
            answer = connection.getresponse()
            body = answer.read()
        assert answer.status == 200, body
        address = ActivateNodeResponse.FromString(body).node_id
        yield Site(port=link.port, trust=trust, address=address, **keys)


def forgeries(site: Site, draw: random.Random) -> dict[str, tuple[Headers, int | None]]:
    """Return the headers of one request of each kind, and the node that it claims to come from."""
    good = signed(site.own)
    return {
        "no signature": ({}, None),
        "unknown key": (signed(site.stranger), None),
        "known key, signed with another": (signed(site.stranger, claimed=site.own), None),
        "another node's address": (signed(site.twin), None),
        "no such node": (good, draw.getrandbits(62)),
        "signature changed": (spoiled(good, "flwr-signature", draw), None),
        "old": (signed(site.own, late_s=draw.uniform(306, 10**6)), None),
        "clock ahead": (signed(site.own, late_s=-draw.uniform(7, 10**6)), None),
    }


@pytest.mark.parametrize("n_each", [N_EACH, pytest.param(N_EACH_IN_FULL, marks=pytest.mark.slow)])
def test_no_forged_message_is_taken(site: Site, link: http.client.HTTPSConnection, n_each: int) -> None:
    draw, taken = random.Random(14), Counter[tuple[str, int]]()
    for _ in range(n_each):
        for kind, (headers, address) in forgeries(site, draw).items():
            taken[kind, site.post(PULL, site.pull(address), headers, link)] += 1

    assert taken == {(kind, 401): n_each for kind in forgeries(site, draw)}
    assert site.post(PULL, site.pull(), signed(site.own), link) == 200
    assert site.post(PULL, site.pull(), signed(site.own, late_s=200), link) == 200


def test_a_key_that_was_not_registered_cannot_come_in(site: Site, link: http.client.HTTPSConnection) -> None:
    from flwr.proto.fleet_pb2 import ActivateNodeRequest, RegisterNodeFleetRequest
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    public = public_key_to_bytes(site.stranger.public_key())
    headers = signed(site.stranger)
    entered = site.post(ACTIVATE, ActivateNodeRequest(public_key=public, heartbeat_interval=30), headers, link)
    registered = site.post("/v1/fleet/register-node", RegisterNodeFleetRequest(public_key=public), headers, link)

    assert entered >= 400
    assert registered >= 400


def test_what_was_signed_once_may_be_sent_again_for_five_minutes(site: Site, link: http.client.HTTPSConnection) -> None:
    """TLS keeps it from others; if Flower begins to refuse it, docs/flower-production.md can say so."""
    headers = signed(site.own)

    assert [site.post(PULL, site.pull(), headers, link) for _ in range(2)] == [200, 200]
