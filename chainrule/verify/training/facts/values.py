"""What the values of a tensor say: are they finite, and are they those that it was made with?

What was trained, loaded or copied has other ones, or was written to more often than once. Where a
number of elements tells too little, the answer is no.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.engine.op import Array


def is_finite(x: Any) -> bool:
    """Whether all elements of a tensor of PyTorch's are; True for those without floats or without
    numbers. As cheap as possible for that answer."""
    torch: Any = sys.modules["torch"]
    real = x.is_floating_point()
    if not (real or x.is_complex()) or x.layout is not torch.strided or x.is_meta:
        return True
    x = x.detach()
    if real:
        wide = torch.float32 if x.dtype.itemsize < 4 else None
        if math.isfinite(x.sum(dtype=wide).item()):
            return True
    return bool(torch.isfinite(x).all())  # a sum of finite numbers may overflow


def has_nan(x: Any) -> bool:
    """Whether any element of one is NaN."""
    torch: Any = sys.modules["torch"]
    if not x.is_floating_point() and not x.is_complex():
        return False
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return bool(torch.isnan(x).any())


def flat(arrays: Sequence[Array]) -> Array:
    """All numbers of some arrays in one row, as float64."""
    return np.concatenate([x.ravel() for x in arrays]).astype(np.float64)


def are_few(params: Sequence[Any], most: int) -> bool:
    """Whether parameters are real, their gradients dense, and all of them small enough to be
    copied: of `most` elements."""
    plain = not any(
        getattr(p.grad, "is_sparse", False) or "complex" in str(p.dtype) for p in params
    )
    return plain and sum([math.prod(p.shape) for p in params]) <= most


def describe(what: str, x: Any) -> str:
    """Shape, dtype, range of the finite numbers, how many are NaN or infinite.

    >>> import torch
    >>> describe("x", torch.tensor([1.0, float("nan")]))
    'x, float32 (2,): 1 of 2 are NaN, 0 infinite, the others from 1 to 1'
    """
    torch: Any = import_module("torch")
    with torch.no_grad(), torch._C.DisableTorchFunction():
        kind = f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"
        if x.is_complex():
            x = torch.view_as_real(x.detach().resolve_conj())
        x = x.detach().double()
        good = x[torch.isfinite(x)]
        nan, infinite = int(torch.isnan(x).sum()), int(torch.isinf(x).sum())
        span = f"from {float(good.min()):.4g} to {float(good.max()):.4g}" if good.numel() else ""
    if not nan + infinite:
        return f"{what}, {kind}: {span}" if span else f"{what}, {kind}"
    others = f", the others {span}" if span else ""
    return f"{what}, {kind}: {nan} of {x.numel()} are NaN, {infinite} infinite{others}"


_MOST = 4096
"""Elements that are looked at."""
_FEW = 32
"""Elements below which a distribution shows nothing."""
_WRITES = 2
"""Times that initialization writes: the layer's own, and one of the user's."""
_CHANCE = 1.95
"""Kolmogorov's distance times the root of the number: one sample in a thousand has more."""


def are_fresh(params: Sequence[Any]) -> bool:
    """Whether none was changed since it was made, as far as values and versions show."""
    sizes = [math.prod(p.shape) for p in params]
    drawn = [p for p, n in zip(params, sizes, strict=True) if n >= _FEW]
    return all(_is_fresh(p) for p in params) and bool(drawn or all(_is_constant(p) for p in params))


def _is_fresh(p: Any) -> bool:
    version = getattr(p, "_version", None)
    if version is None or version > _WRITES:
        return False
    v = _values(p)
    if _is_constant(p):
        return bool(v.size) and (v.size > 1 or v[0] in (0.0, 1.0))
    if v.size < _FEW:
        return version > 0
    top = float(np.max(np.abs(v)))
    uniform = version > 0 and _distance(v, (v / top + 1) / 2) < _CHANCE
    return uniform or _distance(v, _normal(v)) < _CHANCE


def _is_constant(p: Any) -> bool:
    v = _values(p)
    return bool(np.all(v == v[:1]))


def _values(p: Any) -> NDArray[np.float64]:
    """Elements of all of it, in equal steps."""
    flat = p.detach().reshape(-1)
    step = max(1, math.prod(p.shape) // _MOST)
    return np.asarray(flat[::step].double().cpu().numpy(), np.float64)


def _distance(v: NDArray[np.float64], at: NDArray[np.float64]) -> float:
    """Kolmogorov's distance of a sample to a distribution whose function has these values."""
    n = v.size
    level = np.sort(at)
    ranks = np.arange(n + 1) / n
    return float(np.sqrt(n) * max(np.max(ranks[1:] - level), np.max(level - ranks[:-1])))


def _normal(v: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in v.tolist()])
