"""Values as users of micrograd and of microgpt look at them and make them.

An entry of a sum (`walk.Sum`) becomes a node again when somebody looks at it. A node made by hand,
with any number of children, becomes a chain of nodes with two.
"""

# These functions work on what Value keeps to itself.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, final

from chainrule.scalar.rules import PRODUCT, Made
from chainrule.scalar.walk import SUMMED, Sum

if TYPE_CHECKING:
    from chainrule.scalar.value import Value

# --- Inside a sum --------------------------------------------------------------------------------


def last_two(v: Value) -> tuple[Value | float, Value]:
    """The operands of the last addition of a sum: the sum so far, and what was added."""
    v._show()
    s, place = v._chain, v._at
    return _sum_so_far(s, place - 4, type(v)), _addend(s, place - 4, type(v))


def _sum_so_far(s: Sum, place: int, node: type[Value]) -> Value | float:
    """What stands at `place`; if nobody has looked yet, all places up to it are filled."""
    if s.start is None and place == 4:
        return s[0]
    if s.start is not None and place == 0:
        return s.start
    if place not in s.seen:
        total, begin = (s[3], 4) if s.start is None else (s.start, 0)
        for i in range(begin, place, 4):
            _, d_a, b, d_b = s[i : i + 4]
            total = total + (d_b if b is None else d_b * d_a)
            if i + 4 not in s.seen:
                s.seen[i + 4] = _twin(s, i + 4, total, SUMMED, node)
    return s.seen[place]


def _addend(s: Sum, place: int, node: type[Value]) -> Value:
    a, d_a, b, d_b = s[place : place + 4]
    if b is None:
        return a
    if ~place not in s.seen:
        v = s.seen[~place] = _twin(s, place, d_b * d_a, PRODUCT, node)
        v._a, v._b, v._d_a, v._d_b = a, b, d_a, d_b
    return s.seen[~place]


def _twin(s: Sum, place: int, data: Any, made: Made, node: type[Value]) -> Value:
    v = node(data)
    v._made, v._chain, v._at = made, s, place
    return v


# --- By hand -------------------------------------------------------------------------------------


@final
class Step:
    """Stands where a local derivative does; multiplied with the cotangent, it runs a step that
    hands gradients on by itself."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run

    def __rmul__(self, g: Any) -> int:
        self.run()
        return 0


NOTHING = Step(lambda: None)


def by_hand(v: Value, children: tuple[Value, ...], how: str | Sequence[float]) -> None:
    """Give `v` children: with their local derivatives, or (`how` a name) with none yet."""
    if isinstance(how, str):
        v._made = Made(how, children=children)
        partials: Sequence[Any] = [NOTHING] * len(children)
    else:
        partials = tuple(how)
        v._made = Made("", children=children, partials=partials)
    last = v
    first = type(v)(0.0)  # where `Step` may add its 0
    first._made, first._a, first._b, first._d_a = LINK, children[0], None, NOTHING
    for child, d in zip(children, partials, strict=True):
        link = type(v)(0.0)
        link._made, link._a, link._b, link._d_a = LINK, child, None, d
        last._b, last._d_b = link, 1
        last = link
    v._a, v._d_a = first, NOTHING


LINK = Made("")
"""What made the nodes by which a node made by hand reaches its children."""


def step(v: Value) -> None:
    """Hand the gradient of `v` on to its children, by the strong zero."""
    strong = v._made is not None and v._made.singular and v.grad == 0
    for child, d in zip(v._children, v._local_grads, strict=True):
        child.grad += 0.0 if strong else v.grad * d
