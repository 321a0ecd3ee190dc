"""What a backward reads outside, kept on ctx by the forward in its place: as changed code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

from chainrule.verify.finding import Correction
from chainrule.verify.repair.code.draft import Draft, Edit
from chainrule.verify.repair.code.syntax import elements, is_literal
from chainrule.verify.repair.presentation import correction
from chainrule.verify.subject import Source

_MORE = "\n    ...\n"
"""Stands for the lines between two that change."""


@dataclass(frozen=True, eq=False)
class SavedInForward:
    """Both methods, changed; and the change as it is shown."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    correction: Correction


def kept(backward: Source, read: str, *, copied: bool) -> SavedInForward | None:
    """The change for what is read by these words; None if there is no forward that has a ctx.

    What the forward keeps already is read from where it is. `copied`: whether it has to be a copy,
    since it is a tensor that is written to.
    """
    if backward.forward is None:
        return None
    first, last = Draft.of(backward.forward), Draft.of(backward)
    if not (first.parameters and last.parameters) or first.is_lambda or last.is_lambda:
        return None
    there, here = first.parameters[0], last.parameters[0]
    value = f"{read}.clone()" if copied else read
    name, changed, other = _kept_as(first, there, value), first, last
    if name is None:
        name = _free(read, first.text + last.text)
        changed = first.edited(_in_front(first, f"{there}.{name} = {value}"))
    for node in sorted(_reads(last, read), key=lambda n: -last.span(n)[0]):
        start, end = last.span(node)
        other = other.edited(Edit(start, end, f"{here}.{name}", "stale"))
    says = f"keep what it is when the forward runs: {there}.{name} = {value}"
    shown = _shown(says, [(first, changed), (last, other)])
    return SavedInForward(changed.compiled(), other.compiled(), shown)


def _reads(draft: Draft, read: str) -> list[ast.expr]:
    """Where a function reads it."""
    found = [n for n in draft.nodes if isinstance(n, ast.Name | ast.Attribute | ast.Subscript)]
    return [n for n in found if isinstance(n.ctx, ast.Load) and ast.unparse(n) == read]


def _kept_as(draft: Draft, ctx: str, read: str) -> str | None:
    """The attribute of ctx under which a forward keeps it already."""
    for s in [n for n in draft.statements if isinstance(n, ast.Assign)]:
        for target, value in zip(elements(s.targets[0]), elements(s.value), strict=False):
            match target:
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == ctx:
                    if ast.unparse(value) == read:
                        return name
                case _:
                    continue
    return None


def _free(read: str, text: str) -> str:
    """A name for it on ctx that nothing has yet."""
    name = re.findall(r"[A-Za-z_]\w*", read)[-1]
    while re.search(rf"\.{name}\b", text.replace(read, "")):
        name = f"kept_{name}"
    return name


def _in_front(draft: Draft, text: str) -> Edit:
    """A line in front of a function's first one, below what it says of itself."""
    body = cast("list[ast.stmt]", draft.root.body)
    says = len(body) > 1 and isinstance(body[0], ast.Expr) and is_literal(body[0].value)
    start = draft.span(body[says])[0]
    indent = " " * body[says].col_offset
    return Edit(start, start, f"{text}\n{indent}", "stale")


def _shown(says: str, changes: list[tuple[Draft, Draft]]) -> Correction:
    """The lines that change, in the order of the file."""
    changes.sort(key=lambda c: c[0].source.first_line)
    each = [correction(a, b, (), None) for a, b in changes if a.text != b.text]
    before, after = [
        _MORE.join(rows) for rows in zip(*[(c.before, c.after) for c in each], strict=True)
    ]
    return replace(each[0], formula=says, before=before, after=after)
