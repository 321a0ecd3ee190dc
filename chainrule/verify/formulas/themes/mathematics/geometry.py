"""Geometry: rotations, spheres, rays and hyperbolic space."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    norm,
    relu,
    softplus,
    totals,
)


def _quaternion_product(p: Array, q: Array) -> Iterator[Array]:
    """The real part is the first or the last one."""
    for first in (0, 3):
        a, b = (np.roll(x, 1, axis=-1) if first else x for x in (p, q))
        s, t, u, v = a[..., :1], b[..., :1], a[..., 1:], b[..., 1:]
        real = s * t - (u * v).sum(axis=-1, keepdims=True)
        both = np.concatenate([real, s * v + t * u + np.cross(u, v)], axis=-1)
        yield np.roll(both, -1, axis=-1) if first else both


def _rotation(axis: Array, angle: float) -> Iterator[Array]:
    """Of an axis of length 1, or of any length."""
    for k in (axis, axis / norm(axis)):
        cross = np.cross(np.eye(3), k)
        yield np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def _haversine(lat: Array, lon: Array, other_lat: Array, other_lon: Array) -> Iterator[Array]:
    """In units of the radius, of radians."""
    a = np.sin((other_lat - lat) / 2) ** 2
    a = a + np.cos(lat) * np.cos(other_lat) * np.sin((other_lon - lon) / 2) ** 2
    yield 2 * np.arcsin(np.sqrt(a))


def _render_weights(density: Array, step: Array) -> Iterator[Array]:
    """What each sample on a ray is seen by; a small number keeps the product from 0."""
    for d in (density, relu(density), softplus(density)):
        alpha = 1 - np.exp(-d * step)
        for e in (0.0, 1e-10):
            clear = np.cumprod(1 - alpha + e, axis=-1)
            yield alpha * np.concatenate([np.ones_like(clear[:, :1]), clear[:, :-1]], axis=-1)


def _rendered(density: Array, color: Array, step: Array) -> Iterator[Array]:
    for weights in _render_weights(density, step):
        yield (weights[..., None] * color).sum(axis=-2)


def _frequency_features(x: Array, levels: int) -> Iterator[Array]:
    """Of coordinates; with or without the factor pi, with or without the coordinates."""
    for factor in (1.0, np.pi):
        waves = [f(2.0**k * factor * x) for k in range(int(levels)) for f in (np.sin, np.cos)]
        yield np.concatenate(waves, axis=-1)
        yield np.concatenate([x, *waves], axis=-1)


def _hyperbolic(x: Array, y: Array) -> Iterator[Array]:
    below = (1 - (x**2).sum(axis=-1)) * (1 - (y**2).sum(axis=-1))
    each = np.arccosh(1 + 2 * ((x - y) ** 2).sum(axis=-1) / below)
    yield from totals(each)


_MILDENHALL = "Mildenhall et al., NeRF, 2020"

ROWS = (
    Formula("product of quaternions", ("quat*",), "p[n 4], q[n 4]",
            _quaternion_product, "Hamilton 1843"),
    Formula("rotation about an axis", ("rodrigues*", "rotation*"),
            "axis[3], angle[]", _rotation, "Rodrigues 1840"),
    Formula("distance on a sphere", ("haversine*", "lat", "lon", "latitude*", "longitude*"),
            "lat[n], lon[n], other_lat[n], other_lon[n]", _haversine,
            "Sinnott, Virtues of the haversine, 1984", "scale"),
    Formula("weights of samples on rays", ("nerf*", "ray*", "render*", "transmit*", "density",
            "sigma*"), "density[n s], step[n s]", _render_weights, f"{_MILDENHALL}, equation 3"),
    Formula("colours of rays", ("nerf*", "ray*", "render*", "transmit*", "rgb*"),
            "density[n s], color[n s 3], step[n s]", _rendered, f"{_MILDENHALL}, equation 3"),
    Formula("frequency features of coordinates", ("nerf*", "posenc*", "encod*", "fourier*",
            "freq*"), "x[n d], levels[]:int", _frequency_features, f"{_MILDENHALL}, equation 4"),
    Formula("distance in the Poincaré ball", ("poincare*", "hyperbolic*", "ball"),
            "inside[n d], other_inside[n d]", _hyperbolic,
            "Nickel and Kiela, Poincaré embeddings, 2017, equation 1", "factor"),
)  # fmt: skip
"""Rows of this theme."""
