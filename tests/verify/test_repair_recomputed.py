"""Slips in what a backward computes again, in what it puts into places, and sums it forgot."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sampling import sampled_file
from tests.verify.repair_cases import module

pytestmark = sampled_file(one_in=12)


_number = itertools.count(11000)

GATE = """
import numpy as np

def forward(x, w, b):
    t = np.tanh(0.5 * (x @ w + b))
    return np.exp(-t * t)

def backward(g, x, w, b):
    t = np.tanh(0.5 * (x @ w + b))
    d = -2 * t * np.exp(-t * t) * g
    delta = 0.5 * d * (1 - t * t)
    return np.outer(delta, w), delta @ x, delta.sum()
"""

SHARES = """
import numpy as np

def forward(x, w):
    top = x.max(axis=1, keepdims=True)
    return top[:, 0] + np.log((w * np.exp(x - top)).sum(axis=1))

def backward(g, x, w):
    y = forward(x, w)
    p = np.exp(x - y[:, None]) * g[:, None]
    return p * w, p.sum(axis=0)
"""

BAGS = """
import numpy as np

def forward(x, hot):
    n = np.maximum(hot.sum(axis=(1, 2)), 1.0)
    return hot.sum(axis=1) @ x / n[:, None], (hot, n)

def backward(g, cache):
    hot, n = cache
    return np.einsum("blv,bd->vd", hot, g / n[:, None])
"""

BETWEEN = """
import numpy as np

def forward(x, level):
    s = np.sort(x, axis=0)
    at = level * (len(x) - 1)
    low = int(at)
    f = at - low
    return (1 - f) * s[low] + f * s[low + 1]

def backward(g, x, level):
    order = np.argsort(x, axis=0)
    at = level * (len(x) - 1)
    low = int(at)
    f = at - low
    dx, columns = np.zeros_like(x), np.arange(x.shape[1])
    dx[order[low], columns] += (1 - f) * g
    dx[order[low + 1], columns] += f * g
    return dx, None
"""

NORMED = """
import numpy as np

def forward(x, w):
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    return x * r * (1 + w)

def backward(g, x, w):
    wide, d = x.astype(np.float64), g * (1 + w)
    r = 1 / np.sqrt((wide * wide).mean(axis=-1, keepdims=True) + 1e-6)
    u = wide * r
    return r * (d - u * (d * u).mean(axis=-1, keepdims=True)), (g * u).sum(axis=(0, 1))
"""

STATES = """
import numpy as np

def forward(x, w, u):
    states = [np.zeros((x.shape[0], w.shape[1]))]
    for t in range(x.shape[1]):
        states.append(np.tanh(x[:, t] @ w + states[-1] @ u))
    return states[-1], (x, w, u, states)

def backward(dh, cache):
    x, w, u, states = cache
    dx, dw, du = np.zeros_like(x), np.zeros_like(w), np.zeros_like(u)
    for t in reversed(range(x.shape[1])):
        da = dh * (1 - states[t + 1] ** 2)
        dw += x[:, t].T @ da
        du += states[t].T @ da
        dx[:, t] = da @ w.T
        dh = da @ u.T
    return dx, dw, du
"""

PARTS = """
import numpy as np

def forward(h, w, u):
    z = 1 / (1 + np.exp(-h @ w))
    c = np.tanh((z * h) @ u)
    return h + z * (c - h), (h, w, u, z, c)

def backward(g, cache):
    h, w, u, z, c = cache
    dc = g * z * (1 - c**2)
    dzh = dc @ u.T
    dz = (g * (c - h) + dzh * h) * z * (1 - z)
    dw, du = h.T @ dz, (z * h).T @ dc
    dh = g * (1 - z) + dzh * z + dz @ w.T
    return dh, dw, du
"""

rng = np.random.default_rng(8)
HOT = np.eye(6, dtype=int)[[[1, 4, 4, 2], [0, 0, 3, 5], [2, 5, 1, 3]]] * (
    rng.random((3, 4, 1)) < 0.7
)
ARGS: dict[str, tuple[Any, ...]] = {
    GATE: (rng.normal(size=(6, 4)), rng.normal(size=4), np.array(0.3)),
    SHARES: (rng.normal(size=(4, 5)), rng.random(5) + 0.1),
    BAGS: (rng.normal(size=(6, 3)), HOT),
    BETWEEN: (rng.normal(size=(7, 4)), 0.4),
    NORMED: (rng.normal(size=(3, 2, 6)), 0.1 * rng.normal(size=6)),
    STATES: (rng.normal(size=(2, 4, 3)), rng.normal(size=(3, 5)), rng.normal(size=(5, 5))),
    PARTS: tuple([rng.normal(size=s) for s in ((2, 4), (4, 4), (4, 4))]),
}


def _report(text: str, folder: Path) -> Any:
    from chainrule import verify

    made = module(text, folder, next(_number))
    args = next(a for k, a in ARGS.items() if k.split("def backward")[0] in text)
    return verify.pair(made.forward, made.backward, *args)


@pytest.mark.parametrize("text", list(ARGS))
def test_the_backward_is_right(text: str, tmp_path: Path) -> None:
    assert _report(text, tmp_path).ok


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        (GATE, "t = np.tanh(0.5 * (x @ w + b))\n    d", "t = np.tanh(0.5 * (x @ w - b))\n    d"),
        (GATE, "-2 * t * np.exp(-t * t) * g", "-2 * t * (-t * t) * g"),
        (SHARES, "np.exp(x - y[:, None]) * g", "np.exp(x) * g"),
        (SHARES, "return p * w, p", "return p, p"),
        (BAGS, "g / n[:, None]", "g"),
        (BETWEEN, "+= (1 - f) * g", "+= 1 - f"),
        (NORMED, "g * (1 + w)\n", "1 + w\n"),
    ],
)
def test_a_slip_is_undone_at_its_line(text: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert text.count(right) == 1
    report = _report(text.replace(right, wrong), tmp_path)
    assert report.findings
    for finding in report.findings:
        assert finding.place is not None and wrong.split("\n")[0] in finding.place.text
        assert finding.correction is not None and finding.correction.rechecked
        assert finding.correction.after


@pytest.mark.parametrize("sum_", ["du += states[t].T @ da", "dw += x[:, t].T @ da"])
def test_a_sum_that_a_loop_forgot_is_put_in(sum_: str, tmp_path: Path) -> None:
    (finding,) = _report(STATES.replace(sum_, "pass"), tmp_path).findings
    assert finding.name.code == "dropped"
    assert finding.correction is not None and finding.correction.rechecked
    assert sum_ in finding.correction.after


def test_the_name_that_is_returned_for_the_wrong_gradient_is_the_place(tmp_path: Path) -> None:
    """What is read for it is right, or other gradients would be wrong as well."""
    wrong = "dh = g * (1 - z) - dzh @ np.diag(np.ones(h.shape[1])) * 0.3"
    text = PARTS.replace("dh = g * (1 - z) + dzh * z + dz @ w.T", wrong)
    (finding,) = _report(text, tmp_path).findings
    assert finding.place is not None and finding.place.text == wrong


def test_a_gradient_that_is_the_cotangent_is_placed_at_the_return() -> None:
    from chainrule import verify

    def forward(v: Any, x: Any) -> Any:
        return x - v[:, None] * (2 / v.dot(v) * (v @ x))

    def backward(g: Any, v: Any, x: Any) -> Any:
        c = 2 / v.dot(v)
        a, b = v @ x, v @ g
        dv = -c * (g @ a + x @ b) + c * c * (a @ b) * v
        return dv, g

    (finding,) = verify.pair(
        forward, backward, rng.normal(size=5), rng.normal(size=(5, 3))
    ).findings
    assert finding.place is not None and finding.place.text == "return dv, g"


def test_arguments_may_be_trees_of_several_lengths() -> None:
    from chainrule import verify

    def encode(node: Any, leaves: Any, w: Any) -> Any:
        if isinstance(node, int):
            return leaves[node]
        return np.tanh(w @ np.concatenate([encode(c, leaves, w) for c in node]))

    def backward(g: Any, node: Any, leaves: Any, w: Any) -> Any:
        dl, dw = np.zeros_like(leaves), np.zeros_like(w)

        def down(t: Any, d: Any) -> None:
            if isinstance(t, int):
                dl[t] += d
                return
            both = np.concatenate([encode(c, leaves, w) for c in t])
            da = d * (1 - np.tanh(w @ both) ** 2)
            dw[...] += np.outer(da, both)
            left, right = np.split(w.T @ da, 2)
            down(t[0], left)
            down(t[1], right)

        down(node, g)
        return None, dl, dw

    tree = ((0, 1), ((2, 0), 3))
    report = verify.pair(encode, backward, tree, rng.normal(size=(4, 3)), rng.normal(size=(3, 6)))
    assert report.ok and len(report.ledger.checked) == 1
