"""What processes of a local federation find around them: programs, variables, a port."""

import os
import socket
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from fielding.errors import OptionError
from fielding.flower.certificates import LOOPBACK

_INHERITED = ("LANG", "LC_ALL", "TMPDIR", "TZ")


def clean_environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment made from nothing: programs, a home, one thread each, and Flower kept quiet and off-line.

    Parameters
    ----------
    home
        What the processes take for the user's folder; Flower's settings are in ``flwr`` inside.
    extra
        Variables that are added, or take the place of others.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {
        **inherited,
        "PATH": os.pathsep.join([*map(str, _program_folders()), "/usr/bin", "/bin"]),
        "HOME": str(home),
        "FLWR_HOME": str(home / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        **(extra or {}),
    }


def program(name: str) -> str:
    """Return the path of a program that was installed beside this Python."""
    for folder in _program_folders():
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    raise OptionError(f"no program {name} beside {sys.executable}; run: pip install 'fielding[flower]'")


def _program_folders() -> list[Path]:
    """Return where programs of this Python are: beside it, and where its installer puts them."""
    return list(dict.fromkeys([Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]))


def free_port() -> int:
    """Return a port of loopback that was free a moment ago; somebody may take it before it is used."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
