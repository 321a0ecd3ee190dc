"""One compiled variant of a function: where its inputs come from at a call, where results go.

A state tensor's array is written in place if nobody else can see it, which reference counts prove.
Otherwise the tensor gets a new array: whoever kept the old one never sees it change.

Notation: `t` a state tensor, `a` its array, `g` its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.object_layout import READY
from chainrule.compile.runtime.backend import Run
from chainrule.compile.trace.guards.guards import Guards
from chainrule.compile.trace.state_inputs import OWN, Draw, Held, HeldGrad, HeldNumber
from chainrule.engine.graph import apply, variable
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.random import noting

MISFIT: Any = object()
"""What a call gives where the state is not as it was when the variant was traced."""


@final
@dataclass(eq=False, slots=True)
class Variant:
    """A compiled trace of a function.

    The inputs are, in order: the `args` (places among the leaves of the arguments), `held`, those
    of `grads` that are read or written, `numbers`, those of `draws` that are read.
    """

    run: Run
    args: list[int]
    changed: list[tuple[int, int]]
    """Arguments that get new values: (place among the leaves, place among the inputs)."""
    held: list[Held]
    grads: list[HeldGrad]
    numbers: list[HeldNumber]
    draws: list[Draw]
    truths: list[tuple[int, bool]]
    """Of which arguments, Python numbers, the function asked for the truth, and what it was."""
    returned: Sequence[Any]
    """The leaves of what it returns, `left.TENSOR` and `NUMBER` for those that are computed."""
    finish: Callable[[Sequence[Any]], Any]
    """From the results, arrays or tensors, to what the function returns."""
    op: Any
    """What a call is recorded as, if its results can be differentiated; otherwise None."""
    read: Guards
    """What the function read beside tensors."""
    fits: Callable[[Sequence[Any]], bool] | None = None
    """Whether the program holds for the sizes of these inputs, if it is not for all."""
    is_dead: bool = False
    """Whether a tensor that it needs was found not to exist any more."""
    seconds: float = 0.0
    """How long tracing and compiling took."""
    pause: int = 0
    """For how many calls no short way is prepared after the next one that is."""
    paused: int = 0
    """For how many calls none is prepared from now on."""

    @property
    def is_gone(self) -> bool:
        """Whether something that it needs does not exist any more."""
        return self.is_dead or not self.read.alive

    def call(self, leaves: Sequence[Any], *, fresh: bool = False) -> Any:
        """Run on the leaves of the arguments, or give `MISFIT` before anything is changed.

        `fresh`: the function was traced for this call, so that what it read is as it was but for
        what it wrote itself.
        """
        if not fresh and self.read.changed() is not None:
            return MISFIT
        inputs: list[Any] = []
        put = inputs.append
        for i in self.args:
            x = leaves[i]
            x = x.value if x.__class__ is Tensor else x
            put(x if x.__class__ is np.ndarray and x.flags.num & READY == READY else _contiguous(x))
        moved: list[tuple[Any, Any]] = []
        graded: list[tuple[Any, Any]] = []
        if not (
            self._state(put, moved)
            and self._grads(put, graded)
            and self._numbers(put)
            and all(bool(leaves[i]) is truth for i, truth in self.truths)
            and (self.fits is None or self.fits(inputs))
        ):
            return MISFIT
        drawn = self._draw(put) if self.draws else {}
        for _, place in self.changed:
            inputs[place] = inputs[place].copy()
        try:
            results = self.run(inputs) if self.op is None else self._record(leaves, inputs)
        except BaseException:  # nothing of the call happened
            for generator, state in drawn.items():
                generator.state = state
            raise
        for t, a in moved:
            t.value = a
        for extra, g in graded:
            extra.grad = g
        for i, place in self.changed:
            _change(leaves[i], inputs[place])
        return self.finish(results)

    def _draw(self, put: Callable[[Any], None]) -> dict[Any, Any]:
        """Draw what is to be drawn before the call; returns the generators' states before that."""
        with noting() as states:
            for draw in self.draws:
                x = draw.take()
                if draw.read:
                    put(_contiguous(x))
        return states

    def _state(self, put: Callable[[Any], None], moved: list[tuple[Any, Any]]) -> bool:
        """Whether the state tensors fit; notes in `moved` which get a new array afterwards."""
        for h in self.held:
            t = h.tensor()
            if t is None:
                self.is_dead = True
                return False
            a = t.value
            if (h.checked_array() is not a or t.node is not h.node) and not h.fits(a, t.node):
                return False
            if h.updated:
                if getrefcount(a) > OWN or not h.plain or self.op is not None:
                    a = a.copy(order="C")
                    moved.append((t, a))
            elif not h.plain:
                a = _contiguous(a)
            put(a)
        return True

    def _record(self, leaves: Sequence[Any], inputs: list[Any]) -> Sequence[Any]:
        """The results as tensors that can be differentiated."""
        sources = [leaves[i] for i in self.args] + [h.tensor() for h in self.held]
        nodes = [x.node if isinstance(x, Tensor) else None for x in sources]
        nodes += [None] * (len(inputs) - len(nodes))
        changed = {place for _, place in self.changed}  # of which the inputs are copies already
        kept = [
            a.copy() if isinstance(x, np.ndarray) and place not in changed else a
            for place, (x, a) in enumerate(zip(sources, inputs, strict=False))
        ]
        copies = [inputs[place].copy() for place in self.op.known.saved_inputs]
        xs = [*kept, *inputs[len(kept) :], *copies]
        nodes += [None] * len(copies)
        found = apply(self.op, *[variable(a, n) for a, n in zip(xs, nodes, strict=True)])
        opened = self.op.known.open
        ys = found if self.op.many else (found,)
        return [y if o else variable(y.value) for y, o in zip(ys, opened, strict=True)]

    def _grads(self, put: Callable[[Any], None], graded: list[tuple[Any, Any]]) -> bool:
        """Whether the gradients fit; notes in `graded` what they are to be afterwards."""
        for h in self.grads:
            t = h.tensor()
            if t is None or t.node is None or t.node.extra is None:
                return False
            extra = t.node.extra
            g = extra.grad
            if h.first is not None and (g is not None) is not h.first:
                return False
            if h.read or h.written:
                found = h.array(g)
                if found is None:
                    return False
                put(found[0])
                if found[1]:
                    graded.append((extra, variable(found[0])))
            if h.last is False:
                graded.append((extra, None))
        return True

    def _numbers(self, put: Callable[[Any], None]) -> bool:
        for n in self.numbers:
            value = n.read()
            if value is not n.last and not n.fits(value):
                return False
            put(n.array)
        return True


def _contiguous(x: Any) -> Array:
    array = np.asarray(x)
    return array if array.flags.num & READY == READY else array.copy(order="C")


def _change(x: Any, new: Array) -> None:
    """Give an argument that the function changed its new values, as eager code would have."""
    if isinstance(x, Tensor):
        x.value = new
        if not x.is_leaf:
            x.node = None
    else:
        x[...] = new
