"""checkpoint: a function of which the graph keeps only the inputs, and computes the rest again.

The function runs twice: for its value, and for its derivative. What it reaches by itself (the
parameters of a module, say) is found in the graph of the first run. The second run draws the same
random numbers, and must give the same result, bit for bit.

Griewank & Walther 2000, ACM Transactions on Mathematical Software 26(1); Chen et al. 2016,
arXiv:1604.06174.

Notation: a place is a node of the second run's graph in which cotangents of an input arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, ClassVar

import numpy as np

from chainrule.engine.derive import pullback_nodes, pushforward_nodes
from chainrule.engine.graph import (
    Around,
    Node,
    Variable,
    alias,
    apply,
    around,
    intercept_ops,
    is_recording,
    leaf,
    order,
    recording,
    variable,
)
from chainrule.engine.op import Need, Op, Spec, new_op
from chainrule.engine.provenance import location, user_line
from chainrule.errors import GradientError
from chainrule.ops.eager_kernels import fusing, is_on
from chainrule.ops.families import Multilinear, conj
from chainrule.transforms.replay import (
    Chance,
    Keep,
    SecondRun,
    Snapshot,
    note_random_state,
    replay_random_state,
)
from chainrule.tree import Structure, flatten

Policy = Callable[[Op], bool]
"""For an op that the function runs: whether its value is kept instead of computed again."""


def keep_products(op: Op) -> bool:
    """The policy that keeps what is dear to compute: products of matrices, einsum, convolutions."""
    return isinstance(op, Multilinear)


def checkpoint(f: Callable[..., Any] | None = None, *, policy: Policy | None = None) -> Any:
    """The function f, whose inner values are not kept for the backward pass but computed again.

    Its graph keeps the tensors among the arguments (which may be trees), and values of the ops that
    `policy` chooses. So memory is saved for one more run of f. Gradients are the same bit for bit,
    also of tensors that f reaches by itself. It nests with itself, `grad` and `jvp`; under `vmap`,
    and wherever values are not known yet, f simply runs, and nothing is saved.

    f must give the same result for the same arguments. Its draws are repeated: those from this
    package's generators, from Python's `random` and from NumPy's global one. If a second result
    differs in a single bit, the backward pass raises `GradientError` instead of giving a wrong
    gradient. Also a decorator: `@checkpoint` or `@checkpoint(policy=keep_products)`.

    >>> import chainrule as cr
    >>> cr.grad(checkpoint(lambda x: (x * x).exp()))(1.0)
    tensor(5.436564, dtype=float32)
    """
    if f is None:
        return partial(checkpoint, policy=policy)
    function = f

    def run(*args: Any, **kwargs: Any) -> Any:
        return _first(function, policy, args, kwargs)

    return wraps(function)(run) if hasattr(function, "__name__") else run


def _name(f: Any) -> str:
    return getattr(f, "__qualname__", None) or type(f).__name__


# --- The first run -------------------------------------------------------------------------------


@dataclass(eq=False)
class _Call:
    """What is known of one call of f, but for the values that its node keeps."""

    f: Callable[..., Any]
    rest: list[Any]
    """The leaves of the arguments, None where `at` says that there was a tensor."""
    structure: Structure
    at: list[int]
    needs: list[bool]
    """For each tensor among the arguments, whether it needed a gradient."""
    source: tuple[Any, int]
    around: Around
    keep: Keep | None
    fused: bool
    """Whether composites could run as kernels."""
    chance: Chance = field(default_factory=Chance)
    captured: list[Node] = field(default_factory=list[Node])
    """What f reached by itself."""
    first_result: list[Snapshot] = field(default_factory=list[Snapshot])
    outs: list[int] = field(default_factory=list[int])
    """Which leaves of the result are differentiable."""
    specs: tuple[Spec, ...] = ()
    values: tuple[Any, ...] | None = None
    """Those leaves, from the first run until the op is recorded."""

    @property
    def name(self) -> str:
        """`checkpoint(f)`."""
        return f"checkpoint({_name(self.f)})"

    @property
    def where(self) -> str:
        """The same, with the user's line."""
        return f"{self.name}, called at {location(*self.source)}"

    def run(
        self, tensors: Sequence[Any], step: Keep | SecondRun | None
    ) -> tuple[list[Any], Structure]:
        """The leaves of f's result, recorded."""
        leaves = list(self.rest)
        for i, x in zip(self.at, tensors, strict=True):
            leaves[i] = x
        args, kwargs = self.structure.unflatten(leaves)
        with recording(True):
            if step is None:
                return flatten(self.f(*args, **kwargs))
            with intercept_ops(step):
                result = flatten(self.f(*args, **kwargs))
        step.over = True  # whoever runs a part of this later is no part of this run
        return result


def _first(f: Callable[..., Any], policy: Policy | None, args: Any, kwargs: Any) -> Any:
    """Run f, and record one op in place of the graph that it leaves."""
    leaves, structure = flatten((args, kwargs))
    at = [i for i, x in enumerate(leaves) if isinstance(x, Variable)]
    tensors: list[Any] = [leaves[i] for i in at]
    if not is_recording() or any(type(x.value) is Spec for x in tensors):
        return f(*args, **kwargs)
    needs = [x.requires_grad for x in tensors]
    rest = [None if isinstance(x, Variable) else x for x in leaves]
    keep = None if policy is None else Keep(policy)
    call = _Call(f, rest, structure, at, needs, user_line(), around.get(), keep, is_on())
    start = _now()
    given = [alias(x) if n else x for x, n in zip(tensors, needs, strict=True)]
    with note_random_state() as call.chance:
        results, shape = call.run(given, keep)
    ys = [results[i] for i, y in enumerate(results) if _made_since(start, y)]
    if not ys or any(type(y.value) is Spec for y in ys):
        return shape.unflatten(results)
    stop = {x.node for x, n in zip(given, needs, strict=True) if n}
    call.captured = _graph_down_to([y.node for y in ys], stop, start)[1]
    call.first_result = [
        Snapshot.of(i, y.value) for i, y in enumerate(results) if isinstance(y, Variable)
    ]
    call.outs = [i for i, y in enumerate(results) if _made_since(start, y)]
    call.values = tuple([y.value for y in ys])
    call.specs = tuple([Spec(y.shape, y.dtype) for y in ys])
    for i, y in zip(call.outs, _record(call, tensors), strict=True):
        results[i] = y
    return shape.unflatten(results)


def _record(call: _Call, tensors: Sequence[Any]) -> Sequence[Any]:
    """The differentiable results, as made by one op. Its inputs are the tensors among the
    arguments, the values that are kept, and stand-ins for what f reaches by itself."""
    kept = [] if call.keep is None else [variable(v) for v in call.keep.values]
    ys = apply(new_op(Recompute, call), *tensors, *kept, *_stand_ins(call))
    if call.keep is not None:
        call.keep.values = []  # from now on the node keeps them
    return ys if len(call.outs) > 1 else [ys]


def _stand_ins(call: _Call) -> list[Any]:
    """Variables in the places of what f reaches by itself, whose values are f's own affair."""
    return [variable(np.broadcast_to(np.zeros((), n.dtype), n.shape), n) for n in call.captured]


def _now() -> int:
    """A serial number: nodes that are made from now on have higher ones."""
    return leaf((), np.dtype(float), needs=False).serial


def _made_since(start: int, y: Any) -> bool:
    """Whether y is differentiable and was made since `start`."""
    return isinstance(y, Variable) and y.node is not None and y.node.needs and y.node.serial > start


def _graph_down_to(
    roots: Sequence[Node], stop: set[Any], start: int
) -> tuple[list[Node], list[Node]]:
    """The graph of `roots` down to `stop` made since `start`, and the older nodes it begins at."""
    mine, older = dict.fromkeys(roots), set[Node]()
    stack = [n for n in roots if n not in stop]
    while stack:
        for n in stack.pop().inputs:
            if n is None or not n.needs or n in mine or n in stop:
                continue
            if n.serial < start:
                older.add(n)
            else:
                mine[n] = None
                stack.append(n)
    return list(mine), sorted(older, key=lambda n: n.serial)


# --- The second run ------------------------------------------------------------------------------


class Recompute(Op):
    """One call of a checkpointed function; its rules run the function again and differentiate that.

    Inputs: the tensors among the arguments; values that a policy keeps; what the function reaches
    by itself, of which only the shape is known here.
    """

    call: _Call
    quiet: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`checkpoint(f)`."""
        return self.call.name

    @property
    def many(self) -> bool:  # type: ignore[override]
        """Whether there are several differentiable results."""
        return len(self.call.outs) > 1

    def eval(self, *xs: Any) -> Any:
        """What the first run gave, or else, what the function gives now."""
        values, self.call.values = self.call.values, None
        if values is None:
            values = tuple([y.value for y in self._again([variable(x) for x in xs])[0]])
        return values if self.many else values[0]

    def spec(self, *xs: Any) -> Any:
        """Those of the first run."""
        return self.call.specs if self.many else self.call.specs[0]

    def reads(self, i: int) -> tuple[int, ...]:
        """The arguments and the kept values."""
        call = self.call
        return tuple(range(1, 1 + len(call.at) + (sum(call.keep.counts) if call.keep else 0)))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Cotangents pulled back through the graph of the second run."""
        gs: Sequence[Any] = g if self.many else (g,)
        ys, places = self._again(xs)
        record = is_recording() and any(isinstance(c, Variable) for c in gs)
        seeds: dict[Node, Any] = {}
        for out, c in zip(ys, gs, strict=True):
            if c is not None:
                before = seeds.get(out.node)
                seeds[out.node] = conj(c) if before is None else before + conj(c)
        wanted = [p for p, n in zip(places, need, strict=True) if n and p is not None]
        walk = order(seeds, wanted)
        got = pullback_nodes(walk, seeds, set(wanted), record=record, free=not record)
        return [conj(got[p]) if n and p in got else None for p, n in zip(places, need, strict=True)]

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """Tangents pushed forward through the graph of the second run."""
        ys, places = self._again(xs)
        pairs = zip(places, ts, strict=True)
        tangents: dict[Node, Any] = {p: t for p, t in pairs if p is not None and t is not None}
        record = is_recording() and any(isinstance(t, Variable) for t in ts)
        walk = order([out.node for out in ys], tangents)
        got = pushforward_nodes(walk, tangents, record=record)
        dots = [got.get(out.node) for out in ys]
        full = [
            np.zeros(o.shape, o.dtype) if d is None else d for o, d in zip(ys, dots, strict=True)
        ]
        return tuple(full) if self.many else full[0]

    def _again(self, xs: Sequence[Any]) -> tuple[list[Any], list[Node | None]]:
        """The differentiable results of a second run, and for each input its place in the graph."""
        call = self.call
        count = len(call.at)
        tensors = [x if isinstance(x, Variable) else variable(x) for x in xs[:count]]
        start = _now()
        given = [alias(x) if n else x for x, n in zip(tensors, call.needs, strict=True)]
        places: list[Any] = [x.node if n else None for x, n in zip(given, call.needs, strict=True)]
        values = [x.value if isinstance(x, Variable) else x for x in xs[count:]]
        step = call.keep and SecondRun(call.keep, values, call.where)
        with _inside(call.around), fusing(call.fused), replay_random_state(call.chance):
            results, _ = call.run(given, step)
        ys = _check_results(call, results)
        nodes, older = _graph_down_to([y.node for y in ys], {p for p in places if p}, start)
        if older != call.captured:
            raise _mismatch_error(
                call, "it reached other parameters or tensors that need a gradient"
            )
        stands = {n: alias(x).node for n, x in zip(older, _stand_ins(call), strict=True)}
        for node in stands.values():
            node.serial = start  # a walk must find them older than what uses them
        for node in nodes:
            node.inputs = [stands.get(n, n) if n else n for n in node.inputs]
        kept = len(xs) - count - len(older)
        return ys, [*places, *[None] * kept, *stands.values()]


@contextmanager
def _inside(outer: Around) -> Generator[None]:
    """Ops are handed to whom they were handed in the first run: autocast holds again."""
    token = around.set(outer)
    try:
        yield
    finally:
        around.reset(token)


def _check_results(call: _Call, results: Sequence[Any]) -> list[Any]:
    """The differentiable ones among the second results, if all are what they were."""
    for seen in call.first_result:
        what = seen.compare(results[seen.index] if seen.index < len(results) else None)
        if what:
            raise _mismatch_error(call, what)
    return [results[i] for i in call.outs]


def _mismatch_error(call: _Call, what: str) -> GradientError:
    return GradientError(
        f"{call.where}: computed again for its derivative, it is not the same: {what}. It must do "
        "the same for the same arguments: draw random numbers from chainrule's generators, from "
        "random or from np.random's functions, and leave what it reads as it is until after "
        "backward"
    )
