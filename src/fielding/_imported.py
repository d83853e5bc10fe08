"""Functions of the user's own, named as ``module:function`` in a config."""

import importlib
from collections.abc import Callable, Iterable

from fielding.errors import OptionError, echo, unknown_name


def imported_function(path: str, *, key: str, known: Iterable[str] = ()) -> Callable[..., object]:
    """Return the function that a text names.

    Parameters
    ----------
    path
        ``"module:function"``.
    key
        The key of the config, for the message.
    known
        Other values that the key may have, for the message.

    Raises
    ------
    OptionError
        If the module cannot be imported or has no such function.

    Examples
    --------
    >>> imported_function("math:hypot", key="model.factory")(3.0, 4.0)
    5.0
    """
    module_name, _, function_name = path.partition(":")
    if not module_name or not function_name:
        own = "a function of your own is written module:function"
        if not known:
            raise OptionError(f"{key} is {echo(path)}; {own}")
        raise OptionError(f"{key}: {unknown_name(key.rpartition('.')[2], path, known)}; {own}")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise OptionError(
            f"{key} is {echo(path)}, but there is no module {echo(error.name)}; start in its folder or name that "
            "folder in PYTHONPATH"
        ) from error
    except Exception as error:  # whatever the user's module does when it is imported
        words = " ".join(str(error).split()) or type(error).__name__
        raise OptionError(f"{key} is {echo(path)}, but module {module_name} fails at import: {words}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise OptionError(f"{key} is {echo(path)}, but module {module_name} has no function {echo(function_name)}")
    found: Callable[..., object] = function
    return found
