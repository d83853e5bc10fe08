"""Which kinds of drift a trace has, over time and between clients: in labels, in inputs, in what labels mean."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fielding._typing import Codes, Counts, Features, Matrix, Vector
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.client.report import row_chunks
from fielding.client.representation.label import shares_of
from fielding.engine.inspection import FEWEST_PAIRS
from fielding.rng import hashed
from fielding.simulation.compared_samples import CellSize, Compared, Pairs, compared_samples
from fielding.simulation.drift_advice import Finding, advice, finding, unknown
from fielding.simulation.probe_model import Compression, Raw, fitted_compression, trained_probe
from fielding.simulation.shift_measures import count_shift, input_shift
from fielding.traces.statistics import MIN_SAMPLES, TraceDescription, dealt_distance, standard_errors
from fielding.traces.trace import Trace

TRAINING_PART, MOST_TRAINED = 4, 6000
"""One in so many samples of the first half of the time trains the probe, and so many at most."""
LEAST_TRAINED = 20
CELLS = CellSize(least=10, most=40)
CALM = 1.15
"""Inputs that lie no further apart than so many times what sampling alone gives count as alike."""
NO_FEATURES = "without features: there are labels alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftKinds:
    """What differs in a trace.

    Parameters
    ----------
    over_time
        Whether label mixes, inputs of a label, and meanings of labels change from interval to interval of a client.
    between_clients
        Whether they differ between clients in the same interval, which is what clusters live on.
    n_trained, n_compared, accuracy
        Samples that the probe was trained on and that were compared, and the share of the latter that it gets right;
        None without features.
    advice
        What to use.
    """

    over_time: dict[str, Finding]
    between_clients: dict[str, Finding]
    n_trained: int
    n_compared: int
    accuracy: float | None
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Looked:
    """Compared samples as the probe sees them; ``rows`` rise, all else stands in their order."""

    rows: Counts
    labels: Codes
    components: Features
    predicted: Counts
    groups: Codes


def drift_kinds(
    trace: Trace, description: TraceDescription, *, on_pair: Callable[[int], None] = lambda _amount: None
) -> DriftKinds:
    """Tell the kinds of drift of a trace apart.

    Parameters
    ----------
    trace
        The samples; without features (or with rows that stand for several samples) labels alone are judged.
    description
        Of this trace; its intervals are compared.
    on_pair
        Told of every pair that was compared: 1.
    """
    interval_of = trace.interval_of(description.interval, align=description.align)
    labels_between = _labels_between(trace, interval_of)
    labels_over_time = _labels_over_time(description)
    x = _features_of(trace)
    trained = np.empty(0, dtype=np.int64) if x is None else _training_rows(trace)
    compression = None if x is None or trained.size < LEAST_TRAINED else fitted_compression(x[trained])
    if x is None or compression is None or compression.strength.size == 0:
        nobody = {kind: unknown(NO_FEATURES if x is None else "from so little") for kind in ("inputs", "meanings")}
        places = {"labels": labels_over_time, **nobody}, {"labels": labels_between, **nobody}
        n_trained, n_compared, accuracy = 0, 0, None
    else:
        compared, looked = _looked_at(trace, interval_of, trained, compression)
        places = (
            {"labels": labels_over_time, **_beyond_labels(compared.over_time, looked, on_pair)},
            {"labels": labels_between, **_beyond_labels(compared.between, looked, on_pair)},
        )
        n_trained, n_compared = int(trained.size), int(looked.rows.size)
        accuracy = float((looked.predicted == looked.labels).mean()) if n_compared else None
    return DriftKinds(
        over_time=places[0],
        between_clients=places[1],
        n_trained=n_trained,
        n_compared=n_compared,
        accuracy=accuracy,
        advice=advice(*places, has_features=x is not None),
    )


# ---- labels ----------------------------------------------------------------------------------------------------


def _labels_over_time(description: TraceDescription) -> Finding:
    """Return what is known of all pairs of intervals already."""
    ratio = description.drift / description.noise if description.drift is not None and description.noise else None
    return finding("labels", ratio, description.excess, description.n_pairs)


def _labels_between(trace: Trace, interval_of: Counts) -> Finding:
    pairs = compared_samples(trace, interval_of, CellSize(least=MIN_SAMPLES)).between
    if not len(pairs):
        return finding("labels", None, None, 0)
    first, second = (
        np.stack([np.bincount(trace.y[rows], trace.weights[rows], len(trace.classes)) for rows in side]).astype(
            np.int64
        )
        for side in (pairs.first, pairs.second)
    )
    distances, expected = np.abs(shares_of(first) - shares_of(second)).sum(axis=1), dealt_distance(first, second)
    # One label alone cannot be dealt in two ways.
    ratio = float(distances.sum() / expected.sum()) if expected.any() else 1.0
    return finding("labels", ratio, standard_errors(distances - expected), len(pairs))


# ---- inputs and meanings ---------------------------------------------------------------------------------------


def _features_of(trace: Trace) -> Raw | None:
    """Return the features of a trace, None if it has none that can be looked at."""
    is_counted = trace.count is not None and int(trace.count.max()) > 1
    if trace.x is None or is_counted or trace.x.dtype.kind not in "fiub" or trace.x.size == 0:
        return None
    return trace.x


def _training_rows(trace: Trace) -> Counts:
    """Return the rows that the probe is trained on, rising; nothing is measured on them."""
    early = np.flatnonzero(trace.time <= np.median(trace.time))
    chance = hashed(0, "probe rows", early.astype(np.uint64))
    picked = early[np.argsort(chance, kind="stable")[: min(MOST_TRAINED, early.size // TRAINING_PART)]]
    return np.sort(picked)


def _looked_at(
    trace: Trace, interval_of: Counts, trained: Counts, compression: Compression
) -> tuple[Compared, _Looked]:
    """Return what is compared, and how the probe sees it."""
    x = trace.x
    is_usable = np.ones(trace.n_rows, dtype=np.bool_)
    is_usable[trained] = False
    compared = compared_samples(trace, interval_of, CELLS, is_usable=is_usable)
    rows = np.union1d(compared.over_time.rows(), compared.between.rows())
    with ONE_BLAS_THREAD:
        components = _components(x, rows, compression)
        probe = trained_probe(
            _components(x, trained, compression),
            trace.y[trained].astype(np.int32),
            n_classes=len(trace.classes),
            strength=compression.strength,
        )
        looked = _Looked(
            rows=rows,
            labels=trace.y[rows],
            components=components,
            predicted=probe.predicted(components),
            groups=probe.grouped(components),
        )
    return compared, looked


def _components(x: Raw | None, rows: Counts, compression: Compression) -> Features:
    """Return the components of some rows, piece by piece, so that large samples are never all in memory as floats."""
    found = np.zeros((rows.size, compression.strength.size), dtype=np.float32)
    for part in row_chunks(rows.size, 2048):
        found[part] = found[part] if x is None else compression.apply(x[rows[part]])
    return found


def _beyond_labels(pairs: Pairs, looked: _Looked, on_pair: Callable[[int], None]) -> dict[str, Finding]:
    """Return whether inputs and meanings differ between the two sides of pairs."""
    shifts = np.full((len(pairs), 7), np.nan)
    for row, sides in enumerate(zip(pairs.first, pairs.second, strict=True)):
        at = np.searchsorted(looked.rows, np.concatenate(sides))
        is_second = np.arange(at.size) >= sides[0].size
        features, labels = looked.components[at], looked.labels[at]
        predicted, groups = looked.predicted[at], looked.groups[at]
        told = [input_shift(features, one, is_second) for one in (labels, predicted, groups)]
        for seen in (predicted, groups):
            told += [count_shift(seen, labels, is_second), count_shift(labels, seen, is_second)]
        shifts[row] = [np.nan if one is None else one for one in told]
        on_pair(1)
    return {"inputs": _inputs(shifts), "meanings": _meanings(shifts)}


def _inputs(shifts: Matrix) -> Finding:
    """Return whether inputs differ, given the label, given the prediction, and within groups found without labels.

    Given the label alone, exchanged labels would look like other inputs; given the prediction alone, another label mix
    would, since the probe errs, and most of all where clients contradict each other.
    """
    # Two sides that share no group differ so much that groups tell nothing more.
    in_groups = np.where(np.isnan(shifts[:, 2]), shifts[:, 1], shifts[:, 2])
    return finding("inputs", *_least(shifts[:, 0], shifts[:, 1], in_groups))


def _meanings(shifts: Matrix) -> Finding:
    """Return whether labels mean something else, where inputs are alike.

    What a label is taken for must change, which another label mix does not do, and so must what is called so. What
    it is taken for: by the probe, or by groups that were found without labels, for where clients contradict each
    other a probe that learned from all of them cannot tell their labels apart.
    """
    calm = shifts[shifts[:, 1] <= CALM]
    if calm.shape[0] < FEWEST_PAIRS <= shifts.shape[0]:
        why = f"apart from inputs: they are alike in {calm.shape[0]:,} of {shifts.shape[0]:,} pairs"
        return unknown(why, n_pairs=calm.shape[0])
    by_probe, by_groups = _least(calm[:, 3], calm[:, 4]), _least(calm[:, 5], calm[:, 6])
    known = [one for one in (by_probe, by_groups) if one[2] >= FEWEST_PAIRS] or [by_groups]
    return finding("meanings", *max(known, key=lambda one: -np.inf if one[1] is None else one[1]))


def _least(*columns: Vector) -> tuple[float | None, float | None, int]:
    """Return ratio, excess and number of pairs of the measure that says least."""
    found: list[tuple[float | None, float | None, int]] = []
    for column in columns:
        known = column[~np.isnan(column)]
        if known.size == 0:
            return None, None, 0
        found.append((float(known.mean()), standard_errors(known - 1.0), int(known.size)))
    return min(found, key=lambda one: one[1] or 0.0)
