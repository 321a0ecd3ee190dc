"""An array to which what is scattered is added, where it lies."""

from __future__ import annotations

from typing import Any

from chainrule.op import Op


class Onto(Op):
    """x + scattered(values, places): (x, values, places) -> as x. It stands in programs that are
    scheduled only, and has no derivative."""

    scattered: Op

    @property
    def name(self) -> str:
        """That of the op that scatters."""
        return self.scattered.name

    def eval(self, *xs: Any) -> Any:
        """A new array."""
        return xs[0] + self.scattered.eval(*xs[1:])

    def spec(self, *xs: Any) -> Any:
        """As x."""
        return xs[0]

    def reads(self, i: int) -> None:
        """No gradient flows."""
        return
