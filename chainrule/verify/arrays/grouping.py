"""Arguments that are dicts or lists of arrays: each array is an input of its own.

`forward(params, x)` with `params = {"W": .., "b": ..}` has the inputs `params['W']`, `params['b']`
and `x`; its backward may return a dict of gradients in the place of `params`, or nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from chainrule.verify.arrays.naming import gradient_of, returned_names
from chainrule.verify.arrays.values import is_float
from chainrule.verify.subject import Input


@dataclass(frozen=True)
class Argument:
    """An argument of the forward. `keys` are those of a dict, the places of a list or tuple of
    arrays; None for anything else, which is one input."""

    name: str
    kind: type[Any]
    keys: tuple[Any, ...] | None

    @property
    def leaves(self) -> list[str]:
        """Names of its inputs."""
        return [self.name] if self.keys is None else [f"{self.name}[{k!r}]" for k in self.keys]

    def parts(self, value: Any) -> list[Any]:
        """Its inputs, taken out of it."""
        return [value] if self.keys is None else [value[k] for k in self.keys]

    def whole(self, parts: Sequence[Any]) -> Any:
        """The argument of these inputs."""
        if self.keys is None:
            return parts[0]
        if issubclass(self.kind, dict):
            return dict(zip(self.keys, parts, strict=True))
        return tuple(parts) if issubclass(self.kind, tuple) else list(parts)

    def gradients(self, bar: Any) -> list[Any]:
        """What was returned for it, by input: None for those that got nothing."""
        if self.keys is None:
            return [bar]
        if isinstance(bar, dict):
            return by_name(cast("dict[Any, Any]", bar), [str(k) for k in self.keys])
        given = list(cast("list[Any]", bar)) if isinstance(bar, list | tuple) else []
        return [*given, *[None] * len(self.keys)][: len(self.keys)]


def argument_of(name: str, value: Any) -> Argument:
    """The argument `value`."""
    keys: tuple[Any, ...] = ()
    if isinstance(value, dict):
        keys = tuple(cast("dict[Any, Any]", value))
    elif isinstance(value, list | tuple):
        keys = tuple(range(len(cast("list[Any]", value))))
    held = any(is_float(cast(Any, value)[k]) for k in keys)
    return Argument(name, type(cast(object, value)), keys if held else None)


def grouped(arguments: Sequence[Argument], xs: Sequence[Any]) -> list[Any]:
    """The arguments of these inputs."""
    rest = iter(xs)
    return [a.whole([next(rest) for _ in a.leaves]) for a in arguments]


def by_name(returned: Mapping[Any, Any], names: list[str]) -> list[Any]:
    """For each name the gradient that is called after it, None where there is none."""
    out: list[Any] = [None] * len(names)
    for key, bar in returned.items():
        owner = gradient_of(str(key), names)
        if owner is not None:
            out[names.index(owner)] = bar
    return out


def assigned(
    returned: Any, arguments: Sequence[Argument], inputs: Sequence[Input], backward: Any
) -> list[Any]:
    """What a backward returned, by input: None for those that got nothing.

    A dict goes by names, of arguments or of what is in them. A tuple has one gradient for each
    argument, or one for each wanted argument, or fewer, which then go by the names in the
    backward's `return`, else in order.
    """
    names = [a.name for a in arguments]
    if isinstance(returned, dict):
        known = cast("dict[Any, Any]", returned)
        keys = [str(k) for a in arguments for k in (a.keys or (a.name,))]
        if any(a.keys for a in arguments) and any(b is not None for b in by_name(known, keys)):
            return by_name(known, keys)
        bars = by_name(known, names)
    else:
        bars = [None] * len(names)
        names_wanted = {x.name for x in inputs if x.wanted}
        wanted = [i for i, a in enumerate(arguments) if names_wanted & set(a.leaves)]
        parts = _parts(returned, arguments)
        for i, bar in zip(_places(len(parts), names, wanted, backward), parts, strict=False):
            bars[i] = bar
    return [b for a, bar in zip(arguments, bars, strict=True) for b in a.gradients(bar)]


def _parts(returned: Any, arguments: Sequence[Argument]) -> list[Any]:
    """What was returned for each argument; a list may be that of a list of arrays."""
    if not isinstance(returned, tuple | list):
        return [returned]
    parts = list(cast("list[Any]", returned))
    for place, a in enumerate(arguments):
        fits = a.keys is not None and a.kind is type(parts) and len(parts) == len(a.keys)
        each = len(parts) == len(arguments) and isinstance(parts[place], list | tuple | dict)
        if fits and not each and isinstance(returned, list):
            return [parts if b is a else None for b in arguments]
    return parts


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
