"""Channels moved into places and back: x (N, C, H, W) with the same elements in another order."""

from __future__ import annotations

from typing import Any

from chainrule.errors import ShapeError
from chainrule.ops.shapes.shaping import permute_dims, reshape


def pixel_shuffle(x: Any, upscale_factor: int) -> Any:
    """Each r^2 channels become one, r times as high and wide, with r the factor.

    Shapes: (*s, C, H, W) -> (*s, C // upscale_factor**2, H * upscale_factor, W * upscale_factor).
    Shi et al. 2016, arXiv:1609.05158.

    >>> nn.functional.pixel_shuffle(cr.ones((1, 8, 2, 3)), 2).shape
    (1, 2, 4, 6)
    """
    r = upscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-3] % r**2:
        raise ShapeError(
            f"pixel_shuffle: x (..., C, H, W) has a multiple of {r}^2 channels, not {x.shape}"
        )
    *lead, c, h, w = x.shape
    n = len(lead)
    y = reshape(x, (*lead, c // r**2, r, r, h, w))
    y = permute_dims(y, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(y, (*lead, c // r**2, h * r, w * r))


def pixel_unshuffle(x: Any, downscale_factor: int) -> Any:
    """The inverse of `pixel_shuffle`.

    Shapes: (*s, C, H, W) ->
          (*s, C * downscale_factor**2, H // downscale_factor, W // downscale_factor).

    >>> nn.functional.pixel_unshuffle(cr.ones((1, 2, 4, 6)), 2).shape
    (1, 8, 2, 3)
    """
    r = downscale_factor
    if x.ndim < 3 or r < 1 or x.shape[-1] % r or x.shape[-2] % r:
        raise ShapeError(
            f"pixel_unshuffle: x (..., C, H, W) has height and width divisible by {r}, not "
            f"{x.shape}"
        )
    *lead, c, h, w = x.shape
    n = len(lead)
    y = reshape(x, (*lead, c, h // r, r, w // r, r))
    y = permute_dims(y, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return reshape(y, (*lead, c * r**2, h // r, w // r))


def channel_shuffle(x: Any, groups: int) -> Any:
    """The channels of `groups` groups by turns: one of each, then the next of each.

    Shapes: (N, C, *s) -> (N, C, *s).
    Zhang et al. 2018, arXiv:1707.01083.

    >>> nn.functional.channel_shuffle(cr.arange(4.0).reshape((1, 4, 1, 1)), 2).flatten()
    tensor([0., 2., 1., 3.], dtype=float32)
    """
    if x.ndim < 3 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"channel_shuffle: {groups} groups of the channels (axis 1) of {x.shape}")
    n, c, *size = x.shape
    parts = reshape(x, (n, groups, c // groups, *size))
    turned = permute_dims(parts, (0, 2, 1, *range(3, parts.ndim)))
    return reshape(turned, tuple(x.shape))
