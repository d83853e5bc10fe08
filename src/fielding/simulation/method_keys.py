"""Which keys of a config a method uses: runs that differ in others would be the same run twice."""

from collections.abc import Collection, Mapping

from fielding._typing import Json
from fielding.methods import METHODS, kind_named, method_options

TRIGGER_KEYS = frozenset({"trigger", "tau", "reference", "noise_floor", "delta_step"})
GROUPING_KEYS = TRIGGER_KEYS | {
    "partitioner", "k_max", "k_choice", "participants_per_cluster", "hysteresis", "warm_start", "inherit",
}  # fmt: skip
"""Keys of ``[coordinator]`` that say how and when clients are grouped."""
GROUPING_USED: Mapping[str, frozenset[str]] = {
    "fielding": GROUPING_KEYS,
    "selected": GROUPING_KEYS,
    "moves": GROUPING_KEYS - TRIGGER_KEYS,
    "always": GROUPING_KEYS - TRIGGER_KEYS,
    "static": GROUPING_KEYS - TRIGGER_KEYS,
    "fedac": frozenset({"k_max", "participants_per_cluster"}),
}
"""By method: which of them it uses; methods that are not here use none."""
FREE_SELECTION = "uniform"
"""The selection that needs no reports of clients; others may ask for some that the method itself would not hear."""


def uses_key(
    method: str, key: str, *, values: Collection[Json] = (), selections: Collection[Json] = (FREE_SELECTION,)
) -> bool:
    """Return whether a key may change anything for a method; in doubt it may.

    Parameters
    ----------
    method
        Its name; nothing is known of what methods of one's own do with ``[coordinator]``.
    key
        Dotted.
    values
        What it is set to.
    selections
        What ``selection.name`` is, or may be.

    Examples
    --------
    >>> [uses_key(name, "coordinator.tau") for name in ("fielding", "moves", "global")]
    [True, False, False]
    >>> uses_key("ifca", "method.k"), uses_key("global", "method.k")
    (True, False)
    """
    section, _, name = key.rpartition(".")
    if section == "method":
        return name in method_options(kind_named(method, METHODS))
    if section != "coordinator" or method not in METHODS:
        return True
    if name in GROUPING_KEYS:
        return name in GROUPING_USED.get(method, frozenset())
    # With auto come other keys, of serving among others, which all methods use.
    return METHODS[method].hears != "nobody" or set(selections) != {FREE_SELECTION} or "auto" in values
