"""Stage 4: all that leaves a client, and the check that every report passes before anything changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Counts, Floats, Mask
from fielding.distance import Kind
from fielding.errors import ReportError, echo

LONGEST_ID = 1024  # ids beyond this many characters are refused: they are mistakes or attacks
SUM_TOLERANCE = 1e-3
"""How far the shares of a histogram may miss one: enough for shares that were rounded for a text file."""
DRIFT_KINDS = ("none", "label", "covariate", "concept", "mixed", "unexplained")
"""What a client may say of its drift; unexplained: the model that serves it errs more, and no test says why."""
UNEXPLAINED = DRIFT_KINDS.index("unexplained")
CHUNK = 8_192  # rows that are looked at in one go, so that checking a million reports needs no second copy of them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientReport:
    """What one client tells the coordinator after its data moved.

    A representation of shape ``(n_features,)`` is all zeros when the client's window is empty: it goes silent.
    ``label_version`` is that of the class list that it was built with; None means the newest.
    """

    client_id: ClientId
    representation: Floats
    n_samples: int = 0
    label_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportBatch:
    """The reports of many clients that act together; their order has no meaning.

    A row of zeros says that a client went silent. ``kinds`` of drift are positions in ``DRIFT_KINDS``, where clients
    say so.
    """

    client_ids: Sequence[ClientId]
    representations: Floats
    label_version: int | None = None
    n_samples: Counts | None = None
    kinds: npt.NDArray[np.int8] | None = None


def row_chunks(n_rows: int, size: int = CHUNK) -> Iterator[slice]:
    """Yield slices that cover ``n_rows`` rows in order."""
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def checked_id(client_id: object) -> ClientId:
    """Return the id as a plain ``int`` or ``str``, or raise :class:`ReportError`."""
    if isinstance(client_id, (str, np.str_)):
        text = str(client_id)
        if not 1 <= len(text) <= LONGEST_ID:
            raise ReportError(f"client id {echo(text)} has {len(text)} characters; give it 1 to {LONGEST_ID}")
        if not text.isprintable():
            raise ReportError(f"client id {echo(text)} has control characters; use printable ones")
        return text
    if isinstance(client_id, (int, np.integer)) and not isinstance(client_id, (bool, np.bool_)):
        number = int(client_id)
        if not -(2**63) <= number < 2**63:
            raise ReportError(f"client id {echo(number)} does not fit 64 bits; use a text id instead")
        return number
    raise ReportError(
        f"client id {echo(client_id)} is of type {type(client_id).__name__}; use a whole number or a text"
    )


def checked_ids(client_ids: Sequence[object]) -> list[ClientId]:
    """Return the ids as plain Python values, or raise if one is unfit, of another type or named twice."""
    checked = _plain_numbers(client_ids) or [checked_id(client_id) for client_id in client_ids]
    kinds = set(map(type, checked))
    if len(kinds) > 1:
        raise ReportError("client ids mix whole numbers and texts; use one type for all clients")
    # By sorting, since a set of a million ids takes seven times their memory.
    if kinds == {int}:
        numbers = np.sort(np.array(checked, dtype=np.int64))
        twice: list[ClientId] = numbers[1:][numbers[1:] == numbers[:-1]][:1].tolist()
    else:
        texts = sorted(str(client_id) for client_id in checked)
        twice = [one for one, other in pairwise(texts) if one == other]
    if twice:
        raise ReportError(f"client {echo(twice[0])} reports twice in one batch; send one report per client")
    return checked


def _plain_numbers(client_ids: Sequence[object]) -> list[ClientId]:
    """Return ids that are all plain numbers of 64 bits, else none; one by one, a million would take two seconds."""
    if set(map(type, client_ids)) != {int}:
        return []
    numbers = cast(list[int], list(client_ids))
    return list[ClientId](numbers) if min(numbers) >= -(2**63) and max(numbers) < 2**63 else []


def checked_rows(representations: object, n_rows: int, *, kind: Kind, width: int | None) -> Floats:
    """Return the representations as a float matrix, or raise :class:`ReportError`.

    ``kind`` ``"histogram"``: shares that sum to one; ``"vector"``: any finite numbers. A zero row is valid in both.
    """
    if isinstance(representations, np.ma.MaskedArray):
        raise ReportError("representations are a masked array; fill in what is missing, or leave the client out")
    try:
        rows = np.asarray(representations)
    except (ValueError, TypeError) as error:
        raise ReportError(f"representations are not a matrix of numbers ({error})") from None
    if rows.dtype.kind not in "fiu":
        raise ReportError(
            f"representations hold {rows.dtype} values such as {echo(rows.ravel()[:1].tolist())}; send numbers"
        )
    if rows.ndim != 2 or rows.shape[0] != n_rows or rows.shape[1] == 0:
        raise ReportError(
            f"representations have shape {rows.shape}; for {n_rows} clients it must be ({n_rows}, n_features)"
        )
    if width is not None and rows.shape[1] != width:
        raise ReportError(
            f"representations have {rows.shape[1]} numbers but {width} are expected; a longer class list "
            "needs a new label version first"
        )
    with np.errstate(over="ignore"):  # what is too large for a float64 becomes infinite, which is refused below
        floats = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    for part in row_chunks(n_rows):
        _check_values(floats[part], part.start, kind)
    return floats


def _check_values(rows: Floats, first: int, kind: Kind) -> None:
    """Raise if a number is not finite or too large, or a histogram is none."""
    largest = np.max(np.abs(rows), axis=1)
    bad = ~(largest <= np.finfo(np.float32).max)
    if bad.any():
        row = int(np.argmax(bad))
        at = int(np.argmax(~(np.abs(rows[row]) <= np.finfo(np.float32).max)))
        raise ReportError(
            f"the representation in row {first + row} holds {float(rows[row, at]):g} at position {at}; every number "
            "must be finite"
        )
    if kind == "vector":
        return
    negative = np.min(rows, axis=1) < 0.0
    if negative.any():
        row = int(np.argmax(negative))
        raise ReportError(
            f"the histogram in row {first + row} holds the negative share {float(np.min(rows[row])):g}; "
            "shares are counts divided by their sum"
        )
    sums = rows.sum(axis=1, dtype=np.float64)
    off = (np.abs(sums - 1.0) > SUM_TOLERANCE) & (sums != 0.0)
    if off.any():
        row = int(np.argmax(off))
        raise ReportError(
            f"the histogram in row {first + row} sums to {float(sums[row]):g}, not to 1; divide the counts by "
            "their sum, or use kind 'vector' for other numbers"
        )


def checked_batch(batch: ReportBatch, *, kind: Kind, width: int | None) -> ReportBatch:
    """Return the batch with plain ids and float rows, or raise and leave everything as it was."""
    if isinstance(batch.client_ids, np.ndarray) and batch.client_ids.ndim == 1:
        ids = checked_ids(batch.client_ids.tolist())
    elif isinstance(batch.client_ids, Sequence) and not isinstance(batch.client_ids, (str, bytes)):
        ids = checked_ids(batch.client_ids)
    else:
        raise ReportError(f"client_ids is {echo(batch.client_ids)}; give a list with one id per report")
    rows = checked_rows(batch.representations, len(ids), kind=kind, width=width)
    return ReportBatch(client_ids=ids, representations=rows, label_version=batch.label_version)


def silent_rows(rows: Floats) -> Mask:
    """Return which rows are all zeros: clients whose window is empty."""
    silent = np.empty(rows.shape[0], dtype=np.bool_)
    for part in row_chunks(rows.shape[0]):
        silent[part] = ~rows[part].any(axis=1)
    return silent


def id_order(client_ids: Sequence[ClientId]) -> Counts:
    """Return the positions of the ids in rising order: the order in which new clients get their rows."""
    return np.array(sorted(range(len(client_ids)), key=lambda at: client_ids[at]), dtype=np.int64)


NO_REPORTS = ReportBatch(client_ids=[], representations=np.empty((0, 0), dtype=np.float32))  # no client reports
