"""What a chainrule script computes in one step, op by op (see `tape` for PyTorch's).

Every op goes through one door, at which this stands. What cuts is no op: `detach`, `.data`, and
numbers that leave. It is told of those. A value with a graph is known by its node, one without by
the variable that holds it, or by its array, which is never written to.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any, cast, final

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import apply, is_recording, tracer
from chainrule.engine.node import Node, Variable
from chainrule.engine.op import Op, Spec
from chainrule.ops.fusing import PassesOn
from chainrule.verify.script.step.entries import Entry, Exit, Slot
from chainrule.verify.where import frames

HOW = {
    "item()": "item", "float()": "__float__", "tolist()": "tolist", "numpy()": "numpy",
    "complex()": "complex",
}  # fmt: skip
"""By what a value left as floats, and what a report calls it."""
_COARSE = 0.125
"""Rounding of what has less than 16 bits."""
MOST = 1 << 31
"""Bytes of values that are held for a tape."""


@final
class OwnTape(PassesOn):
    """Records while it is `active`."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.exits: list[Exit] = []
        self.roots: dict[int, Any] = {}
        self.group: dict[int, int] = {}
        self.places: dict[int, int] = {}
        """By the id of a place that stands for an argument: what tells it from others."""
        self.active = True
        self.broken = ""
        """Why it recorded no further."""
        self._nodes: dict[Node, int] = {}
        self._held: dict[int, tuple[int, weakref.ref[Any], weakref.ref[Any]]] = {}
        """By id of a variable without a graph, or of its array: slot, that object, the array."""
        self._bytes = 0

    def clear(self) -> None:
        """Let go of everything."""
        self.active = False
        for held in (self.entries, self.exits, self.roots, self._nodes, self._held):
            held.clear()

    # --- slots

    def slot(self, x: Any, /) -> int | None:
        """The number of a variable that depends on a root."""
        if _linked(x):
            return self._nodes.get(x.node)
        for key in (x, x.value):
            row = self._held.get(id(key))
            if row is not None and row[1]() is key and row[2]() is x.value:
                return row[0]
        return None

    def forget(self, x: Any) -> None:
        """What a variable without a graph has from now on comes from outside."""
        for key in (x, x.value):
            self._held.pop(id(key), None)

    def anonymous(self) -> int:
        """A slot for what nothing holds."""
        slot = len(self.group)
        self.group[slot] = slot
        return slot

    def ident(self, x: Any, /) -> int:
        """Places that stand for arguments are new in each step; what they stand for is not."""
        return self.places.get(id(x), id(x))

    def is_noise(self, x: Any, /) -> bool:
        """Draws are not followed: a sample is a constant like others."""
        return False

    def _of(self, x: Any) -> int | None:
        """The slot of an argument, new if it comes from outside and has a graph."""
        if not isinstance(x, Variable):
            return None
        slot = self.slot(x)
        if slot is None and _linked(x):
            slot = self._new(x)
            self.roots[slot] = x
        return slot

    def _new(self, x: Any) -> int:
        slot = self.anonymous()
        self._bytes += x.value.nbytes
        if self._bytes > MOST:
            raise MemoryError(f"a step holds more than {MOST >> 30} GiB of values")
        if _linked(x):
            self._nodes[x.node] = slot
        else:
            array: weakref.ref[Any] = weakref.ref(x.value)
            self._held[id(x)] = slot, weakref.ref(x), array
            self._held.setdefault(id(x.value), (slot, array, array))
        return slot

    # --- calls

    def __call__(self, op: Op, xs: Sequence[Any]) -> Any:
        """The op's value, recorded if it depends on a root."""
        y = apply(op, *xs)
        if self.active and tracer() is None and not any(map(_is_planned, xs)):
            self._tried(op.name, partial(apply, op), xs, y)
        return y

    def cut(self, how: str, y: Any, x: Any) -> None:
        """The value of `x` goes on as `y`, without its graph; `how` is "detach" or "data"."""
        if self.active and isinstance(y.value, np.ndarray):
            self._tried(how, _detached, (x,), y)

    def left(self, x: Any, value: Any, what: str) -> None:
        """The value of a variable leaves as numbers."""
        slot = self.slot(x) if self.active and what in HOW else None
        if slot is not None:
            number = value.item() if value.size == 1 else value
            self.exits.append(Exit(HOW[what], slot, number, frames(), len(self.entries)))

    def _tried(self, name: str, function: Any, xs: Sequence[Any], y: Any) -> None:
        try:
            self._record(name, function, xs, y)
        except Exception as error:
            self.clear()
            self.broken = f"{type(error).__name__}: {error}"

    def _record(self, name: str, function: Any, xs: Sequence[Any], y: Any) -> None:
        slots = [self._of(x) for x in xs]
        if all(s is None for s in slots):
            return
        args = [x if s is None else Slot(s) for x, s in zip(xs, slots, strict=True)]
        inputs = dict.fromkeys([s for s in slots if s is not None])
        linked = [s for s, x in zip(slots, xs, strict=True) if s is not None and _linked(x)]
        connected = tuple(dict.fromkeys(linked))
        entry = Entry(name, function, args, {}, tuple(inputs), connected, is_recording())
        made = cast("tuple[Any, ...]", y) if isinstance(y, tuple) else (y,)
        entry.outputs = tuple([self._new(v) for v in made])
        for slot, v in zip(entry.outputs, made, strict=True):
            entry.is_live |= _linked(v)
            if v.value.dtype.kind in INEXACT:
                entry.is_float, entry.eps = True, max(entry.eps, _rounding(v.value.dtype))
            else:
                entry.whole += (slot,)
        self.entries.append(entry)
        if entry.cuts:
            entry.frames = frames()


def _linked(x: Any) -> bool:
    """Whether a gradient can flow to a variable."""
    return x.node is not None and x.node.needs


def _is_planned(x: Any) -> bool:
    """Whether an argument has no value yet: a placeholder of a function that is to be replayed."""
    return isinstance(x, Variable) and type(x.value) is Spec


def _detached(x: Any) -> Any:
    return x.detach()


def _rounding(dtype: Any) -> float:
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" and dtype.itemsize > 2 else _COARSE
