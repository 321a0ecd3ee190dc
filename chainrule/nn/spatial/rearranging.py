"""Modules that move or repeat elements: shapes, padding, resizing. PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from chainrule.engine.tensors import asarray
from chainrule.errors import ShapeError
from chainrule.nn import functional
from chainrule.nn.base.function_modules import Check, FunctionModule, Row, class_of_row
from chainrule.ops.shapes.shaping import expand_dims, flatten, normalize_axis, reshape, squeeze
from chainrule.ops.windows.windows import Sizes

_SIZE: Check = (lambda x: type(x) is int and x > 0, "a positive integer")


def _flat(x: Any, start_dim: int, end_dim: int) -> Any:
    try:
        return flatten(x, start_dim, end_dim)
    except ShapeError as error:
        raise ShapeError(f"Flatten: {error}") from None


def _unflat(x: Any, dim: int, unflattened_size: Sequence[int]) -> Any:
    axis = normalize_axis(dim, x.ndim)
    n, sizes = int(x.shape[axis]), list(unflattened_size)
    known = math.prod([s for s in sizes if s != -1])
    if -1 in sizes and known and n % known == 0:
        sizes[sizes.index(-1)] = n // known
    if math.prod(sizes) != n:
        raise ShapeError(f"Unflatten: axis {dim} of {tuple(x.shape)} is not {unflattened_size}")
    return reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


def _identity(x: Any) -> Any:
    return asarray(x)


def _resize(x: Any, size: Any, scale_factor: Any, mode: Any, align_corners: bool | None) -> Any:
    return functional.interpolate(
        x, size, scale_factor=scale_factor, mode=mode, align_corners=bool(align_corners)
    )


def _unfold(x: Any, kernel_size: Sizes, **settings: Any) -> Any:
    y = functional.unfold(x if x.ndim > 3 else expand_dims(x, 0), kernel_size, **settings)
    return y if x.ndim > 3 else squeeze(y, 0)


_WINDOW = {"dilation": 1, "padding": 0, "stride": 1}
_KINDS = dict.fromkeys(_WINDOW, Sizes)
ROWS: dict[str, Row] = {
    "Identity": Row(_identity, doc="x itself."),
    "Flatten": Row(
        _flat, {"start_dim": 1, "end_dim": -1}, doc="Axes start_dim to end_dim as one.",
        shapes="(*s) -> (*t)",
    ),
    "Unflatten": Row(
        _unflat, {"dim": ..., "unflattened_size": ...}, shapes="(*s) -> (*t)",
        doc="The axis dim as several, one of which may be -1: what is left.",
    ),
    "PixelShuffle": Row(
        functional.pixel_shuffle, {"upscale_factor": ...}, checks={"upscale_factor": _SIZE},
        doc="Each r^2 channels of (N, C, H, W) as one that is r times as high and wide.",
        shapes="(*s) -> (*t)",
    ),
    "PixelUnshuffle": Row(
        functional.pixel_unshuffle, {"downscale_factor": ...}, checks={"downscale_factor": _SIZE},
        doc="The inverse of `PixelShuffle`.", shapes="(*s) -> (*t)",
    ),
    "ChannelShuffle": Row(
        functional.channel_shuffle, {"groups": ...}, checks={"groups": _SIZE},
        doc="(N, C, ...): the channels reordered, one of each group in turn.",
    ),
    "Upsample": Row(
        _resize,
        {"size": None, "scale_factor": None, "mode": "nearest", "align_corners": None},
        doc="x (N, C, *size) resized, see `nn.functional.interpolate`.", shapes="(*s) -> (*t)",
    ),
    "UpsamplingNearest2d": Row(
        partial(_resize, mode="nearest", align_corners=None),
        {"size": None, "scale_factor": None}, doc='`Upsample` with mode "nearest".',
        shapes="(*s) -> (*t)",
    ),
    "UpsamplingBilinear2d": Row(
        partial(_resize, mode="bilinear", align_corners=True),
        {"size": None, "scale_factor": None}, shapes="(*s) -> (*t)",
        doc='`Upsample` with mode "bilinear" and aligned corners.',
    ),
    "Unfold": Row(
        _unfold, {"kernel_size": ..., **_WINDOW}, doc="What each window sees, as columns.",
        shapes="(*s) -> (*t)", kinds=_KINDS,
    ),
    "Fold": Row(
        functional.fold, {"output_size": ..., "kernel_size": ..., **_WINDOW},
        {"kernel_size": "kernel"},
        "The transpose of `Unfold`: columns are added up at the places of their windows.",
        "(*s) -> (*t)", kinds=_KINDS,
    ),
}  # fmt: skip


def _pad_function(ndim: int, mode: str) -> Any:
    def pad(x: Any, padding: Any, value: float = 0.0) -> Any:
        widths = [padding] * 2 * ndim if isinstance(padding, int) else list(padding)
        if len(widths) != 2 * ndim or x.ndim not in (ndim + 1, ndim + 2):
            raise ShapeError(
                f"padding is a number or {2 * ndim}, of x with {ndim + 1} or {ndim + 2} axes, not "
                f"{padding!r} of {tuple(x.shape)}"
            )
        return functional.pad(x, widths, mode, value)

    return pad


for _n in (1, 2, 3):
    for _name, _mode in (
        ("Zero", "constant"), ("Reflection", "reflect"), ("Replication", "replicate"),
        ("Circular", "circular"),
    ):  # fmt: skip
        ROWS[f"{_name}Pad{_n}d"] = Row(
            _pad_function(_n, _mode), {"padding": ...}, shapes="(*s) -> (*t)",
            doc=f"x padded on both sides of its last {_n} axes: see `nn.functional.pad`.",
        )  # fmt: skip
    ROWS[f"ConstantPad{_n}d"] = Row(
        _pad_function(_n, "constant"), {"padding": ..., "value": ...}, shapes="(*s) -> (*t)",
        doc=f"x padded with a value on both sides of its last {_n} axes.",
    )  # fmt: skip
CLASSES: dict[str, type[FunctionModule]] = {
    name: class_of_row(name, "chainrule.nn", r) for name, r in ROWS.items()
}
