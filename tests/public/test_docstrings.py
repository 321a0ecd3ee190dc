"""Every public name has a docstring of its own, and so has every public method of a class."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import chainrule as cr
from chainrule.engine.op import Op

SPACES = [
    "chainrule", "amp", "data", "explain", "fft", "interop.standard", "linalg",
    "models.generation", "models.gpt", "models.gpt2", "models.mlp", "models.scalar_gpt",
    "nn", "nn.functional", "nn.init", "optim", "parallel", "scalar", "show", "special",
    "traces.trace", "transforms.functional", "transforms.jacobians", "tree", "verify",
    "verify.reporting.report",
]  # fmt: skip
"""Modules whose public names a user calls."""


def names_of(space: ModuleType) -> list[str]:
    """Its public names: those that it lists, else those without an underscore."""
    return getattr(space, "__all__", None) or [n for n in dir(space) if not n.startswith("_")]


def is_ours(x: Any) -> bool:
    """Whether it is a class, a function or an op of chainrule's, not a dtype or a number."""
    kind = x if inspect.isclass(x) or inspect.isfunction(x) else type(x)
    return callable(x) and kind.__module__.split(".")[0] == "chainrule" and type(x) is not type(cr)


def own_docstring(x: Any) -> str:
    """The docstring that is stated for x itself, not for its class or for a base class."""
    if inspect.isclass(x):
        return vars(x).get("__doc__") or ""
    if isinstance(x, Op) and x.__doc__ == type(x).__doc__:
        return ""
    return x.__doc__ or ""


def members(of: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that the class itself defines."""
    for name, raw in vars(of).items():
        f = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
        if not name.startswith("_") and inspect.isfunction(f):
            yield name, f


def undocumented(space: ModuleType) -> list[str]:
    """Public names and methods without a docstring."""
    found: list[str] = []
    for name in names_of(space):
        x = getattr(space, name)
        if not is_ours(x):
            continue
        found += [] if own_docstring(x).strip() else [name]
        if inspect.isclass(x):
            bare = [k for k, f in members(x) if not (f.__doc__ or "").strip()]
            found += [f"{name}.{k}" for k in bare]
    return found


@pytest.mark.parametrize("name", SPACES)
def test_every_public_name_has_a_docstring(name: str):
    space = import_module(name if name == "chainrule" else f"chainrule.{name}")
    assert len([n for n in names_of(space) if is_ours(getattr(space, n))]) > 0
    assert undocumented(space) == []


def test_the_spaces_are_those_of_the_package():
    modules = [n for n in cr.__all__ if inspect.ismodule(getattr(cr, n))]
    assert set(modules) - {"models"} <= set(SPACES)


def test_a_docstring_of_a_row_is_that_of_the_function():
    assert "cosine" in (cr.cos.__doc__ or "")
    assert (cr.Value.exp.__doc__ or "").startswith("e to the power x.")


def test_what_has_no_docstring_is_noticed():
    def bare(x: Any) -> Any:
        return x

    class Half:
        """Has a method without one."""

        def method(self) -> None: ...

    class Inherits(Half):
        pass

    for x in (bare, Half, Inherits):
        x.__module__ = "chainrule.bare"
    space = ModuleType("chainrule.bare")
    vars(space).update(bare=bare, Half=Half, Inherits=Inherits, Op=Op)
    assert set(undocumented(space)) == {"bare", "Half.method", "Inherits"}
