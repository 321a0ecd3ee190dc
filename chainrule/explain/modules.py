"""Which module made a node: the innermost of those during whose call it was made.

A module remembers its latest calls in serial numbers, which nodes have too. Calls that ran at the
same time in several threads cannot be told apart.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence

from chainrule.engine.node import Node
from chainrule.nn.base.module import Module


def owners(nodes: Sequence[Node]) -> dict[Node, str]:
    """For each of `nodes` the name of the module that made it, if one did that is still alive.

    The name is that in `named_modules` of the outermost module that was called, which itself goes
    by its class. Where several such made the nodes, that name stands before all others.
    """
    found = _innermost(sorted(nodes, key=lambda n: n.serial))
    roots = {id(root): root for root, _ in found.values()}  # a module need not be hashable
    names = _Names(list(roots.values()))
    return {node: names.of(root, module) for node, (root, module) in found.items()}


def _calls() -> list[tuple[int, int, Module]]:
    """The calls that are remembered, the latest first."""
    # by the type: isinstance would ask objects of other packages for their class, which can warn
    alive = [x for x in gc.get_objects() if Module in type(x).__mro__]
    calls = [(start, end, m) for m in alive for start, end in m.latest_calls()]
    return sorted(calls, key=lambda call: call[0], reverse=True)


def _innermost(nodes: Sequence[Node]) -> dict[Node, tuple[Module, Module]]:
    """The outermost and the innermost module whose calls made each of `nodes`, oldest first."""
    to_come = _calls()
    running = to_come[:0]
    found: dict[Node, tuple[Module, Module]] = {}
    for node in nodes:
        while to_come and to_come[-1][0] < node.serial:
            call = to_come.pop()
            while running and running[-1][1] < call[0]:
                running.pop()
            running.append(call)
        while running and running[-1][1] < node.serial:
            running.pop()
        if running:
            found[node] = running[0][2], running[-1][2]
    return found


class _Names:
    """Names of modules below `roots`, the modules that were called from outside of all."""

    def __init__(self, roots: Sequence[Module]) -> None:
        several: Counter[str] = Counter([type(root).__name__ for root in roots])
        seen: Counter[str] = Counter()
        self.below: dict[int, dict[int, str]] = {}
        for root in roots:
            kind = type(root).__name__
            seen[kind] += 1
            label = f"{kind} {seen[kind]}" if several[kind] > 1 else kind
            front = f"{label}." if len(roots) > 1 else ""
            below = root.named_modules()
            self.below[id(root)] = {id(m): front + n if n else label for n, m in below}

    def of(self, root: Module, module: Module) -> str:
        """The name of `module` below `root`; its class, if it is not an attribute of any there."""
        return self.below[id(root)].get(id(module), type(module).__name__)
