"""Hooks that change the gradient which they are given, and return nothing.

A hook that only looks (`log.append(g.abs_().mean())`) changes what all that follow get. One that
returns its gradient is meant to change it; so is `register_post_accumulate_grad_hook`. How much one
changes that returns another is a note: whether that is the loss's gradient nobody but its author
knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType
from typing import final

from chainrule.verify.finding import Finding, Level
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.record.torch_hooks import ROUNDED, Change, HookCalled, HookTap
from chainrule.verify.training.rules.finding import checked, finding
from chainrule.verify.training.text.hook_code import (
    Write,
    drawn_at,
    has_generator,
    returned_at,
    write_of,
)

_COLLECTIVE = frozenset({"all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather"})
"""What writes into what it is given, and is called for that."""
_RULE = "PyTorch: a hook should not modify its argument, but may return a new gradient"


@final
class Hooks(Part):
    """Finds `writes`, `hooked` and `not_deterministic` in hooks."""

    title = "hooks of the backward pass"

    def __init__(self, bus: Bus, tap: HookTap) -> None:
        super().__init__(bus)
        self._tap = tap
        self._calls: dict[CodeType, list[HookCalled]] = {}

    def listens(self) -> Handlers:
        """Calls of hooks; and backward passes, whose leaves may have some from before."""
        return {
            HookCalled: self._called,
            events.BackwardBegins: lambda e: self._tap.adopt(e.graph.leaves),
        }

    def _called(self, e: HookCalled) -> None:
        self._calls.setdefault(e.code, []).append(e)

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each hook that writes, returns another gradient, or draws random numbers."""
        if self._calls:
            checked(ledger, self.title, f"{len(self._calls)} hooks, values and versions")
        rows = [(code, [e for e in calls if e.what]) for code, calls in self._calls.items()]
        found = [_finding(code, written) for code, written in rows if written]
        found += [
            _replaces(code, changes)
            for code, written in rows
            if not written and (changes := _changes(self._calls[code]))
        ]
        drew = {
            code: sum([e.drew or (e.returned and has_generator(code)) for e in calls])
            for code, calls in self._calls.items()
        }
        return [*found, *[_random(code, n) for code, n in drew.items() if n >= 2]]


def _finding(code: CodeType, calls: Sequence[HookCalled]) -> Finding:
    write = write_of(code)
    line = code.co_firstlineno if write is None else write.line
    whole = max(calls, key=lambda e: e.change.share if e.change is not None else 0.0)
    because = f"the hook writes into {whole.what}, which it was given: {_change(whole)}"
    return finding(
        _level(code, calls, write),
        "writes",
        because,
        _advice(write),
        Place(code.co_filename, line, code.co_qualname),
        detail="it returns its gradient: it is meant" if whole.returned else _RULE,
        subject=code.co_qualname,
        evidence=[f"`{write.text}`"] if write is not None else [],
    )


def _changes(calls: Sequence[HookCalled]) -> list[Change]:
    """By how much a hook has changed gradients by what it returned, the largest change first."""
    changes = [e.instead for e in calls if e.instead is not None and e.instead.moved]
    return sorted(changes, key=lambda c: -c.share)


def _replaces(code: CodeType, changes: Sequence[Change]) -> Finding:
    most = f"the hook returns another gradient than it was given: {_in_numbers(changes[0])}"
    because = most + _by_factor([c.factor for c in changes])
    advice = "if it is meant, nothing is to be done; a hook that only looks returns nothing"
    place = Place(code.co_filename, returned_at(code), code.co_qualname)
    return finding("note", "hooked", because, advice, place, subject=code.co_qualname)


def _by_factor(factors: Sequence[float | None]) -> str:
    """What a hook has multiplied gradients by, if it has done so in each of its calls."""
    known = [f for f in factors if f is not None]
    if len(known) < len(factors):
        return ""
    low, high = min(known), max(known)
    if high - low > ROUNDED * abs(high):
        return f"; they are multiplied by another number in each call, {low:.6g} to {high:.6g}"
    if abs(high - 1) <= ROUNDED:
        return "; what has changed is 0, or was"
    return f"; what is not 0 is multiplied by {high:.6g}"


def _random(code: CodeType, times: int) -> Finding:
    because = (
        f"in {times} of its first calls the hook drew random numbers and returned a gradient: a "
        "second backward pass on the same values would give another one"
    )
    advice = "no random numbers in a backward pass; if the noise is meant, nothing is to be done"
    place = Place(code.co_filename, drawn_at(code), code.co_qualname)
    return finding("warning", "not_deterministic", because, advice, place, subject=code.co_qualname)


def _advice(write: Write | None) -> str:
    if write is None or write.alone:
        return "leave what it is given as it is, and return a new gradient"
    return f"`{write.text.removesuffix('_')}` in place of `{write.text}`"


def _change(call: HookCalled) -> str:
    if call.change is None:
        return "its version has changed"
    return _in_numbers(call.change) if call.change.moved else "no value has changed so far"


def _in_numbers(change: Change) -> str:
    elements = f"{change.moved} of {change.size} elements changed"
    return f"{elements}, the gradient by {change.share:.3g} of its norm"


def _level(code: CodeType, calls: Sequence[HookCalled], write: Write | None) -> Level:
    """An error, unless the write is a statement of its own; a note where nothing was harmed."""
    harm = [e for e in calls if not e.returned and (e.change is None or e.change.moved)]
    if not harm or (write is None and _COLLECTIVE.intersection(code.co_names)):
        return "note"
    return "warning" if write is not None and write.alone else "error"
