"""PyTorch's spellings that do not exist here: each is answered with what to write."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import DtypeError
from chainrule.names.module_calls import MODULE_CALLS
from chainrule.names.spellings import FUNCTIONS, LEFT_OUT, METHODS, MORE
from chainrule.nn import functional

SQUARE = np.array([[2.0, 0.5], [0.25, 3.0]], np.float32)


def tensor() -> Any:
    return cr.tensor(SQUARE, requires_grad=True)


PLACES: dict[str, Any] = {
    "cr": cr, "y": cr.tensor(SQUARE), "w": cr.tensor(SQUARE), "shape": (2, 2), "axes": (1, 0),
    "axis": 1, "axis1": 0, "axis2": 1, "source": 0, "destination": 1, "counts": (2, 2), "min": 0.0,
    "max": 1.0, "dtype": np.float64, "value": 3.0, "data": [1.0], "xs": [SQUARE, SQUARE], "seed": 3,
    "low": 0, "high": 4, "n": 5, "np": np, "count": 1, "weight": np.float32(0.5), "sizes": (1, 1),
    "widths": (1, 2), "i": 0, "mask": SQUARE > 1, "state": {"x": SQUARE},
}  # fmt: skip
"""What stands for the names in the hints."""


V, WHOLE = cr.tensor(SQUARE[0]), cr.tensor([[12, 18], [5, 7]])
OTHERS: dict[str, dict[str, Any]] = {
    "cross": {"x": cr.ones(3), "y": cr.ones(3)},
    "put": {"indices": 0},
    "addr": {"y": V, "w": V},
    "gcd": {"x": WHOLE, "y": WHOLE},
    "lcm": {"x": WHOLE, "y": WHOLE},
    "frexp": {"x": V},
    "dsplit": {"x": cr.ones((2, 3, 5))},
    "is_nonzero": {"x": cr.tensor(0.5)},
    "isreal": {"x": V + 1j},
    "take_along_dim": {"indices": np.array([[0], [1]])},
    "orgqr": {"tau": V},
    "ormqr": {"tau": V},
    "at": {"x": cr.tensor(SQUARE), "y": V},
    "choose": {"x": WHOLE % 2},
}
"""What stands for a name in one hint."""


@pytest.mark.parametrize("name", METHODS)
def test_what_a_hint_says_works(name: str, tmp_path: Path):
    x = cr.tensor(SQUARE / 4, requires_grad=name != "fill")
    exec(METHODS[name], {**PLACES, "x": x, "path": tmp_path / "x", **OTHERS.get(name, {})})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_hint_for_a_function_says_works(name: str):
    exec(FUNCTIONS[name], {**PLACES, "x": cr.tensor(SQUARE / 4)})


@pytest.mark.parametrize("name", [*METHODS, *FUNCTIONS, *LEFT_OUT])
def test_a_function_of_pytorch_names_ours(name: str):
    if hasattr(cr, name):
        assert name in METHODS  # a method that is a function here: of the same name
        return
    hint = LEFT_OUT.get(name) or f"write {FUNCTIONS.get(name) or METHODS[name]}"
    hint += MORE.get(name, "")
    said = f"module 'chainrule' has no attribute '{name}': {hint}"
    before, _, of_jax = message(lambda: getattr(cr, name)).partition("; or, for JAX's ")
    assert before == said
    assert not of_jax or of_jax.startswith(f"{name}, write ")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("conv2d", "nn.functional.conv2d"),
        ("relu6", "nn.functional.relu6"),
        ("cholesky", "linalg.cholesky"),
        ("rfft", "fft.rfft"),
        ("expit", "special.expit"),
        ("AdamW", "optim.AdamW"),
        ("Linear", "nn.Linear"),
    ],
)
def test_what_stands_in_a_part_of_the_package(name: str, hint: str):
    assert message(lambda: getattr(cr, name)).endswith(f": write cr.{hint}")
    eval(f"cr.{hint}")


@pytest.mark.parametrize("name", MODULE_CALLS)
def test_a_module_that_is_called(name: str):
    said = f"chainrule.{name} is a module and no function: {MODULE_CALLS[name]}"
    assert message(lambda: getattr(cr, name)(abs)) == said


def test_a_function_that_nobody_has():
    for name in ("nonsense", "__wrapped__", "_cat"):
        said = f"module 'chainrule' has no attribute '{name}'"
        assert message(lambda name=name: getattr(cr, name)) == said


@pytest.mark.parametrize("name", [*METHODS, *LEFT_OUT])
def test_a_method_of_pytorch_names_ours(name: str):
    x = tensor()
    with pytest.raises(AttributeError) as caught:
        getattr(x, name)
    hint = f"write {METHODS[name]}" if name in METHODS else LEFT_OUT[name]
    hint += MORE.get(name, "")
    assert str(caught.value) == f"'Tensor' object has no attribute '{name}': {hint}"
    assert not hasattr(x, name)
    assert getattr(x, name, 5) == 5


def message(action: Callable[[], Any]) -> str:
    with pytest.raises((AttributeError, TypeError)) as caught:
        action()
    return str(caught.value)


def test_what_is_a_function_here():
    x = tensor()
    front = "'Tensor' object has no attribute "
    assert message(lambda: x.elu()) == front + ("'elu': it is a function: write cr.elu(x, ...)")
    assert message(lambda: x.eigh()) == front + (
        "'eigh': it is a function: write cr.linalg.eigh(x, ...)"
    )


def test_what_works_in_place_there():
    x = tensor()
    assert message(lambda: x.elu_()).endswith(
        "'elu_': nothing is changed in place; it is a function: write cr.elu(x, ...), "
        "and use the result"
    )
    assert message(lambda: x.sort_()).endswith(
        "'sort_': nothing is changed in place; write cr.sort(x), cr.argsort(x), and use the result"
    )
    assert message(lambda: x.unsqueeze_(0)).endswith(
        "'unsqueeze_': it would be another shape: write x = x.unsqueeze(...)"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("unsqueeze", "write cr.expand_dims(x, ...)"),
        ("inverse", "write cr.linalg.inv(x, ...)"),
        ("hardshrink", "write cr.nn.functional.hardshrink"),
        ("view", "it is a method: write x.view(...)"),
        ("mH", "it is a method: write x.mH"),
        ("abs_", "it is a method: write x.abs_(...)"),
    ],
)
def test_what_is_a_method_here(name: str, hint: str):
    assert message(lambda: getattr(cr, name)).endswith(f"'{name}': {hint}")


def test_a_name_that_nobody_has():
    x = tensor()
    for name in ("nonsense", "nonsense_", "__array_interface__", "_repr_html_"):
        with pytest.raises(AttributeError) as caught:
            getattr(x, name)
        assert str(caught.value) == f"'Tensor' object has no attribute '{name}'"
        assert (caught.value.name, caught.value.obj) == (name, x)  # Python's own hint needs these


AXES = ("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var")


@pytest.mark.parametrize("method", [True, False])
@pytest.mark.parametrize("name", AXES)
def test_arguments_of_methods_and_functions(name: str, method: bool):
    x = tensor()
    call = getattr(x, name) if method else partial(getattr(cr, name), x)
    assert message(lambda: call(dim=0)) == f"{name} has no argument 'dim': write axis="
    assert (
        message(lambda: call(keepdim=True)) == f"{name} has no argument 'keepdim': write keepdims="
    )
    with pytest.raises(DtypeError, match="write axis="):
        call(dims=0)
    assert call(axis=0).shape == (2,)


@pytest.mark.parametrize("name", ["var", "std"])
def test_the_correction_of_a_variance(name: str):
    f = getattr(tensor(), name)
    assert message(lambda: f(unbiased=True)) == (
        f"{name} has no argument 'unbiased': write correction=1 for unbiased=True, "
        "correction=0 for False"
    )
    assert message(lambda: f(ddof=1)) == f"{name} has no argument 'ddof': write correction="


def test_nothing_is_promised_that_a_function_does_not_have():
    x = tensor()
    assert message(lambda: x.sum(unbiased=True)).endswith(
        "'unbiased': it takes x, axis, dtype, keepdims"
    )


def test_an_argument_that_nobody_has():
    x = tensor()
    assert message(lambda: x.sum(nonsense=1)).endswith(
        "'nonsense': it takes x, axis, dtype, keepdims"
    )


def test_an_error_from_within_is_left_alone():
    with pytest.raises(DtypeError, match=r"add: cannot be applied to"):
        cr.add(tensor(), None)
    assert isinstance(tensor().sum(), cr.Tensor)


def test_completion_offers_what_there_is():
    """Not the names that a tensor only knows to say what to write in their place."""
    offered = dir(cr.tensor([1.0]))
    assert {"sum", "backward", "grad", "T", "cumsum", "sin_"} <= set(offered)
    assert not {"cuda", "elu", "elu_", "sys", "TYPE_CHECKING"} & set(offered)
    assert all(hasattr(cr.tensor([[1j]]), name) for name in offered)
    assert not [name for name in dir(cr.Tensor) if not name.isidentifier()]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tensor().transpose(0, 1), "write swapaxes(0, 1)"),
        (lambda: nn.ReLU(True), "takes no argument by place: nothing is changed in place"),
        (lambda: functional.layer_norm(tensor(), (3,)), "leave PyTorch's normalized_shape out"),
        (lambda: functional.rms_norm(tensor(), (3,)), "weight is an array of shape "),
        (lambda: functional.embedding(WHOLE, tensor()), "the table comes first"),
        (lambda: cr.flatten(tensor(), start_dim=1), "write start_axis="),
        (lambda: cr.flatten(tensor(), 1, 0), "no axes from 1 to 0"),
        (lambda: tensor().max(1).values, "max, min, sort and median give values alone"),
        (lambda: tensor().max(1).indices, "write cr.argmax"),
    ],
)
def test_calls_as_in_pytorch_say_what_differs(call: Callable[[], Any], said: str):
    with pytest.raises(Exception) as caught:
        call()
    assert said in str(caught.value)
