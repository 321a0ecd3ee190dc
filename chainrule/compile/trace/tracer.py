"""Tracing: a function runs once, on placeholders, and what it does is recorded.

Arguments are placeholders from the start. What the function reaches by itself, its state, becomes a
placeholder when it is first used. `graph.trace_ops` shows every op to the `Tracer`, which lifts the
tensors among its inputs; afterwards everything is put back. Tensors that the function makes by
itself out of known numbers are constants.

Notation: a place is where an input of the program comes from at each call.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final
from weakref import ref

import numpy as np

from chainrule.compile.trace.array_arguments import ArrayArguments
from chainrule.compile.trace.captured_state import (
    NOWHERE,
    Entry,
    GradSlot,
    Lift,
    Number,
    Place,
    Range,
    passed_on,
)
from chainrule.compile.trace.guards.contents import contents
from chainrule.compile.trace.guards.instruction_events import unfollowed
from chainrule.compile.trace.guards.notes import Notes
from chainrule.compile.trace.unknown_values import unknown
from chainrule.compile.trace.weak_numbers import apply_weak, is_weak, strong, weak_placeholder
from chainrule.engine.arrays import native
from chainrule.engine.function import Call
from chainrule.engine.graph import (
    apply,
    constant,
    intercept_ops,
    leaf,
    placeholder,
    trace,
    variable,
)
from chainrule.engine.node import Node, Variable
from chainrule.engine.op import Detach, Op, Spec
from chainrule.engine.tensors import Tensor, asarray, to_array
from chainrule.errors import GradientError, ShapeError
from chainrule.ops.shapes.shaping import astype

_DETACH = Detach()


@final
@dataclass(eq=False)
class Tracer:
    """Told of everything that happens while a function is traced."""

    lifts: list[Lift] = field(default_factory=list[Lift])
    numbers: list[Number] = field(default_factory=list[Number])
    draws: list[tuple[Callable[[], Any], Node]] = field(
        default_factory=list["tuple[Callable[[], Any], Node]"]
    )
    sources: dict[Node, Node] = field(default_factory=dict[Node, Node])
    """For a leaf that was given a new value, and what a user's Function made: the node of that."""
    known_truths: dict[Node, Callable[[], bool]] = field(
        default_factory=dict[Node, Callable[[], bool]]
    )
    spent: set[Node] = field(default_factory=set[Node])
    """Nodes whose graph a backward pass has used up."""
    loop: Any = None
    """What `scan` asks for a loop that is not unrolled: a function of `scan_as_while`."""
    repeat: Any = None
    """What `while_loop` asks: `scan_as_while.repeating`."""
    notes: Notes | None = None
    """What the function reads beside tensors, while it runs."""
    arrays: ArrayArguments = field(default_factory=ArrayArguments)
    _lifted: set[int] = field(default_factory=set[int])
    _constants: set[int] = field(default_factory=set[int])
    _variables: list[Any] = field(default_factory=list[Any])
    _settings: dict[tuple[Any, ...], Any] = field(default_factory=dict["tuple[Any, ...]", Any])

    # --- what `graph` tells

    def __call__(self, op: Op, xs: Sequence[Any]) -> Any:
        """Record `op`; the tensors among `xs` that the function reaches by itself are lifted."""
        with unfollowed():
            return self._record(op, xs)

    def _record(self, op: Op, xs: Sequence[Any]) -> Any:
        """Record an op: what it reads is noted, and weak numbers stay weak."""
        weak = False
        if self.notes is not None and any(isinstance(x, Variable) for x in xs):
            xs = [self.standing_for(x) for x in xs]
        for x in xs:
            if isinstance(x, Variable):
                self.touch(x)
                self.arrays.check_read(x)
                weak = weak or is_weak(x)
        if isinstance(op, Call):
            return self._inline(op, xs)
        if weak:
            return apply_weak(op, xs)
        y = apply(op, *xs)
        self.arrays.add_view(op, xs, y)
        if isinstance(y, Variable) and y.value.__class__ is not Spec:
            self._constants.add(id(y))
        return y

    def add_variable(self, v: Any) -> None:
        """A new variable."""
        if v.value.__class__ is Spec:
            self._variables.append(ref(v))
        else:
            self._constants.add(id(v))

    def standing_for(self, x: Any) -> Any:
        """The tensor that stands for an array from before the trace, an input of the program.

        It is x itself if x is no such array, or one that a program cannot read where it is.
        """
        notes = self.notes
        if notes is None or x.__class__ is not np.ndarray or not notes.is_array(x):
            return x
        if not (x.flags.aligned and x.dtype in native and x.dtype.kind in "biufc"):
            return x
        tensor = notes.op_takes(x)
        if tensor is None:
            tensor = object.__new__(Tensor)
            tensor.value, tensor.node = x, None
            notes.stand_in(x, tensor)
            self.touch(tensor)
        return tensor

    def reads(self, holder: dict[str, Any], key: str, name: str) -> None:
        """The trace holds as long as `holder[key]`, which users call `name`, stays as it is."""
        if self.notes is not None:
            self.notes.entry(holder, key, name)
            contents(self.notes, holder[key])

    def is_inner(self, x: Any) -> bool:
        """Whether a tensor was made by the function that is traced."""
        return id(x) not in self._lifted and (x.value.__class__ is Spec or id(x) in self._constants)

    def touch(self, x: Any) -> None:
        """Lift `x` if it was there before the trace began."""
        if x.value.__class__ is Spec or id(x) in self._constants:
            return
        node = x.node
        needs = node is not None and node.needs
        new = leaf(x.value.shape, x.value.dtype, needs=needs)
        new.serial = -1 - len(self.lifts)  # older than whatever the function makes
        new.extra = slot = None
        if needs and node is not None and node.extra is not None:
            new.extra = slot = GradSlot(node.extra)
        self.lifts.append(Lift(x, x.value, node, new, slot))
        self._lifted.add(id(x))
        x.value = Spec(x.value.shape, x.value.dtype)
        x.node = new

    def fill(self, new: Any, data: Any, dtype: Any) -> None:
        """Give the new tensor `new` the values of `data`."""
        data = self.standing_for(data)
        if isinstance(data, Variable):
            self.touch(data)
        if isinstance(data, Variable) and data.value.__class__ is Spec:
            y = apply(_DETACH, asarray(data, dtype))
            new.value, new.node = y.value, y.node
        else:
            new.value = to_array(data, dtype, copy=True)
        self.add_variable(new)

    def assign(self, x: Any, new: Any, *, graph: bool = False) -> None:
        """`x` gets the value of `new`; with `graph` its place in the graph, too."""
        self.arrays.write(x)
        new = self.standing_for(new)
        new = new if isinstance(new, Tensor) else variable(to_array(new, x.dtype, copy=True))
        self.touch(x)
        self.touch(new)
        if new.shape != x.shape:
            raise ShapeError(f"data: a tensor of shape {x.shape} cannot become {new.shape}")
        if new.dtype != x.dtype:
            new = astype(new, x.dtype)
        if x.value.__class__ is not Spec and new.value.__class__ is not Spec:
            x.value = new.value
        elif graph:
            x.value, x.node = new.value, new.node or constant(new.value)
            x.value = Spec(new.shape, new.dtype)
        else:
            old = x.node
            place = leaf(x.shape, x.dtype, needs=old is not None and old.needs)
            place.extra = None if old is None else old.extra
            self.sources[place] = new.node or constant(new.value)
            x.value, x.node = Spec(x.shape, x.dtype), place

    def constant_array(self, x: Any, what: str) -> Any:
        """The array of `x`, if it is a constant of the trace; raises otherwise."""
        if x.value.__class__ is not Spec and id(x) in self._constants:
            return x.value
        if what == "bool()" and x.node in self.known_truths:
            return np.asarray(self.known_truths[x.node]())
        raise unknown(x, what)

    def strong(self, x: Any, dtype: np.dtype[Any]) -> Any:
        """The placeholder `x` for a Python number as a tensor of `dtype`."""
        return strong(x, dtype)

    def spend(self, walk: Sequence[Node]) -> None:
        """Note that a backward pass goes along `walk`, which a second one may not."""
        for node in walk:
            if node in self.spent:
                raise GradientError(
                    f"cannot go back through {node} a second time: say retain_graph=True in the "
                    "first backward, or compute the forward pass again"
                )
        self.spent.update([node for node in walk if node.op is not None])

    def draw(self, take: Callable[[], Any], shape: Sequence[int], dtype: Any) -> Any:
        """A placeholder for random numbers, which are drawn anew before every call."""
        x = placeholder(tuple(shape), dtype)
        self.draws.append((take, x.node))
        return x

    def number(self, place: Place, check: Callable[[], None], limits: Range | None) -> Any:
        """A placeholder for a number that is read before every call. `check` is called, and may
        raise, whenever it is another one than before; it never does for floats in the `limits`."""
        known = id(place[0]), *place[1:]
        found = self._settings.get(known)
        if found is None:
            found = self._settings[known] = weak_placeholder(np.dtype(np.float64))
            number = Number(Entry(*place), check, found.node, limits or NOWHERE)
            self.numbers.append(number)
            self.known_truths[found.node] = number.asked
        return found

    def as_number(self, x: Any) -> Any:
        """The tensor `x`, which has no axes, as a Python number."""
        y = apply(_DETACH, x)
        y.value = Spec((), y.value.dtype, True)
        return y

    def keep(self, x: Any) -> None:
        """Take `x`, which was made just now, for a part of the state: it outlives the trace."""
        self._constants.discard(id(x))

    def _inline(self, op: Call, xs: Sequence[Any]) -> Any:
        """A user's Function: what its forward computes is the value, its backward the rule."""
        if not any(x.value.__class__ is Spec for x in xs):
            return apply(op, *xs)
        with intercept_ops(self):
            ys = trace(op, [x.value for x in xs], [x.node for x in xs])
        inputs, outs = op.traced
        for mine, x in zip(inputs, xs, strict=True):
            self.sources[mine.node] = x.node or constant(x.value)
        for y, out in zip(ys if op.many else (ys,), outs, strict=True):
            self.sources[y.node] = out.node or constant(out.value)
        return ys

    # --- at the end

    def restore(self) -> None:
        """Give every lifted tensor its value and its place in the graph again."""
        for lift in self.lifts:
            lift.tensor.value, lift.tensor.node = lift.value, lift.node
        self._settings.clear()

    def origin(self, node: Node) -> Node:
        """The node whose value `node` has."""
        while (inner := self.passed(node)) is not None:
            node = inner
        return node

    def passed(self, node: Node) -> Node | None:
        """The node whose value `node` takes over as it is; None if it has one of its own."""
        return self.sources.get(node) or passed_on(node)

    def stops(self, node: Node) -> bool:
        """Whether the value of `node` is given, not computed."""
        return node.op is None

    def leaked(self) -> list[Any]:
        """Placeholders that somebody still holds. The trace is over: nothing else can be asked."""
        self.sources.clear()
        self.known_truths.clear()
        self.spent.clear()
        found = self._live_placeholders()
        if found:
            found.clear()
            gc.collect()  # they may hang in cycles that nobody reaches
            found = self._live_placeholders()
        return found

    def _live_placeholders(self) -> list[Any]:
        return [v for r in self._variables if (v := r()) is not None and v.value.__class__ is Spec]
