"""What passes between Fielding and a user's own code on a device: samples, models and scores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Floats, Json, Mask
from fielding.client.arrivals import checked_column
from fielding.errors import CheckpointError, InputError

TEST_SHARE = 0.2  # share of samples that are tested on and never trained on, unless load_data says which
FARTHEST = 2**31  # rounds before the start beyond this are mistakes

Tensors: TypeAlias = dict[str, npt.NDArray[np.float32]]
"""A model as a user's own code takes it: arrays by name, as in a state dict."""


class Stateful(Protocol):
    """A torch module, as far as it matters here: it has a state dict."""

    def state_dict(self) -> Mapping[str, Any]: ...  # noqa: D102


AnyModel: TypeAlias = Mapping[str, Any] | Stateful
"""A model as a user's own code may give it: arrays or tensors by name, or a torch module."""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of a device.

    Parameters
    ----------
    x
        Features as the model takes them, shape ``(n_samples, ...)``; they become float32.
    y
        Labels as positions in the class list, shape ``(n_samples,)``.
    is_test
        Which ones are for tests alone, same shape; None: a fifth, chosen by a hash of their content.
    rounds
        In which round each arrived, below 0 before the start, same shape; None: now.
    """

    x: npt.ArrayLike
    y: npt.ArrayLike
    is_test: npt.ArrayLike | None = None
    rounds: npt.ArrayLike | None = None

    def __len__(self) -> int:
        return len(np.asarray(self.y))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """Where a user's own code runs.

    Parameters
    ----------
    partition
        The part of the data that this node holds, if its node config names one (``partition-id``).
    config
        The node config and, below it, the run config.
    folder
        For files of one's own: kept between messages and restarts, apart for every run.
    since
        The round of the last samples that were taken in; None: none ever were, or what was known of them is lost.
    """

    partition: int | None
    config: Mapping[str, Json]
    folder: Path
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """How the server wants a model trained; one's own code may take it as advice.

    Parameters
    ----------
    seed
        Of draws; with the round it makes them repeatable.
    node
        Where this is: its config has settings of one's own (``own.epochs``), its folder is for files of one's own.
    """

    round_index: int
    n_steps: int
    batch_size: int
    learning_rate: float
    momentum: float
    weight_decay: float
    prox: float
    seed: int
    node: DeviceNode


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """What training gave.

    Parameters
    ----------
    model
        Arrays or torch tensors under the names and in the shapes that came, as a state dict, or a torch module.
    n_samples, loss
        How many samples it was trained on, and the mean loss over them.
    square_loss
        Mean of the squared losses; None: the square of the mean.
    """

    model: AnyModel
    n_samples: int
    loss: float
    square_loss: float | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """How a model does: how many samples were tested, how many of them it gets right, and its mean loss."""

    n_test: int
    correct: int
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """What a model makes of samples, a row each.

    ``features``: what goes into its last layer, shape ``(n_samples, n_features)``; ``scores``: of the classes, before
    softmax, shape ``(n_samples, n_classes)``.
    """

    features: npt.ArrayLike
    scores: npt.ArrayLike


LoadData: TypeAlias = Callable[[DeviceNode, int], Samples | None]
"""Returns the samples that came after round ``node.since``, up to a round; may be asked again for the same ones."""
Train: TypeAlias = Callable[[Tensors, Samples, Job], Fitted]  # trains a model
Evaluate: TypeAlias = Callable[[Tensors, Samples], Scored]  # tests a model
Embed: TypeAlias = Callable[[Tensors, Samples], Embedded]  # looks at samples with a model
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
