"""ba: bundle adjustment, and its sparse Jacobian.

A camera is (rotation 3, center 3, focal length 1, principal point 2, radial distortion 2); each
observation is of one point by one camera, with a weight, and has two residuals; each weight has one
more, 1 - w^2. A residual depends on 15 numbers, so the blocks of the Jacobian are those of one
observation, for all of them at once. Source: ADBench (arXiv:1807.10129), section 4.2; the rotation
is Rodrigues' formula.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from bench.gradbench.problem import Function, Input, Jit, Problem, array

CAMERA = 11
SENT = 30
"""How many elements of the sparse matrix the suite sends, and the last one."""


def cross(a: Any, b: Any) -> Any:
    """(3), (3) -> (3)."""
    return cr.stack(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    )


def rotated(rotation: Any, x: Any) -> Any:
    """x turned by |rotation| around rotation: (3), (3) -> (3)."""
    square = cr.sum(rotation * rotation)
    # the formula is 0 / 0 at no rotation; its first order is what the suite asks for there
    still = square == 0
    angle = cr.sqrt(cr.where(still, 1.0, square))
    axis = rotation / angle
    turned = (
        x * cr.cos(angle)
        + cross(axis, x) * cr.sin(angle)
        + axis * (cr.sum(axis * x) * (1 - cr.cos(angle)))
    )
    return cr.where(still, x + cross(rotation, x), turned)


def residual(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
    """How far off one observation is: (11), (3), (), (2) -> (2)."""
    x = rotated(camera[:3], point - camera[3:6])
    flat = x[:2] / x[2]
    radius = cr.sum(flat * flat)
    distorted = flat * (1 + camera[9] * radius + camera[10] * radius * radius)
    return weight * (distorted * camera[6] + camera[7:9] - seen)


def objective(cameras: Any, points: Any, weights: Any, seen: Any, by: Any, of: Any) -> Any:
    """(n, 11), (m, 3), (p), (p, 2) -> (p, 2), (p); camera by[i] sees point of[i]."""
    errors = cr.vmap(residual)(
        cr.take(cameras, by, axis=0), cr.take(points, of, axis=0), weights, seen
    )
    return errors, 1 - weights * weights


def jacobian(cameras: Any, points: Any, weights: Any, seen: Any, by: Any, of: Any) -> Any:
    """What is not zero, row by row: (31 p). See `structure` for where it is."""
    blocks = cr.vmap(cr.jacobian(residual, argnums=(0, 1, 2)))(
        cr.take(cameras, by, axis=0), cr.take(points, of, axis=0), weights, seen
    )
    in_camera, in_point, in_weight = blocks
    rows = cr.concat([in_camera, in_point, in_weight[..., None]], axis=2)
    regularity = cr.vmap(cr.grad(lambda w: 1 - w * w))(weights)
    return cr.concat([cr.flatten(rows), regularity])


def structure(args: tuple[Any, ...]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where each row begins (3 p + 1), and each value's column (31 p).

    That depends on who sees what and on no derivative.
    """
    cameras, points, weights, _, by, of = (np.asarray(a) for a in args)
    p = len(weights)
    after = CAMERA * len(cameras)
    columns = np.concatenate(
        [
            CAMERA * by[:, None] + np.arange(CAMERA),
            after + 3 * of[:, None] + np.arange(3),
            after + 3 * len(points) + np.arange(p)[:, None],
        ],
        axis=1,
    )
    width = CAMERA + 4
    twice = np.repeat(columns, 2, axis=0).ravel()
    rows = np.concatenate([np.arange(2 * p) * width, 2 * p * width + np.arange(p + 1)])
    return rows, np.concatenate([twice, after + 3 * len(points) + np.arange(p)])


def functions(jit: Jit) -> dict[str, Function]:
    return {"objective": jit(objective), "jacobian": jit(jacobian)}


def read(message: Input) -> tuple[Any, ...]:
    n, m, p = message["n"], message["m"], message["p"]
    each = np.arange(p)
    return (
        np.tile(array(message["cam"]), (n, 1)),
        np.tile(array(message["x"]), (m, 1)),
        np.full(p, float(message["w"])),
        np.tile(array(message["feat"]), (p, 1)),
        each % n,
        each % m,
    )


def make(rng: np.random.Generator, n: int, m: int, p: int) -> Input:
    return {
        "n": n,
        "m": m,
        "p": p,
        "w": rng.random(),
        "cam": np.concatenate([rng.normal(size=3), rng.normal(size=8)]),
        "x": rng.normal(size=3) + np.array([0.0, 0.0, 9.0]),
        "feat": rng.normal(size=2),
    }


def write(args: tuple[Any, ...], name: str, result: Any) -> Any:
    if name == "objective":
        errors, regularity = (np.asarray(r) for r in result)
        return {
            "reproj_error": {"elements": errors[0].tolist(), "repeated": len(errors)},
            "w_err": {"element": float(regularity[0]), "repeated": len(regularity)},
        }
    rows, columns = structure(args)
    parts = {"rows": rows, "cols": columns, "vals": np.asarray(result)}
    return {k: [*v[:SENT].tolist(), v[-1].item()] for k, v in parts.items()}


PROBLEM = Problem(
    "ba",
    functions,
    read,
    make,
    ({"n": 49, "m": 7776, "p": 31_843}, {"n": 372, "m": 47_423, "p": 204_472}),
    ("jacobian",),
    write,
)
