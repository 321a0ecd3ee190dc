"""The first NaN or infinity: which op made it, of what, where.

A result is bad if it has a NaN, or an infinity though all that went in was finite. What comes of a
bad value is bad by inheritance and leads back to where it began. An infinity that the program put
there itself (a mask of -inf) is none. All of that is a finding only if a loss or a gradient is not
finite in the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Pass
from chainrule.verify.training.facts.holders import age, node_of, tensors
from chainrule.verify.training.facts.loops import HandSteps
from chainrule.verify.training.facts.names import IdentityTable
from chainrule.verify.training.facts.values import describe, has_nan, is_finite
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.op_names import TAME, VIEWS
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.user_frames import here, placed


@dataclass(frozen=True)
class Origin:
    """Where a bad value began."""

    op: str
    place: Place | None
    inputs: tuple[str, ...]
    """What went in, to read."""
    output: str
    phase: str
    """"forward" or "backward"."""
    step: int
    data: bool = False
    """Whether what went in was bad already, and no op of the program had made it so."""
    half: bool = False
    """Whether it is a gradient in float16, which a scale by hand may have made too large."""


_PLACES = frozenset(
    {"masked_fill", "masked_fill_", "where", "full", "full_like", "fill_", "new_full", "triu",
     "tril", "empty", "empty_like", "new_empty", "empty_strided", "tensor"}
)  # fmt: skip
"""Ops that put numbers where the program says: no arithmetic."""
_CHAIN = 400
"""Nodes that one op may have made, at most."""


@final
class Bad(Part):
    """Finds `first_bad`."""

    title = "NaN and infinities"
    rows = (
        Row(
            "first_bad",
            lambda f: [f.found] if f.found is not None else [],
            lambda c: f"{c[0].op} in the {c[0].phase} pass of step {c[0].step}: {c[0].output}",
            lambda c: (
                "the values that come in are bad already: check the data (and what is loaded)"
                if c[0].data
                else f"keep the arguments of {c[0].op} away from where it has no finite value: "
                "clamp them, add a small number inside of it, or use its stable form"
            ),
            "error",
            place=lambda c: c[0].place,
            detail=lambda c: (
                f"{'; '.join(c[0].inputs)}; {c[1]} is not finite because of it"
                if c[0].inputs
                else ""
            ),
            subject=lambda c: c[0].op,
            kind="op",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._step = 1
        self._bad = IdentityTable[Origin](self._attend)
        self._heard = -1  # the newest node that has a hook
        self._back: Origin | None = None
        self._forward: Origin | None = None
        self._candidate: tuple[Origin, str] | None = None  # of the step that is running
        self._pass: Pass | None = None  # the backward pass that made it one
        self.found: tuple[Origin, str] | None = None
        """The first one, and what is not finite because of it."""
        self._optimized = False
        self._backward_at: Place | None = None
        self._hand = HandSteps()
        self._unused: tuple[Origin, str] | None = None  # until a step by hand has used it

    # --- forward

    @on(op_events.OpRan)
    def _ran(self, e: op_events.OpRan) -> None:
        look = e.name not in VIEWS
        if not look and not self._bad:
            return
        wild = e.name not in TAME
        for i, y in enumerate(e.outputs):
            if not (y.is_floating_point() or y.is_complex()):
                continue
            if look and (wild or y.dtype.itemsize < 4) and y.requires_grad:
                self._listen(y, e.since)
            total = e.total(i)
            if total is None or not math.isfinite(total):
                self._examine(e, y)

    def _examine(self, e: op_events.OpRan, y: Any) -> None:
        if (e.name in _PLACES and not self._bad) or is_finite(y):
            return
        inputs = [*e.inputs, *tensors(e.kwargs)]
        inherited = [self._bad.of(x) for x in inputs if x is not y]
        known = next((origin for origin in inherited if origin is not None), None)
        if known is None:
            known = self._born(e, inputs, y)
        if known is not None:
            self._bad.put(y, known)

    def _attend(self) -> None:
        """What is made of a bad value is bad as well."""
        self._bus.attend(self, len(self._bad) > 0)

    def _born(self, e: op_events.OpRan, inputs: Sequence[Any], y: Any) -> Origin | None:
        """Whether a value went bad here, not counting infinities that were put there."""
        if e.name in _PLACES:
            return None
        infinite = any(not is_finite(x) for x in inputs if x is not y)
        nan = has_nan(y)
        if not nan and (infinite or _has_infinity(e)):
            return None
        data = nan and any(has_nan(x) for x in inputs if x is not y)
        said = tuple(describe(f"argument {i}", x) for i, x in enumerate(inputs) if x is not y)
        origin = Origin(
            e.name, placed(here()), said, describe("result", y), "forward", self._step, data
        )
        self._forward = self._forward or origin
        return origin

    # --- backward

    def _listen(self, y: Any, since: int) -> None:
        """Hang on every node that an op has made; the nodes hold the hooks, we hold no node."""
        start, newest = max(since, self._heard + 1), age(y)
        if newest < start or (node := node_of(y)) is None:
            return  # it made none, or those of another result are the same
        self._heard = newest
        at = here()
        stack, seen = [node], set[Any]()
        while stack and len(seen) < _CHAIN:
            node = stack.pop()
            if node in seen or not start <= node._sequence_nr() <= newest:
                continue
            seen.add(node)
            node.register_hook(self._hook(node.name(), at))
            stack.extend([n for n, _ in node.next_functions if n is not None])

    def _hook(self, op: str, at: Any) -> Any:
        def after(bars: Any, gs: Any) -> None:
            if self._back is None and self._live:
                self._pulled(op, at, bars, gs)

        return after

    @property
    def _live(self) -> bool:
        return self._error is None and self._bus.hears(op_events.OpRan)

    def _pulled(self, op: str, at: Any, bars: Sequence[Any], gs: Sequence[Any]) -> None:
        """Note the first op whose gradients are not finite although what came in was."""
        try:
            some = [bar for bar in bars if bar is not None and bar.is_floating_point()]
            if all(is_finite(bar) for bar in some):
                return
            given = [g for g in gs if g is not None]
            if all(is_finite(g) for g in given):
                said = tuple([describe("incoming gradient", g) for g in given])
                bad = next(bar for bar in some if not is_finite(bar))
                result = describe("outgoing gradient", bad)
                name = op.removesuffix("0").removesuffix("Backward")
                half = str(bad.dtype) == "torch.float16"
                self._back = Origin(
                    name, placed(at), said, result, "backward", self._step, half=half
                )
        except Exception as error:
            self.failed(error)

    # --- consequences

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        self._settle()
        for root in e.roots:
            if not is_finite(root):
                origin = self._bad.of(root) or self._forward
                self._candidate = self._candidate or (origin and (origin, "the loss"))

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        self._backward_at = e.begin.place
        if self._back is not None:
            self._candidate = self._candidate or (self._back, "a gradient")
        self._back = None
        if self._candidate is not None and self._pass is None:
            self._pass = self.history.newest
        if not self._optimized and self._candidate is not None:
            if self._candidate[0].half:
                self._unused, self._candidate = self._candidate, None
                self._hand.remember(e)
            else:
                self.found = self.found or self._candidate

    @on(events.Given)
    def _given(self, e: events.Given) -> None:
        """Derivatives that were asked for, and are nothing but NaN."""
        lost = [g for g in e.gradients if g is not None and g.numel() and bool(g.isnan().all())]
        origin = self._back or self._forward
        if lost and origin is not None and all(map(is_finite, e.inputs)):
            self.found = self.found or (origin, "a derivative that was asked for")
            self._back = None

    def _settle(self) -> None:
        """Whether parameters were changed by hand with a bad gradient: one that is looked at and
        left is how a scale is found."""
        if self._unused is not None and self._hand.taken():
            self.found = self.found or self._unused
        self._unused = None

    @on(events.StepBegins)
    def _steps(self, e: events.StepBegins) -> None:
        """A step with gradients that are not finite: whatever began it is a mistake."""
        self._optimized = True
        if self.found is not None or e.closure:
            return
        if self._pass is not None and not self._pass.left:  # gradients that were reset unused
            self._candidate = self._pass = None
        if self._candidate is not None and self._candidate[1] == "the loss":
            self.found = self._candidate
            return
        if all(math.isfinite(norm) for norm in e.gradients.values()):
            return
        grads = [p.grad for p in e.params if p.grad is not None]
        bad = next((g for g in grads if not is_finite(g)), None)
        if bad is not None:
            self.found = self._candidate or (self._overflow(bad), "a gradient")

    def _overflow(self, bad: Any) -> Origin:
        """No op made it of finite numbers but by growing beyond what the dtype holds."""
        result = describe("a parameter's gradient", bad)
        return Origin("overflow", self._backward_at, (), result, "backward", self._step)

    @on(events.ScalerStepped)
    def _skipped(self, e: events.ScalerStepped) -> None:
        """Scaled gradients may be infinite, and are looked after; a loss that is bad may not."""
        if not e.skipped:
            return
        self._step += 1
        if self._candidate is not None and self._candidate[1] == "the loss":
            scaled = self._candidate[0].op == "mul"
            self.found = self.found or (None if scaled else self._candidate)
        self._candidate = self._pass = self._forward = None

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        self._step += 1
        self._candidate = self._pass = self._forward = None

    @on(events.Built)
    def _built(self, e: events.Built) -> None:
        self._optimized = True

    # --- cases

    def settle(self, ledger: Ledger) -> None:
        """A step by hand may have been the last thing that happened."""
        self._settle()

    def seen(self) -> Sequence[str]:
        """How many ops were seen."""
        return [f"{self._bus.ops} ops and their gradients"] if self._bus.ops else []


def _has_infinity(e: op_events.OpRan) -> bool:
    """Whether the program itself gives an infinity as a number."""
    numbers = [*e.args, *e.kwargs.values()]
    return any(isinstance(x, float) and math.isinf(x) for x in numbers)
