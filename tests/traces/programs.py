"""What the tests of traces ask of every trace, and small programs to record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.traces.check import check_trace, sums_differ
from chainrule.traces.files import from_json, to_json
from chainrule.traces.local_derivatives.terms import rounding, terms_of
from chainrule.traces.trace import Message, Opaque, Sweep, Trace

MOST = 40
"""Of a large contribution so many elements are opened."""


def messages(trace: Trace) -> Iterator[tuple[Sweep, Message]]:
    """All messages of all sweeps."""
    for sweep in trace.sweeps:
        yield from [(sweep, m) for m in sweep.messages]


def check_numbers(trace: Trace, slack: float = 1.0) -> None:
    """The grammar holds, gradients are sums of contributions, and contributions sums of terms.

    An op whose rule has steps of its own that cancel may round by `slack` times as much.
    """
    check_trace(trace)
    for sweep in trace.sweeps:
        assert sums_differ(trace, sweep) == []
    for sweep, m in messages(trace):
        if not isinstance(m.local, Opaque) and isinstance(m.contribution, np.ndarray):
            check_terms(trace, sweep, m, slack)


def check_terms(trace: Trace, sweep: Sweep, m: Message, slack: float = 1.0) -> None:
    """The terms of a contribution's elements add up to them, with no more than rounding."""
    bar: Any = m.contribution
    op, epsilon = trace.nodes[m.node].op, float(np.finfo(bar.dtype).eps)
    step = max(1, bar.size // MOST)
    for at in list(np.ndindex(bar.shape))[::step]:
        terms, number = terms_of(trace, sweep, m, at), float(bar[at])
        rest = rounding(terms, number)
        if not math.isfinite(rest):
            continue
        off = abs(sum([t.exact for t in terms], Fraction(rest)) - Fraction(number))
        assert off <= Fraction(math.ulp(rest)), f"{op}: terms and rounding are not {number}"
        size = sum([abs(t.product) for t in terms])
        most = slack * epsilon * max(len(terms), 1) * size + 1e-300
        assert abs(rest) <= most, f"{op} at {at}: {number} is off by {rest:.3g} of {size:.3g}"


def opaque(trace: Trace) -> set[tuple[str, str]]:
    """Ops without a form, and why."""
    return {
        (trace.nodes[m.node].op, m.local.why)
        for _, m in messages(trace)
        if isinstance(m.local, Opaque)
    }


def check_file(trace: Trace) -> None:
    """What is written reads back as the same."""
    text = to_json(trace)
    back = from_json(text)
    assert to_json(back) == text
    assert repr(back) == repr(trace)


def gradient(trace: Trace, label: str) -> Any:
    """The gradient of the node with a label."""
    return trace.gradient(trace.find(label))


class Net(cr.nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        draw = cr.Generator(3)
        self.first = cr.nn.Linear(3, 4, dtype=np.float64, generator=draw)
        self.second = cr.nn.Linear(4, 2, dtype=np.float64, generator=draw)

    def forward(self, x: Any) -> Any:
        return self.second(cr.tanh(self.first(x)))
