"""NumPy's and SciPy's names: each is here, or the error says what to write, and that runs."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.names import numpy_names

SPECIAL: Any = import_module("scipy.special")
LINALG: Any = import_module("scipy.linalg")
X, Y = np.array([3.0, 2.5, 4.0]), np.array([1.5, 0.5, 2.0])
POSITIVE = np.array([[2.0, 0.5], [0.5, 1.0]])
WITHOUT_ADVICE = re.compile(r"has no attribute '\w+'$")


def said(home: Any, name: str) -> str:
    """What asking for a name says; nothing if it is there."""
    try:
        getattr(home, name)
    except AttributeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", numpy_names.SPECIAL)
def test_expressions_of_special_functions(name: str):
    written = numpy_names.SPECIAL[name]
    f = getattr(SPECIAL, name)
    true = f(X, Y) if "y" in written.replace("xlogy", "") else f(X)
    got = eval(written, {"cr": cr, "x": X, "y": Y})
    np.testing.assert_allclose(got, true, rtol=1e-12)


@pytest.mark.parametrize("name", numpy_names.LINALG)
def test_expressions_of_matrix_functions(name: str):
    x, y = POSITIVE, np.array([[1.0], [2.5]])
    f: Any = getattr(LINALG, name)
    given: dict[str, Any] = {
        "cho_solve": ((LINALG.cho_factor(x, lower=True), y)),
        "block_diag": (x, y),
    }
    true = f(*given.get(name, (x,)))
    got = eval(numpy_names.LINALG[name], {"cr": cr, "x": x, "y": y})
    np.testing.assert_allclose(
        got, np.triu(true[0]).T if name == "cho_factor" else true, atol=1e-12
    )


@pytest.mark.parametrize("name", numpy_names.INITIALIZERS)
def test_initial_values_by_other_names(name: str):
    x = cr.zeros((4, 3))
    assert eval(f"nn.init.{numpy_names.INITIALIZERS[name]}", {"nn": nn, "x": x}) is x
    assert said(nn.init, name).endswith(f"write nn.init.{numpy_names.INITIALIZERS[name]}")
    assert said(nn.init, "uniform").endswith("it fills its argument: write nn.init.uniform_(x)")


@pytest.mark.parametrize(
    ("home", "names"),
    [
        (cr, [n for n in dir(np) if n[0] != "_"]),
        (cr.special, SPECIAL.__all__),
        (cr.linalg, LINALG.__all__),
    ],
    ids=["numpy", "special", "linalg"],
)
def test_every_name_is_there_or_answered(home: Any, names: list[str]):
    silent = [n for n in names if WITHOUT_ADVICE.search(said(home, n))]
    assert not silent


def test_names_of_nobody_have_no_advice():
    for home in (cr, cr.special, cr.linalg, nn.init):
        assert WITHOUT_ADVICE.search(said(home, "nonsense"))


def test_what_is_said_to_take_tensors_does():
    """Of functions of one array: each gives a tensor, with a gradient where it has one."""
    taking = [n for n in dir(np) if said(cr, n).endswith(f"write np.{n}, which takes tensors")]
    assert len(taking) > 30
    for name in taking:
        f = getattr(np, name)
        if isinstance(f, np.ufunc) and f.nin == 1 and f.nout == 1 and "d->d" in f.types:
            y = f(cr.tensor(X, requires_grad=True))
            assert isinstance(y, cr.Tensor), name
            np.testing.assert_allclose(y.detach().numpy(), f(X))


@pytest.mark.parametrize("name", ["dot", "transpose"])
def test_products_and_transposes_are_those_of_any_array(name: str):
    assert ("x @ y" if name == "dot" else "cr.permute_dims(x, axes)") in said(cr, name)
