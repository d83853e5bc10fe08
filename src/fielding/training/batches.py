"""Which samples of its window every participant trains on, step by step; the same on a device as in the simulator."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fielding._typing import Codes, Counts, Features, Models, Vector
from fielding.errors import InputError, OptionError, echo
from fielding.federation.clients import Pull
from fielding.rng import Hashes, hashed
from fielding.training.layout import Layout
from fielding.training.trainer import Contrast, LocalWork, Trained

MOST_NUMBERS = 1 << 22  # features held at a time, in numbers: 16 MB


def check_work(work: LocalWork, *, layout: Layout, n_classes: int) -> None:
    """Raise unless the parts of local work fit each other and models of a layout and of so many classes."""
    if work.models.ndim != 2 or work.models.shape[1] != layout.size:
        raise InputError(f"models have shape {work.models.shape}; they must be rows of {layout.size} numbers")
    if work.draws.ndim != 3 or not work.draws.size:
        raise InputError(f"draws have shape {work.draws.shape}; give (participants, steps, batch size), none of them 0")
    n_participants = work.draws.shape[0]
    if work.start.shape != (n_participants,):
        raise InputError(f"start has shape {work.start.shape}; give one model for each of {n_participants}")
    factors, shape = work.rate_factors, (n_participants, n_classes)
    if factors is not None and factors.shape != (n_participants,):
        raise InputError(f"rate_factors have shape {factors.shape}; give one for each of {n_participants}")
    if factors is not None and not _is_from_zero(factors):
        raise InputError(f"rate_factors go from {factors.min()} to {factors.max()}; give finite ones of at least 0")
    if work.pull is not None:
        _check_pull(work.pull, n_participants, layout)
    if work.contrast is not None:
        _check_contrast(work.contrast, n_participants, layout)
    for name, numbers in (("offsets", work.offsets), ("mixes", work.mixes)):
        if numbers is not None and numbers.shape != shape:
            raise InputError(f"{name} have shape {numbers.shape}; give one for each participant and class, {shape}")
        if numbers is not None and not np.isfinite(numbers).all():
            raise InputError(f"{name} go from {numbers.min()} to {numbers.max()}; give finite ones")


def _check_pull(pull: Pull, n_participants: int, layout: Layout) -> None:
    if pull.anchors.ndim != 2 or pull.anchors.shape[1] != layout.size:
        raise InputError(f"anchors have shape {pull.anchors.shape}; they must be rows of {layout.size} numbers")
    if pull.row.shape != (n_participants,):
        raise InputError(f"row has shape {pull.row.shape}; give one anchor for each of {n_participants}")
    if pull.row.min() < 0 or pull.row.max() >= pull.anchors.shape[0]:
        raise InputError(
            f"row goes from {pull.row.min()} to {pull.row.max()}; there are {pull.anchors.shape[0]} anchors"
        )
    if pull.strength.shape != (layout.size,):
        raise InputError(f"strength has shape {pull.strength.shape}; give one for each of {layout.size} numbers")
    if not _is_from_zero(pull.strength):
        least, most = pull.strength.min(), pull.strength.max()
        raise InputError(f"strength goes from {least} to {most}; give finite ones of at least 0")
    if pull.strength[layout.parameter_size :].any():
        raise InputError(
            f"strength is not 0 on buffers, which take no step; set it to 0 from {layout.parameter_size} on"
        )


def _check_contrast(contrast: Contrast, n_participants: int, layout: Layout) -> None:
    wanted = (n_participants, layout.size)
    if contrast.previous.shape != wanted:
        raise InputError(f"previous has shape {contrast.previous.shape}; it must be {wanted}")
    if contrast.has_previous.shape != wanted[:1] or contrast.has_previous.dtype != np.bool_:
        got = f"{contrast.has_previous.dtype} of shape {contrast.has_previous.shape}"
        raise InputError(f"has_previous is {got}; give yes or no for each of {n_participants}")
    if not 0 <= contrast.mu < np.inf:
        raise OptionError(f"mu is {echo(contrast.mu)}; give a finite number of at least 0")
    if not 0 < contrast.temperature < np.inf:
        raise OptionError(f"temperature is {echo(contrast.temperature)}; give a finite number above 0")


def _is_from_zero(numbers: Vector) -> bool:
    """Return whether all numbers are finite and at least 0; a NaN makes both ends NaN."""
    return bool(numbers.min() >= 0 and numbers.max() < np.inf)


def mini_batches(work: LocalWork, *, sample_size: int) -> Iterator[tuple[Features, Codes]]:
    """Yield, step after step, the features and labels of all participants.

    Several steps are fetched at once, but no more than ``MOST_NUMBERS`` unless one step is larger than that. Features
    have shape ``(n_participants, batch_size, ...)``, labels ``(n_participants, batch_size)``; both contiguous.
    """
    n_participants, n_steps, batch_size = work.draws.shape
    by_step = work.draws.transpose(1, 0, 2)
    at_once = max(1, MOST_NUMBERS // max(1, n_participants * batch_size * sample_size))
    for first in range(0, n_steps, at_once):
        block = by_step[first : first + at_once]
        x, y = work.gather(np.ascontiguousarray(block).reshape(-1))
        features = np.ascontiguousarray(x, dtype=np.float32).reshape(*block.shape, *x.shape[1:])
        labels = np.ascontiguousarray(y).reshape(block.shape)
        yield from zip(features, labels, strict=True)


def summarize_training(models: Models, losses: npt.NDArray[np.float32]) -> Trained:
    """Return what training gave; losses ``(n_steps, n_participants, batch_size)`` are of the weights before a step."""
    exact = losses.astype(np.float64)
    return Trained(
        models=models,
        loss=np.asarray(exact.mean(axis=(0, 2))),
        square_loss=np.asarray(np.square(exact).mean(axis=(0, 2))),
    )


_GROUP_BITS = 24  # bits of a sort key that say whose epoch it is; the others are random


def draw_positions(sizes: Counts, *, keys: Hashes, moment: tuple[int, int], shape: tuple[int, int]) -> Counts:
    """Return the positions, in its window, of the samples of each participant's mini-batches.

    ``keys``: the hash of each one's id (:func:`~fielding.rng.client_key`). Shape ``(n_participants, n_steps,
    batch_size)``. A client goes through its window epoch by epoch, shuffled anew each time, and a batch may reach into
    the next epoch; one with fewer samples than a batch draws with replacement. What a client draws depends on its own
    id and the size of its window alone.

    Examples
    --------
    >>> keys = np.array([7, 8], dtype=np.uint64)
    >>> both = draw_positions(np.array([4, 6]), keys=keys, moment=(1, 0), shape=(2, 2))
    >>> sorted(both[0].ravel().tolist())
    [0, 1, 2, 3]
    """
    n_needed = shape[0] * shape[1]
    local = np.empty((sizes.size, n_needed), dtype=np.int64)
    is_small = sizes < shape[1]
    if is_small.any():
        draws = hashed(moment[0], "batch", moment[1], keys[is_small, np.newaxis], np.arange(n_needed, dtype=np.uint64))
        local[is_small] = (draws % sizes[is_small, np.newaxis].astype(np.uint64)).astype(np.int64)
    large = np.flatnonzero(~is_small)
    if large.size:
        local[large] = _shuffle(sizes[large], keys[large], moment, n_needed)
    return local.reshape(sizes.size, *shape)


def _shuffle(sizes: Counts, keys: Hashes, moment: tuple[int, int], n_needed: int) -> Counts:
    """Return positions in the window of each client, epoch after epoch, shape ``(n_clients, n_needed)``."""
    n_epochs = -(-n_needed // sizes)
    lengths = n_epochs * sizes
    ends = np.cumsum(lengths)
    within = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
    repeated = np.repeat(sizes, lengths)
    first_epoch = np.cumsum(n_epochs) - n_epochs
    group = np.repeat(first_epoch, lengths) + within // repeated
    draws = hashed(moment[0], "batch", moment[1], np.repeat(keys, lengths), within.astype(np.uint64))
    # One sort for all clients: the upper bits keep each client's epoch together, the lower ones shuffle it.
    order = np.argsort((group.astype(np.uint64) << np.uint64(64 - _GROUP_BITS)) | (draws >> np.uint64(_GROUP_BITS)))
    picked = (ends - lengths)[:, np.newaxis] + np.arange(n_needed)
    return np.asarray((within % repeated)[order[picked]])
