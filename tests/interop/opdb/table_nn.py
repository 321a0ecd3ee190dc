"""The part of the table about neural networks: normalisation, windows, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import chainrule as cr
from chainrule.nn import functional
from chainrule.ops.networks import activations, embedding_bags, noise, normalization
from chainrule.ops.shapes import rearranging
from chainrule.ops.windows import convolution, grid_sampling
from chainrule.ops.windows.resizing import interpolate
from tests.interop.opdb.harness import Row
from tests.interop.opdb.translate import Unlike, along, only, words


def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if len(shape) != 1:
        raise Unlike("several axes")
    return cr.layer_norm(x, weight, bias, eps=eps)


def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    if len(shape) != 1:
        raise Unlike("several axes")
    return cr.rms_norm(x, weight, eps=float(np.finfo(x.dtype).eps) if eps is None else eps)


def _batch_norm(
    x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, **options: Any
) -> Any:
    if x.ndim < 2:
        raise Unlike("an empty vector")
    return normalization.batch_norm(x, mean, var, weight, bias, **options).y


def _group_norm(
    x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    return normalization.group_norm(x, groups, weight, bias, eps=eps)


def _instance_norm(
    x: Any, mean: Any = None, var: Any = None, weight: Any = None, bias: Any = None, **options: Any
) -> Any:
    if mean is not None and not options.get("use_input_stats", True):
        raise Unlike("running statistics")
    return normalization.instance_norm(x, weight, bias, eps=options.get("eps", 1e-5))


def _attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    if dropout_p:
        raise Unlike("random")
    if is_causal and q.shape[-2] != k.shape[-2]:
        raise Unlike("a causal mask from the top left corner")
    return cr.scaled_dot_product_attention(
        q, k, v, mask=attn_mask, causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if training and 0 < p < 1:
        raise Unlike("random")
    return cr.dropout(x, p, training=training)


def _batched(ndim: int, f: Any) -> Any:
    """PyTorch's images may come without the axis of the batch."""

    def call(x: Any, *args: Any, **options: Any) -> Any:
        if x.ndim == ndim + 1:
            y = f(cr.expand_dims(x, 0), *args, **options)
            return [cr.squeeze(p, 0) for p in y] if isinstance(y, tuple) else cr.squeeze(y, 0)
        return f(x, *args, **options)

    return call


def _conv(f: Any, *names: str) -> Any:
    def call(x: Any, weight: Any, bias: Any = None, *rest: Any, **options: Any) -> Any:
        return f(x, weight, bias, **dict(zip(names, rest, strict=False)), **options)

    return call


CONV = ("stride", "padding", "dilation", "groups")
TRANSPOSED = ("stride", "padding", "output_padding", "groups", "dilation")


def _max_pool(f: Any) -> Any:
    def call(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return f(
            x, kernel_size, stride=stride or None, padding=padding, dilation=dilation,
            ceil_mode=ceil_mode, return_indices=return_indices,
        )  # fmt: skip

    return call


def _avg_pool(f: Any) -> Any:
    def call(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        more = {} if divisor_override is None else {"divisor_override": divisor_override}
        return f(
            x, kernel_size, stride=stride or None, padding=padding, ceil_mode=ceil_mode,
            count_include_pad=count_include_pad, **more,
        )  # fmt: skip

    return call


OF_SIZES: dict[str, Any] = {
    "conv": lambda f: _conv(f, *CONV),
    "conv_transpose": lambda f: _conv(f, *TRANSPOSED),
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": lambda f: f,
    "adaptive_max_pool": lambda f: words(f, "input output_size return_indices=return_indices"),
}
"""PyTorch's names of 1, 2 and 3 dimensions: what makes our function one of its arguments."""


def _resized(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Any:
    only("interpolate", {"recompute_scale_factor": recompute_scale_factor, "antialias": antialias})
    size = tuple(size) if isinstance(size, list) else size
    return interpolate(
        x, size, scale_factor=scale_factor, mode=mode, align_corners=bool(align_corners)
    )  # type: ignore[arg-type]


def _their_attention(*args: Any, **options: Any) -> Any:
    """By PyTorch's plain kernel: the others have no second derivative."""
    with sdpa_kernel(SDPBackend.MATH):
        return torch.nn.functional.scaled_dot_product_attention(*args, **options)


def _columns(x: Any, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    return convolution.unfold(x, kernel, stride=stride, padding=padding, dilation=dilation)


def _embedding_bag(weight: Any, indices: Any, **options: Any) -> Any:
    only("embedding_bag", {k: options.pop(k, None) for k in ("max_norm", "scale_grad_by_freq")})
    if options.pop("sparse", False):
        raise Unlike("sparse gradients")
    options.pop("norm_type", None)
    return embedding_bags.embedding_bag(indices, weight, **options)


def _grid_sample(
    x: Any,
    grid: Any,
    mode: Any = "bilinear",
    padding_mode: Any = "zeros",
    align_corners: Any = None,
) -> Any:
    return grid_sampling.grid_sample(
        x, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners)
    )


UNPOOLED = "x indices kernel_size=kernel stride=stride padding=padding output_size=output_size"


def _rrelu(x: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    if training and lower != upper:
        raise Unlike("random")
    return noise.rrelu(x, lower, upper, training=training)


def _alpha_dropout(f: Any) -> Any:
    def call(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if training and 0 < p < 1:
            raise Unlike("random")
        return f(x, p, training=training)

    return call


def _soft(f: Any) -> Any:
    return along(f)


NN = [
    Row("softmax", _soft(cr.softmax)),
    Row("softmax.with_dtype", _soft(cr.softmax)),
    Row("log_softmax", _soft(cr.log_softmax)),
    Row("log_softmax.with_dtype", _soft(cr.log_softmax)),
    Row("nn.functional.softmin", _soft(activations.softmin)),
    Row("nn.functional.softmin.with_dtype", _soft(activations.softmin)),
    Row("torch.ops.aten._safe_softmax.default", _soft(cr.softmax)),
    Row("nn.functional.linear", cr.linear),
    Row("nn.functional.bilinear", functional.bilinear),
    Row("nn.functional.dropout", _dropout),
    Row("nn.functional.layer_norm", _layer_norm),
    Row("nn.functional.rms_norm", _rms_norm),
    Row("nn.functional.batch_norm", _batch_norm),
    Row("nn.functional.group_norm", _group_norm),
    Row("nn.functional.instance_norm", _instance_norm),
    Row(
        "nn.functional.local_response_norm",
        words(functional.local_response_norm, "input size=count alpha=alpha beta=beta k=k"),
    ),
    Row("nn.functional.scaled_dot_product_attention", _attention, _their_attention),
    *[
        Row(f"nn.functional.{name}{n}d", _batched(n, made(getattr(functional, f"{name}{n}d"))))
        for name, made in OF_SIZES.items()
        for n in (1, 2, 3)
    ],
    Row("nn.functional.unfold", _columns),
    Row("nn.functional.embedding_bag", _embedding_bag),
    Row("nn.functional.interpolate.bicubic", _resized),
    Row("nn.functional.interpolate.trilinear", _resized),
    Row("nn.functional.interpolate.area", _resized),
    Row("nn.functional.interpolate.nearest-exact", _resized),
    Row("nn.functional.interpolate.nearest", _resized),
    Row("nn.functional.interpolate.linear", _resized),
    Row("nn.functional.interpolate.bilinear", _resized),
    Row("nn.functional.upsample_nearest", _resized),
    Row(
        "nn.functional.upsample_bilinear",
        lambda x, size=None, scale_factor=None: _resized(x, size, scale_factor, "bilinear", True),
    ),
    Row("nn.functional.grid_sample", _grid_sample),
    *[
        Row(
            f"nn.functional.max_unpool{n}d.grad",
            _batched(n, words(getattr(functional, f"max_unpool{n}d"), UNPOOLED)),
        )
        for n in (1, 2, 3)
    ],
    Row("nn.functional.rrelu", _rrelu),
    Row("nn.functional.alpha_dropout", _alpha_dropout(noise.alpha_dropout)),
    Row("nn.functional.pixel_shuffle", rearranging.pixel_shuffle),
    Row("nn.functional.pixel_unshuffle", rearranging.pixel_unshuffle),
    Row("nn.functional.channel_shuffle", rearranging.channel_shuffle),
]
