"""Weights that are computed from others at each use: `weight_norm`, `spectral_norm`.

The module's class becomes a class of its own whose weight is a property; what it is computed from
stands under `parametrizations`, with the names that PyTorch's `nn.utils.parametrizations` give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from chainrule.engine.graph import apply, variable
from chainrule.engine.op import Detach
from chainrule.errors import ConfigError
from chainrule.nn.base.module import Module
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import matmul
from chainrule.ops.reductions import reduction as red
from chainrule.ops.reductions.distances import normalize
from chainrule.ops.shapes.shaping import moveaxis, normalize_axis, reshape
from chainrule.random import Generator, default_generator

M = TypeVar("M", bound=Module)


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """The parameter as a length g times a direction v / |v|, for each index of `dim` (None: one).

    The module itself, changed. g is `parametrizations.weight.original0`, v `original1`. Salimans &
    Kingma 2016, arXiv:1602.07868.

    >>> layer = nn.weight_norm(nn.Linear(3, 2))
    >>> layer(cr.ones((4, 3))).shape
    (4, 2)
    """
    weight = _weight("weight_norm", module, name)
    v = weight.detach().requires_grad_()
    parts = {"original0": _norm(v.detach(), dim).requires_grad_(), "original1": v}

    def compute(parts: Any) -> Any:
        g, v = parts["original0"], parts["original1"]
        return v * (g / _norm(v, dim))

    return _replace_by_property(module, name, parts, compute)


def _norm(v: Any, dim: int | None) -> Any:
    """The length of v for each index of `dim`, which keeps its axis."""
    if dim is None:
        return ew.sqrt(red.sum(v * v))
    axis = normalize_axis(dim, v.ndim)
    others = tuple([a for a in range(v.ndim) if a != axis])
    return ew.sqrt(red.sum(v * v, axis=others, keepdims=True))


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
    *,
    generator: Generator | None = None,
) -> M:
    """The parameter divided by its largest singular value, as a matrix whose rows are along `dim`.

    The module itself, changed. In training each call makes `n_power_iterations` steps towards that
    value; in use it is that of the latest. Miyato et al. 2018, arXiv:1802.05957, algorithm 1.

    >>> layer = nn.spectral_norm(nn.Linear(3, 2))
    >>> layer(cr.ones((4, 3))).shape
    (4, 2)
    """
    weight = _weight("spectral_norm", module, name)
    if type(n_power_iterations) is not int or n_power_iterations < 1:
        raise ConfigError(
            f"spectral_norm: n_power_iterations is a positive integer, not {n_power_iterations!r}"
        )
    if weight.ndim == 0:
        raise ConfigError("spectral_norm: the weight has at least one axis")
    axis = 1 if dim is None and type(module).__name__.startswith("ConvTranspose") else dim or 0
    vectors = _singular_vectors(_matrix(weight.detach(), axis), eps, generator)

    def follow(module: Any, _: Any) -> None:
        parts = cast(Any, vars(module)["parametrizations"][name])
        matrix = _matrix(apply(Detach(), parts["original"]), axis)
        for _ in range(n_power_iterations if module.training else 0):
            _iterate(matrix, parts["0"], eps)

    def compute(parts: Any) -> Any:
        w = parts["original"]
        if w.ndim == 1:
            return normalize(w, axis=0, eps=eps)
        matrix = _matrix(w, axis)
        u, v = parts["0"]["_u"].detach(), parts["0"]["_v"].detach()
        return w / red.sum(u * matmul(matrix, v))

    parts = {"original": weight.detach().requires_grad_()}
    more = {"0": vectors} if weight.ndim > 1 else {}
    if more:  # before a call, not in it: whoever looks at the weight changes nothing
        module.register_forward_pre_hook(follow)
    return _replace_by_property(module, name, {**parts, **more}, compute)


def _matrix(w: Any, axis: int) -> Any:
    """The weight as a matrix, whose rows are along `axis`."""
    return reshape(moveaxis(w, axis, 0), (w.shape[axis], -1))


def _singular_vectors(matrix: Any, eps: float, generator: Generator | None) -> dict[str, Any]:
    """The singular vectors of the largest singular value, nearly, from random ones."""
    draw = generator or default_generator
    vectors = {
        name: normalize(draw.normal((n,), dtype=matrix.dtype), axis=0, eps=eps)
        for name, n in zip(("_u", "_v"), matrix.shape, strict=True)
    }
    for _ in range(15):
        _iterate(matrix, vectors, eps)
    return vectors


def _iterate(matrix: Any, vectors: Any, eps: float) -> None:
    """One step of the power iteration: both vectors come nearer to the singular ones."""
    u = normalize(matmul(matrix, vectors["_v"].detach()), axis=0, eps=eps)
    v = normalize(matmul(u, matrix), axis=0, eps=eps)
    vectors["_u"].data, vectors["_v"].data = u, v


def _weight(what: str, module: Module, name: str) -> Any:
    weight = vars(module).get(name)
    if not isinstance(weight, type(variable(np.zeros(1)))):
        raise ConfigError(f"{what}: {type(module).__name__} has no parameter '{name}'")
    return weight


def _replace_by_property(
    module: M, name: str, parts: dict[str, Any], computed: Callable[[Any], Any]
) -> M:
    """The module with a property in the place of an attribute."""
    every = vars(module).setdefault("parametrizations", {})
    every[name] = parts
    delattr(module, name)

    def value(self: Module) -> Any:
        return computed(vars(self)["parametrizations"][name])

    cls = type(module)
    new = type(cls.__name__, (cls,), {name: property(value), "__module__": cls.__module__})
    object.__setattr__(module, "__class__", new)
    return module
