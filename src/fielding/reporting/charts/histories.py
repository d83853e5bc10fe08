"""What a run's logs say about clients at chosen moments: their cluster or concept, and their newest report."""

from collections.abc import Iterable, Sequence

import numpy as np

from fielding._typing import ClientId, Codes, Counts, Mask
from fielding.records.run_folder import REPORTS
from fielding.reporting.numbers.run_record import Changes, RunRecord
from fielding.traces.reports import ReportStream

NOWHERE = -1  # the cluster of a client that has none, and the row of one that has not reported
LARGEST = 2**31 - 1  # a larger id of a cluster is damage
LABELS = "label"  # the representation that is a histogram of labels


def ids_in_order(changes: Iterable[Changes]) -> list[ClientId]:
    """Return all clients that were ever placed: whole numbers rising, then texts rising.

    Examples
    --------
    >>> ids_in_order([(0, [(10, 0), (9, 1)]), (3, [("ann", 1), (10, 1)])])
    [9, 10, 'ann']
    """
    found = {client for _, changed in changes for client, _ in changed}
    return sorted(found, key=lambda client: (isinstance(client, str), client))


def places_at(changes: Sequence[Changes], moments: Sequence[int], client_ids: Sequence[ClientId]) -> Codes:
    """Return the cluster of each client at the end of each round, -1 for none; shape ``(n_moments, n_clients)``.

    ``changes``: by rising round. ``moments``: rounds, rising. ``client_ids``: the clients that are wanted; others are
    passed over.

    Examples
    --------
    >>> places_at([(0, [("ann", 0), ("bob", 0)]), (4, [("bob", 1)])], [0, 9], ["bob", "ann"]).tolist()
    [[0, 0], [1, 0]]
    """
    column = {client: at for at, client in enumerate(client_ids)}
    found = np.full((len(moments), len(column)), NOWHERE, dtype=np.int32)
    now, done = np.full(len(column), NOWHERE, dtype=np.int32), 0
    for at, moment in enumerate(moments):
        while done < len(changes) and changes[done][0] <= moment:
            for client, place in changes[done][1]:
                if (where := column.get(client)) is not None:
                    now[where] = place if -1 <= place <= LARGEST else NOWHERE
            done += 1
        found[at] = now
    return found


def newest_rows(reports: ReportStream, moments: Sequence[int]) -> Counts:
    """Return the row of each client's newest report at each moment, -1 before its first.

    Shape ``(n_moments, n_clients)``, clients as in ``reports.client_ids``.

    Examples
    --------
    >>> stream = ReportStream(kind="histogram", client_ids=("a", "b"), client=np.array([0, 1, 0]),
    ...                       step=np.array([0, 2, 5]), representations=np.eye(3, 2))
    >>> newest_rows(stream, [0, 4, 5]).tolist()
    [[0, -1], [0, 1], [2, 1]]
    """
    order = np.argsort(reports.step, kind="stable")
    stops = np.searchsorted(reports.step[order], np.array(moments), side="right").tolist()
    found = np.full((len(moments), len(reports.client_ids)), NOWHERE, dtype=np.int64)
    now, start = np.full(len(reports.client_ids), NOWHERE, dtype=np.int64), 0
    for at, stop in enumerate(stops):
        rows = order[start:stop]
        now[reports.client[rows]] = rows  # of several rows of one client the last one stays
        found[at], start = now, max(start, stop)
    return found


def has_data(reports: ReportStream) -> Mask:
    """Return which reports say something; a row of zeros says that a client has no data any more."""
    return np.asarray((reports.representations != 0).any(axis=1))


def label_names(run: RunRecord, reports: ReportStream) -> list[str]:
    """Return what to call each feature of a report; nothing if these are not shares of labels."""
    if reports.kind != "histogram" or run.setting("coordinator", "representation") != LABELS:
        return []
    n_features = int(reports.representations.shape[1])
    known = run.classes if len(run.classes) == n_features else [str(at) for at in range(n_features)]
    return [f"label {one}" if one.isdecimal() else one for one in known]


def why_no_reports(run: RunRecord) -> str:
    """Return why there is no report to be seen."""
    if any((run.folder / REPORTS).glob("*.npz")):
        return "The reports of this run cannot be read."
    if not run.rounds:
        return "There is no report yet."
    return "Nobody reported anything in this run: its method groups clients without reports, or not at all."


def pick_evenly(candidates: Sequence[int], most: int) -> list[int]:
    """Return at most so many of some numbers, first and last among them.

    Examples
    --------
    >>> pick_evenly(range(0, 100, 10), 4), pick_evenly([3, 5], 4)
    ([0, 30, 60, 90], [3, 5])
    """
    if len(candidates) <= most:
        return list(candidates)
    chosen = np.linspace(0, len(candidates) - 1, most).round().astype(np.int64)
    return [candidates[at] for at in chosen.tolist()]


def last_round(run: RunRecord) -> int:
    """Return the last round that the logs know of, -1 if none."""
    known = [row.get("round") for row in (*run.rounds[-1:], *run.events[-1:])]
    return max([one for one in known if isinstance(one, int)], default=-1)
