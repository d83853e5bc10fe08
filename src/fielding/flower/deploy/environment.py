"""The environment of the processes of a local federation: programs, variables, a port."""

import os
import site
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from fielding import _version
from fielding._extras import check_version, install_words, require
from fielding.errors import OptionError
from fielding.flower.deploy.certificates import LOOPBACK

PROGRAMS = ("flower-superlink", "flower-supernode", "flower-superexec", "flwr", "flwr-serverapp", "flwr-clientapp")
"""What a federation starts; the SuperLink and the nodes find theirs by name."""
_INHERITED = ("LANG", "LC_ALL", "TMPDIR", "TZ")
_FIND = "import importlib.util as u; found = u.find_spec('fielding'); print(found.origin if found else '')"


def clean_environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment made from nothing: programs, a home, one thread each, and Flower kept quiet and off-line.

    The processes take ``home`` for the user's folder; Flower's settings are in ``flwr`` inside. Variables of ``extra``
    are added, or take the place of others.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    if site.ENABLE_USER_SITE:  # packages in the home that we came with, which is not the one that they see
        inherited["PYTHONUSERBASE"] = site.getuserbase()
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


def check_installation(home: Path) -> None:
    """Raise if a federation could not run here: packages, versions, programs, and fielding itself.

    Raises
    ------
    OptionError
        The message names what is missing and the command that mends it.
    """
    require("flower")
    require("flower", "cryptography")
    for name in PROGRAMS:
        program(name)
    done = subprocess.run(
        [sys.executable, "-P", "-c", _FIND],
        env=clean_environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    found, own = Path(done.stdout.strip()).parent, Path(_version.__file__).parent
    if not done.stdout.strip() or not found.samefile(own):
        there = f"finds the one in {found}" if done.stdout.strip() else "finds none"
        raise OptionError(
            f"processes of a federation do not see PYTHONPATH: {sys.executable} {there}, but this fielding is in "
            f"{own}; install it: pip install -e '.[flower]' in its clone"
        )


def program(name: str) -> str:
    """Return the path of a program that was installed beside this Python."""
    check_version("flower")
    for folder in _program_folders():
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    raise OptionError(f"no program {name} beside {sys.executable}; run: {install_words('flower')}")


def _program_folders() -> list[Path]:
    """Return where programs of this Python are: beside it, and where its installer puts them."""
    folders = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    if site.ENABLE_USER_SITE:
        folders.append(Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))))
    return list(dict.fromkeys(folders))


def free_port() -> int:
    """Return a port of loopback that was free a moment ago; another process may take it before it is used."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
