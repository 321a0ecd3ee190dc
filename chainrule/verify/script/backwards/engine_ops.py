"""Which classes of the user's are engines, objects that are numbers and know their derivatives; and
their ops as subjects, each in three uses.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.place import Place
from chainrule.verify.subject import Input, Subject
from chainrule.verify.user_frames import is_library


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


_POINTS = ((0.7, -1.3, 0.4, 1.9), (0.7, 1.3, 0.4, 1.9))
"""Numbers at which ops are tried: of both signs, else positive ones."""
_OTHERS = (1.1, 0.6, -0.8, 0.3)
USES = ("", ", one value twice", ", a value used again")
NUMBERS = "it computes with numbers"
WHAT = "scalar engine"


@final
class ScalarOp(Subject):
    """An op of an engine, for each of some numbers."""

    kind = WHAT

    def __init__(
        self, engine: Engine, name: str, op: Callable[..., Any], xs: Sequence[Array], how: str = ""
    ) -> None:
        self.name = f"{engine.kind.__name__}.{name}{how}"
        self.inputs = tuple([Input("ab"[i], x, True) for i, x in enumerate(xs)])
        self.place = _defined(engine.kind, name)
        self._engine = engine
        self.op = op
        """As a function of the engine's numbers."""

    def with_engine(self, engine: Engine) -> ScalarOp:
        """The same of an engine that runs back in another way."""
        return ScalarOp(engine, self.name, self.op, [x.value for x in self.inputs])

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """Number by number."""
        rows = [self._made(row)[0] for row in zip(*map(np.ravel, xs), strict=True)]
        number = self._engine.number
        return (np.array([float(getattr(y, number)) for y in rows]).reshape(np.shape(xs[0])),)

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """What `backward()` leaves in the arguments, times the cotangent."""
        bars: list[list[float]] = []
        for row in zip(*map(np.ravel, xs), strict=True):
            y, args = self._made(row)
            self._engine.run(y)
            bars.append([float(getattr(x, self._engine.gradient)) for x in args])
        columns = np.array(bars, float).reshape(-1, len(xs)).T
        return tuple([c.reshape(np.shape(xs[0])) * gs[0] for c in columns])

    @property
    def fixed(self) -> str:
        """There is no shape."""
        return NUMBERS

    @property
    def takes_cotangent(self) -> bool:
        """`backward()` begins with 1."""
        return False

    def _made(self, row: Sequence[Any]) -> tuple[Any, list[Any]]:
        args = [self._engine.kind(float(x)) for x in row]
        return self.op(*args), args


def subjects_of(engine: Engine) -> list[Subject]:
    """Its ops, each in three uses."""
    found: list[Subject] = []
    for name, op, count in engine.ops():
        numbers = next((p for p in _POINTS if _computes(engine, op, count, p)), None)
        if numbers is None:
            continue
        xs = [np.array(numbers), np.array(_OTHERS)][:count]
        found.append(ScalarOp(engine, name, op, xs))
        if count == 2:
            found.append(ScalarOp(engine, name, _twice(op), xs[:1], USES[1]))
        if (add := adding(engine)) is not None:
            found.append(ScalarOp(engine, name, _again(op, add), xs, USES[2]))
    return found


def _twice(op: Callable[..., Any]) -> Callable[..., Any]:
    def twice(x: Any) -> Any:
        return op(x, x)

    return twice


def _again(op: Callable[..., Any], add: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def again(x: Any, *others: Any) -> Any:
        return add(add(x, op(x, *others)), x)

    return again


def _computes(engine: Engine, op: Callable[..., Any], count: int, at: Sequence[float]) -> bool:
    with suppress(Exception):
        ys = [
            op(*[engine.kind(x), engine.kind(z)][:count]) for x, z in zip(at, _OTHERS, strict=True)
        ]
        return all(np.isfinite(float(getattr(y, engine.number))) for y in ys)
    return False


def _defined(kind: type[Any], name: str) -> Place | None:
    code = getattr(getattr(kind, name, None), "__code__", None)
    return None if code is None else Place(code.co_filename, code.co_firstlineno, code.co_qualname)
