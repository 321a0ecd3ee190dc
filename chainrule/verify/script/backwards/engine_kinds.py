"""Which classes of the user's are engines: objects that are numbers and know their derivatives."""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.where import is_library


def _divided(x: Any, y: Any) -> Any:
    return x / y


def _power(x: Any) -> Any:
    return x**3


_BINARY: dict[str, Callable[..., Any]] = {
    "__add__": operator.add, "__sub__": operator.sub, "__mul__": operator.mul,
    "__truediv__": _divided,
}  # fmt: skip


_UNARY: dict[str, Callable[..., Any]] = {
    "__neg__": operator.neg, "__pow__": _power, "__radd__": partial(operator.add, 1.5),
    "__rsub__": partial(operator.sub, 1.5), "__rmul__": partial(operator.mul, 1.5),
    "__rtruediv__": partial(_divided, 1.5),
}  # fmt: skip


@dataclass(frozen=True)
class Engine:
    """A class whose objects are numbers that know their derivatives."""

    kind: type[Any]
    number: str
    """The attribute that is the number."""
    gradient: str
    """The one that is the derivative, when it has been run back."""
    run: Callable[[Any], object]
    """What runs back from a result."""

    @staticmethod
    def of(kind: type[Any]) -> Engine | None:
        """What a class does, tried; None if it is another thing."""
        for run in _runs(kind):
            with suppress(Exception):
                made: Any = kind(0.7)
                before = _numbers(made)
                (number,) = [name for name, x in before.items() if x == 0.7]
                run(made)
                (gradient,) = [n for n, x in _numbers(made).items() if x == 1 != before.get(n)]
                return Engine(kind, number, gradient, run)
        return None

    def ops(self) -> Iterator[tuple[str, Callable[..., Any], int]]:
        """Its ops: name, function and number of arguments."""
        for name in dir(self.kind):
            if name in _BINARY:
                yield name, _BINARY[name], 2
            elif name in _UNARY:
                yield name, _UNARY[name], 1
            elif not name.startswith("_") and (count := self._arguments(name)):
                yield name, _method(name), count

    def _arguments(self, name: str) -> int:
        """Of how many numbers a method gives one of the same kind; 0 if it does not."""
        method = getattr(self.kind, name)
        if not inspect.isfunction(method) or name == "backward":
            return 0
        for args in ((0.7,), (0.7, 0.6)):
            with suppress(Exception):
                if isinstance(method(*map(self.kind, args)), self.kind):
                    return len(args)
        return 0


def _method(name: str) -> Callable[..., Any]:
    def call(x: Any, *others: Any) -> Any:
        return getattr(x, name)(*others)

    return call


def _runs(kind: type[Any]) -> Iterator[Callable[[Any], object]]:
    """What may run back from an object of a class."""
    if callable(getattr(kind, "backward", None)):
        yield lambda x: x.backward()
    for f in list(vars(sys.modules.get(kind.__module__, sys)).values()):
        if inspect.isfunction(f) and f.__module__ == kind.__module__ and _takes_one(f):
            yield f


def _takes_one(f: Callable[..., Any]) -> bool:
    """Whether a function has to be given one thing."""
    needed = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty]
    return len(needed) == 1


def adding(engine: Engine) -> Callable[[Any, Any], Any] | None:
    """How two numbers are added."""
    if hasattr(engine.kind, "__add__"):
        return operator.add
    return _method("add") if hasattr(engine.kind, "add") else None


def _numbers(x: Any) -> dict[str, float]:
    """Attributes that are numbers, also those in slots."""
    names = [n for n in dir(x) if not n.startswith("__")]
    held = {n: getattr(x, n, None) for n in names}
    return {n: v for n, x in held.items() if (v := _one_number(x)) is not None}


def _one_number(x: Any) -> float | None:
    array = cast("Array", x) if isinstance(x, np.ndarray) else None
    if array is not None and array.ndim == 0 and array.dtype.kind == "f":
        return float(array)
    return x if isinstance(x, int | float) else None


def classes(before: Set[str]) -> list[type[Any]]:
    """Classes of the user's that may be such engines, but for those of modules that were there
    `before`."""
    found: dict[type[Any], None] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in before:
            continue
        if isinstance(file, str) and file.endswith(".py") and not is_library(file):
            found |= dict.fromkeys([x for x in vars(module).values() if _may_be(x)])
    return list(found)


def _may_be(x: Any) -> bool:
    """Whether a class has a `backward` of its own that takes nothing, or computes with its own."""
    own: dict[str, Any] = dict(getattr(x, "__dict__", {}))
    code = getattr(own.get("backward"), "__code__", None)
    computes = not own.keys().isdisjoint(("__add__", "__mul__", "add", "mul"))
    back = code is not None and code.co_argcount == 1
    return isinstance(x, type) and (back or (computes and code is None))
