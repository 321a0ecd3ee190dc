"""Any function of tensors, or a module, with PyTorch's own derivative of it, as a subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from chainrule.errors import ConfigError
from chainrule.verify.place import Place
from chainrule.verify.pytorch.convert import Array, is_float, plain, tensor_like, to_numpy, to_torch
from chainrule.verify.pytorch.derivatives import Mode, Run, derived, pulled
from chainrule.verify.pytorch.flow import traced
from chainrule.verify.pytorch.parameters import argument_names
from chainrule.verify.pytorch.places import defined
from chainrule.verify.pytorch.replays import Replay
from chainrule.verify.pytorch.widened import widest
from chainrule.verify.subject import Flow, Input, Subject

COLUMNS = 400
"""Forward mode takes one sweep for each number that goes in: at most so many."""


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


def call_of(
    f: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
) -> Call:
    """`f(*args, **kwargs)`. Tensors may stand inside lists, tuples and dicts."""
    flat, names, spec = _flat(f, args, kwargs)

    def run(xs: Sequence[Any]) -> list[Tensor]:
        given: Any = pytree.tree_unflatten(list(xs), spec)
        return floats_in(f(*given[0], **given[1]))

    shown = name or getattr(f, "__name__", type(f).__name__)
    return Call(shown, "PyTorch function", run, tuple(names), tuple(flat), defined(f))


def _flat(
    f: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> tuple[list[Any], list[str], Any]:
    """Arguments without their structure, their names, the structure."""
    named = dict(kwargs or {})
    flat, spec = pytree.tree_flatten((tuple(args), named))
    top = [*zip(argument_names(f, len(args)), args, strict=True), *named.items()]
    return flat, [n for name, x in top for n in _inner_names(name, x)], spec


def _inner_names(name: str, x: Any) -> list[str]:
    paths = [p for p, _ in pytree.tree_flatten_with_path(x)[0]]
    return [name + pytree.keystr(p) for p in paths]


def floats_in(ys: Any) -> list[Tensor]:
    """The tensors of float or complex dtype among results of any structure."""
    return [y for y in pytree.tree_leaves(ys) if is_float(y)]


def subject_of_call(
    f: Any, args: Sequence[Any], *, order: int = 1, mode: Mode = "reverse", name: str | None = None
) -> Subject:
    """`f(*args)` and PyTorch's derivative of it of order `order`.

    Order k compares the derivative of order k with differences of the one of order k - 1, so that
    the first order that is wrong is the one that is blamed. `mode` says which of PyTorch's ways is
    taken: "reverse" (autograd.grad), "func" (torch.func.vjp), "forward" (torch.func.jvp, nested).
    A gradient is expected for the float tensors that require one; if none does, for all.

    Raises `ConfigError` if there is nothing to differentiate, or too much for forward mode.
    """
    call = module_call(f, args) if isinstance(f, torch.nn.Module) else call_of(f, args)
    return CallSubject(replace(call, name=name or call.name), order, mode)


def subjects_of_call(f: Any, args: Sequence[Any], *, order: int = 1) -> list[Subject]:
    """All orders up to `order`, by autograd; then by `torch.func`, in reverse and, for small
    arguments, in forward mode. The one that should be read first comes first."""
    call = module_call(f, args) if isinstance(f, torch.nn.Module) else call_of(f, args)
    call = replace(call, replay=Replay.of(call.args))
    first = CallSubject(call, 1, "reverse")
    count = sum([x.value.size for x in first.inputs if x.wanted])
    real = not any(x.wanted and x.value.dtype.kind == "c" for x in first.inputs)
    modes: list[Mode] = ["reverse"]
    if not isinstance(f, torch.nn.Module):  # whose hooks are there for autograd
        modes.append("func")
        if real and count <= COLUMNS:
            modes.append("forward")
    return [CallSubject(call, k, mode) for mode in modes for k in range(1, order + 1)]


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

    def run(xs: Sequence[Any]) -> list[Tensor]:
        state = dict(zip(own, xs[len(flat) :], strict=True))
        state.update(_buffers(module, widest(xs)))
        given: Any = pytree.tree_unflatten(list(xs[: len(flat)]), spec)
        return floats_in(torch.func.functional_call(module, state, given[0], given[1]))

    return Call(
        name or type(module).__name__,
        "torch.nn.Module",
        run,
        (*names, *own),
        (*flat, *own.values()),
        defined(type(module).forward),
        "its parameters have sizes of their own" if own else "",
    )


def _buffers(module: torch.nn.Module, dtype: torch.dtype | None) -> dict[str, Tensor]:
    wide = dtype in (torch.float64, torch.complex128)
    copies = {k: x.detach().clone() for k, x in module.named_buffers()}
    return {k: x.double() if wide and x.is_floating_point() else x for k, x in copies.items()}


class CallSubject(Subject):
    """A call with one of PyTorch's derivatives of it. See `subject_of_call`."""

    def __init__(self, call: Call, order: int, mode: Mode) -> None:
        self.call, self.order = call, order
        self.mode: Mode = mode
        self._replay = call.replay or Replay.of(call.args)
        self.name = call.name + _suffix(order, mode)
        self.kind = call.kind if order == 1 and mode == "reverse" else "derivative in PyTorch"
        self.place = call.place
        chosen = _chosen(call)
        self.inputs = tuple(
            [Input(n, plain(x), w) for n, x, w in zip(call.names, call.args, chosen, strict=True)]
        )
        self._wanted = [i for i, w in enumerate(chosen) if w]
        count = sum([call.args[i].numel() for i in self._wanted])
        if mode == "forward" and count > COLUMNS:
            raise ConfigError(
                f"{call.name}: forward mode is verified by one sweep for each of {count} numbers, "
                f"at most {COLUMNS}: give smaller arguments"
            )
        self._run = derived(call.run, self._wanted, mode, order - 1)

    @property
    def fixed(self) -> str:
        """Why no other shapes are tried."""
        return self.call.fixed

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The derivative of the order below (the function itself for order 1)."""
        args = self._tensors(xs)
        with torch.set_grad_enabled(self.order > 1), self._replay.running(args):
            ys = self._run(args)
        return tuple([to_numpy(y) for y in ys])

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """PyTorch's derivative."""
        args, given = self._tensors(xs), [to_torch(g) for g in gs]
        with self._replay.running(args):
            found = pulled(self._run, args, self._wanted, self.mode, given)
        out: list[Array | None] = [None] * len(xs)
        for i, b in zip(self._wanted, found, strict=True):
            out[i] = None if b is None else to_numpy(b)
        return tuple(out)

    def flow(self, xs: Sequence[Any]) -> Flow | None:
        """The function as a graph of PyTorch's ops; only for the first order."""
        if self.order > 1:
            return None
        return traced(self, self._run, self._tensors(xs), self._replay)

    def _tensors(self, xs: Sequence[Any]) -> list[Any]:
        return [tensor_like(x, like) for x, like in zip(xs, self.call.args, strict=True)]


def _chosen(call: Call) -> list[bool]:
    floats = [is_float(x) for x in call.args]
    if not any(floats):
        raise ConfigError(
            f"{call.name}: no float or complex tensor among its arguments: nothing to differentiate"
        )
    required = [f and bool(x.requires_grad) for f, x in zip(floats, call.args, strict=True)]
    return required if any(required) else floats


def _suffix(order: int, mode: Mode) -> str:
    way = {"reverse": "", "func": " by torch.func", "forward": " in forward mode"}[mode]
    return (f", derivative of order {order}" if order > 1 or way else "") + way
