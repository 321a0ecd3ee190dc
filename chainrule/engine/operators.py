"""Python's operators on tensors, from one table of ops.

An operand may be of a class with operators of its own: an array of another library, say. It is
asked for its reflected operator, as Python's own numbers do it. A tensor never computes with it by
itself: that could lose the gradient, or what that class adds to an array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from chainrule.engine.border import border
from chainrule.engine.doors import door
from chainrule.engine.op import Op
from chainrule.errors import ForeignArrayError
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import matmul

Operator = Callable[[Any, Any], Any]

ARITHMETIC: dict[str, Op | Operator] = {
    "add": ew.add,
    "sub": ew.sub,
    "mul": ew.mul,
    "truediv": ew.div,
    "floordiv": ew.floor_divide,
    "mod": ew.remainder,
    "pow": ew.power,
    "matmul": border(matmul),
    "and": ew.bitwise_and,
    "or": ew.bitwise_or,
    "xor": ew.bitwise_xor,
    "lshift": ew.bitwise_left_shift,
    "rshift": ew.bitwise_right_shift,
}
"""By the name of Python's method."""
SIGNS = {
    "add": "+=",
    "sub": "-=",
    "mul": "*=",
    "truediv": "/=",
    "floordiv": "//=",
    "mod": "%=",
    "pow": "**=",
    "matmul": "@=",
    "and": "&=",
    "or": "|=",
    "xor": "^=",
    "lshift": "<<=",
    "rshift": ">>=",
}
"""As they are written when they change what is on the left."""
COMPARISONS: dict[str, tuple[Op, str]] = {
    "eq": (ew.equal, "eq"),
    "ne": (ew.not_equal, "ne"),
    "lt": (ew.less, "gt"),
    "le": (ew.less_equal, "ge"),
    "gt": (ew.greater, "lt"),
    "ge": (ew.greater_equal, "le"),
}
"""The same, with the method that the other operand is asked for."""

UNARY: dict[str, Op] = {
    "__neg__": ew.neg,
    "__pos__": ew.positive,
    "__abs__": ew.abs,
    "__invert__": ew.bitwise_invert,
}
"""Methods without arguments."""


def operators() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The methods of a tensor, by name."""
    for name, op in ARITHMETIC.items():
        yield _set_name(f"__{name}__", _operator(op, f"__r{name}__"))
        yield _set_name(f"__r{name}__", _reflect(op))
        yield _set_name(f"__i{name}__", _in_place(getattr(operator, f"__{name}__"), SIGNS[name]))
    for name, (op, other) in COMPARISONS.items():
        yield _set_name(f"__{name}__", _operator(op, f"__{other}__"))
    for name, op in UNARY.items():
        yield _set_name(name, door(op))


def _set_name(name: str, method: Any) -> tuple[str, Any]:
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = None
    return name, method


def _operator(op: Op | Operator, reflected: str) -> Operator:
    """`a op b`, or what `b` makes of it. Every operator runs through here: it is kept short."""

    def method(a: Any, b: Any) -> Any:
        try:
            return op(a, b)
        except ForeignArrayError as error:
            return _delegate(error, a, b, reflected)

    return door(op, method) if isinstance(op, Op) else method


def _in_place(two: Operator, sign: str) -> Operator:
    """`a sign b`: what the name of `a` stands for behind it."""
    return lambda a, b: a._assign_result(sign, two(a, b))


def _reflect(op: Op | Operator) -> Operator:
    """`a op b` as a method of `b`: Python has asked `a`."""
    two = door(op) if isinstance(op, Op) else op
    return lambda b, a: two(a, b)


def _delegate(error: ForeignArrayError, a: Any, b: Any, reflected: str) -> Any:
    """What `b` itself makes of `a op b`; the error, if it makes nothing of it."""
    repeats = reflected == "__rmul__" and _is_sequence(b)  # "ab" * 2
    method = None if repeats else getattr(b.__class__, reflected, None)
    if error.array is not b or method is None:
        raise error
    y = method(b, a)
    if y is NotImplemented:
        raise error
    return y


def _is_sequence(b: Any) -> bool:
    return isinstance(b, Sequence)
