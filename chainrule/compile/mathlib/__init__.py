"""Mathematics for the native code: each function is written out as instructions, for any lanes.

`emit` writes straight-line code without calls or tables, so it can stand inside a vector loop. (The
exceptions jump over a part that is seldom needed: sin, cos, tan and j_n of huge arguments, fmod of
huge quotients, lgamma and its derivatives left of 0.) Special values are those of IEEE 754 and of
the eager engine. `error_bound` says how far a result can be from the exact value, in units in its
last place. tests/compile/mathlib/test_mathlib.py measures it, docs/math.md lists it. A float32
function without a form of its own is the float64 one, rounded.

Where the target has no fused multiply-add, steps that count on its one rounding take more
instructions, and polynomials round twice a step.
"""

from __future__ import annotations

from chainrule.compile.mathlib.table import Function, emit, error_bound

__all__ = ["Function", "emit", "error_bound"]
