"""Certificates: right rules agree, wrong ones differ, at their own messages and by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.function import Function
from tests.ops.check import of_floats
from tests.ops.sample import Sample, apart
from tests.ops.test_generated import SAMPLES
from tests.sampling import sampled
from tests.traces.programs import check_file, messages


@sampled(one_in=8)
@pytest.mark.parametrize("sample", [s for s in SAMPLES if of_floats(s.f, s.args)[1]], ids=str)
def test_rules_of_ours_agree(sample: Sample):
    f, xs = of_floats(sample.f, sample.args)
    trace = cr.record(f, *xs, certify=True)
    verdicts = [m.certificate.verdict for _, m in messages(trace) if m.certificate is not None]
    assert "differs" not in verdicts and len(verdicts) == len(list(messages(trace)))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def planted(forward: Any, backward: Any) -> type[Function]:
    """An op with this value and this backward, both on arrays."""

    class Planted(Function):
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            ctx.xs = [np.array(x.numpy()) for x in xs]
            return cr.tensor(forward(*ctx.xs))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            bars = backward(g.numpy(), *ctx.xs)
            return tuple([None if b is None else cr.tensor(b) for b in bars])

    return Planted


A, B, ROW = apart(3, 3), apart(3, 3, salt=1), apart(3, salt=2)
SLIPS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "V1": (lambda a, b: a @ b, lambda g, a, b: (g @ b, a.T @ g), (A, B)),
    "V2": (lambda x: x * x, lambda g, x: (x * g,), (A,)),
    "V3": (lambda x: x * x + x, lambda g, x: (2 * x * g,), (A,)),
    "V4": (np.sin, lambda g, x: (-np.cos(x) * g,), (A,)),
    "V5": (softmax, lambda g, x: (softmax(x) * g,), (A,)),
    "V6": (lambda x, b: x + b, lambda g, x, b: (g, g.sum(axis=1)), (A, ROW)),
    "V7": (np.exp, lambda g, x: (np.exp(x + 0.25) * g,), (A,)),
    "V8": (np.exp, lambda g, x: (np.exp(x),), (A,)),
    "V9": (lambda a, b: a * b, lambda g, a, b: (b * g, np.zeros_like(b)), (A, B)),
}
"""Slips of the catalogue, planted: value, backward, arguments."""
WRONG_PLACES = {"V1": {0}, "V6": {1}, "V9": {1}}
NAMED = {
    "V1": "transpose", "V2": "factor", "V4": "sign", "V6": "axis", "V8": "cotangent",
}  # fmt: skip
"""A word of the verifier's name for it."""


@sampled(one_in=3)
@pytest.mark.parametrize("slip", SLIPS)
def test_a_planted_slip_is_marked(slip: str):
    forward, backward, args = SLIPS[slip]
    op = planted(forward, backward)
    weights = apart(3, 3, salt=5)
    trace = cr.record(lambda *xs: cr.sum(cr.tanh(op.apply(*xs)) * weights), *args)
    wrong = {
        (trace.nodes[m.node].op, m.place): m.certificate
        for _, m in messages(trace)
        if m.certificate is not None and m.certificate.verdict == "differs"
    }
    assert {op for op, _ in wrong} == {"Planted"}
    assert {place for _, place in wrong} == WRONG_PLACES.get(slip, {0})
    for certificate in wrong.values():
        assert certificate.difference > certificate.bound
        assert NAMED.get(slip, "") in certificate.slip.lower()
        assert certificate.slip
    assert "✗" in repr(trace)
    check_file(trace)
    rest = [m.certificate for _, m in messages(trace) if trace.nodes[m.node].op != "Planted"]
    assert all(c is not None and c.verdict == "agrees" for c in rest)


def test_a_kink_is_not_checked():
    trace = cr.record(cr.relu, np.array([0.0, 1.0]))
    (m,) = trace.sweeps[0].messages
    assert m.certificate is not None and m.certificate.verdict == "not checked"


def test_only_small_traces_are_certified_by_themselves():
    assert all(m.certificate is None for _, m in messages(cr.record(cr.exp, A, certify=False)))
    large = cr.record(lambda x: cr.sum(cr.exp(x)), np.ones(30_000))
    assert all(m.certificate is None for _, m in messages(large))
    assert all(m.certificate is not None for _, m in messages(cr.record(cr.exp, A)))
