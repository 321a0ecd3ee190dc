"""The timed function of each problem in PyTorch: the same mathematics, eager, by torch.func."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.func import grad, jacrev, jvp, vmap

from bench.gradbench import det as det_tables
from bench.gradbench import gmm as gmm_tables
from bench.gradbench import ht as ht_tables

F64 = torch.float64


def logsumexp(x: Any) -> Any:
    top = torch.max(x)
    return top + torch.log(torch.sum(torch.exp(x - top)))


def misfit(x: Any, t: Any) -> Any:
    powers = torch.linalg.vander(t, N=len(x))
    return torch.sum((torch.sign(t) - powers @ x) ** 2) / 2


def log_posterior(
    alpha: Any, mu: Any, q: Any, l: Any, x: Any, gamma: Any, m: Any, constant: Any
) -> Any:
    k, d = mu.shape
    parts = torch.cat([torch.exp(q), l, torch.zeros((k, 1), dtype=F64)], dim=1)
    Q = parts[:, gmm_tables.places(d)]
    log_det = torch.sum(q, dim=1)
    z = (x[None] - mu[:, None]) @ Q.mT
    beta = (alpha + log_det)[:, None] - torch.sum(z * z, dim=2) / 2
    likelihood = torch.sum(torch.logsumexp(beta, 0)) - len(x) * torch.logsumexp(alpha, 0)
    prior = m * torch.sum(log_det) - gamma * gamma / 2 * torch.sum(Q * Q)
    return likelihood + prior + constant


def cost(centroids: Any, points: Any) -> Any:
    far = torch.sum(points**2, dim=1)[:, None] + torch.sum(centroids**2, dim=1)
    return torch.sum(torch.amin(far - 2 * (points @ centroids.T), dim=1))


def direction(centroids: Any, points: Any) -> Any:
    slope = grad(lambda c: cost(c, points))
    gradient, curvature = jvp(slope, (centroids,), (torch.ones_like(centroids),))
    return gradient / curvature


def determinant(a: Any) -> Any:
    size = a.shape[0]
    minors = a[size - 1]
    for m in range(2, size + 1):
        columns, rest, signs = [torch.from_numpy(t) for t in det_tables.level(size, m)]
        minors = torch.sum(signs * a[size - m][columns] * minors[rest], dim=1)
    return minors[0]


# --- ba, ht --------------------------------------------------------------------------------------


def rotated(rotation: Any, x: Any) -> Any:
    square = torch.sum(rotation * rotation)
    still = square == 0
    angle = torch.sqrt(torch.where(still, 1.0, square))
    axis = rotation / angle
    cross = torch.linalg.cross
    turned = (
        x * torch.cos(angle)
        + cross(axis, x) * torch.sin(angle)
        + axis * (torch.sum(axis * x) * (1 - torch.cos(angle)))
    )
    return torch.where(still, x + cross(rotation, x), turned)


def residual(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
    x = rotated(camera[:3], point - camera[3:6])
    flat = x[:2] / x[2]
    radius = torch.sum(flat * flat)
    distorted = flat * (1 + camera[9] * radius + camera[10] * radius * radius)
    return weight * (distorted * camera[6] + camera[7:9] - seen)


def ba(cameras: Any, points: Any, weights: Any, seen: Any, by: Any, of: Any) -> Any:
    each = vmap(jacrev(residual, argnums=(0, 1, 2)))
    blocks = each(cameras[by], points[of], weights, seen)
    rows = torch.cat([blocks[0], blocks[1], blocks[2][..., None]], dim=2)
    return torch.cat([rows.ravel(), vmap(grad(lambda w: 1 - w * w))(weights)])


def matrix(rows: Any) -> Any:
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def turns(angles: Any) -> Any:
    (cx, cz, cy), (sx, sz, sy) = torch.cos(angles).T, torch.sin(angles).T
    one, zero = torch.ones_like(cx), torch.zeros_like(cx)
    return matrix(
        [
            [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero],
            [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero],
            [-sy, cy * sx, cy * cx, zero],
            [zero, zero, zero, one],
        ]
    )


def rotation(r: Any) -> Any:
    square = torch.sum(r * r)
    small = square < 1e-8
    angle = torch.sqrt(torch.where(small, 1.0, square))
    x, y, z = r / angle
    s, c = torch.sin(angle), torch.cos(angle)
    turned = matrix(
        [
            [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
            [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
            [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
        ]
    )
    return torch.where(small, torch.eye(3, dtype=F64), turned)


def hand_misfit(theta: Any, us: Any, hand: Any, parents: tuple[int, ...]) -> Any:
    angles = torch.cat([theta, torch.zeros(1, dtype=F64)])[ht_tables.angles_of(len(parents))]
    posed = hand.relatives @ turns(angles)
    frames: list[Any] = []
    for bone, parent in enumerate(parents):
        frames.append(posed[bone] if parent < 0 else frames[parent] @ posed[bone])
    moves = (torch.stack(frames) @ hand.inverses)[:, :3]
    of_vertex = torch.tensordot(hand.weights, moves, 1)
    at = torch.einsum("vij,vj->vi", of_vertex, hand.vertices)
    at = (at @ rotation(theta[:3]).T + theta[3:6])[hand.corners]
    u, v = us[:, :1], us[:, 1:]
    return hand.points - (u * at[:, 0] + v * at[:, 1] + (1 - u - v) * at[:, 2])


def ht(theta: Any, us: Any, hand: Any, parents: tuple[int, ...]) -> Any:
    def along(theta_dot: Any, us_dot: Any) -> Any:
        f = lambda t, u: hand_misfit(t, u, hand, parents)
        return jvp(f, (theta, us), (theta_dot, us_dot))[1]

    columns = vmap(along)(*[torch.from_numpy(d) for d in ht_tables.directions(us)])
    return columns.reshape(len(columns), -1).T


# --- Loops ---------------------------------------------------------------------------------------


def lstm(main: Any, extra: Any, memory: Any, texts: Any) -> Any:
    text = torch.cat([texts[0, :1], texts[:, 1:].reshape(-1, texts.shape[-1])])
    main, extra = main.requires_grad_(), extra.requires_grad_()
    pairs = [(h, c) for h, c in memory]
    total = torch.zeros((), dtype=F64)
    weights = [[w.unbind(0) for w in layer.unbind(0)] for layer in main.unbind(0)]
    into, out, shift = extra.unbind(0)
    for now, gold in pairwise(text):
        x = now * into
        for i, ((weight, bias), (hidden, cell)) in enumerate(zip(weights, pairs, strict=True)):
            forget = torch.sigmoid(x * weight[0] + bias[0])
            enter = torch.sigmoid(hidden * weight[1] + bias[1])
            leave = torch.sigmoid(x * weight[2] + bias[2])
            change = torch.tanh(hidden * weight[3] + bias[3])
            cell = cell * forget + enter * change
            x = leave * torch.tanh(cell)
            pairs[i] = x, cell
        y = x * out + shift
        total = total + torch.mean(gold * (y - torch.log(torch.sum(torch.exp(y)) + 2)))
    return torch.autograd.grad(-total / (len(text) - 1), (main, extra))


def ode(x: Any, steps: int) -> Any:
    x = x.requires_grad_()
    h, one = 2 / steps, torch.ones(1, dtype=F64)
    slope = lambda y: x * torch.cat([one, y[:-1]])
    y = torch.zeros_like(x)
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return torch.autograd.grad(y[-1], x)[0]


def argmin(f: Callable[[Any], Any], at: Any) -> Any:
    """Where f is least: as in `descent`; f may be differentiated in its turn."""

    def both(at: Any) -> tuple[Any, Any]:
        value = f(at)
        return value, torch.autograd.grad(value, at, create_graph=True)[0]

    at = at if at.requires_grad else at.detach().requires_grad_()
    value, slope = both(at)
    rate, streak = 1e-5, 0
    while (steep := float(torch.linalg.vector_norm(slope.detach()))) > 1e-5:
        if streak == 10:
            rate, streak = rate * 2, 0
            continue
        if rate * steep <= 1e-5:
            break
        new = at - rate * slope
        new_value, new_slope = both(new)
        if new_value < value:
            at, value, slope, streak = new, new_value, new_slope, streak + 1
        else:
            rate, streak = rate / 2, 0
    return at


def outermost(f: Callable[[Any], Any], at: Any) -> Any:
    """The same where nothing is differentiated around it: no graph grows from turn to turn."""

    def both(at: Any) -> tuple[float, Any]:
        at = at.detach().requires_grad_()
        value = f(at)
        return float(value.detach()), torch.autograd.grad(value, at)[0]

    value, slope = both(at)
    rate, streak = 1e-5, 0
    while (steep := float(torch.linalg.vector_norm(slope))) > 1e-5:
        if streak == 10:
            rate, streak = rate * 2, 0
            continue
        if rate * steep <= 1e-5:
            break
        new_value, new_slope = both(at - rate * slope)
        if new_value < value:
            at, value, slope, streak = at - rate * slope, new_value, new_slope, streak + 1
        else:
            rate, streak = rate / 2, 0
    return at


def potential(x: Any, w: Any) -> Any:
    beside = x[0] - 10
    above = torch.sqrt(beside**2 + (x[1] - 10 + w) ** 2)
    return 1 / above + 1 / torch.sqrt(beside**2 + x[1] ** 2)


def landing(w: Any) -> Any:
    x = torch.tensor([0.0, 8.0], dtype=F64, requires_grad=True)
    v = torch.tensor([0.75, 0.0], dtype=F64)
    while x[1] + 0.1 * v[1] > 0:
        force = torch.autograd.grad(potential(x, w[0]), x, create_graph=True)[0]
        x, v = x + 0.1 * v, v - 0.1 * force
    return (x[0] - x[1] / v[1] * v[0]) ** 2


def height(x: Any, y: Any) -> Any:
    return torch.sum(x * x) - torch.sum(y * y)


def highest(x: Any, at: Any) -> Any:
    return argmin(lambda y: -height(x, y), at)


def saddle(at: Any) -> Any:
    x = outermost(lambda x: height(x, highest(x, at)), at)
    return torch.cat([x, outermost(lambda y: -height(x, y), at)])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "hello": grad(lambda x: x * x),
    "lse": grad(logsumexp),
    "llsq": grad(misfit),
    "gmm": grad(log_posterior, (0, 1, 2, 3)),
    "kmeans": direction,
    "det": grad(determinant),
    "ba": ba,
    "ht": ht,
    "lstm": lstm,
    "ode": ode,
    "particle": lambda w: outermost(landing, w),
    "saddle": saddle,
}


def prepared(args: Any) -> Any:
    """Arguments as PyTorch's tensors; what decides shapes stays as it is."""

    def convert(x: Any) -> Any:
        return torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x

    return torch.utils._pytree.tree_map(convert, args)  # pyright: ignore


def ready(result: Any) -> Any:
    """The result, which is there when the call returns."""
    return result
