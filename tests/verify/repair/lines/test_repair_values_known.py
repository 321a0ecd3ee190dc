"""What the values of a backward should be is known from the forward alone, and tells the line:
where one function gives both, where names come out of a call, where arrays are filled by one."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def told(report: verify.Report) -> tuple[str, str, str]:
    """The name, the line and the corrected line of the first finding, which was tried."""
    finding = report.findings[0]
    assert finding.place is not None and finding.correction is not None
    assert finding.correction.rechecked, str(report)
    return finding.name.code, finding.place.text, finding.correction.after.strip()


class Scored:
    """A network whose middle layer has mean zero; its loss and gradients come together."""

    def __init__(self) -> None:
        self.params = {"u": draw(4, 6), "v": draw(6, seed=1), "scale": 1 + 0.3 * draw(6, seed=2)}

    def loss(self, x: Any, y: Any) -> Any:
        p = self.params
        a = x @ p["u"]
        c = a - a.mean(axis=0)
        h = np.tanh(c * p["scale"])
        off = h @ p["v"] - y
        return 0.5 * np.mean(off**2), self.gradients(x, c, h, off / len(y))

    def gradients(self, x: Any, c: Any, h: Any, d_off: Any) -> dict[str, Any]:
        dh = d_off[:, None] * self.params["v"]
        dz = dh * (1 - h * h)
        dc = dz * self.params["scale"]
        da = dc - dc.mean(axis=0)
        return {"u": x.T @ da, "v": h.T @ d_off, "scale": (dz * c).sum(axis=0)}


def scored(u: Any, v: Any, scale: Any, x: Any, y: Any) -> Any:
    a = x @ u
    c = a - a.mean(axis=0)
    h = np.tanh(c * scale)
    off = h @ v - y
    value = float(0.5 * np.mean(off**2))

    d_off = off / len(y)
    dh = d_off[:, None] * v
    dz = dh * (1 - h * h)
    dc = dz * scale
    da = dc
    return value, x.T @ da, h.T @ d_off, (dz * c).sum(axis=0)


def test_a_loss_with_its_gradients_tells_where_a_term_is_missing() -> None:
    model = Scored()
    p, x, y = model.params, draw(7, 4, seed=3), draw(7, seed=4)
    assert verify.pair(model.loss, x, y).ok
    code, line, after = told(verify.pair(scored, p["u"], p["v"], p["scale"], x, y))
    assert code in ("missing_term", "partly_detached")
    assert line == "da = dc" and after.startswith("da = dc - dc.mean(axis=0")


def parted(x: Any) -> Any:
    root = np.sqrt(1 + x * x)
    return x / root, root


def leaning(x: Any, w: Any) -> Any:
    _, root = parted(x)
    return np.tanh(-root / w)


def leaning_backward(g: Any, x: Any, w: Any) -> Any:
    bent, root = parted(x)
    y = np.tanh(-root / w)
    d_ratio = g * (1 - y * y)
    d_root = d_ratio / w
    d_x = bent * d_root
    return d_x, d_ratio * root / w**2


def test_a_sign_is_told_by_a_name_that_came_out_of_a_call() -> None:
    x, w = draw(5, 3), 1.5 + np.abs(draw(5, 3, seed=1))
    code, line, after = told(verify.pair(leaning, leaning_backward, x, w))
    assert (code, line) == ("sign", "d_root = d_ratio / w")
    assert after == "d_root = -d_ratio / w"


def steady(gate: Any, up: Any) -> Any:
    t = np.exp(-np.abs(gate))
    share = np.where(gate >= 0, 1.0, t) / (1.0 + t)
    return share * up


def steady_backward(g: Any, gate: Any, up: Any) -> Any:
    t = np.exp(-np.abs(gate))
    share = 1.0 / (1.0 + t)
    return g * up * share * (1.0 - share), g * share


def test_what_is_computed_again_and_is_right_is_left_alone() -> None:
    """`gate` starts like a cotangent's name, and is an argument of the forward."""
    report = verify.pair(steady, steady_backward, 2 * draw(5, 6), draw(5, 6, seed=1))
    code, line, _ = told(report)
    assert code in ("one_sided", "region") and line == "share = 1.0 / (1.0 + t)"


def test_marks_are_marks_at_other_sizes() -> None:
    """One of each row is 1: a loss of signs is right for such labels only."""

    def loss(w: Any, x: Any, marks: Any) -> Any:
        s = np.einsum("bd,bnd->bn", x @ w, x[:, None] + marks[..., None])
        value = np.logaddexp(0.0, -(2 * marks - 1) * s).sum()
        ds = 1 / (1 + np.exp(-s)) - marks
        return value, np.einsum("bi,bn,bnd->id", x, ds, x[:, None] + marks[..., None])

    marks = np.zeros((6, 4))
    marks[:, 0] = 1
    report = verify.pair(loss, draw(3, 3), draw(6, 3, seed=1), marks)
    assert report.ok, str(report)
