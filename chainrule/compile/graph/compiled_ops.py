"""Ops that only programs have: their derivatives have been taken, so that these have none."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

import numpy as np

from chainrule.engine.op import Op


class ProgramOp(Op, ABC):
    """An op that stands in programs only; abstract."""

    def reads(self, i: int) -> None:
        """No gradient flows."""
        return


class OpAround(ProgramOp):
    """One that does what another op does, and more; abstract."""

    op: Op

    @property
    def name(self) -> str:
        """That of the op."""
        return self.op.name


class Onto(OpAround):
    """x + op(values, places), where `op` scatters: (x, values, places) -> as x."""

    def eval(self, *xs: Any) -> Any:
        """A new array."""
        return xs[0] + self.op.eval(*xs[1:])

    def spec(self, *xs: Any) -> Any:
        """As x."""
        return xs[0]


class Fallback(OpAround):
    """An op in its eager form; its last output is that nothing failed, False, if it did not raise.
    It stands in loops only."""

    many: ClassVar[bool] = True

    def eval(self, *xs: Any) -> Any:
        """The op's outputs, and False."""
        ys = self.op.eval(*xs)
        return (*(ys if self.op.many else (ys,)), np.False_)

    def spec(self, *xs: Any) -> Any:
        """Those of the op; its arguments are arrays, never placeholders."""
        return self.op.spec(*xs)
