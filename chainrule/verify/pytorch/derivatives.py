"""Derivatives of any order in the three ways in which PyTorch computes them.

A `Run` takes a flat list of arguments and gives a list of tensors. The derivative of a run, with
fixed cotangents or tangents, is a run again: its derivative is one order higher.

Cotangents reach PyTorch's engine just as they are, strides included. `torch.autograd.grad` takes
them, too, but loads a computer algebra system (two seconds) to compare their shapes. A scalar whose
backward is the cotangents does without.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd import forward_ad

_forward_ad: Any = forward_ad
Run = Callable[[Sequence[Any]], list[Tensor]]
Mode = Literal["reverse", "func", "forward", "dual"]
"""`reverse`: torch.autograd.grad. `func`: torch.func.vjp, which takes other ways inside some ops.
`forward`: torch.func.jvp. `dual`: the same by dual numbers, once only, which every `Function` with
a `jvp` understands."""


def derived(run: Run, wanted: Sequence[int], mode: Mode, order: int) -> Run:
    """The derivative of `run` of this order by the arguments `wanted`, along fixed directions."""
    for level in range(order):
        run = _STEPS[mode](run, wanted, level)
    return run


def pulled(
    run: Run,
    args: Sequence[Any],
    wanted: Sequence[int],
    mode: Mode,
    gs: Sequence[Tensor],
    hold: Callable[..., Any] | None = None,
) -> list[Tensor | None]:
    """J^T g of `run`, one for each of `wanted`; None where PyTorch says that there is no path.

    `hold` is how to run and differentiate in one (see `flat.Call`), for reverse mode.
    """
    if mode == "reverse":
        try:
            return _swept(gradients, run, args, wanted, gs, hold)
        except RuntimeError:  # A reentrant checkpoint refuses `torch.autograd.grad`.
            return _swept(accumulate, run, args, wanted, gs, hold)
    apply, xs = _at(run, args, wanted)
    if mode == "func":
        return list(_vjp(apply, xs)[1](tuple(gs)))
    sweep = _dual if mode == "dual" else _jvp
    return [_by_columns(sweep, apply, xs, i, gs) for i in range(len(xs))]


def _swept(
    sweep: Callable[..., list[Tensor | None]],
    run: Run,
    args: Sequence[Any],
    wanted: Sequence[int],
    gs: Sequence[Tensor],
    hold: Callable[..., Any] | None,
) -> list[Tensor | None]:
    """A run and one backward sweep."""
    wrt, full = _leaves(args, wanted)

    def back(ys: Sequence[Tensor]) -> list[Tensor | None]:
        return sweep(ys, gs, wrt)

    with torch.enable_grad():
        return back(run(full)) if hold is None else hold(full, back)


def _by_columns(
    sweep: Callable[..., Sequence[Tensor]],
    apply: Callable[..., Any],
    xs: list[Tensor],
    index: int,
    gs: Sequence[Tensor],
) -> Tensor:
    """J^T g from one forward sweep for each element of an input."""
    x = xs[index]
    x_bar = torch.zeros_like(x, memory_format=torch.contiguous_format)
    for j in range(x.numel()):
        ts = [torch.zeros_like(z, memory_format=torch.contiguous_format) for z in xs]
        ts[index].view(-1)[j] = 1
        dots = zip(gs, sweep(apply, xs, ts), strict=True)
        x_bar.view(-1)[j] = sum([(g.conj() * y).sum().real for g, y in dots])
    return x_bar


def _vjp(
    apply: Callable[..., Any], xs: Sequence[Tensor]
) -> tuple[Sequence[Tensor], Callable[..., Sequence[Tensor]]]:
    found: Any = torch.func.vjp(apply, *xs)
    return found[0], found[1]


def _jvp(apply: Callable[..., Any], xs: Sequence[Tensor], ts: Sequence[Tensor]) -> Sequence[Tensor]:
    with warnings.catch_warnings():  # PyTorch's own, when forward mode is first used
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.func.jvp(apply, tuple(xs), tuple(ts))[1]


def _dual(
    apply: Callable[..., Any], xs: Sequence[Tensor], ts: Sequence[Tensor]
) -> Sequence[Tensor]:
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        ys = apply(*[_forward_ad.make_dual(x, t) for x, t in zip(xs, ts, strict=True)])
        dots = [(y, _forward_ad.unpack_dual(y).tangent) for y in ys]
        return [torch.zeros_like(y) if t is None else t.clone() for y, t in dots]


def _at(
    run: Run, args: Sequence[Any], wanted: Sequence[int]
) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]:
    """`run` as a function of the wanted tensors alone, and these."""

    def apply(*xs: Tensor) -> tuple[Tensor, ...]:
        full = list(args)
        for i, x in zip(wanted, xs, strict=True):
            full[i] = x.clone()
        return tuple(run(full))

    return apply, [args[i] for i in wanted]


def _reverse(run: Run, wanted: Sequence[int], level: int) -> Run:
    def bars(args: Sequence[Any]) -> list[Tensor]:
        with torch.enable_grad():
            wrt, full = (
                _leaves(args, wanted)
                if not all(args[i].requires_grad for i in wanted)
                else ([args[i] for i in wanted], [_copies(x) for x in args])
            )
            ys = run(full)
            found = gradients(ys, _fixed(ys, level), wrt, create_graph=True)
        return [torch.zeros_like(x) if b is None else b for x, b in zip(wrt, found, strict=True)]

    return bars


def _func(run: Run, wanted: Sequence[int], level: int) -> Run:
    def bars(args: Sequence[Any]) -> list[Tensor]:
        apply, xs = _at(run, args, wanted)
        ys, back = _vjp(apply, xs)
        return list(back(tuple(_fixed(ys, level))))

    return bars


def _forward(run: Run, wanted: Sequence[int], level: int) -> Run:
    def dots(args: Sequence[Any]) -> list[Tensor]:
        apply, xs = _at(run, args, wanted)
        return list(_jvp(apply, xs, _fixed(xs, level)))

    return dots


_STEPS: dict[Mode, Callable[[Run, Sequence[int], int], Run]] = {  # `dual` does not nest
    "reverse": _reverse,
    "func": _func,
    "forward": _forward,
}


def _leaves(args: Sequence[Any], wanted: Sequence[int]) -> tuple[list[Tensor], list[Any]]:
    """Leaves of a graph, and the arguments made of them: copies, so that they may be changed."""
    made = [x.detach().requires_grad_() if i in wanted else x for i, x in enumerate(args)]
    return [made[i] for i in wanted], [_copies(x) for x in made]


def _copies(x: Any) -> Any:
    return x.clone() if isinstance(x, Tensor) else x


def _fixed(likes: Sequence[Tensor], level: int) -> list[Tensor]:
    """The directions of one order: the same at each call, for each dtype."""
    out: list[Tensor] = []
    for i, like in enumerate(likes):
        own = torch.Generator().manual_seed(1000 * (level + 1) + i)
        noise = torch.randn(like.shape, generator=own, dtype=torch.float64)
        out.append(noise.to(like.dtype))
    return out


class _Seed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gs: Sequence[Tensor], *ys: Tensor) -> Tensor:
        ctx.gs = gs
        ctx.set_materialize_grads(False)
        return torch.zeros((), dtype=torch.float64)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return (None, *ctx.gs)


_seed: Any = _Seed
_apply: Callable[..., Tensor] = _seed.apply


def gradients(
    ys: Sequence[Tensor],
    gs: Sequence[Tensor],
    wrt: Sequence[Tensor],
    *,
    create_graph: bool = False,
    retain_graph: bool = False,
) -> list[Tensor | None]:
    """x_bars of `wrt` for the cotangents gs of ys; None where no path leads to an x.

    Outputs without a graph are left out.
    """
    seed = _seed_of(ys, gs)
    if seed is None or not wrt:
        return [None] * len(wrt)
    return list(
        torch.autograd.grad(
            seed,
            list(wrt),
            create_graph=create_graph,
            retain_graph=retain_graph or create_graph,
            allow_unused=True,
        )
    )


def accumulate(
    ys: Sequence[Tensor], gs: Sequence[Tensor], wrt: Sequence[Tensor]
) -> list[Tensor | None]:
    """The same by `backward()`, left in the leaves `wrt`: what a reentrant checkpoint asks for."""
    seed = _seed_of(ys, gs)
    for x in wrt:
        x.grad = None
    if seed is not None:
        torch.autograd.backward(seed)
    return [x.grad for x in wrt]


def _seed_of(ys: Sequence[Tensor], gs: Sequence[Tensor]) -> Tensor | None:
    """A number whose backward hands the cotangents on; None if no output has a graph."""
    pairs = [(y, g.to(y.device)) for y, g in zip(ys, gs, strict=True) if y.requires_grad]
    for y, g in pairs:
        if y.shape != g.shape:
            raise RuntimeError(f"a cotangent of shape {tuple(g.shape)} for {tuple(y.shape)}")
    if not pairs:
        return None
    with torch.enable_grad():
        return _apply([g for _, g in pairs], *[y for y, _ in pairs])
