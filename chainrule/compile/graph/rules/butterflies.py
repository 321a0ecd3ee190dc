"""Transforms of a few points, written out: the radices of longer ones.

Notation: r the number of points, along the second axis of (P, r, m, S); h = (r - 1) / 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.pair_arithmetic import Num, Pair
from chainrule.ops.contraction import MatMul

STRAIGHT = 13
"""Up to this prime all sums are written out; larger ones are matrix products."""
MOST = 50
"""Up to this prime a transform is summed; a convolution is less work for larger ones."""


def radices(n: int) -> list[int] | None:
    """Factors of `n`, none a prime above `MOST`; None if there is such a prime."""
    found: list[int] = []
    twos = (n & -n).bit_length() - 1
    rest = n >> twos
    for p in range(3, MOST + 1, 2):
        while rest % p == 0:
            found.append(p)
            rest //= p
    if rest > 1:
        return None
    fours = {0: 0, 1: 2, 2: 1}[twos % 3] if twos > 1 else 0
    return [*found, *[2] * (twos == 1), *[4] * fours, *[8] * ((twos - 2 * fours) // 3)]


def short(z: Pair) -> list[Pair]:
    """The r terms of the transform along the second axis, each (P, m, S)."""
    r = z.shape[1]
    if r > STRAIGHT:
        return _by_product(z)
    xs = [z.at(1, j) for j in range(r)]
    return _power_of_two(xs) if r in (2, 4, 8) else _odd(xs)


def _power_of_two(xs: Sequence[Pair]) -> list[Pair]:
    """Of even places and of odd ones, by half as many points each."""
    r = len(xs)
    if r == 1:
        return list(xs)
    even, odd = _power_of_two(xs[0::2]), _power_of_two(xs[1::2])
    odd = [_rotate(y, k, r) for k, y in enumerate(odd)]
    pairs = list(zip(even, odd, strict=True))
    return [*[a + b for a, b in pairs], *[a - b for a, b in pairs]]


def _rotate(z: Pair, k: int, r: int) -> Pair:
    """z exp(-2 pi i k / r) for an eighth of a turn, or two or three."""
    eighths = 8 * k // r
    x, y, s = z.re, z.im, math.sqrt(0.5)
    match eighths:
        case 0:
            return z
        case 1:
            return Pair((x + y) * s, (y - x) * s)
        case 2:
            return z.back()
        case _:
            return Pair((y - x) * s, (x + y) * -s)


def _odd(xs: Sequence[Pair]) -> list[Pair]:
    """Sums and differences of x_j and x_(r - j) meet cosines and sines alone."""
    first, h, r = xs[0], len(xs) // 2, len(xs)
    sums = [xs[j] + xs[r - j] for j in range(1, h + 1)]
    gaps = [xs[j] - xs[r - j] for j in range(1, h + 1)]
    low: list[Pair] = []
    high: list[Pair] = []
    for k in range(1, h + 1):
        turns = [2 * math.pi * (j * k % r) / r for j in range(1, h + 1)]
        a, b = first, gaps[0] * math.sin(turns[0])
        for z, turn in zip(sums, turns, strict=True):
            a = a + z * math.cos(turn)
        for z, turn in zip(gaps[1:], turns[1:], strict=True):
            b = b + z * math.sin(turn)
        b = b.back()
        low.append(a + b)
        high.append(a - b)
    total = first
    for z in sums:
        total = total + z
    return [total, *low, *reversed(high)]


def _by_product(z: Pair) -> list[Pair]:
    """The same, with all cosines and sines as two matrices."""
    r = z.shape[1]
    h = r // 2
    first, low, high = z.cut(1, 0, 1), z.cut(1, 1, h + 1), z.cut(1, r - 1, h, -1)
    turns = 2 * np.pi * (np.outer(np.arange(1, h + 1), np.arange(1, h + 1)) % r) / r
    a = first + _times(np.cos(turns), low + high)
    b = _times(np.sin(turns), low - high).back()
    ends = first.at(1, 0)
    for j in range(h):
        ends = ends + (low.at(1, j) + high.at(1, j))
    up, down = a + b, a - b
    return [ends, *[up.at(1, k) for k in range(h)], *[down.at(1, h - 1 - k) for k in range(h)]]


def _times(matrix: Any, z: Pair) -> Pair:
    """(h, h), (P, h, m, S) -> (P, h, m, S)."""
    p, h, m, s = z.shape

    def one(x: Num) -> Num:
        known = x.m.num(np.asarray(matrix, x.dtype))
        return x.m.op(MatMul(), known, x.reshape((p, h, m * s))).reshape(z.shape)

    return z.full().each(one)
