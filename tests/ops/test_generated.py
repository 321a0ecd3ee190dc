"""What the op table promises, checked for every sample by every checker."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import ops as ops_package
from chainrule.engine.graph import order
from chainrule.engine.op import Op
from chainrule.errors import GradientError
from chainrule.nn.recurrent.recurrence import Recurrence
from chainrule.ops.families import Elementwise, Linear, Multilinear, rows
from chainrule.ops.fusing import Fused, FusedSeveral
from tests import ops as tests_package
from tests.ops import check, samples_elementwise
from tests.ops.sample import Sample, apart, cotangent
from tests.sampling import sampled


def _tables() -> list[Any]:
    """The modules `samples_*` beside this file: a new family of ops brings its own."""
    names = [m.name for m in pkgutil.iter_modules(tests_package.__path__)]
    return [importlib.import_module(f"tests.ops.{n}") for n in names if n.startswith("samples_")]


SAMPLES: list[Sample] = [sample for table in _tables() for sample in table.SAMPLES]
DERIVATIVES: list[Callable[..., Any]] = [
    check.differences,
    check.adjoint,
    check.second_order,
    check.transposed,
]
EXECUTIONS: list[Callable[..., Any]] = [check.recorded, check.contiguity]
PRECISIONS = [(np.float64, 1e-12), (np.float32, 2e-5), (np.float16, 4e-2)]

of_samples = pytest.mark.parametrize("sample", SAMPLES, ids=str)


@sampled(by=lambda sample, checker: sample.name, one_in=10)
@of_samples
@pytest.mark.parametrize("checker", [*DERIVATIVES, *EXECUTIONS], ids=lambda f: f.__name__)
def test_answers_agree(sample: Sample, checker: Callable[..., Any]):
    checker(sample.f, sample.args)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.traceable], ids=str)
def test_shape_and_dtype_are_known_without_values(sample: Sample):
    check.specs(sample.f, sample.args)


@sampled(by=lambda sample, dtype, relative: (sample.name, dtype))
@pytest.mark.parametrize(
    ("dtype", "relative"), PRECISIONS, ids=lambda p: getattr(p, "__name__", "")
)
@of_samples
def test_dtype_is_kept(sample: Sample, dtype: type, relative: float):
    if sample.name == "astype":
        pytest.skip("changes the dtype: that is what it is for")
    check.dtypes(sample.f, sample.args, dtype, relative)


@pytest.mark.parametrize("sample", samples_elementwise.without_derivative(), ids=str)
def test_rows_without_derivative(sample: Sample):
    xs = [cr.tensor(x) for x in sample.args]
    for x in xs:
        if x.dtype.kind == "f":
            x.requires_grad_()
    y = sample.f(*xs)
    check.same_bits(y, rows[sample.name].fn(*sample.args), "NumPy")
    assert not y.requires_grad and y.node is None
    check.specs(sample.f, sample.args)


TWO = [
    n
    for n, d in samples_elementwise.DOMAINS.items()
    if len(d) == 2 and n not in samples_elementwise.BY_LAST
]


@pytest.mark.parametrize("name", TWO)
def test_mixed_dtypes_promote_and_gradients_return(name: str):
    (a_low, a_high), (b_low, b_high) = samples_elementwise.DOMAINS[name]
    a = cr.tensor(apart(2, 3, low=a_low, high=a_high).astype(np.float32), requires_grad=True)
    b = cr.tensor(apart(3, low=b_low, high=b_high), requires_grad=True)
    y = rows[name](a, b)
    assert y.dtype == np.float64
    y.backward(cotangent(y))
    assert a.grad is not None and a.grad.dtype == np.float32
    assert b.grad is not None and b.grad.dtype == np.float64


@pytest.mark.parametrize("name", sorted(samples_elementwise.BY_LAST))
def test_a_derivative_that_is_not_offered_is_an_error_and_no_number(name: str):
    *first, last = [
        cr.tensor(apart(3, low=low, high=high)) for low, high in samples_elementwise.DOMAINS[name]
    ]
    for i, a in enumerate(first):

        def f(a: Any, i: int = i) -> Any:
            return rows[name](*[*first[:i], a, *first[i + 1 :]], last)

        y = f(a.copy().requires_grad_())
        with pytest.raises(GradientError, match=rf"{name}\(.*\) by the .* is not offered.*detach"):
            y.backward(np.ones(3))
        with pytest.raises(GradientError, match="is not offered"):
            cr.jvp(f, (a,), (np.ones(3),))
    last.requires_grad_()
    rows[name](*first, last).backward(np.ones(3))
    assert last.grad is not None


# --- Nothing is without a sample -----------------------------------------------------------------


def test_every_row_has_a_sample():
    known = samples_elementwise.DOMAINS.keys() | samples_elementwise.WITHOUT.keys()
    assert known == rows.keys()
    assert {n for n, row in rows.items() if not row.partials} == samples_elementwise.WITHOUT.keys()


def _op_classes() -> set[type[Op]]:
    found: set[type[Op]] = set()
    for module in pkgutil.walk_packages(ops_package.__path__, "chainrule.ops."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            mine = cls.__module__.startswith("chainrule.ops")
            if mine and issubclass(cls, Op) and not inspect.isabstract(cls):
                found.add(cls)
    return found - {Linear, Multilinear}


def _ops_in(sample: Sample) -> set[type[Op]]:
    """The kinds of ops in the graphs of the value and of its gradient."""
    f, xs = check.of_floats(sample.f, sample.args)
    xs = [cr.tensor(x, requires_grad=True) for x in xs]
    y = f(*xs)
    y.backward(cotangent(y), create_graph=True)
    roots = [y.node, *[x.grad.node for x in xs if x.grad is not None]]
    out = {type(n.op) for n in order([n for n in roots if n is not None]) if n.op is not None}
    g = cr.tensor(cotangent(y), requires_grad=True)
    bars = cr.vjp(f, *[x.detach() for x in xs])[1](g)
    nodes = order([b.node for b in bars if b.node is not None])
    return out | {type(n.op) for n in nodes if n.op is not None}


TABLES_OF_THEIR_OWN = ("chainrule.ops.linalg", "chainrule.ops.signal.fft", "chainrule.ops.complex")
"""Families whose samples are complex numbers: their tests stand beside this file."""


def test_every_op_has_a_sample():
    found: set[type[Op]] = {Elementwise}
    for sample in SAMPLES:
        if sample.name not in rows:
            found |= _ops_in(sample)
    cast = cr.tensor([1.5, 2.5], requires_grad=True).astype(np.float64)
    assert cast.node is not None
    found |= {type(cast.node.op)}  # a sample that changes dtype would fail the dtype rule
    missing = {c for c in _op_classes() - found if not c.__module__.startswith(TABLES_OF_THEIR_OWN)}
    elsewhere = {
        *["Found", "Order", "SearchSorted", "RunningArg", "WindowArg", "LastWriter"],  # indices
        "Shift",  # has no derivative
        # parts of a convolution: test_direct_convolution
        *["ShiftedProduct", "ShiftedSum", "Turned", "PaddedRows", "WindowRows"],
    }
    missing -= {Fused, FusedSeveral, Recurrence}  # in test_fusing and test_recurrence
    assert {c.__name__ for c in missing} == elsewhere, "ops without a sample"


NOT_DIFFERENTIABLE = {
    *["all", "any", "argmax", "argmin", "count_nonzero", "nonzero", "one_hot"],  # whole numbers
    *["arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones", "ones_like"],
    *["zeros", "zeros_like", "tensor", "asarray", "manual_seed", "tree_map"],
    *["argsort", "searchsorted", "isin", "broadcast_shapes"],
    *["unique_all", "unique_counts", "unique_inverse", "unique_values"],
    *[
        "grad",
        "value_and_grad",
        "vjp",
        "jvp",
        "hvp",
        "jacobian",
        "hessian",
        "no_grad",
        "enable_grad",
    ],
}
"""Public functions that have no derivative of their own; the operators are tested by themselves."""


def _needs_sample(f: Any) -> bool:
    """Whether `f` is an op of ours under its own name, and not of a family with its own tests."""
    if isinstance(f, Elementwise):
        return f.label not in rows  # another name for a row, which has one
    home = getattr(f, "__module__", "")
    elsewhere = home.startswith(TABLES_OF_THEIR_OWN) or f is cr.conj
    return home.startswith("chainrule.ops") and not elsewhere


def test_every_public_function_has_a_sample():
    functions = {name for name in cr.__all__ if callable(getattr(cr, name)) and name[0].islower()}
    sampled = {s.name for s in SAMPLES} | samples_elementwise.WITHOUT.keys()
    assert not sampled & NOT_DIFFERENTIABLE
    unknown = functions - sampled - NOT_DIFFERENTIABLE
    missing = {n for n in unknown if _needs_sample(getattr(cr, n))}
    assert not missing, f"add sample arguments for {sorted(missing)}"
