"""Certificates and keys for a federation on one machine: TLS on loopback, and one key for every node.

The key of the authority signs once and is never written: no second certificate can be issued in its name.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from fielding._extras import require
from fielding.atomic import make_private
from fielding.errors import FileFormatError, InputError, OptionError, OutputError, echo
from fielding.flower.server.roster import key_id

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import PrivateFormat

VALID_DAYS = 7  # how long certificates hold, unless another time is asked for
LOOPBACK = "127.0.0.1"
_CLOCK_SLACK = timedelta(minutes=5)
_PRIVATE_FILE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Where the files for TLS are: the authority's certificate, the server's, and the server's private key."""

    authority: Path
    server: Path
    server_key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKey:
    """The two files of a node's key, in OpenSSH format, and its client's id: SHA-256 of the key as servers see it."""

    private: Path
    public: Path
    client_id: str


def issue_certificates(folder: Path, *, days: int = VALID_DAYS) -> Certificates:
    """Make a new authority and a server certificate for this machine alone (127.0.0.1 and localhost).

    They hold for ``days`` days. The folder is made if need be, for its owner only.

    Raises
    ------
    OutputError
        If a file is there already: nothing is ever overwritten.
    """
    if days < 1:
        raise OptionError(f"days is {echo(days)}; give at least 1")
    require("flower", "cryptography")
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat

    folder = private_folder(folder)
    paths = Certificates(authority=folder / "ca.crt", server=folder / "server.crt", server_key=folder / "server.key")
    issuer, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    until = datetime.now(UTC) + timedelta(days=days)
    authority = _sign("Fielding local authority", issuer, issuer=issuer, until=until, is_authority=True)
    server = _sign("localhost", server_key, issuer=issuer, until=until, is_authority=False)
    write_private(paths.server_key, _private_text(server_key, PrivateFormat.PKCS8))
    write_private(paths.server, server.public_bytes(Encoding.PEM))
    write_private(paths.authority, authority.public_bytes(Encoding.PEM))
    return paths


def node_key(folder: Path, name: str) -> NodeKey:
    """Return the key of a node, the one that is there or a new one: a node that keeps its key stays the same client.

    The folder is made if need be, for its owner only; ``name`` is that of the private file, the public one has ``.pub``
    after it.
    """
    require("flower", "cryptography")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PrivateFormat,
        PublicFormat,
        load_ssh_private_key,
    )

    private = private_folder(folder) / name
    public = private.with_name(f"{name}.pub")
    if not private.exists():
        write_private(private, _private_text(ec.generate_private_key(ec.SECP384R1()), PrivateFormat.OpenSSH))
    try:
        private_key = load_ssh_private_key(private.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        private_key = None
    if not isinstance(private_key, ec.EllipticCurvePrivateKey):
        raise FileFormatError(f"{private} holds no elliptic-curve key in OpenSSH format; remove it to get a new one")
    key = private_key.public_key()
    if not public.exists():
        write_private(public, key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")
    as_server_sees_it = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return NodeKey(private=private, public=public, client_id=key_id(as_server_sees_it))


def private_folder(folder: Path) -> Path:
    """Return a folder that only its owner can enter, made if it was not there.

    Raises
    ------
    InputError
        If others can enter it: keys do not belong there.
    """
    try:
        make_private(folder)
        mode = folder.stat().st_mode & 0o777
    except OSError as error:
        raise OutputError(f"cannot make {folder}: {error.strerror or error}") from error
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"{folder} is open to others (mode {mode:o}); close it with: chmod 700, or name another")
    return folder


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read; one that is there already is left alone and named in an error."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise OutputError(f"{path} is there already and is not overwritten; name another folder") from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _private_text(key: "EllipticCurvePrivateKey", form: "PrivateFormat") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption

    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _sign(
    subject: str,
    key: "EllipticCurvePrivateKey",
    *,
    issuer: "EllipticCurvePrivateKey",
    until: datetime,
    is_authority: bool,
) -> "x509.Certificate":
    """Return a certificate for a key: of the authority itself, or of a server on loopback."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    here = [x509.DNSName("localhost"), x509.IPAddress(ip_address(LOOPBACK))]
    owner = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(  # an authority signs certificates, a server proves its identity
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name("Fielding local authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - _CLOCK_SLACK)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(owner, critical=False)
        .add_extension(signer, critical=False)
    )
    if not is_authority:
        builder = builder.add_extension(x509.SubjectAlternativeName(here), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(issuer, hashes.SHA256())


def _name(common_name: str) -> "x509.Name":
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
