"""What an op computes, in symbols: `a` and `b` its inputs, or `x` the only one."""

from __future__ import annotations

from chainrule.engine.op import Op, Pick
from chainrule.ops.contraction import Einsum, MatMul
from chainrule.ops.families import Elementwise

_SIGNS = {
    "add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "pow": "a ** b", "neg": "-x",
    "square": "x ** 2", "equal": "a == b", "not_equal": "a != b", "less": "a < b",
    "less_equal": "a <= b", "greater": "a > b", "greater_equal": "a >= b",
}  # fmt: skip
"""Ops that are written with a sign."""


def formula_of(op: Op, count: int) -> str:
    """The value of `op` of so many inputs in symbols.

    >>> from chainrule.ops.elementwise import mul, tanh
    >>> formula_of(mul, 2), formula_of(tanh, 1)
    ('a * b', 'tanh(x)')
    """
    if isinstance(op, Elementwise) and op.name in _SIGNS:
        return _SIGNS[op.name]
    if isinstance(op, MatMul):
        return f"{'aᵀ' if op.transpose_a else 'a'} @ {'bᵀ' if op.transpose_b else 'b'}"
    if isinstance(op, Einsum):
        return f"einsum('{','.join(op.terms)}->{op.out}')"
    if isinstance(op, Pick):
        return op.name
    names = ("x",) if count == 1 else ("a", "b", "c", "d")[:count]
    return f"{op.name}({', '.join(names)}{', …' if count > 4 else ''})"
