"""The array types that signatures name; shapes stand in the docstrings."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

ClientId: TypeAlias = int | str  # what a client is known by: a whole number or a text, one kind per federation

Floats: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float64]
"""Representations as they are stored (float32) or computed with (float64)."""

Matrix: TypeAlias = npt.NDArray[np.float64]  # a float64 matrix, one row per client or per cluster
Vector: TypeAlias = npt.NDArray[np.float64]  # a float64 vector
Membership: TypeAlias = npt.NDArray[np.int32]  # a cluster index per client; -1 for a client without a cluster
Counts: TypeAlias = npt.NDArray[np.int64]  # whole numbers: label counts, row indices, rounds
Mask: TypeAlias = npt.NDArray[np.bool_]  # a yes or no per row
Codes: TypeAlias = npt.NDArray[np.int32]  # positions in a list of ids, classes or intervals, one per row
Features: TypeAlias = npt.NDArray[np.float32]  # features of samples as models see them, one row per sample

Models: TypeAlias = npt.NDArray[np.float32]
"""Models as flat vectors, one row per cluster or participant; or a single one."""

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None  # what a JSON file can hold
