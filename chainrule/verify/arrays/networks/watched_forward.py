"""One forward of a network under observation: what its layers keep, and who changes it then; and
methods in place of a layer's own that give each of its calls memory of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from chainrule.verify.arrays.layer import Layer
from chainrule.verify.arrays.members import Way, attributes, walk
from chainrule.verify.arrays.networks.network import layers_in, run_wrapped
from chainrule.verify.arrays.values import is_float
from chainrule.verify.copies import twins
from chainrule.verify.subject import Array
from chainrule.verify.user_frames import Line, here


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a layer's forward."""

    way: Way
    layer: Any
    line: Line | None
    left: dict[str, Any]
    """What the layer holds after it; of lists what they hold then."""
    new: dict[str, Any]
    """What of it the call has given another value."""

    @property
    def cls(self) -> Any:
        """The layer's class."""
        return cast(Any, type(self.layer))


@dataclass(frozen=True, eq=False)
class HeldArray:
    """An array that a layer holds after its call, and a copy of it."""

    layer: Way
    name: str
    array: Array
    before: Array


@dataclass(eq=False)
class Watched:
    """What was seen in one forward of a network."""

    calls: list[Call] = field(default_factory=list[Call])
    spaces: dict[Any, dict[str, Any]] = field(default_factory=dict[Any, dict[str, Any]])
    """What stood in each class before its first layer ran."""
    kept: list[HeldArray] = field(default_factory=list[HeldArray])
    written: list[tuple[HeldArray, Call]] = field(default_factory=list[tuple[HeldArray, Call]])
    """Arrays that another layer's call has changed since they were kept."""

    def around(self, way: Way, layer: Any, forward: Callable[..., Any]) -> Callable[..., Any]:
        """A forward that is watched."""

        @functools.wraps(forward)
        def instead(*args: Any, **kwargs: Any) -> Any:
            cls = cast(Any, type(layer))
            self.spaces.setdefault(cls, dict(cast("dict[str, Any]", vars(cls))))
            at, first = here(), dict(attributes(layer))
            result = forward(*args, **kwargs)
            left = {k: _snapshot(x) for k, x in attributes(layer).items()}
            new = {k: x for k, x in attributes(layer).items() if first.get(k) is not x}
            self.calls.append(Call(way, layer, at, left, new))
            if not layers_in(layer):  # What holds layers changes what these change.
                self._changed(self.calls[-1])
            return result

        return instead

    def _changed(self, call: Call) -> None:
        others = [k for k in self.kept if k.layer != call.way]
        changed = [k for k in others if not np.array_equal(k.array, k.before, equal_nan=True)]
        self.written += [(k, call) for k in changed]
        held = [(str(n), x) for n, x in walk(call.layer) if is_float(x) and np.ndim(x)]
        self.kept = [k for k in others if k not in changed]
        self.kept += [HeldArray(call.way, n, x, np.array(x)) for n, x in held]


def _snapshot(x: Any) -> Any:
    """What a list holds now, for calls may add to it; anything else as it is."""
    return list(cast("list[Any]", x)) if isinstance(x, list) else x


def watch_forward(whole: Layer) -> Watched:
    """What one forward of a network shows."""
    watched = Watched()
    run_wrapped(whole, watched.around)
    return watched


_STACK = "_kept_by_each_call"
"""Where a layer that is tried keeps what each of its calls has left."""
Method: TypeAlias = Callable[..., Any]
Replaced: TypeAlias = tuple[Any, str, Callable[[Any], Any]]
"""A class, the name of a method, and what is made of that."""


def with_copies(forward: Method) -> Method:
    """A forward that gets copies of its arguments."""

    @functools.wraps(forward)
    def instead(self: Any, *args: Any, **kwargs: Any) -> Any:
        return forward(self, *twins(args), **kwargs)

    return instead


def with_stack(
    cls: Any, methods: tuple[str, str], names: tuple[str, ...], holder: Any = None
) -> list[Replaced]:
    """Methods of a class with which each backward finds what its own forward has kept, that of the
    last call first; `holder`: what has the attributes, if that is not the object."""

    def pushing(forward: Method) -> Method:
        @functools.wraps(forward)
        def instead(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = forward(self, *args, **kwargs)
            held = {n: getattr(holder or self, n) for n in names if hasattr(holder or self, n)}
            left = {n: _copied(x) for n, x in held.items()}
            setattr(self, _STACK, [*getattr(self, _STACK, []), left])
            return result

        return instead

    def popping(backward: Method) -> Method:
        @functools.wraps(backward)
        def instead(self: Any, *args: Any, **kwargs: Any) -> Any:
            *earlier, last = (dict[str, Any](), *getattr(self, _STACK, []))
            setattr(self, _STACK, earlier[1:])
            for name, x in last.items():
                setattr(holder or self, name, x)
            return backward(self, *args, **kwargs)

        return instead

    return [(cls, methods[0], pushing), (cls, methods[1], popping)]


def _copied(x: Any) -> Any:
    """What an array or a list holds now; anything else as it is."""
    return cast(Any, x).copy() if isinstance(x, np.ndarray | list) else x
