"""Which axes are dynamic: as `jit` is told, by leaf of the arguments, and their sizes in a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, cast

import numpy as np

from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ShapeError
from chainrule.tree import flatten

Axes = Mapping[int, str]
"""By axis the name of its size."""


def declared_axes(f: Callable[..., Any], dynamic: Any) -> dict[str | int, Axes]:
    """What `jit(dynamic=...)` says: by name and by place of an argument, its dynamic axes.

    `dynamic` maps arguments to an axis (an int), to a dict from axis to name, or to names of axes
    in order. There None stands for an axis that is not dynamic. Sizes of the same name are equal.
    """
    if dynamic is None:
        return {}
    if not isinstance(dynamic, Mapping):
        raise ConfigError(
            'jit: dynamic maps arguments to axes, such as {"tokens": ("B", "T")} or {0: {1: "T"}}, '
            f"not {dynamic!r}"
        )
    try:
        known = list(signature(f).parameters)
    except (TypeError, ValueError):
        known = []
    out: dict[str | int, Axes] = {}
    for arg, axes in cast("Mapping[Any, Any]", dynamic).items():
        if isinstance(arg, str) and known and arg not in known:
            raise ConfigError(f"jit: dynamic names {arg!r}; the arguments are {', '.join(known)}")
        named = _axes(arg, axes)
        out[arg] = named
        if isinstance(arg, str) and arg in known:
            out[known.index(arg)] = named
        elif isinstance(arg, int) and arg < len(known):
            out[known[arg]] = named
    return out


def _axes(arg: Any, axes: Any) -> Axes:
    if isinstance(axes, int):
        return {axes: f"n{arg}_{axes}"}
    if isinstance(axes, tuple | list):
        names = cast("Sequence[Any]", axes)
        return {i: name for i, name in enumerate(names) if name is not None}
    if isinstance(axes, Mapping):
        return dict(cast("Mapping[int, str]", axes))
    raise ConfigError(
        f"jit: the dynamic axes of {arg!r} are an int, a tuple of names or a dict, not {axes!r}"
    )


def spread(
    wanted: Mapping[str | int, Axes], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Axes]:
    """The dynamic axes of every leaf of the arguments, counted from the front."""
    out: list[Axes] = []
    for name, arg in [*enumerate(args), *kwargs.items()]:
        axes = wanted.get(name, {})
        for x in flatten(arg)[0]:
            ndim = np.ndim(x.value) if isinstance(x, Tensor) else np.ndim(x)
            out.append({a % ndim: s for a, s in axes.items() if -ndim <= a < ndim})
    return out


def sizes_now(name: str, leaves: Sequence[Any], axes: Sequence[Axes]) -> dict[str, int]:
    """The sizes of the dynamic axes in a call; raises `ShapeError` where one name has two."""
    now: dict[str, int] = {}
    for x, named in zip(leaves, axes, strict=True):
        for a, s in named.items():
            n = x.shape[a]
            if now.setdefault(s, n) != n:
                raise ShapeError(
                    f"jit: the arguments of {name} have {now[s]} and {n} along axes that are both "
                    f"called {s!r}: axes of one name have one size"
                )
    return now
