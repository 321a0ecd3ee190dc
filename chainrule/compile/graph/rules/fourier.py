"""Discrete Fourier transforms as sums and products of arrays.

A length n = r m is done by r transforms of length m at once. After each the results are in their
order (Stockham's form). (P, r m, S) is seen as (P, r, m, S). Transforms of r points along the
second axis, times powers of exp(-2 pi i / n), go to (P, m, r S). All axes behind are one, so that
an inner axis is as good as the last. Lengths with a large prime factor are convolutions
(Bluestein).

Notation: `P` what stands before the axis, `S` what stands behind it, n its length, r a radix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.compile.graph.rules.butterflies import radices, short
from chainrule.compile.graph.rules.pair_arithmetic import Maker, Num, Pair, concat, stack
from chainrule.compile.graph.terms import Term
from chainrule.ops.complex import real_dtype
from chainrule.ops.families import BroadcastTo
from chainrule.ops.signal.fft import Dft, HalfDft, RealDft


def transform(m: Maker, t: Term, args: Sequence[Any]) -> Pair:
    """`Dft`, along one axis after the other."""
    (z,) = args
    for axis in t.op.axes:
        flat = z.reshape(_around(z.shape, axis))
        z = _whole(flat, back=t.op.back).reshape(z.shape)
    return z


def to_half(m: Maker, t: Term, args: Sequence[Any]) -> Pair:
    """`RealDft`."""
    x: Num = args[0].cast(real_dtype(t.dtype))
    return _half(x.reshape(_around(x.shape, t.op.axis))).reshape(t.shape)


def from_half(m: Maker, t: Term, args: Sequence[Any]) -> Num:
    """`HalfDft`."""
    (z,), n = args, t.op.n
    flat = z.full().reshape(_around(z.shape, t.op.axis))
    return (_even_real(flat, n) if n % 2 == 0 else _odd_real(flat, n)).reshape(t.shape)


def lengths(t: Term) -> tuple[int, ...]:
    """How many points the transform `t` has along its axes; none if it is no transform."""
    match t.op:
        case Dft():
            return tuple([t.shape[a] for a in t.op.axes])
        case RealDft():
            return (t.args[0].shape[t.op.axis],)
        case HalfDft():
            return (t.op.n,)
        case _:
            return ()


def _around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _whole(z: Pair, *, back: bool) -> Pair:
    """(P, n, S) -> (P, n, S), of what is real by its half; backwards is forwards with real and
    imaginary parts exchanged."""
    if z.imag is None:
        y = _mirror(_half(z.re), z.shape[1])
        return y.conj() if back else y
    return complex_transform(z.swapped()).swapped() if back else complex_transform(z)


def _mirror(half: Pair, n: int) -> Pair:
    """(P, n // 2 + 1, S) -> (P, n, S): the other terms are conjugates."""
    count = (n - 1) // 2
    if not count:
        return half
    return concat([half, half.cut(1, count, 0, -1).conj()], 1)


# --- complex numbers -----------------------------------------------------------------------------


def complex_transform(z: Pair) -> Pair:
    """(P, n, S) -> (P, n, S)."""
    p, n, s = z.shape
    found = radices(n)
    if found is None:
        return _by_convolution(z)
    done = 1
    for r in found:
        m = n // done // r
        z = _stage(z.reshape((p, r, m, done * s)), done).reshape((p, n, s))
        done *= r
    return z


def _stage(z: Pair, done: int) -> Pair:
    """(P, r, m, S) -> (P, m, r, S): transforms of r points along the second axis, times the powers
    that the transforms of m points need, which come next."""
    _, r, m, _ = z.shape
    ys = short(z)
    if m > 1:
        w = roots(r * m, np.outer(np.arange(r), np.arange(m)))
        ys = [y if k == 0 else y * _constant_pair(y, w[k].reshape(m, 1)) for k, y in enumerate(ys)]
    return stack(ys, 2)


def roots(n: int, k: Any) -> Any:
    """exp(-2 pi i k / n), by angles of at most an eighth of a turn: exact on the axes."""
    eighth, rest = (np.asarray(x) for x in np.divmod(8 * (k % n), n))
    odd = eighth % 2
    angle: Any = np.where(odd, n - rest, rest) * (np.pi / 4 / n)
    c, s = np.cos(angle), np.where(odd, -1, 1) * np.sin(angle)
    quarter = (eighth + odd) // 2 % 4
    re = np.select([quarter == 0, quarter == 1, quarter == 2], [c, -s, -c], s)
    im = np.select([quarter == 0, quarter == 1, quarter == 2], [-s, -c, s], c)
    return re + 1j * im


def _constant_pair(like: Pair, w: Any) -> Pair:
    """The constants `w` in the dtype of `like`."""
    m, dtype = like.re.m, like.re.dtype
    return Pair(m.num(w.real.astype(dtype)), m.num(w.imag.astype(dtype)))


def _by_convolution(z: Pair) -> Pair:
    """By 2 t k = t^2 + k^2 - (k - t)^2 a convolution with exp(pi i t^2 / n) (Bluestein 1970)."""
    p, n, s = z.shape
    size = _roomy(2 * n - 1)
    t = np.arange(n)
    chirp = roots(2 * n, t * t)
    ring = np.zeros(size, complex)
    ring[:n] = chirp.conj()
    ring[size - n + 1 :] = chirp[:0:-1].conj()
    kernel = np.fft.fft(ring) / size
    factor = chirp.reshape(n, 1)
    zeros = Pair(_zeros(z.re, (p, size - n, s)), None)
    wide = concat([z * _constant_pair(z, factor), zeros], 1)
    there = complex_transform(wide)
    y = complex_transform((there * _constant_pair(z, kernel.reshape(size, 1))).swapped()).swapped()
    return y.cut(1, 0, n) * _constant_pair(z, factor)


def _roomy(n: int) -> int:
    """The least length of at least n that is 1, 3 or 5 times a power of two."""
    return min([k << max(0, math.ceil(math.log2(n / k))) for k in (1, 3, 5)])


def _zeros(like: Num, shape: tuple[int, ...]) -> Num:
    return like.m.op(BroadcastTo(shape), like.m.num(np.zeros((), like.dtype)))


# --- real numbers --------------------------------------------------------------------------------


def _half(x: Num) -> Pair:
    """(P, n, S) real -> (P, n // 2 + 1, S). Of even length: even and odd places are the parts of n
    / 2 complex numbers z. What belongs to which of them shows at k and n / 2 - k."""
    p, n, s = x.shape
    if n % 2:
        whole = complex_transform(Pair(x, None))
        return whole.cut(1, 0, n // 2 + 1)
    h = n // 2
    both = x.reshape((p, h, 2, s))
    z = complex_transform(Pair(both.at(2, 0), both.at(2, 1)))
    first = z.cut(1, 0, 1)
    ends = [Pair(first.re + first.im, None), Pair(first.re - first.im, None)]
    if h == 1:
        return concat(ends, 1)
    a, b = z.cut(1, 1), z.cut(1, h - 1, 0, -1).conj()
    odd = (a - b).back() * _constant_pair(z, roots(n, np.arange(1, h)).reshape(h - 1, 1))
    return concat([ends[0], (a + b + odd) * 0.5, ends[1]], 1)


def _even_real(z: Pair, n: int) -> Num:
    """(P, n / 2 + 1, S) -> (P, n, S) real: `_half` backwards."""
    p, _, s = z.shape
    h = n // 2
    low, high = z.cut(1, 0, 1).re, z.cut(1, h, h + 1).re
    parts = [Pair(low + high, low - high)]
    if h > 1:
        a = z.cut(1, 1, h)
        b = z.cut(1, h - 1, 0, -1).conj()
        w = roots(n, np.arange(1, h)).conj().reshape(h - 1, 1)
        parts.append(a + b + ((a - b) * _constant_pair(z, w)).times_i())
    y = complex_transform(concat(parts, 1).swapped()).swapped()
    return stack([Pair(y.re, None), Pair(y.im, None)], 2).re.reshape((p, n, s))


def _odd_real(z: Pair, n: int) -> Num:
    """(P, (n + 1) / 2, S) -> (P, n, S) real, with all terms."""
    first = Pair(z.cut(1, 0, 1).re, None)
    if n == 1:
        return first.re
    rest = z.cut(1, 1)
    whole = concat([first, rest, rest.cut(1, None, None, -1).conj()], 1)
    return complex_transform(whole.swapped()).swapped().re
