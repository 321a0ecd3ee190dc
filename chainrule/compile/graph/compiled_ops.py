"""Ops that only programs have that are compiled: none of them has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.engine.op import Op


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


class Otherwise(Op):
    """An op in its eager form; its last output is that nothing failed, False, if it did not raise.
    It stands in loops only, and has no derivative."""

    op: Op
    many = True

    @property
    def name(self) -> str:
        """That of the op."""
        return self.op.name

    def eval(self, *xs: Any) -> Any:
        """The op's outputs, and False."""
        ys = self.op.eval(*xs)
        return (*(ys if self.op.many else (ys,)), np.False_)

    def spec(self, *xs: Any) -> Any:
        """Those of the op; its arguments are arrays, never placeholders."""
        return self.op.spec(*xs)

    def reads(self, i: int) -> None:
        """No gradient flows."""
        return
