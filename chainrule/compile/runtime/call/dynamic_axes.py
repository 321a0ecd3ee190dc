"""Dynamic axes: one compilation for every length of a sequence or size of a batch.

The function is traced at several sizes of the axes that are declared dynamic; `unify`
makes one program of the traces, and another one of their derivatives if there are some. A call
reads the sizes from its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from chainrule.compile.graph.size_polynomials import Sample, count_needed, samples_near, told_apart
from chainrule.compile.graph.terms import Program
from chainrule.compile.graph.unification import structure, unify
from chainrule.compile.runtime.backend import without_gc
from chainrule.compile.runtime.call.declared_axes import Axes, sizes_now
from chainrule.compile.runtime.call.sized_program import (
    Joined,
    Part,
    Sized,
    transforms_that_vary,
    unseen,
)
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.trace.derivative import Compiled, Derivative
from chainrule.compile.trace.outcome import NUMBER, TENSOR
from chainrule.compile.trace.record import record
from chainrule.compile.trace.variant import Variant
from chainrule.compile.trace.variant_assembly import Call
from chainrule.engine.graph import leaf, variable
from chainrule.engine.op import Spec, new_op
from chainrule.engine.tensors import Tensor
from chainrule.errors import ChainruleError, TraceError

# --- What is traced ------------------------------------------------------------------------------


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

    def leaving(self, whole: Sequence[frozenset[int]]) -> Trace:
        """The same with these terms of its parts whole."""
        if [p.whole for p in self.parts] == whole or len(whole) != len(self.parts):
            return self
        pairs = zip(self.parts, whole, strict=True)
        return replace(self, parts=[p.leaving(w) for p, w in pairs])

    @property
    def plain(self) -> list[Any]:
        """What it returns beside tensors."""
        return [x for x in self.variant.returned if x is not TENSOR and x is not NUMBER]


def record_sized(name: str, leaves: Sequence[Any], axes: Sequence[Axes], call: Call) -> Variant:
    """A variant for all sizes of the dynamic axes; see `record`.

    The present sizes may be a special case: an axis that happens to be 1, or as long as another
    one, may make a program of its own. Then it is a variant for these sizes alone.
    """
    now = sizes_now(name, leaves, axes)
    if not now:
        return record(name, leaves, call)
    traces: list[Trace] = []
    least, most = count_needed(len(now))
    for sample in samples_near(now, _sizes_of(leaves, axes), most):
        try:
            found = _trace_at(name, leaves, axes, sample, call)
        except ChainruleError:
            if not traces:
                raise
            continue
        _refuse_own_changes(name, found.variant)
        traces = _comparable([*traces, found])
        found = traces[-1]
        like = [t for t in traces if t.structure == found.structure]
        if len(like) < least or not told_apart([t.sample for t in like]):
            continue
        if traces[0] not in like:
            return _alone(traces[0], leaves, axes)
        try:
            joined = _join_parts(like)
        except TraceError:
            if len(like) >= most:
                raise
            continue
        return _sized_variant(name, leaves, axes, call, like, joined)
    raise _apart(name, traces, now)


def _refuse_own_changes(name: str, variant: Variant) -> None:
    """A function that is traced at several sizes may not count how often it ran."""
    if (change := variant.read.changed()) is not None:
        raise TraceError(
            f"jit: {name} changes {change[0].name}, which it reads at {change[0].line}; with sizes "
            "that are dynamic it runs several times while it is traced. Change it outside, or "
            "leave out `dynamic`"
        )


def _comparable(traces: list[Trace]) -> list[Trace]:
    """The traces, in which Fourier transforms whose lengths differ from one to another are ops."""
    if len(traces) < 2:
        return traces
    pairs = zip(traces[0].parts, traces[1].parts, strict=False)
    whole = [transforms_that_vary(a, b) for a, b in pairs]
    return [t.leaving(whole) for t in traces] if any(whole) else traces


def _apart(name: str, traces: Sequence[Trace], now: Sample) -> TraceError:
    """What to raise for traces that are no one program; says what differs."""
    first = traces[0]
    if (other := next((t for t in traces if t.plain != first.plain), None)) is not None:
        return TraceError(
            f"jit: {name} returns {first.plain} at {first.sample} and {other.plain} at "
            f"{other.sample} beside tensors: a size that is dynamic is no constant of the "
            "function. Take it from the shape of an argument or of a result"
        )
    for other in [t for t in traces if t.structure != first.structure]:
        for a, b in zip(first.parts, other.parts, strict=False):
            unify([a.program, b.program], [first.sample, other.sample])  # says what differs
    return TraceError(
        f"jit: {name} runs at too few sizes of {', '.join(now)} near {now} to tell how it depends "
        "on them: leave them out of `dynamic`"
    )


def _trace_at(
    name: str, leaves: Sequence[Any], axes: Sequence[Axes], sample: Sample, call: Call
) -> Trace:
    """What the function does at the sizes `sample`. What it raises there is raised."""
    kept: list[Program] = []
    resized = [_resize(x, a, sample) if a else x for x, a in zip(leaves, axes, strict=True)]
    variant = record(name, resized, call, kept.append)
    if variant.draws:
        raise TraceError(f"jit: {name} draws random numbers, which needs sizes that are known")
    if variant.op is not None:
        kept.append(variant.op.known.back)
    return Trace(sample, [Part.of(p) for p in kept], variant)


def _resize(x: Any, axes: Axes, sample: Sample) -> Any:
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
    variant, part = found.variant, found.parts[0].leaving(frozenset())
    seen = {s for i in variant.args for s in axes[i].values()}
    for s in found.sample:
        if s not in seen:
            raise unseen(s)
    variant.run = Native(part.program, part.checks)
    shapes = [leaves[i].shape for i in variant.args]
    variant.fits = lambda inputs: [x.shape for x in inputs[: len(shapes)]] == shapes
    if variant.op is not None:
        variant.op = new_op(Compiled, replace(variant.op.known, forward=variant.run))
    return variant


# --- One program of several ----------------------------------------------------------------------


def _join_parts(found: Sequence[Trace]) -> list[Joined]:
    """The parts of all traces."""
    samples = [t.sample for t in found]
    return [Joined(parts, samples) for parts in zip(*[t.parts for t in found], strict=True)]


def _sized_variant(
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
    specs = [_resize(x, a, samples[0]) if a else x for x, a in zip(leaves, axes, strict=True)]

    def confirm(sizes: dict[str, int]) -> bool:
        sample = {**samples[0], **sizes}
        with without_gc():
            again = _trace_at(name, specs, axes, sample, call).parts
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
