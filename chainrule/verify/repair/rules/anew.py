"""What is kept only where nothing is kept yet, as if it were a table: kept anew in every call."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator

from chainrule.verify.diagnose.once_text import Once, kept_once
from chainrule.verify.repair.draft import Draft, Edit
from chainrule.verify.repair.scene import Scene


def kept_anew(scene: Scene) -> Iterator[Edit]:
    """`if self.m is None: self.m = f(x)` becomes `self.m = f(x)`, and so does
    `self.m = f(x) if self.m is None else self.m`; `d.setdefault(k, v)` becomes `d[k] = v`."""
    for once in kept_once(scene.draft.root):
        text = _always(scene, once)
        if text:
            start, end = scene.draft.span(once.node)
            says = f"`{once.target}` is kept in every call"
            yield Edit(start, end, text, "stale", 0.7, says)


def _always(scene: Scene, once: Once) -> str:
    """What is to stand in place of the node; empty if that cannot be said in a line of its own."""
    draft = scene.draft
    match once.node:
        case ast.If(body=body):
            return body_alone(draft, once.node, body)
        case ast.IfExp(body=value, orelse=other):
            return draft.src(value if once.kept is value else other)
        case ast.Call(func=ast.Attribute(attr="get") | ast.Name()):
            return draft.src(once.kept)
        case ast.Call(func=ast.Attribute(value=table), args=[key, value]):
            statement = draft.parents.get(once.node)
            if isinstance(statement, ast.Expr | ast.Assign):
                return f"{draft.src(table)}[{draft.src(key)}] = {draft.src(value)}"
            return ""
        case _:
            return ""


def body_alone(draft: Draft, node: ast.stmt, body: list[ast.stmt]) -> str:
    """The body of a statement, as it stands without that."""
    start, end = draft.span(body[0])[0], draft.span(body[-1])[1]
    if body[0].lineno == node.lineno:
        return draft.body[start:end]
    lines = textwrap.dedent(" " * body[0].col_offset + draft.body[start:end])
    return textwrap.indent(lines, " " * node.col_offset).lstrip()
