"""Losses that are counted again: what was differentiated is a part of a later loss, and its
gradients are still there.

A running total that keeps its graph (`total = total + loss; total.backward(retain_graph=True)`)
gives the first loss's gradient once more with each loss that follows.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from chainrule.source_text import source_line
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.training.facts import holders
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Handlers, Part
from chainrule.verify.training.rules.finding import checked, finding
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.trees import tree_of_file

_TIMES = 2
"""Backward passes of which it must be so."""


@dataclass(frozen=True)
class _Pass:
    """A backward pass since the last step."""

    roots: frozenset[int]
    """Serial numbers of the nodes from which it began."""
    tokens: Mapping[int, tuple[int, ...]]
    """How the gradients that it made looked then, by id of the parameter."""


@final
class Counted(Part):
    """Finds `graph_kept` within a step."""

    title = "losses that are differentiated again"

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._open: list[_Pass] = []
        self._count = 0
        self._again = Counter[Place]()

    def listens(self) -> Handlers:
        """Backward passes and steps."""
        return {
            events.BackwardBegins: self._begins,
            events.BackwardEnds: self._ends,
            events.StepEnds: self._stepped,
        }

    def _begins(self, e: events.BackwardBegins) -> None:
        self._count += 1
        serials = set(e.graph.serials)
        inside = [p for p in self._open if p.roots <= serials]
        token = e.engine.token
        now = {id(x): token(x.grad) for x in e.graph.leaves if x.grad is not None} if inside else {}
        if e.place is not None and any(p.tokens.items() & now.items() for p in inside):
            self._again[e.place] += 1

    def _ends(self, e: events.BackwardEnds) -> None:
        nodes = [holders.age(x) if _is_whole(x) else 0 for x in e.begin.roots]
        tokens = {key: e.tokens[key] for key in e.touched if key in e.tokens}
        self._open = [  # what was added to is another gradient now, of which it is a part still
            _Pass(p.roots, {key: tokens.get(key, t) for key, t in p.tokens.items()})
            for p in self._open
        ]
        if e.error is None and tokens and e.begin.retained and all(nodes):
            self._open.append(_Pass(frozenset(nodes), tokens))

    def _stepped(self, e: events.StepEnds) -> None:
        self._open.clear()

    def found(self, ledger: Ledger) -> list[Finding]:
        """One for each line."""
        if self._count:
            checked(ledger, self.title, f"{self._count} backward passes")
        return [_finding(at, n) for at, n in self._again.items() if n >= _TIMES]


def _is_whole(root: Any) -> bool:
    """Whether a tensor is all that its node made; of several parts each has a loss of its own."""
    made = getattr(holders.node_of(root), "_input_metadata", None)
    return made is None or len(made) == 1


def _finding(place: Place, times: int) -> Finding:
    because = (
        f"in {times} backward passes on this line the loss had an earlier one as a part that was "
        "differentiated before, and whose gradients had not been used: they are counted twice"
    )
    after = "differentiate each loss once, and keep its number only: total += loss.item()"
    return finding("error", "graph_kept", because, after, place, edit=_alone(place))


def _alone(place: Place) -> Edit | None:
    """`total.backward(retain_graph=True)` as that of the loss that was added last."""
    tree = tree_of_file(place.file)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno == place.line]
    for call in calls:
        match call.func:
            case ast.Attribute(value=ast.Name(id=total), attr="backward"):
                added = _added(tree, total, place.line)
            case _:
                continue
        text = source_line(place.file, place.line)
        if added and call.end_lineno == call.lineno:
            new = text[: call.col_offset] + f"{added}.backward()" + text[call.end_col_offset :]
            return Edit(text, new, place)
    return None


def _added(tree: ast.AST, total: str, before: int) -> str:
    """The name of what was added to a name last."""
    found = ""
    some = [s for s in ast.walk(tree) if isinstance(s, ast.Assign | ast.AugAssign)]
    for s in sorted(some, key=lambda s: s.lineno):
        if s.lineno < before:
            match s:
                case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Name(id=x)):
                    found = x if name == total else found
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.BinOp(left=ast.Name(id=a), op=ast.Add(), right=ast.Name(id=b)),
                ) if name == total and total in (a, b):
                    found = b if a == total else a
                case _:
                    pass
    return found
