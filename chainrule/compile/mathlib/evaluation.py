"""Steps that most functions take: nearest integer, powers of two, polynomials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from chainrule.compile.mathlib.lanes import Lanes
from chainrule.compile.mathlib.reals import Bits, Real


def nearest(x: Real, factor: float = 1.0) -> tuple[Real, Bits]:
    """The integer nearest to x times factor, as float and as integer; small only. Within an ulp of
    a tie it may be either."""
    magic = x.at.magic
    shifted = x + magic if factor == 1 else x.multiply_add(factor, magic)
    return shifted - magic, Bits(x.at, shifted.bits().raw, x.at.magic_bits)


def power_of_two(k: Bits) -> Real:
    """2^k, where that is a normal number."""
    return ((k << k.at.mantissa) + (k.at.bias << k.at.mantissa)).real()


def scale(y: Real, k: Bits) -> Real:
    """y 2^k, rounded once; k of any size that an exponential needs (|k| < 2 bias)."""
    at = y.at
    if at.target.scalef and at.width * at.bits >= _SMALLEST:
        return Real(at, _scalef(at, y.v, k.value().v))
    if at.target.scalef and at.width > 1:
        n = k.v if at.bits == 32 else at.builder.trunc(k.v, at.shaped(ir.IntType(32)))
        return Real(at, at.call("ldexp", y.v, n))
    half = k.signed_shift(1)
    return y * power_of_two(half) * power_of_two(k - half)


_SMALLEST, _REGISTER = 128, 512
"""Bits of the smallest and of the largest register where there is such an instruction."""


def _scalef(at: Lanes, y: Any, n: Any) -> Any:
    """y 2^n in one instruction a register, all lanes, rounded to nearest (4: as the processor is
    set)."""
    if at.width * at.bits > _REGISTER:
        halves = [
            _scalef(at.narrower, a, b) for a, b in zip(at.halves(y), at.halves(n), strict=True)
        ]
        return at.joined(*halves)
    size = at.width * at.bits
    name = f"llvm.x86.avx512.mask.scalef.p{'s' if at.bits == 32 else 'd'}.{size}"
    lanes = ir.IntType(max(8, at.width))(-1)
    mode = [ir.IntType(32)(4)] if size == _REGISTER else []
    return at.call_function(name, y.type, [y, n, y, lanes, *mode])


def polynomial(z: Real, coefficients: Sequence[float]) -> Real:
    """c[0] + c[1] z + c[2] z^2 + ..., by Horner's rule."""
    y = z.at.real(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        y = y.multiply_add(z, c)
    return y
