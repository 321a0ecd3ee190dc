"""Makes the methods of a tensor of its functions, by the table `names/methods.py`.

A function is loaded when its method is first asked for. From then on the class holds it under the
method's name, so that a call costs what a call of the function costs. A method `name_` assigns what
`name` gives: a graph that has read the old values keeps them.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import currentframe
from opcode import opmap
from sys import getrefcount
from typing import Any

from chainrule.engine.border import border, without_border
from chainrule.engine.doors import door
from chainrule.engine.lost_assignments import references_of_unheld_object
from chainrule.engine.op import Op
from chainrule.errors import ConfigError
from chainrule.names.methods import CAST, FORMS, IN_PLACE, METHODS, PROPERTIES

Function = Callable[..., Any]


class Method:
    """What a class holds under a method's name until it is first asked for."""

    def __init__(self, owner: type, name: str) -> None:
        self.owner = owner
        self.name = name

    def __get__(self, x: Any, cls: type) -> Any:
        made: Any = function_of(self.name)
        if self.name in PROPERTIES:
            made = property(made)
        setattr(self.owner, self.name, made)
        return made.__get__(x, cls)


def put_methods(cls: type) -> None:
    """Give `cls` every method of the table."""
    for name in METHODS:
        setattr(cls, name, _filling(name) if name.endswith("_") else Method(cls, name))
    for name in IN_PLACE:
        setattr(cls, f"{name}_", _in_place(name))


def function_of(name: str) -> Function:
    """The function that the method of that name is."""
    home, word = METHODS[name]
    if home == CAST:
        return _cast(name, word)
    found = getattr(import_module(home), word)
    if isinstance(found, Op):
        return _of_op(name, found)
    return border(found, name) if home == FORMS else found


def _of_op(name: str, op: Op) -> Function:
    """An op as a method; ops are no functions, which Python binds to objects."""

    def method(x: Any, /, *xs: Any, **unknown: Any) -> Any:
        return op(x, *xs, **unknown)

    made: Any = door(op) if op.takes == 1 and not op.many else method
    made.__name__, made.__qualname__ = name, f"Tensor.{name}"
    made.__doc__, made.__module__ = op.__doc__, "chainrule"
    made.__wrapped__ = op  # which may get its signature later
    return without_border(made)


def _cast(name: str, dtype: str) -> Function:
    """The method that converts to one dtype."""

    def method(x: Any, /) -> Any:
        return x.astype(getattr(import_module("chainrule"), dtype))

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__module__ = "chainrule"
    method.__doc__ = f"The same numbers as {dtype}: `x.astype(cr.{dtype})`."
    return border(method)


# --- In place ------------------------------------------------------------------------------------


def _zero(x: Any) -> Any:
    return 0


def _fill(x: Any, value: Any) -> Any:
    return value


def _copy(x: Any, source: Any) -> Any:
    return source


_NEW: dict[str, Function] = {
    "zero": border(_zero, "zero_"), "fill": border(_fill, "fill_"), "copy": border(_copy, "copy_"),
}  # fmt: skip
"""What is assigned by methods in place that have no counterpart without `_`."""


def _in_place(name: str) -> Function:
    """The method that assigns to its tensor what `name` gives, and returns it."""
    new = _NEW.get(name)

    def method(x: Any, /, *args: Any, **words: Any) -> Any:
        lost = getrefcount(x) <= _UNHELD and _is_result_dropped()
        values = new(x, *args, **words) if new else getattr(x, name)(*args, **words)
        if lost:
            raise _lost(f"{name}_")
        x[...] = values
        return x

    method.__name__, method.__qualname__ = f"{name}_", f"Tensor.{name}_"
    method.__module__ = "chainrule"
    method.__doc__ = f"`x[...] = x.{name}(...)`; returns x. Graphs keep the values that they read."
    return without_border(method)  # a frame more would hold x


def _filling(name: str) -> Function:
    """A method whose function itself changes its argument, and returns it."""

    def method(x: Any, /, *args: Any, **words: Any) -> Any:
        if getrefcount(x) <= _UNHELD and _is_result_dropped():
            raise _lost(name)
        return function_of(name)(x, *args, **words)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__module__ = "chainrule"
    method.__doc__ = f"`nn.init.{name}(x, ...)`; returns x."
    return without_border(method)  # a frame more would hold x


def _lost(name: str) -> ConfigError:
    """The error for a change of a tensor that nothing holds."""
    return ConfigError(
        f"{name}: this assignment would be lost: it changes a new tensor that nothing holds, for "
        "x.data, x.detach(), x[i] and x.T share no memory with x. Call it of the tensor itself, "
        f"for a parameter within no_grad(): p.{name}(...); for a part write x[i] = value"
    )


def _is_result_dropped() -> bool:
    """Whether what calls a method here is a statement: nothing takes what the method returns."""
    frame: Any = currentframe()
    frame = frame.f_back.f_back
    code, place = frame.f_code.co_code, frame.f_lasti + 2
    while code[place] == _CACHE:
        place += 2
    return code[place] == _POP


_UNHELD = references_of_unheld_object()
_CACHE, _POP = opmap["CACHE"], opmap["POP_TOP"]
