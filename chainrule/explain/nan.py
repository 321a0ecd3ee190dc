"""Which op made the first NaN: a trap to set beforehand, and a search afterwards.

The trap costs little because it looks only where the processor raised a floating-point flag, and
at what array libraries compute without flags (products of matrices, users' own code). A NaN that
was there before any op raises no flag; it is noticed where numbers are reduced to one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Never

from chainrule.engine.node import Node, Variable
from chainrule.engine.op import Op
from chainrule.engine.provenance import location, user_line
from chainrule.engine.watch import Watch, watching
from chainrule.errors import NonFiniteError
from chainrule.explain.bad_op import (
    BadOp,
    backward_bad,
    forward_bad,
    made_here,
    tangent_bad,
    value_of,
)
from chainrule.explain.search import explain_loss, first_bad, infinite_inputs
from chainrule.explain.words import bad, is_array, outputs_of
from chainrule.ops.contraction import MatMul
from chainrule.ops.families import Elementwise, Multilinear

__all__ = ["BadOp", "Trap", "first_bad", "trap_nan"]


@dataclass
class Trap:
    """What `trap_nan` gives: `bad_op` is the op that made the first NaN, None before."""

    inf: bool
    bad_op: BadOp | None = None

    def on_op(self, op: Op, xs: Sequence[Any], y: Any, alarm: bool) -> None:
        """Look at a result, if there is a reason to."""
        if not alarm and op.__class__ is Elementwise and y.shape != ():
            return  # nearly always
        if not (alarm or _sets_no_flag(op, y) or _single_nan(y)) or not _on_variables(xs):
            return
        values = [value_of(x) for x in xs]
        for part in outputs_of(y):
            if not bad(part, inf=self.inf).any():
                continue
            mask = made_here(values, part, inf=self.inf)
            if mask.any():
                cause = infinite_inputs([getattr(x, "node", None) for x in xs], values)
                self._spring(forward_bad(op, location(*user_line()), values, part, mask, cause))
            if _single_nan(y):
                found = explain_loss([x for x in xs if isinstance(x, Variable)], inf=self.inf)
                if found is not None:
                    self._spring(found)

    def on_vjp(self, node: Node, g: Any, bars: Sequence[Any], alarm: bool) -> None:
        """Look at the gradients that a rule made, if there is a reason to."""
        if alarm or (node.op.__class__ is not Elementwise and _sets_no_flag(node.op, bars[0])):
            found = backward_found(node, g, bars, inf=self.inf)
            if found is not None:
                self._spring(found)

    def on_jvp(self, node: Node, ts: Sequence[Any], y_dot: Any) -> None:
        """Look at a tangent: forward mode sees all of them, for it has no flags to go by."""
        for part in outputs_of(y_dot):
            if (
                part is not None
                and (found := tangent_bad(node, ts, part, inf=self.inf)) is not None
            ):
                self._spring(found)

    def _spring(self, found: BadOp) -> Never:
        self.bad_op = found
        raise NonFiniteError(str(found))


def backward_found(node: Node, g: Any, bars: Sequence[Any], *, inf: bool) -> BadOp | None:
    """The description of the rule of `node` if a gradient that it made is bad."""
    came = any(bad(value_of(c), inf=inf).any() for c in outputs_of(g) if c is not None)
    for i, bar in enumerate(bars):
        if bar is None or isinstance(bar, tuple) or not bad(value_of(bar), inf=inf).any():
            continue
        note = "The cotangent that arrived there was bad already." if came else ""
        return backward_bad(node, g, i, value_of(bar), note)
    return None


_LARGE = 1 << 15
"""From how many elements on a product of matrices may be computed by several threads."""


def _sets_no_flag(op: Op | None, made: Any) -> bool:
    """Whether `op` may have made a NaN without a floating-point flag that NumPy sees.

    NumPy reads the flags of products of matrices, too, but only those of its own thread.
    """
    if isinstance(op, Multilinear):
        return not isinstance(op, MatMul) or not is_array(made) or made.size >= _LARGE
    return op is not None and not op.quiet


def _single_nan(y: Any) -> bool:
    """Whether `y` is one number, and NaN."""
    return not isinstance(y, tuple) and y.shape == () and bool(y != y)


def _on_variables(xs: Sequence[Any]) -> bool:
    """Whether a user's op ran, rather than a part of a rule, which works on arrays."""
    return any(isinstance(x, Variable) for x in xs)


@contextmanager
def trap_nan(inf: bool = False) -> Generator[Trap]:
    """Within it, the first op that makes a NaN raises `NonFiniteError`, forward and backward.

    In forward mode (`jvp`), too. With `inf`, also the first that makes an infinity. The error names
    the op, the user's line, the ranges of its inputs and the element; `Trap.bad_op` has the same as
    fields. Every thread is watched; compiled steps are not. Ops on plain arrays are not looked at.

    >>> import chainrule as cr
    >>> x = cr.tensor([1.0, 0.0], requires_grad=True)
    >>> with cr.trap_nan():
    ...     y = x.log() * x
    Traceback (most recent call last):
        ...
    chainrule.errors.NonFiniteError: NaN made by 'mul' at
    ...
    """
    trap = Trap(inf)
    with watching(Watch(on_op=trap.on_op, on_vjp=trap.on_vjp, on_jvp=trap.on_jvp)):
        yield trap
