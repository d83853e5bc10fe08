"""Columns of ids, names and numbers, as arrays of a file hold them, turned into clean ones of one type."""

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from typing import cast

import numpy as np

from fielding._typing import ClientId, Counts, Vector
from fielding.client.report import checked_ids, id_order, row_chunks
from fielding.errors import InputError, echo
from fielding.traces.npz_file import Array

PLAIN_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""Texts that are whole numbers and nothing else: no leading zero, no plus sign, at most 19 digits."""


def typed_ids(texts: Sequence[str]) -> list[ClientId]:
    """Return the ids of a text file: whole numbers if every one is written as such, else the texts themselves.

    Examples
    --------
    >>> typed_ids(["7", "10"]), typed_ids(["007", "10"])
    ([7, 10], ['007', '10'])
    """
    if all(map(PLAIN_INTEGER.fullmatch, texts)):
        numbers = [int(text) for text in texts]
        if all(-(2**63) <= number < 2**63 for number in numbers):
            return cast(list[ClientId], numbers)
    return list(texts)


def in_id_order(client_ids: Sequence[ClientId], codes: Array) -> tuple[list[ClientId], Array]:
    """Return the ids in rising order and the codes that belong to it.

    Parameters
    ----------
    client_ids
        The distinct ids, all of one type.
    codes
        Positions in ``client_ids``, any shape.

    Examples
    --------
    >>> ids, codes = in_id_order([7, 3], np.array([0, 0, 1]))
    >>> ids, codes.tolist()
    ([3, 7], [1, 1, 0])
    """
    checked = checked_ids(client_ids)
    order = id_order(checked)
    ranks = np.empty(len(checked), dtype=np.int32)
    ranks[order] = np.arange(len(checked), dtype=np.int32)
    return [checked[at] for at in order.tolist()], ranks[codes]


def encoded_ids(client: Array) -> tuple[list[ClientId], Array]:
    """Return the distinct ids of an array, rising, and for each row its position among them as int32.

    Examples
    --------
    >>> ids, codes = encoded_ids(np.array(["b", "a", "b"]))
    >>> ids, codes.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    if client.ndim != 1 or client.dtype.kind not in "iuU":
        raise InputError(
            f"client has shape {client.shape} and type {client.dtype}; give one whole number or text (dtype U) per row"
        )
    if client.dtype.kind in "iu":
        numbers, codes = np.unique(client, return_inverse=True)
        return checked_ids(numbers.tolist()), codes.astype(np.int32)
    names, codes = encoded_texts(client)
    return in_id_order(cast(list[ClientId], names), codes)


def encoded_texts(texts: Array) -> tuple[list[str], Array]:
    """Return the distinct texts of an array in order of appearance, and for each row its position as int32."""
    # A dictionary, not numpy.unique: sorting a million texts of fixed width takes ten times as long.
    seen: defaultdict[str, int] = defaultdict(count().__next__)
    codes = np.empty(texts.shape[0], dtype=np.int32)
    for part in row_chunks(texts.shape[0]):
        try:
            codes[part] = [seen[text] for text in texts[part].tolist()]
        except (ValueError, SystemError) as error:
            raise InputError(f"a text between rows {part.start} and {part.stop} is no Unicode ({error})") from None
    return list(seen), codes


def id_array(client_ids: Sequence[ClientId]) -> Array:
    """Return the ids as an array that needs no pickle: int64, or texts of fixed width."""
    return np.array(client_ids, dtype=np.int64 if isinstance(client_ids[0], int) else np.str_)


def whole_numbers(name: str, array: Array, *, below: int = 2**62) -> Counts:
    """Return an array of whole numbers as int64, or raise :class:`InputError` with the first row that is none."""
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise InputError(f"{name} has shape {array.shape} and type {array.dtype}; give one whole number per row")
    bad = ~(np.abs(array.astype(np.float64)) < below)
    if array.dtype.kind == "f":
        bad |= array != np.floor(array)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{name} in row {row} is {array[row]}; a whole number below {below:.2g} is wanted")
    return array.astype(np.int64)


def plain_numbers(name: str, array: Array) -> Vector:
    """Return numbers or dates as float64, dates as unix seconds, or raise :class:`InputError`."""
    if array.ndim != 1 or array.dtype.kind not in "iufM":
        raise InputError(f"{name} has shape {array.shape} and type {array.dtype}; give one number per row")
    if array.dtype.kind != "M":
        return array.astype(np.float64)
    if np.isnat(array).any():
        raise InputError(f"{name} in row {int(np.argmax(np.isnat(array)))} is no date (NaT); every row needs one")
    microseconds: Vector = array.astype("datetime64[us]").astype(np.float64)
    return microseconds / 1e6


def text_names(name: str, array: Array) -> tuple[str, ...]:
    """Return an array of names as texts; numbers become their digits."""
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise InputError(f"{name} has shape {array.shape} and type {array.dtype}; give a list of names (dtype U)")
    try:
        return tuple(str(one) for one in array.tolist())
    except (ValueError, SystemError) as error:
        raise InputError(f"{name} holds {echo(error)}; give names of printable text") from None


def listed_classes(names: Sequence[str], codes: Array) -> tuple[tuple[str, ...], Array]:
    """Return the classes in rising order (by number if all are whole numbers, else by text) and the codes for it.

    Examples
    --------
    >>> classes, codes = listed_classes(["10", "9"], np.array([0, 1, 1]))
    >>> classes, codes.tolist()
    (('9', '10'), [1, 0, 0])
    """
    order = id_order(typed_ids(names))
    ranks = np.empty(len(names), dtype=np.int32)
    ranks[order] = np.arange(len(names), dtype=np.int32)
    return tuple(names[at] for at in order.tolist()), ranks[codes]
