"""Optional packages: asked for where they are used, with the command that installs them."""

import importlib
from types import ModuleType

from fielding.errors import OptionError

EXTRAS = {
    "drift": "river",
    "export": "kaleido",
    "flower": "flwr",
    "mlflow": "mlflow",
    "tensorboard": "tensorboard",
    "torch": "torch",
    "watch": "starlette",
}
"""The package that each extra of this distribution brings."""


def install_words(*extras: str) -> str:
    """Return the command that installs extras: of the published package, and in a clone of the repository.

    Examples
    --------
    >>> print(install_words("tensorboard", "mlflow"))
    pip install 'fielding[tensorboard,mlflow]' (in a clone: pip install -e '.[tensorboard,mlflow]')
    """
    names = ",".join(extras)
    return f"pip install 'fielding[{names}]' (in a clone: pip install -e '.[{names}]')"


def require(extra: str) -> ModuleType:
    """Return the package that an extra brings.

    Parameters
    ----------
    extra
        Its name in ``EXTRAS``.

    Raises
    ------
    OptionError
        If it is not installed; the message says how to install it.

    Examples
    --------
    >>> import fielding._extras
    >>> fielding._extras.EXTRAS["none-such"] = "no_such"
    >>> try:
    ...     require("none-such")
    ... except OptionError as error:
    ...     print(error)
    no_such is not installed; run: pip install 'fielding[none-such]' (in a clone: pip install -e '.[none-such]')
    >>> del fielding._extras.EXTRAS["none-such"]
    """
    package = EXTRAS[extra]
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, but lacks something itself: that is another story
            raise
        raise OptionError(f"{package} is not installed; run: {install_words(extra)}") from error
