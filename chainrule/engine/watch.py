"""Who looks on while ops run: nobody, which costs one test of an empty tuple, or some `Watch`es.

A watch hears of every op that ran, of every rule that propagated a cotangent or a tangent, and of
every value that left the graph. The first two come with the floating-point flags that the
arithmetic raised. The processor sets these for free, so looking for the first NaN is cheap.

Besides, `cuts` remembers, always, where an array that is alive was taken off its graph.
"""

from __future__ import annotations

import contextvars
import threading
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from chainrule.engine.provenance import location, user_line


def _nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Watch:
    """What to call, while it is on, when something happens; each may raise to stop the program.

    `alarm` says that the arithmetic was invalid, divided by zero or overflowed somewhere on the
    way, which need not show in the result.
    """

    on_op: Callable[[Any, Sequence[Any], Any, bool], None] = _nothing
    """`(op, xs, y, alarm)`: `op` was computed on `xs` (variables, arrays, numbers); `y` arrays."""
    on_vjp: Callable[[Any, Any, Sequence[Any], bool], None] = _nothing
    """`(node, g, bars, alarm)`: the rule of `node` made `bars` of its cotangent `g`."""
    on_sweep_start: Callable[[Sequence[Any], Mapping[Any, Any], bool], None] = _nothing
    """`(walk, seeds, record)`: a backward sweep begins, over the nodes `walk`, from cotangents by
    node; `record` says whether what it does is recorded itself."""
    on_sweep_end: Callable[[Mapping[Any, Any]], None] = _nothing
    """`(arrived)`: the sweep that began last is over; the cotangents at leaves by node."""
    on_jvp: Callable[[Any, Sequence[Any], Any], None] = _nothing
    """`(node, ts, y_dot)`: the rule of `node` made the tangent `y_dot` of its inputs' tangents."""
    on_leave: Callable[[Any, str], None] = _nothing
    """`(variable, how)`: its value was taken off the graph, by `how` ("item()", say)."""


watches: tuple[Watch, ...] = ()
"""Those that are on, in every thread. Set by `watching` only."""


@contextmanager
def watching(watch: Watch) -> Generator[None]:
    """Within it, `watch` is told."""
    global watches
    watches = (*watches, watch)
    try:
        yield
    finally:
        watches = tuple([w for w in watches if w is not watch])


class _Alarm(threading.local):
    """Array code run by `run` sets `raised` where floating-point arithmetic raised a flag."""

    def __init__(self) -> None:
        self.raised = False
        context = contextvars.copy_context()
        context.run(self._listen)
        self.run = context.run

    def _listen(self) -> None:
        np.seterr(all="call", under="ignore")
        np.seterrcall(self.note)

    def note(self, kind: str, flag: int) -> None:
        """NumPy's call when a flag was raised."""
        self.raised = True


_alarm = _Alarm()


def run(op: Any, xs: Sequence[Any], values: Sequence[Any]) -> Any:
    """The value of `op`, shown to the watches."""
    before = _alarm.raised  # of the rule that asks for this op: not to be lost
    _alarm.raised = False
    y = _alarm.run(op.eval, *values) if op.quiet else op.eval(*values)
    if issubclass(type(y), np.generic):
        y = np.asarray(y)  # so that it is the very array that the variable will hold
    raised = _alarm.raised
    _alarm.raised = raised or before
    for watch in watches:
        watch.on_op(op, xs, y, raised)
    return y


def on_vjp(node: Any, g: Any, bars: Sequence[Any]) -> None:
    """Show the watches what the rule of `node` made of `g`."""
    raised = _alarm.raised
    _alarm.raised = False
    for watch in watches:
        watch.on_vjp(node, g, bars, raised)


def on_jvp(node: Any, ts: Sequence[Any], y_dot: Any) -> None:
    """Show the watches the tangent that the rule of `node` made of `ts`."""
    for watch in watches:
        watch.on_jvp(node, ts, y_dot)


@contextmanager
def sweep(
    walk: Sequence[Any], seeds: Mapping[Any, Any], arrived: Mapping[Any, Any], record: bool
) -> Generator[None]:
    """Around a backward sweep while something watches: it hears of the flags, the beginning, and
    the end, by an error too, by when `arrived` is complete."""
    told = watches
    for watch in told:
        watch.on_sweep_start(walk, seeds, record)
    try:
        with np.errstate(all="call", under="ignore", call=_tell_all):
            yield
    finally:
        for watch in told:
            watch.on_sweep_end(arrived)


def _tell_all(kind: str, flag: int) -> None:
    _alarm.note(kind, flag)
    if kind.startswith("invalid"):
        invalid.note(kind, flag)


class _Invalid(threading.local):
    """Whether array code of this thread made a NaN out of numbers: `seen` is not empty then.

    The processor notices for free. The pullback asks after every rule, and empties it.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []

    def note(self, kind: str, flag: int) -> None:
        """NumPy's call when the flag was raised."""
        if not self.seen:
            self.seen.append(kind)


invalid = _Invalid()


def _settings() -> list[tuple[contextvars.ContextVar[Any], Any]]:
    """What NumPy sets for the errors that a sweep wants, as context variables and their values:
    to set them takes a tenth of `np.errstate`, which works them out each time."""
    before, after = contextvars.copy_context(), contextvars.copy_context()
    after.run(np.seterr, all="ignore", invalid="call")
    after.run(np.seterrcall, invalid.note)
    return [(v, after[v]) for v in after if v not in before or before[v] is not after[v]]


_SETTINGS = _settings()


def ignore_errors() -> None:
    """For the rest of this context, array code gives no floating-point warnings; `invalid` is told
    of NaNs."""
    for variable, value in _SETTINGS:
        variable.set(value)


# --- What was taken off its graph ----------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """An array that was taken off the graph, and where."""

    array: weakref.ref[Any]
    how: str
    node: weakref.ref[Any]
    """The node that made it, as long as that is alive."""
    name: str
    """That node's op."""
    made: tuple[CodeType, int]
    code: CodeType
    at: int

    @property
    def origin(self) -> str:
        """`file:line` at which the value was computed."""
        return location(*self.made)

    @property
    def where(self) -> str:
        """`file:line` of the cut."""
        return location(self.code, self.at)


cuts: dict[int, Cut] = {}
"""By the id of the array, which is alive."""


def leave(x: Any, how: str) -> None:
    """Note that the value of the variable `x` is taken off the graph as an array, by `how`."""
    for watch in watches:
        watch.on_leave(x, how)
    node = x.node
    array: Any = x.value
    if node is None or node.op is None or not hasattr(array, "flags"):
        return  # a leaf has nothing that could be cut off
    key = id(array)

    def forget(_: Any) -> None:
        cuts.pop(key, None)

    code, at = user_line()
    made = (node.code, node.at)
    cuts[key] = Cut(weakref.ref(array, forget), how, weakref.ref(node), node.name, made, code, at)


def escape(x: Any, how: str) -> None:
    """Tell the watches that the value of `x` is taken off the graph as a number, by `how`."""
    for watch in watches:
        watch.on_leave(x, how)
