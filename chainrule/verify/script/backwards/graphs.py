"""What hangs behind each user-defined Function in the graphs that a script ran backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from chainrule.verify.patches import Patches
from chainrule.verify.training.facts.names import parameter_names

_NODES = 200_000
"""Larger graphs are not walked."""
_LISTED = 12
"""Parameters that are listed by name."""
_GRAPHS = 4
"""Graphs that are walked: the first ones."""


class Graphs:
    """While it is on, looks at the first graphs before they run backward.

    `wanted` is asked before each whether there is any Function to be looked for.
    """

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._patches = Patches()
        self._left = _GRAPHS
        self._behind: dict[str, dict[str, None]] = {}
        self._leaves: dict[str, list[Tensor]] = {}

    def __enter__(self) -> Self:
        self._patches.put(torch.autograd, "backward", self._watched)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, t: TracebackType | None
    ) -> None:
        self._patches.undo()

    def _watched(self, backward: Any) -> Any:
        def observed(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self._left and self._wanted():
                self._left -= 1
                try:
                    self._look([tensors] if isinstance(tensors, Tensor) else list(tensors))
                except Exception:  # not ours to raise; victims are then not listed
                    self._left = 0
            return backward(tensors, *args, **kwargs)

        return observed

    def upstream(self) -> Mapping[str, Sequence[str]]:
        """By class: names of other Functions and of parameters, in the order of the walk."""
        names = parameter_names(torch.nn.Module)
        out: dict[str, list[str]] = {}
        for name, others in self._behind.items():
            leaves = dict.fromkeys([names.get(id(leaf), "") for leaf in self._leaves[name]])
            out[name] = [*others, *_short([leaf for leaf in leaves if leaf])]
        return out

    def _look(self, roots: Sequence[Tensor]) -> None:
        nodes = walk([r.grad_fn for r in roots if r.grad_fn is not None])
        for node in nodes:
            name = _function(node)
            if name and name not in self._behind:
                behind = walk([n for n, _ in node.next_functions if n is not None])
                others = dict.fromkeys([f for n in behind if (f := _function(n)) and f != name])
                self._behind[name] = others
                self._leaves[name] = [n.variable for n in behind if hasattr(n, "variable")]


def _short(names: list[str]) -> list[str]:
    more = len(names) - _LISTED
    return names if more <= 0 else [*names[:_LISTED], f"{more} more parameters"]


def _function(node: Any) -> str:
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
