"""Modules that are a function and its settings: a row of a table is a class.

A row says the function, the settings with their defaults, by PyTorch's names, and what becomes of
them: `Row(f, {"negative_slope": 0.01}, {"negative_slope": "slope"})` is a module whose `forward(x)`
is `f(x, slope=...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Any, cast

from chainrule.errors import ConfigError
from chainrule.nn.base.module import Module
from chainrule.nn.base.row_examples import EXAMPLES

Check = tuple[Callable[[Any], bool], str]
"""Whether a setting makes sense, and the words for those that do."""


@dataclass(frozen=True)
class Row:
    """A function as a module."""

    f: Callable[..., Any]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """PyTorch's names and defaults; `...` for what has none."""
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    """The function's names, where they are others."""
    doc: str = ""
    shapes: str = "(*s) -> (*s)"
    inputs: tuple[str, ...] = ("x",)
    checks: Mapping[str, Check] = field(default_factory=dict[str, Check])
    kinds: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The types of settings whose default does not tell them."""


class FunctionModule(Module):
    """A module of a row; its settings are its attributes."""

    def __init__(self, *settings: Any, **by_name: Any) -> None: ...


def class_of_row(name: str, module: str, row: Row) -> type[FunctionModule]:
    """The class of a row, called `name`, as if it were written in `module`."""
    settings = list(row.settings)
    place = Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        Parameter(
            n,
            place,
            default=Parameter.empty if d is ... else d,
            annotation=row.kinds.get(n, _kind(d)),
        )
        for n, d in row.settings.items()
    ]
    signature = Signature([Parameter("self", place), *parameters], return_annotation=None)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 (that is its name)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for setting in settings:
            value = bound.arguments[setting]
            holds, words = row.checks.get(setting, (None, ""))
            if holds is not None and not holds(value):
                raise ConfigError(f"{name}: {setting} is {words}, not {value!r}")
            setattr(self, setting, value)

    def values(self: Any, *xs: Any) -> Any:
        return row.f(*xs, **{row.words.get(n, n): getattr(self, n) for n in settings})

    forward = _of_as_many(len(row.inputs), values)
    __init__.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    inputs = [Parameter(n, Parameter.POSITIONAL_ONLY) for n in row.inputs]
    forward.__signature__ = Signature(  # pyright: ignore[reportFunctionMemberAccess]
        [Parameter("self", Parameter.POSITIONAL_ONLY), *inputs]
    )
    forward.__doc__ = f"Shapes: {row.shapes}."
    doc = "\n\n".join([text for text in (row.doc, EXAMPLES.get(name)) if text])
    space = {"__init__": __init__, "forward": forward, "__doc__": doc, "__module__": module}
    return type(name, (FunctionModule,), space)


def _of_as_many(count: int, values: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes so many arrays."""

    def one(self: Any, x: Any) -> Any:
        return values(self, x)

    def two(self: Any, x: Any, y: Any) -> Any:
        return values(self, x, y)

    def three(self: Any, x: Any, y: Any, z: Any) -> Any:
        return values(self, x, y, z)

    def four(self: Any, x: Any, y: Any, z: Any, u: Any) -> Any:
        return values(self, x, y, z, u)

    return (one, two, three, four)[count - 1]


def _kind(default: Any) -> Any:
    """The kind of a setting, as its default is: a float may be any number."""
    known = isinstance(default, bool | int | float | str)
    return cast(Any, type(default)) if known else Any
