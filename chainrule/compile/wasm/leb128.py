"""Numbers as WebAssembly writes them: seven bits a byte, the lowest first (LEB128)."""

from __future__ import annotations

PADDED = 5
"""Bytes of a number that a relocation may change."""


def unsigned(n: int) -> bytes:
    """`n`, at least 0, in as few bytes as it takes."""
    out = bytearray()
    while True:
        n, low = n >> 7, n & 0x7F
        out.append(low | 0x80 if n else low)
        if not n:
            return bytes(out)


def signed(n: int) -> bytes:
    """`n` in as few bytes as it takes."""
    out = bytearray()
    while True:
        n, low = n >> 7, n & 0x7F
        if n == -(low >> 6):  # all that is left is the sign
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def word(n: int) -> bytes:
    """`n` below 2^32 as the signed 32-bit number with the same bits."""
    return signed(n - (1 << 32) if n >> 31 else n)


def padded(n: int, *, sign: bool = False) -> bytes:
    """`n` below 2^32 in exactly five bytes; as a number with a `sign` that has the same bits."""
    low = [n >> shift & 0x7F for shift in range(0, 28, 7)]
    return bytes([*[b | 0x80 for b in low], n >> 28 | (0x70 if sign and n >> 31 else 0)])


def string(text: str) -> bytes:
    """The number of bytes of `text`, then these."""
    return block(text.encode())


def block(data: bytes) -> bytes:
    """The number of bytes, then these."""
    return unsigned(len(data)) + data


def vector(items: list[bytes]) -> bytes:
    """The number of items, then these."""
    return unsigned(len(items)) + b"".join(items)
