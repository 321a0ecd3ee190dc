"""NumPy's statistics with NaN and curves of samples on tensors, and which functions have a rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.interop.numpy import takes_tensors
from chainrule.interop.numpy_table import FUNCTIONS

GAPS = np.array([[0.3, np.nan, -1.2, 2.1], [1.4, 0.8, np.nan, -0.6], [0.5, 1.7, 0.2, 0.9]])
ROWS = np.random.default_rng(0).normal(size=(3, 5))
XP, FP = np.array([0.0, 0.5, 1.25, 2.0]), np.array([1.0, -0.5, 0.75, 2.0])
X = np.array([-0.3, 0.1, 0.6, 1.9, 2.4])
NAN: list[Callable[..., Any]] = [
    np.nanmean, np.nanmax, np.nanmin, np.nanprod, np.nanvar, np.nanstd, np.nanmedian, np.nansum,
]  # fmt: skip
CASES: dict[str, tuple[Any, Callable[..., Any], tuple[Any, ...]]] = {
    **{f.__name__: (f, f, (GAPS,)) for f in NAN},
    **{f"{f.__name__} of rows": (f, lambda a, f=f: f(a, axis=1), (GAPS,)) for f in NAN},
    "nanvar, ddof": (np.nanvar, lambda a: np.nanvar(a, axis=0, ddof=1, keepdims=True), (GAPS,)),
    "nanquantile": (np.nanquantile, lambda a: np.nanquantile(a, 0.3, axis=1), (GAPS,)),
    "nanpercentile": (np.nanpercentile, lambda a: np.nanpercentile(a, 30), (GAPS,)),
    "cov": (np.cov, lambda a: np.cov(a), (ROWS,)),
    "cov of columns": (np.cov, lambda a: np.cov(a, rowvar=False, bias=True), (ROWS,)),
    "corrcoef": (np.corrcoef, lambda a: np.corrcoef(a), (ROWS,)),
    "corrcoef of columns": (np.corrcoef, lambda a: np.corrcoef(a, rowvar=False), (ROWS.T[:, :2],)),
    "interp": (np.interp, lambda x, xp, fp: np.interp(x, xp, fp), (X, XP, FP)),
    "interp of one number": (np.interp, lambda fp: np.interp(0.6, XP, fp), (FP,)),
    "interp of one point": (np.interp, lambda fp: np.interp(X, XP[:1], fp), (FP[:1],)),
    "polyval": (np.polyval, lambda p, x: np.polyval(p, x), (FP, X)),
    "vander": (np.vander, lambda x: np.vander(x, 3), (X,)),
    "i0": (np.i0, lambda x: np.i0(x), (np.abs(X),)),
    "cond": (np.linalg.cond, lambda a: np.linalg.cond(a), (ROWS,)),
    "lstsq": (np.linalg.lstsq, lambda a, b: np.linalg.lstsq(a, b)[0], (ROWS.T, X)),
    "tensorinv": (np.linalg.tensorinv, lambda a: np.linalg.tensorinv(a, 1), (ROWS[:, :3],)),
    "tensorsolve": (
        np.linalg.tensorsolve,
        lambda a, b: np.linalg.tensorsolve(a, b),
        (ROWS[:, :3], X[:3]),
    ),
}
CREATION = {
    "arange", "broadcast_shapes", "empty", "eye", "fftfreq", "from_dlpack", "logspace", "ones",
    "rfftfreq", "tril_indices", "triu_indices", "zeros",
}  # fmt: skip
"""Functions that take no array, or whose place in NumPy is not handed to arrays of others."""
INTEGERS = {
    "histogram", "isdtype", "put", "unique_all", "unique_counts", "unique_inverse", "unravel_index",
}  # fmt: skip
"""Functions without a derivative: NumPy computes them on values."""


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str):
    _, f, args = CASES[name]
    true = f(*args)
    got = f(*[cr.asarray(a) for a in args])
    assert isinstance(got, cr.Tensor)
    np.testing.assert_allclose(got.numpy(), true, rtol=1e-12, atol=1e-14)
    u = np.random.default_rng(1).normal(size=np.shape(true))
    for k, a in enumerate(args):
        gradient = cr.grad(lambda *xs: cr.sum(u * f(*xs)), k)(*args).numpy()
        finite = np.isfinite(a)
        for i in np.argwhere(finite):
            h = np.zeros_like(a)
            h[tuple(i)] = 1e-6
            ends = [f(*args[:k], a + s * h, *args[k + 1 :]) for s in (1, -1)]
            slope = np.sum(u * (ends[0] - ends[1])) / 2e-6
            assert gradient[tuple(i)] == pytest.approx(slope, rel=1e-5, abs=1e-7)
        assert (gradient[~finite] == 0).all()


def test_every_row_of_statistics_has_a_case():
    rows = {call for call in FUNCTIONS if "statistics" in FUNCTIONS[call].__module__}
    assert rows <= {function for function, _, _ in CASES.values()}


@pytest.mark.parametrize("f", [np.nanmax, np.nanmin, np.nanvar, np.nanstd, np.nanmean])
def test_nothing_but_nan_is_nan(f: Callable[..., Any]):
    a = np.array([[np.nan, np.nan], [1.0, 2.5]])
    got = f(cr.asarray(a), axis=1).numpy()
    assert np.isnan(got[0])
    assert got[1] == f(a[1])
    gradient = cr.grad(lambda a: f(a, axis=1)[1])(a)
    assert np.isfinite(gradient.numpy()).all()


def test_points_that_do_not_fit():
    with pytest.raises(cr.ShapeError, match=r"xp \(4,\) and fp \(3,\) are vectors of one length"):
        np.interp(X, cr.asarray(XP), FP[:3])


NAMESPACES: dict[str, tuple[Any, Any]] = {
    "numpy": (cr, np), "linalg": (cr.linalg, np.linalg), "fft": (cr.fft, np.fft),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMESPACES)
def test_functions_that_both_have_are_taken(name: str):
    """A function of NumPy's that chainrule has under the same name has a rule for tensors."""
    ours, theirs = NAMESPACES[name]
    both = [n for n in dir(ours) if n[0] != "_" and callable(getattr(theirs, n, None))]
    functions = [n for n in both if not isinstance(getattr(theirs, n), type)]
    missing = {n for n in functions if not takes_tensors(getattr(theirs, n))}
    assert missing <= CREATION | INTEGERS


OUTS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "a += t": (lambda t, out: out.__iadd__(t), (2, 3)),
    "a *= t": (lambda t, out: out.__imul__(t), (2, 3)),
    "out=": (lambda t, out: np.exp(t, out=out), (2, 3)),
    "out= of a reduction": (lambda t, out: np.add.reduce(t, axis=1, out=out), (2,)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", OUTS)
def test_values_are_written_into_numpys_arrays(name: str, dtype: Any):
    """`w -= 0.1 * gradient` of an array w: the gradient is a tensor without a graph."""
    f, shape = OUTS[name]
    t = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, 3.0]])
    out, true = np.full(shape, 2.0, dtype), np.full(shape, 2.0, dtype)
    assert f(cr.asarray(t), out) is out
    f(t, true)
    np.testing.assert_allclose(out, true, rtol=1e-15 if dtype == np.float64 else 1e-6)


@pytest.mark.parametrize("transform", [cr.grad, cr.vmap, cr.jit], ids=lambda f: f.__name__)
def test_values_with_a_gradient_are_not(transform: Any):
    def lost(x: Any) -> Any:
        s = np.zeros(3)
        s += x
        return s.sum()

    x = np.ones((2, 3)) if transform is cr.vmap else np.ones(3)
    with pytest.raises(cr.DtypeError, match=r"in place of a \+= b, which is np.add\(a, b, out=a\)"):
        transform(lost)(x)


def test_integers_take_no_floats():
    a = np.zeros(3, np.int64)
    with pytest.raises(TypeError, match="same_kind"):
        a += cr.ones(3)
