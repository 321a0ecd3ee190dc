"""Where a forward keeps what outlives its call: on a class, in a module, in a global name.

Another call's forward replaces it before this one's backward has read it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from chainrule.verify.diagnose.text.forward import function_at
from chainrule.verify.place import Place
from chainrule.verify.subject import Subject
from chainrule.verify.trees import tree_of

_SHARED = ("cls",)
"""Arguments that all calls have in common."""


def shared_at(subject: Subject) -> Place | None:
    """The last line of the forward that keeps for all calls what the backward reads, as far as the
    text tells."""
    place, source = subject.place, subject.source
    forward = function_at(place)
    if forward is None or place is None or source is None:
        return None
    read = {ast.unparse(n) for n in ast.walk(tree_of(source.text)) if isinstance(n, ast.expr)}
    lines = [line for kept, line in _names_kept(forward) if kept in read]
    return replace(place, line=max(lines)) if lines else None


def _names_kept(forward: ast.FunctionDef | ast.Lambda) -> Iterator[tuple[str, int]]:
    """What is given a value that no call owns, as the text names it, and the line."""
    nodes = list(ast.walk(forward))
    shared = {name for n in nodes if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    stored = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    own = {a.arg for n in nodes if isinstance(n, ast.arguments) for a in (*n.args, *n.kwonlyargs)}
    own = (own | set(stored)) - shared - set(_SHARED)
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in [t for e in targets for t in getattr(e, "elts", [e])]:
            base = _base(target)
            if base and base not in own and (base in shared or not isinstance(target, ast.Name)):
                text = target.value if isinstance(target, ast.Subscript) else target
                yield ast.unparse(text), target.lineno


def _base(target: ast.expr) -> str:
    """The name with which a place begins."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""
