"""Floats that write down what is done to them, as nodes of a graph without derivatives.

The same operation on the same nodes is one node, so that what a loop over parameters computes in
each iteration anew (`1 - b ** step`) is computed once.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, final

from chainrule.compile.scalars.formulas import LIBM
from chainrule.compile.scalars.ints.symbolic import SymbolicInt
from chainrule.errors import TraceError
from chainrule.provenance import location, user_line
from chainrule.scalar import Value

Input = tuple[Any, ...]
"""What an input is: the kind of it, and which one."""


@final
class Arithmetic:
    """All nodes of one step, operands first: `("input", key)`, `("constant", number)`, or an op
    with its operands' numbers."""

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self._constants: dict[float, int] = {}

    def node(self, *what: Any) -> int:
        """The number of a node."""
        n = self._known.setdefault(what, len(self.nodes))
        if n == len(self.nodes):
            self.nodes.append(what)
        return n

    def input(self, key: Input, x: float, leaf: Value | None = None) -> TracedNumber:
        """An input, which is `x` now; `leaf` stands for it where it meets Values."""
        return TracedNumber(self, self.node("input", key), x, leaf)

    def of(self, x: Any) -> int | None:
        """The node of a number; None of anything else."""
        if type(x) is TracedNumber:
            return x.node
        if type(x) is SymbolicInt:
            return self.of(self.scalar(x))
        return self.constant(x) if isinstance(x, float | int) else None

    def constant(self, x: float) -> int:
        """The node of a plain number."""
        n = self._constants.get(x) if x else None  # 0 has two signs
        if n is None:
            n = self._constants[x] = self.node("constant", repr(float(x)))
        return n

    def scalar(self, x: SymbolicInt) -> TracedNumber:
        """An int as a float."""
        return self.input(("int", x.steps.scalar(x.name)), float(x.value))

    def apply(self, label: str, compute: Callable[..., Any], *xs: Any) -> Any:
        """An op of numbers."""
        nodes = [self.of(x) for x in xs]
        if None in nodes:
            return NotImplemented
        return TracedNumber(self, self.node(label, *nodes), compute(*map(number_of, xs)))


@final
class TracedNumber:
    """Stands for a float, of which it has the number that it is now."""

    __slots__ = ("leaf", "node", "nodes", "value")
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, nodes: Arithmetic, node: int, value: float, leaf: Any = None) -> None:
        self.nodes = nodes
        """The graph that it belongs to."""
        self.node = node
        self.value = value
        self.leaf = leaf

    def __pow__(self, b: Any) -> Any:
        if type(b) in (float, int) and b == 2:
            return self.nodes.apply("square", lambda x: x**2, self)
        if type(b) in (float, int) and b == 0.5:
            return self.nodes.apply("sqrt", lambda x: x**0.5, self)
        return _binary("pow", operator.pow, self, b)

    def __rpow__(self, a: Any) -> Any:
        return _binary("pow", operator.pow, a, self)

    def __pos__(self) -> TracedNumber:
        return self

    def __neg__(self) -> Any:
        return self.nodes.apply("neg", operator.neg, self)

    def __abs__(self) -> Any:
        return self.nodes.apply("abs", abs, self)

    def __str__(self) -> str:
        return str(self.value)  # what is printed while it is traced

    __repr__ = __str__

    def __format__(self, how: str) -> str:
        return format(self.value, how)


def number_of(x: Any) -> Any:
    """The number that it is now."""
    return x.value if type(x) in (TracedNumber, SymbolicInt) else x


def _binary(label: str, compute: Callable[..., Any], a: Any, b: Any) -> Any:
    mine = a if type(a) is TracedNumber else b
    for x in (a, b):
        if isinstance(x, Value):
            if mine.leaf is None:
                raise TraceError(
                    f"jit: a number that is computed from data or gradients meets a Value at "
                    f"{_line()}: in one step Values are computed before backward, numbers after it"
                )
            return compute(*[y.leaf if y is mine else y for y in (a, b)])
    return mine.nodes.apply(label, compute, a, b)


def _line() -> str:
    return location(*user_line())


def _refuse(x: Any, *rest: Any) -> Any:
    raise TraceError(
        f"jit: the step looks at a number at {_line()} (a comparison, int(), a function that is "
        "not math's): what it does next would be the same at every call. Compute it with "
        "+ - * / ** and functions of math, or do that outside"
    )


def _install() -> None:
    def pair(name: str, label: str) -> None:
        compute = getattr(operator, name)

        def forward(a: TracedNumber, b: Any) -> Any:
            nodes, kind = a.nodes, b.__class__
            if kind is TracedNumber:
                n = nodes.node(label, a.node, b.node)
                return TracedNumber(nodes, n, compute(a.value, b.value))
            if kind is float or kind is int:
                n = nodes.node(label, a.node, nodes.constant(b))
                return TracedNumber(nodes, n, compute(a.value, b))
            return _binary(label, compute, a, b)

        def reflected(b: TracedNumber, a: Any) -> Any:
            kind = a.__class__
            if kind is float or kind is int:
                nodes = b.nodes
                n = nodes.node(label, nodes.constant(a), b.node)
                return TracedNumber(nodes, n, compute(a, b.value))
            return _binary(label, compute, a, b)

        setattr(TracedNumber, f"__{name}__", forward)
        setattr(TracedNumber, f"__r{name}__", reflected)

    for name, label in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "quotient")):
        pair(name, label)
    for name in (
        "lt", "le", "gt", "ge", "eq", "ne", "bool", "int", "float", "index", "round", "trunc",
        "floor", "ceil", "floordiv", "rfloordiv", "mod", "rmod", "divmod", "rdivmod",
    ):  # fmt: skip
        setattr(TracedNumber, f"__{name}__", _refuse)


_install()
_TO_INTS = ("ceil", "floor", "trunc")
_FUNCTIONS = {
    name: label for label, name in LIBM.items() if hasattr(math, name) and label not in _TO_INTS
}


@contextmanager
def functions_of_math(nodes: Arithmetic) -> Generator[None]:
    """Within it functions of `math` take such floats, too."""
    before = {name: getattr(math, name) for name in _FUNCTIONS}

    def traced(name: str) -> Callable[..., Any]:
        compute = before[name]

        def function(*xs: Any) -> Any:
            if any(type(x) in (TracedNumber, SymbolicInt) for x in xs):
                return nodes.apply(_FUNCTIONS[name], compute, *xs)
            return compute(*xs)

        return function

    for name in before:
        setattr(math, name, traced(name))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(math, name, function)
