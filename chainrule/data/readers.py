"""Arrays from files: IDX (the MNIST files' format), CSV, NPZ. What is damaged is refused.

Every size that a file states is compared with what is there before any memory is asked for.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ConfigError
from chainrule.files.regular_files import read_regular

_LARGEST = 1 << 32
"""Bytes of a file, or of what it unpacks to."""
_IDX = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def _content(path: str | Path) -> tuple[Path, bytes]:
    path = Path(path)
    try:
        return path, read_regular(path, _LARGEST)
    except OSError as cause:
        raise ConfigError(f"{path} cannot be read: {cause.strerror or cause}") from cause


def read_idx(path: str | Path) -> Array:
    """The array of an IDX file, as MNIST's are; also one that is packed by gzip.

    Its dtype is the file's, in the machine's byte order. LeCun, Cortes & Burges, yann.lecun.com.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     file = pathlib.Path(place, "x.idx")
    ...     _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 6]))  # one axis of 2 bytes
    ...     print(cr.data.read_idx(file))
    [5 6]
    """
    path, raw = _content(path)
    if raw[:2] == b"\x1f\x8b":
        raw = _gunzip(path, raw)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _IDX or raw[3] == 0:
        raise ConfigError(f"{path} is no IDX file: it begins with {raw[:4].hex(' ') or 'nothing'}")
    dtype, ndim = np.dtype(_IDX[raw[2]]), raw[3]
    start = 4 + 4 * ndim
    if len(raw) < start:
        raise ConfigError(f"{path} is cut off: its {ndim} sizes need {start} bytes, not {len(raw)}")
    shape = struct.unpack(f">{ndim}I", raw[4:start])
    needed = start + math.prod(shape) * dtype.itemsize
    if len(raw) != needed:
        raise ConfigError(
            f"{path} is damaged: an array {shape} of {dtype.itemsize} bytes each needs {needed:,} "
            f"bytes, the file has {len(raw):,}"
        )
    array = np.frombuffer(raw, dtype, offset=start).reshape(shape)
    return array.astype(dtype.newbyteorder("="))


def _gunzip(path: Path, raw: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            content = file.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error) as cause:
        raise ConfigError(f"{path} is damaged: {cause}") from cause
    if len(content) > _LARGEST:
        raise ConfigError(f"{path} unpacks to more than {_LARGEST:,} bytes")
    return content


def read_csv(
    path: str | Path, *, header: bool | None = None, delimiter: str = ",", dtype: Any = np.float64
) -> tuple[Array, list[str]]:
    """The numbers of a CSV file, (rows, columns), and the names of its columns.

    `header`: whether the first line is names; None: if one of it is no number. Without a header
    names are "0", "1", ... Empty fields are NaN.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     np.savetxt(f"{place}/x.csv", [[1, 2], [3, 4]], delimiter=",", header="a,b", comments="")
    ...     print(cr.data.read_csv(f"{place}/x.csv"))
    (array([[1., 2.],
           [3., 4.]]), ['a', 'b'])
    """
    path, raw = _content(path)
    try:
        text = raw.decode("utf-8-sig")
        rows = [r for r in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if r]
    except (UnicodeDecodeError, csv.Error, TypeError) as cause:
        raise ConfigError(f"{path} is no CSV file in UTF-8: {cause}") from cause
    if not rows:
        raise ConfigError(f"{path} has no rows")
    if header is None:
        header = any(_number(field) is None for field in rows[0])
    names = [f.strip() for f in rows[0]] if header else [str(i) for i in range(len(rows[0]))]
    numbers: list[list[float]] = []
    for line, row in enumerate(rows[header:], start=1 + header):
        if len(row) != len(names):
            raise ConfigError(f"{path}: row {line} has {len(row)} fields, not {len(names)}")
        values = [_number(field) for field in row]
        if None in values:
            at = values.index(None)
            raise ConfigError(f"{path}: row {line}, column {names[at]}: {row[at]!r} is no number")
        numbers.append([v for v in values if v is not None])
    return np.array(numbers, dtype).reshape(len(numbers), len(names)), names


def _number(field: str) -> float | None:
    try:
        return float(field) if field.strip() else math.nan
    except ValueError:
        return None


def read_npz(path: str | Path) -> dict[str, Array]:
    """The arrays of an NPZ file, by name. Objects, which need unpickling, are refused.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     np.savez(f"{place}/x.npz", a=np.ones((2, 3)))
    ...     print(cr.data.read_npz(f"{place}/x.npz")["a"].shape)
    (2, 3)
    """
    path, raw = _content(path)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            size = sum([i.file_size for i in archive.infolist()])
        if size > _LARGEST:
            raise ConfigError(f"{path} unpacks to {size:,} bytes, more than {_LARGEST:,}")
        with np.load(io.BytesIO(raw)) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, KeyError, zlib.error) as cause:
        raise ConfigError(f"{path} is no NPZ file of numbers: {cause}") from cause
    except (NotImplementedError, RuntimeError, MemoryError) as cause:
        raise ConfigError(f"{path} is no NPZ file that can be read: {cause}") from cause
