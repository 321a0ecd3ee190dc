"""Certificates: each contribution against differences of its op's own value.

The rule of an op is taken at its word by every sweep. Here its value alone is asked: along a random
direction t of an input, <contribution, t> has to be <upstream, J t>, where J t are differences
with a bound of their error (see `verify.measure.numeric`).

An op whose contributions differ is verified by itself, so that its slip gets the verifier's name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.errors import ChainruleError
from chainrule.function import Call as UserCall
from chainrule.op import Op, Pick
from chainrule.traces.keeping import is_array
from chainrule.traces.trace import Certificate, Message, Sweep, Trace

if TYPE_CHECKING:
    from chainrule.verify.finding import Finding
    from chainrule.verify.subject import Subject

MOST_MESSAGES, MOST_ELEMENTS = 150, 20_000
"""A trace of more messages, or of more elements in all values, is not certified unless asked."""
_CLOSE = {2: 3e-2, 4: 1e-4, 8: 1e-6}
"""Relative difference that is rounding, by the bytes of a number."""
_ROUGH = 1e-2
"""Differences whose relative error may be more do not tell."""
UNCHECKED = Certificate(math.nan, math.nan, "not checked", "")


def is_small(trace: Trace) -> bool:
    """Whether certifying takes about a second at most."""
    count = sum([len(s.messages) for s in trace.sweeps])
    size = sum([math.prod(n.shape) for n in trace.nodes])
    return count <= MOST_MESSAGES and size <= MOST_ELEMENTS


def certified(trace: Trace, ops: Sequence[Op | TorchCall | None]) -> Trace:
    """The trace with a certificate at each message; `ops` are those of its nodes."""
    with np.errstate(all="ignore"):
        return _certified(trace, ops)


def _certified(trace: Trace, ops: Sequence[Op | TorchCall | None]) -> Trace:
    probes: dict[int, _Probe | None] = {}
    sweeps: list[Sweep] = []
    for sweep in trace.sweeps:
        messages: list[Message] = []
        for m in sweep.messages:
            op = ops[m.node]
            if m.node not in probes:
                probes[m.node] = None if op is None else _probe(trace, m.node, op)
            messages.append(replace(m, certificate=_certificate(sweep, m, probes[m.node])))
        sweeps.append(replace(sweep, messages=tuple(messages)))
    return _named(replace(trace, sweeps=tuple(sweeps)), probes)


# --- One op --------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class TorchCall:
    """A user's function of PyTorch's that ran, and what it was applied to."""

    function: Any
    args: Sequence[Any]


@final
@dataclass(frozen=True)
class _Probe:
    """An op at the point where it ran, ready to be asked for differences."""

    run: Any
    base: Any
    at: Sequence[int]
    """For each input of the node its place among the subject's."""
    bytes: int
    """Of the op's own numbers."""


def _probe(trace: Trace, number: int, op: Op | TorchCall) -> _Probe | None:
    """None where the op cannot be asked: its values are not all there, or it is none of numbers."""
    node = trace.nodes[number]
    xs: list[Any] = [trace.nodes[i].value for i in node.inputs]
    arrays: list[Any] = [*xs, node.value]
    whole = all(is_array(x) and x.dtype.kind != "c" for x in arrays)
    if isinstance(op, TorchCall):
        whole = is_array(arrays[-1])
    if not whole or isinstance(op, Pick):
        return None
    from chainrule.verify.evidence import Evidence
    from chainrule.verify.measure.noise import based
    from chainrule.verify.measure.run import Point, Run, UnusableError

    narrow = min(
        [x.dtype.itemsize for x in arrays if is_array(x) and x.dtype.kind in "fV"], default=8
    )
    try:
        subject, at = _subject(op, xs)
        if subject is None:
            return None
        run = Run(subject, Evidence(subject))
        base = based(
            run, Point("as recorded", tuple([x.value for x in subject.inputs]), "captured")
        )
    except (UnusableError, ChainruleError):
        return None
    return _Probe(run, base, at, narrow)


def _subject(op: Op | TorchCall, xs: Sequence[Any]) -> tuple[Subject | None, Sequence[int]]:
    """What the verifier sees of an op, and where each of its inputs stands there."""
    if isinstance(op, TorchCall):
        from chainrule.verify.pytorch import functions

        subject = functions.subject_of_function(op.function, op.args)
        return subject, [i for i, x in enumerate(subject.inputs) if x.wanted]
    xs = [_wide(x) for x in xs]
    if isinstance(op, UserCall):
        from chainrule.verify.own.function import subject_of_function

        needs = [False] * len(op.static)
        for i in op.places:
            needs[i] = True
        return subject_of_function(op.function, _arguments(op, xs), needs=needs), op.places
    from chainrule.verify.own.op import subject_of_op

    return subject_of_op(op, xs), range(len(xs))


def _arguments(op: UserCall, xs: Sequence[Any]) -> list[Any]:
    args = list(op.static)
    for i, x in zip(op.places, xs, strict=True):
        args[i] = x
    return args


def _wide(x: Any) -> Any:
    return x.astype(np.float64) if x.dtype.kind in "fV" else x


def _certificate(sweep: Sweep, m: Message, probe: _Probe | None) -> Certificate:
    g: Any = sweep.gradients.get(m.node)
    bar: Any = m.contribution
    if probe is None or not (is_array(g) and is_array(bar)) or not bar.size:
        return UNCHECKED
    g, bar = g.astype(np.float64), bar.astype(np.float64)
    k = probe.at[m.place]
    if not (np.isfinite(g).all() and np.isfinite(bar).all()) or k not in probe.run.wanted:
        return UNCHECKED
    return _along(probe, k, g, bar, np.random.default_rng(m.node))


def _along(probe: _Probe, k: int, g: Any, bar: Any, rng: np.random.Generator) -> Certificate:
    """<contribution, t> against <upstream, J t> along one direction."""
    from chainrule.verify.measure.noise import tangent
    from chainrule.verify.measure.numeric import slopes
    from chainrule.verify.measure.run import UnusableError

    t = tangent(rng, probe.base.xs[k])
    try:
        (slope,) = slopes(probe.run, probe.base, {k: t})
    except (UnusableError, ValueError):
        return UNCHECKED
    used = g != 0
    if slope.value.shape != g.shape or (used & (slope.kink | slope.jump)).any():
        return UNCHECKED
    parts, known = bar * t, np.where(used, g * slope.value, 0.0)
    size = max(float(np.abs(parts).sum()), float(np.abs(known).sum()))
    difference = abs(float(parts.sum()) - float(known.sum()))
    rough = 8 * float((np.abs(g) * np.where(used, slope.bound, 0.0)).sum())
    bound = rough + _CLOSE[min(max(probe.bytes, 2), 8)] * size
    if not math.isfinite(difference) or not math.isfinite(bound):
        return UNCHECKED
    if difference > bound:
        return Certificate(difference, bound, "differs", "")
    return Certificate(difference, bound, "agrees" if rough <= _ROUGH * size else "not checked", "")


# --- The name of the slip ------------------------------------------------------------------------


def _named(trace: Trace, probes: dict[int, _Probe | None]) -> Trace:
    """Where contributions of an op differ, what the verifier calls it, and how it corrects it."""
    wrong = {m.node for s in trace.sweeps for m in s.messages if _differs(m)}
    found = {i: _findings(probe.run.subject) for i in wrong if (probe := probes[i]) is not None}
    return replace(trace, sweeps=tuple([_with_names(s, trace, found) for s in trace.sweeps]))


def _differs(m: Message) -> bool:
    return m.certificate is not None and m.certificate.verdict == "differs"


def _with_names(sweep: Sweep, trace: Trace, found: dict[int, Sequence[Finding]]) -> Sweep:
    messages = [
        replace(m, certificate=_explained(m.certificate, found.get(m.node, ()), trace, m))
        if m.certificate is not None and _differs(m)
        else m
        for m in sweep.messages
    ]
    return replace(sweep, messages=tuple(messages))


def _explained(c: Certificate, found: Sequence[Finding], trace: Trace, m: Message) -> Certificate:
    """The certificate with the finding about its input, or with the first one of its op."""
    if not found:
        return c
    name = trace.nodes[m.target].label
    finding = next((f for f in found if f.input == name), found[0])
    fix = finding.correction
    if fix is None or not fix.rechecked:
        return replace(c, slip=finding.title)
    return replace(c, slip=finding.title, before=fix.before.strip(), after=fix.after.strip())


def _findings(subject: Subject) -> Sequence[Finding]:
    from chainrule.verify.certify import certify

    return certify(subject.name, [subject]).findings
