"""Bessel and Airy functions: rows of the op table, on the values that SciPy computes.

Formulas: NIST Digital Library of Mathematical Functions (dlmf.nist.gov), chapters 9 (Airy) and 10
(Bessel). A function of an order v is differentiated by x alone: its derivative is one of its
neighbours, whose orders are v - 1 and v + 1.
"""

# The rows' lambdas have no annotations: that is the table's form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

from chainrule.engine.dtypes import rounded_once
from chainrule.ops import elementwise as ew
from chainrule.ops.elementwise import sign
from chainrule.ops.families import elementwise as op
from chainrule.ops.rows import NotOffered
from chainrule.ops.values import bessel as values
from chainrule.ops.values.special_functions import ordered, scipy_value


def _by_order(name: str) -> NotOffered:
    return NotOffered(f"{name}(v, x) by the order v")


# fmt: off
j0  = op(scipy_value("j0"), lambda x: -j1(x), name="j0")
j1  = op(scipy_value("j1"), lambda x: 0.5 * j0(x) - 0.5 * jv(2, x), name="j1")
y0  = op(scipy_value("y0"), lambda x: -y1(x), name="y0", singular=True)
y1  = op(scipy_value("y1"), lambda x: 0.5 * y0(x) - 0.5 * yv(2, x), name="y1", singular=True)
i0  = op(scipy_value("i0"), lambda x: i1(x), name="i0")
i0e = op(scipy_value("i0e"), lambda x, y: i1e(x) - sign(x) * y, name="i0e")
i1  = op(values.i1, lambda x: 0.5 * i0(x) + 0.5 * iv(2, x), name="i1")
i1e = op(scipy_value("i1e"), lambda x, y: 0.5 * (i0e(x) + ive(2, x)) - sign(x) * y, name="i1e")
k0  = op(scipy_value("k0"), lambda x: -k1(x), name="k0", singular=True)
k0e = op(scipy_value("k0e"), lambda x, y: y - k1e(x), name="k0e", singular=True)
k1  = op(scipy_value("k1"), lambda x: -0.5 * k0(x) - 0.5 * kv(2, x), name="k1", singular=True)
k1e = op(scipy_value("k1e"), lambda x, y: y - 0.5 * (k0e(x) + kve(2, x)), name="k1e", singular=True)

# of a real order
jv  = op(scipy_value("jv"), _by_order("jv"), lambda a, b: _falling(jv, a, b), name="jv", singular=True)
yv  = op(scipy_value("yv"), _by_order("yv"), lambda a, b: _falling(yv, a, b), name="yv", singular=True)
iv  = op(scipy_value("iv"), _by_order("iv"), lambda a, b: _between(iv, a, b), name="iv", singular=True)
ive = op(scipy_value("ive"), _by_order("ive"), lambda y, a, b: _between(ive, a, b) - sign(b) * y, name="ive", singular=True)
kv  = op(scipy_value("kv"), _by_order("kv"), lambda a, b: -_between(kv, a, b), name="kv", singular=True)
kve = op(scipy_value("kve"), _by_order("kve"), lambda y, a, b: y - _between(kve, a, b), name="kve", singular=True)

# of an order n that counts as the nearest whole number: a step, whose derivative is 0
spherical_jn = op(ordered("spherical_jn"), lambda: 0, lambda a, b: _spherical(ew.round(a), b), name="spherical_jn")

airy_ai       = op(rounded_once(lambda x: values.airy(x, 0)), lambda x: airy_ai_slope(x), name="airy_ai")
airy_ai_slope = op(rounded_once(lambda x: values.airy(x, 1)), lambda x: x * airy_ai(x), name="airy_ai_slope")
# fmt: on


def _between(kind: Any, v: Any, x: Any) -> Any:
    """Half the sum of the neighbours. DLMF 10.29.1: I_v' is that, K_v' is minus that."""
    return 0.5 * (kind(v - 1, x) + kind(v + 1, x))


def _falling(kind: Any, v: Any, x: Any) -> Any:
    """DLMF 10.6.1: 2 J_v' = J_(v-1) - J_(v+1), and so for Y."""
    return 0.5 * (kind(v - 1, x) - kind(v + 1, x))


def _spherical(n: Any, x: Any) -> Any:
    """DLMF 10.51.2: (2n + 1) j_n' = n j_(n-1) - (n + 1) j_(n+1), where n is whole."""
    below = n * spherical_jn(ew.at_least(n - 1, 0), x)
    return (below - (n + 1) * spherical_jn(n + 1, x)) / (2 * n + 1)
