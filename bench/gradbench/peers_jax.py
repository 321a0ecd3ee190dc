"""The timed function of each problem in JAX: the same mathematics, jitted whole.

Loops are `lax.scan` where their length is known and `lax.while_loop` where it is not; reverse mode
through the latter does not exist, so the outer derivatives of particle and saddle are forward ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bench.gradbench import det as det_tables
from bench.gradbench import gmm as gmm_tables
from bench.gradbench import ht as ht_tables

jax.config.update("jax_enable_x64", True)


def logsumexp(x: Any) -> Any:
    top = jnp.max(x)
    return top + jnp.log(jnp.sum(jnp.exp(x - top)))


def misfit(x: Any, t: Any) -> Any:
    # by doubling: 4 to 12 times as fast here as jnp.vander, 3 to 4 times as jnp.cumprod
    powers, factor = jnp.stack([jnp.ones_like(t), t], axis=1), t * t
    while powers.shape[1] < len(x):
        powers = jnp.concatenate([powers, powers * factor[:, None]], axis=1)
        factor = factor * factor
    return jnp.sum((jnp.sign(t) - powers[:, : len(x)] @ x) ** 2) / 2


def log_posterior(
    alpha: Any, mu: Any, q: Any, l: Any, x: Any, gamma: Any, m: Any, constant: Any
) -> Any:
    k, d = mu.shape
    parts = jnp.concatenate([jnp.exp(q), l, jnp.zeros((k, 1))], axis=1)
    Q = parts[:, gmm_tables.places(d)]
    log_det = jnp.sum(q, axis=1)
    z = (x[None] - mu[:, None]) @ Q.mT
    beta = (alpha + log_det)[:, None] - jnp.sum(z * z, axis=2) / 2
    lse = jax.scipy.special.logsumexp
    likelihood = jnp.sum(lse(beta, axis=0)) - len(x) * lse(alpha)
    prior = m * jnp.sum(log_det) - gamma * gamma / 2 * jnp.sum(Q * Q)
    return likelihood + prior + constant


def cost(centroids: Any, points: Any) -> Any:
    far = jnp.sum(points**2, axis=1)[:, None] + jnp.sum(centroids**2, axis=1)
    return jnp.sum(jnp.min(far - 2 * (points @ centroids.T), axis=1))


def direction(centroids: Any, points: Any) -> Any:
    slope = jax.grad(lambda c: cost(c, points))
    gradient, curvature = jax.jvp(slope, (centroids,), (jnp.ones_like(centroids),))
    return gradient / curvature


def determinant(a: Any) -> Any:
    size = a.shape[0]
    minors = a[size - 1]
    for m in range(2, size + 1):
        columns, rest, signs = det_tables.level(size, m)
        minors = jnp.sum(signs * a[size - m][columns] * minors[rest], axis=1)
    return minors[0]


# --- ba ------------------------------------------------------------------------------------------


def rotated(rotation: Any, x: Any) -> Any:
    square = jnp.sum(rotation * rotation)
    still = square == 0
    angle = jnp.sqrt(jnp.where(still, 1.0, square))
    axis = rotation / angle
    turned = (
        x * jnp.cos(angle)
        + jnp.cross(axis, x) * jnp.sin(angle)
        + axis * (axis @ x * (1 - jnp.cos(angle)))
    )
    return jnp.where(still, x + jnp.cross(rotation, x), turned)


def residual(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
    x = rotated(camera[:3], point - camera[3:6])
    flat = x[:2] / x[2]
    radius = jnp.sum(flat * flat)
    distorted = flat * (1 + camera[9] * radius + camera[10] * radius * radius)
    return weight * (distorted * camera[6] + camera[7:9] - seen)


def ba(cameras: Any, points: Any, weights: Any, seen: Any, by: Any, of: Any) -> Any:
    blocks = jax.vmap(jax.jacrev(residual, argnums=(0, 1, 2)))(
        cameras[by], points[of], weights, seen
    )
    rows = jnp.concatenate([blocks[0], blocks[1], blocks[2][..., None]], axis=2)
    return jnp.concatenate([rows.ravel(), jax.vmap(jax.grad(lambda w: 1 - w * w))(weights)])


# --- ht ------------------------------------------------------------------------------------------


def matrix(rows: Any) -> Any:
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def turns(angles: Any) -> Any:
    (cx, cz, cy), (sx, sz, sy) = jnp.cos(angles).T, jnp.sin(angles).T
    one, zero = jnp.ones_like(cx), jnp.zeros_like(cx)
    return matrix(
        [
            [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero],
            [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero],
            [-sy, cy * sx, cy * cx, zero],
            [zero, zero, zero, one],
        ]
    )


def rotation(r: Any) -> Any:
    square = jnp.sum(r * r)
    small = square < 1e-8
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    x, y, z = r / angle
    s, c = jnp.sin(angle), jnp.cos(angle)
    turned = matrix(
        [
            [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
            [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
            [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
        ]
    )
    return jnp.where(small, jnp.eye(3), turned)


def hand_misfit(theta: Any, us: Any, hand: Any, parents: tuple[int, ...]) -> Any:
    angles = jnp.append(theta, 0.0)[ht_tables.angles_of(len(parents))]
    posed = hand.relatives @ turns(angles)
    frames: list[Any] = []
    for bone, parent in enumerate(parents):
        frames.append(posed[bone] if parent < 0 else frames[parent] @ posed[bone])
    moves = (jnp.stack(frames) @ hand.inverses)[:, :3]
    of_vertex = jnp.tensordot(hand.weights, moves, 1)
    at = jnp.einsum("vij,vj->vi", of_vertex, hand.vertices)
    at = (at @ rotation(theta[:3]).T + theta[3:6])[hand.corners]
    u, v = us[:, :1], us[:, 1:]
    return hand.points - (u * at[:, 0] + v * at[:, 1] + (1 - u - v) * at[:, 2])


@partial(jax.jit, static_argnums=3)
def ht(theta: Any, us: Any, hand: Any, parents: tuple[int, ...]) -> Any:
    def along(dots: Any) -> Any:
        return jax.jvp(lambda t, u: hand_misfit(t, u, hand, parents), (theta, us), dots)[1]

    columns = jax.vmap(along)(ht_tables.directions(us))
    return columns.reshape(len(columns), -1).T


# --- Loops ---------------------------------------------------------------------------------------


def lstm_loss(weights: Any, memory: Any, text: Any) -> Any:
    main, extra = weights

    def turn(memory: Any, pair: Any) -> Any:
        x, gold = pair[0] * extra[0], pair[1]
        after: list[Any] = []
        for (weight, bias), (hidden, cell) in zip(main, memory, strict=True):
            forget = jax.nn.sigmoid(x * weight[0] + bias[0])
            enter = jax.nn.sigmoid(hidden * weight[1] + bias[1])
            leave = jax.nn.sigmoid(x * weight[2] + bias[2])
            change = jnp.tanh(hidden * weight[3] + bias[3])
            cell = cell * forget + enter * change
            x = leave * jnp.tanh(cell)
            after.append(jnp.stack([x, cell]))
        y = x * extra[1] + extra[2]
        return jnp.stack(after), jnp.mean(gold * (y - jnp.log(jnp.sum(jnp.exp(y)) + 2)))

    return -jnp.mean(lax.scan(turn, memory, (text[:-1], text[1:]))[1])


@jax.jit
def lstm(main: Any, extra: Any, memory: Any, texts: Any) -> Any:
    text = jnp.concatenate([texts[0, :1], texts[:, 1:].reshape(-1, texts.shape[-1])])
    return jax.grad(lstm_loss)((main, extra), memory, text)


@partial(jax.jit, static_argnums=1)
def ode(x: Any, steps: int) -> Any:
    h = 2 / steps

    def slope(x: Any, y: Any) -> Any:
        return x * jnp.concatenate([jnp.ones(1), y[:-1]])

    def last(x: Any) -> Any:
        def turn(y: Any, _: Any) -> Any:
            k1 = slope(x, y)
            k2 = slope(x, y + h / 2 * k1)
            k3 = slope(x, y + h / 2 * k2)
            k4 = slope(x, y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return lax.scan(turn, jnp.zeros_like(x), None, length=steps)[0][-1]

    return jax.grad(last)(x)


def argmin(f: Callable[[Any], tuple[Any, Any]], at: Any) -> Any:
    """Where f, which gives value and slope, is least: as in `descent`, in one compiled loop."""

    def finished(s: Any) -> Any:
        _, _, slope, rate, streak = s
        steep = jnp.sqrt(jnp.sum(slope * slope))
        return (steep <= 1e-5) | ((rate * steep <= 1e-5) & (streak < 10))

    def turn(s: Any) -> Any:
        at, value, slope, rate, streak = s
        grow = streak >= 10
        new_at = at - rate * slope
        new_value, new_slope = f(new_at)
        taken = (new_value < value) & ~grow
        return (
            jnp.where(taken, new_at, at),
            jnp.where(taken, new_value, value),
            jnp.where(taken, new_slope, slope),
            jnp.where(taken, rate, jnp.where(grow, rate * 2, rate / 2)),
            jnp.where(taken, streak + 1, 0.0),
        )

    first = (at, *f(at), jnp.asarray(1e-5), jnp.asarray(0.0))
    return lax.while_loop(lambda s: ~finished(s), turn, first)[0]


def forward(f: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, Any]]:
    """Value and slope of f by forward mode."""

    def both(x: Any) -> tuple[Any, Any]:
        slope, value = jax.jacfwd(lambda x: (f(x),) * 2, has_aux=True)(x)
        return value, slope

    return both


def potential(x: Any, w: Any) -> Any:
    beside = x[0] - 10
    return 1 / jnp.sqrt(beside**2 + (x[1] - 10 + w) ** 2) + 1 / jnp.sqrt(beside**2 + x[1] ** 2)


def landing(w: Any) -> Any:
    def turn(state: Any) -> Any:
        x, v = state
        return x + 0.1 * v, v - 0.1 * jax.grad(potential)(x, w[0])

    begin = jnp.array([0.0, 8.0]), jnp.array([0.75, 0.0])
    x, v = lax.while_loop(lambda s: s[0][1] + 0.1 * s[1][1] > 0, turn, begin)
    return (x[0] - x[1] / v[1] * v[0]) ** 2


def height(x: Any, y: Any) -> Any:
    return jnp.sum(x * x) - jnp.sum(y * y)


def highest(x: Any, at: Any) -> Any:
    return argmin(lambda y: jax.value_and_grad(lambda y: -height(x, y))(y), at)


@jax.jit
def saddle(at: Any) -> Any:
    x = argmin(forward(lambda x: height(x, highest(x, at))), at)
    return jnp.concatenate([x, highest(x, at)])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "hello": jax.jit(jax.grad(lambda x: x * x)),
    "lse": jax.jit(jax.grad(logsumexp)),
    "llsq": jax.jit(jax.grad(misfit)),
    "gmm": jax.jit(jax.grad(log_posterior, (0, 1, 2, 3))),
    "kmeans": jax.jit(direction),
    "det": jax.jit(jax.grad(determinant)),
    "ba": jax.jit(ba),
    "ht": ht,
    "lstm": lstm,
    "ode": ode,
    "particle": jax.jit(lambda w: argmin(forward(landing), w)),
    "saddle": saddle,
}


def prepared(args: Any) -> Any:
    """Arguments as JAX's arrays; what decides shapes stays as it is."""
    return jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray) else x, args)


def ready(result: Any) -> Any:
    """The result when it is there."""
    return jax.block_until_ready(result)
