"""Composites: functions of ops, whose derivatives are all derived.

Activations, softmax, normalisation, dropout, embedding, attention.

Notation: B batch, T positions, C channels or classes, H heads, d width of a head.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.engine.dtypes import check_real, finfo
from chainrule.engine.graph import apply
from chainrule.engine.op import Detach
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops import elementwise as ew
from chainrule.ops.complex import squared_size
from chainrule.ops.contraction import einsum, matmul, matmul_t
from chainrule.ops.fusing import fused
from chainrule.ops.indexing.selection import take, where
from chainrule.ops.reductions import norms
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.joining import repeat
from chainrule.ops.shapes.shaping import bias_like, expand_dims, roomy
from chainrule.random import Generator, default_generator

# --- Activations ---------------------------------------------------------------------------------


@fused("gelu", x="N", to="N")
def gelu(x: Any, *, approximate: str = "none") -> Any:
    """x times the normal distribution function of x; with approximate="tanh" its tanh form.

    Shapes: (*s) -> (*s).
    Any shape, same shape out. Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.

    >>> cr.gelu(cr.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.15865526,  0.        ,  0.8413448 ], dtype=float32)
    """
    if approximate not in ("none", "tanh"):
        raise ConfigError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return ew.gelu_tanh(x) if approximate == "tanh" else ew.gelu_erf(x)


@fused("silu", x="N", to="N")
def silu(x: Any) -> Any:
    """x times the sigmoid of x. Elfwing et al. 2017, arXiv:1702.03118.

    Shapes: (*s) -> (*s).

    >>> cr.silu(cr.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.26894143,  0.        ,  0.7310586 ], dtype=float32)
    """
    return ew.silu(x)


def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """x where positive, `slope` times x elsewhere; the derivative at 0 is `slope`.

    Shapes: (*s) -> (*s).

    >>> cr.leaky_relu(cr.tensor([-1.0, 2.0]))
    tensor([-0.01,  2.  ], dtype=float32)
    """
    check_real("leaky_relu", x)
    return where(x > 0, x, x * slope)


@fused("elu", x="N", to="N")
def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where positive, alpha (exp(x) - 1) elsewhere. Clevert et al. 2015, arXiv:1511.07289.

    Shapes: (*s) -> (*s).

    >>> cr.elu(cr.tensor([-1.0, 2.0]))
    tensor([-0.63212055,  2.        ], dtype=float32)
    """
    return where(x > 0, x, alpha * ew.expm1(ew.at_most(x, 0)))


# --- Softmax -------------------------------------------------------------------------------------


@fused("softmax", x="NC", to="NC")
@roomy
def softmax(x: Any, axis: int = -1) -> Any:
    """exp(x) / sum(exp(x)) along `axis`, without overflow; zeros along a row of -inf.

    Shapes: (*s) -> (*s).

    >>> cr.softmax(cr.tensor([[0.0, 0.0], [1.0, 1.0]]))
    tensor([[0.5, 0.5],
            [0.5, 0.5]], dtype=float32)
    """
    x, total, _ = norms.shift_by_max(red.floating(x), axis=axis)
    return ew.exp_diff(x, total)


def _finite(y: Any) -> Any:
    """A log-sum-exp with 0 where it is -inf, so that -inf minus it stays -inf."""
    return where(y == -math.inf, 0, y)


@fused("log_softmax", x="NC", to="NC")
@roomy
def log_softmax(x: Any, axis: int = -1) -> Any:
    """log(softmax(x)) along `axis`, without overflow; -inf along a row of -inf.

    Shapes: (*s) -> (*s).

    >>> cr.log_softmax(cr.tensor([0.0, 0.0]))
    tensor([-0.6931472, -0.6931472], dtype=float32)
    """
    x, total, _ = norms.shift_by_max(red.floating(x), axis=axis)
    return x - _finite(total)


# --- Normalisation -------------------------------------------------------------------------------


@fused("layer_norm", x="NC", weight="C", bias="C", to="NC")
def layer_norm(x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + eps) over the last axis, times weight, plus bias.

    Shapes: (*s, C), (C), (C) -> (*s, C).
    Ba, Kiros & Hinton 2016, arXiv:1607.06450, equation 4.

    >>> cr.layer_norm(cr.tensor([[1.0, 3.0], [0.0, 8.0]]))
    tensor([[-0.999995 ,  0.999995 ],
            [-0.9999997,  0.9999997]], dtype=float32)
    """
    _check("layer_norm", x, weight=weight, bias=bias)
    return _affine(standardize(x, eps), weight, bias)


@fused("rms_norm", x="NC", weight="C", to="NC")
def rms_norm(x: Any, weight: Any = None, *, eps: float | None = None) -> Any:
    """x / sqrt(mean(x^2) + eps) over the last axis, times weight.

    Shapes: (*s, C), (C) -> (*s, C).
    `eps` None stands for the spacing of the dtype at 1, as in PyTorch. Zhang & Sennrich 2019,
    arXiv:1910.07467, equation 4.

    >>> cr.rms_norm(cr.tensor([[3.0, 4.0]]))
    tensor([[0.84852815, 1.1313709 ]], dtype=float32)
    """
    _check("rms_norm", x, weight=weight)
    eps = float(finfo(x.dtype).eps) if eps is None else eps
    return _affine(_rescale(x, eps), weight, None)


@roomy  # squares of numbers beyond 255 are infinite in float16
def standardize(x: Any, eps: float) -> Any:
    """`x` minus its mean, by its deviation, the root of variance plus eps: over the last axis."""
    return _rescale(x - red.mean(x, axis=-1, keepdims=True), eps)


@roomy
def _rescale(x: Any, eps: float) -> Any:
    """`x` by the root of the mean of its squares plus eps. The root's inverse is one number a row,
    and to multiply by it, forward and backward, is far faster than to divide."""
    return x * (red.mean(squared_size(x), axis=-1, keepdims=True) + eps) ** -0.5


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def _check(what: str, x: Any, **rows: Any) -> None:
    """Parameters of other shapes would broadcast; a size in their place would multiply."""
    shape = _shape(x)
    for name, row in rows.items():
        kind = type(row).__name__
        if isinstance(row, int | tuple | list):
            raise DtypeError(
                f"{what}: {name} is an array of shape {shape[-1:]}, not the {kind} {row}; it is "
                "the last axis that is normalized, so leave PyTorch's normalized_shape out"
            )
        if row is not None and _shape(row) != shape[-1:]:
            raise ShapeError(
                f"{what}: the last axis of x {shape} has {shape[-1]} elements, so {name} has shape "
                f"{shape[-1:]}, not {_shape(row)}"
            )


def _affine(y: Any, weight: Any, bias: Any) -> Any:
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


# --- Dropout, embedding, attention ---------------------------------------------------------------


def dropout(
    x: Any, p: float = 0.5, *, training: bool = True, generator: Generator | None = None
) -> Any:
    """`x` with each element set to 0 with probability p and the others divided by 1 - p.

    Shapes: (*s) -> (*s).
    The identity if not `training`. Srivastava et al. 2014, JMLR 15, section 10.

    >>> cr.dropout(cr.ones(4), 0.5, generator=cr.Generator(0))
    tensor([0., 2., 2., 2.], dtype=float32)
    """
    return drop_together(x, tuple(x.shape), p, training, generator)


def drop_together(
    x: Any, shape: tuple[int, ...], p: float, training: bool, generator: Generator | None
) -> Any:
    """`dropout`, of which what broadcasts from one element of `shape` is dropped together."""
    if not 0 <= p <= 1:
        raise ConfigError(f"dropout: p is a probability, not {p}")
    if not training or p == 0:
        return x
    if p == 1:
        return where(np.zeros(shape, bool), x, 0)
    kept = (generator or default_generator).bernoulli(1 - p, shape)
    return where(kept, x * (1 / (1 - p)), 0)


def embedding(weight: Any, indices: Any, *, padding_idx: int | None = None) -> Any:
    """Rows of `weight` at integer `indices` of any shape; that of `padding_idx` gets no gradient.

    Shapes: (N, C), (*s) -> (*s, C).

    >>> cr.embedding(cr.tensor([[1.0, 2.0], [3.0, 4.0]]), cr.tensor([1, 0, 1])).shape
    (3, 2)
    """
    if getattr(indices, "dtype", np.dtype(int)).kind not in "iu":
        raise DtypeError(
            f"embedding: indices must be integers, not {indices.dtype}; the table comes first: "
            "embedding(weight, indices)"
        )
    if weight.ndim != 2:
        raise ShapeError(
            f"embedding: the table, which comes first, has the shape (rows, width), not "
            f"{weight.shape}"
        )
    rows = take(weight, indices, axis=0)
    if padding_idx is None:
        return rows
    n = weight.shape[0]
    if not -n <= padding_idx < n:
        raise ConfigError(f"embedding: padding_idx {padding_idx} is no row of {n}")
    padding = expand_dims(ew.equal(indices, padding_idx % n), -1)
    return where(padding, apply(Detach(), rows), rows)


def bilinear(a: Any, b: Any, weight: Any, bias: Any = None) -> Any:
    """a weight b, plus bias: a number for each matrix of `weight`.

    Shapes: (..., n), (..., m), (k, n, m), (k) -> (..., k).

    >>> nn.functional.bilinear(cr.ones((5, 2)), cr.ones((5, 3)), cr.ones((4, 2, 3))).shape
    (5, 4)
    """
    y = einsum("...i,oij,...j->...o", a, weight, b)
    return y if bias is None else y + bias_like(bias, y)


def attention_weights(
    q: Any, k: Any, *, mask: Any = None, causal: bool = False, scale: float | None = None
) -> Any:
    """softmax(q kT * scale + mask): how much of each of S keys each of T queries takes in; see
    `scaled_dot_product_attention`.

    Shapes: (..., T, d), (..., S, d) -> (..., T, S).
    """
    scores = matmul_t(q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        t, s = q.shape[-2], k.shape[-2]
        scores = where(np.tri(t, s, s - t, dtype=bool), scores, -math.inf)
    if mask is not None:
        scores = where(mask, scores, -math.inf) if mask.dtype.kind == "b" else scores + mask
    return softmax(scores)


def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    enable_gqa: bool = False,
    generator: Generator | None = None,
) -> Any:
    """softmax(q kT * scale + mask) v, T queries of size d over S keys with values of size e.

    Shapes: (*b, H, T, d), (*b, J, S, d), (*b, J, S, e) -> (*b, H, T, e) if enable_gqa;
        (..., T, d), (..., S, d), (..., S, e) -> (..., T, e).
    `mask` (broadcast to (.., T, S)): bools that say what may be looked at, or floats that are
    added. With `causal` position t looks at 0..t + S - T only. scale is 1 / sqrt(d) if None. A row
    that may look at nothing gives zeros. With `enable_gqa` a head of keys and values serves H / J
    heads of queries in a row. Vaswani et al. 2017, arXiv:1706.03762, equation 1; Ainslie et al.
    2023, arXiv:2305.13245.

    >>> q = cr.ones((1, 3, 2))
    >>> cr.scaled_dot_product_attention(q, q, q, causal=True).shape
    (1, 3, 2)
    """
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            f"attention: q {q.shape}, k {k.shape}, v {v.shape} need the forms (.., T, d), "
            "(.., S, d), (.., S, e)"
        )
    if enable_gqa:
        k, v = _shared_heads(q, k), _shared_heads(q, v)
    weights = attention_weights(q, k, mask=mask, causal=causal, scale=scale)
    if dropout_p:
        weights = dropout(weights, dropout_p, generator=generator)
    return matmul(weights, v)


def _shared_heads(q: Any, x: Any) -> Any:
    """Keys or values (..., J, S, d) for as many heads as queries (..., H, T, d) have."""
    if min(q.ndim, x.ndim) < 3 or x.shape[-3] < 1 or q.shape[-3] % x.shape[-3]:
        raise ShapeError(
            "attention: with enable_gqa the heads of keys and values, axis -3 of "
            f"{tuple(x.shape)}, divide those of the queries {tuple(q.shape)}"
        )
    return repeat(x, q.shape[-3] // x.shape[-3], axis=-3)
