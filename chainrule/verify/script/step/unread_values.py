"""Values with a graph that are given to a name which nothing reads: neither a loss, nor an update,
nor a number that is shown comes of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from chainrule.verify.place import Place
from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.record.tape import GRAD, Tape
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.trees import blocks, function_at, tree_of_file
from chainrule.verify.user_frames import Line, placed

_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.While, ast.AsyncFor)


def unread_values(tape: Tape, parts: Sequence[Slice], consumed: set[int]) -> Iterator[Spot]:
    """At the end of a step whose losses depend on `parts`; slots that went into updates are
    `consumed`."""
    used = {s for e in tape.entries for s in e.inputs} | {x.slot for x in tape.exits} | consumed
    used |= {part.loss for part in parts}
    trained = {e.at for part in parts for e in part.entries}
    codes = {at[0] for at in trained if at is not None}
    for entry in tape.entries:
        if not entry.is_live or not used.isdisjoint(entry.outputs) or len(entry.outputs) > 1:
            continue
        if entry.at is None or entry.at[0] not in codes or entry.name == GRAD:
            continue
        name, place = _unread_name(entry.at), placed(entry.at)
        if name and place is not None:
            says = f"`{name}` is computed of parameters on this line, and nothing reads it"
            yield Spot("unused", place, says, f"use `{name}`, or leave the call out")


def _unread_name(at: Line) -> str:
    """The name that a statement on a line gives a value in vain; empty if somebody may read it."""
    place: Place | None = placed(at)
    tree = ast.Module([], []) if place is None else tree_of_file(place.file)
    function = function_at(tree, at[1]) or tree
    for statement in [s for block in blocks(function) for s in block]:
        inside = statement.lineno <= at[1] <= (statement.end_lineno or 0)
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if inside and name.strip("_"):
                if not _is_read(function, statement, name):
                    return name
            case _:
                pass
    return ""


def _is_read(function: ast.AST, statement: ast.stmt, name: str) -> bool:
    """Whether the name is read behind the statement, in a function within, or in another turn."""
    nodes = list(ast.walk(function))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    if any(isinstance(n, ast.Global | ast.Nonlocal) and name in n.names for n in nodes):
        return True
    if any(n.id in ("locals", "eval", "exec") for n in names):
        return True
    turns = [n for n in nodes if isinstance(n, _LOOPS) and statement in ast.walk(n)]
    inner = [n for n in nodes if isinstance(n, _INNER) and n is not function]
    end = statement.end_lineno or statement.lineno
    later = any(_reads(n, name) and n.lineno > end for n in names)
    return later or any(_reads(n, name) for whole in (*turns, *inner) for n in ast.walk(whole))


def _reads(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store)
