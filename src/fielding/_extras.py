"""Optional packages: asked for where they are used, with the command that installs them."""

import importlib
from types import ModuleType

from fielding.errors import OptionError

EXTRAS = {
    "drift": "river",
    "export": "kaleido",
    "mlflow": "mlflow",
    "tensorboard": "tensorboard",
    "torch": "torch",
    "watch": "starlette",
}
"""The package that each extra of this distribution brings."""


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
    >>> fielding._extras.EXTRAS["no-such-extra"] = "no_such_package"
    >>> try:
    ...     require("no-such-extra")
    ... except OptionError as error:
    ...     print(error)
    no_such_package is not installed; run: pip install 'fielding[no-such-extra]'
    >>> del fielding._extras.EXTRAS["no-such-extra"]
    """
    package = EXTRAS[extra]
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is there, but lacks something itself: that is another story
            raise
        raise OptionError(f"{package} is not installed; run: pip install 'fielding[{extra}]'") from error
