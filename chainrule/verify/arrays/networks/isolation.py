"""Methods in place of a layer's own that give each of its calls memory of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np

from chainrule.verify.copies import twins

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
