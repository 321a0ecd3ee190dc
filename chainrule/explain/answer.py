"""The answer of `why`, and paths through a graph in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chainrule.engine.node import Node
from chainrule.explain.words import quote
from chainrule.page.readable import Readable

_SHOWN = 12
"""Of a longer path only the two ends are shown."""


@dataclass(frozen=True)
class Why(Readable):
    """Why a gradient is None or zero, or that it is neither; `str()` says it in words.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> answer = cr.why((w * w).sum(), w)
    >>> type(answer).__name__
    'Why'
    """

    kind: str
    """`flows`, `zero`, `cut`, `unused`, `replaced`, `freed`, `constant` (p wants no gradient),
    `not a leaf`, `no graph` (the loss has none) or `unknown`."""
    reason: str
    """What happened, in a sentence or two."""
    op: str = ""
    """The op, or the call, where the gradient ends."""
    where: str = ""
    """`file:line` of that."""
    path: tuple[str, ...] = ()
    """From p towards the loss, as far as it is known, each step an op and its line."""
    advice: str = ""
    """What to do."""

    def __str__(self) -> str:
        lines = [self.reason]
        if self.where:
            lines.append(f"    {quote(self.where)}")
        if self.path:
            steps: Sequence[str] = self.path
            if len(steps) > _SHOWN:
                half = _SHOWN // 2
                left = f"... {len(steps) - 2 * half} more ..."
                steps = [*steps[:half], left, *steps[-half:]]
            lines += ["From p towards the loss:", *[f"  {step}" for step in steps]]
        if self.advice:
            lines.append(self.advice)
        return "\n".join(lines)


def step(name: str, where: str) -> str:
    """One step of a path in words."""
    return f"'{name}' at {quote(where)}"


def steps(nodes: Sequence[Node]) -> tuple[str, ...]:
    """A path in words."""
    return tuple([step(n.name, n.where) for n in nodes if n.op is not None])


def path_between(root: Node, end: Node) -> list[Node]:
    """The nodes of a shortest path from `end` (the older) to `root`, empty if there is none."""
    came: dict[Node, Node | None] = {root: None}
    queue = [root]
    for node in queue:
        if node is end:
            break
        for n in node.inputs:
            if n is not None and n.needs and n not in came:
                came[n] = node
                queue.append(n)
    if end not in came:
        return []
    path: list[Node] = []
    at: Node | None = end
    while at is not None:
        path.append(at)
        at = came[at]
    return path
