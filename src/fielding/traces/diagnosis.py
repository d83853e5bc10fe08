"""What a trace or a stream of reports is like, whether and how it drifts, and which settings suit it.

:func:`inspect_trace` and :func:`inspect_reports` measure drift, delta and Delta in the paper's terms;
:func:`diagnose_drift` tells the kinds of drift apart, over time and between clients: in labels, in inputs, in what
labels mean. A difference is always measured in units of what sampling alone would make of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Features, Floats, Mask, Matrix, Vector
from fielding.blas_threads import ONE_BLAS_THREAD
from fielding.client.drift import AnyChange
from fielding.client.drift.pearson import pearson
from fielding.client.report import row_chunks
from fielding.client.representation.label import shares_of
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.heterogeneity import spread_within
from fielding.coordinator.policy import Policy
from fielding.distance import metric_named
from fielding.rng import client_keys, hashed, stream
from fielding.traces.histograms import WindowPlan, report_stream
from fielding.traces.probe_model import Compression, Raw, fit_compression, train_probe
from fielding.traces.reports import ReportStream
from fielding.traces.statistics import (
    MIN_SAMPLES,
    ReportsDescription,
    TraceDescription,
    dealt_distance,
    describe_reports,
    describe_trace,
    standard_errors,
)
from fielding.traces.trace import Trace

Kind: TypeAlias = Literal["labels", "inputs", "meanings"]
KINDS: tuple[Kind, ...] = ("labels", "inputs", "meanings")
Labels: TypeAlias = npt.NDArray[np.integer]  # a class per sample, shape (n_samples,)
SURE, UNSURE = 3.0, 2.0  # standard errors above noise from which on drift counts as seen, and as possible
FEWEST_PAIRS = 10  # with fewer pairs of intervals, no drift could ever be seen surely
LITTLE, LITTLE_SHIFT = 1.2, 1.05
"""Drift of labels, and of inputs or meanings, below so many times the noise is little: most pairs do not differ."""
CALM = 1.15  # inputs that lie no further apart than so many times what sampling alone gives count as alike
MOST_CLIENTS, MOST_PAIRS = 200, 300  # clients that are looked at, and pairs of cells of each sort
AT_A_TIME = 40  # pairs of one interval that are taken before others of the next: no single interval shall speak for all
LEAST_IN_CELL, MOST_IN_CELL = 10, 40
"""Samples without which a cell is left out, and samples of a cell that the probe looks at."""
LEAST_SKILL = 0.1
"""Share of what the most frequent label gets wrong that the probe must get right for a "no" to count."""
HALF_APART = "pairs half of the time apart"
TRAINING_PART, LEAST_TRAINED, MOST_TRAINED = 4, 20, 6000
"""One in so many samples of the first half of the time trains the probe, and so many at least and at most."""
POOL_ADVICE = (
    "samples without clients and times do not drift by themselves: choose a scenario that deals them, "
    'for example trace.scenario = "mixed" (docs/scenarios.md)'
)


# ---- drift, delta and Delta --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstClusters:
    """How far apart the clients of one cluster lie at the first step.

    ``delta_within`` is the paper's Delta: the largest distance between two clients of one cluster; None if all are
    singletons. Not exact: a cluster was too large for all its pairs, and the number is a lower bound.
    """

    n_clusters: int
    delta_within: float | None
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsInspection:
    """A stream of reports: its numbers, and the spread of its first clusters."""

    reports: ReportsDescription
    clusters: FirstClusters


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceInspection:
    """A trace: its numbers, those of its windowed histograms with a report at every change, and whether it drifts."""

    trace: TraceDescription
    reports: ReportsDescription
    clusters: FirstClusters
    verdict: str


def inspect_reports(reports: ReportStream, metric: str) -> ReportsInspection:
    """Describe reports under a metric, and cluster those of the first step."""
    coordinator = Coordinator(Policy(metric=metric, kind=reports.kind))
    step, batch = next(iter(reports))
    decision = coordinator.update(batch, step=step)
    registry = coordinator.registry
    spread = spread_within(
        registry.active_points(),
        registry.membership[registry.active_rows()],
        metric=coordinator.metric,
        rng=stream(0, "spread"),
    )
    return ReportsInspection(
        reports=describe_reports(reports, metric_named(metric)),
        clusters=FirstClusters(n_clusters=decision.n_live, delta_within=spread.largest, is_exact=spread.is_exact),
    )


def inspect_trace(trace: Trace, plan: WindowPlan, metric: str) -> TraceInspection:
    """Describe a trace, and the reports that its clients would send if they told every change."""
    description = describe_trace(trace, plan.interval, align=plan.align)
    reports = inspect_reports(report_stream(trace, plan=plan, drift_test=AnyChange()), metric)
    return TraceInspection(
        trace=description, reports=reports.reports, clusters=reports.clusters, verdict=drift_verdict(description)
    )


def drift_verdict(trace: TraceDescription) -> str:
    """Return in words whether label shares drift beyond sampling noise, and on what that rests."""
    if trace.drift is None or trace.noise is None or trace.excess is None:
        if trace.n_intervals == 1:
            return "cannot be told: all samples fall into one interval; take a shorter --interval"
        return (
            f"cannot be told: no client has two consecutive intervals with at least {trace.min_samples} samples each; "
            "take a longer --interval"
        )
    basis = f"label shares move by {trace.drift:.2g} from interval to interval, sampling alone gives {trace.noise:.2g}"
    basis += f" ({trace.n_pairs:,} pairs of intervals of {trace.n_clients_compared:,} clients)"
    if trace.excess >= SURE:
        return f"{'yes' if trace.drift >= LITTLE * trace.noise else 'yes, but little'}: {basis}"
    if trace.n_pairs < FEWEST_PAIRS:
        return f"cannot be told from so little: {basis}"
    return f"{'perhaps' if trace.excess >= UNSURE else 'no'}: {basis}"


# ---- findings and advice -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Whether one kind of difference is there.

    ``difference`` is in units of what sampling alone would make of it, None if nothing could be compared; ``excess``
    tells how many standard errors it lies above 1.
    """

    difference: float | None
    excess: float | None
    n_pairs: int
    verdict: str

    @property
    def is_sure(self) -> bool:
        """Whether the difference is there beyond doubt, large or small."""
        return self.verdict.startswith("yes")

    @property
    def matters(self) -> bool:
        """Whether the difference is there beyond doubt, and not a little one."""
        return self.verdict.startswith("yes:")

    @property
    def is_open(self) -> bool:
        """Whether the data cannot tell."""
        return self.verdict.startswith("cannot")

    @property
    def is_unclear(self) -> bool:
        """Whether the data cannot tell, or not for sure."""
        return self.is_open or self.verdict.startswith("perhaps")


def assess(
    kind: Kind, difference: float | None, excess: float | None, n_pairs: int, *, pairs: str = "pairs"
) -> Finding:
    """Return what a measured difference means; ``pairs``: what was compared, in words.

    Examples
    --------
    >>> assess("inputs", 1.62, 14.2, 300).verdict
    'yes: 1.6 times what sampling alone gives (300 pairs, 14.2 standard errors above)'
    >>> assess("inputs", 1.62, 1.3, 3).verdict
    'cannot be told from so little (3 pairs); another --interval may give more'
    """
    if difference is None or excess is None or (n_pairs < FEWEST_PAIRS and excess < SURE):
        return open_finding(f"from so little ({n_pairs:,} pairs); another --interval may give more", n_pairs=n_pairs)
    little = LITTLE if kind == "labels" else LITTLE_SHIFT
    surely = "yes" if difference >= little else "yes, but little"
    answer = surely if excess >= SURE else "perhaps" if excess >= UNSURE else "no"
    basis = (
        f"{difference:.2g} times what sampling alone gives ({n_pairs:,} {pairs}, {excess:.1f} standard errors above)"
    )
    return Finding(difference=difference, excess=excess, n_pairs=n_pairs, verdict=f"{answer}: {basis}")


def open_finding(why: str, *, n_pairs: int = 0) -> Finding:
    """Return that the data cannot tell, and why."""
    return Finding(difference=None, excess=None, n_pairs=n_pairs, verdict=f"cannot be told {why}")


def advise(*places: Mapping[str, Finding], has_features: bool) -> str:
    """Return in a line what to use.

    Examples
    --------
    >>> yes, no = assess("labels", 2.0, 9.0, 99), assess("labels", 1.0, 0.0, 99)
    >>> advise({"labels": yes, "inputs": no, "meanings": no}, has_features=True)
    'only label mixes differ: serving.correction = "prior" with method "global", or "fielding" where clusters pay'
    """
    labels = any(place["labels"].is_sure for place in places)
    beyond = [kind for kind in KINDS[1:] if any(place[kind].matters for place in places)]
    if beyond:
        representation = "auto" if len(beyond) > 1 else {"inputs": "class-means", "meanings": "confusion"}[beyond[0]]
        words = " and ".join({"inputs": "inputs", "meanings": "meanings of labels"}[kind] for kind in beyond)
        other = "" if representation == "auto" else ' (or "auto")'
        text = f'{words} differ, which no correction mends: method "fielding", coordinator.representation = '
        text += f'"{representation}"{other}'
        return f'{text}, and serving.correction = "prior" for the label mixes' if labels else text
    correction = 'serving.correction = "prior" with method "global", or "fielding" where clusters pay'
    is_unclear = any(place[kind].is_unclear for place in places for kind in KINDS[1:])
    is_open = all(place["labels"].is_open for place in places)
    if has_features and is_unclear and not is_open:
        what = f"label mixes differ: {correction}" if labels else 'method "global" is the safe choice'
        return f'{what}. Inputs or meanings may differ, which is not clear: try representation "auto" beside it'
    if labels and has_features:
        return f"only label mixes differ: {correction}"
    if labels:
        return f"label mixes differ: {correction}. Whether inputs or meanings differ, labels alone cannot tell"
    if is_open:
        return 'too little to tell: method "global" is the safe choice'
    what = "nothing differs" if has_features else "label mixes do not differ"
    return f'{what} beyond sampling noise: method "global"; clusters would only dilute training'


def answer_drift(trace: TraceDescription, over_time: Mapping[str, Finding]) -> str:
    """Return in a line whether anything drifts: label shares, else inputs or what labels mean."""
    by_labels = drift_verdict(trace)
    if by_labels.startswith(("yes", "cannot")):
        return by_labels
    _, _, basis = by_labels.partition(": ")
    changing = [NAMES[kind] for kind in KINDS if over_time[kind].is_sure]
    if changing:
        return f"yes: {' and '.join(changing)} change; {basis}"
    if any(over_time[kind].is_open for kind in KINDS[1:]):
        return f"not in labels, beyond that it cannot be told from here, ask `fielding recommend`: {basis}"
    return by_labels


NAMES: dict[str, str] = {"labels": "label mixes", "inputs": "inputs", "meanings": "meanings of labels"}


def describe_kinds(over_time: Mapping[str, Finding], between: Mapping[str, Finding]) -> str:
    """Return in a line which kinds of drift there are, over time and between clients, and which stay open.

    Examples
    --------
    >>> yes, no = assess("labels", 2.0, 9.0, 99), assess("labels", 1.0, 0.0, 99)
    >>> calm = {"labels": no, "inputs": no, "meanings": no}
    >>> describe_kinds({**calm, "labels": yes}, {**calm, "inputs": open_finding("from so little")})
    'over time label mixes change; between clients nothing differs (open: inputs)'
    """

    def words(place: Mapping[str, Finding], verbs: tuple[str, str]) -> str:
        sure = [NAMES[kind] + ("" if place[kind].matters else " (a little)") for kind in KINDS if place[kind].is_sure]
        unclear = [NAMES[kind] for kind in KINDS if place[kind].is_unclear]
        if len(unclear) == len(KINDS):
            return "nothing can be told"
        told = f"{' and '.join(sure)} {verbs[0]}" if sure else f"nothing {verbs[1]}"
        return f"{told} (open: {', '.join(unclear)})" if unclear else told

    return (
        f"over time {words(over_time, ('change', 'changes'))}; between clients {words(between, ('differ', 'differs'))}"
    )


def judge_grouping(between: Mapping[str, Finding]) -> str:
    """Return in a line whether groups of clients with a model each look worthwhile.

    Examples
    --------
    >>> yes, no = assess("labels", 2.0, 9.0, 99), assess("labels", 1.0, 0.0, 99)
    >>> judge_grouping({"labels": yes, "inputs": no, "meanings": no}).partition(":")[0]
    'perhaps'
    """
    beyond = [NAMES[kind] for kind in KINDS[1:] if between[kind].matters]
    if beyond:
        return f"yes: {' and '.join(beyond)} differ between clients, which one model cannot serve alike"
    try_it = "ask `fielding recommend`"
    if between["labels"].is_sure:
        return f"perhaps: label mixes differ between clients, which a correction mends without groups, too; {try_it}"
    if any(one.is_unclear for one in between.values()):
        return f"cannot be told from here: it is not clear whether clients differ; {try_it}"
    return "no: clients do not differ beyond sampling noise, and groups would only dilute training"


# ---- kinds of drift ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftDiagnosis:
    """What differs in a trace.

    Whether label mixes, inputs of a label, and meanings of labels change from interval to interval of a client
    (``over_time``), and whether they differ between clients in the same interval, which is what clusters live on.
    ``accuracy`` of the probe: on what was compared; None without features.
    """

    over_time: dict[str, Finding]
    between_clients: dict[str, Finding]
    n_trained: int
    n_compared: int
    accuracy: float | None
    advice: str


def diagnose_drift(
    trace: Trace, description: TraceDescription, *, on_pair: Callable[[int], None] = lambda _amount: None
) -> DriftDiagnosis:
    """Tell the kinds of drift of a trace apart.

    Inputs and meanings are looked at through a small probe model, trained on early samples that are not compared.

    Without features (or with rows that stand for several samples) labels alone are compared; ``on_pair`` is called with
    1 after every pair.
    """
    interval_of = trace.interval_of(description.interval, align=description.align)
    ratio = description.drift / description.noise if description.drift is not None and description.noise else None
    over_time = {"labels": assess("labels", ratio, description.excess, description.n_pairs)}
    _, neighbours, halves = pair_cells(trace, interval_of, least=MIN_SAMPLES)
    between, later = {"labels": _compare_labels(trace, neighbours)}, _compare_labels(trace, halves, HALF_APART)
    if later.is_sure and (later.excess or 0.0) > (over_time["labels"].excess or 0.0):
        over_time["labels"] = later
    is_counted = trace.count is not None and int(trace.count.max()) > 1
    has_features = trace.x is not None and not is_counted and trace.x.dtype.kind in "fiub" and trace.x.size > 0
    n_trained, n_compared, accuracy = 0, 0, None
    x = trace.x if has_features else None
    trained = np.empty(0, dtype=np.int64)  # rows that the probe is trained on; nothing is measured on them
    if x is not None:
        early = np.flatnonzero(trace.time <= np.median(trace.time))
        chance = hashed(0, "probe rows", early.astype(np.uint64))
        trained = np.sort(early[np.argsort(chance, kind="stable")[: min(MOST_TRAINED, early.size // TRAINING_PART)]])
    compression = None if x is None or trained.size < LEAST_TRAINED else fit_compression(x[trained])
    if x is None or compression is None or compression.strength.size == 0:
        why = "from so little" if has_features else "without features: there are labels alone"
        for place in (over_time, between):
            place.update({kind: open_finding(why) for kind in KINDS[1:]})
    else:
        is_usable = np.ones(trace.n_rows, dtype=np.bool_)
        is_usable[trained] = False
        pairs = pair_cells(trace, interval_of, least=LEAST_IN_CELL, most=MOST_IN_CELL, is_usable=is_usable)
        rows = np.unique(np.concatenate([some.rows() for some in pairs]))
        labels = trace.y[rows]
        with ONE_BLAS_THREAD:
            components = _compress(x, rows, compression)
            probe = train_probe(
                _compress(x, trained, compression),
                trace.y[trained].astype(np.int32),
                n_classes=len(trace.classes),
                strength=compression.strength,
            )
            predicted, groups = probe.predict(components), probe.group(components)
        n_trained, n_compared = int(trained.size), int(rows.size)
        accuracy = float((predicted == labels).mean()) if n_compared else None
        usual = float(np.bincount(labels).max() / n_compared) if n_compared else 1.0
        apart: dict[str, Finding] = {}
        for place, some in zip((over_time, between, apart), pairs, strict=True):
            shifts = np.full((len(some), 8), np.nan)
            for row, (first, second) in enumerate(zip(some.first, some.second, strict=True)):
                at = np.searchsorted(rows, np.concatenate([first, second]))
                is_second = np.arange(at.size) >= first.size
                mine, guessed, grouped = labels[at], predicted[at], groups[at]
                measured = [input_shift(components[at], one, is_second) for one in (mine, guessed, grouped)]
                for seen in (guessed, grouped):
                    measured += [count_shift(seen, mine, is_second), count_shift(mine, seen, is_second)]
                measured.append(input_shift(components[at], np.zeros_like(mine), is_second))
                shifts[row] = [np.nan if one is None else one for one in measured]
                on_pair(1)
            words = HALF_APART if place is apart else "pairs"
            place.update(inputs=_assess_inputs(shifts, words), meanings=_assess_meanings(shifts, words))
            is_weak = accuracy is not None and accuracy - usual < LEAST_SKILL * (1.0 - usual)
            if is_weak and place["meanings"].verdict.startswith("no"):
                skill = f"it is right in {accuracy:.0%}, the most frequent label is {usual:.0%}"
                place["meanings"] = open_finding(f"from here: the probe is too weak, {skill}", n_pairs=len(some))
        for kind, found in apart.items():  # a change that came once is seen by few neighbours
            if found.is_sure and (found.excess or 0.0) > (over_time[kind].excess or 0.0):
                over_time[kind] = found
    return DriftDiagnosis(
        over_time=over_time,
        between_clients=between,
        n_trained=n_trained,
        n_compared=n_compared,
        accuracy=accuracy,
        advice=advise(over_time, between, has_features=has_features),
    )


def _compare_labels(trace: Trace, pairs: "Pairs", words: str = "pairs") -> Finding:
    """Return whether label mixes differ within pairs of cells."""
    if not len(pairs):
        return assess("labels", None, None, 0)
    first, second = (
        np.stack([np.bincount(trace.y[rows], trace.weights[rows], len(trace.classes)) for rows in side]).astype(
            np.int64
        )
        for side in (pairs.first, pairs.second)
    )
    distances, expected = np.abs(shares_of(first) - shares_of(second)).sum(axis=1), dealt_distance(first, second)
    # One label alone cannot be dealt in two ways.
    ratio = float(distances.sum() / expected.sum()) if expected.any() else 1.0
    return assess("labels", ratio, standard_errors(distances - expected), len(pairs), pairs=words)


def _compress(x: Raw, rows: Counts, compression: Compression) -> Features:
    """Return the components of some rows, piece by piece, so that large samples are never all in memory as floats."""
    found = np.zeros((rows.size, compression.strength.size), dtype=np.float32)
    for part in row_chunks(rows.size, 2048):
        found[part] = compression.apply(x[rows[part]])
    return found


def _assess_inputs(shifts: Matrix, pairs: str) -> Finding:
    """Return whether inputs differ, given the label, given the prediction, and within groups found without labels.

    Given the label alone, exchanged labels would look like other inputs; given the prediction alone, another label mix
    would, since the probe errs, and most of all where clients contradict each other.
    """
    # Two sides that share no group differ so much that groups tell nothing more.
    in_groups = np.where(np.isnan(shifts[:, 2]), shifts[:, 1], shifts[:, 2])
    return assess("inputs", *_smallest(shifts[:, 0], shifts[:, 1], in_groups), pairs=pairs)


def _assess_meanings(shifts: Matrix, pairs: str) -> Finding:
    """Return whether labels mean something else, where inputs are alike.

    What a label is taken for must change, which another label mix does not do, and so must what is called so. What
    it is taken for: by the probe, or by groups that were found without labels, for where clients contradict each
    other a probe that learned from all of them cannot tell their labels apart. Nor can it tell apart what they
    contradict each other in, if it errs as often in one as in the other; then the inputs of a label say it, which
    differ where inputs as a whole do not, and whatever the label mix does are alike while labels mean the same.
    """
    calm, alike = shifts[shifts[:, 1] <= CALM], shifts[(shifts[:, 7] <= CALM) & ~(shifts[:, 2] > CALM)]
    by_label = _smallest(alike[:, 0], 1.0 + alike[:, 0] - alike[:, 7])
    known = [by_label] if by_label[2] >= FEWEST_PAIRS else []
    if calm.shape[0] < FEWEST_PAIRS <= shifts.shape[0] and not known:
        why = f"apart from inputs: they are alike in {calm.shape[0]:,} of {shifts.shape[0]:,} pairs"
        return open_finding(why, n_pairs=calm.shape[0])
    by_probe, by_groups = _smallest(calm[:, 3], calm[:, 4]), _smallest(calm[:, 5], calm[:, 6])
    known += [one for one in (by_probe, by_groups) if one[2] >= FEWEST_PAIRS]
    surest = max(known or [by_groups], key=lambda one: -np.inf if one[1] is None else one[1])
    return assess("meanings", *surest, pairs=pairs)


def _smallest(*columns: Vector) -> tuple[float | None, float | None, int]:
    """Return ratio, excess and number of pairs of the measure with the smallest excess."""
    found: list[tuple[float | None, float | None, int]] = []
    for column in columns:
        known = column[~np.isnan(column)]
        if known.size == 0:
            return None, None, 0
        found.append((float(known.mean()), standard_errors(known - 1.0), int(known.size)))
    return min(found, key=lambda one: one[1] or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Verdict:
    """Whether and how a trace drifts, whether groups look worthwhile, and what to use, each in a sentence.

    ``interval``: between which moments drift was measured; ``found``: what the sentences rest on.
    """

    drift: str
    kinds: str
    grouping: str
    advice: str
    interval: str
    found: DriftDiagnosis

    def __repr__(self) -> str:
        """Return the sentences, one per line."""
        return "\n".join(f"{QUESTIONS[name]} {getattr(self, name)}" for name in QUESTIONS)


QUESTIONS = {
    "drift": "does it drift beyond sampling noise?",
    "kinds": "in which way?",
    "grouping": "does grouping look worthwhile?",
    "advice": "what to use:",
}


def judge_trace(
    trace: Trace, description: TraceDescription, *, on_pair: Callable[[int], None] = lambda _amount: None
) -> Verdict:
    """Return the verdict on a trace; ``on_pair`` is called with 1 after every pair that was compared."""
    found = diagnose_drift(trace, description, on_pair=on_pair)
    return Verdict(
        drift=answer_drift(description, found.over_time),
        kinds=describe_kinds(found.over_time, found.between_clients),
        grouping=judge_grouping(found.between_clients),
        advice=found.advice,
        interval=str(description.interval),
        found=found,
    )


# ---- pairs of cells ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """Pairs of cells, a cell being what one client got in one interval.

    ``first`` and ``second``: the rows of the trace in the two cells of each pair.
    """

    first: tuple[Counts, ...]
    second: tuple[Counts, ...]

    def __len__(self) -> int:
        return len(self.first)

    def rows(self) -> Counts:
        """Return all rows that have a part in a pair, rising."""
        return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *self.first, *self.second]))


def pair_cells(
    trace: Trace, interval_of: Counts, *, least: int, most: int | None = None, is_usable: Mask | None = None
) -> tuple[Pairs, Pairs, Pairs]:
    """Choose pairs of cells to compare, at a bounded cost; the same for equal traces.

    ``least``: samples without which a cell is left out; ``most``: rows that are taken of a cell, chosen by their hash.
    Returns pairs over time (adjacent intervals of one client), between clients (two clients in the same interval), and
    of a client half of its time apart; of the latter two, no cell is in two pairs.
    """
    keys = client_keys(trace.client_ids)
    is_chosen = np.zeros(keys.size, dtype=np.bool_)
    is_chosen[np.argsort(hashed(0, "compared clients", keys), kind="stable")[:MOST_CLIENTS]] = True
    rows = np.flatnonzero(is_chosen[trace.client] if is_usable is None else is_chosen[trace.client] & is_usable)
    # Cells by client and then by interval, so the next interval of a client, if it has one, stands next.
    chance = hashed(0, "compared rows", rows.astype(np.uint64))
    rows = rows[np.lexsort((chance, interval_of[rows], trace.client[rows]))]
    place = trace.client[rows].astype(np.int64) * (int(interval_of.max()) + 2) + interval_of[rows]
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    ends = np.append(starts[1:], rows.size)
    n_samples = np.add.reduceat(trace.weights[rows], starts) if rows.size else np.empty(0, dtype=np.int64)
    enough = np.flatnonzero(n_samples >= least)
    stops = ends if most is None else np.minimum(ends, starts + most)
    cells = [np.sort(rows[starts[cell] : stops[cell]]) for cell in enough.tolist()]
    heads = rows[starts[enough]]
    client, interval = trace.client[heads].astype(np.int64), interval_of[heads].astype(np.int64)
    order = hashed(0, "compared cells", interval.astype(np.uint64), keys[client]).argsort().argsort()

    def pairs(first: Counts, second: Counts) -> Pairs:
        return Pairs(
            first=tuple(cells[cell] for cell in first.tolist()), second=tuple(cells[cell] for cell in second.tolist())
        )

    earlier = np.flatnonzero((np.diff(client) == 0) & (np.diff(interval) == 1))
    chosen = earlier[_take_in_turn(interval[earlier], order[earlier], MOST_PAIRS)]
    others = _take_in_turn(interval, order, 2 * MOST_PAIRS)
    by_interval = others[np.lexsort((order[others], interval[others]))]
    starts = np.flatnonzero(np.diff(interval[by_interval], prepend=-1))
    sizes = np.diff(starts, append=by_interval.size)
    rank = np.arange(by_interval.size) - np.repeat(starts, sizes)
    left = np.flatnonzero((rank % 2 == 0) & (rank + 1 < np.repeat(sizes, sizes)))
    begins = np.flatnonzero(np.diff(client, prepend=-1))
    n_cells = np.diff(begins, append=client.size)
    half = np.repeat(n_cells // 2, n_cells)
    early = np.flatnonzero((np.arange(client.size) - np.repeat(begins, n_cells) < half) & (half > 1))
    early = early[_take_in_turn(interval[early], order[early], MOST_PAIRS)]
    return (
        pairs(chosen, chosen + 1),
        pairs(by_interval[left], by_interval[left + 1]),
        pairs(early, early + half[early]),
    )


def _take_in_turn(interval: Counts, order: Counts, most: int) -> Counts:
    """Return which cells are taken: some of an interval, then of the next, intervals in an order left to chance."""
    by_interval = np.lexsort((order, interval))
    starts = np.flatnonzero(np.diff(interval[by_interval], prepend=-1))
    rank = np.arange(by_interval.size) - np.repeat(starts, np.diff(starts, append=by_interval.size))
    chance = hashed(0, "compared intervals", interval[by_interval].astype(np.uint64))
    return by_interval[np.lexsort((rank, chance, rank // AT_A_TIME))][:most]


# ---- shifts within classes ---------------------------------------------------------------------------------------
# Each measure is 1 on average if the samples of a class could have been dealt to the two groups the other way round,
# for any sizes of the groups and classes, and whatever the label mix does.


def input_shift(features: Floats, classes: Labels, is_second: Mask) -> float | None:
    """Return how far the mean features of classes lie apart between two groups; None if no class tells.

    The squared difference of the means of a class over what chance would make of it, mean over features, then over
    classes, which count by their samples less two. The spread of a class is that of both groups together: the mean of
    the ratio over all ways to deal the samples is 1 exactly, and it is never above the samples of a class less one.

    Examples
    --------
    >>> features, is_second = np.array([[0.0], [0.1], [5.0], [5.1]]), np.array([False, False, True, True])
    >>> round(input_shift(features, np.zeros(4, dtype=np.int64), is_second), 3)
    2.999
    """
    _, code = np.unique(classes, return_inverse=True)
    first, second = (np.bincount(code[side], minlength=int(code.max()) + 1) for side in (~is_second, is_second))
    # Of two samples of a class, the difference is the spread.
    compared = np.flatnonzero((first > 0) & (second > 0) & (first + second >= 3))
    if compared.size == 0:
        return None

    def sum_by_class(values: Matrix, code: Labels) -> Matrix:
        return np.asarray((compared[:, np.newaxis] == code).astype(np.float64) @ values)

    n_first, n_second = (one[compared, np.newaxis].astype(np.float64) for one in (first, second))
    total = n_first + n_second
    exact = features - features.mean(axis=0, dtype=np.float64)
    sums, later = sum_by_class(exact, code), sum_by_class(exact[is_second], code[is_second])
    deviation = np.maximum(sum_by_class(exact**2, code) - sums**2 / total, 0.0)
    difference = (sums - later) / n_first - later / n_second
    explained = n_first * n_second / total * difference**2 * (total - 1.0)
    # A feature that is the same throughout a class says nothing: as chance would have it.
    ratio = np.divide(explained, deviation, out=np.ones_like(explained), where=deviation > 1e-9 * total)
    return float(np.average(ratio.mean(axis=1), weights=(total - 2.0)[:, 0]))


def count_shift(seen: Labels, classes: Labels, is_second: Mask) -> float | None:
    """Return how far what is seen within classes differs between two groups; None if no class tells.

    Pearson's statistics, summed over classes, over the sum of their exact means over all ways to deal; 1, as chance
    would have it, if within each class all are the same.

    Examples
    --------
    >>> seen, is_second = np.array([0, 0, 0, 1, 1, 1]), np.array([False, False, False, True, True, True])
    >>> count_shift(seen, np.zeros(6, dtype=np.int64), is_second)
    5.0
    """
    values, column = np.unique(seen, return_inverse=True)
    kinds, row = np.unique(classes, return_inverse=True)
    counts = np.zeros((2, kinds.size, values.size), dtype=np.int64)
    np.add.at(counts, (is_second.astype(np.int64), row, column), 1)
    sizes = counts.sum(axis=2)
    # Pearson's statistic has moments from four samples on.
    compared = np.flatnonzero((sizes.min(axis=0) > 0) & (sizes.sum(axis=0) >= 4))
    if compared.size == 0:
        return None
    found = pearson(counts[0, compared], counts[1, compared])
    expected = float(found.mean.sum())
    return float(found.statistic.sum()) / expected if expected > 0.0 else 1.0
