"""Optional packages: asked for where they are used, with the command that installs them."""

import importlib
import re
from types import ModuleType

from fielding.errors import OptionError

EXTRAS = {
    "data": "pandas",
    "drift": "river",
    "export": "kaleido",
    "flower": "flwr",
    "mlflow": "mlflow",
    "ray": "ray",
    "tensorboard": "tensorboard",
    "torch": "torch",
    "wandb": "wandb",
    "watch": "starlette",
}
"""The package that each extra of this distribution brings."""
TESTED = {"flwr": ("1.41", "1.43"), "ray": ("2.55", "2.56")}
"""Packages that change what we rely on: from which version on we know them, and from which on no longer."""


def install_words(*extras: str) -> str:
    """Return the command that installs extras: of the published package, and in a clone of the repository.

    Examples
    --------
    >>> print(install_words("tensorboard", "mlflow"))
    pip install 'fielding[tensorboard,mlflow]' (in a clone: pip install -e '.[tensorboard,mlflow]')
    """
    names = ",".join(extras)
    return f"pip install 'fielding[{names}]' (in a clone: pip install -e '.[{names}]')"


def require(extra: str, package: str | None = None) -> ModuleType:
    """Return the package that an extra brings.

    ``package``: another package that comes with it, in place of the one in ``EXTRAS``. OptionError if it is not
    installed, or in a version that we do not know; the message says how to install it.
    """
    package = package or EXTRAS[extra]
    check_version(extra, package)  # before it is loaded: another version may already fail there
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, but lacks something itself: that is another story
            raise
        raise OptionError(f"{package} is not installed; run: {install_words(extra)}") from error


def check_version(extra: str, package: str | None = None) -> None:
    """Raise if a package of an extra is there in a version that we do not know; whether it is there is not asked."""
    from importlib import metadata

    package = package or EXTRAS[extra]
    if package not in TESTED:
        return
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return
    first, beyond = TESTED[package]
    if not _numbers(first) <= _numbers(version) < _numbers(beyond):
        raise OptionError(
            f"{package} is {version}, but fielding works with {package}>={first},<{beyond}; run: {install_words(extra)}"
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; what is none counts as 0.

    Examples
    --------
    >>> _numbers("1.41.0"), _numbers("1.43rc1"), _numbers("2")
    ((1, 41), (1, 43), (2, 0))
    """
    parts = [re.match(r"\d*", part) for part in f"{version}.0".split(".")[:2]]
    return tuple(int(found.group() or 0) if found else 0 for found in parts)
