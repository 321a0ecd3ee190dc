"""What layers of a network keep in common for their backwards: there it is the last one's.

`Block.saved = x, h` is one place for all blocks, and so is a buffer that several of them fill. Each
layer is right by itself, and the network is wrong.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

import numpy as np

from chainrule.source_text import definition_text, source_line
from chainrule.verify.arrays.layer import Layer
from chainrule.verify.arrays.members import attributes
from chainrule.verify.arrays.methods import methods_of
from chainrule.verify.arrays.network import error_with, run_told
from chainrule.verify.diagnose.forward_text import function_at, in_place
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.reading import place_of
from chainrule.verify.subject import Array

_KEPT = "_kept_by_this_call"
"""Where a layer that is tried keeps what its own call has left."""


@dataclass(frozen=True, eq=False)
class Common:
    """Attributes that layers of a class keep in one place."""

    cls: Any
    names: tuple[str, ...]
    of_class: bool
    """Whether they are the class's, else arrays of each that lie in the same memory."""


def explained(whole: Layer, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, of which those of a network whose layers are all right say what these keep in
    one place, if that is all that is wrong."""
    found = list(findings)
    mine = [f for f in found if f.subject == whole.name and f.level == "error"]
    for common in kept_in_common(whole) if mine else ():
        if (error := _error_apart(whole, common)) is not None:
            return [_said(f, common, error) if f in mine else f for f in found]
    return found


def kept_in_common(whole: Layer) -> list[Common]:
    """What one forward of the network keeps on a class, or in memory of several layers."""
    layers, before = dict[int, Any](), dict[Any, dict[str, Any]]()
    held = dict[int, dict[str, Any]]()

    def around(_: object, layer: Any, forward: Any) -> Any:
        @functools.wraps(forward)
        def instead(*args: Any, **kwargs: Any) -> Any:
            before.setdefault(type(layer), dict(_space(type(layer))))
            first = dict(attributes(layer))
            result = forward(*args, **kwargs)
            layers[id(layer)] = layer
            held[id(layer)] = {k: x for k, x in attributes(layer).items() if first.get(k) is not x}
            return result

        return instead

    run_told(whole, around)
    found = [_of_class(cls, then) for cls, then in before.items()]
    found += [_of_memory(cls, layers, held) for cls in before]
    return [c for c in found if c.names]


def _space(cls: Any) -> dict[str, Any]:
    """What stands in a class itself."""
    return cast("dict[str, Any]", vars(cls))


def _of_class(cls: Any, before: dict[str, Any]) -> Common:
    """Attributes of a class that a forward has given another value."""
    new = [k for k, x in _space(cls).items() if before.get(k) is not x and not k.startswith("__")]
    return Common(cls, tuple(new), of_class=True)


def _of_memory(cls: Any, layers: dict[int, Any], held: dict[int, dict[str, Any]]) -> Common:
    """Arrays that the forwards of several layers have kept, and that lie in the same memory."""
    kept = [held[k] for k, layer in layers.items() if type(layer) is cls]
    arrays: list[list[tuple[str, Array]]]
    arrays = [[(n, x) for n, x in h.items() if isinstance(x, np.ndarray)] for h in kept]
    pairs = [(p, q) for a, b in combinations(arrays, 2) for p in a for q in b]
    names = [n for (n, x), (_, y) in pairs if np.may_share_memory(x, y)]
    return Common(cls, tuple(dict.fromkeys(names)), of_class=False)


def _error_apart(whole: Layer, common: Common) -> float | None:
    """The error that is left where each backward finds what its own forward has kept; None if
    something is wrong still."""
    methods = methods_of(object.__new__(common.cls))
    if methods is None:
        return None
    keeping = functools.partial(_keeping, common=common)
    finding = functools.partial(_finding, common=common)
    return error_with(whole, [(common.cls, methods[0], keeping), (common.cls, methods[1], finding)])


def _keeping(forward: Callable[..., Any], common: Common) -> Callable[..., Any]:
    @functools.wraps(forward)
    def instead(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = forward(self, *args, **kwargs)
        kept = {name: getattr(self, name) for name in common.names if hasattr(self, name)}
        if not common.of_class:
            kept = {name: np.array(x) for name, x in kept.items()}
        setattr(self, _KEPT, kept)
        return result

    return instead


def _finding(backward: Callable[..., Any], common: Common) -> Callable[..., Any]:
    @functools.wraps(backward)
    def instead(self: Any, *args: Any, **kwargs: Any) -> Any:
        kept = cast("dict[str, Any]", getattr(self, _KEPT, {}))
        owner = common.cls if common.of_class else self
        for name, x in kept.items():
            setattr(owner, name, x)
        return backward(self, *args, **kwargs)

    return instead


def _said(finding: Finding, common: Common, error: float) -> Finding:
    called = common.cls.__name__
    names = " and ".join([f"`{name}`" for name in common.names])
    where = "on the class, one for all of them" if common.of_class else "in memory that they share"
    because = (
        f"the forwards of several {called} keep {names} {where}: every backward reads what the "
        "last of them left"
    )
    formula = f"keep {names} of each {called} on the object, in memory of its own"
    place = _place(common)
    before, after = ("", "") if place is None else _on_object(place, common)
    correction = Correction(
        formula, before, after, place if after else None, rechecked=True, error=error
    )
    return replace(
        finding,
        names=(Name("stale", because, rank=1.0),),
        place=place or finding.place,
        evidence=(because, *finding.evidence),
        correction=correction,
    )


def _place(common: Common) -> Place | None:
    """The line at which a method of the class keeps the attribute there; of memory that is shared,
    the one that writes into it, or else the one that keeps it."""
    for method in _methods(common.cls):
        start = place_of(method)
        tree = function_at(start)
        statements = [] if tree is None else [n for n in ast.walk(tree) if isinstance(n, ast.stmt)]
        at = [s for s in statements if _keeps(s, common)]
        if at and start is not None:
            return replace(start, line=min(s.lineno for s in at), function=method.__qualname__)
    return None


def _methods(cls: Any) -> Iterator[Any]:
    """The methods of a class, but for what makes it and its backward: those that write first."""
    methods = methods_of(object.__new__(cls)) or ("forward", "backward")
    for name, x in _space(cls).items():
        if callable(x) and name not in ("__init__", methods[1]):
            yield x


def _keeps(statement: ast.stmt, common: Common) -> bool:
    """Whether a statement gives an attribute of the class a value, or writes into an array."""
    if not common.of_class:
        return any(True for _ in in_place(statement)) and not isinstance(statement, ast.AugAssign)
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr=name, value=owner)]):
            return name in common.names and ast.unparse(owner) != "self"
        case _:
            return False


def _on_object(place: Place, common: Common) -> tuple[str, str]:
    """The line, and the line with the attribute on the object; nothing for shared memory, nor where
    other lines would have to change with it."""
    line = source_line(place.file, place.line)
    text = definition_text(common.cls)
    if not common.of_class or len(common.names) != 1:
        return "", ""
    (name,) = common.names
    owners = (common.cls.__name__, "type(self)", "self.__class__", "cls")
    held = [f"{owner}.{name}" for owner in owners]
    there = next((h for h in held if h in line), "")
    if not there or sum([text.count(h) for h in held]) != 1:
        return "", ""
    return line, line.replace(there, f"self.{name}")
