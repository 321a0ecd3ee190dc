"""Complex numbers compiled: pairs of real ones, with the values and gradients of eager mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.graph.rules.complex_rows import ROWS
from chainrule.compile.runtime import native_program
from chainrule.ops.complex import angle, complex_sign, polar
from chainrule.ops.families import rows
from tests.compile.c.ccompiler import left, needs_compiler
from tests.compile.ops.test_ops import eager_ops
from tests.compile.ops.test_ops import made as made
from tests.compile.runtime.test_cache import folder as folder
from tests.ops.against_torch import generic
from tests.sampling import sampled, sampled_file

pytestmark = sampled_file(one_in=3)


KINDS = (np.complex64, np.complex128)
Z, W = generic(3, 4, complex_=True), generic(3, 4, salt=2, complex_=True)
X = generic(3, 4, salt=3)
SQUARE = generic(4, 4, salt=5, complex_=True)
PLACES = np.array([2, 0, 2, 1])

TWO = {"add", "sub", "mul", "div", "pow", "strong_mul", "equal", "not_equal", "logical_and",
       "logical_or", "logical_xor"}  # fmt: skip
"""Rows of two arguments."""

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def rows_of(z: Any, w: Any) -> dict[str, Case]:
    """A case for each elementwise row; logarithms and roots on both sides of their cuts."""
    return {n: (rows[n], (z, w) if n in TWO else (z,)) for n in ROWS if n != "angle"}


CASES: dict[str, Case] = {
    **rows_of(Z, W),
    "real times complex": (lambda x, z: x * z + 2, (X, Z)),
    "number times complex": (lambda z: 2.5 * z - 1j * z + (1 + 2j), (Z,)),
    "square": (lambda z: z**2, (Z,)),
    "seventh power": (lambda z: z**7, (Z,)),
    "power of a half": (lambda z: z**0.5, (Z,)),
    "power of minus three": (lambda z: z**-3, (Z,)),
    "parts": (lambda z: cr.real(z) * cr.imag(z), (Z,)),
    "conj": (lambda z: cr.conj(z) * z * z, (Z,)),
    "complex": (lambda x, y: cr.exp(cr.complex(x, y[0])), (X, X + 1)),
    "angle": (angle, (Z,)),
    "direction": (complex_sign, (Z,)),
    "polar": (lambda x, y: polar(x, y), (abs(X), X)),
    "to complex": (lambda x: cr.astype(x, np.complex128) * 2j, (X,)),
    "to real": (lambda z: cr.astype(z, np.float32), (Z,)),
    "transposed": (lambda z, w: cr.reshape(z.T, (2, 6)) + cr.reshape(w, (2, 6)), (Z, W)),
    "slices": (lambda z: z[1:, ::-1] * z[:2, 1:2], (Z,)),
    "padded": (lambda z: cr.pad(z, [(1, 0), (0, 2)]), (Z,)),
    "joined": (lambda z, x: cr.concat([z, x, z * 2], axis=1), (Z, X)),
    "stacked": (lambda z, w: cr.stack([z, w, z]), (Z, W)),
    "rolled": (lambda z: cr.roll(z, 2, axis=1), (Z,)),
    "repeated": (lambda z, w: cr.broadcast_to(z[:, :1], (3, 4)) * w, (Z, W)),
    "chosen": (lambda z, w: cr.where(cr.abs(z) > 1, z, w), (Z, W)),
    "chosen by complex": (lambda z, w: cr.where(z, z, w) + cr.where(z == w, 0, w), (Z, W)),
    "taken": (lambda z: cr.take(z, PLACES, axis=1), (Z,)),
    "indexed": (lambda z: z[PLACES[:2], PLACES[1:3]], (Z,)),
    "sum": (lambda z: cr.sum(z, axis=0), (Z,)),
    "mean": (cr.mean, (Z,)),
    "cumulative sum": (lambda z: cr.cumulative_sum(z, axis=1), (Z,)),
    "trace": (lambda z: cr.linalg.trace(z), (SQUARE,)),
    "diagonal": (lambda z: cr.linalg.diagonal(z), (SQUARE,)),
    "matmul": (lambda z, w: z @ w.T, (Z, W)),
    "matmul with real": (lambda z, x: z @ x.T + x @ z.T, (Z, X)),
    "matmul of many": (lambda z, w: cr.stack([z, w]) @ cr.stack([w.T, z.T]), (Z, W)),
    "vector product": (lambda z, w: z[0] @ w[1], (Z, W)),
    "vecdot": (lambda z, w: cr.vecdot(z, w), (Z, W)),
    "einsum": (lambda z, w: cr.einsum("ij,kj->ki", z, w), (Z, W)),
    "einsum of three": (lambda z, w, x: cr.einsum("ij,kj,kj->i", z, w, x), (Z, W, X)),
    "any": (lambda z: cr.any(z, axis=0), (Z,)),
    "all": (lambda z: cr.all(z), (Z,)),
    "count": (lambda z: cr.count_nonzero(z * (cr.abs(z) > 1), axis=1), (Z,)),
    "norm": (lambda z: cr.sqrt(cr.sum(cr.real(z * cr.conj(z)))), (Z,)),
    "chain": (lambda z, w: cr.abs(cr.exp(1j * z) / (1 + cr.sqrt(w) * z)), (Z, W)),
}  # fmt: skip


def as_kind(xs: Sequence[Any], kind: Any) -> list[Any]:
    real = np.empty(0, kind).real.dtype
    return [cr.asarray(x.astype(kind if np.iscomplexobj(x) else real)) for x in xs]


def value_and_gradients(f: Callable[..., Any]) -> Callable[..., list[Any]]:
    """What `f` gives, its gradients and its tangent, of generic cotangents and tangents."""

    def everything(*xs: Any) -> list[Any]:
        y, pull = cr.vjp(f, *xs)
        if y.dtype.kind not in "fc":
            return [y]
        g = cr.asarray(generic(*y.shape, salt=7, complex_=True).astype(np.complex128))
        bars = pull(cr.astype(g, y.dtype))
        ts = [cr.asarray(generic(*x.shape, salt=9).astype(x.dtype)) for x in xs]
        return [y, *bars, cr.jvp(f, tuple(xs), tuple(ts))[1]]

    return everything


def assert_close(got: Any, want: Any, units: float = 64, what: str = "") -> None:
    """Equal up to some units in the last place of the largest element."""
    got, want = got.detach().numpy(), want.detach().numpy()
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want, what)
        return
    scale = np.abs(want).max(initial=0)
    limit = units * np.finfo(want.dtype).eps * scale
    np.testing.assert_allclose(got, want, rtol=0, atol=limit, err_msg=what)


@sampled(one_in=5)
@pytest.mark.parametrize("name", CASES)
def test_values_gradients_and_tangents_are_those_of_eager_mode(name: str, made: list[Any]):
    f, xs = CASES[name]
    both = value_and_gradients(f)
    for kind in KINDS:
        args = as_kind(xs, kind)
        for got, want in zip(cr.jit(both)(*args), both(*args), strict=True):
            assert_close(got, want, what=f"{name} {kind}")
    assert not eager_ops(made)


# --- infinities, NaN, the ends of the range ------------------------------------------------------

UNSPECIFIED = {"sinh", "sin", "tan", "tanh"}
"""Rows of which C99 leaves the sign of a part open where the other one is NaN."""


def special(kind: Any) -> Any:
    real = np.finfo(kind)
    ends = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, real.max, -real.max,
            real.tiny, 25.0, -80.0]  # fmt: skip
    parts = np.array(ends, real.dtype)
    z = np.empty((len(parts), len(parts)), kind)
    z.real, z.imag = parts[:, None], parts
    return z.ravel()


@pytest.mark.parametrize("kind", KINDS)
def test_special_values_are_those_of_numpy(kind: Any):
    """Products are left out: whether theirs overflow depends on how NumPy's loop rounds them."""
    z = special(kind)
    products = {"mul", "strong_mul", "pow", "square", "one_minus_square", "sech_square"}
    names = [n for n in rows_of(Z, W) if n not in products]

    def every(z: Any, a: Any, b: Any) -> list[Any]:
        return [rows[n](a, b) if n in TWO else rows[n](z) for n in names]

    a, b = (x.ravel() for x in np.meshgrid(z[::3], z[::5]))
    args = [cr.asarray(x) for x in (z, a, b)]
    for name, got, want in zip(names, cr.jit(every)(*args), every(*args), strict=True):
        assert_same_special(name, got.numpy(), want.numpy())


def assert_same_special(name: str, got: Any, want: Any) -> None:
    for part in ("real", "imag"):
        x, y = (np.asarray(getattr(a, part)) for a in (got, want))
        if name in UNSPECIFIED:
            other = np.isnan(want.imag if part == "real" else want.real)
            x, y = np.where(other, np.abs(x), x), np.where(other, np.abs(y), y)
        if want.dtype == bool:
            np.testing.assert_array_equal(x, y, name)
            continue
        eps, tiny = np.finfo(y.dtype).eps, np.finfo(y.dtype).tiny
        np.testing.assert_allclose(x, y, rtol=64 * eps, atol=4 * tiny, err_msg=f"{name} {part}")


def test_the_sign_of_zero_chooses_the_side_of_a_cut():
    z = np.array([complex(-4, 0.0), complex(-4, -0.0)])
    for f in (cr.sqrt, cr.log, cr.acosh, lambda z: z**0.5):
        assert_close(cr.jit(f)(cr.asarray(z)), f(cr.asarray(z)))


def test_powers_of_zero_and_to_zero():
    z = cr.asarray(np.array([0, 1 + 1j, 2j]))

    def f(z: Any, w: Any) -> list[Any]:
        return [z**0, z**3, z**w, z ** (w * 0)]

    w = cr.asarray(np.array([2 + 0j, 1 - 1j, 0]))
    for got, want in zip(cr.jit(f)(z, w), f(z, w), strict=True):
        assert_close(got, want)
    below = cr.jit(lambda z: z**-1)(z).numpy()
    assert np.isnan(below[0]) and np.isfinite(below[1:]).all()


# --- programs ------------------------------------------------------------------------------------


def impedance(z: Any, x: Any) -> Any:
    """A real loss through complex numbers and back, and real ones beside them."""
    s = cr.complex(cr.real(z), x)
    y = cr.matmul(s, cr.conj(z.T)) / (1 + cr.sum(cr.abs(z) ** 2))
    return cr.sum(cr.abs(y)) + cr.sum(cr.tanh(x) * angle(z))


def test_a_real_loss_through_complex_numbers(made: list[Any]):
    args = [cr.asarray(Z), cr.asarray(X)]
    grad = cr.grad(impedance, argnums=(0, 1))
    for got, want in zip(cr.jit(grad)(*args), grad(*args), strict=True):
        assert_close(got, want)
    assert not eager_ops(made)


def test_results_of_a_compiled_call_are_differentiated_outside():
    f = cr.jit(lambda z: cr.exp(z) * cr.conj(z))
    grads: list[Any] = []
    for g in (f, lambda z: cr.exp(z) * cr.conj(z)):
        z = cr.tensor(Z, requires_grad=True)
        y = g(z)
        cr.sum(cr.real(y * (1 - 2j))).backward()
        grads.append(z.grad)
    assert_close(*grads)


def test_complex_state_is_updated_in_place():
    ends: list[Any] = []
    for compiled in (True, False):
        w = cr.tensor(Z[0].copy(), requires_grad=True)

        def step(x: Any, w: Any = w) -> Any:
            w.grad = None
            loss = cr.mean(cr.abs(x @ w - 1) ** 2)
            loss.backward()
            w.data = w.detach() - 0.1 * w.grad
            return loss

        run: Any = cr.jit(step) if compiled else step
        before = w.data.numpy()
        losses = [run(cr.asarray(X)).item() for _ in range(5)]
        ends.append((losses, w.detach().numpy()))
        assert losses[-1] < losses[0] and before.dtype == np.complex128
        assert not compiled or run.traces == 1
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-12)
    np.testing.assert_allclose(ends[0][1], ends[1][1], rtol=1e-12)


def test_results_that_are_given_or_stand_there_twice():
    def f(z: Any) -> list[Any]:
        y = z * 2
        return [z, y, y, cr.zeros((0, 2), np.complex64), cr.asarray(W)]

    z = cr.asarray(Z)
    got = cr.jit(f)(z)
    for a, b in zip(got, f(z), strict=True):
        assert_close(a, b)
    assert not np.shares_memory(got[0].numpy(), z.numpy())


def test_vmap_and_scan_and_while():
    def steps(z: Any, w: Any) -> list[Any]:
        last, seen = cr.scan(lambda s, x: (s * x + 1j, s), z[0], w)
        far = cr.while_loop(
            lambda s: cr.abs(s[0]) < 10, lambda s: (s[0] * (1.1 + 0.5j), s[1] + 1), (z[0, 0], 0)
        )
        return [cr.vmap(lambda a, b: a @ b)(z, w), last, seen, *far]

    args = [cr.asarray(Z), cr.asarray(W)]
    for got, want in zip(cr.jit(steps)(*args), steps(*args), strict=True):
        assert_close(got, want)


def spiral(z: Any, c: Any) -> Any:
    """Julia's iteration until it escapes, its value and how many turns that took."""
    grown, turns = cr.while_loop(
        lambda s: (cr.abs(s[0]) < 4).all(), lambda s: (s[0] ** 2 + c, s[1] + 1), (z, 0), most=30
    )
    return cr.sum(cr.abs(grown) ** 2) + turns


def test_a_loop_with_complex_carries_is_native_with_its_derivatives(made: list[Any]):
    z, c = cr.asarray(Z[0]), cr.asarray(W[0] / 4)

    def every(z: Any, c: Any) -> list[Any]:
        loss, (z_bar, c_bar) = cr.value_and_grad(spiral, argnums=(0, 1))(z, c)
        return [loss, z_bar, c_bar, cr.jvp(spiral, (z, c), (z, c))[1]]

    for got, want in zip(cr.jit(every)(z, c), every(z, c), strict=True):
        assert_close(got, want, 1024)
    assert not eager_ops(made)
    rounds = cr.jit(lambda z: cr.vmap(lambda x: spiral(x, 0.3j))(z))
    rows = cr.asarray(Z[:, :, None])[0] / 2
    assert_close(rounds(rows), cr.stack([spiral(x, 0.3j) for x in rows]), 1024)


def test_all_sizes_of_an_axis_at_once():
    def f(z: Any) -> Any:
        return cr.mean(cr.exp(z) @ cr.asarray(SQUARE), axis=0) * cr.conj(z[-1])

    compiled = cr.jit(f, dynamic={"z": ("B", None)})
    for n in (3, 7, 2):
        z = cr.asarray(generic(n, 4, complex_=True))
        assert_close(compiled(z), f(z))
    assert compiled.traces == 1
    assert not any(r.eager for r in compiled.explain().rows)


def test_what_has_no_rule_runs_in_its_eager_form_and_is_right():
    def f(z: Any, w: Any) -> list[Any]:
        a = z + 4 * cr.eye(4)
        return [cr.linalg.solve(a, w), cr.linalg.inv(a) * 2j, cr.linalg.det(a), cr.prod(z, axis=0),
                cr.cumulative_prod(w, axis=1)]  # fmt: skip

    args = [cr.asarray(SQUARE), cr.asarray(SQUARE.T.copy())]
    compiled = cr.jit(f)
    for got, want in zip(compiled(*args), f(*args), strict=True):
        assert_close(got, want)
    assert any(r.eager for r in compiled.explain().rows)


def test_python_numbers_and_dtypes_promote_as_in_eager_mode():
    half = cr.tensor(np.array([1.5, -2.5], np.float16))
    single, double = cr.asarray(Z.astype(np.complex64)), cr.asarray(X)

    def f(half: Any, single: Any, double: Any) -> list[Any]:
        return [half * 1j, single * 1j, single + 2, single * double, double + 1j, 1j * single[0],
                single * np.float32(2), cr.pow(single, 1j)]  # fmt: skip

    args = (half, single, double)
    for got, want in zip(cr.jit(f)(*args), f(*args), strict=True):
        assert_close(got, want)


def test_a_program_is_found_on_disk(folder: Path, monkeypatch: pytest.MonkeyPatch):
    z = cr.asarray(Z)
    f = lambda z: cr.exp(z) @ z.T
    want = cr.jit(f)(z)

    def refuse(text: str) -> bytes:
        raise AssertionError("it was compiled again")

    monkeypatch.setattr(native_program, "compile_object", refuse)
    got = cr.jit(f)(z)
    assert got.numpy().tobytes() == want.numpy().tobytes()
    assert got.dtype == np.complex128


@needs_compiler
def test_complex_programs_in_c(tmp_path: Path):
    def f(z: Any, x: Any) -> list[Any]:
        return [cr.exp(z) / z, cr.sum(cr.abs(z) * x), cr.sqrt(z) @ z.T, z]

    for kind in KINDS:
        args = as_kind((Z, X), kind)
        want = [y.numpy() for y in f(*args)]
        got = left(cr.jit(f).to_c(tmp_path / "f.c", *args).source, want)
        for a, b in zip(got, want, strict=True):
            assert_close(cr.asarray(a), cr.asarray(b))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_second_number_is_read_and_written_alone(kind: Any):
    """Pairs that begin anywhere, of every length around those of vectors."""

    def f(x: Any) -> list[Any]:
        return [x[::2] * 3, x[1::2] + 1, cr.stack([x[1:], x[:-1] * 2], axis=-1)]

    for n in (2, 3, 15, 16, 17, 31, 32, 33, 34, 66, 131):
        x = cr.asarray(generic(n).astype(kind))
        for got, want in zip(cr.jit(f)(x), f(x), strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy())


@needs_compiler
def test_a_loop_with_complex_carries_in_c(tmp_path: Path):
    def escape(z: Any, c: Any) -> Any:
        return cr.while_loop(lambda s: cr.abs(s) < 4, lambda s: s**2 + c, z, most=30)

    z, c = cr.asarray(np.array(0.3 + 0.4j)), cr.asarray(np.array(0.5 - 0.2j))
    want = escape(z, c).numpy()
    (got,) = left(cr.jit(escape).to_c(tmp_path / "f.c", z, c).source, [want])
    assert abs(want) > 4
    assert_close(cr.asarray(got), cr.asarray(want))
