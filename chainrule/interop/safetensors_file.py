"""The bytes of a safetensors file, read with every field checked before anything is allocated.

    file := length header data        length: 8 bytes, little endian; header: JSON
    header := name -> {dtype, shape, data_offsets}, "__metadata__" -> strings

The arrays cover the data without holes and without sharing: so a file says nothing of a size that
it does not have. Format: https://huggingface.co/docs/safetensors, "Format".
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from chainrule.engine import dtypes
from chainrule.engine.op import Array
from chainrule.files import strict_json
from chainrule.files.regular_files import open_regular

_LENGTH = 8
_AXES, _ADDRESSES = 64, 1 << 62
_DTYPES = {
    "BOOL": "?", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "u1", "U16": "<u2",
    "U32": "<u4", "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip


def read(path: Path, digest: Any = None) -> dict[str, Array]:
    """The arrays of a file by name, read-only. `digest`, of hashlib, is updated with the file.

    Raises `ValueError` with what is wrong with the file, `OSError` where it cannot be read.
    """
    handle, stat = open_regular(path)
    with os.fdopen(handle, "rb") as file:
        length = file.read(_LENGTH)
        size = int.from_bytes(length, "little")
        left = stat.st_size - _LENGTH - size
        if left < 0:
            raise ValueError("it ends before its header does")
        if size > strict_json.MOST:
            raise ValueError(f"its header is larger than {strict_json.MOST:,} bytes")
        header = file.read(size)
        places = _places(header)
        _check_cover(places, left)
        data = file.read(left)
    if len(data) != left:
        raise ValueError("it became shorter while it was read")
    if digest is not None:
        for part in (length, header, data):
            digest.update(part)
    return {name: _array(data, *place) for name, place in places.items()}


_Place = tuple[np.dtype[Any], tuple[int, ...], int, int]
"""A dtype, a shape, where the bytes begin and end."""


def _places(header: bytes) -> dict[str, _Place]:
    """What the header says of each array."""
    try:
        entries: Any = strict_json.loads(header)
    except ValueError as cause:
        raise ValueError(f"its header {cause}") from cause
    if not isinstance(entries, dict):
        raise ValueError("its header is no JSON object")
    named = cast("dict[str, Any]", entries)
    _check_metadata(named.pop("__metadata__", {}))
    return {name: _place(name, entry) for name, entry in named.items()}


def _check_metadata(found: Any) -> None:
    pairs = cast("dict[str, Any]", found) if isinstance(found, dict) else {"": None}
    if not all(isinstance(text, str) for text in pairs.values()):
        raise ValueError("its metadata are not strings by name")


def _place(name: str, entry: Any) -> _Place:
    """What the header says of an array, checked by itself."""
    fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    kind, sizes = fields.get("dtype"), _sizes(fields.get("shape"))
    ends = _sizes(fields.get("data_offsets"))
    if len(fields) != 3 or not isinstance(kind, str) or sizes is None or len(ends or ()) != 2:
        raise ValueError(f"its header says nothing that makes sense of {name!r:.80}")
    start, end = cast("tuple[int, int]", ends)
    if kind not in _DTYPES and kind != "BF16":
        raise ValueError(f"{name!r:.80} has a dtype that NumPy lacks, {kind!r:.20}")
    dtype = dtypes.bfloat16 if kind == "BF16" else np.dtype(_DTYPES[kind])
    if len(sizes) > _AXES or math.prod([max(n, 1) for n in sizes]) * dtype.itemsize > _ADDRESSES:
        raise ValueError(f"{name!r:.80} has a shape that no memory holds")
    if math.prod(sizes) * dtype.itemsize != end - start:
        raise ValueError(f"{name!r:.80} has bytes that its shape does not account for")
    return dtype, sizes, start, end


def _sizes(x: Any) -> tuple[int, ...] | None:
    """A list of whole numbers that are not negative; None if it is none."""
    if not isinstance(x, list):
        return None
    numbers = cast("list[Any]", x)
    return tuple(numbers) if all(type(n) is int and n >= 0 for n in numbers) else None


def _check_cover(places: Mapping[str, _Place], size: int) -> None:
    """Raise where the arrays do not cover `size` bytes one after the other."""
    at = 0
    for name, (_, _, start, end) in sorted(places.items(), key=lambda p: p[1][2:]):
        if start != at:
            raise ValueError(f"{name!r:.80} does not begin where the array before it ends")
        at = end
    if at != size:
        raise ValueError(f"its arrays take {at:,} bytes, of which it has {size:,}")


def _array(data: bytes, dtype: Any, shape: tuple[int, ...], start: int, end: int) -> Array:
    if start == end:
        return np.empty(shape, dtype)
    array = np.frombuffer(data, dtype, (end - start) // dtype.itemsize, start).reshape(shape)
    return np.require(array, dtype.newbyteorder("="), "A")
