"""One run of a function under observation: how the values of p travel, recorded or not.

Arrays are never written to, so an array's identity is its history: what an op made, what `detach`
and `no_grad` hand on, is followed from array to array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import is_recording
from chainrule.engine.node import Variable
from chainrule.engine.op import Op
from chainrule.engine.provenance import location, user_line
from chainrule.engine.watch import Watch, watching
from chainrule.errors import DtypeError, describe
from chainrule.explain.answer import Why, step
from chainrule.explain.kept_memory import owner
from chainrule.explain.words import quote

_HARMLESS = ("bool()", "detach()", ".data")
"""Ways off the graph that end no gradient, or are found where their values are used again."""


@dataclass
class _Event:
    """An op that ran: its inputs, their keys (see `_key`), the keys of what it made."""

    op: Op
    where: str
    xs: Sequence[Any]
    keys: list[int]
    ys: tuple[Any, ...]
    recording: bool
    output_keys: list[int] = field(default_factory=list[int])


def _key(x: Any) -> int:
    """What tells where a value comes from: the identity of the array that owns its memory."""
    value = x.value if isinstance(x, Variable) else x
    return id(value)


class Rerun:
    """`f` run once, and what was seen of `p` on the way; `loss` is its result."""

    def __init__(self, f: Callable[[], Any], p: Variable) -> None:
        self.p = p
        self.events: list[_Event] = []
        self.exits: list[tuple[Any, str, str]] = []
        with watching(Watch(on_op=self._on_op, on_leave=self._on_leave)):
            loss = f()
        if not isinstance(loss, Variable):
            where = f" Its number was taken at {quote(self.exits[-1][2])}." if self.exits else ""
            raise DtypeError(
                f"why: the function returned {describe(loss)}, which has no graph; let it return "
                f"the loss itself, a tensor.{where}"
            )
        self.loss = loss

    def _on_op(self, op: Op, xs: Sequence[Any], y: Any, alarm: bool) -> None:
        ys = tuple(y) if op.many else (y,)
        event = _Event(op, location(*user_line()), xs, [_key(x) for x in xs], ys, is_recording())
        event.output_keys = [id(part) for part in ys]
        self.events.append(event)

    def _on_leave(self, x: Variable, how: str) -> None:
        self.exits.append((x.value, how, location(*user_line())))

    # --- how far p gets

    def explain(self) -> Why:
        """Where the gradient of p is lost: the loss's recorded graph is known not to lead to p."""
        touched, alive = self._spread()
        on_way = self._leading_to_loss()
        uses = [e for e in self.events if any(k in touched for k in e.keys)]
        if not uses:
            return self._explain_number(touched) or Why(
                "unused", "The gradient of p is None: the function never used p.",
                advice="Is p the tensor that the function uses, or a copy, or an old one?",
            )  # fmt: skip
        for e in uses:
            if (
                not on_way.isdisjoint(e.output_keys)
                and (found := self._cut_at(e, alive)) is not None
            ):
                return found
        return self._explain_number(touched) or self._loose_end(uses[-1])

    def _spread(self) -> tuple[set[int], set[int]]:
        """The arrays that come of p at all, and those of them that a gradient could flow to."""
        touched, alive = {id(self.p.value)}, {id(self.p.value)}
        for e in self.events:
            if any(k in touched for k in e.keys):
                touched.update(e.output_keys)
                if e.recording and any(self._flows(e, i, alive) for i in range(len(e.xs))):
                    alive.update([id(y) for y in e.ys if np.asarray(y).dtype.kind in INEXACT])
        return touched, alive

    def _flows(self, e: _Event, i: int, alive: set[int]) -> bool:
        """Whether a gradient flows through `e` to its input i, and there belongs to p."""
        x = e.xs[i]
        linked = isinstance(x, Variable) and x.node is not None and x.node.needs
        return linked and e.keys[i] in alive and e.op.reads(i) is not None

    def _leading_to_loss(self) -> set[int]:
        """The arrays from which the loss was computed, whether that was recorded or not."""
        wanted = {id(self.loss.value)}
        for e in reversed(self.events):
            if not wanted.isdisjoint(e.output_keys):
                wanted.update(e.keys)
        return wanted

    def _cut_at(self, e: _Event, alive: set[int]) -> Why | None:
        """What ended the gradient's way at `e`, None if it did not end there."""
        for i, x in enumerate(e.xs):
            if e.keys[i] not in alive:
                continue
            if not isinstance(x, Variable) or x.node is None or not x.node.needs:
                return self._explain_detached(e, i)
            if not e.recording:
                return self._why(e, "ran under no_grad(), which records nothing", "no_grad()")
            if e.op.reads(i) is None:
                return self._why(e, f"has no derivative with respect to its input {i}")
            if all(np.asarray(y).dtype.kind not in INEXACT for y in e.ys):
                dtype = np.asarray(e.ys[0]).dtype
                return self._why(e, f"made {dtype} numbers, which have no derivative")
        return None

    def _why(self, e: _Event, what: str, op: str = "") -> Why:
        return Why(
            "cut",
            f"The gradient of p is lost at '{e.op.name}', which {what}:",
            op=op or e.op.name,
            where=e.where,
            path=self._path(e),
        )

    def _explain_detached(self, e: _Event, i: int) -> Why:
        """An array that belongs to the graph came into `e` without its node."""
        value = owner(e.xs[i].value if isinstance(e.xs[i], Variable) else e.xs[i])
        left = [(how, where) for x, how, where in self.exits if owner(x) is value]
        how, where = left[-1] if left else (f"a use of '{e.op.name}' outside the graph", e.where)
        return Why(
            "cut",
            f"The gradient of p is lost by {how}: what it gave enters '{e.op.name}' as a constant.",
            op=how,
            where=where,
            path=(*self._path(e)[:-1], step(how, where), step(e.op.name, e.where)),
            advice="Leave that call out where the gradient is to flow.",
        )

    def _path(self, end: _Event) -> tuple[str, ...]:
        """The ops from p to `end`, along the first inputs that come of p."""
        maker = {k: e for e in self.events for k in e.output_keys}
        touched, _ = self._spread()
        path = [end]
        while True:
            keys = [k for k in path[-1].keys if k in touched and k in maker]
            before = maker[keys[0]] if keys else None
            if before is None or before in path:
                break
            path.append(before)
        return tuple([step(e.op.name, e.where) for e in reversed(path)])

    def _explain_number(self, touched: set[int]) -> Why | None:
        """p left as a number: name the last line where it did, and where that number came back."""
        out = [(x, how, where) for x, how, where in self.exits if id(x) in touched]
        out = [(x, how, where) for x, how, where in out if how not in _HARMLESS]
        if not out:
            return None
        x, how, where = out[-1]
        return Why(
            "cut",
            f"The gradient of p is lost by {how}: it gives plain numbers, which know no graph.",
            op=how,
            where=where,
            path=tuple([f"the number {x.item():g} enters {line}" for line in self._returns(x)]),
            advice="Compute with the tensor itself.",
        )

    def _returns(self, x: Any) -> list[str]:
        """The ops into which the one number of `x` came back."""
        if x.size != 1:
            return []
        same = [
            e for e in self.events
            if any(isinstance(v, float | int) and v == x.item() for v in e.xs)
        ]  # fmt: skip
        return [step(e.op.name, e.where) for e in same[:3]]

    def _loose_end(self, e: _Event) -> Why:
        return Why(
            "unused",
            f"The gradient of p is None: p is used, last by '{e.op.name}', but the loss does not "
            "depend on what came of it:",
            op=e.op.name,
            where=e.where,
            path=self._path(e),
        )
