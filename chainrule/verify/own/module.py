"""A module of chainrule's as a function of its parameters, too.

A module's tensors are given other values for the time of one call, and what the call changed in the
module (running statistics, counters) is put back: the module that was verified is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from chainrule.engine.graph import Variable
from chainrule.engine.tensors import Tensor
from chainrule.nn.base.module import Module
from chainrule.verify.own.call import Call, leaves_of, on_leaves, value_of
from chainrule.verify.streams import streams_drawn
from chainrule.verify.subject import Input
from chainrule.verify.user_code import argument_names, place_of


@contextmanager
def holding(module: Module, tensors: Sequence[Tensor], new: Sequence[Any]) -> Generator[None]:
    """Within it `tensors` of the module have the values and the nodes of `new`."""
    state = [(m, dict(vars(m))) for _, m in module.named_modules()]
    known = list(dict.fromkeys([*tensors, *[t for _, t in module.named_tensors()]]))
    kept = [(t, t.value, t.node) for t in known]
    try:
        for t, x in zip(tensors, new, strict=True):
            t.value, t.node = (x.value, x.node) if isinstance(x, Variable) else (x, None)
        yield
    finally:
        for m, attributes in state:
            vars(m).clear()
            vars(m).update(attributes)
        for t, value, node in kept:
            t.value, t.node = value, node


def subject_of_module(
    module: Module,
    run: Callable[..., Any],
    args: Sequence[Any],
    *,
    name: str | None = None,
    names: Sequence[str] | None = None,
    place: Any = None,
) -> Call:
    """`run(*args)`, which calls `module`, as a function of its arguments and parameters.

    Parameters have their names in the module; frozen ones are no inputs. `names` are those of the
    arguments, if they are not what `run` calls them.
    """
    parameters = list(module.named_parameters())
    owned = [Input(n, value_of(t), wanted=True) for n, t in parameters]
    shown = names or argument_names(run, len(args))
    given = _inputs(shown, args, bool(owned))
    of_arguments = on_leaves(run, args)
    tensors = [t for _, t in parameters]

    def flat(*xs: Any) -> list[Tensor]:
        count = len(given)
        with holding(module, tensors, xs[count:]):
            return of_arguments(*xs[:count])

    made = Call(
        name or type(module).__name__,
        (*given, *owned),
        flat,
        flat,
        kind="module",
        place=place or place_of(type(module).forward),
        held="its parameters have sizes of their own" if owned else "",
    )
    xs = [x.value for x in made.inputs]
    _, streams = streams_drawn(lambda: made.forward(xs), (run, module.forward))
    return replace(made, streams=streams)


def _inputs(names: Sequence[str], args: Sequence[Any], has_parameters: bool) -> tuple[Input, ...]:
    """The arguments' leaves as inputs; beside parameters none of them need be differentiable."""
    if not has_parameters:
        return leaves_of(names, args)
    anchor = Tensor(0.0)
    return leaves_of((*names, "anchor"), (*args, anchor))[:-1]
