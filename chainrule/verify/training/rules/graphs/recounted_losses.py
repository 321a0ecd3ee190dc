"""Losses that are differentiated a second time, as parts of a later one."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, final

from chainrule.verify.place import Place
from chainrule.verify.training.facts.history import Pass
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.training.text.source import Edit, Source
from chainrule.verify.trees import tree_of_file


class _Again(NamedTuple):
    """A line that differentiates a loss with an earlier one in it."""

    place: Place
    times: int


@final
class Recounted(Part):
    """Finds `graph_kept` within a step: a running total that keeps its graph gives the first loss's
    gradient once more with each loss that follows."""

    title = "losses that are differentiated again"
    rows = (
        Row(
            "graph_kept",
            lambda f: [_Again(at, n) for at, n in f.again.items()],
            "in {times} backward passes on this line the loss had an earlier one as a part that "
            "was differentiated before, and whose gradients had not been used: they are counted "
            "twice",
            "differentiate each loss once, and keep its number only: total += loss.item()",
            "error",
            (is_seldom,),
            edit=lambda a: _of_last_term(a.place),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._open: list[Pass] = []
        self._count = 0
        self.again = Counter[Place]()

    def seen(self) -> Sequence[str]:
        """How many passes there were."""
        return [f"{self._count} backward passes"] if self._count else []

    @on(events.BackwardBegins)
    def _begins(self, e: events.BackwardBegins) -> None:
        self._count += 1
        serials = set(e.graph.serials)
        inside = [one for one in self._open if one.nodes <= serials]
        for x in e.graph.leaves if inside else ():
            row = self.history.gradient(x)
            kept = x.grad is not None and e.engine.token(x.grad) == row.token
            if kept and e.place is not None and any(one in row.passes for one in inside):
                self.again[e.place] += 1
                return

    @on(events.BackwardEnds)
    def _ends(self, e: events.BackwardEnds) -> None:
        made = self.history.newest
        if made is not None and made.nodes and made.touched:
            self._open.append(made)

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        self._open.clear()


def _of_last_term(place: Place) -> Edit | None:
    """`total.backward(retain_graph=True)` as that of the loss that was added last."""
    tree = tree_of_file(place.file)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno == place.line]
    for call in calls:
        match call.func:
            case ast.Attribute(value=ast.Name(id=total), attr="backward"):
                added = _added(tree, total, place.line)
            case _:
                continue
        source = Source.at(place)
        if added and source is not None:
            return source.with_pieces([(call, f"{added}.backward()")])
    return None


def _added(tree: ast.AST, total: str, before: int) -> str:
    """The name of what was added to a name last."""
    found = ""
    some = [s for s in ast.walk(tree) if isinstance(s, ast.Assign | ast.AugAssign)]
    for s in sorted([s for s in some if s.lineno < before], key=lambda s: s.lineno):
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
