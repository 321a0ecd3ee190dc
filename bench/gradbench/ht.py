"""ht: a hand of bones and skin, posed to fit points of a depth camera; the Jacobian of the misfit.

26 numbers pose the hand: a global rotation and translation, and four angles for each finger. Each
vertex of the skin follows the bones near it. Every residual depends on all 26; if points lie on
triangles, at coordinates u, also on the two of its own point, and on no other's. So 26 + 2 forward
passes give all that is not zero. Source: ADBench (arXiv:1807.10129), section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import chainrule as cr
from bench.gradbench.problem import Function, Input, Jit, Problem, array

ANGLES = 26
FINGERS, ANGLES_OF_FINGER = 5, 4
Table = np.ndarray[Any, Any]


class Hand(NamedTuple):
    """A hand at rest, and what is seen of it; b bones, v vertices, c points."""

    relatives: Any
    """Each bone's place in its parent's frame: (b, 4, 4); a mirror image has it in its roots."""
    inverses: Any
    """From the frame of all to each bone's: (b, 4, 4)."""
    vertices: Any
    """(v, 4), the last of the four 1."""
    weights: Any
    """How much each vertex follows each bone: (v, b)."""
    points: Any
    """(c, 3)."""
    corners: Any
    """The vertices that each point belongs to: (c), or (c, 3) if points lie on triangles."""


def angles_of(bones: int) -> Table:
    """Which element of (the 26 angles, one 0) are a bone's x, z, y angle: (bones, 3).

    Bone 0 is the wrist, then each finger has four, of which the last three bend (x), and the first
    of those moves sideways, too (z).
    """
    table = np.full((bones, 3), ANGLES)
    for finger in range(FINGERS):
        bone, angle = 2 + 4 * finger, 6 + ANGLES_OF_FINGER * finger
        table[bone, :2] = angle, angle + 1
        table[bone + 1, 0], table[bone + 2, 0] = angle + 2, angle + 3
    return table


def matrix(rows: Sequence[Sequence[Any]]) -> Any:
    """A matrix from arrays of one shape s: (*s, rows, columns)."""
    return cr.stack([cr.stack(row, axis=-1) for row in rows], axis=-2)


def turns(angles: Any) -> Any:
    """Rz Ry Rx of each bone's x, z and y angle, in a frame of four: (b, 3) -> (b, 4, 4)."""
    (cx, cz, cy), (sx, sz, sy) = ([f(angles)[:, i] for i in range(3)] for f in (cr.cos, cr.sin))
    one, zero = cr.ones_like(cx), cr.zeros_like(cx)
    return matrix(
        [
            [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero],
            [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero],
            [-sy, cy * sx, cy * cx, zero],
            [zero, zero, zero, one],
        ]
    )


def rotation(r: Any) -> Any:
    """The rotation by |r| around r: (3) -> (3, 3); none below 1e-4."""
    square = cr.sum(r * r)
    still = square < 1e-8
    angle = cr.sqrt(cr.where(still, 1.0, square))
    x, y, z = cr.unstack(r / angle)
    s, c = cr.sin(angle), cr.cos(angle)
    turned = matrix(
        [
            [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
            [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
            [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
        ]
    )
    return cr.where(still, np.eye(3), turned)


def absolutes(relatives: Any, parents: Sequence[int]) -> Any:
    """Each bone in the frame of all: (b, 4, 4) -> (b, 4, 4); all bones of one depth at once."""
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    order = sorted(range(len(parents)), key=lambda b: depths[b])
    level = [b for b in order if depths[b] == 0]
    done = [cr.take(relatives, np.array(level), axis=0)]
    for depth in range(1, max(depths) + 1):
        above, level = level, [b for b in order if depths[b] == depth]
        parent = np.array([above.index(parents[b]) for b in level])
        done.append(cr.take(done[-1], parent, axis=0) @ cr.take(relatives, np.array(level), axis=0))
    return cr.take(cr.concat(done, axis=0), np.argsort(order), axis=0)


def skin(theta: Any, hand: Hand, parents: Sequence[int]) -> Any:
    """The vertices of a posed hand: (26) -> (v, 3)."""
    bones = len(parents)
    angles = cr.concat([theta, cr.zeros(1, dtype=theta.dtype)])
    posed = hand.relatives @ turns(cr.take(angles, angles_of(bones)))
    moves = (absolutes(posed, parents) @ hand.inverses)[:, :3]
    of_vertex = cr.reshape(hand.weights @ cr.reshape(moves, (bones, 12)), (-1, 3, 4))
    at = cr.sum(of_vertex * hand.vertices[:, None], axis=2)
    return at @ rotation(theta[:3]).T + theta[3:6]


def misfit(theta: Any, us: Any, hand: Hand, parents: Sequence[int]) -> Any:
    """(26), (c, 2) -> (c, 3); us is None if points belong to vertices."""
    at = cr.take(skin(theta, hand, parents), hand.corners, axis=0)
    if us is None:
        return hand.points - at
    u, v = us[:, :1], us[:, 1:]
    return hand.points - (u * at[:, 0] + v * at[:, 1] + (1 - u - v) * at[:, 2])


def directions(us: Any) -> tuple[Table, Table | None]:
    """The tangents of theta and of us of which the Jacobian is made: (28, 26), (28, c, 2)."""
    if us is None:
        return np.eye(ANGLES), None
    theta = np.concatenate([np.zeros((2, ANGLES)), np.eye(ANGLES)])
    own = np.zeros((2 + ANGLES, *us.shape))
    own[0, :, 0] = own[1, :, 1] = 1
    return theta, own


def jacobian(theta: Any, us: Any, hand: Hand, parents: Sequence[int]) -> Any:
    """(3 c, 28), the two columns of a point's own coordinates first, or (3 c, 26)."""

    def along(theta_dot: Any, us_dot: Any) -> Any:
        if us is None:
            return cr.jvp(lambda t: misfit(t, None, hand, parents), (theta,), (theta_dot,))[1]
        return cr.jvp(lambda t, u: misfit(t, u, hand, parents), (theta, us), (theta_dot, us_dot))[1]

    columns = cr.vmap(along)(*directions(us))
    return cr.reshape(columns, (columns.shape[0], -1)).T


def functions(jit: Jit) -> dict[str, Function]:
    return {"objective": jit(misfit), "jacobian": jit(jacobian)}


def read(message: Input) -> tuple[Any, ...]:
    data, model = message["data"], message["data"]["model"]
    parents = tuple(int(p) for p in model["parents"])
    relatives = array(model["base_relatives"])
    if model["is_mirrored"]:
        roots = np.array(parents) < 0
        relatives = np.where(roots[:, None, None], np.diag([-1.0, 1, 1, 1]) @ relatives, relatives)
    corners, us = np.asarray(data["correspondences"]), None
    if len(message["us"]):
        us = array(message["us"])
        corners = np.asarray(model["triangles"])[corners]
    hand = Hand(
        relatives,
        array(model["inverse_base_absolutes"]),
        array(model["base_positions"]),
        array(model["weights"]),
        array(data["points"]),
        corners,
    )
    return array(message["theta"]), us, hand, parents


def make(rng: np.random.Generator, c: int, v: int, bones: int = 22) -> Input:
    """A hand with the suite's bones and random skin; the suite's own hands are files."""
    parents = [-1, *[0 if b % 4 == 1 else b - 1 for b in range(1, bones)]]
    frames = np.tile(np.eye(4), (bones, 1, 1))
    frames[:, :3] += rng.normal(size=(bones, 3, 4)) / 10
    base = np.asarray(absolutes(frames, parents))
    triangles = np.sort(rng.random((2 * v, v)).argpartition(3, axis=1)[:, :3], axis=1)
    model = {
        "bone_count": bones,
        "bone_names": [f"bone{b}" for b in range(bones)],
        "parents": parents,
        "base_relatives": frames,
        "inverse_base_absolutes": np.linalg.inv(base),
        "base_positions": np.concatenate([rng.normal(size=(v, 3)), np.ones((v, 1))], axis=1),
        "weights": rng.dirichlet(np.full(bones, 0.1), v),
        "triangles": triangles,
        "is_mirrored": False,
    }
    return {
        "theta": rng.normal(size=ANGLES) / 2,
        "data": {
            "model": model,
            "correspondences": rng.integers(0, 2 * v, c),
            "points": rng.normal(size=(c, 3)),
        },
        "us": rng.random((c, 2)),
    }


def write(args: tuple[Any, ...], name: str, result: Any) -> Any:
    flat = np.asarray(result)
    return (np.ravel(flat) if name == "objective" else flat).tolist()


PROBLEM = Problem(
    "ht", functions, read, make, ({"c": 100, "v": 544}, {"c": 1600, "v": 544}), ("jacobian",), write
)
