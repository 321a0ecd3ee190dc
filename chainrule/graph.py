"""The graph: the one door through which every op runs, what it leaves behind, the order of a walk.

`apply(op, *xs)` computes `op` and, where one of `xs` needs a gradient, leaves a `Node` behind. A node
holds the op, the nodes of its inputs, and just those values that the op's rules read. What a user
holds is a `Variable` (in practice its only subclass, `tensor.Tensor`): a value and the node that made
it. So a value that nobody holds and no rule reads is freed at once, and a variable may be given a new
value without touching the graphs that were built from its old one.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

import numpy as np

from chainrule.errors import explain
from chainrule.op import Alias, Need, Op, Pick, Spec, open_door
from chainrule.provenance import line_of, location, user_line


class Node:
    """One op of a graph that was computed, and what its rules need to differentiate it.

    `inputs[i]` is the node of input i, None if it has none. `kept` is (y, *xs), each the value itself
    if a rule reads it and otherwise what tells its shape. `need[i]` says whether a gradient flows to
    input i. A node without an op is a leaf. Shape and dtype of an op with several outputs are tuples.
    """

    __slots__ = (
        "__weakref__", "at", "code", "dtype", "extra", "inputs", "kept", "need", "needs", "op", "shape",
    )  # fmt: skip

    op: Op | None
    inputs: tuple[Node | None, ...]
    kept: Any
    need: Need
    needs: bool
    shape: Any
    dtype: Any
    code: CodeType
    at: int
    extra: Extra | None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def name(self) -> str:
        """The op's name, `leaf` for a leaf."""
        return "leaf" if self.op is None else self.op.name

    @property
    def where(self) -> str:
        """`file:line` of the user's line that made this node."""
        return location(self.code, self.at)

    @property
    def line(self) -> int:
        """Number of the user's line that made this node."""
        return line_of(self.code, self.at)

    def __repr__(self) -> str:
        return f"<{self.name} {self.dtype} {self.shape} at {self.where}>"


class Extra:
    """What only some nodes have: an accumulated gradient, a wish to have one, hooks."""

    __slots__ = ("grad", "hooks", "retain")

    def __init__(self, *, retain: bool) -> None:
        self.grad: Any = None
        self.retain = retain
        self.hooks: dict[int, Callable[[Any], Any]] = {}


class Freed:
    """Stands in `Node.kept` once a backward pass has used the values and let them go."""

    __slots__ = ("at", "code")

    def __init__(self) -> None:
        self.code, self.at = user_line()

    @property
    def where(self) -> str:
        """`file:line` of the backward pass."""
        return location(self.code, self.at)


class Variable:
    """A value and the node that made it (None: nothing to differentiate)."""

    __slots__ = ("__weakref__", "node", "value")

    value: Any
    node: Node | None


# --- The door ------------------------------------------------------------------------------------

_recording: contextvars.ContextVar[bool] = contextvars.ContextVar("recording", default=True)
kinds: dict[type, Callable[..., Any]] = {}
"""How other kinds of numbers (scalars, symbols) apply an op: `kinds[type](op, *xs)`."""
_new: Any = object.__new__
_ALIAS = Alias()
_variable: Any = Variable


def bind(cls: type[Variable]) -> None:
    """Name the final class of variables, which lives above the ops that its methods use."""
    global _variable
    _variable = cls


class _Quiet(threading.local):
    """Runs array code in a context of its own where NumPy's floating-point warnings are off.

    Entering a prepared context costs a tenth of `np.errstate`, and leaves the user's own setting
    alone.
    """

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_quiet = _Quiet()


def _evaluate(op: Op, xs: Sequence[Any]) -> Any:
    """The op's value on arrays, quietly; a failure is explained with the op and its arguments."""
    try:
        return _quiet.run(op.eval, *xs) if op.quiet else op.eval(*xs)
    except Exception as cause:
        if isinstance(cause, RuntimeError) and "cannot enter context" in str(cause):
            with np.errstate(all="ignore"):  # a signal handler came in the middle of an op
                return op.eval(*xs)
        error = explain(op, xs, cause)
        if error is cause:
            raise
        raise error from cause


def apply(op: Op, *xs: Any) -> Any:
    """The one door: compute `op` on `xs`, and record it if one of them needs a gradient.

    Only arrays and numbers in: an array out. A variable among them: a variable out. A placeholder
    (a variable whose value is a `Spec`) among them: a placeholder out. A tuple of those where
    `op.many`.
    """
    values: list[Any] = []
    nodes: list[Node | None] = []
    some = recorded = traced = False
    for x in xs:
        if type(x) is _variable:
            some = True
            values.append(x.value)
            nodes.append(x.node)
            if x.node is not None:
                recorded = True
                if type(x.value) is Spec:
                    traced = True
        else:
            values.append(x)
            nodes.append(None)
    if traced:
        return _trace(op, values, nodes)
    if not some:
        for x in xs:
            if type(x) in kinds:
                return kinds[type(x)](op, *xs)
    y = _evaluate(op, values)
    if not some:
        return y
    if recorded and _recording.get():
        return _record(op, y, xs, values, nodes)
    return tuple([variable(v) for v in y]) if op.many else variable(y)


open_door(apply)


def variable(value: Any, node: Node | None = None) -> Any:
    """A variable holding `value`; NumPy's scalars become arrays without axes."""
    v = _new(_variable)
    v.value = np.asarray(value) if isinstance(value, np.generic) else value
    v.node = node
    return v


def _record(op: Op, y: Any, xs: Any, values: list[Any], nodes: list[Node | None]) -> Any:
    """The variable for `y`, with the node that remembers how it was made."""
    mask = tuple([n is not None and n.needs for n in nodes])
    need, drop = op.plans.get(mask) or op.plan(mask)
    if True not in need or (not op.many and y.dtype.kind not in "fc"):
        return tuple([variable(v) for v in y]) if op.many else variable(y)
    kept = [y, *values]
    for i, x in enumerate(xs, 1):
        if type(x) is np.ndarray and x.flags.writeable and i not in drop:
            kept[i] = x.copy()  # the caller's own, which he may change
    for i in drop:
        kept[i] = None if i == 0 else nodes[i - 1] or _spec_of(values[i - 1])
    node = _new(Node)
    node.op = op
    node.inputs = tuple(nodes)
    node.kept = tuple(kept)
    node.need = need
    node.needs = True
    node.code, node.at = user_line()
    node.extra = None
    if op.many:
        return _picks(node, y)
    node.shape = y.shape
    node.dtype = y.dtype
    return variable(y, node)


def _spec_of(x: Any) -> Any:
    """The `Spec` of an array, a Python number itself."""
    return Spec(x.shape, x.dtype) if isinstance(x, np.ndarray) else x


def leaf(shape: tuple[int, ...], dtype: Any, *, needs: bool, kept: Any = ()) -> Node:
    """A node without an op: a parameter, a placeholder (which may need no gradient) or, with its
    value kept, a constant of a traced graph."""
    node = _new(Node)
    node.op = None
    node.inputs = node.need = ()
    node.kept = kept
    node.needs = needs
    node.shape, node.dtype = shape, dtype
    node.code, node.at = user_line()
    node.extra = Extra(retain=True) if needs else None
    return node


def _picks(node: Node, ys: Sequence[Any]) -> tuple[Any, ...]:
    """A variable for each output of `node`, whose shape and dtype are then tuples."""
    node.shape = tuple([y.shape for y in ys])
    node.dtype = tuple([y.dtype for y in ys])
    return tuple([_pick(node, i, y) for i, y in enumerate(ys)])


def _pick(parent: Node, index: int, y: Any) -> Any:
    needs = parent.needs and y.dtype.kind in "fc"
    if not needs and type(y) is not Spec:
        return variable(y)
    node = _new(Node)
    node.op = Pick(index)
    node.inputs = (parent,)
    node.kept = (None, parent)
    node.need = (needs,)
    node.needs = needs
    node.shape, node.dtype = y.shape, y.dtype
    node.code, node.at = parent.code, parent.at
    node.extra = None
    return variable(y, node)


def _trace(op: Op, values: list[Any], nodes: list[Node | None]) -> Any:
    """Record without computing: shapes and dtypes only. Every input has a node here."""
    try:
        y = op.spec(*[_spec_of(v) for v in values])
    except Exception as cause:
        error = explain(op, values, cause)
        if error is cause:
            raise
        raise error from cause
    inputs = tuple([n or _constant(v) for v, n in zip(values, nodes, strict=True)])
    node = _new(Node)
    node.op = op
    node.inputs = inputs
    node.kept = (y, *values)
    on = _recording.get() and (op.many or y.dtype.kind in "fc")
    node.need = tuple([on and n.needs and op.reads(i) is not None for i, n in enumerate(inputs)])
    node.needs = True in node.need
    node.code, node.at = user_line()
    node.extra = None
    if op.many:
        return _picks(node, y)
    node.shape, node.dtype = y.shape, y.dtype
    return variable(y, node)


def _constant(value: Any) -> Node:
    return leaf(np.shape(value), np.result_type(value), needs=False, kept=(value,))


def alias(x: Any) -> Any:
    """A variable of the same value that is a place of its own to differentiate at."""
    node = leaf(x.value.shape, x.value.dtype, needs=True)
    if x.node is not None:
        node.op = _ALIAS
        node.inputs = (x.node,)
        node.need = (x.node.needs,)
        node.kept = (None, x.node)
        node.extra = None
    return variable(x.value, node)


def placeholder(shape: tuple[int, ...], dtype: Any, *, needs: bool = False) -> Any:
    """A variable whose value is not known yet: what is computed from it is recorded, not run."""
    spec = Spec(tuple(shape), np.dtype(dtype))
    return variable(spec, leaf(spec.shape, spec.dtype, needs=needs))


@contextmanager
def recording(on: bool) -> Iterator[None]:
    """Within it, ops on variables that need a gradient are recorded, or are not."""
    token = _recording.set(on)
    try:
        yield
    finally:
        _recording.reset(token)


def is_recording() -> bool:
    """Whether ops are recorded here."""
    return _recording.get()


# --- The order of a walk -------------------------------------------------------------------------


def order(roots: Iterable[Node], stop: Iterable[Node] = ()) -> list[Node]:
    """The nodes that `roots` depend on, each after everything that uses it; roots first.

    The walk does not go beyond the nodes in `stop`, nor along inputs that need no gradient. It is
    iterative, and visits inputs in order, so it is the same in every run.
    """
    stopped = set(stop)
    uses: dict[Node, int] = dict.fromkeys(roots, 0)
    starts = list(uses)
    stack = list(starts)
    while stack:
        node = stack.pop()
        if node in stopped:
            continue
        for n, needed in zip(node.inputs, node.need, strict=True):
            if not needed or n is None:
                continue
            if n in uses:
                uses[n] += 1
            else:
                uses[n] = 1
                stack.append(n)
    ready = [root for root in reversed(starts) if uses[root] == 0]
    out: list[Node] = []
    while ready:
        node = ready.pop()
        out.append(node)
        if node in stopped:
            continue
        for n, needed in zip(node.inputs, node.need, strict=True):
            if needed and n is not None:
                uses[n] -= 1
                if uses[n] == 0:
                    ready.append(n)
    return out
