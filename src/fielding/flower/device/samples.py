"""The samples of a device: as ``load_data`` gives them, checked, and as they are kept."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Floats, Mask
from fielding.client.arrivals import checked_column
from fielding.errors import CheckpointError, InputError
from fielding.runtime.own_code import DeviceNode, Samples

TEST_SHARE = 0.2  # share of samples that are tested on and never trained on, unless load_data says which
FARTHEST = 2**31  # rounds before the start beyond this are mistakes

LoadData: TypeAlias = Callable[[DeviceNode, int], Samples | None]
"""Returns the samples that came after round ``node.since``, up to a round; may be asked again for the same ones."""
Describe: TypeAlias = Callable[[Samples, int], Floats]
"""Returns what stands for a window of training samples, shape ``(n_features,)``; the number is that of classes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """Checked samples in the order of their arrival.

    ``places``: of each among all samples that ever came to the device, rising; the rest as in :class:`Samples`.
    """

    x: Features
    y: Codes
    is_test: Mask
    rounds: Counts
    places: Counts

    def some(self, which: Mask | Counts) -> "Kept":
        """Return some of them."""
        return Kept(**{name: column[which] for name, column in self._columns().items()})  # type: ignore[arg-type]

    def _columns(self) -> dict[str, npt.NDArray[np.generic]]:
        return {name: getattr(self, name) for name in Kept.__slots__}

    def training(self) -> "Kept":
        """Return those that may be trained on."""
        return self.some(self.is_training)

    @property
    def is_training(self) -> Mask:
        """Which ones may be trained on."""
        return ~self.is_test

    def testing(self) -> "Kept":
        """Return those for tests alone."""
        return self.some(self.is_test)

    def join(self, others: "Kept") -> "Kept":
        """Return these and those that came after them."""
        if not len(self.y):
            return others  # only now it shows what a sample looks like
        if self.x.shape[1:] != others.x.shape[1:] and len(others.y):
            raise InputError(
                f"samples of load_data have shape {others.x.shape[1:]}; earlier ones had {self.x.shape[1:]}, keep to it"
            )
        if not len(others.y):
            return self
        mine, theirs = self._columns(), others._columns()
        return Kept(**{name: np.concatenate([mine[name], theirs[name]]) for name in mine})

    def as_samples(self) -> Samples:
        """Return them for a user's own code, which may do with them what it wants."""
        return Samples(self.x.copy(), self.y.astype(np.int64), self.is_test.copy(), self.rounds.copy())

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a file needs, for :func:`kept_from`."""
        return {f"kept.{name}": column for name, column in self._columns().items()}


NOTHING = Kept(
    x=np.empty((0, 0), dtype=np.float32),
    y=np.empty(0, dtype=np.int32),
    is_test=np.empty(0, dtype=np.bool_),
    rounds=np.empty(0, dtype=np.int64),
    places=np.empty(0, dtype=np.int64),
)
"""No samples."""


def kept_from(arrays: Mapping[str, npt.NDArray[np.generic]]) -> Kept:
    """Return the samples whose :meth:`Kept.arrays` are among these, or raise :class:`CheckpointError`.

    Files of older releases have ``kept.is_aside``: samples that were not trained on. Those are left out, since the
    device has not looked at them either.
    """
    found: dict[str, npt.NDArray[np.generic]] = {}
    for name, kept in NOTHING.arrays().items():
        array = arrays.get(name)
        if array is None or array.dtype != kept.dtype or array.ndim < 1:
            raise CheckpointError(f"{name} is missing or of another type than {kept.dtype}; start anew")
        found[name.removeprefix("kept.")] = array
    is_unused = arrays.get("kept.is_aside", np.zeros_like(found["is_test"]))
    if len({array.shape[:1] for array in (*found.values(), is_unused)}) != 1:
        raise CheckpointError("the samples that were saved do not fit together; start anew")
    return Kept(**found).some(~is_unused.astype(np.bool_))  # type: ignore[arg-type]


def checked_samples(samples: object, *, n_classes: int, now: int, since: int | None, n_taken: int = 0) -> Kept:
    """Return samples that load_data gave, in the order of their rounds, or raise; ``n_taken`` came before these.

    A round that is given late counts as the one after ``since``, which is that of the samples before.

    Examples
    --------
    >>> late = Samples(np.zeros((2, 1)), np.array([0, 1]), rounds=np.array([5, 1]))
    >>> checked_samples(late, n_classes=2, now=5, since=3).rounds.tolist()
    [4, 5]
    """
    if samples is None:
        return NOTHING
    if not isinstance(samples, Samples):
        raise InputError(f"load_data gave a {type(samples).__name__}; return Samples(x, y), or None if nothing came")
    y = checked_column(f"labels of load_data (classes = {n_classes})", samples.y, n_classes)
    x = checked_features(samples.x, y.size)
    rounds = _rounds(samples.rounds, y.size, now=now, since=since)
    is_test = choose_test_samples(samples.is_test, x)
    order = np.argsort(rounds, kind="stable")
    places = n_taken + np.argsort(order, kind="stable")  # in the order of arrival
    kept = Kept(x=x, y=y.astype(np.int32), is_test=is_test, rounds=rounds, places=places)
    return kept.some(order)


def _rounds(given: npt.ArrayLike | None, n_samples: int, *, now: int, since: int | None) -> Counts:
    if given is None:
        return np.full(n_samples, now, dtype=np.int64)
    rounds = np.asarray(given)
    if rounds.shape != (n_samples,) or (n_samples and rounds.dtype.kind not in "iu"):
        raise InputError(f"rounds of load_data have shape {rounds.shape}; give a whole number for each of {n_samples}")
    if n_samples and not -FARTHEST <= rounds.min() <= rounds.max() <= now:
        raise InputError(f"rounds of load_data go up to {rounds.max()}; in round {now} nothing later can have come")
    return np.maximum(rounds.astype(np.int64), -FARTHEST if since is None else min(since + 1, now))


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


def choose_test_samples(given: npt.ArrayLike | None, x: Features) -> Mask:
    """Return who is for tests: as given, or by content, so that a sample that comes again never changes sides."""
    if given is None:
        bound = int(TEST_SHARE * 2**64)
        digests = (blake2b(row.tobytes(), digest_size=8).digest() for row in x)
        return np.array([int.from_bytes(digest, "big") < bound for digest in digests], dtype=np.bool_)
    chosen = np.asarray(given)
    if chosen.shape != x.shape[:1] or chosen.dtype != np.bool_:
        raise InputError(f"is_test of load_data is {chosen.dtype} of shape {chosen.shape}; give a yes or no per sample")
    return chosen.copy()
