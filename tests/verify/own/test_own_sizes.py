"""Objects and functions that keep a size of their own: the other sizes are tried all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule import verify

Array = np.ndarray[Any, Any]


class Linear:
    """Keeps how many it takes and gives; the batch is anybody's."""

    def __init__(self, n_in: int, n_out: int) -> None:
        rng = np.random.default_rng(0)
        self.n_in, self.n_out = n_in, n_out
        self.W = rng.normal(size=(n_in, n_out))
        self.b = rng.normal(size=n_out)

    def forward(self, x: Array) -> Array:
        """(n, n_in) to (n, n_out)."""
        assert x.shape[1] == self.n_in
        self.x = x
        return x @ self.W + self.b

    def backward(self, g: Array) -> Array:
        """Leaves dW and db."""
        self.dW = self.x.T @ g
        self.db = g.mean(0) * len(g)
        return g @ self.W.T


class ForFive(Linear):
    """The batch is written into the backward."""

    def backward(self, g: Array) -> Array:
        """Leaves dW and db."""
        self.dW = self.x.T @ g
        self.db = g.mean(0) * 5
        return g @ self.W.T


class Grid:
    """Keeps how many cells there are, of four rows and three columns; reads one more length."""

    def __init__(self) -> None:
        self.cells = 12

    def forward(self, x: Array) -> Array:
        """(n, rows, columns) to (n,)."""
        return x.sum((1, 2)) / self.cells

    def backward(self, g: Array, x: Array) -> Array:
        """As many cells as x has, which are as many as it keeps."""
        return np.ones(x.shape) * g[:, None, None] / x[0].size


def test_a_length_that_a_layer_keeps_stays_and_the_batch_changes() -> None:
    report = verify.pair(Linear(4, 3), np.random.default_rng(1).normal(size=(5, 4)))
    assert report.ok, str(report)
    assert "n_in = 4" in str(report)


def test_a_batch_in_the_code_is_found_though_the_layer_keeps_other_sizes() -> None:
    report = verify.pair(ForFive(4, 3), np.random.default_rng(1).normal(size=(5, 4)))
    [finding] = report.findings
    assert finding.names[0].code == "size"
    assert finding.correction is not None and "shape[0]" in (finding.correction.after or "")


def test_a_number_of_cells_keeps_rows_and_columns() -> None:
    report = verify.pair(Grid(), np.random.default_rng(1).normal(size=(2, 4, 3)))
    assert report.ok, str(report)


@pytest.mark.parametrize(("batch", "ok"), [("len(x)", True), ("5", False)])
def test_a_size_outside_of_both_functions_keeps_its_axis_only(batch: str, ok: bool) -> None:
    text = f"""
width = 4
def forward(x, w):
    return (x.reshape(-1, width) @ w).mean(0)
def backward(g, x, w):
    d = np.broadcast_to(g, (len(x), w.shape[1])) / {batch}
    return d @ w.T, x.reshape(-1, width).T @ d
"""
    space: dict[str, Any] = {"np": np}
    exec(text, space)
    rng = np.random.default_rng(2)
    args = rng.normal(size=(5, 4)), rng.normal(size=(4, 3))
    assert verify.pair(space["forward"], space["backward"], *args).ok is ok


WIDTH = 8


def halves() -> tuple[slice, slice]:
    """Where the two parts of a row stand."""
    return slice(WIDTH), slice(WIDTH, None)


class Beside:
    """Rows beside their tanh, whose width stands in this file."""

    def __init__(self, share: float = 0.5) -> None:
        self.W = np.random.default_rng(0).normal(size=2 * WIDTH)
        self.share = share

    def forward(self, x: Array) -> Array:
        """(n, WIDTH) to (n,)."""
        self.x, self.feat = x, np.concatenate([x, np.tanh(x * 0.5)], 1)
        return self.feat @ self.W

    def backward(self, g: Array) -> Array:
        """Leaves dW."""
        whole, part = halves()
        self.dW = self.feat.T @ g
        d = g[:, None] * self.W
        return d[:, whole] + d[:, part] * (1 - self.feat[:, part] ** 2) * self.share


class Forgotten(Beside):
    """Forgets the half."""

    def backward(self, g: Array) -> Array:
        """Leaves dW."""
        whole, part = halves()
        self.dW = self.feat.T @ g
        d = g[:, None] * self.W
        return d[:, whole] + d[:, part] * (1 - self.feat[:, part] ** 2)


def test_a_size_that_stands_outside_of_the_methods_stays() -> None:
    """Where a method has it from a function of its file, too: else corrections undo the size."""
    x = np.random.default_rng(1).normal(size=(5, WIDTH))
    right = verify.pair(Beside(), x)
    assert right.ok and "WIDTH = 8" in str(right), str(right)
    [finding] = verify.pair(Forgotten(), x).findings
    assert finding.name.code == "factor"
    changed = finding.correction
    assert changed is not None and changed.before is not None
    assert changed.before.strip().startswith("return d[:, whole]") and "\n" not in changed.before
