"""What a term reads, and where in the memory of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from chainrule.compile.graph.loop_body import Keep
from chainrule.compile.graph.scatter_onto import Onto
from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops import views
from chainrule.compile.loops.views import View, is_view, source
from chainrule.ops.families import Elementwise
from chainrule.ops.selection import Where
from chainrule.ops.shaping import Astype


def read_by(t: Term, realized: set[Term]) -> list[Term]:
    """The inputs, constants and realized terms that computing `t` reads: through views and maps."""
    found: dict[Term, None] = {}
    stack = list(reversed(t.args))
    while stack:
        x = source(stack.pop())
        if x.op is None or x in realized:
            found[x] = None
        else:
            stack += reversed(x.args)
    return list(found)


@final
@dataclass(frozen=True, slots=True)
class Read:
    """What a term reads of an input's memory: elements of `view`, from `start` to before `end`.

    `plain`: each element is read only for the element of the term at the same place.
    """

    view: View
    start: int | None
    end: int
    plain: bool

    def meets(self, other: Read) -> bool:
        """Whether both may touch the same element."""
        if self.view.buffer is not other.view.buffer:
            return False
        if self.start is None or other.start is None:
            return True
        return self.start < other.end and other.start < self.end


def touched(view: View, shape: Sequence[Extent], *, plain: bool) -> Read:
    """The elements of an array of `shape` at `view`."""
    last: Extent = view.offset
    first: Extent = view.offset
    for n, stride in zip(shape, view.strides, strict=True):
        reach = (n - 1) * stride
        if not isinstance(reach, int) or reach >= 0:
            last = reach + last
        else:
            first = reach + first
    if isinstance(first, int) and isinstance(last, int):
        return Read(view, first, last + 1, plain)
    return Read(view, None, 0, plain)


def reads_at(t: Term, realized: set[Term], at: Mapping[Term, View]) -> list[Read]:
    """Which memory of inputs computing `t` reads."""
    out: list[Read] = []
    stack: list[tuple[Term, bool]] = [(a, is_plain(t, a)) for a in t.args]
    while stack:
        a, plain = stack.pop()
        x = source(a)
        if x.index is not None:
            out.append(_read(a, at[x], plain))
        elif x.op is not None and x not in realized:
            stack += [(b, plain and a is x and is_plain(x, b)) for b in x.args]
    return out


def _read(a: Term, view: View, plain: bool) -> Read:
    """Reading the chain of views `a` of what lies at `view`."""
    chain: list[Term] = []
    while is_view(a):
        chain.append(a)
        a = a.args[0]
    shape = a.shape
    for v in reversed(chain):
        through = views.seen_through(v, view)
        if through is None:
            return touched(view, shape, plain=False)
        view, shape = through, v.shape
    return touched(view, shape, plain=plain)


def is_plain(t: Term, a: Term) -> bool:
    """Whether each element of the map `t` is computed from the element of `a` at the same place;
    those of a tape stay there, but for a row, and so does that to which others are added."""
    if isinstance(t.op, Keep | Onto):
        return a is t.args[0] and a not in t.args[1:]
    return isinstance(t.op, Elementwise | Where | Astype) and a.shape == t.shape
