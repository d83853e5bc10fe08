"""Checks of what a user's own code hands over, column by column, and who is chosen by content where it does not say."""

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from fielding._typing import Features, Mask
from fielding.errors import InputError

TEST_SHARE = 0.2
"""Share of samples that are tested on and never trained on, unless load_data says which."""
_TEST, _ASIDE = b"", b"aside"
"""What makes the two choices independent of each other."""


def checked_features(given: npt.ArrayLike, n_samples: int) -> Features:
    """Return features as float32, shape ``(n_samples, ...)``, or raise."""
    x = np.asarray(given)
    if x.ndim < 2 or x.shape[0] != n_samples or x.dtype.kind not in "biuf":
        raise InputError(
            f"features of load_data are {x.dtype} of shape {x.shape}; give {n_samples} rows of numbers, one per label"
        )
    floats = np.ascontiguousarray(x, dtype=np.float32)
    if not np.isfinite(floats).all():
        raise InputError("features of load_data hold NaN or infinity; every feature must be a finite number")
    return floats


def tested(given: npt.ArrayLike | None, x: Features) -> Mask:
    """Return who is for tests: as told, or by content, so that a sample that comes again never changes sides."""
    return _by_content(x, TEST_SHARE, _TEST) if given is None else _as_told("is_test", given, x)


def put_aside(given: npt.ArrayLike | None, x: Features, *, share: float, is_test: Mask) -> Mask:
    """Return who is kept aside to judge models by: as told, or by content; nobody who is for tests, or if none shall.

    Parameters
    ----------
    given
        What the user's own code says; None: nothing.
    x
        Features of the samples.
    share
        Share of the samples that are kept aside; 0: none is, whatever she says.
    is_test
        Who is for tests.
    """
    if given is not None:
        told = _as_told("is_aside", given, x)
        return told & ~is_test if share else np.zeros_like(told)
    return _by_content(x, share, _ASIDE) & ~is_test if share else np.zeros(len(x), dtype=np.bool_)


def _by_content(x: Features, share: float, purpose: bytes) -> Mask:
    bound = int(share * 2**64)
    digests = (blake2b(row.tobytes(), digest_size=8, person=purpose).digest() for row in x)
    return np.array([int.from_bytes(digest, "big") < bound for digest in digests], dtype=np.bool_)


def _as_told(name: str, given: npt.ArrayLike, x: Features) -> Mask:
    told = np.asarray(given)
    if told.shape != x.shape[:1] or told.dtype != np.bool_:
        raise InputError(f"{name} of load_data is {told.dtype} of shape {told.shape}; give a yes or no per sample")
    return told.copy()
