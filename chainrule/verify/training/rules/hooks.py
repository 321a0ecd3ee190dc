"""Hooks that change the gradient which they are given, and return nothing.

A hook that only looks (`log.append(g.abs_().mean())`) changes what all that follow get. One that
returns its gradient is meant to change it; so is `register_post_accumulate_grad_hook`. How much one
changes that returns another is a note: whether that is the loss's gradient nobody but its author
knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import CodeType
from typing import final

from chainrule.verify.finding import Level
from chainrule.verify.place import Place
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.torch_hooks import ROUNDED, Change, HookCalled
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text import hook_code
from chainrule.verify.training.text.hook_code import Write

_COLLECTIVE = frozenset({"all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather"})
"""What writes into what it is given, and is called for that."""
_RULE = "PyTorch: a hook should not modify its argument, but may return a new gradient"


@final
class _Hook:
    """A hook, and its calls."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.calls: list[HookCalled] = []

    @property
    def name(self) -> str:
        """Its own."""
        return self.code.co_qualname

    @cached_property
    def write(self) -> Write | None:
        """Where its text writes into what it is given."""
        return hook_code.write_of(self.code)

    @property
    def written(self) -> list[HookCalled]:
        """Calls that did."""
        return [e for e in self.calls if e.what]

    @property
    def worst(self) -> HookCalled:
        """The one that changed most."""
        return max(self.written, key=lambda e: e.change.share if e.change is not None else 0.0)

    @property
    def changes(self) -> list[Change]:
        """By how much it has changed gradients by what it returned, the largest change first."""
        changes = [e.instead for e in self.calls if e.instead is not None and e.instead.moved]
        return sorted(changes, key=lambda c: -c.share)

    @property
    def draws(self) -> int:
        """In how many calls it drew random numbers, and returned something."""
        own = hook_code.has_generator(self.code)
        return sum([e.drew or (e.returned and own) for e in self.calls])

    def at(self, line: int) -> Place:
        """A line of its own."""
        return Place(self.code.co_filename, line, self.code.co_qualname)


@final
class Hooks(Part):
    """Finds `writes`, `hooked` and `not_deterministic` in hooks."""

    title = "hooks of the backward pass"
    rows = (
        Row(
            "writes",
            lambda f: [h for h in f.hooks if h.written],
            lambda h: (
                f"the hook writes into {h.worst.what}, which it was given: {_change(h.worst)}"
            ),
            lambda h: _advice(h.write),
            lambda h: _level(h.code, h.written, h.write),
            place=lambda h: h.at(h.write.line if h.write else h.code.co_firstlineno),
            detail=lambda h: "it returns its gradient: it is meant" if h.worst.returned else _RULE,
            subject="{name}",
            evidence=lambda h: [f"`{h.write.text}`"] if h.write is not None else [],
        ),
        Row(
            "hooked",
            lambda f: [h for h in f.hooks if h.changes and not h.written],
            lambda h: (
                "the hook returns another gradient than it was given: "
                f"{_in_numbers(h.changes[0])}{_by_factor([c.factor for c in h.changes])}"
            ),
            "if it is meant, nothing is to be done; a hook that only looks returns nothing",
            "note",
            place=lambda h: h.at(hook_code.return_line(h.code)),
            subject="{name}",
        ),
        Row(
            "not_deterministic",
            lambda f: [h for h in f.hooks if h.draws >= 2],
            "in {draws} of its first calls the hook drew random numbers and returned a gradient: a "
            "second backward pass on the same values would give another one",
            "no random numbers in a backward pass; if the noise is meant, nothing is to be done",
            "note",
            place=lambda h: h.at(hook_code.draw_line(h.code)),
            subject="{name}",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._hooks: dict[CodeType, _Hook] = {}

    @property
    def hooks(self) -> Sequence[_Hook]:
        """Those that were called."""
        return list(self._hooks.values())

    @on(HookCalled)
    def _called(self, e: HookCalled) -> None:
        self._hooks.setdefault(e.code, _Hook(e.code)).calls.append(e)

    def seen(self) -> Sequence[str]:
        """How many hooks there are."""
        return [f"{len(self._hooks)} hooks, values and versions"] if self._hooks else []


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
