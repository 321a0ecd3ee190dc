"""What the code of a backward has names for: what could stand where something else stands.

Locals, what they hold, and of what is outside of the function the numbers that it or the forward
knows of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from chainrule.verify.repair.budget import NAMED_ARRAYS
from chainrule.verify.repair.code.draft import Draft, python_function
from chainrule.verify.repair.values.watch import plain, shape_of


def atoms_of(
    draft: Draft, names: Mapping[str, Any], simple: list[tuple[str, Any]], unread: set[str]
) -> Iterator[tuple[str, Any]]:
    """What has a name, by the text that names it: locals, those that nothing reads first, then the
    `simple` expressions of the code, what locals hold, numbers from outside."""
    local = {k: v for k, v in names.items() if k.strip("_")}
    yield from sorted(local.items(), key=lambda n: n[0] not in unread)
    yield from simple
    for k, v in local.items():
        yield from _parts(k, v)
    function, known = python_function(draft.source.function), _known_outside(draft)
    for k, v in function.__globals__.items():
        if isinstance(v, int | float) and k not in names and (k.isupper() or k in known):
            yield k, v
    for k, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if isinstance(v := cell.cell_contents, int | float):
            yield k, v


def owner(text: str) -> str:
    """The name with which an expression that names something begins."""
    return text.split(".")[0].split("[")[0]


def is_number(value: Any) -> bool:
    """Whether a value is one number that is neither 0 nor 1."""
    number = plain(value)
    return number is not None and number.dtype.kind in "iuf" and float(number) not in (0.0, 1.0)


def _known_outside(draft: Draft) -> set[str]:
    """Names that the forward or the backward uses: of the others that a file has, a loop's counter
    say, neither knows anything."""
    codes = [s.function for s in (draft.source, draft.source.forward) if s is not None]
    return {name for f in codes for name in python_function(f).__code__.co_names}


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a local name holds: attributes of an object, entries of a dict or tuple."""
    match value:
        case dict():
            for k, v in cast("dict[Any, Any]", value).items():
                yield from [(f"{name}[{k!r}]", v)] if isinstance(k, str) else []
        case tuple() | list():
            for i, v in enumerate(cast("list[Any]", value)[:NAMED_ARRAYS]):
                yield f"{name}[{i}]", v
        case _ if shape_of(value) is None and hasattr(value, "__dict__"):
            of_class = cast("dict[str, Any]", vars(cast(Any, type(value))))
            numbers = {k: v for k, v in of_class.items() if type(v) in (int, float)}
            held = {**numbers, **cast("dict[str, Any]", vars(value))}
            yield from [(f"{name}.{k}", v) for k, v in held.items() if k.isidentifier()]
        case _:
            return
