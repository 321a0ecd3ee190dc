"""What a chainrule script computes in one step, op by op, and its tensors where it is run again.

Every op goes through one door, at which this stands. What cuts is no op: `detach`, `.data`, and
numbers that leave; the recorder reports those. A value with a graph is known by its node, one
without by the variable that holds it, or by its array, which is never written to.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast, final

import numpy as np

from chainrule.engine.derive import pullback_nodes
from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import apply, is_recording, order, recording, tracer, variable
from chainrule.engine.node import Node, Variable
from chainrule.engine.op import Op, Spec
from chainrule.ops.kernel_use import PassesOn
from chainrule.ops.reductions.reduction import sum as total
from chainrule.verify.script.step.record.tape import Entry, Slot, Tape
from chainrule.verify.script.step.record.tensors import Exited, Tensors, Values
from chainrule.verify.user_frames import frames

HOW = {
    "item()": "item", "float()": "__float__", "tolist()": "tolist", "numpy()": "numpy",
    "complex()": "complex",
}  # fmt: skip
"""By what a value left as floats, and what a report calls it."""


@final
class NativeTape(Tape, PassesOn):
    """Records while it is `active`."""

    def __init__(self) -> None:
        super().__init__()
        self.arguments: dict[int, int] = {}
        """By the id of a place that stands for an argument: what tells it from others."""
        self._nodes: dict[Node, int] = {}
        self._unlinked: dict[int, tuple[int, weakref.ref[Any], weakref.ref[Any]]] = {}
        """By id of a variable without a graph, or of its array: slot, that object, the array."""

    def clear(self) -> None:
        """Let go of everything."""
        super().clear()
        self.active = False
        self._nodes.clear()
        self._unlinked.clear()

    # --- slots

    def slot(self, x: Any, /) -> int | None:
        """The number of a variable that depends on a root."""
        if _is_linked(x):
            return self._nodes.get(x.node)
        for key in (x, x.value):
            row = self._unlinked.get(id(key))
            if row is not None and row[1]() is key and row[2]() is x.value:
                return row[0]
        return None

    def forget(self, x: Any) -> None:
        """What a variable without a graph has from now on comes from outside."""
        for key in (x, x.value):
            self._unlinked.pop(id(key), None)

    def identity(self, x: Any, /) -> int:
        """Places that stand for arguments are new in each step; what they stand for is not."""
        return self.arguments.get(id(x), id(x))

    def _slot_of(self, x: Any) -> int | None:
        """The slot of an argument, new if it comes from outside and has a graph."""
        if not isinstance(x, Variable):
            return None
        slot = self.slot(x)
        if slot is None and _is_linked(x):
            slot = self._new(x)
            self.roots[slot] = x
        return slot

    def _new(self, x: Any) -> int:
        slot = self.anonymous()
        self.hold(x.value.nbytes)
        self.shapes[slot] = tuple(x.value.shape)
        if _is_linked(x):
            self._nodes[x.node] = slot
        else:
            array: weakref.ref[Any] = weakref.ref(x.value)
            self._unlinked[id(x)] = slot, weakref.ref(x), array
            self._unlinked.setdefault(id(x.value), (slot, array, array))
        return slot

    # --- calls

    def __call__(self, op: Op, xs: Sequence[Any]) -> Any:
        """The op's value, recorded if it depends on a root."""
        y = apply(op, *xs)
        if self.active and tracer() is None and not any(map(_is_planned, xs)):
            self.attempt(self._record, op.name, partial(apply, op), xs, y)
        return y

    def cut(self, how: str, y: Any, x: Any) -> None:
        """The value of `x` goes on as `y`, without its graph; `how` is "detach" or "data"."""
        if self.active and isinstance(y.value, np.ndarray):
            self.attempt(self._record, how, _detach, (x,), y)

    def exit(self, x: Any, value: Any, what: str) -> None:
        """The value of a variable leaves as numbers."""
        slot = self.slot(x) if self.active and what in HOW else None
        if slot is not None:
            self.leave(HOW[what], slot, value.item() if value.size == 1 else value)

    def _record(self, name: str, function: Any, xs: Sequence[Any], y: Any) -> None:
        """Put an op onto the tape, if one of its inputs is there."""
        slots = [self._slot_of(x) for x in xs]
        inputs = dict.fromkeys([s for s in slots if s is not None])
        if not inputs:
            return
        args = [x if s is None else Slot(s) for x, s in zip(xs, slots, strict=True)]
        linked = [s for s, x in zip(slots, xs, strict=True) if s is not None and _is_linked(x)]
        connected = tuple(dict.fromkeys(linked))
        entry = Entry(name, function, args, {}, tuple(inputs), connected, is_recording())
        made = cast("tuple[Any, ...]", y) if isinstance(y, tuple) else (y,)
        entry.outputs = tuple([self._new(v) for v in made])
        for slot, v in zip(entry.outputs, made, strict=True):
            entry.is_live |= _is_linked(v)
            entry.grade(slot, _rounding(v.value.dtype))
        self.entries.append(entry)
        if entry.cuts:
            entry.frames = frames()


def _is_linked(x: Any) -> bool:
    """Whether a gradient can flow to a variable."""
    return x.node is not None and x.node.needs


def _is_planned(x: Any) -> bool:
    """Whether an argument has no value yet: a placeholder of a function that is to be replayed."""
    return isinstance(x, Variable) and type(x.value) is Spec


def _detach(x: Any) -> Any:
    return x.detach()


def _rounding(dtype: Any) -> float | None:
    if dtype.kind not in INEXACT:
        return None
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" and dtype.itemsize > 2 else 0.0


@final
class NativeTensors(Tensors):
    """chainrule's tensors, and the arrays that its ops are given: nobody writes to these."""

    def leaf(self, x: Any, by: Any = None) -> Any:
        """It shares its array with `x` if it is not moved."""
        value = x.value if by is None else (x.value + by).astype(x.value.dtype)
        return variable(np.asarray(value)).requires_grad_()

    def sever(self, x: Any) -> tuple[Any, Any]:
        """A leaf, which calls are given as it is."""
        leaf = self.leaf(x)
        return leaf, leaf

    def call(self, entry: Entry, values: Mapping[int, Any], cut: int | None) -> Sequence[Any]:
        """With recording on or off, as it was."""
        args = [values[x.number] if isinstance(x, Slot) else x for x in entry.args]
        if cut is not None and entry.name in ("detach", "data"):
            return args[:1]
        with recording(cut is not None or not entry.cuts):
            y = entry.function(*args)
        return cast("tuple[Any, ...]", y) if isinstance(y, tuple) else (y,)

    def gradients(
        self, ys: Sequence[Any], gs: Sequence[Any] | None, xs: Sequence[Any]
    ) -> Sequence[Any]:
        """Arrays, by one walk."""
        seeds: dict[Node, Any] = {}
        for y, g in zip(ys, gs or [np.ones(y.shape, y.dtype) for y in ys], strict=True):
            if y.node is not None and y.node.needs:
                seeds[y.node] = seeds[y.node] + g if y.node in seeds else g
        wanted = [x.node for x in xs]
        got = pullback_nodes(order(seeds, wanted), seeds, set(wanted), record=False, free=False)
        return [np.asarray(got[n]) if n in got else None for n in wanted]

    def norm(self, x: Any) -> float:
        """In float64."""
        return float(np.linalg.norm(np.abs(_array(x)).astype(np.float64)))

    def scale(self, x: Any, by: float) -> Any:
        """In float64."""
        return np.asarray(x) * by

    def number(self, x: Any) -> float:
        """The one element."""
        return float(np.asarray(x.value).reshape(()))

    def has(self, x: Any) -> bool:
        """A tensor, array or NumPy number of floats."""
        array = x.value if isinstance(x, Variable) else x
        return isinstance(array, np.ndarray | np.generic) and cast(Any, array).dtype.kind == "f"

    def values(self, x: Any) -> Values:
        """In float64."""
        return np.array(_array(x), np.float64)

    def linear(
        self, x: Any, slope: Values, exits: Sequence[Exited], share: float
    ) -> tuple[Callable[..., Any], float]:
        """In the constant's own dtype."""
        value = _array(x)
        way = (share * slope).astype(value.dtype)

        def number(*now: Any) -> Any:
            y: Any = variable(value)
            for n, row in zip(now, exits, strict=True):
                dtype = n.dtype
                moved = (n - row.x.astype(dtype)) * row.way.astype(dtype)
                y = y + way * total(moved).astype(value.dtype)
            return y

        return number, float(np.finfo(value.dtype).eps)


def _array(x: Any) -> Any:
    return np.asarray(x.value if isinstance(x, Variable) else x)
