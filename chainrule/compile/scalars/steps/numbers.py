"""Floats that write down what is done to them, as nodes of a graph without derivatives.

The same operation on the same nodes is one node. So what a loop over parameters computes in each
iteration anew (`1 - b ** step`) is computed once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, final

from chainrule.compile.scalars.ints.symbolic import COMPARISONS, Steps, SymbolicInt
from chainrule.engine.provenance import location, user_line
from chainrule.errors import TraceError
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

    def input(self, key: Input, x: float) -> TracedNumber:
        """An input, which is `x` now."""
        return TracedNumber(self, self.node("input", key), x)

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
        y = self.input(("int", x.steps.scalar(x.name)), float(x.value))
        y.source = x.steps, f"float({x.name})"
        return y

    def apply(self, label: str, compute: Callable[..., Any], *xs: Any) -> Any:
        """An op of numbers."""
        nodes = [self.of(x) for x in xs]
        if None in nodes:
            return NotImplemented
        return TracedNumber(self, self.node(label, *nodes), compute(*map(number_of, xs)))


@final
class TracedNumber:
    """Stands for a float, of which it has the number that it is now.

    What is computed from ints alone has a `source`, where it is written down what was done with
    these, and how it is computed; so it may be looked at, as an int may.
    """

    __slots__ = ("leaf", "node", "nodes", "source", "value")
    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(self, nodes: Arithmetic, node: int, value: float) -> None:
        self.nodes = nodes
        """The graph that it belongs to."""
        self.node = node
        self.value = value
        self.leaf: Value | None = None
        """Stands for it where it meets Values."""
        self.source: tuple[Steps, str] | None = None

    def __pow__(self, b: Any) -> Any:
        if type(b) in (float, int) and b in (2, 0.5):
            label = "square" if b == 2 else "sqrt"
            y = TracedNumber(self.nodes, self.nodes.node(label, self.node), self.value**b)
            return _sourced(y, self, "**", b)
        return _sourced(_binary("pow", _power, self, b), self, "**", b)

    def __rpow__(self, a: Any) -> Any:
        return _sourced(_binary("pow", _power, a, self), a, "**", self)

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


def _power(a: Any, b: Any) -> Any:
    return a**b


def _text(x: Any) -> str | None:
    """A number in source, if it is one, or computed from ints alone."""
    if type(x) is TracedNumber:
        return None if x.source is None else x.source[1]
    if type(x) is SymbolicInt:
        return f"float({x.name})"
    return f"({x!r})" if type(x) in (float, int) else None


def _sourced(y: Any, a: Any, sign: str, b: Any) -> Any:
    """`y`, which is `a sign b`, with its source, if both have one."""
    texts = _text(a), _text(b)
    if type(y) is TracedNumber and None not in texts:
        sources = [x.source for x in (a, b) if type(x) is TracedNumber]
        steps = next(x[0] for x in sources if x is not None)
        text = f"({texts[0]} {sign} {texts[1]})"
        y.source = steps, steps.define(text) if len(text) > _LONG else text
    return y


_LONG = 400
"""Letters of a source that gets a name."""


def _binary(label: str, compute: Callable[..., Any], a: Any, b: Any) -> Any:
    mine = a if type(a) is TracedNumber else b
    for x in (a, b):
        if isinstance(x, Value):
            if mine.leaf is None:
                raise TraceError(
                    "jit: a number that is computed from data or gradients meets a Value at "
                    f"{location(*user_line())}: in one step Values are computed before backward, "
                    "numbers after it"
                )
            return compute(*[y.leaf if y is mine else y for y in (a, b)])
    return mine.nodes.apply(label, compute, a, b)


def _refuse(x: Any, *rest: Any) -> Any:
    raise TraceError(
        f"jit: the step looks at a number at {location(*user_line())} (a comparison, int(), a "
        "function that is not math's): what it does next would be the same at every call. Compute "
        "it with + - * / **, min, max and functions of math, or do that outside"
    )


def _add_arithmetic(name: str, label: str, sign: str) -> None:
    """Operators that give another such number."""
    compute = getattr(operator, name)

    def forward(a: TracedNumber, b: Any) -> Any:
        nodes, kind = a.nodes, b.__class__
        if kind is TracedNumber:
            n = nodes.node(label, a.node, b.node)
            y = TracedNumber(nodes, n, compute(a.value, b.value))
            return y if a.source is None or b.source is None else _sourced(y, a, sign, b)
        if kind is float or kind is int:
            n = nodes.node(label, a.node, nodes.constant(b))
            y = TracedNumber(nodes, n, compute(a.value, b))
            return y if a.source is None else _sourced(y, a, sign, b)
        return _binary(label, compute, a, b)

    def reflected(b: TracedNumber, a: Any) -> Any:
        kind = a.__class__
        if kind is float or kind is int:
            nodes = b.nodes
            n = nodes.node(label, nodes.constant(a), b.node)
            y = TracedNumber(nodes, n, compute(a, b.value))
            return y if b.source is None else _sourced(y, a, sign, b)
        return _binary(label, compute, a, b)

    setattr(TracedNumber, f"__{name}__", forward)
    setattr(TracedNumber, f"__r{name}__", reflected)


def _add_comparison(name: str, sign: str) -> None:
    """An operator whose answer becomes a condition."""
    compute = getattr(operator, name)

    def compare(a: TracedNumber, b: Any) -> Any:
        texts = _text(a), _text(b)
        if a.source is None or None in texts:
            return _refuse(a)
        return a.source[0].decide(f"({texts[0]} {sign} {texts[1]})", compute(a.value, number_of(b)))

    setattr(TracedNumber, f"__{name}__", compare)


def _add_plain(name: str) -> None:
    """A method that works with the float that is there now."""

    def ask(a: TracedNumber, *rest: Any) -> Any:
        if a.source is None:
            return _refuse(a)
        steps, text = a.source
        steps.require(f"({text} == {a.value!r})")
        return getattr(float, f"__{name}__")(a.value, *map(number_of, rest))

    setattr(TracedNumber, f"__{name}__", ask)


def _install() -> None:
    for name, label, sign in (
        ("add", "add", "+"), ("sub", "sub", "-"), ("mul", "mul", "*"), ("truediv", "quotient", "/"),
    ):  # fmt: skip
        _add_arithmetic(name, label, sign)
    for name, sign in COMPARISONS.items():
        _add_comparison(name, sign)
    for name in (
        "bool", "int", "float", "round", "trunc", "floor", "ceil", "floordiv", "rfloordiv", "mod",
        "rmod", "divmod", "rdivmod",
    ):  # fmt: skip
        _add_plain(name)


_install()
