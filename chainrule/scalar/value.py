"""Value: the chain rule on single numbers, from the same table as everything else.

A drop-in for the classes of micrograd and microgpt: programs written for either run with only their
import changed. At most one object per operation is left behind, because in pure Python the garbage
collector's walks over a graph cost more than the arithmetic. Operands and local derivatives stand
in slots. A local derivative is, where it can be, the very float that an operand holds. A sum of
products is one node with a list (`walk.Sum`).

Notation: `a b` a node's operands, `d_a d_b` its partial derivatives with respect to them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

from chainrule.engine.op import Op, kinds
from chainrule.errors import DtypeError, GradientError, describe
from chainrule.names.methods import METHODS
from chainrule.ops import elementwise as table
from chainrule.ops.descriptions import description
from chainrule.ops.rows import Elementwise, rows
from chainrule.scalar.rules import Made, functions, number
from chainrule.scalar.views import NOTHING, Step, by_hand, last_two, step
from chainrule.scalar.walk import APART, SUMMED, count, forget, sum_of, sweep

if TYPE_CHECKING:
    from chainrule.scalar.signatures import RowMethods
else:
    RowMethods = object


@final
class Value(RowMethods):
    """A number with a place in a graph: `Value(2.0)`.

    `data` is a Python number (ints stay ints; NumPy's scalars become Python's), `grad` the
    derivative of what `backward` was last called on. `+ - * / **` take Values and numbers on either
    side; every elementwise function of `chainrule` (`sin`, `maximum`, ...) takes Values too, and is
    a method where it is one of a tensor. Where Python raises, the number is what IEEE 754 says:
    `Value(1) / 0` is inf. `a / b` is computed as `a * b**-1`, as in micrograd.

    `< <= > >=` compare numbers and give bools; `==` and `hash` are the object's identity, so that
    Values can stand in sets and dicts. Numbers that meet a Value are not nodes: `_prev`,
    `_children` and `_local_grads` name the Values only, `_operands` both, in the order written. A
    Value does not note the line that made it: that would cost as much as the operation.

    `Value(data, children, how)` makes a node by hand: `how` are its local derivatives (as in
    microgpt), or its name, and `_backward` is set afterwards (as in micrograd).

    Raises `DtypeError` for data that is not a real number.

    >>> a, b = cr.Value(2.0), cr.Value(-3.0)
    >>> f = (a * b + 10).relu()
    >>> f.backward()
    >>> a
    Value(data=2.0, grad=-3.0)
    """

    __slots__ = (
        "_a", "_at", "_b", "_chain", "_d_a", "_d_b", "_epoch", "_g", "_label", "_made", "_waits",
        "data",
    )  # fmt: skip
    __array_ufunc__ = None  # NumPy's number * value asks the value

    data: Any
    _g: Any
    _a: Any
    _b: Any
    _d_a: Any
    _d_b: Any
    _waits: int
    _made: Made | None
    _chain: Any
    _at: int
    _epoch: float
    _label: str

    def __init__(
        self,
        data: Any,
        children: Iterable[Value] = (),
        how: str | Sequence[float] = "",
        label: str = "",
    ) -> None:
        plain = data if data.__class__ is float else number(data)
        if plain is None:
            raise DtypeError(f"a Value holds one real number, not {describe(data)}")
        self.data = plain
        self._g = self._waits = 0
        self._made = self._chain = self._d_b = None
        if label:
            self._label = label
        if children:
            by_hand(self, tuple(children), how)

    if TYPE_CHECKING:  # written by `rules` from the op table
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
        # fmt: on

    # fmt: off
    def __lt__(self, b: Value | float) -> bool: return self.data < _data(b)
    def __le__(self, b: Value | float) -> bool: return self.data <= _data(b)
    def __gt__(self, b: Value | float) -> bool: return self.data > _data(b)
    def __ge__(self, b: Value | float) -> bool: return self.data >= _data(b)
    # fmt: on

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self.grad})"

    @property
    def grad(self) -> Any:
        """The derivative, with respect to this, of what `backward` was called on."""
        # What is not in the middle of a sum knows it itself; what is asks the sum. See `walk.Sum`.
        s, own = self._chain, getattr(self, "_g", 0)
        if s is None or s is APART:
            return own
        when = getattr(self, "_epoch", 0)
        if (given := s.given.get(self._place)) is not None and given[0] > when:
            when, own = given
        if s.epoch < when or (s.epoch == when and self._made is SUMMED):
            return own
        above = s.above(self._at)
        if above is None:
            return own
        return own + above if s.epoch == when else above

    @grad.setter
    def grad(self, new: Any) -> None:
        if self._chain is None or self._chain is APART:
            self._g = new
        else:
            self._chain.given[self._place] = next(_epochs), new

    # --- the graph, in the words of micrograd and of microgpt

    @property
    def label(self) -> str:
        """A name for pictures, '' until one is given."""
        return getattr(self, "_label", "")

    @label.setter
    def label(self, text: str) -> None:
        self._label = text
        if self._chain is None:
            self._chain, self._at = APART, -1
        else:
            self._show()

    @property
    def _place(self) -> int:
        """The key of this node's place in the tables of `Sum`."""
        return self._at if self._made is SUMMED else ~self._at

    def _show(self) -> None:
        """Be the node that is shown for this place in a sum, not a twin."""
        if self._chain is not APART:
            self._chain.seen.setdefault(self._place, self)

    @property
    def _op(self) -> str:
        """What made this: `+`, `*`, `**2`, `ReLU`, `tanh`, ...; '' for a leaf."""
        if self._made is None:
            return ""
        mark = self._made.mark
        powered = mark == "**" and self._d_b is None and not self._made.turned
        return f"**{self._b}" if powered else mark

    @property
    def _operands(self) -> tuple[Value | float, ...]:
        """What the op was applied to, Values and numbers, in the order written."""
        if self._made is None:
            return ()
        if self._made is SUMMED:
            return last_two(self)
        if self._made.children is not None:
            return self._made.children
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
        if self._made is SUMMED:
            return (1, 1)[: len(self._children)]
        if self._made is not None and self._made.children is not None:
            return tuple(self._made.partials)
        return (self._d_a, self._d_b)[: len(self._children)]

    @property
    def _backward(self) -> Callable[[], None]:
        """This node's own step of `backward`: adds to the `grad` of each child. A node made by hand
        may be given one of its own, as in micrograd."""
        own = self._made is not None and self._made.children is not None
        return self._d_a.run if own and self._d_a is not NOTHING else lambda: step(self)

    @_backward.setter
    def _backward(self, run: Callable[[], None]) -> None:
        if self._made is None or self._made.children is None:
            raise GradientError(
                "_backward can be set on a Value that was made with children: "
                "Value(data, (a, b), 'name'); the others know their derivative"
            )
        self._d_a = Step(run)

    def backward(self) -> None:
        """Add the derivative of this number to `grad` of every leaf that it depends on.

        The `grad` of every node in between becomes the derivative with respect to that node; what
        an earlier call left there is replaced, so a second call adds exactly the same to the leaves
        again. This node's own is 1. The graph is kept. Graphs of any depth.
        """
        if self._made is None:
            self._g = 1
            return
        earlier: list[tuple[Value, Any]] = []
        try:
            count(self, next(_epochs), earlier)
            sweep(self)
        except BaseException:
            forget(self)
            raise
        finally:
            for leaf, grad in earlier:
                leaf._g = grad + leaf._g
        for listener in backward_listeners:
            listener(self)


backward_listeners: list[Callable[[Value], Any]] = []
"""Called with each Value whose backward pass is over."""
_epochs = itertools.count(1)


def _data(x: Value | float) -> Any:
    return x.data if isinstance(x, Value) else x


# --- From the table ------------------------------------------------------------------------------


@final
class _RowFunctions(dict[str, tuple[Callable[..., Any], Callable[..., Any]]]):
    """By row, its functions of a Value and of a number before one; written when first needed."""

    def __missing__(self, label: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        space = {"Value": Value, "SUMMED": SUMMED, "sum_of": sum_of}
        made = self[label] = functions(rows[label], space)
        return made


_written = _RowFunctions()


def _apply(op: Op, *xs: Any) -> Any:
    """The door for Values; ops without a derivative give plain numbers and bools."""
    if not isinstance(op, Elementwise):
        raise DtypeError(f"{op} takes tensors, not Values: only elementwise functions take both")
    if not op.partials:
        return op.scalar(*map(_data, xs))
    of, turned = _written[op.label]
    v = of(*xs) if isinstance(xs[0], Value) else turned(xs[1], xs[0])
    if v is NotImplemented:
        args = ", ".join("a Value" if isinstance(x, Value) else describe(x) for x in xs)
        raise DtypeError(f"{op}: cannot be applied to {args}: a Value meets Values and numbers")
    return v


class _RowMethod:
    """What the class holds under a method's name until it is first asked for."""

    def __init__(self, name: str, row: Elementwise) -> None:
        self.name = name
        self.row = row

    def __get__(self, v: Any, cls: type) -> Any:
        row = self.row

        def of_several(v: Any, *xs: Any) -> Any:
            return row(v, *xs)

        made: Any = _written[row.label][0] if len(row.partials) == 1 else of_several
        made.__doc__ = description(row.label)
        setattr(Value, self.name, made)
        return made.__get__(v, cls)


def row_methods() -> Iterator[tuple[str, Elementwise]]:
    """The methods of a tensor that are public rows with a derivative, and their rows."""
    for name, (home, function) in METHODS.items():
        row = getattr(table, function, None) if home == "chainrule" else None
        if isinstance(row, Elementwise) and row.partials and description(row.label):
            yield name, row


def _install() -> None:
    for name, row in _OPERATORS.items():
        of, turned = _written[row.label]
        setattr(Value, f"__{name}__", of)
        if len(row.partials) == 2:
            setattr(Value, f"__r{name}__", turned)
    for name, row in row_methods():
        setattr(Value, name, _RowMethod(name, row))
    kinds[Value] = _apply


_OPERATORS = {
    "add": table.add, "sub": table.sub, "mul": table.mul, "truediv": table.div, "pow": table.pow,
    "neg": table.neg, "abs": table.abs,
}  # fmt: skip
_install()
