"""What hangs behind each user-defined Function in the graphs that a script ran backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor

from chainrule.verify.training.facts.names import parameter_names
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on

_NODES = 200_000
"""Larger graphs are not walked."""
_LISTED = 12
"""Parameters that are listed by name."""
_GRAPHS = 4
"""Graphs that are walked: the first ones."""


@final
class Graphs(Part):
    """Looks at the first graphs before they run backward.

    `is_wanted` is asked before each whether there is any Function to be looked for.
    """

    title = "graphs behind Functions"

    def __init__(self, bus: Bus, is_wanted: Callable[[], bool]) -> None:
        super().__init__(bus)
        self._is_wanted = is_wanted
        self._left = _GRAPHS
        self._behind: dict[str, dict[str, None]] = {}
        self._leaves: dict[str, list[Tensor]] = {}
        self.ran: set[str] = set()
        """Names of Functions through which a backward pass has gone."""

    @on(events.BackwardBegins)
    def _look(self, e: events.BackwardBegins) -> None:
        if not self._left or not self._is_wanted():
            return
        self._left -= 1
        for node in walk([r.grad_fn for r in e.roots if r.grad_fn is not None]):
            name = _function_name(node)
            if name and name not in self._behind:
                behind = walk([n for n, _ in node.next_functions if n is not None])
                names = [f for n in behind if (f := _function_name(n)) and f != name]
                self._behind[name] = dict.fromkeys(names)
                self._leaves[name] = [n.variable for n in behind if hasattr(n, "variable")]

    @on(events.BackwardEnds)
    def _has_run(self, e: events.BackwardEnds) -> None:
        if e.error is None:
            self.ran.update(self._behind)

    def upstream(self) -> Mapping[str, Sequence[str]]:
        """By class: names of other Functions and of parameters, in the order of the walk."""
        names = parameter_names(torch.nn.Module)
        out: dict[str, list[str]] = {}
        for name, others in self._behind.items():
            leaves = dict.fromkeys([names.get(id(leaf), "") for leaf in self._leaves[name]])
            out[name] = [*others, *_shorten([leaf for leaf in leaves if leaf])]
        return out


def _shorten(names: list[str]) -> list[str]:
    more = len(names) - _LISTED
    return names if more <= 0 else [*names[:_LISTED], f"{more} more parameters"]


def _function_name(node: Any) -> str:
    """Name of the user's class, empty for nodes of PyTorch's own."""
    made: Any = getattr(node.__class__, "_forward_cls", None)
    if made is None or made.__module__.startswith("torch."):
        return ""
    return made.__name__


def walk(roots: Sequence[Any]) -> list[Any]:
    """All nodes from `roots` on, each once."""
    seen: dict[Any, None] = dict.fromkeys(roots)
    stack = list(roots)
    while stack and len(seen) < _NODES:
        for node, _ in stack.pop().next_functions:
            if node is not None and node not in seen:
                seen[node] = None
                stack.append(node)
    return list(seen)
