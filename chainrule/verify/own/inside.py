"""User-defined ops that run inside a function: each is verified by itself, on what it was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.engine.function import Call as UserCall
from chainrule.engine.graph import Variable, apply, intercept_ops
from chainrule.engine.op import Op
from chainrule.verify.own.call import Call, flows
from chainrule.verify.own.function import subjects_of_function
from chainrule.verify.subject import Subject, values


def functions_in(call: Call) -> list[Subject]:
    """A subject for each distinct `Function` that ran in `call`, in order."""
    found: dict[Any, tuple[Any, list[Any], tuple[bool, ...]]] = {}

    def look(op: Op, xs: Sequence[Any]) -> Any:
        if isinstance(op, UserCall):
            args, needs = arguments(op, xs)
            shapes = tuple([(args[i].shape, args[i].dtype) for i in op.tensor_positions])
            key = (op.function, repr(op.static), shapes, needs)
            found.setdefault(key, (op.function, args, needs))
        return apply(op, *xs)

    with intercept_ops(look):
        call.run(values(call))
    return [
        s for f, args, needs in found.values() for s in subjects_of_function(f, args, needs=needs)
    ]


def arguments(op: UserCall, xs: Sequence[Any]) -> tuple[list[Any], tuple[bool, ...]]:
    """What a `Function` was applied to, and which of its arguments needed gradients."""
    args, needs = list(op.static), [False] * len(op.static)
    for i, x in zip(op.tensor_positions, xs, strict=True):
        args[i] = x.value if isinstance(x, Variable) else x
        needs[i] = flows(x)
    return args, tuple(needs)
