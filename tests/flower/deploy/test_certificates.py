"""Certificates that hold for this machine alone, and keys that make clients."""

import os
import socket
import ssl
import stat
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from fielding.errors import FileFormatError, InputError, OptionError, OutputError
from fielding.flower.deploy.certificates import Certificates, issue_certificates, node_key, private_folder

pytest.importorskip("cryptography", reason="cryptography is not installed; it comes with fielding[flower]")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue_certificates(tmp_path_factory.mktemp("ours") / "tls")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return issue_certificates(tmp_path_factory.mktemp("others") / "tls")


@pytest.fixture
def tls_port(ours: Certificates) -> Iterator[int]:
    """Serve one TLS connection on loopback with our certificate; it says hello to whoever trusts it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours.server, ours.server_key)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(20)

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            try:
                with context.wrap_socket(connection, server_side=True) as talking:
                    talking.sendall(b"hello")
            except (ssl.SSLError, OSError):
                pass  # the other side did not like what it saw

    thread = threading.Thread(target=serve)
    thread.start()
    yield listening.getsockname()[1]
    thread.join(timeout=20)
    listening.close()


def greeting(port: int, authority: Path, name: str) -> bytes:
    trust = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
        trust.wrap_socket(connection, server_hostname=name) as talking,
    ):
        return talking.recv(5)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_who_trusts_the_authority_is_greeted(tls_port: int, ours: Certificates, name: str) -> None:
    assert greeting(tls_port, ours.authority, name) == b"hello"


def test_who_trusts_another_authority_refuses_the_server(tls_port: int, others: Certificates) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        greeting(tls_port, others.authority, "127.0.0.1")


def test_the_certificate_holds_for_no_other_host(tls_port: int, ours: Certificates) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        greeting(tls_port, ours.authority, "example.org")


def test_certificates_hold_for_days_and_not_for_years(tmp_path: Path) -> None:
    from cryptography import x509

    paths = issue_certificates(tmp_path / "tls", days=2)

    for path in (paths.authority, paths.server):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        length = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        assert 2 * 86400 < length.total_seconds() < 2 * 86400 + 3600


def test_the_key_of_the_authority_is_never_written(ours: Certificates) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    written = [path for path in ours.authority.parent.iterdir() if b"PRIVATE KEY" in path.read_bytes()]
    authority = x509.load_pem_x509_certificate(ours.authority.read_bytes())

    assert written == [ours.server_key]
    assert load_pem_private_key(ours.server_key.read_bytes(), None).public_key() != authority.public_key()


@pytest.mark.skipif(os.name != "posix", reason="this system has no modes of files")
def test_only_the_owner_can_read_keys(tmp_path: Path) -> None:
    before = os.umask(0)  # the most careless setting
    try:
        paths = issue_certificates(tmp_path / "tls")
        key = node_key(tmp_path / "keys", "node-0")
    finally:
        os.umask(before)

    for file in (paths.server_key, key.private):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_certificates_are_never_overwritten(tmp_path: Path) -> None:
    before = issue_certificates(tmp_path / "tls").server_key.read_bytes()

    with pytest.raises(OutputError, match=r"server\.key is there already and is not overwritten"):
        issue_certificates(tmp_path / "tls")

    assert (tmp_path / "tls" / "server.key").read_bytes() == before


def test_certificates_for_no_time_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="days is 0"):
        issue_certificates(tmp_path / "tls", days=0)


def test_a_node_keeps_its_key(tmp_path: Path) -> None:
    first = node_key(tmp_path / "keys", "node-0")
    text = first.private.read_bytes()
    first.public.unlink()  # as after a crash between the two files

    assert node_key(tmp_path / "keys", "node-0") == first
    assert first.private.read_bytes() == text
    assert first.public.read_text().startswith("ecdsa-sha2-nistp384 ")
    assert node_key(tmp_path / "keys", "node-1").client_id != first.client_id


def test_a_client_is_the_hash_of_its_public_key_as_the_server_sees_it(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key

    key = node_key(tmp_path / "keys", "node-0")
    public = load_ssh_public_key(key.public.read_bytes())

    seen = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert key.client_id == sha256(seen).hexdigest()


def test_what_is_no_key_is_named(tmp_path: Path) -> None:
    private_folder(tmp_path / "keys").joinpath("node-0").write_text("no key")

    with pytest.raises(FileFormatError, match="node-0 holds no elliptic-curve key in OpenSSH format"):
        node_key(tmp_path / "keys", "node-0")


@pytest.mark.skipif(os.name != "posix", reason="this system has no modes of files")
def test_a_folder_that_others_can_enter_gets_no_keys(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)

    with pytest.raises(InputError, match=r"open to others \(mode 755\)"):
        node_key(tmp_path / "open", "node-0")

    assert list((tmp_path / "open").iterdir()) == []
