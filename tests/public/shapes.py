"""Statements of shapes in docstrings, read and compared with what came in and went out.

A statement is the text from `Shapes: ` at the beginning of a line to the first line that ends with
a full stop. Its grammar, which CONTRIBUTING explains:

    statement   case {";" case}                    the first case that fits its inputs decides
    case        [inputs] "->" results ["if" condition] ["with" requirement]
    inputs      [parameter] shapes {"," ...}       without a name: the parameter at that place
    shapes      shape | "[" shape "]"              one array, or a sequence of them
    shape       "(" [item {"," item}] ")"
    item        "..."                              any sizes; all such runs broadcast together
              | "*" run                            any sizes, under a name, exactly
              | size                               a number, a name or arithmetic
              | parameter ["or" number] ":" item   the size of the axis (axes) that it names;
                                                   the number stands for its default, None

Names bind from left to right; a parameter (of a method: an attribute, too) stands for its value.
A name ending in `_i` has a value for each member of a sequence: `sum(n_i)`. Conditions,
requirements and arithmetic are Python's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


def at(p: Any, i: int) -> Any:
    """A parameter that is one number for all axes, or one for each: the number for axis i."""
    if isinstance(p, (int, float)):
        return p
    return p[0] if len(p) == 1 else p[i]


PYTHON = (sum, max, min, len, abs, int, str, zip, type, tuple, range, enumerate)
HELPERS: dict[str, Any] = {"prod": math.prod, "at": at, **{f.__name__: f for f in PYTHON}}


class MisfitError(Exception):
    """A shape is not the one that is stated."""


class UnreadableError(Exception):
    """A statement that the grammar does not have."""


# --- Reading -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """One item: `kind` is "...", "run", "size" or "axis" (of which `inner` is the item)."""

    kind: str
    text: str
    inner: Item | None = None
    default: int | None = None


@dataclass(frozen=True)
class Stated:
    """The shape of an argument or result, of every member if it is a `sequence`."""

    items: tuple[Item, ...]
    parameter: str = ""
    sequence: bool = False


@dataclass(frozen=True)
class Case:
    """One case of a statement."""

    text: str
    inputs: tuple[Stated, ...]
    results: tuple[Stated, ...]
    condition: str
    requirement: str


def statement(doc: str | None) -> str | None:
    """What a docstring states, on one line; None if it states nothing."""
    lines = "\n".join(line.strip() for line in (doc or "").splitlines())
    found = re.search(r"^Shapes: (.+?)\.$", lines, re.MULTILINE | re.DOTALL)
    return " ".join(found[1].split()) if found else None


def read(text: str) -> tuple[Case, ...]:
    """The cases of a statement."""
    return tuple(_case(part.strip()) for part in cut(text, ";"))


def cut(text: str, separator: str) -> Iterator[str]:
    """`text` cut at each `separator` that stands outside of brackets."""
    depth = start = 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0 and i >= start and text.startswith(separator, i):
            yield text[start:i]
            start = i + len(separator)
    if depth:
        raise UnreadableError(f"brackets do not match: {text}")
    yield text[start:]


def _case(text: str) -> Case:
    rest, *requirement = cut(text, " with ")
    rest, *condition = cut(rest, " if ")
    sides = [side.strip() for side in cut(rest, "->")]
    if len(sides) != 2 or len(requirement) > 1 or len(condition) > 1:
        raise UnreadableError(f"not `inputs -> results [if ...] [with ...]`: {text}")
    inputs, results = ([_stated(s) for s in cut(side, ",") if s.strip()] for side in sides)
    return Case(text, tuple(inputs), tuple(results), "".join(condition), "".join(requirement))


def _stated(text: str) -> Stated:
    found = re.fullmatch(r"(\w*) ?(\[)?\((.*)\)(\])?", text.strip())
    if not found or bool(found[2]) != bool(found[4]):
        raise UnreadableError(f"not a shape: {text}")
    items = tuple(_item(i.strip()) for i in cut(found[3], ",") if i.strip())
    if sum(i.kind in ("...", "run") for i in items) > 1:
        raise UnreadableError(f"two runs in one shape: {text}")
    return Stated(items, found[1], bool(found[2]))


def _item(text: str) -> Item:
    if text == "...":
        return Item(text, text)
    if text.startswith("*"):
        return Item("run", text[1:])
    if found := re.fullmatch(r"(\w+)(?: or (-?\d+))?: (.+)", text):
        return Item("axis", found[1], _item(found[3]), int(found[2]) if found[2] else None)
    return Item("size", text)


# --- Comparing -----------------------------------------------------------------------------------


@dataclass
class Sizes:
    """The sizes that names stand for in one call, and the runs that broadcast."""

    parameters: dict[str, Any]
    sizes: dict[str, Any] = field(default_factory=dict[str, Any])
    runs: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    def value(self, text: str) -> Any:
        """What an expression is, None if a name in it has no size yet."""
        if text.isidentifier() and text not in self.sizes and self.parameters.get(text) is None:
            return None
        space = {"__builtins__": HELPERS, **self.parameters, **self.sizes}
        try:
            return eval(text, space)
        except Exception as cause:
            raise UnreadableError(f"`{text}` cannot be computed: {cause!r}") from cause

    def agree(self, text: str, actual: Any) -> None:
        """Give a new name the size `actual`; raise `MisfitError` if it has another."""
        value = self.value(text)
        if value is None:
            self.sizes[text] = actual
            return
        if isinstance(actual, tuple) and isinstance(value, int):
            value = (value,) * len(actual)
        if value != actual and (not isinstance(actual, tuple) or tuple(value) != actual):
            raise MisfitError(f"`{text}` is {value}, not {actual}")

    def broadcast(self, actual: tuple[int, ...], result: bool) -> None:
        """A run `...`: of an input it is noted, of a result compared."""
        if not result:
            self.runs.append(actual)
        elif np.broadcast_shapes(*self.runs) != actual:
            raise MisfitError(f"`...` is {np.broadcast_shapes(*self.runs)}, not {actual}")


def fit(stated: Stated, value: Any, sizes: Sizes, *, result: bool = False) -> None:
    """Compare an argument or result with what is stated of it; bind the names that are new."""
    if not stated.sequence:
        _fit(stated.items, shape_of(value), sizes, result)
        return
    if not isinstance(value, Sequence):
        raise MisfitError(f"not a sequence: {type(value).__name__}")
    known, new = dict(sizes.sizes), dict[str, list[Any]]()
    for member in value:
        _fit(stated.items, shape_of(member), sizes, result)
        for name in [n for n in sizes.sizes if n.endswith("_i") and n not in known]:
            new.setdefault(name, []).append(sizes.sizes.pop(name))
    sizes.sizes |= new


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of an array, tensor, placeholder, list or number."""
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def _fit(items: Sequence[Item], shape: tuple[int, ...], sizes: Sizes, result: bool) -> None:
    taken: set[int] = set()
    for item in items:
        if item.kind == "axis":
            taken |= _named_axes(item, shape, sizes)
    rest = tuple(n for i, n in enumerate(shape) if i not in taken)
    plain = [item for item in items if item.kind != "axis"]
    run = next((i for i, item in enumerate(plain) if item.kind != "size"), len(plain))
    tail = len(plain) - run - 1
    if len(rest) < len(plain) - 1 or (run == len(plain) != len(rest)):
        raise MisfitError(f"{shape} has not the number of axes that is stated")
    for item, n in zip(plain[:run], rest, strict=False):
        sizes.agree(item.text, n)
    if run < len(plain):
        middle = rest[run : len(rest) - tail]
        if plain[run].kind == "...":
            sizes.broadcast(middle, result)
        else:
            sizes.agree(plain[run].text, middle)
        for item, n in zip(plain[run + 1 :], rest[len(rest) - tail :], strict=True):
            sizes.agree(item.text, n)


def _named_axes(item: Item, shape: tuple[int, ...], sizes: Sizes) -> set[int]:
    """Compare the sizes of the axes that a parameter names; where these are."""
    assert item.inner is not None
    axis, inner = sizes.parameters[item.text], item.inner
    axis = item.default if axis is None else axis
    if axis is None:
        places = tuple(range(len(shape)))
        sizes.agree(f"_{item.text}_count", len(shape))
    elif inner.kind == "run":  # several axes where there was one: that one is counted
        run = sizes.value(inner.text)
        if run is None:
            raise UnreadableError(f"`*{inner.text}` is not known")
        first = axis % max(len(shape) - len(run) + 1, 1)
        places = tuple(range(first, first + len(run)))
    else:
        places = tuple(a % max(len(shape), 1) for a in np.atleast_1d(axis).tolist())
    if any(p >= len(shape) for p in places):
        raise MisfitError(f"{shape} has no axis {axis}")
    found = tuple(shape[p] for p in places)
    single = isinstance(axis, (int, np.integer)) and inner.kind != "run"
    sizes.agree(inner.text, found[0] if single else found)
    return set(places)


# --- A call --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A call that took place: the parameters in their order, attributes, and the result."""

    arguments: dict[str, Any]
    attributes: dict[str, Any]
    result: Any

    def __str__(self) -> str:
        return ", ".join(f"{k}={_show(v)}" for k, v in {**self.arguments, "": self.result}.items())


def _show(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_show, value))}]"
    shape = getattr(value, "shape", None)
    return str(shape) if isinstance(shape, tuple) else repr(value)


def check(cases: Sequence[Case], call: Call) -> Case:
    """The case that decides; raises `MisfitError` if the call is not as it says, or none fits."""
    reasons: list[str] = []
    for case in cases:
        sizes = Sizes({**call.attributes, **call.arguments})
        try:
            _check_inputs(case, call, sizes)
        except MisfitError as reason:
            reasons.append(f"{case.text}: {reason}")
            continue
        try:
            _check_results(case, call, sizes)
        except MisfitError as reason:
            raise MisfitError(f"{case.text}: {reason}; the call: {call}") from None
        return case
    raise MisfitError(f"no case fits the inputs: {reasons}; the call: {call}")


def _check_inputs(case: Case, call: Call, sizes: Sizes) -> None:
    if case.condition and not sizes.value(case.condition):
        raise MisfitError(f"not if {case.condition}")
    places = list(call.arguments)
    for i, stated in enumerate(case.inputs):
        name = stated.parameter or places[i]
        if name not in call.arguments:
            raise UnreadableError(f"no parameter is called {name}")
        value = call.arguments[name]
        if value is not None:
            fit(stated, value, sizes)


def _check_results(case: Case, call: Call, sizes: Sizes) -> None:
    one = len(case.results) == 1
    if one and isinstance(call.result, (list, tuple)) != case.results[0].sequence:
        raise MisfitError(f"{type(call.result).__name__} is not what is stated")
    if not one and (not isinstance(call.result, tuple) or len(call.result) != len(case.results)):
        raise MisfitError(f"not {len(case.results)} results")
    for stated, value in zip(case.results, [call.result] if one else call.result, strict=True):
        if value is not None:
            fit(stated, value, sizes, result=True)
    sizes.sizes["result"] = call.result
    if case.requirement and not sizes.value(case.requirement):
        raise MisfitError(f"not with {case.requirement}")
