"""Dynamic axes: one compilation for every length of a sequence or size of a batch.

The function is traced at several sizes of the axes that are declared dynamic; `dynamic.unified`
makes one program of the traces, and another one of their derivatives if there are some. A call
reads the sizes from its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from chainrule.compile.calling.declared import Axes, sizes_now
from chainrule.compile.rewriting.bounds import checked
from chainrule.compile.rewriting.simplify import simplified
from chainrule.compile.running.backend import uncollected
from chainrule.compile.running.program import Native
from chainrule.compile.terms.dynamic import holds_at, structure, symbols_of, unified
from chainrule.compile.terms.fitting import Sample, count_needed, samples_near
from chainrule.compile.terms.terms import Program, Terms
from chainrule.compile.tracing.assemble import Call
from chainrule.compile.tracing.derivative import Compiled, Derivative
from chainrule.compile.tracing.left import NUMBER, TENSOR
from chainrule.compile.tracing.record import record
from chainrule.compile.tracing.state import Variant
from chainrule.errors import ChainruleError, TraceError
from chainrule.graph import leaf, variable
from chainrule.op import Spec, new_op
from chainrule.tensor import Tensor


@final
@dataclass(eq=False, slots=True)
class Sized:
    """A program with symbols, which reads their values from the shapes of its inputs."""

    run: Native
    places: list[tuple[str, int, int]]
    """Symbol, input, axis."""
    confirm: Callable[[dict[str, int]], bool] = lambda sizes: True
    """Whether the program holds at these sizes: the function is traced at them."""
    known: dict[tuple[int, ...], bool] = field(default_factory=dict[tuple[int, ...], bool])
    """By sizes, what `confirm` said."""
    last: tuple[tuple[int, ...], dict[str, int]] = field(default=((), {}))

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Whether the program holds at the sizes of these arrays. What the function raises there
        is raised."""
        sizes = self._sizes(inputs)
        if sizes not in self.known:
            names = [s for s, _, _ in self.places]
            self.known[sizes] = self.confirm(dict(zip(names, sizes, strict=True)))
        return self.known[sizes]

    def forget(self) -> None:
        """Give scratch memory back; a later call takes new one."""
        self.run.forget()

    def symbols(self, inputs: Sequence[Any]) -> dict[str, int]:
        """The values of the symbols."""
        sizes = self._sizes(inputs)
        if sizes != self.last[0]:
            self.last = (sizes, {s: n for (s, _, _), n in zip(self.places, sizes, strict=True)})
        return self.last[1]

    def _sizes(self, inputs: Sequence[Any]) -> tuple[int, ...]:
        return tuple([inputs[i].shape[a] for _, i, a in self.places])

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run it on arrays."""
        return self.run(inputs, self.symbols(inputs))


# --- What is traced ------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Part:
    """A program of a trace; `checks` as `bounds.checked` gives them."""

    stated: Program
    """As the function says it."""
    terms: Terms
    checks: list[str]

    @staticmethod
    def of(program: Program) -> Part:
        """With looks at its indices."""
        terms = Terms()
        stated, checks = checked(program, terms)
        return Part(stated, terms, checks)

    @cached_property
    def program(self) -> Program:
        """Simplified."""
        return simplified(self.stated, self.terms)


@final
@dataclass(frozen=True, eq=False)
class Trace:
    """What a function does at certain sizes: a part, and one for the derivative if it has one."""

    sample: Sample
    parts: list[Part]
    variant: Variant

    @cached_property
    def structure(self) -> Any:
        """What two traces must share to be one program."""
        op = self.variant.op
        flow = None if op is None else (op.known.open, op.known.wrt)
        return [structure(p.program) for p in self.parts], flow, self.plain

    @property
    def plain(self) -> list[Any]:
        """What it returns beside tensors."""
        return [x for x in self.variant.returned if x is not TENSOR and x is not NUMBER]


def record_sized(name: str, leaves: Sequence[Any], axes: Sequence[Axes], call: Call) -> Variant:
    """A variant for all sizes of the dynamic axes; see `record`.

    At present sizes that are a special case (an axis that happens to be 1, or as long as another
    one, may make a program of its own) it is one for these sizes alone.
    """
    now = sizes_now(name, leaves, axes)
    if not now:
        return record(name, leaves, call)
    traces: list[Trace] = []
    least, most = count_needed(len(now))
    for sample in samples_near(now, _sizes_of(leaves, axes), most):
        try:
            found = _traced(name, leaves, axes, sample, call)
        except ChainruleError:
            if not traces:
                raise
            continue
        traces.append(found)
        like = [t for t in traces if t.structure == found.structure]
        if len(like) < least:
            continue
        if traces[0] not in like:
            return _alone(traces[0], leaves, axes)
        try:
            joined = _joined(like)
        except TraceError:
            if len(like) == most:
                raise
            continue
        return _sized(name, leaves, axes, call, like, joined)
    first = traces[0]
    if (other := next((t for t in traces if t.plain != first.plain), None)) is not None:
        raise TraceError(
            f"jit: {name} returns {first.plain} at {first.sample} and {other.plain} at "
            f"{other.sample} beside tensors: a size that is dynamic is no constant of the "
            "function. Take it from the shape of an argument or of a result"
        )
    for other in [t for t in traces if t.structure != first.structure]:
        for a, b in zip(first.parts, other.parts, strict=False):
            unified([a.program, b.program], [first.sample, other.sample])  # says what differs
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
    if variant.draws:
        raise TraceError(f"jit: {name} draws random numbers, which needs sizes that are known")
    if variant.op is not None:
        kept.append(variant.op.known.back)
    return Trace(sample, [Part.of(p) for p in kept], variant)


def _resized(x: Any, axes: Axes, sample: Sample) -> Any:
    """Something of the shape that `x` has at other sizes."""
    shape = tuple([sample[axes[a]] if a in axes else n for a, n in enumerate(x.shape)])
    array = np.broadcast_to(np.zeros((), x.dtype), shape)
    if not isinstance(x, Tensor):
        return array
    return variable(array, leaf(shape, x.dtype, needs=True) if x.requires_grad else None)


def _sizes_of(leaves: Sequence[Any], axes: Sequence[Axes]) -> frozenset[int]:
    """Sizes that mean something else: no good for a trace."""
    found = {1, 2}
    for x, named in zip(leaves, axes, strict=True):
        found |= {n for a, n in enumerate(np.shape(getattr(x, "value", x))) if a not in named}
    return frozenset(found)


def _alone(found: Trace, leaves: Sequence[Any], axes: Sequence[Axes]) -> Variant:
    """A variant for the present sizes."""
    variant, part = found.variant, found.parts[0]
    seen = {s for i in variant.args for s in axes[i].values()}
    for s in found.sample:
        if s not in seen:
            raise _unseen(s)
    variant.run = Native(part.program, part.checks)
    shapes = [leaves[i].shape for i in variant.args]
    variant.fits = lambda inputs: [x.shape for x in inputs[: len(shapes)]] == shapes
    if variant.op is not None:
        variant.op = new_op(Compiled, replace(variant.op.known, forward=variant.run))
    return variant


def _unseen(symbol: str) -> TraceError:
    return TraceError(
        f"jit: what is computed depends on the dynamic size {symbol!r}, but reads no argument that "
        f"has it, only its shape: use the argument's elements, or leave {symbol!r} out of `dynamic`"
    )


# --- One program of several ----------------------------------------------------------------------


@final
class Joined:
    """The same part of traces at several sizes as one program."""

    def __init__(self, parts: Sequence[Part], samples: Sequence[Sample]) -> None:
        self._parts, self._samples = parts, samples
        self._programs = [p.program for p in parts]
        self.program = unified(self._programs, samples)

    def compiled(self) -> Sized:
        """What runs it at any sizes."""
        places = {s: self._place_of(s) for s in sorted(symbols_of(self.program))}
        native = Native(self.program, self._parts[0].checks)
        return Sized(native, [(s, *places[s]) for s in native.symbols])

    def holds(self, part: Part, sample: Sample) -> bool:
        """Whether this is what was traced at the sizes `sample`."""
        # Equal as stated is equal when simplified, and is cheaper to see.
        stated = self._stated
        as_stated = stated is not None and holds_at(stated, part.stated, sample)
        return as_stated or holds_at(self.program, part.program, sample)

    @cached_property
    def _stated(self) -> Program | None:
        """The parts as stated as one program, None if they say it differently; only asked for at
        another size."""
        try:
            return unified([p.stated for p in self._parts], self._samples)
        except TraceError:
            return None

    def _place_of(self, symbol: str) -> tuple[int, int]:
        """An input, and its axis, whose size the symbol is."""
        programs = self._programs
        for i, t in enumerate(programs[0].inputs):
            for a in range(len(t.shape)):
                pairs = zip(programs, self._samples, strict=True)
                if all(p.inputs[i].shape[a] == s[symbol] for p, s in pairs):
                    return i, a
        raise _unseen(symbol)


def _joined(found: Sequence[Trace]) -> list[Joined]:
    """The parts of all traces."""
    samples = [t.sample for t in found]
    return [Joined(parts, samples) for parts in zip(*[t.parts for t in found], strict=True)]


def _sized(
    name: str,
    leaves: Sequence[Any],
    axes: Sequence[Axes],
    call: Call,
    found: Sequence[Trace],
    joined: Sequence[Joined],
) -> Variant:
    """One variant of all that was found."""
    samples, variant = [t.sample for t in found], found[0].variant
    # of the leaves only what a trace needs is kept
    specs = [_resized(x, a, samples[0]) if a else x for x, a in zip(leaves, axes, strict=True)]

    def confirm(sizes: dict[str, int]) -> bool:
        sample = {**samples[0], **sizes}
        with uncollected():
            again = _traced(name, specs, axes, sample, call).parts
            return len(again) == len(joined) and all(
                whole.holds(part, sample) for whole, part in zip(joined, again, strict=True)
            )

    run = joined[0].compiled()
    run.confirm = confirm
    run.known = {tuple([sample[s] for s, _, _ in run.places]): True for sample in samples}
    variant.run, variant.fits = run, run.fits
    if variant.op is not None:
        variant.op = new_op(Compiled, _derivative(variant.op.known, run, *joined))
    return variant


def _derivative(known: Derivative, run: Sized, forward: Joined, back: Joined) -> Derivative:
    """What is known of the derivative, at any sizes."""
    results = forward.program.results[: len(known.specs)]
    return replace(
        known,
        forward=run,
        specs=[Spec(t.shape, t.dtype) for t in results],
        back=back.program,
        make=back.compiled,
        symbols=run.symbols,
    )
