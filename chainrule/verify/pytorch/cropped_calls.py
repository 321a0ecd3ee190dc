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

from chainrule.verify.evidence import Evidence
from chainrule.verify.measure.noise import base_at
from chainrule.verify.measure.probes import probe
from chainrule.verify.measure.run import Point, Run
from chainrule.verify.pytorch.convert import elements
from chainrule.verify.subject import Subject, values

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
            return part if _is_right(whole) or not _is_right(part) else whole
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


def _is_right(subject: Subject) -> bool:
    try:
        return is_plausible(subject)
    except Exception:
        return False


def is_plausible(subject: Subject) -> bool:
    """Whether a first look at the point finds no wrong gradient: to choose by, not to judge by."""
    run = Run(subject, Evidence(subject))
    point = Point("as captured", values(subject, np.float64), "captured")
    return not probe(run, base_at(run, point), thorough=False).wrong
