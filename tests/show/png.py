"""The pixels of a PNG file with eight bits a channel (PNG specification 3, sections 7 and 9)."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_CHANNELS = {2: 3, 6: 4}


def pixels(data: bytes) -> NDArray[np.uint8]:
    """(height, width, channels) of a PNG without interlacing."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind, *_, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    assert depth == 8 and not interlaced
    n = _CHANNELS[kind]
    rows = np.frombuffer(zlib.decompress(_body(data)), np.uint8).reshape(height, 1 + width * n)
    out = np.zeros((height + 1, width, n), np.uint8)
    for i, row in enumerate(rows):
        out[i + 1] = _row(row[0], row[1:].reshape(width, n), out[i])
    return out[1:]


def _body(data: bytes) -> bytes:
    at, body = 8, b""
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            body += data[at + 8 : at + 8 + size]
        at += 12 + size
    return body


def _row(kind: int, x: NDArray[np.uint8], above: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if kind == 0:
        return x
    if kind == 1:
        return np.add.accumulate(x, axis=0, dtype=np.uint8)
    if kind == 2:
        return x + above
    return np.stack([_channel(kind, *c) for c in zip(x.T, above.T, strict=True)], axis=-1)


def _channel(kind: int, x: NDArray[np.uint8], above: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Rows that need the pixel on the left as it comes out: averages and Paeth's predictor."""
    out, left, corner = bytearray(len(x)), 0, 0
    for i, (value, up) in enumerate(zip(x.tolist(), above.tolist(), strict=True)):
        if kind == 3:
            guess = (left + up) // 2
        else:
            a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
            guess = left if a <= b and a <= c else up if b <= c else corner
        left, corner = (value + guess) & 255, up
        out[i] = left
    return np.frombuffer(out, np.uint8)
