"""A warning where a plain number breaks a gradient, none where a number is only looked at."""

from __future__ import annotations

import linecache
import math
import warnings
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import LostGradientWarning

_files = count()
_STEPS = {"ceil", "floor", "isfinite", "isinf", "isnan"}


def function(body: str, **names: Any) -> Callable[..., Any]:
    """`def f(x)` with a body, in a file of its own: the warning is given once for a line."""
    text = "def f(x):\n" + "".join([f"    {line}\n" for line in body.split("; ")])
    file = f"<lost {next(_files)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = {"math": math, "np": np, "cr": cr, "a": np.zeros(2), "notes": [], **names}
    exec(compile(text, file, "exec"), space)
    return space["f"]


def takes_a_number(name: str) -> bool:
    try:
        return isinstance(getattr(math, name)(0.5), float | int)
    except (TypeError, ValueError):
        return False


MATH = [n for n in dir(math) if not n.startswith("_") and callable(getattr(math, n))]
OF_NUMBERS = [n for n in MATH if takes_a_number(n) and n != "trunc"]  # it refuses a tensor


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_functions_of_math(name: str):
    f = function(f"return math.{name}(x) * x")
    if name in _STEPS:  # their derivative is 0
        want = getattr(math, name)(0.5)
        assert cr.grad(f)(0.5).item() == want
        return
    with pytest.warns(LostGradientWarning) as seen:
        cr.grad(f)(0.5)
    written = f"write cr.{name}" if hasattr(cr, name) else "write functions of cr"
    assert f"math.{name}(x) makes a plain number" in str(seen[0].message)
    assert f": {written}. If none is to" in str(seen[0].message)
    assert (seen[0].filename, seen[0].lineno) == (f.__code__.co_filename, 2)


LOST = {
    "a[0] = x * x; return cr.sum(cr.asarray(a)) + 0 * x": "make the array by cr.zeros",
    "return float(x) * x": "leave float() out",
    "return float(x * x)": "leave float() out",
    "y = float(x); return y * x": "leave float() out",
    "return complex(x).real * x": "leave complex() out",
    "y = 0.0; y += math.sin(x); return y * x": "write cr.sin",
    "return np.sin(float(x)) * x": "leave float() out",
    "return cr.sum(cr.asarray([math.exp(x), x]))": "write cr.exp",
    "return math.hypot(x, 2.0) * x": "write cr.hypot",
    "from math import exp, sin; return exp(sin(x)) * x": "write cr.sin",
    "return math.modf(x)[0] * x": "write functions of cr",
    "return sum([math.exp(k * x) for k in range(3)]) * x": "write cr.exp",
}


@pytest.mark.parametrize("body", LOST)
def test_what_is_computed_with_is_lost(body: str):
    with pytest.warns(LostGradientWarning, match="makes a plain number") as seen:
        cr.grad(function(body))(0.5)
    assert LOST[body] in str(seen[0].message)


LOOKED_AT = (
    "print(float(x)); return x * x",
    "print(f'{x} {x:.3f} {float(x)}', '%.2f' % x, '{:.1f}'.format(x)); return x * x",
    "print('loss', math.exp(x), 100 * float(x)); return x * x",
    "notes.append(float(x)); return x * x",
    "notes[:] = [float(x)]; return x * x",
    "return x * x if float(x) > 0 and math.log(x) < 3 else x",
    "assert math.isfinite(x) and not math.isnan(x); return x * x",
    "return x * int(4 * x)",
    "return x * math.floor(4 * x)",
    "y = x.item(); return y * x",
    "y = math.sin(x.detach()); return y * x",
    "return bool(x) * x",
    "return math.sin(other) * x",
    "float(x); return x * x",
)


@pytest.mark.parametrize("body", LOOKED_AT)
def test_what_is_looked_at_is_silent(body: str):
    other = cr.tensor(0.5, requires_grad=True)  # it is not differentiated by
    cr.grad(function(body, other=other))(0.5)


def test_what_comes_beside_the_value_is_silent():
    f = function("return x * x, float(x)")
    assert cr.value_and_grad(f, has_aux=True)(0.5)[0][1] == 0.5


@pytest.mark.parametrize(
    "transform",
    [
        cr.grad, cr.value_and_grad, cr.jacobian, cr.hessian,
        lambda f: lambda x: cr.vjp(f, x),
        lambda f: lambda x: cr.jvp(f, (x,), (x,)),
        lambda f: lambda x: cr.hvp(f, (x,), (x,)),
        lambda f: cr.grad(lambda y: cr.grad(f)(y) * y),
    ],
)  # fmt: skip
def test_all_transforms_notice(transform: Any):
    with pytest.warns(LostGradientWarning):
        transform(function("return math.sin(x) * x"))(cr.tensor(0.5))


def test_a_number_of_an_outer_argument_is_noticed():
    f = function("return cr.grad(lambda y: y * y * math.sin(x))(x)")
    with pytest.warns(LostGradientWarning):
        cr.grad(f)(0.5)


def test_it_is_given_once_for_a_line():
    f = function("return math.sin(x) * x")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            cr.grad(f)(0.5)
    assert len(seen) == 1


def test_training_loops_are_silent():
    x, total = cr.tensor(0.5, requires_grad=True), 0.0
    for _ in range(3):
        loss = x * x
        loss.backward()
        total += float(loss) + math.sqrt(loss)
    assert cr.grad(lambda y: y * y)(0.5) == 1.0
    assert total > 0 and math.sin(x) > 0


def test_source_that_nobody_knows_is_noticed():
    space: dict[str, Any] = {"math": math}
    exec(compile("f = lambda x: math.sin(x) * x", "<unknown to all>", "exec"), space)
    with pytest.warns(LostGradientWarning, match="this line makes a plain number"):
        cr.grad(space["f"])(0.5)
