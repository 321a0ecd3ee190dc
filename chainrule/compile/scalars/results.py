"""What a compiled function of Values returns: Values whose derivatives are known already.

A result has all leaves for children. A backward pass that reaches it hands its gradient on to them
at once.
"""

# Results are put into the graph by what Value keeps to itself.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from chainrule.compile.scalars.leaves import Leaves
from chainrule.engine.op import Array
from chainrule.scalar import Value
from chainrule.scalar.rules import Made

_MADE = "jit"


@final
class _Slopes:
    """Derivatives in an array, which become Python numbers when somebody looks at them."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __iter__(self) -> Iterator[float]:
        return iter(self.array.tolist())

    def __len__(self) -> int:
        return len(self.array)


@final
class _Handed:
    """Stands where a local derivative does: multiplied with the gradient of a compiled result, it
    hands that on to all leaves at once, where a link for each would cost more than the program."""

    __slots__ = ("given", "slopes", "state", "steep")

    def __init__(
        self, given: Sequence[Value], slopes: Sequence[float], state: Leaves, steep: Array
    ) -> None:
        self.given = given
        self.slopes = slopes
        self.state = state
        self.steep = steep

    def __rmul__(self, g: Any) -> int:
        if g:
            for leaf, d in zip(self.given, self.slopes, strict=True):
                leaf._g += g * d
            self.state.add(self.steep, float(g))
        return 0


def result_of(data: float, given: Sequence[Value], state: Leaves, slopes: Array) -> Value:
    """A Value with what is given and the state for children; of the first, those that were computed
    themselves get links."""
    leaves = (*given, *state.values) if given else state.values
    if not leaves:
        return Value(data)
    n = len(given)
    apart = [i for i, v in enumerate(given) if v._made is not None]
    outer = [i for i, v in enumerate(given) if v._made is None]
    inner = [given[i] for i in apart]
    v = Value(data, inner or leaves[:1], slopes[apart].tolist() if inner else [0.0])
    v._made = Made(_MADE, children=leaves, partials=_Slopes(slopes))
    v._d_a = _Handed([given[i] for i in outer], slopes[outer].tolist(), state, slopes[n:])
    return v
