"""sin, cos, tan.

x = n pi / 2 + r with pi given to three parts; then sin or cos of r by n. For arguments beyond `FAR`
(rare: a jump) the remainder of 2 pi is taken in fixed point, to 256 bits, lane by lane (Payne &
Hanek, Radian reduction for trigonometric functions, SIGNUM Newsletter 18, 1983).
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir  # pyright: ignore[reportMissingTypeStubs]

from chainrule.compile.mathlib.evaluation import nearest, polynomial
from chainrule.compile.mathlib.payne_hanek import remainder_of_turn
from chainrule.compile.mathlib.reals import Bits, Mask, Real
from chainrule.compile.mathlib.twofold import Two, exactly, pick, product, quick_total, total
from chainrule.ops import coefficients as c

FAR = {32: 1e5, 64: 1e9}


def _less_multiple(x: Real, n: Real, unit: tuple[float, float, float]) -> Two:
    """x - n unit, where n is the nearest integer to x / unit."""
    near = (-n).fma(unit[0], x)
    if x.at.bits == 32:
        return exactly((-n).fma(unit[2], (-n).fma(unit[1], near)))
    p = product(n, x.lift(unit[1]))
    r = total(near, -p.hi)
    return Two(r.hi, (-n).fma(unit[2], r.lo - p.lo))


def sin_near_0(r: Two) -> Real:
    """sin(r), |r| <= pi / 4."""
    return r.hi + _sine_less(r)


def _sine_less(r: Two) -> Real:
    """sin(r) - r.hi."""
    z = r.hi * r.hi
    table = c.SIN_F32 if z.at.bits == 32 else c.SIN_F64
    tail = (r.hi * z) * polynomial(z, table)
    return tail + r.lo if z.at.bits == 64 else tail


def cos_near_0(r: Two) -> Real:
    """cos(r), |r| <= pi / 4."""
    z = r.hi * r.hi
    if z.at.bits == 32:
        return (z * z).fma(polynomial(z, c.COS_F32), z.fma(-0.5, 1.0))
    hi, lo = _cosine(r)
    return hi + lo


def _cosine(r: Two) -> tuple[Real, Real]:
    """Two parts of cos(r), the larger one first (float64)."""
    z = r.hi * r.hi
    half = 0.5 * z
    s = quick_total(z.lift(1.0), -half)
    square = (-r.hi).fma(r.lo, s.lo)  # cos(hi + lo) is cos(hi) - hi lo
    return s.hi, (z * z).fma(polynomial(z, c.COS_F64), square)


def _circular(x: Real, more: Real | None, quarters: int) -> Real:
    """sin(x + quarters pi / 2)."""
    k, r = _reduced(x, more)
    k = k + quarters
    odd = (k & 1).equal(1)
    y = odd.where(cos_near_0(r), sin_near_0(r))
    return (y.bits() ^ ((k & 2) << (x.at.bits - 2))).real()


def _reduced(x: Real, more: Real | None) -> tuple[Bits, Two]:
    """n and r of x + more = n pi / 2 + r."""
    pi = c.PI_F32 if x.at.bits == 32 else c.PI
    n, k = nearest(x, 2 / c.PI[0])
    r = _less_multiple(x, n, (pi[0] / 2, pi[1] / 2, pi[2] / 2))
    return k, r if more is None else total(r.hi, r.lo + more)


def sin_and_cos(x: Real, more: Real | None) -> tuple[Two, Two]:
    """The sine and the cosine of x + more, |x| <= FAR, to some bits more than a float64 has."""
    k, r = _reduced(x, more)
    s, c = quick_total(r.hi, _sine_less(r)), quick_total(*_cosine(r))
    odd = (k & 1).equal(1)
    sine, cosine = pick(odd, c, s), pick(odd, s, c)
    return (
        pick((k & 2).equal(2), -sine, sine),
        pick((k + 1 & 2).equal(2), -cosine, cosine),
    )


def _sin(x: Real, more: Real | None) -> Real:
    return x.same(0.0).where(x, _circular(x, more, 0))


def _cos(x: Real, more: Real | None) -> Real:
    return _circular(x, more, 1)


def tan_near_0(r: Two) -> Two:
    """tan(r), |r| <= pi / 4 (float64)."""
    z = product(r.hi, r.hi)
    cube = product(r.hi, z.hi)
    tail = product(cube.hi, polynomial(z.hi, c.TAN_F64))
    more = (cube.lo + r.hi * z.lo).fma(1 / 3, z.hi.fma(r.lo, r.lo))
    return quick_total(r.hi, tail.hi + (tail.lo + more))


def _tan(x: Real, more: Real | None) -> Real:
    k, r = _reduced(x, more)
    t = tan_near_0(r)
    y = (k << (x.at.bits - 1)).equal(0).where(t.value(), (exactly(x.lift(-1.0)) / t).value())
    return x.same(0.0).where(x, y)


def anywhere(near: Callable[[Real, Real | None], Real], x: Real) -> Real:
    """The function of period 2 pi, whose value at moderate x + more is `near(x, more)`."""
    y = near(x, None)

    def body() -> Real:
        if x.at.bits == 32:
            return anywhere(near, x.widened()).narrowed()
        rest = _tamed(x)
        return near(rest.hi, rest.lo)

    return x.at.rarely(_far(x), body, y)


def _far(x: Real) -> Mask:
    return abs(x) > FAR[x.at.bits]


def _tamed(x: Real) -> Two:
    """x less a multiple of 2 pi, for every lane (float64)."""
    at, builder = x.at, x.at.builder
    if not at.width:
        return Two(*(Real(at, v) for v in remainder_of_turn(builder, x.v, at.target)))
    hi, lo = x.v, at.real(0.0).v
    for i in range(at.width):
        place = ir.Constant(ir.IntType(32), i)
        parts = remainder_of_turn(builder, builder.extract_element(x.v, place), at.target)
        hi = builder.insert_element(hi, parts[0], place)
        lo = builder.insert_element(lo, parts[1], place)
    return Two(Real(at, hi), Real(at, lo))


def sin(x: Real) -> Real:
    """The sine."""
    return anywhere(_sin, x)


def cos(x: Real) -> Real:
    """The cosine."""
    return anywhere(_cos, x)


def tan(x: Real) -> Real:
    """The tangent (float64)."""
    return anywhere(_tan, x)
