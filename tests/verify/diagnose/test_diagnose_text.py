"""What the text of a forward or backward tells, and which numbers are recognised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.verify.arrays.pair import subject_of_pair
from chainrule.verify.diagnose.constants import Symbol, recognise, value_of
from chainrule.verify.diagnose.text.forward import changes
from chainrule.verify.diagnose.text.source import line_of
from chainrule.verify.place import Place

AT_HAND = [Symbol("x.shape[0]", 5.0), Symbol("x.shape[1]", 7.0), Symbol("p", 0.3)]


@pytest.mark.parametrize(
    ("c", "text"),
    [
        (0.2, "1/x.shape[0]"),
        (5.0, "x.shape[0]"),
        (7**-0.5, "1/sqrt(x.shape[1])"),
        (-(7**0.5), "-sqrt(x.shape[1])"),
        (0.7, "1 - p"),
        (1 / 0.7, "1/(1 - p)"),
        (35.0, "x.shape[0]*x.shape[1]"),
        (0.8, "(x.shape[0] - 1)/x.shape[0]"),
        (2.0, "2"),
        (0.5, "1/2"),
    ],
)
def test_a_number_is_recognised(c: float, text: str) -> None:
    found = recognise(c, AT_HAND)
    assert found[0].text == text
    assert value_of(found[0], AT_HAND) == pytest.approx(c)


@pytest.mark.parametrize("c", [1.0, 0.0, 1.2345, float("nan"), float("inf")])
def test_what_is_no_number_at_hand_is_not_recognised(c: float) -> None:
    assert recognise(c, AT_HAND) == []


def test_a_number_has_another_value_at_another_shape() -> None:
    found = recognise(0.2, AT_HAND)[0]
    assert value_of(found, [Symbol("x.shape[0]", 10.0)]) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("y = exp(x)\n    ctx.save_for_backward(y)\n    y.mul_(2)\n", [("y", 3, 4)]),
        ("y = exp(x)\n    cache = (x, y)\n    y -= 1\n", [("y", 3, 4)]),
        ("self.x = x\n    x[0] = 0\n", [("x", 2, 3)]),
        ("ctx.x = x.clone()\n    y = ctx.x * 2\n    ctx.x.add_(1)\n", [("ctx.x", 2, 4)]),
        ("self.x = x\n    np.exp(x, out=x)\n", [("x", 2, 3)]),
        ("cache = (x,)\n    np.subtract(x, 1, x)\n", [("x", 2, 3)]),
        ("cache = (x,)\n    y = np.where(w, 1, x)\n", []),
        ("ctx.save_for_backward(w)\n    w.data.mul_(2)\n", [("w", 2, 3)]),
        ("for t in x:\n        np.tanh(t, out=h)\n        hs.append(h)\n", [("h", 4, 3)]),
        ("for t in x:\n        h = np.tanh(t)\n        hs.append(h)\n", []),
        ("y = exp(x)\n    y *= 2\n    ctx.save_for_backward(y)\n", []),
        ("ctx.save_for_backward(y)\n    out = y.pow_(2).mean()\n", [("y", 2, 3)]),
        ("ctx.save_for_backward(x)\n    x = x + 1\n    x += 1\n", []),
        ("a, b = x, y\n    b += 1\n", []),
        ("a = x\n    x += 1\n", []),
        ("y = x\n    x += 1\n", [("x", 2, 3)]),
    ],
)
def test_changes_after_keeping(
    text: str, found: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    file = tmp_path / "f.py"
    file.write_text(f"def forward(ctx, x, w):\n    {text}    return y\n", encoding="utf-8")
    assert [(c.name, c.kept, c.line) for c in changes(Place(str(file), 1))] == found


def test_the_line_of_a_gradient_is_where_it_got_its_value_last() -> None:
    made = subject_of_pair(_forward, _backward, (np.ones((2, 3)), np.ones((3, 3))))
    lines = [line_of(made, k) for k in (0, 1)]
    assert [p.text for p in lines if p is not None] == ["da = g @ b.T", "return da, a.T @ g"]


def _forward(a: Any, b: Any) -> Any:
    return a @ b


def _backward(g: Any, a: Any, b: Any) -> Any:
    da = g @ b.T
    return da, a.T @ g
