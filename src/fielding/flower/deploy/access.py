"""Run one of Flower's programs with the access control that its open distribution lacks.

    python -P -m fielding.flower.deploy.access [--user NAME]... [--certificate FILE] PROGRAM [ARGUMENT]...

Two things, and all that Fielding knows of the inside of these programs is here:

- What the program serves on a port of this machine answers only processes of its own user, and of each ``--user``:
  control, runtime and fleet calls alike. Flower has no users, and a loopback port is open to all users of a machine.
  The system says whose a connection is (Linux), so there is no secret that could be lost.
- What the program asks over HTTPS it asks with ``--certificate``, a file with a client certificate and its private
  key, as a reverse proxy may want to see it from operators. Flower's programs have no option for that.

Runs also by its path, with the standard library and what Flower brings alone.
"""

import argparse
import errno
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

HEADER = "x-answers-only"
"""A header of every answer from such a port: the numbers of the users that it answers."""
PROGRAMS = ("flower-superlink", "flower-supernode", "flwr")
_CONNECTIONS = Path("/proc/net/tcp")
_ESTABLISHED = 1
_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ERROR, _HEAD, _ALL = 4, 20, 1, 2, 16, 0xFFFFFFFF  # linux/netlink.h, sock_diag.h
_PATIENCE_S = 5.0

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def can_tell_users() -> bool:
    """Return whether this system says whose a connection is."""
    return _CONNECTIONS.exists()


def user_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Return the number of the user whose process holds the client's end of a connection over IPv4 on this machine.

    None if no process of this machine does, or not any more.
    """
    try:
        return user_by_question(client, server)
    except OSError:  # some containers have no such sockets
        return user_by_list(client, server)


def user_by_question(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Ask the system about one connection (netlink, ``sock_diag(7)``): 15 microseconds."""
    try:
        addresses = [socket.inet_aton(host).ljust(16, b"\0") for host, _ in (client, server)]
    except OSError:  # not IPv4
        return None
    ends = struct.pack("!HH16s16s", client[1], server[1], *addresses)
    question = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, _ALL) + ends
    question += struct.pack("=III", 0, _ALL, _ALL)  # on any interface, without a cookie
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as system:
        system.settimeout(_PATIENCE_S)
        system.send(struct.pack("=IHHII", _HEAD + len(question), _BY_FAMILY, _REQUEST, 0, 0) + question)
        answer = system.recv(8192)
    if struct.unpack_from("=H", answer, 4)[0] == _ERROR:
        number = -struct.unpack_from("=i", answer, _HEAD)[0]
        if number == errno.ENOENT:
            return None
        raise OSError(number, os.strerror(number))
    state, found = answer[_HEAD + 1], answer[_HEAD + 4 : _HEAD + 4 + len(ends)]
    # If there is no such connection, the answer may be about the port that the client's end would listen on.
    return struct.unpack_from("=I", answer, _HEAD + 64)[0] if (state, found) == (_ESTABLISHED, ends) else None


def user_by_list(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Look through the list of all connections: up to 20 milliseconds, however few there are."""
    ends = [_as_listed(*client), _as_listed(*server)]
    for line in _CONNECTIONS.read_text().splitlines()[1:]:
        words = line.split()
        if words[1:4] == [*ends, f"{_ESTABLISHED:02X}"]:
            return int(words[7])
    return None


def _as_listed(host: str, port: int) -> str:
    """Return an address as the system lists it: the number of the machine in its own byte order."""
    try:
        number = int.from_bytes(socket.inet_aton(host), sys.byteorder)
    except OSError:
        return ""
    return f"{number:08X}:{port:04X}"


def answer_only(app: App, users: Iterable[int]) -> App:
    """Return an ASGI app that answers processes of some users of this machine, and 403 to all others."""
    allowed = frozenset(users)
    header = (HEADER.encode(), ",".join(map(str, sorted(allowed))).encode())

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_marked(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif scope["client"] and scope["server"] and user_of(scope["client"], scope["server"]) in allowed:
            await app(scope, receive, send_marked)
        elif scope["type"] == "http":
            await send_marked({"type": "http.response.start", "status": 403, "headers": []})
            await send_marked({"type": "http.response.body", "body": b"this port answers its own user alone\n"})
        else:
            await send({"type": "websocket.close", "code": 1008})

    return checked


def restrict_servers(users: Iterable[int]) -> None:
    """Let all that this process will serve with uvicorn, as Flower does, answer some users alone."""
    import uvicorn

    begin, allowed = uvicorn.Config.__init__, frozenset(users)

    def restricted(config: uvicorn.Config, app: Any, *arguments: Any, **options: Any) -> None:
        # Without the last option a header of the request could say that it comes from another connection.
        begin(config, answer_only(app, allowed), *arguments, **options | {"proxy_headers": False})

    uvicorn.Config.__init__ = restricted  # type: ignore[assignment,method-assign]


def show_certificate(path: Path) -> None:
    """Let all that this process will ask with httpx, as Flower does, be asked with a client certificate."""
    import ssl

    import httpx

    begin = httpx.Client.__init__

    def with_certificate(client: httpx.Client, **options: Any) -> None:
        trust = options.pop("verify", True)
        if trust is True or isinstance(trust, str):
            trust = ssl.create_default_context(cafile=None if trust is True else trust)
        if trust:
            trust.load_cert_chain(path)
        begin(client, verify=trust, **options)

    httpx.Client.__init__ = with_certificate  # type: ignore[assignment,method-assign]


def run_program() -> None:
    """Run the program of the command line."""
    import pwd  # not on every system, and what else is here is imported there, too

    parser = argparse.ArgumentParser(description="Run one of Flower's programs with access control.")
    parser.add_argument(
        "--user", action="append", default=[], help="also answer this user's processes; may be repeated"
    )
    parser.add_argument("--certificate", type=Path, help="a client certificate and its key, one PEM file")
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        users = {os.getuid(), *(pwd.getpwnam(name).pw_uid for name in options.user)}
    except KeyError as error:
        parser.error(f"{error.args[0]}; give --user the name of a user of this machine")
    if options.certificate and not options.certificate.is_file():
        parser.error(f"there is no certificate {options.certificate}")
    if options.program != "flwr":
        if not can_tell_users():
            parser.error(f"{_CONNECTIONS} is missing, so connections cannot be told apart; it needs Linux")
        restrict_servers(users)
    if options.certificate:
        show_certificate(options.certificate)
    (program,) = entry_points(group="console_scripts", name=options.program)
    sys.argv = [options.program, *options.arguments]
    sys.exit(program.load()())


if __name__ == "__main__":
    run_program()
