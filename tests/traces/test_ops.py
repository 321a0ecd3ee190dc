"""Every op of the tables, recorded: its messages open into exact sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.traces.check import check_trace, sums_differ
from chainrule.traces.local_derivatives.sparse import Rule, sparse_form
from chainrule.traces.trace import Matrix, Opaque
from tests.ops.check import of_floats
from tests.ops.linalg.test_linalg import PAIRS
from tests.ops.sample import Sample, apart
from tests.ops.test_generated import SAMPLES
from tests.sampling import sampled
from tests.traces.programs import check_file, check_numbers, check_terms, opaque

SEVERAL = {"slogdet", "qr", "eig", "eigh", "svd"}
"""Ops with several outputs: their messages are not opened; neither are those of complex numbers."""
COMPLEX = "its numbers are complex"
REAL = [p for p in PAIRS if all(np.asarray(x).dtype.kind == "f" for x in p.args)]


@sampled(by=lambda sample: sample.name)
@pytest.mark.parametrize("sample", [s for s in SAMPLES if of_floats(s.f, s.args)[1]], ids=str)
def test_every_contribution_opens(sample: Sample):
    f, xs = of_floats(sample.f, sample.args)
    trace = cr.record(f, *xs, max_elements=None)
    check_numbers(trace)
    assert {(op, why) for op, why in opaque(trace) if why != COMPLEX} == set()
    check_file(trace)


@sampled(one_in=3)
@pytest.mark.parametrize("pair", REAL, ids=lambda p: p.name)
def test_linear_algebra_opens(pair: Any):
    trace = cr.record(pair.ours, *pair.args, max_elements=None)
    check_numbers(trace)
    for op, why in opaque(trace):
        several = op in SEVERAL or op.startswith("output ")
        assert why == ("this op has several outputs" if several else "its numbers are complex"), op
        assert several or op == "abs", op
    check_file(trace)


@sampled(one_in=8)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("sample", {s.name: s for s in SAMPLES if s.args}.values(), ids=str)
def test_narrow_numbers_open(sample: Sample, dtype: type):
    f, xs = of_floats(sample.f, sample.args)
    narrow = [x.astype(dtype) for x in xs]
    if not narrow:
        pytest.skip("nothing to differentiate")
    trace = cr.record(f, *narrow, max_elements=None)
    check_trace(trace)
    assert all(sums_differ(trace, sweep) == [] for sweep in trace.sweeps)
    check_file(trace)


BIG: dict[str, Any] = {
    "softmax": (lambda x: cr.softmax(x, axis=-1), (40, 12)),
    "softmax, first axis": (lambda x: cr.softmax(x, axis=0), (12, 40)),
    "cumulative_sum": (lambda x: cr.cumulative_sum(x, axis=-1), (60, 16)),
    "sort": (lambda x: cr.sort(x, axis=-1), (64, 30)),
    "logsumexp": (lambda x: cr.logsumexp(x, axis=-1), (64, 30)),
    "max": (lambda x: cr.max(x, axis=1), (64, 30)),
    "norm": (lambda x: cr.linalg.vector_norm(x, axis=-1), (64, 30)),
    "conv": (lambda x: cr.nn.functional.conv2d(x, np.ones((2, 1, 3, 3))), (3, 1, 10, 10)),
    "inv": (lambda x: cr.linalg.inv(x + 9 * np.eye(4)), (40, 4, 4)),
}
"""Of more outputs than are asked one by one: their rows do not mix."""


@pytest.mark.parametrize("name", BIG)
def test_rows_that_do_not_mix(name: str):
    f, shape = BIG[name]
    trace = cr.record(f, apart(*shape, low=0.3), max_elements=None)
    check_numbers(trace)
    assert opaque(trace) == set()


def test_rows_that_mix_are_not_taken_apart():
    mixed = sparse_form(Rule(lambda g: g[::-1] + g.sum(), None, (9, 3), (9, 3)), "mixed")
    assert isinstance(mixed, Matrix) and len(mixed.values) == 27 * 27
    large = sparse_form(Rule(lambda g: g + g.sum(), None, (900,), (900,)), "large")
    assert isinstance(large, Opaque) and "900" in large.why


@pytest.mark.parametrize("what", ["values", "letters", "contribution"])
def test_a_wrong_form_is_noticed(what: str):
    """The checker of terms fails where a form is not the rule's."""
    x = apart(3, 4)
    if what == "letters":
        trace = cr.record(lambda a, b: a @ b, apart(4, 4), apart(4, 4, salt=1))
        change: Any = lambda m: replace(m, local=replace(m.local, letters=("ba", "bc")))
    elif what == "values":
        trace = cr.record(cr.exp, x)
        change = lambda m: replace(m, local=replace(m.local, values=m.local.values * (1 + 1e-14)))
    else:
        trace = cr.record(cr.exp, x)
        change = lambda m: replace(m, contribution=m.contribution * (1 + 1e-14))
    sweep = trace.sweeps[0]
    with pytest.raises(AssertionError):
        check_terms(trace, sweep, change(sweep.messages[0]))
