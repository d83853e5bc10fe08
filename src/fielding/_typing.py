"""The array types that signatures name; shapes stand in the docstrings."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

ClientId: TypeAlias = int | str
"""What a client is known by: a whole number or a text, one kind per federation."""

Floats: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float64]
"""Representations as they are stored (float32) or computed with (float64)."""

Matrix: TypeAlias = npt.NDArray[np.float64]
"""A float64 matrix, one row per client or per cluster."""

Vector: TypeAlias = npt.NDArray[np.float64]
"""A float64 vector."""

Membership: TypeAlias = npt.NDArray[np.int32]
"""A cluster index per client; -1 for a client without a cluster."""

Counts: TypeAlias = npt.NDArray[np.int64]
"""Whole numbers: label counts, row indices, rounds."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""A yes or no per row."""

Codes: TypeAlias = npt.NDArray[np.int32]
"""Positions in a list of ids, classes or intervals, one per row."""

Features: TypeAlias = npt.NDArray[np.float32]
"""Features of samples as models see them, one row per sample."""

Models: TypeAlias = npt.NDArray[np.float32]
"""Models as flat vectors, one row per cluster or participant; or a single one."""

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
"""What a JSON file can hold."""
