"""Ray clusters: where ``--on ray`` goes, and how to get there quietly."""

import contextlib
import logging
import os
import re
import signal
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fielding._extras import require
from fielding._version import __version__
from fielding.errors import InputError, OptionError, echo, error_words

LOCAL, RAY = "local", "ray"
"""Places where runs can be done: in processes and threads of this machine, or on a Ray cluster."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns
    "RAY_worker_niceness": "0",  # its workers would starve beside other processes
}
START_S = 120.0  # seconds in which work must have begun somewhere
REACH_S = 10.0  # seconds in which the head of a cluster must take a connection
LOOPBACK = "127.0.0.2"
"""Address of this machine that no other can reach; of 127.0.0.1 Ray makes one that others can."""
_HOME = "FIELDING_HOME"  # for workers of a cluster that was started here: the home folder of its user


def check_place(on: str) -> None:
    """Raise unless a text says where to run.

    Examples
    --------
    >>> check_place("ray://head:10001")
    >>> check_place("rey")
    Traceback (most recent call last):
    fielding.errors.OptionError: on is 'rey'; give local, ray, or ray://HOST:PORT
    """
    if on not in (LOCAL, RAY) and re.fullmatch(r"ray://[^/:]+:\d{1,5}", on) is None:
        raise OptionError(f"on is {echo(on)}; give local, ray, or ray://HOST:PORT")


@contextlib.contextmanager
def ray_cluster(on: str, *, n_cpus: int | None = None) -> Iterator[Any]:
    """Connect to a Ray cluster, and leave it at the end; yields the package ``ray``.

    ``"ray"`` is the cluster that this process is connected to already, which it stays; else the one that runs on this
    machine or that ``RAY_ADDRESS`` names; else one of this machine alone, started here and ended afterwards, which
    takes itself to have ``n_cpus``, all cores by default.

    Raises
    ------
    OptionError
        If Ray is not installed.
    InputError
        If there is no cluster at the address.
    """
    os.environ.update({name: value for name, value in _QUIET.items() if name not in os.environ})
    handler = signal.getsignal(signal.SIGTERM)
    ray = require("ray")
    if ray.is_initialized():
        yield ray
        return
    options = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    address = None if on != RAY else os.environ.get("RAY_ADDRESS")
    _reach(on if on != RAY else address or "")
    with contextlib.ExitStack() as stack:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                address = on if on != RAY else address or _running(ray)
                if address is None:
                    _start(ray, stack, {**options, "num_cpus": n_cpus})
                else:
                    # This machine has several addresses: of a cluster on one of them, it is the node of that one.
                    host = address.partition(":")[0]
                    ray.init(address, **options, **({"_node_ip_address": host} if host.startswith("127.") else {}))
        except (Exception, SystemExit) as error:  # Ray has many of its own
            ray.shutdown()
            raise InputError(f"cannot use Ray at {address or on}: {error_words(error)}") from error
        finally:
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(signal.SIGTERM, handler)  # Ray takes it for itself
        stack.callback(ray.shutdown)
        stack.enter_context(_muted(ray))
        yield ray


def _reach(address: str) -> None:
    """Raise at once if nobody answers at an address of host and port; Ray itself would try for minutes."""
    found = re.fullmatch(r"(?:ray://)?([^/:]+):(\d{1,5})", address)
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=REACH_S).close()
    except (OSError, OverflowError) as error:
        words = getattr(error, "strerror", None) or error
        raise InputError(f"cannot use Ray at {address}: nobody answers there ({words})") from error


@contextlib.contextmanager
def _muted(ray: Any) -> Iterator[None]:
    """Keep what Ray says of lost machines off standard output, where results go; we tell it ourselves."""
    worker = ray._private.worker
    before = worker.print_to_stdstream
    worker.print_to_stdstream = lambda *_arguments, **_options: None
    try:
        yield
    finally:
        worker.print_to_stdstream = before


def _running(ray: Any) -> str | None:
    """Return the address of the cluster that this machine belongs to; None if there is none."""
    try:
        found = ray._private.utils.read_ray_address()
        return str(found) if found and found in ray._private.services.find_gcs_addresses() else None
    except (AttributeError, OSError):
        return None


def _start(ray: Any, stack: contextlib.ExitStack, options: dict[str, Any]) -> None:
    """Start a cluster of this machine alone, which no other can reach."""
    # Without a provider in a file of the home folder Ray asks cloud services which of them it runs on.
    home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    (home / "ray_bootstrap_config.yaml").write_text("provider: {type: local}\ncluster_name: local\n")
    before = os.environ.get("HOME")
    os.environ.update({"HOME": str(home), _HOME: before or str(Path.home())})
    try:
        here = {"_node_ip_address": LOOPBACK} if sys.platform == "linux" else {}  # on others Ray keeps to itself
        ray.init("local", include_dashboard=False, **here, **options)
    finally:
        del os.environ[_HOME]
        if before is None:
            del os.environ["HOME"]
        else:
            os.environ["HOME"] = before


def begin_worker(version: str) -> None:
    """Make a Ray worker ready for our code; raises if its machine has another version than the driver."""
    if home := os.environ.pop(_HOME, None):
        os.environ["HOME"] = home
    if version != __version__:
        raise InputError(
            f"{os.uname().nodename} has fielding {__version__}, but this is {version}; install the same on all machines"
        )


def start_worker(ray: Any, kind: type, *arguments: Any, n_cpus: int, n_gpus: int = 0, n_calls: int = 1) -> Any:
    """Return an actor, which may still wait for its CPUs and GPUs; ``n_calls`` of it may be answered at a time.

    The class calls :func:`begin_worker` with its first argument, which is added here.
    """
    needs = {"num_cpus": n_cpus, "num_gpus": n_gpus, "max_concurrency": n_calls}
    return ray.remote(kind).options(**needs).remote(__version__, *arguments)


def capacity(ray: Any, n_cpus: int, n_gpus: int) -> int:
    """Return how many actors of a kind fit on the cluster at a time, machine by machine."""
    nodes = [one["Resources"] for one in ray.nodes() if one["Alive"]]
    return sum(
        min(int(one.get("CPU", 0) // n_cpus), int(one.get("GPU", 0) // n_gpus) if n_gpus else 1 << 30) for one in nodes
    )


def last_line(error: BaseException) -> str:
    r"""Return the last line of what a remote error says, which names it.

    Examples
    --------
    >>> last_line(RuntimeError("Traceback ...\n  File ...\nValueError: no such thing"))
    'ValueError: no such thing'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
