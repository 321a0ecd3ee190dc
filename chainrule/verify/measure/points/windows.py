"""The captured point with lengths that windows and blocks do not divide.

Of an image of 6 rows, windows of 3 at a step of 2 leave out the last one. A backward that counts
back from its windows may forget it. And a loop over blocks of 64 never runs for 5 rows: what is
wrong in it, or in what it leaves for the loop behind it, shows for more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import numpy as np

from chainrule.engine.source_text import definition_text
from chainrule.verify.measure.noise import Base
from chainrule.verify.measure.points.intended_sizes import counts_windows
from chainrule.verify.measure.points.lengths import LARGEST, free
from chainrule.verify.measure.points.sizes import renamed_points, resized, size_of
from chainrule.verify.measure.run import Point, Run, UnusableError, is_array
from chainrule.verify.trees import tree_of
from chainrule.verify.user_code import function_of

_MOST = 2
"""Points: rows, and columns."""
_LONGER = (1, 2)
_BY_LIBRARY = re.compile(r"\b(conv\dd|(avg|max)_pool\dd|unfold)\(")


def points(run: Run, base: Base) -> Iterator[Point]:
    """Versions of the point with one length larger, of which the forward, whose code counts
    windows, gives no more results than before."""
    found = 0
    for n in reversed(free(run, base)) if _counts_windows(run) else ():
        longer = next((p for m in _LONGER if (p := _left_over(run, base, n, n + m))), None)
        if longer is not None:
            yield longer
            found += 1
        if found == _MOST:
            return


def blocks(run: Run, base: Base) -> Iterator[Point]:
    """Versions of the point with larger lengths, so that loops over blocks run twice, and leave
    something over."""
    for block in sorted(_steps(run))[:_MOST]:
        short = [n for n in free(run, base) if n <= block]
        longer = {n: 2 * block + 1 + i for i, n in enumerate(short)}
        together = list(renamed_points(run, base, longer)) if longer else []
        yield from together
        for n, m in longer.items() if not together else ():
            yield from renamed_points(run, base, {n: m})


def _steps(run: Run) -> set[int]:
    """By how much the counters of loops grow, `range(0, n, 64)`, in forward and backward."""
    found = set[int]()
    for f in run.subject.functions:
        plain = function_of(f)
        names = {} if plain is None else plain.__globals__
        for node in ast.walk(tree_of(definition_text(f))):
            match node:
                case ast.Call(func=ast.Name(id="range"), args=[_, _, ast.Constant(value=int(n))]):
                    found.add(n)
                case ast.Call(func=ast.Name(id="range"), args=[_, _, ast.Name(id=name)]):
                    found.add(n if isinstance(n := names.get(name), int) else 0)
                case _:
                    continue
    return {n for n in found if n > 1}


def _counts_windows(run: Run) -> bool:
    """Whether the forward says how many windows there are, by a division that rounds, and one more;
    or lets a library do so."""
    source = run.subject.source
    text = "" if source is None else source.forward_text
    return bool(_BY_LIBRARY.search(text)) or any(map(counts_windows, ast.walk(tree_of(text))))


def _left_over(run: Run, base: Base, n: int, m: int) -> Point | None:
    """The point with axes of length n longer, if something is left out then."""
    try:
        xs = tuple([resized(run, x, k, {n: m}) for k, x in enumerate(base.xs)])
        if size_of(xs) > max(LARGEST, size_of(base.xs)):
            return None
        ys = run.forward(xs)
    except UnusableError:
        return None
    pairs = list(zip(ys, base.ys, strict=True))
    if any(y.shape != z.shape or not np.isfinite(y).all() for y, z in pairs):
        return None
    shapes = " ".join([str(v.shape) for v in xs if is_array(v) and v.ndim])
    return Point(f"other sizes {shapes}", xs, "remainder")
