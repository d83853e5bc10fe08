"""Why a client is where it is: what it reported, how far that was from the centers, and what was decided of it.

The logs hold who reported what and who was where. A center is a mean of what its active members reported last (of
those that are not far out, if groups are robust), so every center that decided something can be computed again.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from fielding._typing import ClientId, Floats, Json, Membership, Vector
from fielding.coordinator.assignment import center_of, nearest_clusters
from fielding.coordinator.points import Points
from fielding.coordinator.policy import Policy, policy_from
from fielding.distance import Metric, metric_named
from fielding.errors import CheckpointError, InputError, echo
from fielding.records.run_checkpoint import load_run
from fielding.records.run_folder import CHECKPOINTS, EVENTS, newest_checkpoint
from fielding.reporting.charts.experts import WORDS
from fielding.reporting.charts.histories import LARGEST, NOWHERE, ids_in_order, label_names, last_round, pick_evenly
from fielding.reporting.formatting import digits
from fielding.reporting.numbers.run_record import Changes, ClientTests, Row, RunRecord, parse_line, read_run

MOST_CHANGES = 5  # features whose change is told
LEAST_CHANGE = 0.005  # a smaller one is not told
MOST_LISTED = 20  # rounds, or evaluations, that a line of a history holds
SAME = 1e-6  # figures of a log that differ by no more are the same
CENTER_SHIFTS = ("center-shift", "learned-tau")  # triggers that compare the shift of a center with a threshold


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Why:
    """The history of a client, or what happened to it in a round and why.

    Parameters
    ----------
    record
        All of it as plain values, as ``fielding show --client --json`` prints them.
    text
        The same in words, several lines.
    """

    record: Mapping[str, Json]
    text: str

    def __repr__(self) -> str:
        """Return the words."""
        return self.text


def explain_client(folder: Path, client: ClientId, round_index: int | None = None) -> Why:
    """Return the history of a client of a run, or why what happened to it in a round did.

    ``client`` may be the text of an id. InputError if the run has no such client or round.
    """
    run = read_run(folder)
    known = find_client(run, client)
    return client_history(run, known) if round_index is None else round_reason(run, known, round_index)


def client_ids(run: RunRecord) -> list[ClientId]:
    """Return all clients that a run knows: whole numbers rising, then texts rising."""
    known = set(ids_in_order(run.memberships())) | set(ids_in_order(run.concepts()))
    last = run.last_test()
    known |= set() if last is None else set(last.client_ids)
    return sorted(known, key=lambda client: (isinstance(client, str), client))


def find_client(run: RunRecord, client: ClientId) -> ClientId:
    """Return the id of a client of a run, which may be given as a text; InputError with the nearest if it has none."""
    by_text = {str(one): one for one in client_ids(run)}
    if str(client) in by_text:
        return by_text[str(client)]
    near = get_close_matches(str(client), list(by_text), n=1, cutoff=0.0)
    hint = f"did you mean {echo(by_text[near[0]])}?" if near else "it knows none yet"
    raise InputError(f"no such client in this run: {echo(client)}; {hint}")


def spans(changes: Sequence[Changes], client: ClientId) -> list[tuple[int, int]]:
    """Return from which round on a client had which cluster or concept.

    Examples
    --------
    >>> spans([(0, [("ann", 0), ("bob", 0)]), (4, [("bob", 1)])], "bob")
    [(0, 0), (4, 1)]
    """
    found: list[tuple[int, int]] = []
    for at, changed in changes:
        for who, place in changed:
            if who == client and (not found or found[-1][1] != place):
                found.append((at, place))
    return found


# ---------------------------------------------------------------- the coordinator's clusters, event by event


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One event of a coordinator, as far as it concerns a client.

    Parameters
    ----------
    event
        The line of ``events.jsonl``.
    old, new
        What the client reported last before the event, and in it; None for nothing, zeros for no samples any more.
    old_round
        When it reported ``old``; None if never.
    before, after
        The center of each cluster, by stable id, as clients moved by it and at the end of the round.
    sizes, n_after
        Active clients of each cluster before the event; how many clusters have some after it.
    cluster, cluster_after
        That of the client before and after, -1 for none.
    n_peers, n_along
        The other clients of its cluster before the event, and how many of them share one with it after.
    nearest
        The cluster whose center its new report is nearest to, its own if that is as near; None without either.
    shifts
        How far each center went when those that reported had moved, and nothing else was done; nothing at the start.
    """

    event: Mapping[str, Json]
    old: Floats | None
    new: Floats | None
    old_round: int | None
    before: Mapping[int, Vector]
    after: Mapping[int, Vector]
    sizes: Mapping[int, int]
    n_after: int
    cluster: int
    cluster_after: int
    n_peers: int
    n_along: int
    nearest: int | None
    shifts: Mapping[int, float]

    @property
    def round_index(self) -> int:
        """The round."""
        return int(str(self.event["round"]))

    @property
    def is_silent(self) -> bool:
        """Whether the client reported that it has no samples any more."""
        return self.new is not None and not self.new.any()


def follow_client(run: RunRecord, client: ClientId, policy: Policy) -> Iterator[Step]:
    """Yield every event of a run's coordinator as far as it concerns a client, with the centers of that moment."""
    reports, metric = run.reports(), metric_named(policy.metric)
    if reports is None:
        return
    robust = metric if policy.robust else None
    row = {one: at for at, one in enumerate(reports.client_ids)}
    mine = row.get(client, len(row))
    said = np.zeros((len(row) + 1, reports.representations.shape[1]), dtype=np.float32)  # the last: of nobody
    active, place = np.zeros(len(row) + 1, dtype=np.bool_), np.full(len(row) + 1, NOWHERE, dtype=np.int32)
    centers: dict[int, Vector] = {}
    since_global, old_round, changes = centers, None, iter(run.memberships())
    change = next(changes, None)
    for event in run.reader.lines(run.folder / EVENTS, _parse_event).rows:
        at = np.flatnonzero(reports.step == int(str(event["round"])))
        at = at[np.isin(reports.client[at], [row[one] for one in event["reported"] if one in row])]
        rows, told = reports.client[at], reports.representations[at]
        old = None if old_round is None else said[mine].copy()
        new = told[int(np.flatnonzero(rows == mine)[0])] if (rows == mine).any() else None
        stood, sizes, is_speaking = place, Counter(place[active].tolist()), (told != 0).any(axis=1)
        speaking = np.sort(rows[is_speaking])
        said[rows[is_speaking]], active[rows] = told[is_speaking], is_speaking
        moved = stood.copy()
        if centers and speaking.size:
            ids = np.array(list(centers), dtype=np.int32)
            current = np.where(np.isin(stood, ids), np.searchsorted(ids, stood), NOWHERE).astype(np.int32)[speaking]
            frozen = np.stack(list(centers.values()))
            moved[speaking] = ids[nearest_clusters(Points(said, speaking), frozen, metric=metric, current=current)]
            if policy.noise_variance:  # of those that lie nearer elsewhere, noise explains some
                gone = [row[one] for one in event.get("moved") or [] if one in row]
                kept = speaking[(stood[speaking] != NOWHERE) & ~np.isin(speaking, gone)]
                moved[kept] = stood[kept]
        place = stood.copy()
        while change is not None and change[0] <= int(str(event["round"])):
            for one, cluster in change[1]:
                place[row.get(one, len(row))] = cluster if one in row and cluster <= LARGEST else NOWHERE
            change = next(changes, None)
        listed = event["cluster_ids"] or sorted({*place.tolist()} - {NOWHERE})
        is_global = bool(event.get("started") or event.get("fired") or "merged" in event)
        reference = since_global if getattr(policy.trigger, "reference", "previous") == "last-global" else centers
        passing = _centers(said, np.where(active, moved, NOWHERE), list(centers), centers, robust)
        after = _centers(said, np.where(active, place, NOWHERE), listed, centers, robust)
        peers = (stood == stood[mine]) & (stood >= 0)
        peers[mine] = False
        yield Step(
            event=event,
            old=old,
            new=new,
            old_round=old_round,
            before=centers,
            after=after,
            sizes={one: sizes[one] for one in centers},
            n_after=len({*place[active].tolist()} - {NOWHERE}),
            cluster=int(stood[mine]),
            cluster_after=int(place[mine]),
            n_peers=int(peers.sum()),
            n_along=int((peers & (place == place[mine])).sum()),
            nearest=int(moved[mine]) if centers and mine in speaking else None,
            shifts={
                one: float(metric.between(reference[one][np.newaxis], center[np.newaxis])[0, 0])
                for one, center in passing.items()
                if one in reference and sizes[one]
            },
        )
        centers, since_global = after, after if is_global else since_global
        old_round = old_round if new is None else int(str(event["round"]))


def _parse_event(line: Row) -> dict[str, Any]:
    """Return a line of ``events.jsonl`` with its lists; raise if it is none."""
    lists = {name: line.get(name) or [] for name in ("reported", "cluster_ids")}
    if not isinstance(line["round"], int) or not all(isinstance(one, list) for one in lists.values()):
        raise TypeError
    return {**parse_line(line), **lists}


def _centers(
    said: Floats, place: Membership, ids: Sequence[int], known: Mapping[int, Vector], robust: Metric | None
) -> dict[int, Vector]:
    """Return the centers of clusters, by rising id; one without active clients keeps the center that it had."""
    found: dict[int, Vector] = {}
    for one in sorted(ids):
        members = np.flatnonzero(place == one)
        if members.size:
            found[one] = center_of(said, members, robust=robust)
        elif one in known:
            found[one] = known[one]
    return found


def _read_policy(run: RunRecord) -> Policy | None:
    """Return the rules of a run's coordinator; None if its method has none, or nothing is committed yet."""

    def read() -> Policy | None:
        try:
            state = load_run(newest_checkpoint(run.folder)).values.get("coordinator")
        except (InputError, CheckpointError, OSError):
            return None
        policy = state.get("policy") if isinstance(state, dict) else None
        return policy_from(policy) if isinstance(policy, dict) else None

    has_any = any((run.folder / CHECKPOINTS).glob("*.ckpt"))
    return run.reader.keep(run.folder / CHECKPOINTS, has_any, read)  # it stays what it is, and models are large


# ---------------------------------------------------------------- one round


def round_reason(run: RunRecord, client: ClientId, round_index: int) -> Why:
    """Return what happened to a client in a round, and why; InputError if the run has no such round."""
    last = last_round(run)
    if not 0 <= round_index <= last:
        known = f"it has rounds 0 to {last}" if last >= 0 else "it has none yet"
        raise InputError(f"there is no round {round_index} in this run; {known}")
    policy = _read_policy(run)
    stays = spans(run.memberships(), client)
    before = next((place for at, place in reversed(stays) if at < round_index), NOWHERE)
    after = next((place for at, place in reversed(stays) if at <= round_index), NOWHERE)
    method = str(run.setting("method", "name"))
    record: dict[str, Json] = {
        "client": client,
        "round": round_index,
        "method": method,
        "cluster_before": None if before == NOWHERE else before,
        "cluster_after": None if after == NOWHERE else after,
    }
    step, table = None, []
    if policy is None:
        words = _unrecorded_words(run, record)
    else:
        record["metric"] = policy.metric
        steps = list(follow_client(run, client, policy))
        step = next((one for one in steps if one.round_index == round_index), None)
        words = _report_words(run, round_index, steps, policy, record)
        if step is not None:
            table = _distance_table(step, metric_named(policy.metric), record)
            words += _place_words(step, policy, record) + _regrouping_words(step, policy, record)
    words += _accuracy_words(run, client, round_index, record)
    record["reasons"] = list(words)
    measured = "" if policy is None else f", distance {policy.metric}"
    lines = [f"{_called(client)}, round {round_index} ({method}{measured})", words[0], *table, *words[1:]]
    return Why(record=record, text="\n".join(lines))


def _called(client: ClientId) -> str:
    return str(client) if str(client).lower().startswith("client") else f"client {client}"


def _unrecorded_words(run: RunRecord, record: dict[str, Json]) -> list[str]:
    """Return what the logs hold of a round of a method that writes down no reasons."""
    before, after = record["cluster_before"], record["cluster_after"]
    words = f"It went from {_place(before)} to {_place(after)}." if before != after else f"It is in {_place(after)}."
    if not any((run.folder / CHECKPOINTS).glob("*.ckpt")):
        return [f"{words} Nothing is committed yet, so the rules of this run are not known."]
    return [f"{words} The method {record['method']} writes down no reasons: the logs hold who was where, and how good."]


def _place(cluster: Json) -> str:
    return "no cluster" if cluster is None or cluster == NOWHERE else f"cluster {cluster}"


def _report_words(
    run: RunRecord,
    round_index: int,
    steps: Sequence[Step],
    policy: Policy,
    record: dict[str, Json],
) -> list[str]:
    """Return what a client reported in a round and how that differs from before, or why it did not."""
    step = next((one for one in steps if one.round_index == round_index), None)
    new = None if step is None else step.new
    reported = [one.round_index for one in steps if one.new is not None and one.round_index < round_index]
    record |= {"reported": new is not None, "last_report": reported[-1] if reported else None}
    since = f"since round {reported[-1]}" if reported else "yet"
    if step is None or new is None:
        test = run.setting("coordinator", "detector")
        why = f"its drift test{f' ({test})' if test else ''} saw no drift, or it could not be reached"
        arrival = max((int(at) for at in run.arrivals if at <= round_index), default=0)
        if run.setting("method", "name") == "static" and reported:
            why = "the method hears the first report of each client alone"
        elif run.setting("method", "name") == "selected":
            why = "clients report with the models that they train: it did not train, or did not drift"
        elif reported and reported[-1] >= arrival and not run.is_deployed:
            why = "no samples arrived since its last report"
        return [f"It did not report: {why}. It has reported nothing {since}."]
    if step.is_silent:
        record["silent"] = True
        return [
            "It reported that it has no samples any more: it leaves the centers and the selection, keeps its cluster, "
            "and alone makes no other client move."
        ]
    if step.old is None:
        return ["It reported for the first time."]
    reports = run.reports()
    names = [] if reports is None else label_names(run, reports)
    difference = new.astype(np.float64) - step.old
    change = float(metric_named(policy.metric).between(new[np.newaxis], step.old[np.newaxis])[0, 0])
    largest = np.argsort(-np.abs(difference), kind="stable")[:MOST_CHANGES]
    told = [at for at in largest.tolist() if abs(difference[at]) >= LEAST_CHANGE]
    named = [names[at] if names else f"number {at}" for at in told]
    record |= {
        "report_change": change,
        "largest_changes": [
            {"feature": name, "before": float(step.old[at]), "after": float(new[at])}
            for name, at in zip(named, told, strict=True)
        ],
    }
    parts = ", ".join(
        f"{name} {digits(float(step.old[at]))} -> {digits(float(new[at]))}"
        for name, at in zip(named, told, strict=True)
    )
    delay = " (sent in the round before)" if run.setting("coordinator", "reports") == "with-training" else ""
    largest_words = f"; most of all {parts}" if parts else ""
    return [f"It reported{delay}: {digits(change)} away from its report of round {step.old_round}{largest_words}."]


def _distances(report: Floats | None, centers: Mapping[int, Vector], metric: Metric) -> dict[int, float]:
    if report is None or not report.any() or not centers:
        return {}
    found = metric.between(report[np.newaxis], np.stack(list(centers.values())))[0]
    return dict(zip(centers, found.tolist(), strict=True))


def _distance_table(step: Step, metric: Metric, record: dict[str, Json]) -> list[str]:
    """Return how far a client's reports are from all centers, before and after an event, as lines of a table."""
    new = step.new if step.new is not None else step.old
    columns = {
        "old report": _distances(step.old, step.before, metric),
        "new report": _distances(step.new, step.before, metric),
        "centers after": _distances(new, step.after, metric),
    }
    keys = dict(zip(columns, ("old_report", "new_report", "centers_after"), strict=True))
    columns = {name: column for name, column in columns.items() if column}
    ids = sorted({one for column in columns.values() for one in column})
    record["distances"] = [
        {"cluster": one, "clients": step.sizes.get(one), **{keys[name]: columns[name].get(one) for name in columns}}
        for one in ids
    ]
    if not columns:
        return []
    rows = [["cluster", "clients", *columns]]
    for one in ids:
        size = step.sizes.get(one)
        rows.append(
            [str(one), "-" if size is None else str(size), *(digits(columns[name].get(one)) for name in columns)]
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    marks = {step.cluster: "before", step.cluster_after: "after"}
    if step.cluster == step.cluster_after:
        marks = {step.cluster: "before and after"}
    return [lines[0], *(f"{line}  {marks.get(one, '')}".rstrip() for line, one in zip(lines[1:], ids, strict=True))]


def _outcome(step: Step) -> str:
    """Return in a word what an event did to a client.

    ``started``, ``joined``, ``moved`` (to the nearest center), ``re-clustered`` (with all), ``merged`` and ``placed``
    (by the guard), ``silent``, ``kept`` (its cluster, though all were grouped anew), ``stayed`` or ``unchanged``.
    """
    has_changed = step.cluster != step.cluster_after
    if step.event.get("started") and has_changed:
        return "started"
    if step.event.get("fired"):
        return ("joined" if step.cluster == NOWHERE else "re-clustered") if has_changed else "kept"
    if has_changed and "merged" in step.event:
        return "merged"
    if has_changed:
        if step.cluster == NOWHERE:
            return "joined"
        return "moved" if step.cluster_after == step.nearest else "placed"
    return "silent" if step.is_silent else "unchanged" if step.new is None else "stayed"


def _place_words(step: Step, policy: Policy, record: dict[str, Json]) -> list[str]:
    """Return where an event put a client, and why."""
    record |= {"outcome": _outcome(step), "nearest": step.nearest}
    far = _distances(step.new, step.before, metric_named(policy.metric))
    margin = "and noise does not explain the margin" if policy.noise_variance else "and no margin is asked for"
    near, own = (digits(far.get(NOWHERE if one is None else one)) for one in (step.nearest, step.cluster))
    words = []
    if step.nearest is not None and step.cluster == NOWHERE:
        words.append(f"It had no cluster; the center of cluster {step.nearest} is the nearest, at {near}.")
    elif step.nearest is not None and step.nearest != step.cluster:
        words.append(
            f"It moved from cluster {step.cluster} to cluster {step.nearest}: the center of {step.nearest} is the "
            f"nearest to what it reported, at {near}; that of its own is at {own}. Centers are held still while "
            f"clients move, {margin}."
        )
    elif step.nearest is not None:
        others = [distance for cluster, distance in far.items() if cluster != step.cluster]
        second = f"; the next one is at {digits(min(others))}" if others else ""
        kept = "It stayed in" if record["outcome"] == "stayed" else "By its report alone it would have stayed in"
        why = f"that center is still the nearest, at {own}{second}"
        if policy.noise_variance and others and min(others) < far.get(step.cluster, 0.0):
            why = f"another center is nearer, at {digits(min(others))} and not {own}, but noise explains that"
        words.append(f"{kept} cluster {step.cluster}: {why}.")
    outcome = record["outcome"]
    if outcome == "started":
        words.append(f"The first clusters were made of all first reports; it came into cluster {step.cluster_after}.")
    elif outcome == "merged":
        words.append(f"Then the guard merged clusters, and with them it came into cluster {step.cluster_after}.")
    elif outcome == "placed":
        words.append(
            f"The guard gave it cluster {step.cluster_after}, whose model has the lowest loss on its newest samples: "
            "the drift that it saw was explained by nothing that it reports."
        )
    return words


def _regrouping_words(step: Step, policy: Policy, record: dict[str, Json]) -> list[str]:
    """Return whether all clients were grouped anew in an event, by which numbers, and what that did to the client."""
    event, trigger = step.event, policy.trigger
    n_before = sum(size > 0 for size in step.sizes.values())
    names = ("shift", "threshold", "theta", "silhouettes", "guard", "merged")
    record |= {name: event[name] for name in names if name in event}
    record |= {
        "reclustered": event.get("fired") is True,
        "n_clusters_before": n_before,
        "n_clusters_after": step.n_after,
        "shifts": {str(one): shift for one, shift in step.shifts.items()},
    }
    shift, threshold, words = event.get("shift"), event.get("threshold"), []
    tried = event.get("silhouettes")
    chosen = ""
    if isinstance(tried, dict) and tried:
        scores = ", ".join(f"{k}: {digits(score)}" for k, score in tried.items())
        margin = f", with a hysteresis of {policy.clusterer.hysteresis:g}" if policy.clusterer.hysteresis else ""
        chosen = f" (silhouettes by number of clusters: {scores}{margin})"
    if event.get("started"):
        words.append(f"There are {step.n_after} clusters{chosen}.")
    if isinstance(shift, (int, float)):
        most = next((one for one, far in step.shifts.items() if abs(far - shift) <= SAME), None)
        moved = f"the center that moved most{'' if most is None else f' ({most})'} went {digits(shift)}"
        since = " since the last grouping" if getattr(trigger, "reference", "") == "last-global" else ""
        allowed = f"; up to {digits(threshold)} is allowed"
        if threshold is None:
            allowed = "; no shift is too much by the rules of this run"
        elif trigger.name == "pairwise":
            allowed = f"; two clients of a cluster may be {digits(threshold)} apart"
        elif trigger.name == "center-shift":
            tau, theta = getattr(trigger, "tau", None), event.get("theta")
            allowed += f": tau {digits(tau)} times {digits(theta)}, the mean distance between centers"
            if isinstance(tau, float) and isinstance(theta, float) and isinstance(threshold, (int, float)):
                allowed += ", or noise" if threshold > tau * theta + SAME else ""
        is_beyond = isinstance(threshold, (int, float)) and shift > threshold and trigger.name in CENTER_SHIFTS
        if event.get("fired"):
            asked = "" if is_beyond or trigger.name not in CENTER_SHIFTS else " The guard asked for it."
            how = f"{n_before} clusters before, {step.n_after} after{chosen}"
            words.append(f"All clients were grouped anew: {moved}{since}{allowed}.{asked} {how}.")
        else:
            vetoed = " The guard did not allow a re-clustering." if is_beyond else ""
            words.append(
                f"No re-clustering: {moved}{since}{allowed}.{vetoed} {n_before} clusters before, {step.n_after} after."
            )
    if event.get("fired") and step.cluster >= 0:
        along = f"{step.n_along} of the {step.n_peers} others of its cluster before are in the same one after"
        ids = "a new cluster keeps the id of the one it shares most clients with"
        went = f"It stayed in cluster {step.cluster}"
        if step.cluster != step.cluster_after:
            went = f"It came from cluster {step.cluster} into cluster {step.cluster_after}"
        words.append(f"{went}; {along} ({ids}).")
    if isinstance(guard := event.get("guard"), dict):
        error = guard.get("error")
        sure = "" if error is None else f" (standard error {digits(error)})"
        words.append(
            f"The guard: clusters spare their clients {digits(guard.get('gain'))} of held-out loss against one model "
            f"for all{sure}, by {guard.get('n_judged')} verdicts."
        )
    return words


def _accuracy_words(run: RunRecord, client: ClientId, round_index: int, record: dict[str, Json]) -> list[str]:
    """Return how good a client's model was at the evaluations around a round."""
    tests = _tests(run, client)
    around = [*[one for one in tests if one["round"] < round_index][-1:]]  # type: ignore[operator]
    around += [one for one in tests if one["round"] >= round_index][:1]  # type: ignore[operator]
    record["evaluations"] = list(around)
    told = [f"{digits(one['accuracy'])} in round {one['round']}" for one in around if one["accuracy"] is not None]
    return [f"Accuracy of what serves it, on its window: {', '.join(told)}."] if told else []


# ---------------------------------------------------------------- the whole run


def client_history(run: RunRecord, client: ClientId) -> Why:
    """Return when a client reported and changed its cluster, and how it was served, over a whole run."""
    policy = _read_policy(run)
    changes = cluster_changes(run, client)
    stays, concepts, tests = spans(run.memberships(), client), spans(run.concepts(), client), _tests(run, client)
    now = stays[-1][1] if stays else NOWHERE
    reported = _report_rounds(run, client)
    method = str(run.setting("method", "name"))
    record: dict[str, Json] = {
        "id": client,
        "cluster": None if now == NOWHERE else now,
        "method": method,
        "last_round": last_round(run),
        "reports": list(reported),
        "clusters": list(changes),
        "concepts": [{"round": at, "concept": concept} for at, concept in concepts],
        "evaluations": list(tests),
    }
    where = "in no cluster yet" if now == NOWHERE else f"cluster {now}"
    lines = [f"{_called(client)}: {where} after round {last_round(run)} ({method})"]
    if reported:
        lines.append(f"reported in {_times(len(reported), 'round')}: {_listed(reported)}")
    else:
        lines.append("reported nothing")
    lines += [f"round {one['round']}: {one['why']}" for one in changes]
    if policy is None and len(changes) > 1:
        lines.append(f"the method {method} writes down no reasons: the logs hold who was where, and how good")
    if len(concepts) > 1:
        told = ", ".join(f"{concept} from round {at}" for at, concept in concepts)
        lines.append(f"true concept (no method sees it): {told}")
    known = [one for one in tests if one["accuracy"] is not None]
    picked = [known[at] for at in pick_evenly(range(len(known)), MOST_LISTED)]
    if picked:
        told = ", ".join(f"{one['round']}: {digits(one['accuracy'])}" for one in picked)
        lines.append(f"accuracy on its window, by round: {told}")
    if tests:
        lines.append(f"served in round {tests[-1]['round']} by {tests[-1]['served_by']}")
    if policy is not None and any(one["outcome"] not in ("started", "joined") for one in changes):
        at = next(one["round"] for one in reversed(changes) if one["outcome"] not in ("started", "joined"))
        lines.append(f"ask for round {at} to see why, with the distances to all centers")
    return Why(record=record, text="\n".join(lines))


def cluster_changes(run: RunRecord, client: ClientId) -> list[dict[str, Json]]:
    """Return every change of a client's cluster, and every re-clustering that left it where it was, with the reason.

    Each has ``round``, ``from``, ``to`` (None for no cluster), ``outcome`` (a word) and ``why`` (a sentence).
    """
    policy = _read_policy(run)
    found: list[dict[str, Json]] = []
    if policy is None:
        before: int | None = None
        for at, place in spans(run.memberships(), client):
            now = None if place == NOWHERE else place
            if now != before:
                words = f"came into {_place(now)}" if before is None else f"went from {_place(before)} to {_place(now)}"
                found.append({"round": at, "from": before, "to": now, "outcome": "changed", "why": words})
            before = now
        return found
    metric = metric_named(policy.metric)
    for step in follow_client(run, client, policy):
        outcome = _outcome(step)
        if outcome in ("stayed", "unchanged"):
            continue
        to = f"cluster {step.cluster_after}"
        far = _distances(step.new, step.before, metric)
        reached = f"the nearest to its report ({digits(far.get(step.cluster_after))})"
        anew = f"all were grouped anew: {sum(map(bool, step.sizes.values()))} -> {step.n_after} clusters"
        words = {
            "started": f"the first clusters were made; it came into {to}",
            "joined": f"joined {to}, {reached}" if far else f"joined {to}; {anew}",
            "moved": f"moved from cluster {step.cluster} ({digits(far.get(step.cluster))} away) to {to}, {reached}",
            "re-clustered": f"{anew}; it came from cluster {step.cluster} into {to}",
            "kept": f"{anew}; it stayed in {to}",
            "merged": f"the guard merged clusters; it came from cluster {step.cluster} into {to}",
            "placed": f"the guard gave it {to}, whose model serves it best, instead of cluster {step.cluster}",
            "silent": f"reported that it has no samples any more; it keeps {to}",
        }[outcome]
        places: list[Json] = [None if one == NOWHERE else one for one in (step.cluster, step.cluster_after)]
        found.append({"round": step.round_index, "from": places[0], "to": places[1], "outcome": outcome, "why": words})
    return found


def _report_rounds(run: RunRecord, client: ClientId) -> list[int]:
    reports = run.reports()
    if reports is None or client not in reports.client_ids:
        return []
    return sorted(reports.step[reports.client == reports.client_ids.index(client)].tolist())


def _tests(run: RunRecord, client: ClientId) -> list[dict[str, Json]]:
    """Return how a client fared in each evaluation, and what it was served by."""
    return [_test(one, one.client_ids.index(client)) for one in run.tests() if client in one.client_ids]


def _test(test: ClientTests, at: int) -> dict[str, Json]:
    def share(right: Any) -> float | None:
        return float(right[at] / test.n_test[at]) if test.n_test[at] else None

    cluster = int(test.cluster[at])
    weights = {name: float(numbers[at]) for name, numbers in test.expert_weights.items() if np.isfinite(numbers[at])}
    served_by = f"the model of cluster {cluster}" if cluster != NOWHERE else "the mean of all models"
    best = next((how for how in ("served", "tuned", "corrected") if how in test.otherwise), None)
    if weights:
        most = sorted(weights, key=lambda name: -weights[name])[:3]
        believed = ", ".join(f"{WORDS.get(name, name)} {weights[name]:.0%}" for name in most)
        served_by = f"its experts, with {served_by}: {believed}"
    elif best is not None:
        served_by = f"{served_by}, {best}"
    return {
        "round": test.round_index,
        "cluster": None if cluster == NOWHERE else cluster,
        "n_test": int(test.n_test[at]),
        "accuracy": share(test.correct if best is None else test.otherwise[best]),
        "raw_accuracy": share(test.correct),
        "served_by": served_by,
        **({"experts": dict(weights)} if weights else {}),
    }


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _listed(rounds: Sequence[int]) -> str:
    """Return rounds in a line, of many the first and the last."""
    if len(rounds) <= MOST_LISTED:
        return ", ".join(map(str, rounds))
    half = MOST_LISTED // 2
    return f"{', '.join(map(str, rounds[:half]))}, ..., {', '.join(map(str, rounds[-half:]))}"
