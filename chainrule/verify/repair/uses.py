"""What becomes of names in a version's text: how often they are given a value, and where."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from typing import cast

from chainrule.verify.repair.course import fills
from chainrule.verify.repair.draft import Draft
from chainrule.verify.repair.syntax import bases, is_literal, is_simple, is_stored, is_sum, names_in
from chainrule.verify.trees import tree_of


def made(draft: Draft) -> set[str]:
    """Names that are computed: an edit belongs there, not where the name is read."""
    found = set[str]()
    for n in draft.nodes:
        match n:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not is_simple(value):
                found.add(name)
            case _:
                continue
    return found


def made_in_turns(draft: Draft) -> set[str]:
    """Names that a loop gives another value in each turn, made of the one before."""
    return {
        name
        for loop in draft.nodes
        if isinstance(loop, ast.For | ast.While)
        for n in ast.walk(loop)
        if isinstance(n, ast.Assign)
        for name in names_in(n.value) & {t.id for t in n.targets if isinstance(t, ast.Name)}
    }


def reads(draft: Draft) -> list[ast.Name]:
    """Where names are read."""
    return [n for n in draft.nodes if isinstance(n, ast.Name) and not is_stored(n)]


def only_reads(draft: Draft, names: set[str] | None = None) -> set[tuple[int, int]]:
    """Where a name (of some names) is read that is read nowhere else."""
    count = Counter([n.id for n in reads(draft)])
    chosen = [n for n in reads(draft) if count[n.id] == 1 and (names is None or n.id in names)]
    return {draft.span(n) for n in chosen}


def read_once(draft: Draft) -> set[tuple[int, int]]:
    """Where a name that is computed once is read for the only time, other than by a call that is
    made for what it does."""
    found = only_reads(draft, made(draft) & stored_once(draft))
    calls = [n.value for n in draft.nodes if isinstance(n, ast.Expr)]
    done = [a for c in calls if isinstance(c, ast.Call) for a in c.args]
    return found - {draft.span(a) for a in done if isinstance(a, ast.Name)}


def sums(draft: Draft) -> set[tuple[int, int]]:
    """Where sums stand, with all of their terms."""
    found = [n for n in draft.nodes if is_sum(n) and not is_sum(draft.parents[n])]
    return {draft.span(n) for n in found}


def copied(draft: Draft, roots: Sequence[ast.expr]) -> list[tuple[int, int]]:
    """Where what a whole value is computed by has been said before, word for word."""
    seen, found = set[str](), list[tuple[int, int]]()
    for node in roots:
        if not is_simple(node) and not is_literal(node):
            found += [draft.span(node)] if draft.src(node) in seen else []
            seen.add(draft.src(node))
    return found


def said_in(draft: Draft, texts: Sequence[str]) -> list[tuple[int, int]]:
    """Where statements stand that give a name what one in other code gives it, word for word."""
    theirs = {ast.dump(n) for t in texts for n in ast.walk(tree_of(t)) if _gives_computed(n)}
    own = [n for n in draft.statements if _gives_computed(n)]
    return [draft.span(n) for n in own if ast.dump(n) in theirs]


def _gives_computed(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and not is_simple(node.value)


def stored_once(draft: Draft) -> set[str]:
    """Names that are given a value in one place."""
    count = Counter([n.id for n in draft.nodes if isinstance(n, ast.Name) and is_stored(n)])
    return {name for name, k in count.items() if k == 1}


def assigned_once(draft: Draft) -> set[str]:
    """Names that one statement gives, and none changes."""
    written = {
        name
        for n in draft.nodes
        if isinstance(n, ast.Subscript | ast.Attribute) and isinstance(n.ctx, ast.Store)
        for name in bases(n)
    }
    calls = [n.value for n in draft.nodes if isinstance(n, ast.Expr)]
    into = [fills(c) for c in calls if isinstance(c, ast.Call)]
    written |= {name for target in into if target is not None for name in bases(target)}
    return stored_once(draft) - written


def replaces_unread(draft: Draft, statement: ast.Assign, name: str) -> bool:
    """Whether a statement gives a name another value, and nothing has read the one that a statement
    of the same block gave it before."""
    block = cast("list[ast.stmt]", getattr(draft.parents[statement], "body", []))
    if statement not in block or name in names_in(statement.value):
        return False
    for other in reversed(block[: block.index(statement)]):
        if isinstance(other, ast.Assign) and name in map(draft.src, other.targets):
            return True
        if name in names_in(other):
            return False
    return False


def unread(draft: Draft) -> set[str]:
    """Local names that are assigned and never read: they were meant for something."""
    loaded = {n.id for n in reads(draft)}
    stored = {n.id for n in draft.nodes if isinstance(n, ast.Name) and is_stored(n)}
    every = {*stored, *draft.parameters} - loaded
    return {n for n in every if not n.startswith("_")}


def origin(draft: Draft, node: ast.expr) -> ast.expr:
    """Of a name that one statement gives a literal, that literal; of anything else, itself."""
    if not isinstance(node, ast.Name) or node.id not in assigned_once(draft):
        return node
    for n in draft.nodes:
        match n:
            case ast.Assign(targets=[ast.Name() as one], value=value):
                pairs = [(one, value)]
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = list(zip(names, values, strict=False))
            case _:
                continue
        for target, value in pairs:
            if isinstance(target, ast.Name) and target.id == node.id and is_literal(value):
                return value
    return node


def turn_counts(draft: Draft) -> set[tuple[int, int]]:
    """Where it is said how many turns a loop has: in `range(...)`, or where a name that nothing
    else reads gets its value."""
    calls = [n for n in draft.nodes if isinstance(n, ast.Call)]
    ranges = [n for n in calls if isinstance(n.func, ast.Name) and n.func.id == "range"]
    bounds = [a for n in ranges for a in n.args]
    named = {a.id for a in bounds if isinstance(a, ast.Name)}
    named -= {n.id for n in reads(draft) if n not in bounds}
    given = [n for n in draft.nodes if isinstance(n, ast.Assign) and bases(n.targets[0]) <= named]
    return {draft.span(n) for n in (*bounds, *[n.value for n in given])}
