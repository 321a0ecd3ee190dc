"""One layer of a network that writes into what another one has kept for its backward.

`x *= keep` in a layer changes the array that the layer before it has just returned, and holds. Each
of them is right by itself, and together they are wrong.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chainrule.verify.arrays.layer import Layer
from chainrule.verify.arrays.members import Way, walk
from chainrule.verify.arrays.methods import methods_of
from chainrule.verify.arrays.network import error_with, layers_in, run_told
from chainrule.verify.arrays.values import is_float
from chainrule.verify.copies import twins
from chainrule.verify.diagnose.forward_text import function_at, in_place
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.subject import Array


@dataclass(frozen=True, eq=False)
class Overwritten:
    """What was written into, and by whom."""

    kept: str
    """By whom it is kept, and how that calls it: "layers[1].out"."""
    writer: str
    """The layer that writes: "layers[2]"."""
    cls: Any
    forward: str
    """Its class, and the method of it."""


@dataclass(frozen=True, eq=False)
class _Kept:
    layer: Way
    name: str
    array: Array
    before: Array


def explained(whole: Layer, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, of which those of a network whose layers are all right say who writes into what
    another one keeps, if that is all that is wrong."""
    found = list(findings)
    mine = [f for f in found if f.subject == whole.name and f.level == "error"]
    if not mine or (written := overwritten(whole)) is None:
        return found
    with_copies = _error_with_copies(whole, written)
    if with_copies is None:
        return found
    return [_said(f, written, with_copies) if f in mine else f for f in found]


def overwritten(whole: Layer) -> Overwritten | None:
    """The first array that a layer keeps and another layer's forward changes in place."""
    kept, found = list[_Kept](), list[Overwritten]()

    def around(way: Way, layer: Any, forward: Any) -> Any:
        @functools.wraps(forward)
        def instead(*args: Any, **kwargs: Any) -> Any:
            result = forward(*args, **kwargs)
            if not layers_in(layer):  # What holds layers changes what these change.
                changed = [k for k in kept if k.layer != way and _is_changed(k)]
                found.extend([_by(k, way, layer) for k in changed])
                kept[:] = [k for k in kept if k.layer != way and k not in changed]
                kept.extend(_keeps(way, layer))
            return result

        return instead

    run_told(whole, around)
    return found[0] if found else None


def _keeps(way: Way, layer: Any) -> list[_Kept]:
    held = [(str(name), x) for name, x in walk(layer) if is_float(x) and np.ndim(x)]
    return [_Kept(way, name, x, np.array(x)) for name, x in held]


def _is_changed(kept: _Kept) -> bool:
    return not np.array_equal(kept.array, kept.before, equal_nan=True)


def _by(kept: _Kept, way: Way, layer: Any) -> Overwritten:
    forward, _ = methods_of(layer) or ("forward", "backward")
    return Overwritten(f"{kept.layer}.{kept.name}", str(way), type(layer), forward)


def _error_with_copies(whole: Layer, written: Overwritten) -> float | None:
    """The error that is left where the layer that writes gets copies of its arguments; None if
    something is wrong still."""

    def copying(forward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(forward)
        def instead(self: Any, *args: Any, **kwargs: Any) -> Any:
            return forward(self, *twins(args), **kwargs)

        return instead

    return error_with(whole, [(written.cls, written.forward, copying)])


def _said(finding: Finding, written: Overwritten, error: float) -> Finding:
    where = _statement(written)
    place = None if where is None else where[0]
    called = f"{written.cls.__name__}.{written.forward}"
    because = f"`{called}`, of `{written.writer}`, writes into `{written.kept}` after it was kept"
    formula = f"let `{called}` compute a new array, and leave its argument as it is"
    before, after = ("", "") if where is None else _anew(*where)
    at = place if after else None
    correction = Correction(formula, before, after, at, rechecked=True, error=error)
    evidence = (because, *finding.evidence)
    names = (Name("stale", because, rank=1.0),)
    return replace(
        finding,
        names=names,
        place=place or finding.place,
        evidence=evidence,
        correction=correction,
    )


def _statement(written: Overwritten) -> tuple[Place, ast.stmt] | None:
    """The first statement of a forward that writes into one of its arguments."""
    function = inspect.unwrap(getattr(written.cls, written.forward))
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    start = Place(code.co_filename, code.co_firstlineno, function.__qualname__)
    if (tree := function_at(start)) is None:
        return None
    given = {a.arg for a in tree.args.args[1:]}
    writes = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and given & set(in_place(n))]
    first = min(writes, key=lambda n: n.lineno, default=None)
    return None if first is None else (replace(start, line=first.lineno), first)


def _anew(place: Place, statement: ast.stmt) -> tuple[str, str]:
    """`x *= k` as it is, and as `x = x * k`; nothing for other statements."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if (
            statement.end_lineno == statement.lineno
        ):
            made = ast.BinOp(ast.Name(name, ast.Load()), op, value)
            indent = " " * statement.col_offset
            return f"{indent}{place.text}", f"{indent}{name} = {ast.unparse(made)}"
        case _:
            return "", ""
