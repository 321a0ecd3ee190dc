"""Dynamic axes: one compilation for every length of a sequence or size of a batch.

The function is traced at several sizes of the axes that are declared dynamic; `dynamic.unified`
makes one program of the traces. A call reads the sizes from its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from inspect import signature
from typing import Any, cast, final

import numpy as np

from chainrule.compile.rewriting.bounds import checked
from chainrule.compile.rewriting.simplify import simplified
from chainrule.compile.running.program import Native
from chainrule.compile.terms.dynamic import holds_at, structure, unified
from chainrule.compile.terms.fitting import Sample, count_needed, samples_near
from chainrule.compile.terms.terms import Program, Terms
from chainrule.compile.tracing.assemble import Call
from chainrule.compile.tracing.record import record
from chainrule.compile.tracing.state import Variant
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
    confirm: Callable[[dict[str, int]], bool]
    """Whether the program holds at these sizes: the function is traced at them."""
    known: dict[tuple[int, ...], bool]
    """By sizes, what `confirm` said."""
    last: tuple[tuple[int, ...], dict[str, int]] = field(default=((), {}))

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Whether the program holds at the sizes of these arrays. What the function raises there
        is raised."""
        sizes = tuple([inputs[i].shape[a] for _, i, a in self.places])
        if sizes not in self.known:
            names = [s for s, _, _ in self.places]
            self.known[sizes] = self.confirm(dict(zip(names, sizes, strict=True)))
        return self.known[sizes]

    def forget(self) -> None:
        """Give scratch memory back; a later call takes new one."""
        self.run.forget()

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


@final
@dataclass(frozen=True, eq=False)
class Trace:
    """What a function does at certain sizes; `checks` as `bounds.checked` gives them."""

    sample: Sample
    stated: Program
    """As the function says it."""
    terms: Terms
    checks: list[str]
    variant: Variant

    @cached_property
    def program(self) -> Program:
        """Simplified."""
        return simplified(self.stated, self.terms)

    @cached_property
    def structure(self) -> list[tuple[type, int]]:
        """That of `program`: what two traces must share to be one program."""
        return structure(self.program)


def record_sized(name: str, leaves: Sequence[Any], axes: Sequence[Axes], call: Call) -> Variant:
    """A variant for all sizes of the dynamic axes; see `record`.

    At present sizes that are a special case (an axis that happens to be 1, or as long as another
    one, may make a program of its own) it is one for these sizes alone.
    """
    now = sizes_now(name, leaves, axes)
    if not now:
        return record(name, leaves, call)
    traces: list[Trace] = []
    needed = count_needed(len(now))
    for sample in samples_near(now, _sizes_of(leaves, axes), needed):
        try:
            found = _traced(name, leaves, axes, sample, call)
        except ChainruleError:
            if not traces:
                raise
            continue
        traces.append(found)
        like = [t for t in traces if t.structure == found.structure]
        if len(like) == needed:
            if traces[0] not in like:
                return _alone(traces[0], leaves)
            return _sized(name, leaves, axes, call, like)
    first = traces[0]
    other = next((t for t in traces if t.structure != first.structure), None)
    if other is not None:
        unified([first.program, other.program], [first.sample, other.sample])
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
) -> Trace:
    """What the function does at the sizes `sample`. What it raises there is raised."""
    kept: list[Program] = []
    resized = [_resized(x, a, sample) if a else x for x, a in zip(leaves, axes, strict=True)]
    variant = record(name, resized, call, kept.append)
    if variant.op is not None:
        raise TraceError(
            f"jit: what {name} returns depends on something that requires a gradient, which "
            "dynamic sizes do not support yet: call backward() inside, or use no_grad()"
        )
    if variant.draws:
        raise TraceError(f"jit: {name} draws random numbers, which needs sizes that are known")
    terms = Terms()
    stated, checks = checked(kept[0], terms)
    return Trace(sample, stated, terms, checks, variant)


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


def _alone(found: Trace, leaves: Sequence[Any]) -> Variant:
    """A variant for the present sizes."""
    variant = found.variant
    variant.run = Native(found.program, found.checks)
    shapes = [leaves[i].shape for i in variant.args]
    variant.fits = lambda inputs: [x.shape for x in inputs[: len(shapes)]] == shapes
    return variant


def _sized(
    name: str,
    leaves: Sequence[Any],
    axes: Sequence[Axes],
    call: Call,
    found: Sequence[Trace],
) -> Variant:
    """One variant of all."""
    samples, programs = [t.sample for t in found], [t.program for t in found]
    variant = found[0].variant
    program = unified(programs, samples)
    native = Native(program, found[0].checks)
    # of the leaves only what a trace needs is kept
    specs = [_resized(x, a, samples[0]) if a else x for x, a in zip(leaves, axes, strict=True)]

    together = cache(lambda: _together(found))  # only asked for at another size

    def confirm(sizes: dict[str, int]) -> bool:
        sample = {**samples[0], **sizes}
        again = _traced(name, specs, axes, sample, call)
        # Equal as stated is equal when simplified, and is cheaper to see.
        as_stated = (all_stated := together()) and holds_at(all_stated, again.stated, sample)
        return bool(as_stated) or holds_at(program, again.program, sample)

    places = [(s, *_place_of(programs, samples, s)) for s in native.symbols]
    known = {tuple([sample[s] for s, _, _ in places]): True for sample in samples}
    run = Sized(native, places, confirm, known)
    variant.run, variant.fits = run, run.fits
    return variant


def _together(found: Sequence[Trace]) -> Program | None:
    """All traces as stated as one program, None if they say it differently."""
    try:
        return unified([t.stated for t in found], [t.sample for t in found])
    except TraceError:
        return None


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
