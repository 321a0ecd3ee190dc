"""A scalar engine of the user's own (`Value(2.0) * x`, then `backward()`): its ops verified.

Such a class is known by what it does: it is made of one number, keeps that as an attribute, and
has a `backward` without arguments, after which another attribute of the result is 1. Each op is
checked by itself, then of one value twice, and of a value that is used again: there `=` for `+=`
shows.
"""

from __future__ import annotations

import ast
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np

from chainrule.engine.source_text import source_line
from chainrule.verify.certify import certify
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.observer import Observer
from chainrule.verify.place import Place
from chainrule.verify.script.sandbox.fork import LostError, apart, can_fork
from chainrule.verify.script.sandbox.quiet import confine
from chainrule.verify.subject import Array, Input, Subject
from chainrule.verify.trees import tree_of_file
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
_POINTS = ((0.7, -1.3, 0.4, 1.9), (0.7, 1.3, 0.4, 1.9))
"""Numbers at which ops are tried: of both signs, else positive ones."""
_OTHERS = (1.1, 0.6, -0.8, 0.3)
_USES = ("", ", one value twice", ", a value used again")
_NUMBERS = "it computes with numbers"
WHAT = "scalar engine"


@dataclass(frozen=True)
class Engine:
    """A class whose objects are numbers that know their derivatives."""

    kind: type[Any]
    number: str
    """The attribute that is the number."""
    gradient: str
    """The one that is the derivative, after `backward()`."""

    @staticmethod
    def of(kind: type[Any]) -> Engine | None:
        """What a class does, tried; None if it is another thing."""
        with suppress(Exception):
            made: Any = kind(0.7)
            before = _numbers(made)
            (number,) = [name for name, x in before.items() if x == 0.7]
            made.backward()
            (gradient,) = [n for n, x in _numbers(made).items() if x == 1 != before.get(n)]
            return Engine(kind, number, gradient)
        return None

    def ops(self) -> Iterator[tuple[str, Callable[..., Any], int]]:
        """Its ops: name, function and number of arguments."""
        for name in dir(self.kind):
            if name in _BINARY:
                yield name, _BINARY[name], 2
            elif name in _UNARY:
                yield name, _UNARY[name], 1
            elif not name.startswith("_") and self._is_op(name):
                yield name, operator.methodcaller(name), 1

    def _is_op(self, name: str) -> bool:
        """Whether a method gives a number of the same kind."""
        with suppress(Exception):
            method = getattr(self.kind, name)
            if inspect.isfunction(method) and name != "backward":
                return isinstance(method(self.kind(0.7)), self.kind)
        return False


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
        self._op = op

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """Number by number."""
        rows = [self._made(row)[0] for row in zip(*map(np.ravel, xs), strict=True)]
        number = self._engine.number
        return (np.array([getattr(y, number) for y in rows]).reshape(np.shape(xs[0])),)

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """What `backward()` leaves in the arguments, times the cotangent."""
        bars: list[list[float]] = []
        for row in zip(*map(np.ravel, xs), strict=True):
            y, args = self._made(row)
            y.backward()
            bars.append([getattr(x, self._engine.gradient) for x in args])
        columns = np.array(bars, float).reshape(-1, len(xs)).T
        return tuple([c.reshape(np.shape(xs[0])) * gs[0] for c in columns])

    @property
    def fixed(self) -> str:
        """There is no shape."""
        return _NUMBERS

    @property
    def takes_cotangent(self) -> bool:
        """`backward()` begins with 1."""
        return False

    def _made(self, row: Sequence[Any]) -> tuple[Any, list[Any]]:
        args = [self._engine.kind(float(x)) for x in row]
        return self._op(*args), args


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
            found.append(ScalarOp(engine, name, _twice(op), xs[:1], _USES[1]))
        if "__add__" in dir(engine.kind):
            found.append(ScalarOp(engine, name, _again(op), xs, _USES[2]))
    return found


def _numbers(x: Any) -> dict[str, float]:
    """Attributes that are numbers, also those in slots."""
    names = [n for n in dir(x) if not n.startswith("__")]
    return {n: v for n in names if isinstance(v := getattr(x, n, None), int | float)}


def _twice(op: Callable[..., Any]) -> Callable[..., Any]:
    def twice(x: Any) -> Any:
        return op(x, x)

    return twice


def _again(op: Callable[..., Any]) -> Callable[..., Any]:
    def again(x: Any, *others: Any) -> Any:
        return x + op(x, *others) + x

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


@final
class ScalarEngines(Observer):
    """Looks for such classes in the script and in the modules that it has loaded, once it has been
    observed."""

    def __init__(self) -> None:
        self._before = sys.modules.keys() - {"__main__"}

    def start(self) -> None:
        """Nothing: the classes are looked for at the end."""

    def step_done(self, step: int) -> None:
        """Nothing either."""

    def stop(self) -> None:
        """Nothing was put in place."""

    def findings(self, ledger: Ledger) -> list[Finding]:
        """What is wrong with their ops."""
        kinds = _classes(self._before)
        if not kinds or not can_fork():  # what their constructors do is not known
            return []
        try:
            found, done = apart(lambda: _certified(kinds))
        except LostError as error:
            ledger.skipped.append(Skipped(WHAT, f"could not be checked: {error}"))
            return []
        ledger.checked += done.checked
        ledger.skipped += done.skipped
        ledger.planted = ledger.planted or done.planted
        return found


def _certified(kinds: Sequence[type[Any]]) -> tuple[list[Finding], Ledger]:
    """In a copy of the process."""
    confine()
    engines = [engine for kind in kinds if (engine := Engine.of(kind)) is not None]
    found: list[Finding] = []
    ledger = Ledger()
    for engine in engines:
        subjects = subjects_of(engine)
        report = certify("script", subjects, ledger=ledger)
        found += [_named(engine, f) for f in _first_of_each(report.findings)]
        why = "not watched: the ops of its engine were verified one by one, its steps were not"
        ledger.skipped.append(Skipped(f"training by {engine.kind.__name__}", why))
    ledger.skipped = [row for row in ledger.skipped if row.why != _NUMBERS]
    return found, ledger


def _first_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """The finding of the plainest use of each op: what is wrong by itself is wrong in all uses."""
    plain = sorted(findings, key=lambda f: (_USES.index(_use(f)), f.input))
    ops = {f.subject.partition(",")[0]: f for f in reversed(plain)}
    return list(reversed(ops.values()))


def _use(f: Finding) -> str:
    return f.subject.removeprefix(f.subject.partition(",")[0])


def _named(engine: Engine, f: Finding) -> Finding:
    """Right by itself, and wrong where a value has two uses: what one gives replaces the other's
    gradient, if the text says so."""
    op = f.subject.partition(",")[0]
    lines = [] if not _use(f) or f.place is None else _assigning(f.place, engine.gradient)
    if not lines or f.place is None:
        return f
    because = f"{op} is right where its arguments have one use, and wrong where one has two"
    place = replace(f.place, line=lines[0])
    before = [source_line(place.file, n) for n in range(lines[0], lines[-1] + 1)]
    after = [
        line.replace(" = ", " += ", 1) if n in lines else line
        for n, line in enumerate(before, lines[0])
    ]
    advice = f"add to what is there: .{engine.gradient} += ..."
    correction = Correction(advice, "\n".join(before), "\n".join(after), place)
    name = Name("overwritten", because)
    return replace(f, names=(name,), place=place, correction=correction)


def _assigning(method: Place, gradient: str) -> list[int]:
    """Lines of a method that assign a gradient and add to none."""
    tree = tree_of_file(method.file)
    defined = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    inside = [n for f in defined if f.lineno == method.line for n in ast.walk(f)]
    return sorted([
        n.lineno for n in inside
        if isinstance(n, ast.Assign) and any(
            isinstance(t, ast.Attribute) and t.attr == gradient for t in n.targets
        )
    ])  # fmt: skip


def _classes(before: Set[str]) -> list[type[Any]]:
    """Classes of the user's with a `backward` of their own that takes nothing, but for those of
    modules that were there `before`."""
    found: dict[type[Any], None] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in before:
            continue
        if isinstance(file, str) and file.endswith(".py") and not is_library(file):
            found |= dict.fromkeys([x for x in vars(module).values() if _may_be(x)])
    return list(found)


def _may_be(x: Any) -> bool:
    code = getattr(getattr(x, "__dict__", {}).get("backward"), "__code__", None)
    return isinstance(x, type) and code is not None and code.co_argcount == 1
