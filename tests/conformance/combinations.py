"""Which combinations of parts are tried per change: a sample that rotates with the source, and can be asked for."""

import hashlib
import os
import random
from collections.abc import Sequence
from pathlib import Path

import fielding

VARIABLE = "FIELDING_COMBINATIONS_SEED"


def seed() -> str:
    """Return the seed of the sample: that of the environment, or else one that follows from the source alone."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    digest = hashlib.sha256()
    for path in sorted(Path(str(fielding.__file__)).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def sample(rows: Sequence[tuple[str, ...]], seed: str) -> list[tuple[str, ...]]:
    """Return one row for each first value, the method, in the order of rows."""
    rng = random.Random(seed)
    by_method: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        by_method.setdefault(row[0], []).append(row)
    return [rng.choice(of_method) for of_method in by_method.values()]
