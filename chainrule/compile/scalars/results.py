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
from chainrule.compile.scalars.lock import LOCK
from chainrule.engine.op import Array
from chainrule.scalar import Value


@final
class _Made:
    """What made a result, read as a `Made` is; it is written at each call, which takes a third of
    the time that a frozen one does."""

    __slots__ = ("children", "partials")
    mark = "jit"
    singular = turned = False

    def __init__(self, children: tuple[Value, ...], partials: Slopes) -> None:
        self.children = children
        self.partials = partials


@final
class Slopes:
    """Derivatives in an array, at `places` of it or at all, which become Python numbers when
    somebody looks at them. An array that others write to is theirs until it is copied."""

    __slots__ = ("__weakref__", "_all", "_places")

    def __init__(self, array: Array, places: Any = None) -> None:
        self._all = array
        self._places = places

    @property
    def array(self) -> Array:
        """The derivatives alone."""
        with LOCK:
            return self._all if self._places is None else self._all[self._places]

    def copy(self) -> None:
        """Copy them: their memory is about to be written."""
        self._all = self._all.copy()

    def __iter__(self) -> Iterator[float]:
        return iter(self.array.tolist())

    def __len__(self) -> int:
        return len(self._all if self._places is None else self._places)


@final
class _Handed:
    """Stands where a local derivative does: multiplied with the gradient of a compiled result, it
    hands that on to all leaves at once, where a link for each would cost more than the program."""

    __slots__ = ("given", "slopes", "state", "steep")

    def __init__(
        self, given: Sequence[Value], slopes: Sequence[float], state: Leaves, steep: Slopes
    ) -> None:
        self.given = given
        self.slopes = slopes
        self.state = state
        self.steep = steep

    def __rmul__(self, g: Any) -> int:
        if g:
            for leaf, d in zip(self.given, self.slopes, strict=True):
                leaf._g += g * d
            self.state.add(self.steep.array, float(g))
        return 0


def result_of(data: float, given: Sequence[Value], state: Leaves, slopes: Array) -> Value:
    """A Value with what is given and the state for children; of the first, those that were computed
    themselves get links."""
    n = len(given)
    if not n:
        return result_of_state(data, state, Slopes(slopes))
    apart = [i for i, v in enumerate(given) if v._made is not None]
    outer = [i for i, v in enumerate(given) if v._made is None]
    inner = [given[i] for i in apart]
    leaves = (*given, *state.values)
    v = Value(data, inner or leaves[:1], slopes[apart].tolist() if inner else [0.0])
    made: Any = _Made(leaves, Slopes(slopes))
    v._made = made
    rest = [given[i] for i in outer], slopes[outer].tolist()
    v._d_a = _Handed(*rest, state, Slopes(slopes[n:]))
    return v


def result_of_state(data: float, state: Leaves, slopes: Slopes) -> Value:
    """A Value with nothing but the state for children."""
    if not state.values:
        return Value(data)
    v = Value(data)
    made: Any = _Made(state.values, slopes)
    v._made = made
    v._a, v._b = Value(0.0), None  # gets the 0 of `_Handed`
    v._d_a = _Handed((), (), state, slopes)
    return v
