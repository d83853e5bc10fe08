"""Reads what came from elsewhere: every value has a type, a range and a bound, or the record is refused."""

import io
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from fielding._typing import Json
from fielding.errors import InputError, echo
from fielding.training.layout import Layout

MOST = 2**53
"""Whole numbers beyond this are mistakes."""
LONGEST_JSON = 1 << 20
"""Characters of JSON that are parsed."""
LONGEST_NPY_HEADER = 1024
"""Bytes before the numbers of an array; NumPy writes 128."""
MOST_FEATURES = 1 << 20
"""Numbers of a representation."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fields:
    """The values of one record, by name.

    Parameters
    ----------
    name
        What messages call the record.
    values
        What it holds.

    Examples
    --------
    >>> Fields(name="metrics", values={"loss": 0.5}).number("loss")
    0.5
    >>> Fields(name="metrics", values={"loss": float("nan")}).number("loss")
    Traceback (most recent call last):
    fielding.errors.InputError: 'loss' of metrics is nan; it must be a finite number
    """

    name: str
    values: Mapping[str, object]

    def only(self, wanted: Collection[str], optional: Collection[str] = ()) -> "Fields":
        """Return this, or raise if something is missing or unknown."""
        names = set(self.values)
        if missing := sorted(set(wanted) - names):
            raise InputError(f"{self.name} lack {missing[0]!r}; send {', '.join(sorted(wanted))}")
        if unknown := sorted(names - set(wanted) - set(optional)):
            raise InputError(f"{self.name} have an unknown {echo(unknown[0])}; send {', '.join(sorted(wanted))}")
        return self

    def whole(self, key: str, *, least: int = 0, most: int = MOST) -> int:
        """Return a whole number in a range."""
        got = self.values.get(key)
        if type(got) is not int or not least <= got <= most:
            raise self._wrong(key, f"a whole number from {least} to {most}")
        return got

    def number(self, key: str, *, finite: bool = True) -> float:
        """Return a number; finite unless it need not be."""
        got = self.values.get(key)
        if type(got) is int and -MOST <= got <= MOST:
            return float(got)
        if type(got) is not float or (finite and not math.isfinite(got)):
            raise self._wrong(key, "a finite number" if finite else "a number")
        return got

    def text(self, key: str, *, longest: int) -> str:
        """Return a text of bounded length."""
        got = self.values.get(key)
        if type(got) is not str or len(got) > longest:
            raise self._wrong(key, f"a text of at most {longest} characters")
        return got

    def flag(self, key: str) -> bool:
        """Return a yes or no."""
        got = self.values.get(key)
        if type(got) is not bool:
            raise self._wrong(key, "true or false")
        return got

    def floats(self, key: str) -> npt.NDArray[np.float32]:
        """Return numbers that came as little-endian float32 bytes, shape ``(n,)``; at least one."""
        got = self.values.get(key)
        if type(got) is not bytes or not got or len(got) % 4 or len(got) > 4 * MOST_FEATURES:
            raise self._wrong(key, f"the bytes of 1 to {MOST_FEATURES} float32 numbers")
        return np.frombuffer(got, dtype="<f4").astype(np.float32)

    def doubles(self, key: str) -> npt.NDArray[np.float64]:
        """Return numbers that came as little-endian float64 bytes, shape ``(n,)``; perhaps none."""
        got = self.values.get(key)
        if type(got) is not bytes or len(got) % 8 or len(got) > 8 * MOST_FEATURES:
            raise self._wrong(key, f"the bytes of at most {MOST_FEATURES} float64 numbers")
        return np.frombuffer(got, dtype="<f8").astype(np.float64)

    def wholes(self, key: str) -> npt.NDArray[np.int64]:
        """Return whole numbers from 0, shape ``(n,)``."""
        got = self.items(key)
        if len(got) > MOST_FEATURES or not all(type(one) is int and 0 <= one <= MOST for one in got):
            raise self._wrong(key, f"at most {MOST_FEATURES} whole numbers from 0")
        return np.array(got, dtype=np.int64)

    def items(self, key: str) -> list[Json]:
        """Return a list of anything."""
        got = self.values.get(key)
        if not isinstance(got, list):
            raise self._wrong(key, "a list")
        return got

    def json(self, key: str) -> dict[str, Json]:
        """Return a JSON object."""
        text = self.text(key, longest=LONGEST_JSON)
        try:
            got = json.loads(text)
        except (ValueError, RecursionError):
            got = None
        if not isinstance(got, dict):
            raise self._wrong(key, "a JSON object")
        return cast(dict[str, Json], got)

    def _wrong(self, key: str, wanted: str) -> InputError:
        got = echo(self.values[key]) if key in self.values else "missing"
        return InputError(f"{key!r} of {self.name} is {got}; it must be {wanted}")


def checked_layout(record: Mapping[str, Json], n_numbers: int) -> Layout:
    """Return the layout that a record describes, or raise if it is none of a model of this length.

    Examples
    --------
    >>> checked_layout({"names": ["w"], "shapes": [[2, 3]], "n_parameters": 1}, 6).size
    6
    """
    names, shapes, n_parameters = (record.get(key) for key in ("names", "shapes", "n_parameters"))
    if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise InputError(f"names of the layout are {echo(names)}; send a list of texts")
    if not (isinstance(shapes, list) and len(shapes) == len(names) and all(_is_shape(shape) for shape in shapes)):
        raise InputError(f"shapes of the layout are {echo(shapes)}; send a list of whole numbers for each name")
    if type(n_parameters) is not int or not 0 <= n_parameters <= len(names):
        raise InputError(f"n_parameters of the layout is {echo(n_parameters)}; send one from 0 to {len(names)}")
    layout = Layout(
        names=tuple(str(name) for name in names),
        shapes=tuple(tuple(cast(list[int], shape)) for shape in shapes),
        n_parameters=n_parameters,
    )
    if len(set(layout.names)) != len(layout.names):
        raise InputError(f"names of the layout are {echo(names)}; give each tensor a name of its own")
    if layout.size != n_numbers:
        raise InputError(f"the layout has {echo(layout.size)} numbers but the model {n_numbers}; send its own layout")
    return layout


def _is_shape(shape: object) -> bool:
    """Return whether something is a shape of few dimensions, each of a size that can be."""
    if not isinstance(shape, list) or len(shape) > 32:
        return False
    return all(type(size) is int and 0 <= size <= MOST for size in shape)


def npy_floats(content: bytes, n_numbers: int | None = None) -> npt.NDArray[np.float32]:
    """Return the numbers of a little-endian float32 vector in NumPy's file format, without trusting its header.

    Parameters
    ----------
    content
        The file. It is looked at only if it is as long as it has to be.
    n_numbers
        How many numbers there must be; None for as many as there are.

    Returns
    -------
    float32, shape ``(n_numbers,)``; not to be written to.
    """
    if n_numbers is not None and not 4 * n_numbers <= len(content) <= 4 * n_numbers + LONGEST_NPY_HEADER:
        raise InputError(f"a model came as {len(content)} bytes; {n_numbers} float32 numbers have {4 * n_numbers}")
    head = io.BytesIO(content[:LONGEST_NPY_HEADER])
    try:
        version = np.lib.format.read_magic(head)
        if version != (1, 0):
            raise ValueError(version)
        shape, _, dtype = np.lib.format.read_array_header_1_0(head, max_header_size=LONGEST_NPY_HEADER)
    except Exception:  # what NumPy raises on arbitrary bytes is not documented
        raise InputError(f"a model begins with {echo(content[:16])}; send an array in NumPy's file format") from None
    if dtype != np.dtype("<f4") or len(shape) != 1:
        raise InputError(f"a model is {dtype} of shape {shape}; send one float32 vector")
    if len(content) != head.tell() + 4 * shape[0] or (n_numbers is not None and shape[0] != n_numbers):
        raise InputError(f"a model claims {echo(shape[0])} numbers in {len(content)} bytes; send as many as it says")
    return np.frombuffer(content, dtype="<f4", offset=head.tell()).astype(np.float32, copy=False)
