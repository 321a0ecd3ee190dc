"""chainrule's ops, made again with cuts open (see `rerun`), and constants of theirs (`numbers`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast, final

import numpy as np

from chainrule.engine.derive import pullback_nodes
from chainrule.engine.graph import order, recording, variable
from chainrule.engine.node import Node, Variable
from chainrule.ops.reductions.reduction import sum as total
from chainrule.verify.script.step.entries import Entry, Slot
from chainrule.verify.script.step.numbers import Left, Library, Values
from chainrule.verify.script.step.rerun import Rerun


@final
class OwnRerun(Rerun):
    """With chainrule's tensors, whose arrays nobody writes to."""

    def leaf(self, x: Any, by: Any = None) -> Any:
        """It shares its array with `x` if it is not moved."""
        value = x.value if by is None else (x.value + by).astype(x.value.dtype)
        return variable(np.asarray(value)).requires_grad_()

    def severed(self, x: Any) -> Any:
        """A leaf."""
        return self.leaf(x)

    def passed(self, leaf: Any) -> Any:
        """The leaf itself."""
        return leaf

    def made(self, entry: Entry, values: Mapping[int, Any], cut: int | None) -> Sequence[Any]:
        """With recording on or off, as it was."""
        args = [values[x.number] if isinstance(x, Slot) else x for x in entry.args]
        if cut is not None and entry.name in ("detach", "data"):
            return args[:1]
        with recording(cut is not None or not entry.cuts):
            y = entry.function(*args)
        return cast("tuple[Any, ...]", y) if isinstance(y, tuple) else (y,)

    def grads(
        self, ys: Sequence[Any], gs: Sequence[Any] | None, xs: Sequence[Any]
    ) -> Sequence[Any]:
        """Arrays, by one walk."""
        seeds: dict[Node, Any] = {}
        for y, g in zip(ys, gs or [np.ones(y.shape, y.dtype) for y in ys], strict=True):
            if y.node is not None and y.node.needs:
                seeds[y.node] = seeds[y.node] + g if y.node in seeds else g
        wanted = [x.node for x in xs]
        got = pullback_nodes(order(seeds, wanted), seeds, set(wanted), record=False, free=False)
        return [np.asarray(got[n]) if n in got else None for n in wanted]

    def norm(self, x: Any) -> float:
        """In float64."""
        return float(np.linalg.norm(np.abs(_array(x)).astype(np.float64)))

    def scaled(self, x: Any, by: float) -> Any:
        """In float64."""
        return np.asarray(x) * by

    def number(self, x: Any) -> float:
        """The one element."""
        return float(np.asarray(x.value).reshape(()))


@final
class Own(Library):
    """chainrule's tensors, and the arrays that its ops are given."""

    def has(self, x: Any) -> bool:
        """A tensor, array or NumPy number of floats."""
        array = x.value if isinstance(x, Variable) else x
        return isinstance(array, np.ndarray | np.generic) and cast(Any, array).dtype.kind == "f"

    def values(self, x: Any) -> Values:
        """In float64."""
        return np.array(_array(x), np.float64)

    def linear(
        self, x: Any, slope: Values, left: Sequence[Left], share: float
    ) -> tuple[Callable[..., Any], float]:
        """In the constant's own dtype."""
        value = _array(x)
        way = (share * slope).astype(value.dtype)

        def number(*now: Any) -> Any:
            y: Any = variable(value)
            for n, row in zip(now, left, strict=True):
                dtype = n.dtype
                moved = (n - row.x.astype(dtype)) * row.way.astype(dtype)
                y = y + way * total(moved).astype(value.dtype)
            return y

        return number, float(np.finfo(value.dtype).eps)


def _array(x: Any) -> Any:
    return np.asarray(x.value if isinstance(x, Variable) else x)
