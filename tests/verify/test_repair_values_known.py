"""What the values of a backward should be is known from the forward alone, and tells the line:
where one function gives both, where names come out of a call, where arrays are filled by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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


def lifted(x: Any) -> Any:
    s = 1.0 / (1.0 + np.exp(-x))
    return x * s


def lifted_backward(g: Any, x: Any) -> Any:
    s = 1.0 / (1.0 + np.exp(-np.abs(x)))
    return g * (s + x * s * (1.0 - s))


def test_a_size_that_is_taken_too_much_is_right_for_one_sign_only() -> None:
    report = verify.pair(lifted, lifted_backward, draw(4, 5))
    code, line, after = told(report)
    assert code == "one_sided" and line.startswith("s = 1.0")
    assert after == "s = 1.0 / (1.0 + np.exp(-x))"


class Tagged:
    """Words looked up, made larger, and summed."""

    def __init__(self) -> None:
        self.params = {"words": 0.4 * draw(9, 4), "out": draw(4, 2, seed=1)}
        self.scale = 2.0

    def loss(self, ids: Any, y: Any) -> Any:
        p = self.params
        x = p["words"][ids] * self.scale
        h = np.tanh(x)
        off = h.mean(axis=1) @ p["out"] - y
        value = 0.5 * np.sum(off**2) / len(y)
        d_mean = off / len(y) @ p["out"].T
        dh = np.repeat(d_mean[:, None], ids.shape[1], axis=1) / ids.shape[1]
        dx = dh * (1 - h * h)
        d_words = np.zeros_like(p["words"])
        np.add.at(d_words, ids, dx)
        return value, {"words": d_words, "out": h.mean(axis=1).T @ off / len(y)}


def test_a_factor_is_missing_where_a_table_is_filled() -> None:
    ids = np.random.default_rng(5).integers(0, 9, size=(3, 5))
    code, line, after = told(verify.pair(Tagged().loss, ids, draw(3, 2, seed=2)))
    assert (code, line) == ("factor", "np.add.at(d_words, ids, dx)")
    assert after == "np.add.at(d_words, ids, dx * self.scale)"


class Placed:
    """Words and places, the places of as many as there are."""

    def __init__(self) -> None:
        self.params = {"words": draw(9, 4), "places": draw(7, 4, seed=1), "out": draw(4, seed=2)}

    def loss(self, ids: Any, y: Any) -> Any:
        p = self.params
        n = ids.shape[1]
        h = np.tanh(p["words"][ids] + p["places"][:n])
        off = h.sum(axis=1) @ p["out"] - y
        grads = {k: np.zeros_like(v) for k, v in p.items()}
        grads["out"] += h.sum(axis=1).T @ off
        dz = off[:, None, None] * p["out"] * (1 - h * h)
        self.fill(grads, ids, dz, n)
        return 0.5 * off @ off, grads

    def fill(self, grads: Any, ids: Any, dz: Any, n: int) -> None:
        np.add.at(grads["words"], ids, dz)
        grads["places"][:n] += dz.sum(axis=0)


class Forgotten(Placed):
    def loss(self, ids: Any, y: Any) -> Any:
        p = self.params
        n = ids.shape[1]
        h = np.tanh(p["words"][ids] + p["places"][:n])
        off = h.sum(axis=1) @ p["out"] - y
        grads = {k: np.zeros_like(v) for k, v in p.items()}
        grads["out"] += h.sum(axis=1).T @ off
        dz = off[:, None, None] * p["out"] * (1 - h * h)
        np.add.at(grads["words"], ids, dz)
        return 0.5 * off @ off, grads


def test_the_part_of_a_table_that_the_forward_reads_is_filled() -> None:
    ids, y = np.random.default_rng(5).integers(0, 9, size=(3, 5)), draw(3, seed=3)
    assert verify.pair(Placed().loss, ids, y).ok
    code, line, after = told(verify.pair(Forgotten().loss, ids, y))
    assert (code, line) == ("dropped", 'np.add.at(grads["words"], ids, dz)')
    assert 'grads["places"][:n] += dz.sum(axis=0)' in after


class Margins:
    """A hinge for each wrong class, as courses have it."""

    def __init__(self, *, whole: bool) -> None:
        self.params = {"w": draw(5, 4)}
        self.loss = self.right if whole else self.short

    def right(self, x: Any, y: Any) -> Any:
        rows = np.arange(len(x))
        scores = x @ self.params["w"]
        over = np.maximum(0, scores - scores[rows, y][:, None] + 1.0)
        over[rows, y] = 0
        d = (over > 0).astype(float)
        d[rows, y] -= d.sum(axis=1)
        return over.sum(), {"w": x.T @ d}

    def short(self, x: Any, y: Any) -> Any:
        rows = np.arange(len(x))
        scores = x @ self.params["w"]
        over = np.maximum(0, scores - scores[rows, y][:, None] + 1.0)
        over[rows, y] = 0
        d = (over > 0).astype(float)
        return over.sum(), {"w": x.T @ d}


@pytest.mark.parametrize("whole", [True, False])
def test_what_every_row_gets_comes_off_the_element_that_was_read(whole: bool) -> None:
    x, y = draw(7, 5, seed=1), np.random.default_rng(2).integers(0, 4, size=7)
    report = verify.pair(Margins(whole=whole).loss, x, y)
    if whole:
        assert report.ok, str(report)
        return
    code, line, after = told(report)
    assert code == "missing_term" and line == "d = (over > 0).astype(float)"
    assert after.endswith("d[rows, y] -= d.sum(axis=1)")


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
