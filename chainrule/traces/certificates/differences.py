"""Numbers of a sweep against differences: along a direction, and for single elements.

| number | is compared with differences of |
|---|---|
| contribution to an input of an op | <upstream, op's value>, as the input moves |
| gradient of a node | <seed, results>, as its value moves, and what is computed from it again |

Differences come with a bound of their error (see `verify.measure.numeric`). Inner products are
real, as gradients of complex numbers are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from chainrule.errors import ChainruleError
from chainrule.traces.certificates.probes import NotCheckedError, Probe, Probes
from chainrule.traces.kept_values import is_array
from chainrule.traces.trace import Certificate, Message, Sweep, Trace, unchecked
from chainrule.verify.measure.noise import base_at, tangent
from chainrule.verify.measure.numeric import Slope, slopes
from chainrule.verify.measure.run import LateError, Point, Run, UnusableError
from chainrule.verify.subject import Array, Input, Subject

MOST_ELEMENTS = 64
"""Contributions of more elements are compared along a direction only."""
_ROUGH = 1e-2
"""Differences whose relative error may be more do not tell."""
_NOTHING = 1e-5
"""A slope that is smaller than the value by such a factor is none."""
_CANCELLED = 4
"""Terms that cancel leave at most so many times the rounding of one of them, about."""
_LONG = 30
"""The rounding of a whole program is so many times that of an op, where numbers are narrow."""
_FAILURES = (UnusableError, LateError, ChainruleError, ValueError, ArithmeticError)


# --- Contributions -------------------------------------------------------------------------------


def contribution_certificate(
    sweep: Sweep, m: Message, probes: Probes, *, each: bool
) -> Certificate:
    """The certificate of a message's contribution; `each`, of its elements as well."""
    if m.contribution is None:
        return unchecked("it is one of several outputs, whose rule gets the gradients of all")
    try:
        return _contribution(sweep, m, probes.of(m.node), each)
    except NotCheckedError as error:
        return unchecked(str(error))
    except _FAILURES as error:
        return unchecked(f"the op fails beside this point: {str(error).splitlines()[0]:.80}")


def _contribution(sweep: Sweep, m: Message, probe: Probe, each: bool) -> Certificate:
    """What differences say of one message: along a random direction, and element by element if
    `each`."""
    bar = _finite_array(m.contribution, "the contribution")
    gs = [_upstream(sweep, i, y) for i, y in zip(probe.outputs, probe.base.ys, strict=True)]
    if m.place not in probe.expected_inputs:
        raise NotCheckedError("the op states no gradient for this input")
    k = probe.at[m.place]
    x = np.asarray(probe.base.xs[k])
    t = tangent(np.random.default_rng(m.node), x)
    found = slopes(probe.run, probe.base, {k: t})
    level = _level(gs, probe.base.ys)
    certificate = _compare(bar, t, gs, found, level, probe.close, _CANCELLED * probe.epsilon)
    if not each or bar.size > MOST_ELEMENTS or bar.dtype.kind == "c":
        return certificate
    numbers, bounds = np.zeros(bar.shape), np.zeros(bar.shape)
    for at in np.ndindex(bar.shape):
        unit = np.zeros(x.shape)
        unit[at] = abs(t[at]) or 1.0
        slope = slopes(probe.run, probe.base, {k: unit})
        numbers[at] = sum([_inner(g, s.value) for g, s in zip(gs, slope, strict=True)]) / unit[at]
        bounds[at] = _rough(gs, slope) / unit[at]
    if not (np.isfinite(numbers).all() and (bounds < 1e100).all()):
        return certificate
    bounds += probe.close * np.maximum(np.abs(numbers), np.abs(bar))
    return _with_elements(certificate, numbers, bounds)


def _with_elements(c: Certificate, numbers: Array, bounds: Array) -> Certificate:
    for x in (numbers, bounds):
        x.setflags(write=False)
    return Certificate(c.difference, c.bound, c.verdict, why=c.why, elements=numbers, bounds=bounds)


def _upstream(sweep: Sweep, node: int | None, y: Array) -> Array:
    """The gradient of an output; zeros where none came."""
    if node is None or node not in sweep.gradients:
        return np.zeros(y.shape)
    return _finite_array(sweep.gradients[node], "the upstream gradient")


def _finite_array(x: Any, what: str) -> Array:
    if x is None:
        raise NotCheckedError(f"{what} is not known")
    if not is_array(x):
        raise NotCheckedError(f"{what} is too large to be kept")
    if not x.size:
        raise NotCheckedError("it has no elements")
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if not np.isfinite(wide).all():
        raise NotCheckedError(f"{what} is not finite")
    return wide


def _compare(
    bar: Array,
    t: Array,
    gs: Sequence[Array],
    found: Sequence[Slope],
    level: float,
    close: float,
    rounding: float,
) -> Certificate:
    """<contribution, t> against <upstream, J t>.

    `level` is the size of <upstream, value>; `rounding` what terms of upstream's size leave where
    they cancel.
    """
    known = size = 0.0
    for g, slope in zip(gs, found, strict=True):
        used = g != 0
        if slope.value.shape != g.shape:
            raise NotCheckedError("the op's value has another shape beside this point")
        if (used & (slope.kink | slope.jump)).any():
            raise NotCheckedError("its value has a kink or a jump here, so differences do not tell")
        parts = _products(g, slope.value)
        known, size = known + float(parts.sum()), size + float(np.abs(parts).sum())
    parts = _products(bar, t)
    size = max(float(np.abs(parts).sum()), size, _NOTHING * level)
    left = rounding * sum([float(np.abs(g).sum()) for g in gs]) * float(np.abs(t).max())
    return _verdict(abs(float(parts.sum()) - known), _rough(gs, found), size, close, left)


def _level(gs: Sequence[Array], ys: Sequence[Array]) -> float:
    sizes = [np.where(g != 0, np.abs(g * y), 0.0) for g, y in zip(gs, ys, strict=True)]
    return float(sum([s[np.isfinite(s)].sum() for s in sizes]))


def _inner(g: Array, value: Array) -> float:
    return float(_products(g, value).sum())


def _products(g: Array, value: Array) -> Array:
    """Element by element; exactly 0 where `g` is 0."""
    return np.real(np.where(g != 0, np.conj(g) * value, 0.0))


def _rough(gs: Sequence[Array], found: Sequence[Slope]) -> float:
    """How far off differences may be."""
    errors = [np.abs(g) * np.where(g != 0, s.bound, 0.0) for g, s in zip(gs, found, strict=True)]
    return 8 * sum([float(e.sum()) for e in errors])


def _verdict(
    difference: float, rough: float, size: float, close: float, left: float
) -> Certificate:
    bound = rough + close * size
    if not math.isfinite(difference) or not math.isfinite(bound):
        raise NotCheckedError("differences are not finite here")
    if bound < difference <= left:
        raise NotCheckedError("it is as small as the rounding of what it was computed from")
    if difference > bound:
        return Certificate(difference, bound, "differs")
    if rough > _ROUGH * size:
        raise NotCheckedError("differences have too few digits here")
    return Certificate(difference, bound, "agrees")


# --- Gradients -----------------------------------------------------------------------------------


def gradient_certificate(trace: Trace, sweep: Sweep, node: int, probes: Probes) -> Certificate:
    """The certificate of a node's gradient."""
    try:
        return _gradient(trace, sweep, node, probes)
    except NotCheckedError as error:
        return unchecked(str(error))
    except _FAILURES as error:
        return unchecked(f"the program fails beside this point: {str(error).splitlines()[0]:.80}")


def _gradient(trace: Trace, sweep: Sweep, node: int, probes: Probes) -> Certificate:
    bar = _finite_array(sweep.gradients[node], "the gradient")
    subject = _Downstream(trace, sweep, node, probes)
    run = Run(subject, _evidence(subject))
    base = base_at(run, Point("as recorded", (subject.inputs[0].value,), "captured"))
    t = tangent(np.random.default_rng(node), subject.inputs[0].value)
    found = slopes(run, base, {0: t})
    ran = [probes.of(i) for i in subject.order]
    close = max([_over_program(p) for p in ran], default=1e-6)
    rounding = _LONG * _CANCELLED * max([p.epsilon for p in ran], default=0.0)
    one = [np.ones(())]
    return _compare(bar, t, one, found, _level(one, subject.sizes()), close, rounding)


def _over_program(probe: Probe) -> float:
    return probe.close * (_LONG if probe.bytes < 8 else 1)


def _evidence(subject: Subject) -> Any:
    from chainrule.verify.evidence import Evidence  # which stands above subjects

    return Evidence(subject)


def runs_needed(trace: Trace, sweep: Sweep) -> int:
    """How many ops run for all gradients' certificates, for one step of differences."""
    after: list[set[int]] = [set() for _ in trace.nodes]
    for i in reversed(range(len(trace.nodes))):
        if i in sweep.gradients:
            for n in trace.nodes[i].inputs:
                after[n] |= after[i] | {i}
    return sum([len(after[i]) for i in sweep.gradients])


@final
class _Downstream(Subject):
    """<seed, results> of a sweep as a function of one node: all that is computed from it, and that
    gradients flow through, runs again."""

    kind = "recorded program"

    def __init__(self, trace: Trace, sweep: Sweep, node: int, probes: Probes) -> None:
        value = _finite_array(trace.nodes[node].value, "the value")
        self.name, self._trace, self._node, self._probes = trace.name, trace, node, probes
        self.inputs = (Input(trace.nodes[node].label or "x", value, True),)
        self.order = self._ops_to_rerun(sweep)
        self._seeds = {
            i: _finite_array(g, "the seed")
            for i, g in sweep.seeds.items()
            if i == node or i in self._moved
        }

    def _ops_to_rerun(self, sweep: Sweep) -> list[int]:
        """The ops to run again, in order. A value that a message does not go back to was detached,
        unless it is a user who should have sent one."""
        self._flows: dict[int, list[int]] = {}
        self._moved = {self._node}
        sent = {(m.node, m.place) for m in sweep.messages}
        order: list[int] = []
        for i in range(self._node + 1, len(self._trace.nodes)):
            inputs = self._trace.nodes[i].inputs
            if i not in sweep.gradients or not self._moved.intersection(inputs):
                continue
            if self._trace.nodes[i].op.startswith("output "):
                self._moved.add(i)  # made with its node
                continue
            probe = self._probes.of(i)
            self._flows[i] = [
                k
                for k, n in enumerate(inputs)
                if n in self._moved
                and k in probe.expected_inputs
                and ((i, k) in sent or probe.is_users)
            ]
            if self._flows[i]:
                self._moved.add(i)
                order.append(i)
        return order

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The results' inner product with the seeds."""
        values = {self._node: xs[0]}
        for i in self.order:
            probe = self._probes.of(i)
            inputs = self._trace.nodes[i].inputs
            changed = {k: values[inputs[k]] for k in self._flows[i]}
            for output, y in zip(probe.outputs, probe.rerun(changed), strict=True):
                if output is not None:
                    values[output] = y
            values.setdefault(i, None)
        total = sum([_inner(g, np.asarray(values[i])) for i, g in self._seeds.items()])
        return (np.array(float(total)),)

    def sizes(self) -> list[Array]:
        """The size of the results, each weighted by its seed."""
        values = [(g, np.asarray(self._trace.nodes[i].value)) for i, g in self._seeds.items()]
        return [np.array(_level([g for g, _ in values], [y for _, y in values]))]

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """Not asked for: the sweep's own gradient is what is compared."""
        raise NotImplementedError("a recorded program is asked for its value only")
