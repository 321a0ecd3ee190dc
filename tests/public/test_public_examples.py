"""Every public name has an example, which runs with `cr`, `nn`, `optim` and `np` imported."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import pytest

import chainrule as cr
from chainrule.ops import descriptions, row_examples
from chainrule.ops.rows import Elementwise, rows
from tests.public import docstring_examples as examples

SPACES = (
    "chainrule", "amp", "data", "explain", "fft", "linalg", "models.gpt", "models.gpt2",
    "models.mlp", "models.scalar_gpt", "nn", "nn.functional", "nn.init", "optim", "parallel",
    "show", "special", "verify",
)  # fmt: skip
"""Modules whose names a user calls."""
PLAIN = ("nn.functional", "special")
"""Those that list nothing: whatever they have is public."""


OF_MODULES = {"watching"}
"""Whose examples use a name of their module as it is: tests/project/test_docs.py runs them."""


def names_of(space: str) -> Iterator[tuple[str, Any]]:
    """What can be called in a space, errors and types of annotations apart."""
    module = import_module(space if space == "chainrule" else f"chainrule.{space}")
    listed = getattr(module, "__all__", None)
    for name in listed or [n for n in dir(module) if not n.startswith("_")]:
        x = getattr(module, name)
        called = inspect.isclass(x) or inspect.isfunction(x) or isinstance(x, Elementwise)
        error = inspect.isclass(x) and issubclass(x, BaseException)
        ours = called and x.__module__.startswith("chainrule") and name[0] != "_"
        if ours and not error and (listed or space in PLAIN or x.__module__ == module.__name__):
            yield name, x


def without_example(found: Iterable[tuple[str, Any]]) -> list[str]:
    """The names whose docstring has none."""
    return [name for name, x in found if ">>> " not in (x.__doc__ or "")]


@pytest.mark.parametrize("space", SPACES)
def test_every_name_has_an_example(space: str):
    found = list(names_of(space))
    assert found
    assert without_example(found) == []


def test_the_names_are_all_that_can_be_called():
    counted = sum(len(list(names_of(space))) for space in SPACES)
    assert counted > 800
    assert {"exp", "grad", "Tensor", "softmax"} <= {name for name, _ in names_of("chainrule")}
    assert {"Conv2d", "ReLU"} <= {name for name, _ in names_of("nn")}


@pytest.mark.parametrize("space", SPACES)
def test_examples_print_what_they_say(space: str):
    documented = {name: x.__doc__ or "" for name, x in names_of(space)}
    found = [examples.test_of(n, doc) for n, doc in documented.items() if n not in OF_MODULES]
    assert examples.failures(found) == []


def test_each_example_of_a_row_is_of_a_row_with_a_description():
    assert row_examples.EXAMPLES.keys() == descriptions.DESCRIPTIONS.keys()
    assert (
        rows["exp"].__doc__
        == f"{descriptions.description('exp')}\n\n{row_examples.EXAMPLES['exp']}"
    )


def test_a_wrong_number_and_a_missing_example_are_seen():
    right = cr.exp.__doc__ or ""
    assert examples.failures([examples.test_of("exp", right)]) == []
    wrong = right.replace("2.718", "2.719")
    assert wrong != right
    assert len(examples.failures([examples.test_of("exp", wrong)])) == 1
    longer = right.replace("tensor([1.", "tensor([[1.")
    assert len(examples.failures([examples.test_of("exp", longer)])) == 1
    assert without_example([("exp", cr.exp), ("bare", lambda: None)]) == ["bare"]
