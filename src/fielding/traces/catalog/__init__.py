"""Known data sets: what they are, how to get them, how to open them."""

from pathlib import Path

from fielding.config.parts import Family
from fielding.errors import unknown_name
from fielding.traces.catalog.entry import (
    DEFAULT_OPENING,
    FOLDER_VARIABLE,
    Entry,
    Narrowing,
    NaturalDefaults,
    Opening,
    Source,
    data_folder,
)

CATALOG: Family[Entry] = Family("data set")
"""The known data sets by name: those that anyone can have first, then the paper's."""

__all__ = [
    "CATALOG",
    "DEFAULT_OPENING",
    "FOLDER_VARIABLE",
    "Entry",
    "Narrowing",
    "NaturalDefaults",
    "Opening",
    "Source",
    "data_folder",
    "entry_named",
    "open_source",
]


def entry_named(name: str) -> Entry:
    """Return the entry of a data set, or raise with the nearest name."""
    if name not in CATALOG:
        raise unknown_name("data set", name, CATALOG)
    return CATALOG[name]


def open_source(name: str, folder: str | Path | None = None, opening: Opening = DEFAULT_OPENING) -> Source:
    """Return the samples of a known data set, one of :data:`CATALOG`: a pool, or a trace with features.

    Its files are in ``folder``; None for the folder that ``FIELDING_DATA`` names, or ``~/.cache/fielding/data``. If one
    is missing, the error names it, the folder, and how to get it.

    Examples
    --------
    >>> digits = open_source("digits")
    >>> len(digits), digits.shape, digits.is_image
    (1797, (8, 8), True)
    """
    return entry_named(name).open(data_folder(folder), opening)
