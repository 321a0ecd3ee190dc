"""What a forward keeps in its first call must not be what later calls read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import verify

rng = np.random.default_rng(8)
TABLE: dict[Any, Any] = {}


class Rectify:
    """Keeps the mask of its first batch."""

    def __init__(self) -> None:
        self.mask: Any = None

    def forward(self, x: Any) -> Any:
        if self.mask is None or len(self.mask) != len(x):
            self.mask = x > 0
        return np.maximum(x, 0)

    def backward(self, g: Any) -> Any:
        return g * self.mask


class Dense:
    """Its weight's gradient alone is made of what was kept; gradients add up."""

    def __init__(self) -> None:
        self.W = rng.normal(size=(4, 3))
        self.dW = np.zeros_like(self.W)
        self.kept: dict[str, Any] = {}

    def forward(self, x: Any) -> Any:
        self.kept["x"] = self.kept.get("x", x)
        return x @ self.W

    def backward(self, g: Any) -> Any:
        self.dW = self.kept["x"].T @ g
        return g @ self.W.T


class Smooth:
    """The keeping is a method's of its own."""

    def forward(self, x: Any) -> Any:
        self._remember(np.tanh(x))
        return np.tanh(x)

    def _remember(self, y: Any) -> None:
        self.slope = getattr(self, "slope", 1 - y**2)

    def backward(self, g: Any) -> Any:
        return g * self.slope


class Right:
    """Keeps tables of sizes, a running mean, a count; sums up the gradients of several batches."""

    def __init__(self) -> None:
        self.scale = rng.uniform(0.5, 2, 3)
        self.d_scale = np.zeros(3)
        self.rows: Any = None
        self.mean, self.calls = np.zeros(3), 0

    def forward(self, x: Any) -> Any:
        if self.rows is None or len(self.rows) != len(x):
            self.rows = np.arange(len(x))
        self.mean, self.calls = 0.9 * self.mean + 0.1 * x.mean(axis=0), self.calls + 1
        self.x, self.best = x, x.argmax(axis=1)
        return self.scale * x * x[self.rows, self.best][:, None]

    def backward(self, g: Any) -> Any:
        top = self.x[self.rows, self.best][:, None]
        self.d_scale += (g * self.x * top).sum(axis=0)
        dx = g * self.scale * top
        dx[self.rows, self.best] += (g * self.scale * self.x).sum(axis=1)
        return dx


class Recurrent:
    """What one call leaves changes the next one's output: a state."""

    def __init__(self) -> None:
        self.h: Any = np.zeros(3)

    def forward(self, x: Any) -> Any:
        self.h = np.tanh(x + self.h)
        return self.h

    def backward(self, g: Any) -> Any:
        return g * (1 - self.h**2)


def test_what_the_first_call_kept_is_told_and_kept_anew() -> None:
    (finding,) = verify.pair(Rectify(), rng.normal(size=(5, 3))).findings
    assert finding.name.code == "stale"
    assert finding.place is not None and finding.correction is not None
    assert finding.place.text.startswith("if self.mask is None")
    assert finding.correction.rechecked
    assert finding.correction.after.strip() == "self.mask = x > 0"


def test_a_weight_gets_the_gradient_of_its_own_batch() -> None:
    (finding,) = verify.pair(Dense(), rng.normal(size=(5, 4))).findings
    assert (finding.name.code, finding.input) == ("stale", "W")
    assert finding.correction is not None and finding.correction.rechecked
    assert finding.correction.after.strip() == 'self.kept["x"] = x'


def test_another_method_may_keep_it() -> None:
    (finding,) = verify.pair(Smooth(), rng.normal(size=(5, 3))).findings
    assert finding.name.code == "stale"


@pytest.mark.parametrize("layer", [Right(), Recurrent()], ids=lambda x: type(x).__name__)
def test_sums_states_and_tables_are_nobody_s_mistake(layer: Any) -> None:
    report = verify.pair(layer, rng.normal(size=(5, 3)))
    assert report.ok, str(report)


def tabled(x: Any) -> Any:
    TABLE.setdefault(x.shape, np.cos(x))
    return np.sin(x)


def tabled_backward(x: Any, g: Any) -> Any:
    return g * TABLE[x.shape]


def test_a_table_of_values_is_filled_by_every_call() -> None:
    (finding,) = verify.pair(tabled, tabled_backward, rng.normal(size=(4, 3))).findings
    assert finding.name.code == "stale"
    assert finding.correction is not None and finding.correction.rechecked
    assert finding.correction.after.strip() == "TABLE[x.shape] = np.cos(x)"


class OnItsClass(cr.Function):
    """All calls read what the first one of their shape has left on the class."""

    slope: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        if OnItsClass.slope is None or OnItsClass.slope.shape != x.shape:
            OnItsClass.slope = cr.cos(x)
        return cr.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * OnItsClass.slope


def test_what_a_class_keeps_of_the_first_call_is_no_value_of_the_others() -> None:
    (finding,) = verify.function(OnItsClass, rng.normal(size=(4, 3))).findings
    assert finding.name.code == "stale"
    assert finding.place is not None and finding.place.text == "OnItsClass.slope = cr.cos(x)"
