"""Something that can be run on a flat list of arguments: a function, a module, or either seen along
one fixed direction for each of its arguments.

f(p_1, ..., p_n) becomes F(c) = f(p_1 + c_1 d_1, ..., p_n + c_n d_n) at c = 0: dF/dc_k is the inner
product of the k-th gradient with d_k, so that one vector of n numbers stands for all parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from chainrule.errors import ConfigError
from chainrule.verify.place import Place
from chainrule.verify.pytorch.convert import is_float
from chainrule.verify.pytorch.derivatives import Run
from chainrule.verify.pytorch.float64_code import widest
from chainrule.verify.pytorch.intended_gradients import steady
from chainrule.verify.pytorch.replays import Replay
from chainrule.verify.pytorch.sources import saves_of
from chainrule.verify.user_code import argument_names, place_of

Hold = Callable[[Sequence[Any], Callable[[list[Tensor]], Any]], Any]
_REFUSALS = ("not differentiable with respect to", "derivative for")


@dataclass(frozen=True, eq=False)
class Call:
    """Something that can be run on a flat list of arguments."""

    name: str
    kind: str
    run: Run
    names: tuple[str, ...]
    args: tuple[Any, ...]
    place: Place | None = None
    fixed: str = ""
    replay: Replay | None = None
    backward_place: Place | None = None
    function: type[torch.autograd.Function] | None = None
    """The user's `Function` whose `apply` is called, if that is all."""
    hold: Hold | None = None
    """How to run and go on while parameters are still those of the run: `hold(xs, then)` gives
    `then(ys)`. A checkpointed forward is run again in the midst of the backward."""


def call_of(
    f: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
) -> Call:
    """`f(*args, **kwargs)`. Tensors may stand inside lists, tuples and dicts."""
    function = _function_of(f)
    stated = f if function is None else function.forward
    flat, names, spec = _flat(stated, args, kwargs, skip=_given(function))

    def run(xs: Sequence[Any]) -> list[Tensor]:
        given: Any = pytree.tree_unflatten(list(xs), spec)
        return floats_in(f(*given[0], **given[1]))

    shown = name or getattr(function or f, "__name__", type(f).__name__)
    kind, place = "PyTorch function", place_of(stated)
    return Call(shown, kind, run, tuple(names), tuple(flat), place, function=function)


def _function_of(f: Any) -> type[torch.autograd.Function] | None:
    """The `Function` whose `apply` f is."""
    owner: Any = getattr(f, "__self__", None)
    if not isinstance(owner, type) or not issubclass(owner, torch.autograd.Function):
        return None
    return owner if getattr(f, "__name__", "") == "apply" else None


def _given(function: type[torch.autograd.Function] | None) -> int:
    """How many parameters of its forward are not its arguments."""
    return 0 if function is None or saves_of(function) == "setup_context" else 1


def _flat(
    f: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, *, skip: int = 0
) -> tuple[list[Any], list[str], Any]:
    """Arguments without their structure, their names, the structure."""
    named = dict(kwargs or {})
    flat, spec = pytree.tree_flatten((tuple(args), named))
    top = [*zip(argument_names(f, len(args), skip=skip), args, strict=True), *named.items()]
    return flat, [n for name, x in top for n in _inner_names(name, x)], spec


def _inner_names(name: str, x: Any) -> list[str]:
    paths = [p for p, _ in pytree.tree_flatten_with_path(x)[0]]
    return [name + pytree.keystr(p) for p in paths]


def floats_in(ys: Any) -> list[Tensor]:
    """The tensors of float or complex dtype among results of any structure."""
    return [y for y in pytree.tree_leaves(ys) if is_float(y)]


def module_call(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
) -> Call:
    """`module(*args, **kwargs)` as a function of its parameters, too: arguments by name.

    Buffers are copies at each run, so that running statistics stay what they are.
    """
    own = dict(module.named_parameters())
    flat, names, spec = _flat(module.forward, args, kwargs)
    held = _BorrowedModule(module)

    def hold(xs: Sequence[Any], then: Callable[[list[Tensor]], Any]) -> Any:
        state = dict(zip(own, xs[len(flat) :], strict=True))
        state.update(_buffers(module, widest(xs)))
        given: Any = pytree.tree_unflatten(list(xs[: len(flat)]), spec)
        prefixed = {f"module.{name}": x for name, x in state.items()}
        with steady(module):
            return torch.func.functional_call(held, prefixed, (then, *given))

    return Call(
        name or type(module).__name__,
        "torch.nn.Module",
        lambda xs: hold(xs, lambda ys: ys),
        (*names, *own),
        (*flat, *own.values()),
        place_of(type(module).forward),
        "its parameters have sizes of their own" if own else "",
        backward_place=_hook_place(module),
        hold=hold,
    )


class _BorrowedModule(torch.nn.Module):
    """A module, and what is to be done with its results before its parameters are its own again."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, then: Callable[[list[Tensor]], Any], args: Any, kwargs: Any) -> Any:
        """then(the floats that the module gives)."""
        return then(floats_in(self.module(*args, **kwargs)))


def _hook_place(module: torch.nn.Module) -> Place | None:
    """Where a hook is defined that may change gradients at this module."""
    own: Any = module
    hooks = [*own._backward_hooks.values(), *own._backward_pre_hooks.values()]
    places = [place for place in map(place_of, hooks) if place is not None]
    return places[0] if places else None


def _buffers(module: torch.nn.Module, dtype: torch.dtype | None) -> dict[str, Tensor]:
    wide = dtype in (torch.float64, torch.complex128)
    copies = {k: x.detach().clone() for k, x in module.named_buffers()}
    return {k: x.double() if wide and x.is_floating_point() else x for k, x in copies.items()}


def wanted_arguments(call: Call) -> list[bool]:
    """For which arguments a gradient is expected: float tensors that require one, or all of them
    that PyTorch can differentiate by.

    Raises `ConfigError` if there is none.
    """
    floats = [is_float(x) for x in call.args]
    if not any(floats):
        raise ConfigError(
            f"{call.name}: no float or complex tensor among its arguments: nothing to differentiate"
        )
    required = [f and bool(x.requires_grad) for f, x in zip(floats, call.args, strict=True)]
    if any(required):
        return required
    if not _refused(call, floats):
        return floats
    alone = [[i == j for j in range(len(floats))] for i in range(len(floats))]
    return [f and not _refused(call, one) for f, one in zip(floats, alone, strict=True)]


def _refused(call: Call, wanted: Sequence[bool]) -> bool:
    """Whether PyTorch says that it does not differentiate by these arguments."""
    args = [
        (x.detach().clone().requires_grad_(w).clone() if isinstance(x, Tensor) else x)
        for x, w in zip(call.args, wanted, strict=True)
    ]
    replay = call.replay or Replay.of(args)
    try:
        with torch.enable_grad(), replay.running(args):
            call.run(args)
    except RuntimeError as error:
        return any(word in str(error) for word in _REFUSALS)
    return False


NAME = "parameters"


def coefficients_call(call: Call, moved: Sequence[int], *, each: int = 1, name: str = NAME) -> Call:
    """`call` as a function of `each` coefficients for each of its arguments `moved`.

    Directions are random, as large as what they are added to, and made anew at each run.
    """
    kept = [x.detach() if isinstance(x, Tensor) else x for x in call.args]
    sizes = [_size(kept[i]) for i in moved]
    dtype = kept[moved[0]].dtype

    held: Any = call.hold

    def moved_by(c: Tensor) -> list[Any]:
        args = [x.to(_wider(x, c)) if is_float(x) else x for x in kept]
        for k, (i, size) in enumerate(zip(moved, sizes, strict=True)):
            x, own = args[i], c[k * each : (k + 1) * each]
            step = own.to(x.dtype) @ _directions(x, each, k, size)
            args[i] = x + step.reshape(x.shape)
        return args

    def hold(xs: Sequence[Any], then: Callable[[list[Tensor]], Any]) -> Any:
        return held(moved_by(xs[0]), then)

    real = torch.float32 if dtype == torch.complex64 else dtype
    c = torch.zeros(len(moved) * each, dtype=torch.float64 if real.is_complex else real)

    def run(xs: Sequence[Any]) -> list[Tensor]:
        return call.run(moved_by(xs[0]))

    return replace(
        call,
        run=run,
        names=(name,),
        args=(c.requires_grad_(),),
        fixed="one for each",
        hold=None if held is None else hold,
    )


def _wider(x: Tensor, c: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, c.dtype)


def _size(x: Tensor) -> float:
    """Root mean square, 1 for what is zero."""
    return float(x.abs().square().mean().sqrt()) or 1.0


def _directions(like: Tensor, count: int, number: int, size: float) -> Tensor:
    """`(count, like.numel())`"""
    own = torch.Generator().manual_seed(number)
    noise = torch.randn((count, like.numel()), generator=own, dtype=torch.float32)
    return noise.to(like.dtype) * size
