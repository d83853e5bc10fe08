"""What a shell completes on Tab: methods, data sets, examples and keys of a config."""

from collections.abc import Iterable

from fielding.cli.examples import example_configs
from fielding.config.parts import METHOD_ALIASES, PLACES
from fielding.config.presets import PRESETS


def complete_methods(incomplete: str) -> list[str]:
    """Return lists of methods, separated by commas, that begin as typed.

    Examples
    --------
    >>> complete_methods("fielding,fedd")
    ['fielding,feddrift', 'fielding,feddrift-eager']
    """
    before, comma, last = incomplete.rpartition(",")
    names = [name for name in (*PLACES["method"], *METHOD_ALIASES, *PRESETS) if name not in before.split(",")]
    return [f"{before}{comma}{name}" for name in _beginning(names, last)]


def complete_method(incomplete: str) -> list[str]:
    """Return the methods that begin as typed."""
    return _beginning(PLACES["method"], incomplete)


def complete_data_sets(incomplete: str) -> list[str]:
    """Return the known data sets that begin as typed."""
    return _beginning(PLACES["data set"], incomplete)


def complete_examples(incomplete: str) -> list[str]:
    """Return the examples that begin as typed."""
    return _beginning(example_configs(), incomplete)


def complete_keys(incomplete: str) -> list[str]:
    """Return keys of a config that begin as typed, each with an equals sign; after it, the names that are known.

    Examples
    --------
    >>> complete_keys("training.lr")
    ['training.lr_decay=', 'training.lr_every=', 'training.lr_floor=']
    >>> complete_keys("training.trainer=")
    ['training.trainer=numpy', 'training.trainer=torch']
    """
    from fielding.config.keys import KEYS

    path, equals, value = incomplete.partition("=")
    if not equals:
        return _beginning((f"{one}=" for one in KEYS), incomplete)
    choices = KEYS[path].rule.choices if path in KEYS else None
    if path == "trace.name":
        choices = PLACES["data set"]
    elif path == "trace.scenario":
        choices = PLACES["scenario"]
    return [f"{path}={name}" for name in _beginning(choices or (), value)]


def _beginning(names: Iterable[str], typed: str) -> list[str]:
    return [name for name in names if name.startswith(typed)]
