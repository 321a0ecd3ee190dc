"""A step that comes too early: after the first micro-batch, `if i % 4 == 0` for `(i + 1) % 4`.

The first step has one backward pass alone, each later one as many as the losses are divided by; at
the end of an epoch there are some left over.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from chainrule.source_text import source_line
from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.training.edits import Edit
from chainrule.verify.training.said import said
from chainrule.verify.trees import tree_of_file


def is_early(sizes: Sequence[int], usual: int) -> bool:
    """Whether the first of at least three steps had one backward pass, and the next ones all."""
    return len(sizes) >= 3 and sizes[0] == 1 < usual and all(k == usual for k in sizes[1:3])


def early(sizes: Sequence[int], usual: int, stepped_at: Place | None) -> Finding:
    """The finding, on the line that decides when to step."""
    because = (
        f"backward passes for each step: {', '.join(map(str, sizes))}; all divided by {usual}: the "
        f"first step comes after one of {usual}, and what is left at the end of an epoch is lost"
    )
    place, edit = _decided(stepped_at)
    words = f"step after every {usual} backward passes: `if (i + 1) % {usual} == 0`"
    return said("warning", "accumulation", because, words, place, edit=edit)


def _decided(at: Place | None) -> tuple[Place | None, Edit | None]:
    """The `if i % n == 0:` around a line, and the same for `i + 1`; the line itself without one."""
    for n in ast.walk(tree_of_file(at.file)) if at is not None else ():
        match n:
            case ast.If(test=ast.Compare(left=ast.BinOp(left=count, op=ast.Mod()), ops=[ast.Eq()])):
                inside = n.lineno <= at.line <= (n.end_lineno or n.lineno) if at else False
            case _:
                continue
        if inside and at is not None and count.lineno == count.end_lineno:
            place = Place(at.file, count.lineno, at.function)
            text = source_line(at.file, count.lineno)
            first, last = count.col_offset, count.end_col_offset or 0
            return place, Edit(text, f"{text[:first]}({text[first:last]} + 1){text[last:]}", place)
    return at, None
