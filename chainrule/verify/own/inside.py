"""User-defined ops that run inside a function: each is verified by itself, on what it was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chainrule.function import Call as UserCall
from chainrule.graph import Variable, apply, interposed
from chainrule.op import Op
from chainrule.verify.own.call import Call
from chainrule.verify.own.function import subjects_of_function
from chainrule.verify.subject import Subject, values


def functions_in(call: Call) -> list[Subject]:
    """A subject for each distinct `Function` that ran in `call`, in order."""
    found: dict[Any, tuple[Any, list[Any]]] = {}

    def look(op: Op, xs: Sequence[Any]) -> Any:
        if isinstance(op, UserCall):
            args = list(op.static)
            arrays = [x.value if isinstance(x, Variable) else x for x in xs]
            for place, x in zip(op.places, arrays, strict=True):
                args[place] = x
            key = (op.function, repr(op.static), tuple([(x.shape, x.dtype) for x in arrays]))
            found.setdefault(key, (op.function, args))
        return apply(op, *xs)

    with interposed(look):
        call.run(values(call))
    return [s for f, args in found.values() for s in subjects_of_function(f, args)]
