"""Arguments that are trees of arrays: each array is an input of its own.

`forward(params, x)` with `params = {"W": .., "b": ..}` has the inputs `params['W']`, `params['b']`
and `x`; its backward may return a tree of gradients in the place of `params`, or nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from chainrule.tree import Structure, flatten
from chainrule.verify.arrays.members import Way
from chainrule.verify.arrays.naming_conventions import gradient_of, last_names, returned_names
from chainrule.verify.arrays.returned_gradients import (
    Returned,
    by_shape,
    gradients_in,
    is_container,
    match_gradients,
    names_on,
    ways_of,
)
from chainrule.verify.arrays.values import is_float
from chainrule.verify.subject import Input, extent

_ONE = Structure(None, (), ())


@dataclass(frozen=True)
class Argument:
    """An argument of the forward: a tree with arrays in it, or one input."""

    name: str
    structure: Structure

    @property
    def is_tree(self) -> bool:
        """Whether it is a container."""
        return self.structure.kind is not None

    @property
    def ways(self) -> list[Way]:
        """From the argument to each of its inputs."""
        return list(ways_of(self.structure, Way()))

    @property
    def leaves(self) -> list[str]:
        """Names of its inputs."""
        steps = [[f".{k}" if by_name else f"[{k!r}]" for by_name, k in w.steps] for w in self.ways]
        return [self.name + "".join(s) for s in steps]

    def parts(self, value: Any) -> list[Any]:
        """Its inputs, taken out of it."""
        return flatten(value)[0] if self.is_tree else [value]

    def whole(self, parts: Sequence[Any]) -> Any:
        """The argument of these inputs."""
        return self.structure.unflatten(parts)

    def gradients(self, bar: Any, inputs: Sequence[Input]) -> list[Any]:
        """What was returned for it, by input: at the same ways, else by names and shapes; None for
        those that got nothing."""
        if not self.is_tree:
            return [bar]
        returned, ways = list(gradients_in(bar, Way())), self.ways
        at = {_keys(r.way): r.value for r in returned}
        if at.keys() <= {_keys(way) for way in ways}:
            return [at.get(_keys(way)) for way in ways]
        return _by_name(returned, [Way().attribute(self.name).then(w) for w in ways], inputs)


def argument_of(name: str, value: Any) -> Argument:
    """The argument `value`."""
    leaves, structure = flatten(value)
    return Argument(name, structure if any(map(is_float, leaves)) else _ONE)


def group(arguments: Sequence[Argument], xs: Sequence[Any]) -> list[Any]:
    """The arguments of these inputs."""
    rest = iter(xs)
    return [a.whole([next(rest) for _ in a.ways]) for a in arguments]


def assign(
    returned: Any, arguments: Sequence[Argument], inputs: Sequence[Input], backward: Any
) -> list[Any]:
    """What a backward returned, by input: None for those that got nothing.

    A dict goes by names, of arguments or of what is in them. A tuple has one gradient for each
    argument, or one for each wanted argument, or fewer, which then go by the names in the
    backward's `return`, else in order; one for each array of a tree goes by names, else by shape.
    """
    ways = [Way().attribute(a.name).then(way) for a in arguments for way in a.ways]
    mirror = _mirror(returned, arguments, inputs)
    if mirror is None and isinstance(returned, dict):
        trees = any(a.is_tree for a in arguments)
        return _by_name(list(gradients_in(returned, Way())), ways, inputs, by_shapes=trees)
    parts = (
        _parts(returned)
        if mirror is None
        else [returned if a is mirror else None for a in arguments]
    )
    names_wanted = {x.name for x in inputs if x.wanted}
    wanted = [i for i, a in enumerate(arguments) if names_wanted & set(a.leaves)]
    places = _places(len(parts), [a.name for a in arguments], wanted, backward)
    if places is wanted and len(parts) < len(wanted) and _fit_in_order(parts, arguments, inputs):
        places = range(len(parts))
    bars: list[Any] = [None] * len(arguments)
    for i, bar in zip(places, parts, strict=False):
        bars[i] = bar
    fits = [
        a.is_tree == is_container(b) for a, b in zip(arguments, bars, strict=True) if b is not None
    ]
    if len(parts) > len(arguments) or not all(fits):
        names = last_names(len(parts), backward)
        pairs = zip(names, parts, strict=True)
        flat = [r for n, part in pairs for r in gradients_in(part, Way().attribute(n or ""))]
        return _by_name(flat, ways, inputs)
    rest = iter(inputs)
    own = [[next(rest) for _ in a.ways] for a in arguments]
    return [
        b for a, bar, xs in zip(arguments, bars, own, strict=True) for b in a.gradients(bar, xs)
    ]


def _by_name(
    returned: Sequence[Returned],
    ways: Sequence[Way],
    inputs: Sequence[Input],
    *,
    by_shapes: bool = True,
) -> list[Any]:
    """The gradient called after each input; else, of those left, in order, one of its shape."""
    found = match_gradients(returned, ways, [names_on(way)[-1:] for way in ways])
    if by_shapes:
        missing = [i for i, r in enumerate(found) if r is None and inputs[i].wanted]
        rest = [r for r in returned if r not in found]
        shapes = [np.shape(inputs[i].value) for i in missing]
        for i, r in zip(missing, by_shape(rest, shapes), strict=True):
            found[i] = r
    return [None if r is None else r.value for r in found]


def _keys(way: Way) -> tuple[Any, ...]:
    """The steps of a way, attributes and items alike: a dict may stand for a dataclass."""
    return tuple([key for _, key in way.steps])


def _parts(returned: Any) -> list[Any]:
    return list(cast("list[Any]", returned)) if isinstance(returned, tuple | list) else [returned]


def _mirror(
    returned: Any, arguments: Sequence[Argument], inputs: Sequence[Input]
) -> Argument | None:
    """The argument whose gradient is all that was returned: a tree like it."""
    values = iter(inputs)
    for place, a in enumerate(arguments):
        shapes = [extent(next(values).value) for _ in a.ways]
        parts = _parts(returned)
        each = len(parts) == len(arguments) and is_container(parts[place])
        if a.is_tree and not each and _mirrors(returned, a, shapes):
            return a
    return None


def _mirrors(returned: Any, a: Argument, shapes: Sequence[Any]) -> bool:
    """Whether what was returned is a tree like an argument; a tuple of arrays, which could have one
    for each argument, if their shapes say so too."""
    bars = list(gradients_in(returned, Way()))
    same = [_keys(r.way) for r in bars] == [_keys(way) for way in a.ways]
    fits = [extent(r.value) for r in bars] == list(shapes)
    mixed = not isinstance(returned, tuple) or any(map(is_container, _parts(returned)))
    return same and (fits or mixed)


def _fit_in_order(
    parts: Sequence[Any], arguments: Sequence[Argument], inputs: Sequence[Input]
) -> bool:
    """Whether gradients have the shapes of the first arguments, numbers that are learnt as well."""
    known = {x.name: _shape(x.value) for x in inputs}
    shapes = [_shape(p) for p in parts]
    pairs = zip(shapes, arguments, strict=False)
    return all(s is not None and known.get(a.name) == s for s, a in pairs)


def _shape(x: Any) -> tuple[int, ...] | None:
    """That of an array or a number; None of others."""
    return () if isinstance(x, float) else getattr(x, "shape", None)


def _places(count: int, names: list[str], wanted: list[int], backward: Any) -> Sequence[int]:
    """The argument to which each of `count` returned gradients belongs."""
    if count >= len(names):
        return range(len(names))
    if count == len(wanted):
        return wanted
    said = [gradient_of(n, names) if n else None for n in returned_names(backward)]
    known = [names.index(n) for n in said if n is not None]
    if len(known) == count and len(set(known)) == count:
        return known
    return wanted if count < len(wanted) else range(count)
