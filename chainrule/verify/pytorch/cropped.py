"""A part of a large call, small enough to be looked at closely: the first elements along each axis.

Equal extents stay equal, so that shapes still fit where they did. Whether the part can be run at
all, only trying tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chainrule.verify.pytorch.convert import elements
from chainrule.verify.subject import Array, Subject, values
from chainrule.verify.tolerances import ROUGH

LARGE = 4_000
"""Numbers from which on a call is cropped."""
_KEPT = 5
_SIZES = (7, 5, 3, 11, 2, 13)


def crop(args: Sequence[Any], make: Callable[[Sequence[Any]], Subject]) -> Subject:
    """`make(args)`, or `make` of a part of large arguments, if that runs and the whole shows
    nothing that the part does not."""
    if elements(args) < LARGE:
        return make(args)
    whole = make(args)
    for sizes in _choices(args):
        part = _try(lambda sizes=sizes: make([_part(x, sizes) for x in args]))
        if part is not None:
            return part if _plausible(whole) or not _plausible(part) else whole
    return whole


def _choices(args: Sequence[Any]) -> list[dict[int, int]]:
    """Extents and what becomes of them: all large ones, or only the leading ones."""
    shapes = [x.shape for x in args if isinstance(x, Tensor)]
    every = list(dict.fromkeys([n for shape in shapes for n in shape if n > _KEPT]))
    leading = {shape[0] for shape in shapes if len(shape) > 1 and shape[0] > 2}
    used = {n for shape in shapes for n in shape if n <= _KEPT}
    free = [c for c in _SIZES if c not in used]
    smaller = {n: min(c, n) for n, c in zip(every, free, strict=False)}
    return [smaller, dict.fromkeys(leading, 2)]


def _part(x: Any, sizes: Mapping[int, int]) -> Any:
    if not isinstance(x, Tensor):
        return x
    out = x.detach()[tuple([slice(sizes.get(n, n)) for n in x.shape])].clone()
    if not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool) and out.numel():
        # Indices: into some axis that may be shorter now.
        axes = [c for n, c in sizes.items() if n > int(x.max())]
        out = torch.where(out >= 0, out % min(axes), out) if axes else out
    return out.requires_grad_(x.requires_grad)


def _try(make: Callable[[], Subject]) -> Subject | None:
    try:
        part = make()
        xs = values(part, np.float64)
        ys = part.forward(xs)
        part.pull(xs, [np.ones_like(y) for y in ys])
        usable = any(y.size for y in ys) and all(np.isfinite(y).all() for y in ys)
    except Exception:
        return None
    return part if usable else None


def _plausible(subject: Subject) -> bool:
    xs = values(subject, np.float64)
    try:
        return agrees(subject, lambda gs: subject.pull(xs, gs), xs)
    except Exception:
        return False


_STEP = 1e-5


def agrees(
    subject: Subject, pull: Callable[[Sequence[Array]], Sequence[Array | None]], xs: Sequence[Any]
) -> bool:
    """Whether `pull` gives the gradient of the subject's forward at xs (float64), in one direction
    for each input. Quick and rough: to choose by, not to judge by."""
    draw = np.random.default_rng(7)
    ys = subject.forward(xs)
    gs = [_noise(draw, y) for y in ys]
    x_bars = pull(gs)
    for i, x_bar in enumerate(x_bars):
        if x_bar is None or not x_bar.size:
            continue
        t = _noise(draw, xs[i])
        h = _STEP * max(1e-3, float(np.abs(xs[i]).mean()))
        high, low = [subject.forward([*xs[:i], xs[i] + s * h * t, *xs[i + 1 :]]) for s in (1, -1)]
        rates = [_inner(g, (a - b) / (2 * h)) for g, a, b in zip(gs, high, low, strict=True)]
        size = sum([float(np.abs(g * y).sum()) for g, y in zip(gs, ys, strict=True)])
        noise = 10 * float(np.finfo(float).eps) * size / h
        numeric, analytic = sum(rates), _inner(x_bar, t)
        if not abs(numeric - analytic) <= ROUGH * max(abs(numeric), abs(analytic)) + noise:
            return False
    return True


def _noise(draw: np.random.Generator, like: Array) -> Array:
    real = draw.normal(size=like.shape)
    return real + 1j * draw.normal(size=like.shape) if like.dtype.kind == "c" else real


def _inner(a: Array, b: Array) -> float:
    return float(np.vdot(a, b).real)
