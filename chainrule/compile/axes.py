"""Dynamic axes: one compilation for every length of a sequence or size of a batch.

The function is traced at several sizes of the axes that are declared dynamic; `dynamic.unified`
makes one program of the traces. A call reads the sizes from its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, cast, final

import numpy as np

from chainrule.compile.assemble import Call
from chainrule.compile.bounds import checked
from chainrule.compile.dynamic import Sample, count_needed, same_structure, samples_near, unified
from chainrule.compile.program import Native
from chainrule.compile.record import record
from chainrule.compile.simplify import simplified
from chainrule.compile.state import Variant
from chainrule.compile.terms import Program, Terms
from chainrule.errors import ChainruleError, ConfigError, ShapeError, TraceError
from chainrule.graph import variable
from chainrule.tensor import Tensor
from chainrule.tree import flatten

Axes = Mapping[int, str]
"""By axis the name of its size."""


def declared(f: Callable[..., Any], dynamic: Any) -> dict[str | int, Axes]:
    """What `jit(dynamic=...)` says: by name and by place of an argument, its dynamic axes.

    `dynamic` maps arguments to an axis (an int), to names of axes in order (None for one that is
    not dynamic), or to a dict from axis to name. Sizes of the same name are equal.
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


@final
@dataclass(eq=False, slots=True)
class Sized:
    """A program with symbols, which reads their values from the shapes of its inputs."""

    run: Any
    places: list[tuple[str, int, int]]
    """Symbol, input, axis."""
    last: tuple[tuple[int, ...], dict[str, int]] = field(default=((), {}))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run it on arrays."""
        sizes = tuple([inputs[i].shape[a] for _, i, a in self.places])
        if sizes != self.last[0]:
            self.last = (sizes, {s: n for (s, _, _), n in zip(self.places, sizes, strict=True)})
        return self.run(inputs, self.last[1])


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


def record_sized(name: str, leaves: Sequence[Any], axes: Sequence[Axes], call: Call) -> Variant:
    """A variant for all sizes of the dynamic axes; see `record`."""
    now = sizes_now(name, leaves, axes)
    if not now:
        return record(name, leaves, call)
    programs: list[tuple[Sample, Program, Variant]] = []
    needed = count_needed(len(now))
    for sample in samples_near(now, _sizes_of(leaves, axes), needed):
        found = _traced(name, leaves, axes, sample, call, first=not programs)
        if found is None:
            continue
        programs.append(found)
        like = [p for p in programs if same_structure(p[1], found[1])]
        if len(like) == needed:
            return _sized(like)
    several = [p for p in programs if not same_structure(p[1], programs[0][1])]
    if several:
        unified([programs[0][1], several[0][1]], [programs[0][0], several[0][0]])
    raise TraceError(
        f"jit: {name} runs at too few sizes of {', '.join(now)} near {now} to tell how it depends "
        "on them: leave them out of `dynamic`"
    )


def _traced(
    name: str,
    leaves: Sequence[Any],
    axes: Sequence[Axes],
    sample: Sample,
    call: Call,
    *,
    first: bool,
) -> tuple[Sample, Program, Variant] | None:
    """The program at the sizes `sample`; None if the function refuses them."""
    kept: list[Program] = []
    resized = [_resized(x, a, sample) if a else x for x, a in zip(leaves, axes, strict=True)]
    try:
        variant = record(name, resized, call, kept.append)
    except ChainruleError:
        if first:
            raise
        return None
    if variant.op is not None:
        raise TraceError(
            f"jit: what {name} returns depends on something that requires a gradient, which "
            "dynamic sizes do not support yet: call backward() inside, or use no_grad()"
        )
    if variant.draws:
        raise TraceError(f"jit: {name} draws random numbers, which needs sizes that are known")
    return sample, kept[0], variant


def _resized(x: Any, axes: Axes, sample: Sample) -> Any:
    """Something of the shape that `x` has at other sizes."""
    shape = [sample[axes[a]] if a in axes else n for a, n in enumerate(x.shape)]
    array = np.broadcast_to(np.zeros((), x.dtype), shape)
    return variable(array) if isinstance(x, Tensor) else array


def _sizes_of(leaves: Sequence[Any], axes: Sequence[Axes]) -> frozenset[int]:
    """Sizes that mean something else: no good for a trace."""
    found = {1, 2}
    for x, named in zip(leaves, axes, strict=True):
        found |= {n for a, n in enumerate(np.shape(getattr(x, "value", x))) if a not in named}
    return frozenset(found)


def _sized(found: Sequence[tuple[Sample, Program, Variant]]) -> Variant:
    """One variant of all."""
    samples, programs, (variant, *_) = zip(*found, strict=True)
    looked_at = [checked(p, Terms()) for p in programs]
    program = unified([simplified(p, Terms()) for p, _ in looked_at], samples)
    native = Native(program, looked_at[0][1])
    variant.run = Sized(native, [(s, *_place_of(programs, samples, s)) for s in native.symbols])
    return variant


def _place_of(
    programs: Sequence[Program], samples: Sequence[Sample], symbol: str
) -> tuple[int, int]:
    """An input, and its axis, whose size the symbol is."""
    for i, t in enumerate(programs[0].inputs):
        for a in range(len(t.shape)):
            pairs = zip(programs, samples, strict=True)
            if all(p.inputs[i].shape[a] == s[symbol] for p, s in pairs):
                return i, a
    raise TraceError(f"jit: no argument that is used has the dynamic size {symbol!r}")
