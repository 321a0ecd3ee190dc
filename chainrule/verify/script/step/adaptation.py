"""Parameters that are adapted to some data, and an outer loss of these data again.

What it is to tell is how the adapted parameters do elsewhere. Data are tensors that depend on no
parameter; where the outer loss has only those of the inner one, and the program gives other data a
name that it never reads, it was to have these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeGuard

from torch import Tensor

from chainrule.verify.script.step.links import Links
from chainrule.verify.script.step.record.tape import GRAD, Entry, Slot, back, forth, things_in
from chainrule.verify.script.step.spots import Spot
from chainrule.verify.training.text import edits
from chainrule.verify.trees import function_at, tree_of_file
from chainrule.verify.user_frames import placed, user_frame, with_callers

_FRAMES = 4
"""Running functions that are looked at."""


def same_data(links: Links) -> Iterator[Spot]:
    """An outer loss of the data that the parameters in it were adapted to."""
    for at, entry in enumerate(links.entries):
        if entry.name != GRAD or len(entry.outputs) < 2:
            continue
        before, after = links.entries[:at], links.entries[at + 1 :]
        inner = _data(list(back(before, _slots(entry.args[0]))))
        adapted = forth(after, entry.outputs)
        outer = [e for e in after if adapted.intersection(e.inputs)]
        own = _data(outer)
        if len(own) < 2 or not own <= inner or any(e.name == GRAD for e in outer):
            continue
        yield from _spots()
        return


def _slots(x: Any) -> set[int]:
    return {s.number for s in things_in(x) if isinstance(s, Slot)}


def _data(entries: Sequence[Entry]) -> set[int]:
    """Ids of tensors that depend on nothing."""
    given = [x for e in entries for x in things_in((e.args, e.kwargs))]
    return {id(x) for x in given if isinstance(x, Tensor) and x.numel() > 1}


def _spots() -> Iterator[Spot]:
    """The statement that was to have other data, in a function that is running."""
    for frame in islice(with_callers(user_frame()), _FRAMES):
        code, values = frame.f_code, {**frame.f_globals, **frame.f_locals}
        scope = _scope(tree_of_file(code.co_filename), frame.f_lineno)
        for made, known, unread in _unread(scope):
            lines = [n.lineno for n in ast.walk(scope) if _reads(n, known)]
            pairs = dict(zip(known, unread, strict=True))
            alike = all(_are_alike(values.get(a), values.get(b)) for a, b in pairs.items())
            if alike and len(lines) > 1:
                place = placed((code, max(lines)))
                others = " and ".join([f"`{name}`" for name in unread])
                says = "this loss is of the data that the parameters were adapted to before; "
                says += f"nothing reads {others}, which line {made.lineno} gives values"
                edit = edits.change_line(place, lambda s, p=pairs: _exchange(s, p))
                yield Spot("wrong_value", place, says, f"compute it of {others}", edit)
                return


def _are_alike(a: Any, b: Any) -> bool:
    """Whether one may stand for the other: rows of the same kind."""
    both = isinstance(a, Tensor) and isinstance(b, Tensor)
    return both and a is not b and a.dtype == b.dtype and a.shape[1:] == b.shape[1:]


def _unread(scope: ast.AST) -> Iterator[tuple[ast.stmt, list[str], list[str]]]:
    """Statements that give values to several names, half of which are read, and half are not."""
    named = [n for n in ast.walk(scope) if isinstance(n, ast.Name)]
    reads = {n.id for n in named if isinstance(n.ctx, ast.Load)}
    for n in ast.walk(scope):
        if not isinstance(n, ast.Assign | ast.For):
            continue
        target = n.targets[0] if isinstance(n, ast.Assign) else n.target
        names = [x.id for x in ast.walk(target) if isinstance(x, ast.Name)]
        unread = [name for name in names if name not in reads and name.strip("_")]
        known = [name for name in names if name in reads]
        if len(unread) == len(known) > 1:
            yield n, known, unread


def _reads(node: ast.AST, names: Sequence[str]) -> TypeGuard[ast.stmt]:
    """Whether a simple statement reads all of these."""
    simple = isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return)
    return simple and set(names) <= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _scope(tree: ast.Module, line: int) -> ast.AST:
    """The outermost loop around a line, or the function, or all."""
    function = function_at(tree, line) or tree
    loops = [n for n in ast.walk(function) if isinstance(n, ast.For | ast.While)]
    around = [n for n in loops if n.lineno < line <= (n.end_lineno or 0)]
    return min(around, key=lambda n: n.lineno, default=function)


def _exchange(statement: ast.stmt, names: dict[str, str]) -> bool:
    found = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id in names]
    for n in found:
        n.id = names[n.id]
    return bool(found)
