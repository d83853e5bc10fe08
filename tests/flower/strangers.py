"""Attackers: requests as they like them, from sockets of other users, with certificates of their own making."""

import contextlib
import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

LOOPBACK = "127.0.0.1"
OTHER_USER = 65534
"""Anyone but us: ``nobody`` on most systems."""
_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said; status 0 if it hung up."""

    status: int
    head: str
    body: bytes


def ask(
    port: int,
    path: str,
    *,
    authority: Path | None = None,
    certificate: Path | None = None,
    user: int | None = None,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """Send one request to a port of this machine, as it is: nothing tidies up the path.

    Over TLS if there is an ``authority`` to trust, with a client certificate if there is one. Only root can ask from a
    socket of another ``user``.
    """
    lines = {"Host": "localhost", "Connection": "close", "Content-Type": "application/protobuf"}
    lines |= {"Content-Length": str(len(body)), **(headers or {})}
    request = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    said = b""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(_socket_of(user))
        connection.settimeout(_PATIENCE_S)
        connection.connect((LOOPBACK, port))
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            if authority:
                trust = ssl.create_default_context(cafile=str(authority))
                if certificate:
                    trust.load_cert_chain(certificate)
                connection = stack.enter_context(trust.wrap_socket(connection, server_hostname="localhost"))
            connection.sendall(request.encode() + b"\r\n" + body)
            while part := connection.recv(65536):
                said += part
    head, _, content = said.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    return Answer(status=int(words[1]) if len(words) > 1 else 0, head=head.decode("latin-1"), body=content)


def _socket_of(user: int | None) -> socket.socket:
    """Return a socket that the system holds for another user's."""
    before = os.geteuid()
    try:
        if user is not None:
            os.seteuid(user)
        return socket.socket()
    finally:
        os.seteuid(before)


def issue_operator(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the certificate of a new authority for operators, and a file with an operator's certificate and key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Operators")])

    def sign(subject: x509.Name, own: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(own.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.now(UTC) - timedelta(minutes=5))
            .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        if not is_authority:
            usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
            builder = builder.add_extension(usage, critical=False)
        return builder.sign(issuer_key, hashes.SHA256()).public_bytes(Encoding.PEM)

    folder.mkdir()
    authority, operator = folder / "operators.crt", folder / f"{name}.pem"
    authority.write_bytes(sign(issuer, issuer_key, is_authority=True))
    own = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    operator.write_bytes(sign(own, key, is_authority=False) + private)
    return authority, operator
