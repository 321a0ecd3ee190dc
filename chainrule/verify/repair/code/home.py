"""Where an edit belongs: at the statement that computes a value, not at the one that hands it on.

An edit that wraps a name wherever it is read (`return dx / n`, or `axis=ax` to `axis=(2, 3)` twice)
says the same as one of the statement that gives the name its value. That is where a reader looks.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from chainrule.verify.repair.code.draft import Draft, Edit
from chainrule.verify.repair.code.fit import as_operand, called, needs, replacement
from chainrule.verify.repair.code.syntax import (
    are_parts,
    is_literal,
    is_simple,
    is_stored,
    loops_around,
    names_in,
    only_reads,
)

Asked: TypeAlias = Callable[[ast.expr], bool]
"""Whether a value that is handed on may be wrong, as far as is known."""
_Pair: TypeAlias = tuple[ast.Name, ast.expr]
"""A name that is read, and what an edit puts there."""


_ZEROS = ("zeros", "zeros_like", "new_zeros")


def at_home(draft: Draft, changed: Draft, edit: Edit, doubtful: Asked) -> Edit | None:
    """What an edit has changed, as one edit of the statement that computes what it wraps; None if
    it is there already. Of several edits, the first one."""
    pairs = _pairs(draft.root, changed.root)
    if not pairs or len({p[0].id for p in pairs}) > 1:
        return None
    if len({ast.dump(new) for _, new in pairs}) > 1:
        return None
    maker = _maker(draft, [old for old, _ in pairs])
    if maker is None or not _belongs(draft, maker, pairs, doubtful):
        return None
    text = _text(draft, changed, maker, *pairs[0])
    if text is None:
        return None
    moved = replacement(draft, maker.value, text, edit.code, edit.cost)
    return replace(
        moved, says=moved.says if len(pairs) > 1 else edit.says or moved.says, rule=edit.rule
    )


def _belongs(draft: Draft, maker: ast.Assign, pairs: list[_Pair], doubtful: Asked) -> bool:
    """Whether the mistake was made where the value is computed."""
    name, new = pairs[0]
    if any(are_parts(name.id, other) for other in names_in(new)):
        return False
    if is_literal(maker.value):
        return True
    if name.id not in names_in(new):
        sizes = _is_size(maker.value) and _is_size(new)
        several = len(pairs) > 1 and not is_simple(maker.value)
        kept = isinstance(new, ast.Attribute) and new.attr == name.id and _is_only_read(draft, name)
        return _is_nothing(maker.value) or sizes or several or kept
    renamed = isinstance(maker.value, ast.Name)
    return (len(pairs) > 1 or renamed or _is_whole(draft, name)) and doubtful(maker.value)


def _is_only_read(draft: Draft, name: ast.Name) -> bool:
    """Whether a name is read here only: what it is given is what is wrong."""
    return draft.span(name) in only_reads(draft)


def _is_nothing(value: ast.expr) -> bool:
    """Whether a value is zero, written out: the name of a gradient that was dropped."""
    zero = isinstance(value, ast.Constant) and not value.value
    return zero or (isinstance(value, ast.Call) and called(value) in _ZEROS)


def _is_size(value: ast.expr) -> bool:
    """Whether a value is the length of an axis, or a number of elements, or made of these."""
    match value:
        case ast.Subscript(value=ast.Attribute(attr="shape")) | ast.Attribute(attr="size"):
            return True
        case (
            ast.Call(func=ast.Name(id="len")) | ast.Call(func=ast.Attribute(attr="numel" | "size"))
        ):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_size(left) and _is_size(right)
        case _:
            return False


def _is_whole(draft: Draft, name: ast.Name) -> bool:
    """Whether a name stands for itself: it is returned, or kept, and nothing is computed of it.
    Where it gets another name, something was to be computed."""
    parent = draft.parents[name]
    if isinstance(parent, ast.Tuple | ast.List | ast.Dict):
        parent = draft.parents[parent]
    match parent:
        case ast.Return() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case _:
            return False


def _pairs(old: ast.AST, new: ast.AST) -> list[_Pair]:
    """Names that are read in one tree, with what stands there in another; none if these differ in
    anything else."""
    try:
        return list(_differences(old, new))
    except ValueError:
        return []


def _differences(old: object, new: object) -> Iterator[_Pair]:
    """`ValueError` if something else than a name that is read was replaced."""
    match old, new:
        case (ast.Name(id=a), ast.Name(id=b)) if a == b:
            return
        case (ast.Name(ctx=ast.Load()) as name, ast.expr()):
            yield name, new
        case (ast.AST(), ast.AST()) if type(old) is type(new):
            for field in old._fields:
                yield from _differences(getattr(old, field, None), getattr(new, field, None))
        case (list(), list()):
            a, b = cast("list[object]", old), cast("list[object]", new)
            for one, other in zip(a, b, strict=True):
                yield from _differences(one, other)
        case _:
            if isinstance(old, ast.AST) or old != new:
                raise ValueError("the trees differ")


def _maker(draft: Draft, read: Sequence[ast.Name]) -> ast.Assign | None:
    """The statement that gives a name its value for these reads, and for no others."""
    name, first = read[0].id, min(draft.span(n)[0] for n in read)
    every = [n for n in draft.nodes if isinstance(n, ast.Name) and n.id == name]
    stores = [n for n in every if is_stored(n)]
    before = [n for n in stores if draft.span(n)[0] < first]
    if not before:
        return None
    store = max(before, key=lambda n: draft.span(n)[0])
    statement = draft.parents[store]
    match statement:
        case ast.Assign(targets=[ast.Name()]):
            pass
        case _:
            return None
    end, last = draft.span(statement)[1], max(draft.span(n)[0] for n in read)
    if any(end < draft.span(n)[0] < last for n in stores) or not _always(draft, statement, read):
        return None
    loops = loops_around(draft.parents, statement)
    around = draft.span(loops[0])[0] if loops else end
    reads = {n for n in every if n not in stores and draft.span(n)[0] >= around}
    return statement if reads == set(read) else None


def _always(draft: Draft, statement: ast.stmt, read: Sequence[ast.Name]) -> bool:
    """Whether a statement runs before each of the reads, as often as they do."""
    block, loops = draft.parents[statement], loops_around(draft.parents, statement)
    return all(loops_around(draft.parents, n) == loops and block in _above(draft, n) for n in read)


def _above(draft: Draft, node: ast.AST) -> Iterator[ast.AST]:
    while node in draft.parents:
        node = draft.parents[node]
        yield node


def _text(
    draft: Draft, changed: Draft, maker: ast.Assign, name: ast.Name, new: ast.expr
) -> str | None:
    """What the statement must compute, so that the name is what was put in its place."""
    text, start = changed.src(new), changed.span(new)[0]
    inside = [n for n in ast.walk(new) if isinstance(n, ast.Name) and n.id == name.id]
    if len(inside) > 1 and not is_simple(maker.value):
        return None  # It would be computed twice.
    for n in sorted(inside, key=lambda n: -changed.span(n)[0]):
        first, last = (i - start for i in changed.span(n))
        value = as_operand(draft, maker.value, needs(changed.parents[n], n) if n is not new else -1)
        text = text[:first] + value + text[last:]
    return text
