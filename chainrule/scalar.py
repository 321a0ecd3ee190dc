"""Value: the chain rule on single numbers, from the same table as everything else.

A drop-in for the classes of micrograd and microgpt: programs written for either run with only their
import changed. One object per operation is all that it leaves behind, because in pure Python the
garbage collector's walks over a graph cost more than the arithmetic: operands and local derivatives
stand in slots, and a local derivative is, where it can be, the very float that an operand holds.

Notation: `a b` a node's operands, `d_a d_b` its partial derivatives with respect to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from chainrule.errors import DtypeError, describe
from chainrule.graph import kinds
from chainrule.op import Op
from chainrule.ops.families import Elementwise, rows
from chainrule.scalar_rules import Made, functions, number


@final
class Value:
    """A number with a place in a graph: `Value(2.0)`.

    `data` is a Python number (ints stay ints; NumPy's scalars become Python's), `grad` the
    derivative of what `backward` was last called on. `+ - * / **` take Values and numbers on either
    side; `relu tanh exp log sigmoid` are methods; every elementwise function of `chainrule` (`sin`,
    `maximum`, ...) takes Values too. Where Python raises, the number is what IEEE 754 says:
    `Value(1) / 0` is inf. `a / b` is computed as `a * b**-1`, as in micrograd.

    `< <= > >=` compare numbers and give bools; `==` and `hash` are the object's identity, so that
    Values can stand in sets and dicts. Numbers that meet a Value are not nodes: `_prev`,
    `_children` and `_local_grads` name the Values only, `_operands` both, in the order written. A
    Value does not note the line that made it: that would cost as much as the operation.

    Raises `DtypeError` for data that is not a real number.

    >>> a, b = Value(2.0), Value(-3.0)
    >>> f = (a * b + 10).relu()
    >>> f.backward()
    >>> a
    Value(data=2.0, grad=-3.0)
    """

    __slots__ = ("_a", "_b", "_d_a", "_d_b", "_label", "_made", "_waits", "data", "grad")
    __array_ufunc__ = None  # NumPy's number * value asks the value

    data: Any
    grad: Any
    _a: Value
    _b: Any
    _d_a: Any
    _d_b: Any
    _label: str
    _made: Made | None
    _waits: int

    def __init__(self, data: Any, label: str = "") -> None:
        plain = data if data.__class__ is float else number(data)
        if plain is None:
            raise DtypeError(f"a Value holds one real number, not {describe(data)}")
        self.data = plain
        self.grad = 0
        self._made = self._d_b = None
        self._waits = 0
        if label:
            self._label = label

    if TYPE_CHECKING:  # written by `scalar_rules` from the op table
        # fmt: off
        def __add__(self, b: Value | float) -> Value: ...
        def __radd__(self, a: float) -> Value: ...
        def __sub__(self, b: Value | float) -> Value: ...
        def __rsub__(self, a: float) -> Value: ...
        def __mul__(self, b: Value | float) -> Value: ...
        def __rmul__(self, a: float) -> Value: ...
        def __truediv__(self, b: Value | float) -> Value: ...
        def __rtruediv__(self, a: float) -> Value: ...
        def __pow__(self, b: Value | float) -> Value: ...
        def __rpow__(self, a: float) -> Value: ...
        def __neg__(self) -> Value: ...
        def __abs__(self) -> Value: ...
        def relu(self) -> Value: ...  # noqa: D102
        def tanh(self) -> Value: ...  # noqa: D102
        def exp(self) -> Value: ...  # noqa: D102
        def log(self) -> Value: ...  # noqa: D102
        def sigmoid(self) -> Value: ...  # noqa: D102
        # fmt: on

    # fmt: off
    def __lt__(self, b: Value | float) -> bool: return self.data < _data(b)
    def __le__(self, b: Value | float) -> bool: return self.data <= _data(b)
    def __gt__(self, b: Value | float) -> bool: return self.data > _data(b)
    def __ge__(self, b: Value | float) -> bool: return self.data >= _data(b)
    # fmt: on

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self.grad})"

    # --- the graph, in the words of micrograd and of microgpt

    @property
    def label(self) -> str:
        """A name for pictures, '' until one is given."""
        return getattr(self, "_label", "")

    @label.setter
    def label(self, text: str) -> None:
        self._label = text

    @property
    def _op(self) -> str:
        """What made this: `+`, `*`, `**2`, `ReLU`, `tanh`, ...; '' for a leaf."""
        if self._made is None:
            return ""
        powered = self._made.row.label == "pow" and self._d_b is None and not self._made.turned
        return f"**{self._b}" if powered else self._made.mark

    @property
    def _operands(self) -> tuple[Value | float, ...]:
        """What the op was applied to, Values and numbers, in the order written."""
        if self._made is None:
            return ()
        if self._b is None:
            return (self._a,)
        return (self._b, self._a) if self._made.turned else (self._a, self._b)

    @property
    def _children(self) -> tuple[Value, ...]:
        """The Values that the op was applied to."""
        return tuple([x for x in self._operands if isinstance(x, Value)])

    @property
    def _prev(self) -> set[Value]:
        """The same as a set."""
        return set(self._children)

    @property
    def _local_grads(self) -> tuple[float, ...]:
        """The partial derivative with respect to each of `_children`."""
        return (self._d_a, self._d_b)[: len(self._children)]

    def _backward(self) -> None:
        """This node's own step of `backward`: add `grad` times a partial to each child's `grad`."""
        for child, d in zip(self._children, self._local_grads, strict=True):
            child.grad += _product(self, d)

    def backward(self) -> None:
        """Add the derivative of this number to `grad` of every leaf that it depends on.

        The `grad` of every node in between becomes the derivative with respect to that node; what
        an earlier call left there is replaced, so a second call adds exactly the same to the leaves
        again. This node's own is 1. The graph is kept. Graphs of any depth.
        """
        earlier: list[tuple[Value, Any]] = []
        try:
            if self._made is not None:
                _count(self, earlier)
                _sweep(self)
        except BaseException:
            _forget(self)
            raise
        finally:
            for leaf, grad in earlier:
                leaf.grad = grad + leaf.grad
        if self._made is None:
            self.grad = 1


def _data(x: Value | float) -> Any:
    return x.data if isinstance(x, Value) else x


def _product(v: Value, d: Any) -> Any:
    """`grad * d`, with the strong zero: exactly 0 where a singular op's cotangent is."""
    strong = v._made is not None and v._made.singular and v.grad == 0
    return 0.0 if strong else v.grad * d


# The two walks below are written out, one operand after the other: they are the whole cost of
# `backward`, and a call or an inner loop would double it. A queue that grows while it is iterated
# over needs no pop, and CPython 3.11 specialises a `for` loop at once, a `while` loop only after
# eight calls.


def _count(root: Value, earlier: list[tuple[Value, Any]]) -> None:
    """Set `_waits` of each inner node to how many edges lead to it from above; clear `grad`s.

    What leaves held moves to `earlier`, so that the new gradient is summed by itself.
    """
    queue = [root]
    push = queue.append
    for v in queue:
        x = v._a
        if n := x._waits:
            x._waits = n + 1
        elif x._made is not None:
            x._waits = 1
            x.grad = 0
            push(x)
        elif x.grad:
            earlier.append((x, x.grad))
            x.grad = 0
        if v._d_b is not None:
            x = v._b
            if n := x._waits:
                x._waits = n + 1
            elif x._made is not None:
                x._waits = 1
                x.grad = 0
                push(x)
            elif x.grad:
                earlier.append((x, x.grad))
                x.grad = 0


def _sweep(root: Value) -> None:
    """Pass gradients on, each node once all that come to it have come; `_waits` ends at 0."""
    root.grad = 1
    queue = [root]
    push = queue.append
    for v in queue:
        g = v.grad
        live = g or not v._made.singular  # pyright: ignore[reportOptionalMemberAccess]
        x = v._a
        if live:
            x.grad += g * v._d_a
        if n := x._waits:
            x._waits = n - 1
            if n == 1:
                push(x)
        if (d := v._d_b) is not None:
            x = v._b
            if live:
                x.grad += g * d
            if n := x._waits:
                x._waits = n - 1
                if n == 1:
                    push(x)


def _forget(root: Value) -> None:
    """After an interruption: let no node wait any more."""
    stack, seen = [root], {root}
    while stack:
        v = stack.pop()
        v._waits = 0
        fresh = [x for x in v._children if x not in seen]
        seen.update(fresh)
        stack.extend(fresh)


# --- From the table ------------------------------------------------------------------------------

_of: dict[str, Callable[..., Any]] = {}
_turned: dict[str, Callable[..., Any]] = {}


def _apply(op: Op, *xs: Any) -> Any:
    """The door for Values; ops without a derivative give plain numbers and bools."""
    if not isinstance(op, Elementwise):
        raise DtypeError(f"{op} takes tensors, not Values: only elementwise functions take both")
    if not op.partials:
        return op.scalar(*map(_data, xs))
    if isinstance(xs[0], Value):
        v = _of[op.label](*xs)
    else:
        v = _turned[op.label](xs[1], xs[0])
    if v is NotImplemented:
        args = ", ".join("a Value" if isinstance(x, Value) else describe(x) for x in xs)
        raise DtypeError(f"{op}: cannot be applied to {args}: a Value meets Values and numbers")
    return v


def _install() -> None:
    for label, row in rows.items():
        if row.partials:
            _of[label], _turned[label] = functions(row, Value)
    for name, label in {"truediv": "div"}.items() | {(n, n) for n in ("add", "sub", "mul", "pow")}:
        setattr(Value, f"__{name}__", _of[label])
        setattr(Value, f"__r{name}__", _turned[label])
    for name in ("relu", "tanh", "exp", "log", "sigmoid"):
        setattr(Value, name, _of[name])
    for name in ("neg", "abs"):
        setattr(Value, f"__{name}__", _of[name])
    kinds[Value] = _apply


_install()
