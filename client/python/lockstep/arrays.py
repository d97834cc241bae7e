"""Between numpy arrays and packed repeated fields, without changing a bit.

protobuf hands floats to Python as doubles. float32 -> double -> float32 gives every number and
quiet NaN back as it was; what must not happen is arithmetic in between.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Float32Array = npt.NDArray[np.float32]
# Anything that stands for a list of token ids.
TokenIds = Sequence[int] | npt.NDArray[np.integer[Any]]


def token_array(ids: TokenIds, name: str) -> Int32Array:
    """Token ids as int32 [N]; ValueError naming `name` for another rank or type."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if array.size == 0:
        return np.empty(0, np.int32)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{name} must be integers, not {array.dtype}")
    limits = np.iinfo(np.int32)
    if array.min() < limits.min or array.max() > limits.max:
        raise ValueError(
            f"{name} must fit 32 bits; the extremes are {array.min()} and {array.max()}"
        )
    return array.astype(np.int32)


def float32_array(values: npt.ArrayLike, length: int, name: str) -> Float32Array:
    """Values as float32 [length]; one number is repeated. ValueError for another shape."""
    array = np.asarray(values, np.float32)
    if array.ndim == 0:
        return np.full(length, array, np.float32)
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},), not {array.shape}")
    return array


def int32_from_wire(field: Collection[int]) -> Int32Array:
    """A repeated int32 field as an array."""
    return np.fromiter(field, np.int32, len(field))


def float32_from_wire(field: Collection[float]) -> Float32Array:
    """A repeated float field as an array, NaN kept NaN."""
    return np.fromiter(field, np.float32, len(field))
