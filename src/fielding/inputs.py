"""Files that a config names, and where they lie on this machine."""

import json
import os
from pathlib import Path

INPUTS_VARIABLE = "FIELDING_INPUTS"
"""Environment variable of a run on another machine: a JSON object of copies there by the paths that the config has."""


def located(path: str | Path) -> Path:
    """Return where a file or folder that a config names lies: there, or where its copy is on this machine.

    Examples
    --------
    >>> os.environ[INPUTS_VARIABLE] = '{"data/trace.npz": "/scratch/5f/trace.npz"}'
    >>> located("data/trace.npz").as_posix(), located("data/other.npz").as_posix()
    ('/scratch/5f/trace.npz', 'data/other.npz')
    >>> del os.environ[INPUTS_VARIABLE]
    """
    copies = json.loads(os.environ.get(INPUTS_VARIABLE) or "{}")
    return Path(copies.get(str(path), path)).expanduser()
