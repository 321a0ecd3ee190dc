"""What layers of a network do to each other: each is right by itself, and the network is wrong.

One forward is watched. A layer may write into what another one has kept (`x *= keep`); it may be
called several times and keep its last call only; several layers may keep a value in one place, on
their class or in one buffer. Each such cause says which methods would put it apart: if the network
is right with these in their place, that is what is wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

import numpy as np

from chainrule.engine.source_text import definition_text, source_line
from chainrule.verify.arrays.layer import Layer
from chainrule.verify.arrays.methods import methods_of
from chainrule.verify.arrays.networks.network import error_with, layers_in
from chainrule.verify.arrays.networks.watched_forward import (
    Call,
    Method,
    Replaced,
    Watched,
    watch_forward,
    with_copies,
    with_stack,
)
from chainrule.verify.diagnose.text.forward import function_at, in_place
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.subject import Array
from chainrule.verify.user_code import place_of
from chainrule.verify.user_frames import placed


@dataclass(frozen=True, eq=False)
class Cause:
    """Something that layers do to each other, and how the network runs without it."""

    because: str
    formula: str
    place: Place | None
    lines: tuple[str, str]
    """The line at the place, and as it should be; empty if one line is not enough."""
    apart: Sequence[Replaced]


def explain(whole: Layer, findings: Iterable[Finding]) -> list[Finding]:
    """The findings, of which those of a network whose layers are all right say what these do to
    each other, if that is all that is wrong."""
    found = list(findings)
    mine = [f for f in found if f.subject == whole.name and f.level == "error"]
    for cause in causes(whole) if mine else ():
        if (error := error_with(whole, cause.apart)) is not None:
            return [_with_cause(f, cause, error) if f in mine else f for f in found]
    return found


def causes(whole: Layer) -> Iterator[Cause]:
    """What one forward of a network shows of it."""
    watched = watch_forward(whole)
    yield from _overwriting(watched)
    yield from _repeated_calls(watched)
    yield from _shared_places(watched)


def _with_cause(finding: Finding, cause: Cause, error: float) -> Finding:
    at = cause.place if cause.lines[1] else None
    correction = Correction(cause.formula, *cause.lines, at, rechecked=True, error=error)
    return replace(
        finding,
        names=(Name("stale", cause.because, rank=1.0),),
        place=cause.place or finding.place,
        evidence=(cause.because, *finding.evidence),
        correction=correction,
    )


# What a layer has kept, changed by another one.


def _overwriting(watched: Watched) -> Iterator[Cause]:
    for kept, call in watched.written[:1]:
        cls, (forward, _) = call.cls, methods_of(call.layer) or ("forward", "backward")
        called = f"{cls.__name__}.{forward}"
        found = _statement(getattr(cls, forward), _writes_argument)
        yield Cause(
            f"`{called}`, of `{call.way}`, writes into `{kept.layer}.{kept.name}` after it was "
            "kept",
            f"let `{called}` compute a new array, and leave its argument as it is",
            found and found[0],
            _as_new_array(*found) if found else ("", ""),
            [(cls, forward, with_copies)],
        )


def _writes_argument(function: ast.FunctionDef, statement: ast.stmt) -> bool:
    return bool({a.arg for a in function.args.args[1:]} & set(in_place(statement)))


def _as_new_array(place: Place, statement: ast.stmt) -> tuple[str, str]:
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


# One layer in several places, which keeps its last call.


def _repeated_calls(watched: Watched) -> Iterator[Cause]:
    """Layers that are called twice and keep only what the last call saved."""
    found = list[tuple[list[Call], tuple[str, str], tuple[str, ...]]]()
    for way in dict.fromkeys([c.way for c in watched.calls]):
        calls = [c for c in watched.calls if c.way == way]
        methods, kept = methods_of(calls[0].layer), _changing_attributes([c.left for c in calls])
        if kept and methods is not None and not layers_in(calls[0].layer):
            found.append((calls, methods, kept))
    apart = {c[0].cls: with_stack(c[0].cls, m, k) for c, m, k in found}
    for calls, methods, kept in found[:1]:
        cls, names = calls[0].cls, " and ".join([f"`{name}`" for name in kept])
        called, read = f"{cls.__name__}.{methods[0]}", _last_read(cls, methods[1], kept)
        line = "" if read is None else source_line(read.file, read.line)
        yield Cause(
            f"`{calls[0].way}` is called {len(calls)} times by one forward, and `{called}` keeps "
            f"{names} of the last call only: every backward of it reads that",
            f"give each place a {cls.__name__} of its own, or let `{called}` keep {names} of each "
            "call, the last one to be read first",
            read or _second_call(calls) or _line_that_keeps(getattr(cls, methods[0]), kept),
            (line, _with_pop(line, kept)),
            [r for some in apart.values() for r in some],
        )


def _changing_attributes(left: list[dict[str, Any]]) -> tuple[str, ...]:
    """Attributes that are arrays, or hold some, others after each call."""
    first, *others = left
    return tuple([k for k, x in first.items() if any(_differs(x, o.get(k)) for o in others)])


def _differs(x: Any, other: Any) -> bool:
    if isinstance(x, list):
        return isinstance(other, list) and len(cast("list[Any]", x)) != len(cast(Any, other))
    return isinstance(x, np.ndarray | tuple) and other is not x


def _second_call(calls: Sequence[Call]) -> Place | None:
    """Where it is called again, if that is another line than the first one."""
    return placed(next((c.line for c in calls[1:] if c.line != calls[0].line), None))


def _line_that_keeps(forward: Method, kept: tuple[str, ...]) -> Place | None:
    def asked(_: ast.FunctionDef, statement: ast.stmt) -> bool:
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr=name)]):
                return name in kept
            case _:
                return False

    found = _statement(forward, asked)
    return found and found[0]


def _last_read(cls: Any, backward: str, kept: tuple[str, ...]) -> Place | None:
    """Where the backward reads the last of what all calls have kept, and leaves it there, if it
    does so once: else no single line is the mistake."""
    start = place_of(getattr(cls, backward))
    nodes = [] if start is None else list(ast.walk(function_at(start) or ast.Module([], [])))
    read = [n for n in nodes if isinstance(n, ast.Subscript) and _is_last_of(n, kept)]
    if start is None or len(read) != 1:
        return None
    shown = ast.unparse(read[0]) in source_line(start.file, read[0].lineno)
    return replace(start, line=read[0].lineno) if shown else None


def _is_last_of(node: ast.Subscript, kept: tuple[str, ...]) -> bool:
    """Whether it is the last element of one of some attributes."""
    named = isinstance(node.value, ast.Attribute) and node.value.attr in kept
    return named and ast.unparse(node.slice) == "-1"


def _with_pop(line: str, kept: tuple[str, ...]) -> str:
    """The line, which takes the last one off."""
    for name in kept:
        line = line.replace(f".{name}[-1]", f".{name}.pop()")
    return line


# One place for several layers.


def _shared_places(watched: Watched) -> Iterator[Cause]:
    for cls, before in watched.spaces.items():
        now = cast("dict[str, Any]", vars(cls))
        names = [k for k, x in now.items() if before.get(k) is not x and not k.startswith("__")]
        if names:
            yield from _common(cls, tuple(names), cls)
    for cls in watched.spaces:
        if names := _in_shared_memory([c for c in watched.calls if c.cls is cls]):
            yield from _common(cls, names, None)


def _in_shared_memory(calls: Sequence[Call]) -> tuple[str, ...]:
    """Arrays that several layers have kept, and that lie in the same memory."""
    last = {id(c.layer): c.new for c in calls}.values()
    arrays = [[(n, cast("Array", x)) for n, x in new.items() if isinstance(x, np.ndarray)]
              for new in last]  # fmt: skip
    pairs = [(p, q) for a, b in combinations(arrays, 2) for p in a for q in b]
    return tuple(dict.fromkeys([n for (n, x), (_, y) in pairs if np.may_share_memory(x, y)]))


def _common(cls: Any, names: tuple[str, ...], holder: Any) -> Iterator[Cause]:
    """What layers of a class keep in one place: on `holder`, their class, or in one memory."""
    methods = methods_of(object.__new__(cls))
    if methods is None:
        return
    kept, called = " and ".join([f"`{name}`" for name in names]), cls.__name__
    where = "on the class, one for all of them" if holder else "in memory that they share"
    place = _place(cls, names, methods[1], holder is not None)
    yield Cause(
        f"the forwards of several {called} keep {kept} {where}: every backward reads what the "
        "last of them left",
        f"keep {kept} of each {called} on the object, in memory of its own",
        place,
        _on_object(place, cls, names) if place and holder else ("", ""),
        with_stack(cls, methods, names, holder),
    )


def _place(cls: Any, names: tuple[str, ...], backward: str, on_class: bool) -> Place | None:
    """The line at which a method of the class keeps the attribute there; of memory that is shared,
    the one that writes into it."""

    def asked(_: ast.FunctionDef, statement: ast.stmt) -> bool:
        if not on_class:
            return bool(list(in_place(statement))) and not isinstance(statement, ast.AugAssign)
        match statement:
            case ast.Assign(targets=[ast.Attribute(attr=name, value=owner)]):
                return name in names and ast.unparse(owner) != "self"
            case _:
                return False

    held = cast("dict[str, Any]", vars(cls))
    some = [x for n, x in held.items() if callable(x) and n not in ("__init__", backward)]
    found = [at for method in some if (at := _statement(method, asked)) is not None]
    return found[0][0] if found else None


def _on_object(place: Place, cls: Any, names: tuple[str, ...]) -> tuple[str, str]:
    """The line, and the line with the attribute on the object; nothing where other lines would have
    to change with it."""
    line, text = source_line(place.file, place.line), definition_text(cls)
    owners = (cls.__name__, "type(self)", "self.__class__", "cls")
    held = [f"{owner}.{names[0]}" for owner in owners]
    there = next((h for h in held if h in line), "")
    if not there or len(names) != 1 or sum([text.count(h) for h in held]) != 1:
        return "", ""
    return line, line.replace(there, f"self.{names[0]}")


def _statement(
    method: Any, asked: Callable[[ast.FunctionDef, ast.stmt], bool]
) -> tuple[Place, ast.stmt] | None:
    """The first statement of a method that is asked for, and its line."""
    start = place_of(method)
    function = function_at(start)
    if start is None or function is None:
        return None
    statements = [n for n in ast.walk(function) if isinstance(n, ast.stmt)]
    found = min([s for s in statements if asked(function, s)], key=lambda s: s.lineno, default=None)
    return None if found is None else (replace(start, line=found.lineno), found)
