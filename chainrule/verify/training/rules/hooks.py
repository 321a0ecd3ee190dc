"""Hooks that change the gradient which they are given, and return nothing.

A hook that only looks (`log.append(g.abs_().mean())`) changes what all that follow get. One that
returns its gradient is meant to change it; so is `register_post_accumulate_grad_hook`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from types import CodeType
from typing import final

from chainrule.verify.finding import Level
from chainrule.verify.place import Place
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.torch_hooks import HookCalled
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text.hook_code import Write, write_of

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
        return write_of(self.code)

    @property
    def written(self) -> list[HookCalled]:
        """Calls that did."""
        return [e for e in self.calls if e.what]

    @property
    def worst(self) -> HookCalled:
        """The one that changed most."""
        return max(self.written, key=lambda e: e.change.share if e.change is not None else 0.0)

    def at(self, line: int) -> Place:
        """A line of its own."""
        return Place(self.code.co_filename, line, self.code.co_qualname)


@final
class Hooks(Part):
    """Finds `writes` in hooks."""

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


def _advice(write: Write | None) -> str:
    if write is None or write.alone:
        return "leave what it is given as it is, and return a new gradient"
    return f"`{write.text.removesuffix('_')}` in place of `{write.text}`"


def _change(call: HookCalled) -> str:
    change = call.change
    if change is None:
        return "its version has changed"
    if not change.moved:
        return "no value has changed so far"
    elements = f"{change.moved} of {change.size} elements changed"
    return f"{elements}, the gradient by {change.share:.3g} of its norm"


def _level(code: CodeType, calls: Sequence[HookCalled], write: Write | None) -> Level:
    """An error, unless the write is a statement of its own; a note where nothing was harmed."""
    harm = [e for e in calls if not e.returned and (e.change is None or e.change.moved)]
    if not harm or (write is None and _COLLECTIVE.intersection(code.co_names)):
        return "note"
    return "warning" if write is not None and write.alone else "error"
