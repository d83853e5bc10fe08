"""The samples of a device: as ``load_data`` gives them, checked, and what is kept of each beside its features."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Floats, Mask, Vector
from fielding.client.arrivals import checked_column
from fielding.errors import CheckpointError, InputError
from fielding.flower.wire.orders import CLOCK_S
from fielding.runtime.own_code import DeviceNode, Samples

TEST_SHARE = 0.2  # share of samples that are tested on and never trained on, unless load_data says which
IN_APP = -1  # file of samples whose features stay in the app
LONGEST_KEY = 200  # bytes of the key of a sample in the app
LATEST_S = 1e11  # unix seconds beyond this (year 5138) are no dates but mistakes
FARTHEST = 2**31  # rounds before the start beyond this are mistakes
_PIECE = 1 << 20  # bytes of samples that are looked at together
LOG = logging.getLogger("fielding.flower")  # shows in the log of the node

LoadData: TypeAlias = Callable[[DeviceNode, int], Samples | None]
"""Returns the samples that came after round ``node.since``, up to a round; may be asked again for the same ones."""
Clock: TypeAlias = Callable[[DeviceNode, int], float]
"""Returns the time in a round, unix seconds."""
Describe: TypeAlias = Callable[[Samples, int], Floats]
"""Returns what stands for a window of training samples, shape ``(n_features,)``; the number is that of classes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """Checked samples in the order of their arrival, without their features.

    ``places``: of each among all samples that ever came to the device, rising; ``file`` and ``row``: where its features
    are (:class:`~fielding.flower.device.sample_files.SampleFiles`), or ``IN_APP`` and its position in the dataset of
    the app, or 0 if it has a ``key`` there (UTF-8; else empty). ``target``: its label where labels are numbers, not
    classes; else NaN. ``moment``: from when it is, for the window: its round, or where that goes by time its
    milliseconds; never falling. The rest as in :class:`Samples`.
    """

    y: Codes
    is_test: Mask
    rounds: Counts
    places: Counts
    file: Counts
    row: Counts
    key: npt.NDArray[np.bytes_]
    target: Vector
    moment: Counts

    @property
    def has_targets(self) -> bool:
        """Whether labels are numbers, not classes."""
        return bool(self.target.size) and not bool(np.isnan(self.target).any())

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
        mine, theirs = self._columns(), others._columns()
        return Kept(**{name: np.concatenate([mine[name], theirs[name]]) for name in mine})

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a file needs, for :func:`kept_from`; keys as bytes, one row each."""
        columns = self._columns()
        keys = np.ascontiguousarray(self.key)
        columns["key"] = keys.view(np.uint8).reshape(keys.size, keys.dtype.itemsize) if keys.size else _NO_KEYS
        is_used = {
            "key": bool((self.key != b"").any()),
            "target": self.has_targets,
            "moment": not np.array_equal(self.moment, self.rounds),
        }
        return {f"kept.{name}": column for name, column in columns.items() if is_used.get(name, True)}


NOTHING = Kept(
    y=np.empty(0, dtype=np.int32),
    is_test=np.empty(0, dtype=np.bool_),
    rounds=np.empty(0, dtype=np.int64),
    places=np.empty(0, dtype=np.int64),
    file=np.empty(0, dtype=np.int64),
    row=np.empty(0, dtype=np.int64),
    key=np.empty(0, dtype="S1"),
    target=np.empty(0),
    moment=np.empty(0, dtype=np.int64),
)
"""No samples."""
_NO_KEYS = np.empty((0, 1), dtype=np.uint8)


def kept_from(arrays: Mapping[str, npt.NDArray[np.generic]], n_rows: Counts) -> Kept:
    """Return the samples whose :meth:`Kept.arrays` are among these, or raise :class:`CheckpointError`.

    ``n_rows``: of each file of features.
    """
    n_rows = np.append(n_rows, np.iinfo(np.int64).max)  # of the dataset of the app
    n_samples = arrays["kept.y"].size if "kept.y" in arrays else 0
    found: dict[str, npt.NDArray[np.generic]] = {
        "key": np.zeros(n_samples, dtype="S1"),
        "target": np.full(n_samples, np.nan),
    }
    if (keys := arrays.get("kept.key")) is not None:
        if keys.dtype != np.uint8 or keys.ndim != 2 or not keys.shape[1]:
            raise CheckpointError(f"kept.key is {keys.dtype} of shape {keys.shape}; start anew")
        found["key"] = np.ascontiguousarray(keys).view(f"S{keys.shape[1]}")[:, 0]
    if (targets := arrays.get("kept.target")) is not None:
        found["target"] = targets.astype(np.float64)
    if (moments := arrays.get("kept.moment", arrays.get("kept.rounds"))) is not None:
        found["moment"] = moments.astype(np.int64)
    for name, none in NOTHING.arrays().items():
        array = arrays.get(name)
        if array is None or array.dtype != none.dtype or array.ndim != 1:
            raise CheckpointError(f"{name} is missing or of another type than {none.dtype}; start anew")
        found[name.removeprefix("kept.")] = array
    kept = Kept(**found)  # type: ignore[arg-type]
    if (
        len({array.shape for array in found.values()}) != 1
        or ((kept.file < IN_APP) | (kept.file >= n_rows.size - 1)).any()
        or ((kept.row < 0) | (kept.row >= n_rows[kept.file])).any()
    ):
        raise CheckpointError("the samples that were saved do not fit together; start anew")
    return kept


def checked_samples(
    samples: object,
    *,
    n_classes: int,
    now: int,
    since: int | None,
    n_taken: int = 0,
    file: int = 0,
    is_own: bool = False,
    clock: int | None = None,
    newest: int | None = None,
) -> tuple[Kept, npt.NDArray[np.generic]]:
    """Return samples that load_data gave, in the order of their rounds, and their features, or raise.

    ``n_taken`` came before these, and their features go to ``file``; with ``IN_APP`` load_data gives positions or keys.
    A round that is given late counts as the one after ``since``, which is that of the samples before. ``is_own``:
    whether the app's own code trains, so that labels may be numbers: then there is one class. ``clock``: the time now,
    milliseconds, where windows go by time. A sample from later counts as from now, one that is older than those that
    came before it, the ``newest`` of which is given, as from then.

    Examples
    --------
    >>> late = Samples(np.zeros((2, 1)), np.array([0, 1]), rounds=np.array([5, 1]))
    >>> checked_samples(late, n_classes=2, now=5, since=3)[0].rounds.tolist()
    [4, 5]
    """
    if samples is None:
        return NOTHING, np.empty((0, 0), dtype=np.float32)
    if not isinstance(samples, Samples):
        raise InputError(f"load_data gave a {type(samples).__name__}; return Samples(x, y), or None if nothing came")
    targets = np.asarray(samples.y)
    if targets.ndim == 1 and targets.size and targets.dtype.kind == "f":
        if not is_own or n_classes != 1:
            raise InputError(
                f"labels of load_data are {targets.dtype}, numbers and not classes; give client_app train and evaluate "
                "of your own and set classes = 1 in the run config, or give whole numbers"
            )
        if not np.isfinite(targets).all():
            raise InputError("labels of load_data hold NaN or infinity; every label must be a finite number")
        y = np.zeros(targets.size, dtype=np.int64)
    else:
        y = checked_column(f"labels of load_data (classes = {n_classes})", samples.y, n_classes)
        targets = np.full(y.size, np.nan)
    x = checked_references(samples.x, y.size) if file == IN_APP else checked_features(samples.x, y.size)
    rounds = _rounds(samples.rounds, y.size, now=now, since=since)
    moment = rounds if clock is None else _milliseconds(samples.times, y.size, clock)
    is_test = choose_test_samples(samples.is_test, x)
    order = np.lexsort((moment, rounds))
    is_sorted = bool((np.diff(order) >= 0).all())
    moment = np.maximum.accumulate(moment[order])
    x = x if is_sorted else x[order]
    has_keys = file == IN_APP and x.dtype.kind == "S"
    positions = x if file == IN_APP and not has_keys else np.zeros(y.size) if has_keys else np.arange(y.size)
    kept = Kept(
        y=y.astype(np.int32)[order],
        is_test=is_test[order],
        rounds=rounds[order],
        places=n_taken + np.arange(y.size),
        file=np.full(y.size, file),
        row=positions.astype(np.int64),
        key=x.astype(np.bytes_) if has_keys else np.zeros(y.size, dtype="S1"),
        target=targets.astype(np.float64)[order],
        moment=moment if newest is None else np.maximum(moment, newest),
    )
    return kept, x


def _milliseconds(given: npt.ArrayLike | None, n_samples: int, clock: int) -> Counts:
    """Return the times of samples, none later than the clock; one that is far ahead of it is told."""
    if given is None:
        raise InputError(
            "load_data gave samples without times, but trace.window is a length of time; return Samples(x, y, "
            "times=...) in unix seconds, or give trace.window in rounds"
        )
    times = np.asarray(given)
    if times.shape != (n_samples,) or (n_samples and times.dtype.kind not in "iuf"):
        raise InputError(f"times of load_data have shape {times.shape}; give unix seconds for each of {n_samples}")
    if n_samples and not np.abs(times).max() < LATEST_S:  # also if one of them is NaN
        raise InputError("times of load_data hold numbers that are no dates in unix seconds; give seconds since 1970")
    moments = np.rint(times.astype(np.float64) * 1000).astype(np.int64)
    if n_samples and (ahead := moments.max() - clock) > CLOCK_S * 1000:
        LOG.warning("samples are from up to %.0f s ahead of the clock: they count as from now", ahead / 1000)
    return np.minimum(moments, clock)


def _rounds(given: npt.ArrayLike | None, n_samples: int, *, now: int, since: int | None) -> Counts:
    if given is None:
        return np.full(n_samples, now, dtype=np.int64)
    rounds = np.asarray(given)
    if rounds.shape != (n_samples,) or (n_samples and rounds.dtype.kind not in "iu"):
        raise InputError(f"rounds of load_data have shape {rounds.shape}; give a whole number for each of {n_samples}")
    if n_samples and not -FARTHEST <= rounds.min() <= rounds.max() <= now:
        raise InputError(f"rounds of load_data go up to {rounds.max()}; in round {now} nothing later can have come")
    return np.maximum(rounds.astype(np.int64), -FARTHEST if since is None else min(since + 1, now))


def checked_features(given: npt.ArrayLike, n_samples: int) -> npt.NDArray[np.generic]:
    """Return features, shape ``(n_samples, ...)``, or raise; numbers of more than two bytes become float32."""
    x = np.asarray(given)
    if x.ndim < 2 or x.shape[0] != n_samples or x.dtype.kind not in "biuf":
        raise InputError(
            f"features of load_data are {x.dtype} of shape {x.shape}; give {n_samples} rows of numbers, one per label"
        )
    small = np.ascontiguousarray(x, dtype=x.dtype.newbyteorder("=") if x.dtype.itemsize <= 2 else np.float32)
    if small.dtype.kind == "f" and not all(np.isfinite(piece).all() for piece in pieces(small)):
        raise InputError("features of load_data hold NaN or infinity; every feature must be a finite number")
    return small


def checked_references(given: npt.ArrayLike, n_samples: int) -> Counts | npt.NDArray[np.bytes_]:
    """Return positions in the dataset of the app, or keys of it as UTF-8, shape ``(n_samples,)``, or raise."""
    found = np.asarray(given)
    if found.shape == (n_samples,) and found.dtype.kind in "UO" and all(isinstance(one, str) for one in found):
        keys = [str(one).encode() for one in found]
        if any(not 1 <= len(one) <= LONGEST_KEY or b"\0" in one for one in keys):
            raise InputError(f"keys of load_data must have 1 to {LONGEST_KEY} bytes as UTF-8, and no zero byte")
        return np.array(keys, dtype=np.bytes_)
    if found.shape != (n_samples,) or (n_samples and found.dtype.kind not in "iu"):
        raise InputError(
            f"x of load_data is {found.dtype} of shape {found.shape}; client_app has a dataset, so give "
            f"{n_samples} positions in it, one per label, or texts that are keys of it"
        )
    return found.astype(np.int64)


def choose_test_samples(given: npt.ArrayLike | None, x: npt.NDArray[np.generic]) -> Mask:
    """Return who is for tests: as given, or by content, so that a sample that comes again never changes sides.

    Of samples in the app the content is their position or key.
    """
    if given is None:
        bound = int(TEST_SHARE * 2**64)
        dtype = np.int64 if x.ndim == 1 else np.float32  # whatever the type that they came in
        is_text = x.dtype.kind == "S"
        rows = (
            (np.frombuffer(one, np.uint8) for one in x.tolist())
            if is_text
            else (row for piece in pieces(x) for row in piece.astype(dtype))
        )
        digests = (blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
        return np.array([int.from_bytes(digest, "big") < bound for digest in digests], dtype=np.bool_)
    chosen = np.asarray(given)
    if chosen.shape != x.shape[:1] or chosen.dtype != np.bool_:
        raise InputError(f"is_test of load_data is {chosen.dtype} of shape {chosen.shape}; give a yes or no per sample")
    return chosen.copy()


def pieces(x: npt.NDArray[np.generic]) -> Iterator[npt.NDArray[np.generic]]:
    """Yield samples a few at a time: copies of all of them might not fit on a device."""
    at_once = max(1, _PIECE // max(1, x[:1].nbytes))
    return (x[at : at + at_once] for at in range(0, len(x), at_once))
