"""The caller's NumPy arrays as arguments: what NumPy changes in place is changed in place.

A tensor stands for such an array while a function is traced. In the function as it is, `s += x`
changes the caller's array and all of its views. So it does in the compiled one: it assigns to all
of `s`. A view is a tensor of its own here. So a write into a view is refused, and so is a read of a
view that a write has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final
from weakref import ref

from chainrule.engine.op import Op
from chainrule.engine.provenance import location, source_quote, user_line
from chainrule.errors import TraceError
from chainrule.ops.families import BroadcastTo
from chainrule.ops.shapes.shaping import Permute, Reshape
from chainrule.ops.shapes.slices import Slice

_VIEWS = (BroadcastTo, Permute, Reshape, Slice)
"""Ops whose result shares memory with their input in NumPy."""


@final
class ArrayArguments:
    """The tensors that stand for arrays, and the views of them that were made so far."""

    def __init__(self) -> None:
        self._arrays: list[Any] = []
        self._views: dict[int, tuple[ref[Any], Any]] = {}
        self._outdated: set[int] = set()
        self._due: tuple[Any, Any, TraceError] | None = None
        """What `s[0] += x` has computed, the array that it must be assigned to next, and what is
        raised if it is not: then it was `row += x`."""

    def add(self, x: Any) -> None:
        """`x` stands for an array."""
        self._arrays.append(x)

    def forget(self) -> None:
        """Hold nothing any more."""
        self._arrays.clear()
        self._views.clear()
        self._due = None

    def changes(self, x: Any, new: Any) -> bool:
        """Whether `x += ...`, which gives `new`, changes an array. Of a part of one that is seen by
        what comes next: `s[0] += x` assigns `new` to the array."""
        of = self._array_of(x)
        if of is not None and of is not x:
            self._due = new, of, _refusal("writes into a view of an array")
            return False
        return of is not None

    def assigned(self, x: Any, values: Any) -> None:
        """`x[...] = values` begins."""
        if self._due is not None and self._due[0] is values and self._due[1] is x:
            self._due = None

    def check_done(self) -> None:
        """Raise `TraceError` if a view was changed by itself."""
        if self._due is not None:
            raise self._due[2]

    def add_view(self, op: Op, xs: Sequence[Any], y: Any) -> None:
        """Note the view `y` that `op` has made."""
        if self._arrays and isinstance(op, _VIEWS):
            of = self._array_of(xs[0])
            if of is not None:
                self._views[id(y)] = ref(y), of
                self._outdated.discard(id(y))

    def check_read(self, x: Any) -> None:
        """Raise `TraceError` for a view whose array has changed since."""
        if self._due is not None and self._due[1] is x:
            self.check_done()
        if id(x) in self._outdated and self._array_of(x) is not None:
            raise _refusal("reads a view of an array that was changed since the view was made")

    def write(self, x: Any) -> None:
        """`x` is about to change; raises `TraceError` if it is a view."""
        of = self._array_of(x)
        if of is not None and of is not x:
            raise _refusal("writes into a view of an array")
        if of is x:
            self._outdated |= {key for key, (_, array) in self._views.items() if array is x}

    def _array_of(self, x: Any) -> Any:
        """The tensor whose memory `x` shares in NumPy, or None."""
        if any(x is a for a in self._arrays):
            return x
        view, array = self._views.get(id(x), (None, None))
        return array if view is not None and view() is x else None


def _refusal(what: str) -> TraceError:
    line = user_line()
    return TraceError(
        f"jit: the line at {location(*line)} {what}. In a compiled function a view has memory of "
        "its own. Write to the array by an index (s[0] += x), or copy what you read "
        f"(row = s[0].copy()){source_quote(*line)}"
    )
