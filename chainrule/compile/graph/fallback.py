"""The last resort of an op of which machine code does most."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.op import Op


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
