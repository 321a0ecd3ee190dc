"""Factorizations in compiled programs: LAPACK without Python, the same numbers and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import linalg
from chainrule.errors import TraceError
from chainrule.ops.linalg.base import MatrixError
from chainrule.ops.linalg.solving import Cholesky
from chainrule.tree import flatten
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


RNG = np.random.default_rng(17)


def numbers(*shape: int) -> Any:
    """Matrices of no special kind."""
    return RNG.normal(size=shape)


def positive(*shape: int) -> Any:
    """Positive definite ones, whose eigenvalues lie apart."""
    q, _ = np.linalg.qr(numbers(*shape))
    return (q * np.arange(1.0, shape[-1] + 1)) @ np.swapaxes(q, -1, -2)


def plus(y: Any) -> Any:
    """Columns of length 1, up to their sign."""
    return abs(y)


Case = tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]
CASES: dict[str, Case] = {
    "cholesky": (linalg.cholesky, lambda n: (positive(3, n, n),)),
    "upper": (lambda x: linalg.cholesky(x, upper=True), lambda n: (positive(n, n),)),
    "solve": (linalg.solve, lambda n: (numbers(2, 3, n, n), numbers(2, 3, n, 4))),
    "solve, one for all": (linalg.solve, lambda n: (numbers(n, n), numbers(3, n, 2))),
    "solve, many for one": (linalg.solve, lambda n: (numbers(3, n, n), numbers(n, 2))),
    "vector": (linalg.solve, lambda n: (numbers(3, n, n), numbers(n))),
    "inv": (linalg.inv, lambda n: (numbers(4, n, n),)),
    "det": (linalg.det, lambda n: (numbers(5, n, n),)),
    "slogdet": (lambda x: tuple(linalg.slogdet(x)), lambda n: (numbers(5, n, n),)),
    "lower triangle": (linalg.solve_triangular, lambda n: (positive(2, n, n), numbers(2, n, 3))),
    "upper triangle": (
        lambda a, b: linalg.solve_triangular(a, b, upper=True),
        lambda n: (positive(n, n), numbers(2, n, 3)),
    ),
    "ones on the diagonal": (
        lambda a, b: linalg.solve_triangular(a / 9, b, unitriangular=True),
        lambda n: (positive(n, n), numbers(n)),
    ),
    "from the right": (
        lambda a, b: linalg.solve_triangular(a, b, left=False),
        lambda n: (positive(n, n), numbers(3, n)),
    ),
    "qr": (lambda x: tuple(linalg.qr(x)), lambda n: (numbers(3, n + 2, n),)),
    "complete qr": (
        lambda x: tuple(linalg.qr(x, mode="complete")),
        lambda n: (numbers(3, n + 2, n),),
    ),
    "wide qr": (lambda x: tuple(linalg.qr(x)), lambda n: (numbers(n, n + 3),)),
    "eigh": (lambda x: [f(y) for f, y in zip((cr.positive, plus), linalg.eigh(x), strict=True)],
             lambda n: (positive(3, n, n),)),
    "svd": (
        lambda x: [plus(y) for y in linalg.svd(x, full_matrices=False)],
        lambda n: (numbers(3, n, n + 1),),
    ),
    "pinv": (linalg.pinv, lambda n: (numbers(3, n, n + 2),)),
    "pinv of rank 2": (
        lambda x, y: linalg.pinv(x @ y, rtol=1e-3),
        lambda n: (numbers(3, n + 1, 2), numbers(2, n + 1)),
    ),
    "pinv, a tolerance for each": (
        lambda x: linalg.pinv(x, rtol=cr.asarray(np.array([0.9, 0.2, 1e-9]))),
        lambda n: (numbers(3, n + 2, n),),
    ),
    "all of svd": (lambda x: plus(linalg.svd(x).U), lambda n: (numbers(n, n + 1),)),
    "svdvals": (linalg.svdvals, lambda n: (numbers(2, n + 2, n),)),
}  # fmt: skip


def eager(f: Any) -> list[str]:
    """The lines of loops in which Python is always called."""
    return [x for x in f.loops().splitlines() if " = eager " in x and " if b" not in x]


def compare(got: Any, want: Any, rtol: float) -> None:
    """Equal up to `rtol` of the largest element."""
    for a, b in zip(flatten(got)[0], flatten(want)[0], strict=True):
        a, b = a.numpy(), b.numpy()
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        scale = np.abs(b).max(initial=0)
        np.testing.assert_allclose(a, b, rtol=0, atol=rtol * scale)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_eager_mode(name: str, dtype: str):
    f, make = CASES[name]
    given = [x.astype(dtype) for n in (1, 4, 9, 40) for x in make(n)]
    count = len(given) // 4

    def all_(*xs: Any) -> Any:
        return [f(*xs[i : i + count]) for i in range(0, len(xs), count)]

    g, xs = cr.jit(all_), [cr.asarray(x) for x in given]
    compare(g(*xs), all_(*xs), 2e-4 if dtype == "f4" else 1e-10)
    assert not eager(g)


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0)])
def test_nothing_to_do(shape: tuple[int, ...]):
    x = cr.zeros(shape)

    def f(x: Any) -> Any:
        return [linalg.cholesky(x), linalg.inv(x), linalg.det(x), *linalg.eigh(x), *linalg.qr(x)]

    compare(cr.jit(f)(x), f(x), 0)


def test_what_is_factorized_may_be_a_view():
    x = cr.asarray(positive(6, 8, 8))

    def f(x: Any) -> Any:
        y = cr.permute_dims(x, (1, 2, 0))[1:7, 2:8]
        part = x[:, 1:5, 1:5]
        return [
            linalg.inv(y),
            linalg.cholesky(part),
            linalg.solve_triangular(part, x[:, 1:5]),
            linalg.solve_triangular(part.mT, x[:, 1:5].mT[:, :4], upper=True),
            linalg.solve_triangular(x[::-1, ::2, ::2], part),
            linalg.det(x[:, ::-1, ::3][:, :3]),
        ]

    g = cr.jit(f)
    compare(g(x), f(x), 1e-9)
    assert not eager(g)


@pytest.mark.parametrize("name", [n for n in CASES if "complete" not in n and "all of" not in n])
def test_gradients(name: str):
    f, make = CASES[name]
    xs = [cr.asarray(x) for x in make(5)]

    def total(*xs: Any) -> Any:
        return sum([(y * y * (1 + cr.arange(y.size).reshape(y.shape))).sum() for y in outs(*xs)])

    def outs(*xs: Any) -> Any:
        return flatten(f(*xs))[0]

    both = cr.grad(total, argnums=tuple(range(len(xs))))
    compare(cr.jit(both)(*xs), both(*xs), 1e-8)


# --- errors --------------------------------------------------------------------------------------


def batch(**changed: Any) -> Any:
    """Four matrices that are fine, but for one."""
    x = np.stack([np.diag([2.0, 3.0, 4.0])] * 4)
    for at, value in changed.items():
        x[int(at[1:])] = value
    return cr.asarray(x)


ERRORS: dict[str, tuple[Callable[..., Any], Any]] = {
    "cholesky": (linalg.cholesky, batch(m2=np.diag([1.0, -3.0, 1.0]))),
    "the one": (linalg.cholesky, cr.asarray(-np.eye(3))),
    "inv": (linalg.inv, batch(m1=1.0)),
    "solve": (lambda x: linalg.solve(x, x), batch(m3=0.0)),
    "solve_triangular": (lambda x: linalg.solve_triangular(x, x), batch(m2=0.0)),
    "svd": (linalg.svdvals, batch(m0=np.nan)),
    "pinv": (linalg.pinv, batch(m0=np.nan)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_eager_mode(name: str):
    f, bad = ERRORS[name]
    with pytest.raises(MatrixError) as plain:
        f(bad)
    g, fine = cr.jit(f), cr.asarray(np.broadcast_to(2 * np.eye(3), bad.shape).copy())
    compare(g(fine), f(fine), 1e-14)
    for _ in range(2):
        with pytest.raises(MatrixError) as compiled:
            g(bad)
        assert str(compiled.value) == str(plain.value)
        compare(g(fine), f(fine), 1e-14)
    assert not eager(g)


def test_what_is_singular_has_a_determinant():
    x = batch(m1=1.0, m2=np.zeros((3, 3)))

    def f(x: Any) -> Any:
        return linalg.det(x), *linalg.slogdet(x)

    for a, b in zip(cr.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy())


def test_a_determinant_whose_partial_products_are_beyond_floats():
    x = cr.asarray(np.diag([1e200, 1e200, 1e-300]))
    np.testing.assert_allclose(cr.jit(linalg.det)(x).item(), linalg.det(x).item())


def test_if_a_routine_did_not_succeed_the_eager_form_has_the_last_word(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(Cholesky, "eval", lambda self, x: np.full(x.shape, 7.0))
    g = cr.jit(linalg.cholesky)
    np.testing.assert_array_equal(g(cr.asarray(np.eye(3))).numpy(), np.eye(3))
    np.testing.assert_array_equal(g(cr.asarray(-np.eye(3))).numpy(), np.full((3, 3), 7.0))


# --- loops, examples, sizes, other processes -----------------------------------------------------


def test_within_loops_and_for_many_examples():
    x = cr.asarray(positive(40, 3, 3))

    def each(x: Any) -> Any:
        return linalg.cholesky(x), linalg.solve(x, x[0])

    def scanned(x: Any) -> Any:
        def step(s: Any, m: Any) -> Any:
            s = s + linalg.inv(m) * 0.1
            return s, linalg.cholesky(s)

        return cr.scan(step, x[0], x)

    def repeated(x: Any) -> Any:
        def body(s: Any) -> Any:
            return linalg.solve(s[0], x[0]) + x[1], s[1] + abs(linalg.det(s[0]))

        return cr.while_loop(lambda s: s[1] < 100, body, (x[2], x[0, 0, 0] * 0))

    for f in (cr.vmap(each), scanned, repeated):
        compare(cr.jit(f)(x), f(x), 1e-11)
    g = cr.jit(repeated)
    g(x)
    assert "while" in g.loops()
    assert not eager(g)


def test_an_error_ends_a_loop():
    def forever(x: Any) -> Any:
        return cr.while_loop(lambda s: s.sum() > -9, lambda s: linalg.cholesky(s) - cr.eye(2), x)

    def twice(x: Any) -> Any:
        return cr.while_loop(lambda s: s.sum() > -9, forever, x)

    for f in (forever, twice):
        g = cr.jit(f)
        for h in (f, g, g):
            with pytest.raises(MatrixError, match="cholesky: the matrix float64"):
                h(cr.asarray(np.eye(2) * 3))
        assert "while" in g.loops()
        assert not eager(g)


def test_within_a_loop_the_eager_form_may_succeed(monkeypatch: pytest.MonkeyPatch):
    def f(x: Any) -> Any:
        def body(s: Any) -> Any:
            return linalg.cholesky(s[0]) - cr.eye(2), s[1] + 1

        return cr.while_loop(lambda s: s[1] < 5, body, (x, 0))

    monkeypatch.setattr(Cholesky, "eval", lambda self, x: np.full(x.shape, 7.0))
    g = cr.jit(f)
    y, n = g(cr.asarray(-np.eye(2)))
    assert n.item() == 5
    np.testing.assert_array_equal(y.numpy(), [[6.0, 7.0], [7.0, 6.0]])


def test_batches_of_dynamic_size():
    def f(x: Any, b: Any) -> Any:
        return linalg.solve(x, b), linalg.det(x), linalg.cholesky(x @ x.mT)

    g = cr.jit(f, dynamic={0: {0: "B"}, 1: {0: "B"}})
    for n in (4, 7, 30):
        xs = cr.asarray(numbers(n, 5, 5)), cr.asarray(numbers(n, 5, 2))
        compare(g(*xs), f(*xs), 1e-9)
    assert g.traces == 1
    assert not eager(g)


def test_matrices_of_dynamic_size():
    def f(x: Any, b: Any) -> Any:
        y = linalg.cholesky(x)
        both = linalg.solve(x, b), linalg.solve_triangular(y, b)
        return [y, *both, linalg.inv(x), linalg.det(x), *linalg.slogdet(x), linalg.eigvalsh(x)]

    g = cr.jit(f, dynamic={0: {0: "N", 1: "N"}, 1: {0: "N"}})
    for n in (4, 7, 30, 3):
        xs = cr.asarray(positive(n, n)), cr.asarray(numbers(n, 2))
        compare(g(*xs), f(*xs), 1e-10)
    assert g.traces == 1
    assert not eager(g)
    nothing = cr.asarray(np.zeros((0, 0))), cr.asarray(np.zeros((0, 2)))
    compare(g(*nothing), f(*nothing), 0)
    for compiled in (f, g):
        with pytest.raises(MatrixError, match="cholesky: the matrix float64"):
            compiled(cr.asarray(-np.eye(5)), cr.asarray(numbers(5, 2)))


def test_an_input_that_is_updated_keeps_what_the_eager_form_needs():
    p = cr.tensor(positive(4, 4))

    @cr.jit
    def step() -> Any:
        p.data = linalg.cholesky(p) - cr.eye(4) * 0.875
        return p.sum()

    want = p.numpy().copy()
    with pytest.raises(MatrixError):
        for _ in range(20):
            step()
            want = np.linalg.cholesky(want) - np.eye(4) * 0.875
            np.testing.assert_allclose(p.numpy(), want, rtol=1e-10)


SCRIPT = """
import json, sys
import numpy as np
import chainrule as cr
from chainrule.compile.runtime import native_program

compiled = []
real = native_program.compile_object
native_program.compile_object = lambda text: compiled.append(1) or real(text)
f = cr.jit(lambda x: (cr.linalg.cholesky(x), cr.sort(x), cr.linalg.eigh(x)[0]))
x = np.array([[3.0, 1.0], [1.0, 2.0]])
values = [y.numpy().tolist() for y in f(cr.asarray(x))]
try:
    f(cr.asarray(-x))
    said = ""
except cr.ChainruleError as error:
    said = str(error)
print(json.dumps([len(compiled), values, said]))
"""


def test_another_process_takes_the_code_from_the_cache(tmp_path: Any):
    def run() -> Any:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True,
            env={"CHAINRULE_CACHE_DIR": str(tmp_path), "PATH": "/usr/bin"},
        )  # fmt: skip
        return json.loads(done.stdout)

    first, second = run(), run()
    assert (first[0] > 0, second[0]) == (True, 0)
    assert first[1:] == second[1:]
    assert "smallest eigenvalue" in second[2]


def test_it_is_refused_in_c_and_the_line_is_named(tmp_path: Any):
    for f, name in ((linalg.cholesky, "cholesky"), (linalg.det, "det")):
        with pytest.raises(TraceError, match=rf"{name} has no loops .*test_factoring\.py:\d+"):
            cr.jit(lambda x, f=f: f(x).sum()).to_c(tmp_path, cr.asarray(np.eye(2)))


def test_explain_tells_of_the_kernel_and_of_no_eager_op():
    g = cr.jit(lambda x: linalg.cholesky(x).sum())
    g(cr.asarray(np.eye(30)))
    e = g.explain(repeats=3)
    assert not any(row.eager for row in e.rows)
    assert [f.op for row in e.rows for f in row.fused].count("cholesky") == 2
