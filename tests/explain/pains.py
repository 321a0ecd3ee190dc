"""The points where other frameworks answer NaN, as programs: ours and PyTorch's.

Each row of docs/pains.md by its first column. JAX is not installed here; its column was measured
with the same programs in its own words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import chainrule as cr
from chainrule.ops.special import table as special

Program = Callable[[], Any]
INF = math.inf


def _a(*values: float) -> Any:
    return cr.tensor(np.array(values, np.float64))


def _t(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float64)


def _torch_grad(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def gradient(x: Any) -> Any:
        x = x.clone().requires_grad_()
        return torch.autograd.grad(f(x), x)[0]

    return gradient


_hess = torch.autograd.functional.hessian
_eye = torch.eye(2, dtype=torch.float64) * 2


def _ours(f: Callable[[Any], Any], *at: float, hessian: bool = False) -> Program:
    return lambda: (cr.hessian if hessian else cr.grad)(f)(_a(*at))


def _theirs(f: Callable[[Any], Any], *at: float, hessian: bool = False) -> Program:
    return lambda: _hess(f, _t(*at)) if hessian else _torch_grad(f)(_t(*at))


def _spectral(m: Any, eigh: Any, exp: Any) -> Any:
    w, v = eigh(m)
    return ((v * exp(w)) @ v.mT).sum()


PAINS: dict[str, tuple[Program, Program]] = {
    "`where(x > 0, sqrt(x), 0)`": (
        _ours(lambda x: cr.where(x > 0, cr.sqrt(x), 0.0).sum(), 0, 4),
        _theirs(lambda x: torch.where(x > 0, torch.sqrt(x), 0.0).sum(), 0, 4),
    ),
    "`norm(x)`": (
        _ours(cr.norm, 0, 0),
        _theirs(torch.linalg.vector_norm, 0, 0),
    ),
    "`norm(x)`, second derivative": (
        _ours(cr.norm, 0, 0, hessian=True),
        _theirs(torch.linalg.vector_norm, 0, 0, hessian=True),
    ),
    "`prod(x)`": (_ours(cr.prod, 0, 2, 3), _theirs(torch.prod, 0, 2, 3)),
    "`prod(x)`, second derivative": (
        _ours(cr.prod, 0, 0, 3, hessian=True),
        _theirs(torch.prod, 0, 0, 3, hessian=True),
    ),
    "`sum(cumprod(x))`": (
        _ours(lambda x: cr.cumprod(x).sum(), 2, 0, 3),
        _theirs(lambda x: torch.cumprod(x, 0).sum(), 2, 0, 3),
    ),
    "`sum(cumprod(x))`, second derivative": (
        _ours(lambda x: cr.cumprod(x).sum(), 2, 0, 3, hessian=True),
        _theirs(lambda x: torch.cumprod(x, 0).sum(), 2, 0, 3, hessian=True),
    ),
    "`std(x)`": (
        _ours(cr.std, 2, 2, 2),
        _theirs(lambda x: torch.std(x, correction=0), 2, 2, 2),
    ),
    "`logsumexp(x)`": (
        _ours(cr.logsumexp, -INF, -INF),
        _theirs(lambda x: torch.logsumexp(x, 0), -INF, -INF),
    ),
    "`sum(softmax(x) * [1, 2])`": (
        _ours(lambda x: (cr.softmax(x) * _a(1, 2)).sum(), -INF, -INF),
        _theirs(lambda x: (torch.softmax(x, 0) * _t(1, 2)).sum(), -INF, -INF),
    ),
    "`where(p > 0, p * log(p), 0)`": (
        _ours(lambda p: cr.where(p > 0, p * cr.log(p), 0.0).sum(), 0, 1),
        _theirs(lambda p: torch.where(p > 0, p * torch.log(p), 0.0).sum(), 0, 1),
    ),
    "`where(p > 0, xlogy(p, p), 0)`": (
        _ours(lambda p: cr.where(p > 0, special.xlogy(p, p), 0.0).sum(), 0, 1),
        _theirs(lambda p: torch.where(p > 0, torch.xlogy(p, p), 0.0).sum(), 0, 1),
    ),
    "`atan2(a, b)`": (
        _ours(lambda x: cr.atan2(x[0], x[1]), 0, 0),
        _theirs(lambda x: torch.atan2(x[0], x[1]), 0, 0),
    ),
    "`pow(a, b)`": (
        _ours(lambda x: x[0] ** x[1], 0, 0),
        _theirs(lambda x: x[0] ** x[1], 0, 0),
    ),
    "`sqrt(x) * 0`": (
        _ours(lambda x: (cr.sqrt(x) * 0.0).sum(), 0),
        _theirs(lambda x: (torch.sqrt(x) * 0.0).sum(), 0),
    ),
    "`abs(x)`": (
        _ours(lambda x: cr.abs(x).sum(), 0),
        _theirs(lambda x: torch.abs(x).sum(), 0),
    ),
    "`max(x)`, a tie": (_ours(cr.max, 3, 3, 1), _theirs(torch.max, 3, 3, 1)),
    "`hypot(a, b)`": (
        _ours(lambda x: cr.hypot(x[0], x[1]), 0, 0),
        _theirs(lambda x: torch.hypot(x[0], x[1]), 0, 0),
    ),
    "`clip(x, 0, 1)`": (
        _ours(lambda x: cr.clip(x, 0.0, 1.0).sum(), 0, 0.5, 1),
        _theirs(lambda x: torch.clip(x, 0.0, 1.0).sum(), 0, 0.5, 1),
    ),
    "`sum(eigvalsh(m)**2)`": (
        lambda: cr.grad(lambda m: (cr.linalg.eigvalsh(m) ** 2).sum())(cr.tensor(np.eye(2) * 2)),
        lambda: _torch_grad(lambda m: (torch.linalg.eigvalsh(m) ** 2).sum())(_eye),
    ),
    "`sum(svdvals(m)**2)`": (
        lambda: cr.grad(lambda m: (cr.linalg.svdvals(m) ** 2).sum())(cr.tensor(np.eye(2) * 2)),
        lambda: _torch_grad(lambda m: (torch.linalg.svdvals(m) ** 2).sum())(_eye),
    ),
    "`sum(V exp(w) V^T)`, `w, V = eigh(m)`": (
        lambda: cr.grad(lambda m: _spectral(m, cr.linalg.eigh, cr.exp))(cr.tensor(np.eye(2) * 2)),
        lambda: _torch_grad(lambda m: _spectral(m, torch.linalg.eigh, torch.exp))(_eye),
    ),
}
