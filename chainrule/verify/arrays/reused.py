"""One layer in several places of a network, which keeps what its last call was given.

`self.relu` after each of two other layers has one mask, and both backwards read that of the last
forward. The layer is right by itself, and the network is wrong.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from chainrule.source_text import source_line
from chainrule.verify.arrays.layer import Layer
from chainrule.verify.arrays.members import Way, attributes
from chainrule.verify.arrays.methods import methods_of
from chainrule.verify.arrays.network import error_with, layers_in, run_told
from chainrule.verify.diagnose.forward_text import function_at
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.reading import place_of
from chainrule.verify.where import Line, here, placed

_STACK = "_kept_by_earlier_calls"
"""Where a layer that is tried keeps what each of its calls has left."""


@dataclass(frozen=True, eq=False)
class Reused:
    """A layer that one forward calls several times."""

    way: str
    """As the network holds it: "relu"."""
    cls: Any
    methods: tuple[str, str]
    kept: tuple[str, ...]
    """Attributes that each call gives another value."""
    lines: tuple[Line | None, ...]
    """Where it is called."""


def explained(whole: Layer, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, of which those of a network whose layers are all right say which one is called
    several times and keeps one call's values, if that is all that is wrong."""
    found = list(findings)
    mine = [f for f in found if f.subject == whole.name and f.level == "error"]
    if not mine or not (layers := reused(whole)):
        return found
    if (error := _error_with_stacks(whole, layers)) is None:
        return found
    return [_said(f, layers[0], error) if f in mine else f for f in found]


def reused(whole: Layer) -> list[Reused]:
    """Layers that are called several times in one forward, and remember the last call only."""
    calls = dict[Way, list[tuple[Line | None, dict[str, Any]]]]()
    layers = dict[Way, Any]()

    def around(way: Way, layer: Any, forward: Any) -> Any:
        @functools.wraps(forward)
        def instead(*args: Any, **kwargs: Any) -> Any:
            at = here()
            result = forward(*args, **kwargs)
            calls.setdefault(way, []).append((at, _left_in(layer)))
            layers[way] = layer
            return result

        return instead

    run_told(whole, around)
    found = list[Reused]()
    for way, some in calls.items():
        kept = _changing([left for _, left in some])
        methods = methods_of(layers[way])
        if kept and methods is not None and not layers_in(layers[way]):
            lines = tuple([at for at, _ in some])
            found.append(Reused(str(way), type(layers[way]), methods, kept, lines))
    return found


def _left_in(layer: Any) -> dict[str, Any]:
    """What a call has left in a layer; of lists what they hold then, for calls may add to them."""
    held = attributes(layer).items()
    return {k: list(cast("list[Any]", x)) if isinstance(x, list) else x for k, x in held}


def _changing(left: list[dict[str, Any]]) -> tuple[str, ...]:
    """Attributes that are arrays, or hold some, others after each call."""
    first, *others = left
    return tuple([k for k, x in first.items() if any(_differs(x, o.get(k)) for o in others)])


def _differs(x: Any, other: Any) -> bool:
    if isinstance(x, list):
        return isinstance(other, list) and len(cast("list[Any]", x)) != len(cast(Any, other))
    return isinstance(x, np.ndarray | tuple) and other is not x


def _error_with_stacks(whole: Layer, layers: list[Reused]) -> float | None:
    """The error that is left where each backward finds what its own forward has kept, the last one
    first; None if something is wrong still."""
    replaced = list[tuple[Any, str, Callable[[Any], Any]]]()
    for layer in {x.cls: x for x in layers}.values():
        forward, backward = layer.methods
        replaced.append((layer.cls, forward, functools.partial(_pushing, kept=layer.kept)))
        replaced.append((layer.cls, backward, _popping))
    return error_with(whole, replaced)


def _pushing(forward: Callable[..., Any], kept: tuple[str, ...]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def instead(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = forward(self, *args, **kwargs)
        left = {name: x for name, x in _left_in(self).items() if name in kept}
        setattr(self, _STACK, [*_stack(self), left])
        return result

    return instead


def _stack(layer: Any) -> list[dict[str, Any]]:
    return getattr(layer, _STACK, [])


def _popping(backward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(backward)
    def instead(self: Any, *args: Any, **kwargs: Any) -> Any:
        *earlier, last = (dict[str, Any](), *_stack(self))
        setattr(self, _STACK, earlier[1:])
        for name, x in last.items():
            setattr(self, name, x)
        return backward(self, *args, **kwargs)

    return instead


def _said(finding: Finding, layer: Reused, error: float) -> Finding:
    called = f"{layer.cls.__name__}.{layer.methods[0]}"
    names = " and ".join([f"`{name}`" for name in layer.kept])
    because = (
        f"`{layer.way}` is called {len(layer.lines)} times by one forward, and `{called}` keeps "
        f"{names} of the last call only: every backward of it reads that"
    )
    formula = (
        f"give each place a {layer.cls.__name__} of its own, or let `{called}` keep {names} of "
        "each call, the last one to be read first"
    )
    read = _last_read(layer)
    correction = Correction(formula, rechecked=True, error=error)
    if read is not None:
        line = source_line(read.file, read.line)
        correction = replace(correction, before=line, after=_taken(line, layer.kept), place=read)
    return replace(
        finding,
        names=(Name("stale", because, rank=1.0),),
        place=read or _place(layer) or finding.place,
        evidence=(because, *finding.evidence),
        correction=correction,
    )


def _place(layer: Reused) -> Place | None:
    """The line of the second call; of a loop, that in the layer's forward which keeps a value."""
    again = next((at for at in layer.lines[1:] if at != layer.lines[0]), None)
    if again is not None:
        return placed(again)
    code = getattr(inspect.unwrap(getattr(layer.cls, layer.methods[0])), "__code__", None)
    if code is None:
        return None
    start = Place(code.co_filename, code.co_firstlineno, code.co_qualname)
    if (tree := function_at(start)) is None:
        return None
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)]) if name in layer.kept:
                return replace(start, line=node.lineno)
            case _:
                continue
    return None


def _last_read(layer: Reused) -> Place | None:
    """Where the backward reads the last of what all calls have kept, and leaves it there, if it
    does so once: else no single line is the mistake."""
    start = place_of(getattr(layer.cls, layer.methods[1]))
    tree = None if start is None else function_at(start)
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Subscript)] if tree is not None else []
    read = [n for n in nodes if _is_last_of(n, layer.kept)]
    if start is None or len(read) != 1 or ast.unparse(read[0]) not in _line(start, read[0]):
        return None
    return replace(start, line=read[0].lineno)


def _is_last_of(node: ast.Subscript, kept: tuple[str, ...]) -> bool:
    """Whether it is the last element of one of some attributes."""
    named = isinstance(node.value, ast.Attribute) and node.value.attr in kept
    return named and ast.unparse(node.slice) == "-1"


def _line(start: Place, node: ast.expr) -> str:
    return source_line(start.file, node.lineno)


def _taken(line: str, kept: tuple[str, ...]) -> str:
    """The line, which takes the last one off."""
    for name in kept:
        line = line.replace(f".{name}[-1]", f".{name}.pop()")
    return line
