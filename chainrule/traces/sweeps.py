"""Records the backward sweeps over tensors: what each rule was given, and what it made of it.

A sweep within another one is part of the op that runs it, and is not recorded: a checkpoint's, or
one that derives a rule from another. So is one over placeholders, which has no numbers: what `vmap`
makes of it runs as ops. The ops that rules apply are recorded only if the sweep is to be
differentiated itself.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.engine.graph import around
from chainrule.engine.node import Node as GraphNode
from chainrule.engine.node import Variable
from chainrule.engine.op import Spec
from chainrule.engine.watch import Watch, watching
from chainrule.ops.eager_kernels import fusing
from chainrule.traces.kept_values import Keeper, is_array
from chainrule.traces.local_derivatives.jacobians import local_of
from chainrule.traces.trace import Kept, Message, Sweep, gradient_sums

if TYPE_CHECKING:
    from chainrule.traces.tensors import TensorRecorder


@final
@dataclass(slots=True)
class _Pass:
    """A backward sweep in the making: numbers of events, gradients, messages."""

    record: bool
    seeds: dict[int, Kept]
    """There are none in a sweep over placeholders."""
    sent: list[tuple[int, int, int, Kept]] = field(default_factory=list[Any])
    """Sender, place, target, contribution."""
    gradients: dict[int, Kept] = field(default_factory=dict[int, Kept])
    arrived: dict[int, Kept] = field(default_factory=dict[int, Kept])
    """Gradients of leaves, after their hooks."""


@final
class SweepRecorder:
    """Records sweeps over the events of `ops`."""

    def __init__(self, ops: TensorRecorder, keeper: Keeper) -> None:
        self.passes: list[_Pass] = []
        self._ops = ops
        self._keeper = keeper
        self._thread = threading.get_ident()
        self._depth = 0

    @contextmanager
    def running(self) -> Generator[None]:
        """Within it, sweeps are recorded."""
        with watching(
            Watch(
                on_sweep_start=self._start_sweep,
                on_vjp=self._note_rule,
                on_sweep_end=self._end_sweep,
            )
        ):
            yield

    @property
    def has_passes(self) -> bool:
        """Whether a sweep was recorded."""
        return any(p.seeds for p in self.passes)

    @property
    def is_open(self) -> bool:
        """Whether ops that are applied now belong to the program."""
        return self._depth == 0 or (self._depth == 1 and self.passes[-1].record)

    def _is_foreign(self) -> bool:
        return threading.get_ident() != self._thread or _paused.get()

    def _start_sweep(
        self, walk: Sequence[GraphNode], seeds: Mapping[GraphNode, Any], on: bool
    ) -> None:
        if self._is_foreign():
            return
        self._depth += 1
        if self._depth == 1:
            kept: dict[int, Kept] = {}
            if not _is_of_placeholders(walk, seeds):
                kept = {self._number(n): self._keeper.keep(_plain(g)) for n, g in seeds.items()}
            self.passes.append(_Pass(on, kept))

    def _number(self, node: GraphNode) -> int:
        known = self._ops.number_of_node(node)
        return self._ops.adopt(node) if known is None else known

    def _note_rule(self, node: GraphNode, g: Any, bars: Sequence[Any], alarm: bool) -> None:
        if self._depth != 1 or self._is_foreign():
            return
        current = self.passes[-1]
        if not current.seeds:
            return
        sender = self._number(node)
        inputs = self._ops.events[sender].inputs
        current.gradients[sender] = self._keeper.keep(_gradient(g, node))
        for place, (target, bar) in enumerate(zip(node.inputs, bars, strict=True)):
            if bar is not None and target is not None:
                kept = self._keeper.keep(_gradient(bar, target))
                current.sent.append((sender, place, inputs[place], kept))

    def _end_sweep(self, arrived: Mapping[GraphNode, Any]) -> None:
        if self._is_foreign() or not self._depth:
            return
        self._depth -= 1
        if self._depth == 0:
            current = self.passes[-1]
            for node, g in arrived.items() if current.seeds else ():
                current.arrived[self._number(node)] = self._keeper.keep(_gradient(g, node))

    # --- the result

    def finish(self) -> tuple[Sweep, ...]:
        """The sweeps, with local derivatives."""
        with without_observers():
            return tuple([self._sweep(p) for p in self.passes if p.seeds])

    def _sweep(self, done: _Pass) -> Sweep:
        messages = tuple(
            [
                Message(sender, place, target, self._local(sender, place), bar)
                for sender, place, target, bar in done.sent
            ]
        )
        root = max(done.seeds)
        more = {i: g for i, g in done.seeds.items() if i != root}
        sums = gradient_sums(messages, done.seeds)
        return Sweep(root, done.seeds[root], messages, sums | done.arrived | done.gradients, more)

    def _local(self, sender: int, place: int) -> Any:
        e = self._ops.events[sender]
        assert e.op is not None
        return local_of(e.op, place, [self._value(i) for i in e.inputs], e.kept)

    def _value(self, number: int) -> Any:
        """What was kept of a value; a number of the program as a number."""
        e = self._ops.events[number]
        kept: Any = e.kept
        return kept.item() if e.spelled and is_array(kept) else kept


def _is_of_placeholders(walk: Sequence[GraphNode], seeds: Mapping[GraphNode, Any]) -> bool:
    values = [*map(_plain, seeds.values()), *[n.y for n in walk]]
    return any(isinstance(x, Spec) for x in values)


def _plain(x: Any) -> Any:
    return x.value if isinstance(x, Variable) else x


def _gradient(g: Any, node: GraphNode) -> Any:
    """A cotangent as users see it: of the node's dtype, and not conjugated; none of an op with
    several outputs."""
    value = _plain(g)
    if isinstance(value, tuple):
        return None
    array: Any = np.asarray(value)
    if array.dtype.kind == "c":
        array = np.conjugate(array) if np.dtype(node.dtype).kind == "c" else array.real
    return array if array.dtype == node.dtype else array.astype(node.dtype)


_paused: ContextVar[bool] = ContextVar("paused", default=False)


@contextmanager
def without_observers() -> Generator[None]:
    """Within it, ops go to nobody else, run one by one, and no sweep is recorded."""
    token, paused = around.set(None), _paused.set(True)
    try:
        with fusing(False):
            yield
    finally:
        around.reset(token)
        _paused.reset(paused)
