"""Pictures of scalar graphs: anything with `data`, `grad` and `_children` or `_prev`.

`_operands`, where there are such, also name the numbers that an op was applied to.

That is chainrule's own `Value`, and also the classes of micrograd and microgpt, which are read, not
imported: what one of them lacks (an op's name, a label, a line) is left out of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from chainrule.show.picture import Constant, Facts, Source, number
from chainrule.source_text import short_line


@final
class ScalarSource(Source):
    """The graph of a scalar value; gradients are those that its backward pass left."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._inputs: dict[int, tuple[Any, ...]] = {}

    @staticmethod
    def accepts(x: Any) -> bool:
        """Whether `x` has the attributes of a scalar in a graph."""
        return (
            _first(x, "data") is not None
            and _first(x, "_children", "_prev") is not None
            and (type(x).__module__ != "builtins")
        )

    @property
    def root(self) -> Any:
        """The value itself."""
        return self._root

    @property
    def hint(self) -> str:
        """A scalar without a gradient has not seen a backward pass."""
        return "–: call backward() first"

    def key(self, x: Any) -> Any:
        """The value itself."""
        return x if self.accepts(x) else None

    def inputs(self, node: Any) -> Sequence[Any]:
        """The values that it was computed from."""
        if isinstance(node, Constant):
            return ()
        got = self._inputs.get(id(node))
        if got is None:  # kept, so that what an engine makes on request is made once
            xs = _first(node, "_operands", "_children", "_prev") or ()
            got = tuple([x if self.accepts(x) else Constant(x) for x in xs])
            self._inputs[id(node)] = got
        return got

    def observe(self, nodes: Sequence[Any]) -> None:
        """Nothing: a scalar knows its value and its gradient."""

    def facts(self, node: Any, label: str) -> Facts:
        """Value, gradient, op, label and line."""
        if isinstance(node, Constant):
            return Facts("constant", "constant", label, value=number(node.value))
        leaf = not self.inputs(node)
        grad = _first(node, "grad")
        return Facts(
            kind="input" if leaf else "op",
            op="input" if leaf else str(_first(node, "_op") or "op"),
            label=label or str(_first(node, "label") or ""),
            value=number(node.data),
            grad="" if grad is None else number(grad),
            size=None if grad is None else abs(float(grad)),
            line=short_line(str(_first(node, "where", "_where") or "")),
        )


def _first(x: Any, *names: str) -> Any:
    """The first of these attributes that `x` has, None if it has none of them."""
    for name in names:
        got = getattr(x, name, None)
        if got is not None:
            return got
    return None
