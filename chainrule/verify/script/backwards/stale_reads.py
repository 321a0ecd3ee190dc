"""Backwards that read a value outside which has changed since their forward ran.

A replay has one value for both, and finds nothing. So what was noted while the script ran (see
`pytorch/observing/outside_reads.py`) is put back: the forward runs with the value that it had, the
backward with the one that it found. It counts only if the gradient is right with the first one in
both places, and wrong so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np
from torch import Tensor
from torch.autograd import Function

from chainrule.verify.evidence import Evidence, Trial
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.measure.examine import examine
from chainrule.verify.place import Place
from chainrule.verify.pytorch.function_subject import KIND, FunctionSubject
from chainrule.verify.pytorch.observing.function_calls import Captured
from chainrule.verify.pytorch.observing.outside_reads import Changed, Noted, Outer, backward_code
from chainrule.verify.pytorch.sources import backward_of, having, saves_of
from chainrule.verify.repair.code.draft import UnreadableError
from chainrule.verify.repair.kept_on_ctx import kept
from chainrule.verify.subject import Array
from chainrule.verify.trees import tree_of
from chainrule.verify.user_code import place_of as defined
from chainrule.verify.user_code import text_of as source


def find_outdated(changes: Sequence[Changed], calls: Sequence[Captured]) -> list[Finding]:
    """A finding for each value that makes a gradient wrong. Runs the user's code, and changes what
    it reads meanwhile: for a copy of the process."""
    found = list[Finding]()
    for changed in changes:
        call = next((c for c in calls if c.function is changed.function), None)
        made = None if call is None else _Between(changed, call).finding()
        found += [] if made is None else [made]
    return found


@dataclass(frozen=True, eq=False)
class _Between:
    """A call of a Function, with a value that changes between its forward and its backward."""

    changed: Changed
    call: Captured

    def finding(self) -> Finding | None:
        """What it costs; None if nothing, or if the gradient is wrong as it is."""
        if not self._is_felt():
            return None
        evidence = self._examine(self._with_second_value())
        worst = max([t for t in evidence.trials if t.verdict == "wrong"], key=_error, default=None)
        if worst is None or self._examine(self.changed.function).wrong:
            return None
        return self._correct(self._state(evidence, worst))

    def _is_felt(self) -> bool:
        """Whether the gradient differs at all: a quick look."""
        with self.changed.being(self.changed.then):
            some = [self._subject(f) for f in (self.changed.function, self._with_second_value())]
            xs = some[0].values
            draw = np.random.default_rng(5)
            gs = [draw.normal(size=y.shape).astype(y.dtype) for y in some[0].forward(xs)]
            first, second = (s.pull(xs, gs) for s in some)
        return [_bytes(x) for x in first] != [_bytes(x) for x in second]

    def _subject(self, function: type[Function]) -> FunctionSubject:
        return FunctionSubject(function, self.call.args, replay=self.call.replay)

    def _examine(self, function: type[Function]) -> Evidence:
        """What is seen of a Function whose forward has the first value."""
        with self.changed.being(self.changed.then):
            return examine(self._subject(function))

    def _with_second_value(
        self, function: type[Function] | None = None, backward: Callable[..., Any] | None = None
    ) -> type[Function]:
        """A Function whose backward, its own or another one, finds the second value."""
        function = function or self.changed.function
        runs = backward or getattr(function, backward_of(function))

        @wraps(runs)
        def later(*args: Any) -> Any:
            with self.changed.being(self.changed.now):
                return runs(*args)

        return having(function, backward_of(function), later)

    def _state(self, evidence: Evidence, worst: Trial) -> Finding:
        """The finding: which outside value changed since the forward, and how far the gradient is
        off."""
        outer, function = self.changed.outer, self.changed.function
        because = (
            f"backward reads `{outer.text}`, which has changed since forward read it: "
            f"{_change(self.changed.then, self.changed.now)}"
        )
        right = "with the value that forward had, the gradient is right"
        return Finding(
            level="error",
            subject=function.__name__,
            kind=KIND,
            input=evidence.subject.inputs[worst.input].name,
            names=(Name("stale", because),),
            place=_line(function, outer),
            error=worst.error,
            tolerance=worst.tolerance,
            evidence=(right,),
        )

    def _correct(self, found: Finding) -> Finding:
        """With the change that keeps the value, tried."""
        function, outer = self.changed.function, self.changed.outer
        source = self._subject(function).source
        copied = self.changed.then.is_rewritten
        try:
            change = None if source is None else kept(source, outer.text, copied=copied)
        except UnreadableError:
            change = None
        if change is None:
            return replace(found, correction=Correction(f"keep `{outer.text}` on ctx in forward"))
        changed = having(function, saves_of(function), change.forward)
        evidence = self._examine(self._with_second_value(changed, change.backward))
        right = [t.error for t in evidence.trials if t.verdict == "right"]
        if evidence.wrong or not right:
            return replace(found, correction=Correction(change.correction.formula))
        shown = replace(change.correction, rechecked=True, error=max(right))
        return replace(found, correction=shown)


def _bytes(x: Array | None) -> bytes:
    return b"" if x is None else x.tobytes()


def _error(trial: Trial) -> float:
    return trial.error


def _change(then: Noted, now: Noted) -> str:
    """Both values, or by how much a tensor has changed."""
    a, b = then.value, now.value
    if not isinstance(a, Tensor):
        return f"{a:.6g} then, {b:.6g} now" if isinstance(b, float | int) else f"{a} then, now {b}"
    if not isinstance(b, Tensor) or a.shape != b.shape:
        return "a tensor of another shape, or none"
    moved, size = int((a != b).sum()), a.numel()
    return (
        f"{moved} of {size} elements are others"
        if size > 1
        else f"{a.item():.6g} then, {b.item():.6g} now"
    )


def _line(function: type[Function], outer: Outer) -> Place | None:
    """The line of the backward that reads it first."""
    code = backward_code(function)
    text, place = source(code), defined(code)
    if text is None or place is None:
        return place
    found = [n for n in ast.walk(tree_of(text[0])) if isinstance(n, ast.expr)]
    lines = [n.lineno for n in found if ast.unparse(n) == outer.text]
    return replace(place, line=text[1] + min(lines, default=1) - 1)
