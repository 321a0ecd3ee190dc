"""checkpoint: a function of which the graph keeps only the inputs, and computes the rest again.

The function runs twice: for its value, and for its derivative. What it reaches by itself (the
parameters of a module, say) is found in the graph of the first run. The second run draws the same
random numbers, and must give the same result, bit for bit.

Griewank & Walther 2000, ACM Transactions on Mathematical Software 26(1); Chen et al. 2016,
arXiv:1604.06174.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

from chainrule.engine.graph import (
    Variable,
    alias,
    apply,
    around,
    is_recording,
    variable,
)
from chainrule.engine.op import Op, Spec, new_op
from chainrule.engine.provenance import user_line
from chainrule.ops.eager_kernels import is_on
from chainrule.ops.families import Multilinear
from chainrule.transforms.recompute import (
    CheckpointedCall,
    Recompute,
    graph_down_to,
    made_since,
    serial_now,
    stand_ins,
)
from chainrule.transforms.replay import (
    Keep,
    Snapshot,
    note_random_state,
)
from chainrule.tree import flatten

Policy = Callable[[Op], bool]
"""For an op that the function runs: whether its value is kept instead of computed again."""


def keep_products(op: Op) -> bool:
    """The policy that keeps what is dear to compute: products of matrices, einsum, convolutions.

    >>> step = cr.checkpoint(lambda x: cr.sum(cr.tanh(x @ x)), policy=cr.keep_products)
    >>> cr.grad(step)(cr.eye(2)).shape
    (2, 2)
    """
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
    >>> cr.grad(cr.checkpoint(lambda x: (x * x).exp()))(1.0)
    tensor(5.436564, dtype=float32)
    """
    if f is None:
        return partial(checkpoint, policy=policy)
    function = f

    def run(*args: Any, **kwargs: Any) -> Any:
        return _first(function, policy, args, kwargs)

    return wraps(function)(run) if hasattr(function, "__name__") else run


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
    call = CheckpointedCall(f, rest, structure, at, needs, user_line(), around.get(), keep, is_on())
    start = serial_now()
    given = [alias(x) if n else x for x, n in zip(tensors, needs, strict=True)]
    with note_random_state() as call.chance:
        results, shape = call.run(given, keep)
    ys = [results[i] for i, y in enumerate(results) if made_since(start, y)]
    if not ys or any(type(y.value) is Spec for y in ys):
        return shape.unflatten(results)
    stop = {x.node for x, n in zip(given, needs, strict=True) if n}
    call.captured = graph_down_to([y.node for y in ys], stop, start)[1]
    call.first_result = [
        Snapshot.of(i, y.value) for i, y in enumerate(results) if isinstance(y, Variable)
    ]
    call.outs = [i for i, y in enumerate(results) if made_since(start, y)]
    call.values = tuple([y.value for y in ys])
    call.specs = tuple([Spec(y.shape, y.dtype) for y in ys])
    for i, y in zip(call.outs, _record(call, tensors), strict=True):
        results[i] = y
    return shape.unflatten(results)


def _record(call: CheckpointedCall, tensors: Sequence[Any]) -> Sequence[Any]:
    """The differentiable results, as made by one op. Its inputs are the tensors among the
    arguments, the values that are kept, and stand-ins for what f reaches by itself."""
    kept = [] if call.keep is None else [variable(v) for v in call.keep.values]
    ys = apply(new_op(Recompute, call), *tensors, *kept, *stand_ins(call))
    if call.keep is not None:
        call.keep.values = []  # from now on the node keeps them
    return ys if len(call.outs) > 1 else [ys]
