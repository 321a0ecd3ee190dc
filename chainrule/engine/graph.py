"""The graph: the one door through which every op runs, and the order of a walk.

`apply(op, *xs)` computes `op` and, where one of `xs` needs a gradient, leaves a `Node` behind.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import Token
from functools import wraps
from itertools import count
from operator import attrgetter
from sys import modules
from typing import Any, ParamSpec, TypeVar, final

import numpy as np

from chainrule.engine import arrays, watch
from chainrule.engine.arguments import explain_arrays
from chainrule.engine.arrays import is_fixed, kinds, native, operand
from chainrule.engine.dtypes import INEXACT, float32, weakly
from chainrule.engine.misuse.call_errors import wrong_arguments
from chainrule.engine.misuse.foreign_arrays import report_caller
from chainrule.engine.node import Extra, Node, Variable
from chainrule.engine.op import Alias, Need, Op, Pick, Spec, open_door
from chainrule.engine.provenance import frame_at, user_files, user_line
from chainrule.engine.quiet import is_taken, run_alone, runner
from chainrule.errors import ChainruleError, describe_all

_P = ParamSpec("_P")
_R = TypeVar("_R")

# --- The door ------------------------------------------------------------------------------------

RECORDING: contextvars.ContextVar[bool] = contextvars.ContextVar("recording", default=True)
"""Whether ops are recorded."""
Around = tuple[Callable[[Op, Sequence[Any]], Any], Any] | None
"""A function that ops are handed to, and the `Around` that holds inside it."""
around: contextvars.ContextVar[Around] = contextvars.ContextVar("around", default=None)
"""Set by `intercept_ops`; kept and set again by who runs a function a second time."""
_new: Any = object.__new__
_ndarray: Any = np.ndarray
_next = count().__next__
_ALIAS = Alias()
_variable: Any = Variable
arrays.passing.add(Spec)


def serial() -> int:
    """A serial number between those of the nodes that are there and those that are to come."""
    return _next()


def bind(cls: type[Variable]) -> None:
    """Name the final class of variables, which lives above the ops that its methods use."""
    global _variable
    _variable = cls
    arrays.passing.add(cls)


def apply(op: Op, *xs: Any, **unknown: Any) -> Any:
    """The one door: compute `op` on `xs`, and record it if one of them needs a gradient.

    Only arrays and numbers in: an array out. A variable among them: a variable out. A placeholder
    (a variable whose value is a `Spec`) among them: a placeholder out. A tuple of those where
    `op.many`. Where arrays or numbers are few, `doors.py` has it written out.
    """
    if unknown or ((takes := op.takes) and takes != len(xs)):
        raise wrong_arguments(op, len(xs), unknown)
    if (outer := around.get()) is not None:
        return _through(outer, op, xs)
    values: list[Any] = []
    nodes: list[Node | None] = []
    mask, bit = 0, 1
    some = plain = odd = traced = False
    for x in xs:
        if x.__class__ is _variable:
            some = True
            value, n = x.value, x.node
            values.append(value)
            nodes.append(n)
            if n is not None:
                mask |= bit
                traced = traced or value.__class__ is Spec
        else:
            plain = True
            if not (x.dtype in native if x.__class__ is _ndarray else x.__class__ in _FAST):
                odd, x = True, _admit(op, xs, x)
            values.append(x)
            nodes.append(None)
        bit += bit
    if traced:
        return trace(op, _copy_plain(xs, values, ()) if plain else values, nodes)
    if odd and not some and (handler := _handler(xs)) is not None:
        return handler(op, *xs)
    y = _value(op, xs, values)
    if not some:
        return y
    if plain and "ml_dtypes" in modules:  # else nothing is bfloat16
        y = weakly(values, y)
    if mask and is_recording():
        need, keep_y, drop = op.plans.get(mask | bit) or op.plan(mask | bit)
        if need:
            if plain:
                values = _copy_plain(xs, values, drop)
            for i in drop:
                values[i] = nodes[i] or spec_of(values[i])
            return record(op, need, keep_y, nodes, values, y)
    return tuple([variable(v) for v in y]) if op.many else variable(y)


def _value(op: Op, xs: Sequence[Any], values: Sequence[Any]) -> Any:
    """What `op` computes of `values`, those of `xs`, and whoever watches is told."""
    try:
        if watch.watches:
            return watch.run(op, xs, values)
        run = runner.get()
        return run(op.eval, *values) if run and op.quiet else op.eval(*values)
    except Exception as cause:
        if is_taken(cause):
            return run_alone(op.eval, *values)
        error = explain_arrays(op, values, cause)
        if error is cause:
            raise
        raise error from cause


def record(
    op: Op, need: Need, keep_y: bool, inputs: Sequence[Node | None], xs: Sequence[Any], y: Any
) -> Any:
    """The variable of the value `y` with its node; `xs` are what the rules of `op` read of its
    inputs. (A tuple of variables where `op.many`.)"""
    node = Node()
    node.serial = _next()
    node.op = op
    node.inputs = inputs
    node.xs = xs
    node.need = need
    node.needs = True
    node.extra = None
    frame = frame_at(2)
    node.code = code = frame.f_code
    if code.co_filename in user_files:  # nearly always
        node.at = frame.f_lasti
    else:
        node.code, node.at = user_line(3)
    if y.__class__ is not _ndarray:
        if op.many:
            return _picks(node, y)
        y = np.asarray(y)
    node.y = y if keep_y else None
    node.shape = y.shape
    node.dtype = dtype = y.dtype
    v = _new(_variable)
    v.value = y
    v.node = node if dtype is float32 or dtype.kind in INEXACT else None
    return v


open_door(apply)


def _handler(xs: Sequence[Any]) -> Callable[..., Any] | None:
    """How an op applies to the kind of numbers among `xs`, None if they are arrays and floats."""
    for x in xs:
        if x.__class__ in kinds:
            return kinds[x.__class__]
    return None


_FAST = frozenset({bool, int, float, complex})


def _admit(op: Op, xs: Sequence[Any], x: Any) -> Any:
    """`x`, one of `xs`, as `op` computes with it; errors name the op."""
    if x.__class__ is Spec or any(other.__class__ in kinds for other in xs):
        return x
    try:
        return operand(x)
    except ChainruleError as error:
        raise report_caller(error, f"{op}: cannot be applied to {describe_all(xs)}") from None


def variable_class() -> type[Variable]:
    """The final class of variables, as `bind` was told it."""
    return _variable


def _copy_plain(xs: Sequence[Any], values: list[Any], drop: Sequence[int]) -> list[Any]:
    """`values`, with copies of the caller's own arrays that are to be kept: he may change them."""
    for i, x in enumerate(xs):
        if x.__class__ is not _variable and i not in drop:
            value = values[i]
            if value.__class__ is _ndarray and not is_fixed(value):
                values[i] = value.copy()
    return values


def variable(value: Any, node: Node | None = None) -> Any:
    """A variable holding `value`; NumPy's scalars become arrays without axes."""
    v = _new(_variable)
    if value.__class__ is not _ndarray and isinstance(value, np.generic):
        value = np.asarray(value)  # pyright: ignore
    v.value = value
    v.node = node
    if tracers and (t := _tracer.get()) is not None:
        t.add_variable(v)
    return v


def spec_of(x: Any) -> Any:
    """The `Spec` of an array, a Python number itself."""
    return Spec(x.shape, x.dtype) if isinstance(x, _ndarray) else x


def leaf(shape: tuple[int, ...], dtype: Any, *, needs: bool, value: Any = None) -> Node:
    """A node without an op: a parameter, a placeholder (which may need no gradient) or, with its
    value, a constant of a traced graph."""
    node = _new(Node)
    node.serial = _next()
    node.op = None
    node.inputs = node.need = node.xs = ()
    node.y = value
    node.needs = needs
    node.shape, node.dtype = shape, dtype
    node.code, node.at = user_line()
    node.extra = Extra(retain=True) if needs else None
    return node


def _picks(node: Node, ys: Sequence[Any]) -> tuple[Any, ...]:
    """A variable for each output of `node`, whose shape and dtype are then tuples."""
    node.y = ys
    node.shape = tuple([y.shape for y in ys])
    node.dtype = tuple([y.dtype for y in ys])
    return tuple([pick(node, i, y) for i, y in enumerate(ys)])


def _weak_spec(values: Sequence[Any], y: Spec) -> Any:
    return Spec(y.shape, weakly(values, np.empty(0, y.dtype)).dtype)


def pick(parent: Node, index: int, y: Any) -> Any:
    """A variable for output `index`, of value `y`, of an op that has several."""
    needs = parent.needs and y.dtype.kind in INEXACT
    if not needs and type(y) is not Spec:
        return variable(y)
    node = _new(Node)
    node.serial = _next()
    node.op = Pick(index)
    node.inputs = (parent,)
    node.y, node.xs = None, (parent,)
    node.need = (needs,)
    node.needs = needs
    node.shape, node.dtype = y.shape, y.dtype
    node.code, node.at = parent.code, parent.at
    node.extra = None
    return variable(y, node)


def trace(op: Op, values: list[Any], nodes: list[Node | None]) -> Any:
    """Record without computing: shapes and dtypes only. Every input has a node here."""
    try:
        y = op.spec(*[spec_of(v) for v in values])
        if "ml_dtypes" in modules and not op.many:
            y = _weak_spec(values, y)
    except Exception as cause:
        error = explain_arrays(op, values, cause)
        if error is cause:
            raise
        raise error from cause
    inputs = [n or constant(v) for v, n in zip(values, nodes, strict=True)]
    node = _new(Node)
    node.serial = _next()
    node.op = op
    node.inputs = inputs
    node.y, node.xs = y, values
    on = is_recording() and (op.many or y.dtype.kind in INEXACT)
    node.need = tuple([on and n.needs and op.reads(i) is not None for i, n in enumerate(inputs)])
    node.needs = True in node.need
    node.code, node.at = user_line()
    node.extra = None
    if op.many:
        return _picks(node, y)
    node.shape, node.dtype = y.shape, y.dtype
    return variable(y, node)


def constant(value: Any) -> Node:
    """A leaf of a traced graph that has its value."""
    return leaf(np.shape(value), np.result_type(value), needs=False, value=value)


def alias(x: Any) -> Any:
    """A variable of the same value that is a place of its own to differentiate at."""
    if (by := tracer()) is not None:
        by.touch(x)  # the alias stands for whatever value x has at a later call
    node = leaf(x.value.shape, x.value.dtype, needs=True)
    if x.node is not None:
        node.op = _ALIAS
        node.inputs = (x.node,)
        node.need = (x.node.needs,)
        node.y, node.xs = None, (x.node,)
        node.extra = None
    return variable(x.value, node)


def placeholder(shape: tuple[int, ...], dtype: Any, *, needs: bool = False) -> Any:
    """A variable whose value is not known yet: what is computed from it is recorded, not run."""
    spec = Spec(tuple(shape), np.dtype(dtype))
    return variable(spec, leaf(spec.shape, spec.dtype, needs=needs))


is_recording = RECORDING.get
"""Whether ops are recorded here."""
set_recording = RECORDING.set
"""Whether ops are recorded for the rest of this context; for a part of it there is `recording`."""


@final
class recording:  # noqa: N801
    """Within it, ops on variables that need a gradient are recorded, or are not. On a function, it
    is entered at each call."""

    __slots__ = ("_entered", "_on")

    def __init__(self, on: bool) -> None:
        self._on = on
        self._entered: tuple[Token[bool], Any] | None = None

    def __enter__(self) -> None:
        self._entered = RECORDING.set(self._on), self._entered

    def __exit__(self, *of: object) -> None:
        assert self._entered is not None, "it is left before it is entered"
        token, self._entered = self._entered
        RECORDING.reset(token)

    def __call__(self, f: Callable[_P, _R]) -> Callable[_P, _R]:
        """`f`, run within it."""

        @wraps(f)
        def within(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with recording(self._on):
                return f(*args, **kwargs)

        return within


@contextmanager
def intercept_ops(f: Callable[[Op, Sequence[Any]], Any]) -> Generator[None]:
    """Within it every op goes to `f(op, xs)`, whose answer is the op's.

    While f runs it is not in the way itself, so it may `apply` the op, on other inputs, say.
    """
    token = around.set((f, around.get()))
    try:
        yield
    finally:
        around.reset(token)


def _through(outer: Any, op: Op, xs: Sequence[Any]) -> Any:
    f, below = outer
    token = around.set(below)
    try:
        return f(op, xs)
    finally:
        around.reset(token)


def may_join(x: Any) -> bool:
    """Whether one op may stand for several on `x`: its value is known, and nobody is handed ops."""
    value = x.value if isinstance(x, Variable) else x
    return value.__class__ is _ndarray and around.get() is None


# --- Who traces ----------------------------------------------------------------------------------

tracers: int = 0
"""How many functions are being traced, in all threads: what a seam tests first, and mostly last."""
_tracer: contextvars.ContextVar[Any] = contextvars.ContextVar("tracer", default=None)


def tracer() -> Any:
    """Who traces the function that is running here (see `compile.trace.Tracer`); mostly None."""
    return _tracer.get() if tracers else None


def value_of(x: Any) -> Any:
    """The array of a variable or array `x`, to look at its numbers; a `Spec` if it is traced."""
    if not isinstance(x, Variable):
        return x
    if tracers and (t := _tracer.get()) is not None:
        t.touch(x)
    return x.value


@contextmanager
def trace_ops(by: Any) -> Generator[None]:
    """Within it every op, every new variable and what is done to old ones is told to `by`."""
    global tracers
    token = _tracer.set(by)
    tracers += 1
    try:
        with intercept_ops(by):
            yield
    finally:
        tracers -= 1
        _tracer.reset(token)


# --- The order of a walk -------------------------------------------------------------------------


def order(roots: Iterable[Node], stop: Iterable[Node] = ()) -> list[Node]:
    """The nodes that `roots` depend on, each after everything that uses it.

    That is the order in which they were made, backwards: an op's inputs are older than the op. The
    walk does not go beyond the nodes in `stop`, nor into what needs no gradient; it is iterative,
    and the same in every run.
    """
    seen, stopped = set(roots), set(stop)
    found = [*seen]
    for node in found:  # which grows meanwhile
        if stopped and node in stopped:
            continue
        for n in node.inputs:
            if n is not None and n.needs and n not in seen:
                seen.add(n)
                found.append(n)
    found.sort(key=_serial, reverse=True)
    return found


_serial = attrgetter("serial")
