"""What is verified of a `torch.autograd.Function`: its backward, and its `jvp` if it has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from chainrule.errors import ConfigError
from chainrule.verify.pytorch.calls import COLUMNS, CallSubject, subject_of_call
from chainrule.verify.pytorch.flat_arguments import call_of, coefficients_call
from chainrule.verify.pytorch.function_subject import KIND, FunctionSubject
from chainrule.verify.pytorch.replays import Replay
from chainrule.verify.pytorch.sources import states
from chainrule.verify.subject import Subject
from chainrule.verify.user_code import place_of


def subject_of_function(
    function: Any,
    args: Sequence[Any],
    *,
    name: str | None = None,
    backward: Callable[..., Any] | None = None,
) -> Subject:
    """`function`, a subclass of `torch.autograd.Function`, at the arguments of one `apply`.

    A gradient is expected for the float and complex tensors that require one. If none does, for
    all of them. A tensor that requires none is looked at as well if the backward gives it a
    gradient. Arguments are copied, never written to. `backward` replaces the function's own.
    A class of modules is built without arguments and verified as a function of its parameters.

    Raises `ConfigError` for anything that is not such a class, or a class without a backward.
    """
    if isinstance(function, type) and issubclass(function, torch.nn.Module):
        return subject_of_call(function(), args, name=name)
    if not (isinstance(function, type) and issubclass(function, torch.autograd.Function)):
        raise ConfigError(
            f"{function!r} is no subclass of torch.autograd.Function: give the class itself, "
            f"and the arguments of its apply"
        )
    return FunctionSubject(function, args, name=name, backward=backward)


def subjects_of_function(
    function: Any, args: Sequence[Any], *, name: str | None = None
) -> list[Subject]:
    """The function with its backward, and, if it states a `jvp`, with that."""
    own = subject_of_function(function, args, name=name)
    if not isinstance(own, FunctionSubject) or not states(function, "jvp"):
        return [own]
    call = call_of(function.apply, args, name=own.name)
    names = tuple([x.name for x in own.inputs])
    wanted = [i for i, x in enumerate(own.inputs) if x.wanted]
    call = replace(
        call,
        kind=KIND,
        place=own.place,
        backward_place=place_of(function.jvp),
        replay=Replay.of(args),
        names=names if len(names) == len(call.names) else call.names,
        args=tuple([_requiring(x, i in wanted) for i, x in enumerate(call.args)]),
    )
    if sum([call.args[i].numel() for i in wanted]) > COLUMNS:
        call = coefficients_call(call, wanted, each=2, name="directions")
    return [own, CallSubject(call, 1, "dual")]


def _requiring(x: Any, wanted: bool) -> Any:
    return x.detach().requires_grad_(wanted) if isinstance(x, Tensor) else x
