"""The programs of `bench/gradbench`, at small sizes, against answers found another way.

Values against naive NumPy and SciPy; derivatives against closed forms where there are some, and
against central differences of the naive values where there are none.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.special import expit
from scipy.stats import multivariate_normal, wishart

import chainrule as cr
from bench.gradbench import ba, det, gmm, ht, kmeans, llsq, lse, lstm, ode, particle, saddle, tool
from bench.gradbench.descent import argmin, value_and_slope
from bench.gradbench.problem import eager
from bench.gradbench.problems import PROBLEMS
from tests.sampling import sampled

Array = np.ndarray[Any, Any]


def numeric(f: Callable[[Array], Any], x: Array, step: float = 1e-5) -> Array:
    """The Jacobian of f at x by central differences, the argument's axes last."""
    columns = []
    for i in range(x.size):
        dx = np.zeros(x.size)
        dx[i] = step
        dx = dx.reshape(x.shape)
        columns.append((np.asarray(f(x + dx)) - np.asarray(f(x - dx))) / (2 * step))
    return np.stack(columns, axis=-1).reshape(*np.shape(columns[0]), *x.shape)


def ran(name: str, function: str, **size: int) -> tuple[tuple[Any, ...], Any]:
    """Arguments of a problem, and what one of its functions makes of them."""
    problem = PROBLEMS[name]
    args = problem.read(problem.make(np.random.default_rng(7), **size))
    return args, problem.functions(eager)[function](*args)


def test_all_twelve_are_there():
    twelve = {"gmm", "ba", "ht", "lstm", "kmeans", "llsq", "lse", "ode", "particle", "saddle"}
    assert set(PROBLEMS) == twelve | {"det", "hello"}


def test_hello():
    (x,), slope = ran("hello", "double")
    np.testing.assert_allclose(slope, 2 * x)


def test_lse_is_the_softmax():
    (x,), slope = ran("lse", "gradient", n=9)
    np.testing.assert_allclose(lse.logsumexp(x), np.log(np.exp(x).sum()))
    np.testing.assert_allclose(slope, np.exp(x) / np.exp(x).sum())


def test_llsq_by_the_normal_equations():
    (x, t), slope = ran("llsq", "gradient", n=11, m=5)
    residual = np.sign(t) - np.polynomial.polynomial.polyval(t, x)
    np.testing.assert_allclose(llsq.misfit(x, t), (residual**2).sum() / 2)
    np.testing.assert_allclose(slope, -np.vander(t, 5, increasing=True).T @ residual)


@pytest.mark.parametrize("size", [2, 3, 6])
def test_det_and_cofactors(size: int):
    (a,), slope = ran("det", "gradient", ell=size)
    np.testing.assert_allclose(det.determinant(a), np.linalg.det(a))
    np.testing.assert_allclose(slope, np.linalg.det(a) * np.linalg.inv(a).T)


def test_kmeans_goes_to_the_mean():
    (centroids, points), step = ran("kmeans", "dir", k=4, n=40, d=3)
    squares = ((points[:, None] - centroids) ** 2).sum(axis=2)
    np.testing.assert_allclose(kmeans.cost(centroids, points), squares.min(axis=1).sum())
    nearest = squares.argmin(axis=1)
    means = np.stack([points[nearest == j].mean(axis=0) for j in range(4)])
    np.testing.assert_allclose(step, centroids - means, atol=1e-12)


def naive_posterior(alpha: Array, mu: Array, q: Array, l: Array, x: Array, gamma: float, m: int):
    """From the definitions: SciPy's densities of matrices that are really inverted."""
    k, d = mu.shape
    total, likelihood = 0.0, np.zeros(len(x))
    weights = np.exp(alpha) / np.exp(alpha).sum()
    for i in range(k):
        Q, rest = np.diag(np.exp(q[i])), list(l[i])
        for column in range(d):
            for row in range(column + 1, d):
                Q[row, column] = rest.pop(0)
        precision = Q.T @ Q
        covariance = np.linalg.inv(precision)
        likelihood += weights[i] * multivariate_normal.pdf(x, mu[i], covariance)
        total += wishart.logpdf(precision, d + m + 1, np.eye(d) / gamma**2)
    return total + np.log(likelihood).sum()


def test_gmm_against_the_densities():
    message = {**gmm.make(np.random.default_rng(7), d=3, k=2, n=6), "m": 2, "gamma": 1.3}
    args = gmm.read(message)
    x, independent = args[4], args[:4]
    np.testing.assert_allclose(gmm.log_posterior(*args), naive_posterior(*independent, x, 1.3, 2))
    slopes = gmm.functions(eager)["jacobian"](*args)
    for i, slope in enumerate(slopes):

        def f(part: Array, i: int = i) -> Any:
            return naive_posterior(*independent[:i], part, *independent[i + 1 :], x, 1.3, 2)

        np.testing.assert_allclose(slope, numeric(f, independent[i]), rtol=1e-6, atol=1e-6)


def naive_residuals(cameras: Array, points: Array, weights: Array, seen: Array, by: Any, of: Any):
    rows = []
    for i, (c, p) in enumerate(zip(by, of, strict=True)):
        camera = cameras[c]
        x = Rotation.from_rotvec(camera[:3]).apply(points[p] - camera[3:6])
        flat = x[:2] / x[2]
        radius = (flat**2).sum()
        flat = flat * (1 + camera[9] * radius + camera[10] * radius**2)
        rows.append(weights[i] * (flat * camera[6] + camera[7:9] - seen[i]))
    return np.concatenate([*rows, 1 - weights**2])


@pytest.mark.parametrize("turned", [1.0, 0.0], ids=["turned", "not turned"])
def test_ba_is_the_sparse_jacobian(turned: float):
    rng = np.random.default_rng(3)
    cameras = rng.normal(size=(2, 11)) / 3
    cameras[:, :3] *= turned
    points = rng.normal(size=(3, 3)) + np.array([0, 0, 5.0])
    weights, seen = rng.random(5), rng.normal(size=(5, 2))
    args = (cameras, points, weights, seen, np.arange(5) % 2, np.arange(5) % 3)
    errors, regularity = ba.objective(*args)
    naive = naive_residuals(*args)
    np.testing.assert_allclose(np.concatenate([np.ravel(errors), regularity]), naive)

    rows, columns = ba.structure(args)
    values = np.asarray(ba.jacobian(*args))
    dense = np.zeros((15, 2 * 11 + 3 * 3 + 5))
    for row in range(15):
        here = slice(rows[row], rows[row + 1])
        dense[row, columns[here]] = values[here]

    def f(flat: Array) -> Array:
        return naive_residuals(
            flat[:22].reshape(2, 11), flat[22:31].reshape(3, 3), flat[31:], *args[3:]
        )

    flat = np.concatenate([cameras.ravel(), points.ravel(), weights])
    np.testing.assert_allclose(dense, numeric(f, flat), rtol=1e-6, atol=1e-7)


def naive_hand(theta: Array, us: Array, message: Any) -> Array:
    """Bone by bone and vertex by vertex."""
    data, model = message["data"], message["data"]["model"]
    angles = np.zeros((len(model["parents"]), 3))
    for finger in range(5):
        bone, four = 2 + 4 * finger, theta[6 + 4 * finger : 10 + 4 * finger]
        angles[bone, 0], angles[bone, 2] = four[0], four[1]
        angles[bone + 1, 0], angles[bone + 2, 0] = four[2], four[3]
    frames: list[Array] = []
    for bone, parent in enumerate(model["parents"]):
        turn = np.eye(4)
        turn[:3, :3] = Rotation.from_euler("xyz", angles[bone]).as_matrix()
        frame = model["base_relatives"][bone] @ turn
        frames.append(frame if parent < 0 else frames[parent] @ frame)
    mirror = np.diag([-1.0 if model["is_mirrored"] else 1.0, 1, 1])
    vertices = []
    for vertex, weights in zip(model["base_positions"], model["weights"], strict=True):
        moved = [
            f @ i @ vertex for f, i in zip(frames, model["inverse_base_absolutes"], strict=True)
        ]
        skin = mirror @ (weights @ np.array(moved))[:3]
        vertices.append(Rotation.from_rotvec(theta[:3]).apply(skin) + theta[3:6])
    out = []
    for point, where, u in zip(data["points"], data["correspondences"], us, strict=True):
        a, b, c = (vertices[i] for i in model["triangles"][where])
        out.append(point - (u[0] * a + u[1] * b + (1 - u[0] - u[1]) * c))
    return np.array(out)


@pytest.mark.parametrize("mirrored", [False, True], ids=["right", "mirrored"])
def test_ht_against_a_hand_by_hand(mirrored: bool):
    message: Any = ht.make(np.random.default_rng(3), c=4, v=9)
    message["data"]["model"]["is_mirrored"] = mirrored
    args = ht.read(message)
    theta, us = args[:2]
    np.testing.assert_allclose(ht.misfit(*args), naive_hand(theta, us, message), atol=1e-12)
    found = np.asarray(ht.jacobian(*args))
    assert found.shape == (12, 28)
    by_theta = numeric(lambda t: naive_hand(t, us, message), theta).reshape(12, 26)
    np.testing.assert_allclose(found[:, 2:], by_theta, rtol=1e-6, atol=1e-7)
    by_us = numeric(lambda u: naive_hand(theta, u, message), us)
    own = np.stack([by_us[i, :, i] for i in range(4)]).reshape(12, 2)
    np.testing.assert_allclose(found[:, :2], own, rtol=1e-6, atol=1e-7)


def test_ht_of_points_on_vertices():
    message: Any = ht.make(np.random.default_rng(3), c=4, v=9)
    on_triangles = ht.read(message)
    corners = on_triangles[2].corners[:, 0]
    message["us"], message["data"]["correspondences"] = [], corners
    theta, us, hand, parents = ht.read(message)
    assert us is None
    found = ht.jacobian(theta, us, hand, parents)
    at_corner = np.tile([1.0, 0.0], (4, 1))
    expected = np.asarray(ht.jacobian(theta, at_corner, *on_triangles[2:]))[:, 2:]
    np.testing.assert_allclose(found, expected)


def naive_lstm(main: Array, extra: Array, memory: Array, text: Array) -> float:
    memory, total = memory.copy(), 0.0
    for now, gold in pairwise(text):
        x = now * extra[0]
        for (weight, bias), state in zip(main, memory, strict=True):
            gates = np.stack([x, state[0], x, state[0]]) * weight + bias
            forget, enter, leave = expit(gates[:3])
            state[1] = state[1] * forget + enter * np.tanh(gates[3])
            state[0] = leave * np.tanh(state[1])
            x = state[0]
        y = x * extra[1] + extra[2]
        total += (gold * (y - math.log(np.exp(y).sum() + 2))).mean()
    return -total / (len(text) - 1)


@pytest.mark.parametrize("c", [2, 7])
def test_lstm(c: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lstm, "BLOCK", 3)
    args, slopes = ran("lstm", "jacobian", l=2, c=c, b=3)
    main, extra, memory, texts = args
    text = np.concatenate([texts[0, :1], texts[:, 1:].reshape(-1, texts.shape[-1])])
    value = lstm.functions(eager)["objective"](*args)
    np.testing.assert_allclose(value, naive_lstm(main, extra, memory, text))
    by_main = numeric(lambda w: naive_lstm(w, extra, memory, text), main)
    by_extra = numeric(lambda w: naive_lstm(main, w, memory, text), extra)
    np.testing.assert_allclose(slopes[0], by_main, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(slopes[1], by_extra, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("steps", [1, 13])
def test_ode_of_four_is_exact(steps: int):
    """y_i(t) = x_0 ... x_i t^(i + 1) / (i + 1)!: up to degree 4 the method makes no error."""
    (x, _), slope = ran("ode", "gradient", n=4, s=steps)
    y = ode.functions(eager)["primal"](x, steps)
    degree = np.arange(1, 5)
    factorials = np.array([1, 2, 6, 24])
    np.testing.assert_allclose(y, np.cumprod(x) * ode.END**degree / factorials)
    np.testing.assert_allclose(slope, x.prod() / x * ode.END**4 / 24)


def naive_landing(w: float) -> float:
    x, v = (part.copy() for part in particle.FROM)
    charges = np.array([[10, 10 - w], [10, 0]])
    while x[1] + particle.STEP * v[1] > 0:
        away = x - charges
        force = (away / np.linalg.norm(away, axis=1, keepdims=True) ** 3).sum(axis=0)
        x, v = x + particle.STEP * v, v + particle.STEP * force
    return (x[0] - x[1] / v[1] * v[0]) ** 2


MODES = [outer + inner for outer in "fr" for inner in "fr"]


@sampled(one_in=3)
@pytest.mark.parametrize("jit", [pytest.param(eager, marks=pytest.mark.sweep), cr.jit])
@pytest.mark.parametrize("mode", MODES)
def test_particle(mode: str, jit: Any):
    w = np.array([0.1])
    outer, inner = mode
    value, slope = jit(value_and_slope(outer, lambda w: particle.landing(inner, w)))(w)
    np.testing.assert_allclose(value, naive_landing(0.1))
    expected = numeric(lambda w: naive_landing(w[0]), w)
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_particle_hits_the_origin(mode: str):
    w = particle.functions(cr.jit)[mode](np.array([0.0])).item()
    assert naive_landing(w) < 1e-6 < min(naive_landing(w - 0.1), naive_landing(w + 0.1))


@sampled(one_in=3)
@pytest.mark.parametrize("jit", [eager, cr.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("mode", MODES)
def test_saddle(mode: str, jit: Any):
    """The inner descent ends near y = 0, wherever x is: the top is |x|^2, its slope 2 x."""
    x, at = np.array([0.7, -0.2]), np.array([1.0, 1.0])
    outer, inner = mode
    top = value_and_slope(outer, lambda x: saddle.height(x, saddle.highest(inner, x, at)))
    value, slope = jit(top)(x)
    np.testing.assert_allclose(value, x @ x, atol=1e-9)
    np.testing.assert_allclose(slope, 2 * x, atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_saddle_is_found(mode: str):
    found = saddle.functions(cr.jit)[mode](np.array([1.0, 1.0]))
    np.testing.assert_allclose(found, np.zeros(4), atol=1e-5)


def test_a_descent_that_depends_on_a_parameter():
    """The bar and the dot of a minimum that moves: argmin (y - p)^2 is p, near enough."""

    def f(y: Any) -> Any:
        return cr.sum((y - 3.0) ** 2), 2 * (y - 3.0)

    np.testing.assert_allclose(argmin(f, np.array([1.0])), [3.0], atol=1e-4)


def test_the_tool_answers_the_suite(monkeypatch: pytest.MonkeyPatch, capsys: Any):
    messages = [
        {"id": 0, "kind": "start", "eval": "lse"},
        {"id": 1, "kind": "define", "module": "lse"},
        {"id": 2, "kind": "define", "module": "nothing"},
        {
            "id": 3,
            "kind": "evaluate",
            "module": "lse",
            "function": "gradient",
            "input": {"x": [0.0, 0.0], "min_runs": 3, "min_seconds": 0},
        },
        {"id": 4, "kind": "evaluate", "module": "lse", "function": "none", "input": {"x": [1.0]}},
        {"id": 5, "kind": "end"},
    ]
    monkeypatch.setattr("sys.argv", ["tool", "--engine", "eager"])
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([json.dumps(m) for m in messages])))
    tool.main()
    replies = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["id"] for r in replies] == [0, 1, 2, 3, 4]
    assert replies[0]["tool"] == "chainrule"
    assert [r["success"] for r in replies[1:]] == [True, False, True, False]
    assert replies[3]["output"] == [0.5, 0.5]
    assert len(replies[3]["timings"]) == 3
    assert "KeyError" in replies[4]["error"]


SMALL: dict[str, tuple[str, dict[str, int]]] = {
    "hello": ("double", {}),
    "lse": ("gradient", {"n": 50}),
    "llsq": ("gradient", {"n": 16, "m": 8}),
    "gmm": ("jacobian", {"d": 3, "k": 2, "n": 6}),
    "kmeans": ("dir", {"k": 4, "n": 40, "d": 3}),
    "det": ("gradient", {"ell": 4}),
    "ba": ("jacobian", {"n": 3, "m": 10, "p": 37}),
    "ht": ("jacobian", {"c": 4, "v": 9}),
    "lstm": ("jacobian", {"l": 1, "c": 6}),
    "ode": ("gradient", {"n": 5, "s": 2}),
}


@pytest.mark.parametrize("name", SMALL)
def test_compiled_is_eager(name: str):
    function, size = SMALL[name]
    args, expected = ran(name, function, **size)
    found = PROBLEMS[name].functions(cr.jit)[function](*args)
    cr.tree_map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), found, expected
    )
