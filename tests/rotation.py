"""Which of many alike cases are tried per change: a sample that rotates with the source, and can be asked for.

The other cases are slow tests: ``make test-slow`` tries all. ``FIELDING_ROTATION_SEED`` asks for a certain sample.
"""

import hashlib
import os
import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import fielding

VARIABLE = "FIELDING_ROTATION_SEED"


@cache
def seed() -> str:
    """Return the seed of the sample: that of the environment, or else one that follows from the source alone."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    digest = hashlib.sha256()
    for path in sorted(Path(str(fielding.__file__)).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def some_of(cases: Iterable[Any], n: int, *, always: Iterable[Any] = ()) -> list[Any]:
    """Return cases for ``parametrize``, of which all but ``n``, and those that are ``always`` tried, are slow tests.

    A tuple is the values of several arguments.
    """
    found, kept = list(cases), list(always)
    others = [at for at, case in enumerate(found) if case not in kept]
    names = [case for case in found if isinstance(case, str)]  # what else there is may be another in each process
    drawn = random.Random(f"{seed()} {len(found)} {names}").sample(others, min(n, len(others)))
    left_out = set(others) - set(drawn)
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.slow] if at in left_out else []
        )
        for at, case in enumerate(found)
    ]
