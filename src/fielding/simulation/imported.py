"""Functions of the user's own, named as ``module:function``."""

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fielding.errors import OptionError, echo, unknown_name


def imported_function(name: str, *, key: str, known: Iterable[str] = ()) -> Callable[..., Any]:
    """Return the function that a config names; its module may lie in the current folder.

    Parameters
    ----------
    name
        ``"module:function"``.
    key
        The key of the config, for the message.
    known
        Other values that the key may have, for the message.
    """
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise OptionError(f"{key}: {unknown_name(key.rpartition('.')[2], name, [*known, 'my_module:function'])}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module_name), function_name)
    except ImportError as error:
        raise OptionError(f"{key} is {echo(name)}, but {module_name} cannot be imported: {error}") from error
    except AttributeError:
        raise OptionError(f"{key} is {echo(name)}, but {module_name} has no {function_name}") from None
    if not callable(found):
        raise OptionError(f"{key} is {echo(name)}, which is no function")
    return found  # type: ignore[no-any-return]
