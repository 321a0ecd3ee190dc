"""What stands beside a value: other numbers of an object, other axes, what the forward makes of it,
the statement before. And what is no repair: a change of what the forward calls as well."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled_file
from tests.verify.repair_cases import module

pytestmark = sampled_file(one_in=12)


_number = itertools.count(12000)


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


POOLED = """
import numpy as np

def forward(x, u, v):
    h = np.tanh(x @ u)
    s = h @ v
    p = np.exp(s - s.max(axis=1, keepdims=True))
    p = p / p.sum(axis=1, keepdims=True)
    return (p[:, :, None] * h).sum(axis=1), (x, h, p)

def backward(g, cache, u, v):
    x, h, p = cache
    dp = (g[:, None, :] * h).sum(axis=2)
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True))
    dh = p[:, :, None] * g[:, None, :] + ds[:, :, None] * v
    dz = dh * (1 - h * h)
    return dz @ u.T, np.einsum("btd,bth->dh", x, dz), np.einsum("bt,bth->h", ds, h)
"""

GATED = """
import numpy as np

def forward(h, r, w, u):
    z = (r * h) @ w + h @ u
    return np.tanh(z), np.tanh(z)

def backward(g, cache, h, r, w, u):
    dz = g * (1 - cache ** 2)
    grads = []
    for kept in (r * h, h):
        grads.append(kept.T @ dz)
    drh = dz @ w.T
    return drh * r + dz @ u.T, drh * h, grads[0], grads[1]
"""

PICKED = """
import numpy as np

def forward(v, t):
    i = np.floor(t).astype(int)
    w = t - i
    return v[i] * (1 - w) + v[i + 1] * w

def backward(g, v, t):
    i = np.floor(t).astype(int)
    w = t - i
    dv = np.zeros_like(v)
    np.add.at(dv, i, g * (1 - w))
    np.add.at(dv, i + 1, g * w)
    return dv, g * (v[i + 1] - v[i])
"""

CROPPED = """
import numpy as np

def forward(x, k):
    full = np.zeros(len(x) + len(k) - 1)
    for j in range(len(k)):
        full[j:j + len(x)] += x * k[j]
    return full[1:len(full) - 1]

def backward(g, x, k):
    n = len(x) + len(k) - 1
    full = np.zeros(n)
    full[1:n - 1] = g
    dx = sum(full[j:j + len(x)] * k[j] for j in range(len(k)))
    return dx, np.array([full[j:j + len(x)] @ x for j in range(len(k))])
"""

CASES = [
    (POOLED, " + ds[:, :, None] * v", "", (draw(2, 4, 3), draw(3, 5), draw(5)), "missing_term"),
    (GATED, "in (r * h, h)", "in (h, h)", (draw(5, 3), draw(5, 3, seed=1), draw(3, 4),
                                           draw(3, 4, seed=2)), "wrong_value"),
    (PICKED, "np.add.at(dv, i, g * (1 - w))\n    np.add.at(dv, i + 1, g * w)",
     "np.add.at(dv, i, g * w)\n    np.add.at(dv, i + 1, g * (1 - w))",
     (draw(7), np.array([0.3, 4.2, 2.7, 1.6])), "wrong_value"),
    (CROPPED, "full[1:n - 1] = g", "full[1 - 1:n - 1 - 1] = g", (draw(6), draw(4)), "wrong_value"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "right", "wrong", "args", "code"), CASES)
def test_the_line_and_the_correction(
    text: str, right: str, wrong: str, args: tuple[Any, ...], code: str, tmp_path: Path
) -> None:
    assert text.count(right) == 1
    at = text[: text.index(right)].count("\n") + 1
    made = module(text, tmp_path, next(_number))
    assert not verify.pair(made.forward, made.backward, *args).findings
    made = module(text.replace(right, wrong), tmp_path, next(_number))
    finding = verify.pair(made.forward, made.backward, *args).findings[0]
    assert code in [name.code for name in finding.names]
    assert finding.place is not None and finding.place.line == at
    assert finding.correction is not None and finding.correction.rechecked
    assert finding.correction.after


class Pooled:
    """Windows of two sizes that are kept under like names; the indices fill a buffer."""

    def __init__(self) -> None:
        self.kh, self.kw = 3, 2

    def forward(self, x: Any) -> Any:
        rows, cols = x.shape[0] // self.kh, x.shape[1] // self.kw
        self.shape, self.at = x.shape, np.empty((rows, cols), int)
        self.top = np.empty((rows, cols))
        for i in range(rows):
            for j in range(cols):
                window = x[i * self.kh : (i + 1) * self.kh, j * self.kw : (j + 1) * self.kw]
                self.at[i, j] = window.argmax()
                self.top[i, j] = window.max()
        return self.top

    def backward(self, g: Any) -> Any:
        dx = np.zeros(self.shape)
        for (i, j), k in np.ndenumerate(self.at):
            r, c = divmod(k, self.kh)
            dx[i * self.kh + r, j * self.kw + c] += g[i, j]
        return dx


def test_another_number_of_the_same_object() -> None:
    x = np.random.default_rng(3).permutation(36).reshape(6, 6) * 0.1 - 1.0
    finding = verify.pair(Pooled(), x).findings[0]
    assert finding.name.code != "stale"  # A buffer that the forward fills is not changed later.
    assert finding.correction is not None
    assert finding.correction.after.strip() == "r, c = divmod(k, self.kw)"


class Deep:
    def __init__(self) -> None:
        self.ws = [draw(3, 4), draw(4, 4, seed=1), draw(4, 2, seed=2)]

    def loss_and_grads(self, x: Any, y: Any) -> Any:
        inputs, sums = [x], []
        for w in self.ws:
            sums.append(inputs[-1] @ w)
            inputs.append(np.maximum(sums[-1], 0.1 * sums[-1]))
        r = inputs[-1] - y
        d = r * np.where(sums[-1] > 0, 1.0, 0.1)
        grads = [np.zeros_like(w) for w in self.ws]
        for i in range(len(self.ws) - 1, -1, -1):
            grads[i] = inputs[i].T @ d
            if i > 0:
                d = (d @ self.ws[i].T) * np.where(sums[0] > 0, 1.0, 0.1)
        return 0.5 * (r * r).sum(), grads


def test_an_index_that_should_follow_the_loop() -> None:
    net = Deep()
    finding = verify.pair(net.loss_and_grads, draw(5, 3, seed=4), draw(5, 2, seed=5)).findings[0]
    assert finding.correction is not None and "sums[i - 1] > 0" in finding.correction.after


def spread(d: Any, u: Any) -> Any:
    return np.einsum("bi,bj->bij", u, u * u) + np.exp(d)[:, :, None] * np.eye(d.shape[1])


def logdet(d: Any, u: Any) -> Any:
    return np.linalg.slogdet(spread(d, u))[1]


def logdet_back(g: Any, d: Any, u: Any) -> Any:
    m = g[:, None, None] * np.linalg.inv(spread(d, u))
    du = np.einsum("bij,bj->bi", m, u * u) + 2 * u * np.einsum("bij,bi->bj", m, u)
    return np.exp(d) * np.einsum("bii->bi", m), du


def test_what_the_forward_calls_as_well_is_not_changed() -> None:
    finding = verify.pair(logdet, logdet_back, draw(2, 4) + 1, 0.5 * draw(2, 4, seed=1)).findings[0]
    assert finding.place is not None and finding.place.function == "logdet_back"


class LogCosh:
    @staticmethod
    def ratio(z: Any) -> Any:
        e = np.exp(z)
        return e / np.cosh(z)

    def forward(self, x: Any) -> Any:
        self.x = x
        return np.logaddexp(x, -x)

    def backward(self, g: Any) -> Any:
        return g * (self.ratio(self.x) - 1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_line_that_makes_a_nan_is_told_in_what_the_backward_calls() -> None:
    x = draw(3, 4)
    x[1, 2] = 800.0
    finding = verify.pair(LogCosh(), x).findings[0]
    assert finding.name.code == "nan" and finding.place is not None
    assert finding.place.text.strip() == "return e / np.cosh(z)"


class Shifted:
    """The gradient of `shift` is left nowhere."""

    def __init__(self) -> None:
        self.params = {"w": draw(3, 4), "shift": draw(4), "scale": draw(4, seed=1)}
        self.grads: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        p = self.params
        self.x, self.h = x, np.tanh(x @ p["w"])
        return self.h * p["scale"] + p["shift"]

    def backward(self, g: Any) -> Any:
        p = self.params
        self.grads["scale"] = (g * self.h).sum(axis=0)
        dz = g * p["scale"] * (1 - self.h**2)
        self.grads["w"] = self.x.T @ dz
        return dz @ p["w"].T


def test_a_parameter_without_a_gradient_is_missed_beside_the_one_before_it() -> None:
    finding = verify.pair(Shifted(), draw(5, 3)).findings[0]
    assert finding.name.code == "dropped" and finding.input == "shift"
    assert finding.place is not None and '["scale"] =' in finding.place.text


def scattered(x: Any, to: Any, n: int) -> Any:
    y = np.zeros((n, x.shape[1]))
    np.add.at(y, to, x)
    return y


def gathered(g: Any, x: Any, to: Any, n: int) -> Any:
    dx = np.zeros_like(g)
    dx[: len(to)] = g[to]
    return dx


def test_a_number_that_says_how_long_an_axis_is_follows_it() -> None:
    assert not verify.pair(
        scattered, gathered, draw(6, 3), np.array([1, 4, 0, 5, 2, 2]), 6
    ).findings
