"""Gradients and contributions against differences: right ones agree, moved ones differ, what cannot
be checked says why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.scalar import Value
from chainrule.traces.certificates.certify import HOOKED, LONG
from chainrule.traces.certificates.differences import contribution_certificate, gradient_certificate
from chainrule.traces.certificates.probes import Probes
from chainrule.traces.record import Recording
from chainrule.traces.trace import Certificate, Trace
from tests.ops.sample import apart
from tests.traces.programs import Net, check_file, messages


def several(x: Any) -> Any:
    first, second = cr.unstack(x)
    return cr.sum(first * cr.tanh(second))


def stopped(x: Any) -> Any:
    return cr.sum(x.detach() * cr.exp(x))


def attention(q: Any, k: Any, v: Any) -> Any:
    return cr.sum(cr.tanh(cr.softmax(q @ k.T, -1) @ v))


def scalars(a: Any, b: Any) -> Any:
    x, y = Value(float(a)), Value(float(b))
    return (x * y + x).tanh() * y


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "network": (lambda x: cr.sum(Net()(x) ** 2), (apart(5, 3),)),
    "several outputs": (several, (apart(2, 3),)),
    "a value without gradient": (stopped, (apart(3),)),
    "attention": (attention, (apart(3, 2), apart(4, 2, salt=1), apart(4, 3, salt=2))),
    "broadcasting": (lambda x, b: cr.sum(cr.exp(x * b)), (apart(2, 3), apart(3, salt=1))),
    "float32": (lambda x: cr.sum(cr.softmax(x, -1) * x), (apart(2, 4).astype(np.float32),)),
    "complex": (lambda x: cr.sum(cr.abs(cr.exp(1j * x))), (apart(3) + 1j * apart(3, salt=1),)),
    "scalars": (scalars, (0.7, -0.4)),
}


def numbers(trace: Trace) -> list[Certificate]:
    """The certificates of all numbers that are shown as gradients."""
    sent = [m.certificate for _, m in messages(trace) if m.contribution is not None]
    assert all(c is not None for c in sent)
    gradients = [c for s in trace.sweeps for c in s.certificates.values()]
    return [*[c for c in sent if c is not None], *gradients]


@pytest.mark.parametrize("name", PROGRAMS)
def test_right_numbers_agree(name: str):
    f, args = PROGRAMS[name]
    trace = cr.record(f, *args)
    check_file(trace)
    assert {(c.verdict, c.why) for c in numbers(trace)} == {("agrees", "")}
    for sweep in trace.sweeps:
        reached = {m.target for m in sweep.messages if m.contribution is not None}
        assert set(sweep.certificates) == reached
    for _, m in messages(trace):
        c, bar = m.certificate, m.contribution
        if c is not None and isinstance(c.elements, np.ndarray) and isinstance(bar, np.ndarray):
            assert isinstance(c.bounds, np.ndarray)
            assert (np.abs(bar - c.elements) <= c.bounds).all()


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("float32", "scalars")])
def test_moved_numbers_differ(name: str):
    """Each contribution, and each gradient, times 1.001."""
    f, args = PROGRAMS[name]
    recording = Recording(None, certify=False)
    trace = recording.of(f, args)
    probes = Probes(trace, recording.ops)
    (sweep,) = trace.sweeps
    for m in sweep.messages:
        if isinstance(m.contribution, np.ndarray) and np.abs(m.contribution).max() > 1e-6:
            moved = replace(m, contribution=m.contribution * 1.001)
            found = contribution_certificate(sweep, moved, probes, each=True)
            assert found.verdict == "differs" and found.difference > found.bound
    for i in {m.target for m in sweep.messages if m.contribution is not None}:
        g: Any = sweep.gradients[i]
        if np.abs(g).max() > 1e-6:
            moved = replace(sweep, gradients={**sweep.gradients, i: g * 1.001})
            found = gradient_certificate(trace, moved, i, probes)
            assert (found.verdict, found.why) == ("differs", "")


def test_a_single_element_tells():
    recording = Recording(None, certify=False)
    trace = recording.of(lambda x: cr.sum(cr.exp(x)), (apart(2, 3),))
    (sweep,) = trace.sweeps
    m = next(m for m in sweep.messages if trace.nodes[m.node].op == "exp")
    bar = np.array(m.contribution)
    bar[1, 0] *= 1.01
    found = contribution_certificate(
        sweep, replace(m, contribution=bar), Probes(trace, recording.ops), each=True
    )
    assert isinstance(found.elements, np.ndarray) and isinstance(found.bounds, np.ndarray)
    off = np.argwhere(np.abs(bar - found.elements) > found.bounds)
    assert off.tolist() == [[1, 0]]


def whys(trace: Trace) -> set[str]:
    return {c.why for c in numbers(trace) if c.verdict == "not checked"}


def test_what_is_not_checked_says_why():
    def hooked(x: Any) -> Any:
        y = cr.exp(x)
        y.register_hook(lambda g: 2 * g)
        return cr.sum(y)

    assert whys(cr.record(hooked, apart(3))) == {HOOKED}
    kinks = whys(cr.record(lambda x: cr.sum(cr.relu(x)), np.array([0.0, 1.0])))
    assert len(kinks) == 1 and "kink" in kinks.pop()

    def long(x: Any) -> Any:
        for _ in range(60):
            x = cr.sin(x)
        return x

    assert whys(cr.record(long, 0.5)) == {LONG}
    assert whys(cr.record(long, 0.5, certify=True)) == set()
    cut = Recording(4, certify=True).of(lambda x: cr.sum(cr.exp(x)), (apart(5),))
    assert any("too large to be kept" in why or "is kept" in why for why in whys(cut))


def test_random_ops_are_not_run_again():
    draw = cr.Generator(1)
    trace = cr.record(lambda x: cr.sum(cr.nn.functional.dropout(x, 0.5, generator=draw)), apart(4))
    assert {c.verdict for c in numbers(trace)} <= {"agrees", "not checked"}
