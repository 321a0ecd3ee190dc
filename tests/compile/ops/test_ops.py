"""Every op of the families in loops: compiled, it gives what it gives eagerly.

The samples of the op tables run both ways, all of one name as one compiled function, in float32 or
float64, with their gradients. What is no loop but the op in its eager form is on a list, with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.loops.statements import Host
from chainrule.compile.runtime.backend import build
from chainrule.compile.trace import variant_assembly
from chainrule.ops.families import Elementwise, rows
from tests.explain.pains import PAINS
from tests.explain.test_pains import answer
from tests.explain.test_pains import rows as rows_of_the_page
from tests.ops import check
from tests.ops.sample import Sample, cotangent
from tests.ops.samples_elementwise import BY_LAST
from tests.ops.test_generated import SAMPLES
from tests.sampling import sampled

SPECIAL = "a special function that SciPy computes"
EAGER: dict[str, str] = {
    **dict.fromkeys(
        ["polygamma", "spherical_jn", "gamma_density", "beta_density", *BY_LAST], SPECIAL
    ),
    **dict.fromkeys(["j0", "j1", "y0", "y1", "k0", "k0e", "k1", "k1e"], SPECIAL),
    **dict.fromkeys(["airy_ai", "airy_ai_slope"], SPECIAL),
    "InParts": "the eigenvalues of a general matrix",
}
"""Ops that may run in their eager form within a program, and why."""

GROUPS: dict[str, list[Sample]] = {}
for _sample in SAMPLES:
    if _sample.traceable:
        GROUPS.setdefault(_sample.name, []).append(_sample)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The native programs that a test makes."""
    programs: list[Any] = []

    def noted(*args: Any, **kwargs: Any) -> Any:
        programs.append(build(*args, **kwargs))
        return programs[-1]

    monkeypatch.setattr(variant_assembly, "build", noted)
    yield programs


def eager_ops(programs: Sequence[Any]) -> set[str]:
    """The ops in their eager form: labels of rows, classes of others."""
    assert programs, "nothing was compiled"
    statements = [s for n in programs for k in n.loops.kernels for s in k.body]
    ops = [s.op for s in statements if isinstance(s, Host) and s.when is None]
    return {op.label if isinstance(op, Elementwise) else type(op).__name__ for op in ops}


def case(sample: Sample, dtype: Any) -> tuple[Callable[..., Any], list[Any]]:
    """A function of the sample's float arguments: its value and its gradients; and those."""
    places = check.flows(sample.args)
    xs = [np.asarray(x, dtype) if i in places else x for i, x in enumerate(sample.args)]
    f, floats = check.of_floats(sample.f, xs)

    def both(*args: Any) -> list[Any]:
        y, pull = cr.vjp(f, *args)
        return [y, *(pull(cotangent(y).astype(y.dtype)) if y.dtype.kind == "f" else ())]

    return both, [cr.asarray(x) for x in floats]


def compare(got: Any, want: Any, terms: int, what: str) -> None:
    """Equal up to 8 units in the last place of the largest element, and 4 for each summed term."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if want.dtype.kind != "f":
        np.testing.assert_array_equal(got, want, what)
        return
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), what)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite], what)
    if finite.any():
        scale = np.abs(want[finite]).max()
        limit = (8 + 4 * terms) * np.finfo(want.dtype).eps * scale
        np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=limit, err_msg=what)


@sampled(one_in=8)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", GROUPS)
def test_compiled_samples_give_the_same(name: str, dtype: type, made: list[Any]):
    cases = [(s, *case(s, dtype)) for s in GROUPS[name]]
    flat = [x for *_, xs in cases for x in xs]

    def everything(*args: Any) -> list[list[Any]]:
        rest = iter(args)
        return [f(*[next(rest) for _ in xs]) for *_, f, xs in cases]

    compiled = cr.jit(everything)(*flat)
    for (s, f, xs), results in zip(cases, compiled, strict=True):
        want = f(*xs)
        terms = max([1, *[x.size for x in (*xs, *want)]])
        for got, y in zip(results, want, strict=True):
            compare(got.detach().numpy(), y.detach().numpy(), terms, f"{s} {np.dtype(dtype)}")
    assert eager_ops(made) <= EAGER.keys()


def test_what_is_listed_as_eager_is_and_nothing_that_has_loops():
    special = {n for n, why in EAGER.items() if why == SPECIAL}
    x = cr.tensor(np.array([0.3, 0.7]))
    for name in special & rows.keys():
        assert name in _eager_in(lambda a, name=name: _row(name, a), x), name
    spd = cr.tensor(np.array([[2.0, 0.3], [0.3, 1.5]]))
    native = [getattr(cr.linalg, name) for name in ("cholesky", "qr", "svd", "pinv")]
    for f in (*native, lambda m: cr.linalg.solve(m, m)):
        assert not _eager_in(f, spd)
    assert "InParts" in _eager_in(cr.linalg.eig, spd)
    assert not _eager_in(cr.argsort, x)
    assert not _eager_in(lambda a: cr.searchsorted(a, a), x)


def _row(name: str, x: Any) -> Any:
    return rows[name](*[x] * len(rows[name].partials))


def _eager_in(f: Callable[..., Any], *xs: Any) -> set[str]:
    programs: list[Any] = []
    before = variant_assembly.build
    variant_assembly.build = lambda *args, **named: (
        programs.append(build(*args, **named)) or programs[-1]
    )
    try:
        cr.jit(f)(*xs)
    finally:
        variant_assembly.build = before
    return eager_ops(programs)


@pytest.mark.parametrize("what", PAINS)
def test_pains_have_no_nan_in_compiled_code_either(what: str, monkeypatch: pytest.MonkeyPatch):
    compiled: list[Any] = []
    for name in ("grad", "hessian"):
        operator = getattr(cr, name)

        def jitted(f: Any, operator: Any = operator) -> Any:
            compiled.append(cr.jit(operator(f)))
            return compiled[-1]

        monkeypatch.setattr(cr, name, jitted)
    said = rows_of_the_page()[what][1].strip("*")
    assert answer(PAINS[what][0]).replace("-0,", "0,").replace("-0]", "0]") == said
    assert sum(f.traces for f in compiled) == 1 or said == "error"
