"""The ops of an engine of the user's own as subjects, each in three uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, final

import numpy as np

from chainrule.verify.place import Place
from chainrule.verify.script.backwards.engine_kinds import Engine, adding
from chainrule.verify.subject import Array, Input, Subject

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
