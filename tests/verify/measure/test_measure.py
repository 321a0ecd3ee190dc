"""What is measured of a subject: right ones are right, what is wrong is seen as what it is."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule import verify
from chainrule.verify.diagnose import findings
from chainrule.verify.measure import run as measure_run
from chainrule.verify.measure.examine import examine
from chainrule.verify.measure.plant import planted
from chainrule.verify.place import Place
from chainrule.verify.subject import Array
from tests.sampling import sampled
from tests.verify.measure.measured import (
    RIGHT,
    Pair,
    attention,
    attention_back,
    codes,
    embedding_back,
    matmul_back,
    measured,
    network,
    network_back,
    norm,
    norm_back,
    normal,
    softmax,
    softmax_back,
    verdicts,
)

DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]


def pair(name: str, dtype: Any = np.float64) -> Pair:
    f, b, xs = RIGHT[name]
    subject = Pair(f, b, *[x.astype(dtype) if x.dtype.kind == "f" else x for x in xs])
    if name == "only for rows that sum to 1":
        x, target = subject.inputs
        subject.inputs = (x, replace(target, wanted=False))
    return subject


# --- No false alarm -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", RIGHT)
def test_right_pairs_are_right(name: str, dtype: Any):
    evidence = examine(pair(name, dtype))
    assert not evidence.wrong, (evidence.behaviours, evidence.trials)
    assert any(t.verdict in ("right", "kink") for t in evidence.trials)


SMALL = st.integers(1, 6)


@settings(max_examples=25, deadline=None)
@given(m=SMALL, k=SMALL, n=SMALL, seed=st.integers(0, 99), scale=st.sampled_from([1e-8, 1.0, 1e8]))
def test_right_at_all_sizes_and_scales(m: int, k: int, n: int, seed: int, scale: float):
    evidence = measured(
        np.matmul, matmul_back, scale * normal(m, k, seed=seed), normal(k, n, seed=seed)
    )
    assert not evidence.wrong
    assert verdicts(evidence) == {"right"}


@settings(max_examples=25, deadline=None)
@given(m=SMALL, n=SMALL, seed=st.integers(0, 99), digits=st.integers(0, 3))
def test_right_with_kinks_and_ties(m: int, n: int, seed: int, digits: int):
    x = np.round(normal(m, n, seed=seed), digits)
    v, w = np.round(normal(n, 4, seed=seed), digits), normal(4, 3)
    assert not measured(network, network_back, x, v, w).wrong


@settings(max_examples=15, deadline=None)
@given(n=st.integers(2, 6), seed=st.integers(0, 99), dtype=st.sampled_from(DTYPES))
def test_right_in_every_dtype(n: int, seed: int, dtype: Any):
    for f, b in ((softmax, softmax_back), (norm, norm_back)):
        evidence = measured(f, b, (3 * normal(4, n, seed=seed)).astype(dtype))
        assert not evidence.wrong, evidence.behaviours


# --- What the adjoint test sees -------------------------------------------------------------------


def one_element(a: Array, b: Array, g: Array) -> tuple[Array, Array]:
    a_bar, b_bar = matmul_back(a, b, g)
    a_bar[3, 5] *= 1.001
    return a_bar, b_bar


def test_one_element_of_a_large_matrix():
    evidence = measured(np.matmul, one_element, normal(64, 64), normal(64, 64, seed=1))
    assert evidence.wrong_inputs() == (0,)
    (found,) = evidence.jacobians
    assert found.columns is not None
    assert found.rows is not None
    off = np.abs(found.difference).max(axis=0) > 1e-6
    assert list(found.columns[off]) == [3 * 64 + 5]


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_a_factor_of_a_thousandth(scale: float):
    b = lambda x, g: 1.001 * g * (1 - np.tanh(x / scale) ** 2) / scale
    assert measured(lambda x: np.tanh(x / scale), b, scale * normal(5, 4)).wrong_inputs() == (0,)


def test_small_elements_are_not_drowned():
    sizes = np.geomspace(1e-5, 1, 24).reshape(4, 6)
    b = lambda x, g: g * sizes * np.where(sizes < 3e-5, 1.01, 1)
    assert measured(lambda x: x * sizes, b, normal(4, 6)).wrong_inputs() == (0,)


def test_a_small_output_beside_a_large_one():
    f = lambda x: (np.sin(x), 1e-7 * np.exp(x))
    b = lambda x, g, h: g * np.cos(x) + 2e-7 * h * np.exp(x)
    evidence = measured(f, b, normal(4, 6))
    assert evidence.wrong_inputs() == (0,)
    assert [j.output for j in evidence.jacobians] == [1]


def test_one_input_of_many():
    f = lambda *xs: np.tanh(sum(xs))
    b = lambda *a: tuple([a[-1] * (1 - f(*a[:-1]) ** 2) * (-1 if i == 3 else 1) for i in range(5)])
    xs = [normal(3, 4, seed=i) for i in range(5)]
    assert measured(f, b, *xs).wrong_inputs() == (3,)


def test_the_jacobians_are_those_of_both():
    w = normal(3, 5)
    evidence = measured(lambda x: x @ w, lambda x, g: 2 * g @ w.T, normal(2, 3), fixed="w is 3, 5")
    (found,) = evidence.jacobians
    whole = np.kron(np.eye(2), w.T)
    np.testing.assert_allclose(found.analytic, 2 * whole, rtol=1e-12)
    assert (np.abs(found.numeric - whole) <= found.bound + 1e-14).all()
    assert found.bound.max() < 1e-9
    assert (found.y_shape, found.x_shape) == ((2, 5), (2, 3))
    assert ("other sizes", "w is 3, 5") in evidence.skipped


def test_jacobians_of_complex_numbers():
    x = normal(2, 3) + 1j * normal(2, 3, seed=1)
    right = measured(np.exp, lambda x, g: g * np.conj(np.exp(x)), x)
    assert not right.wrong
    assert verdicts(right) == {"right"}
    wrong = measured(np.exp, lambda x, g: g * np.exp(x), x)
    assert wrong.wrong_inputs() == (0,)
    (found,) = wrong.jacobians
    diagonal = np.exp(found.xs[0]).reshape(-1)
    np.testing.assert_allclose(np.diag(found.numeric), diagonal, rtol=1e-8)
    np.testing.assert_allclose(np.diag(found.analytic), np.conj(diagonal), rtol=1e-12)


# --- Kinks, steps, jumps --------------------------------------------------------------------------


def test_kinks_are_recognised():
    f, b = lambda x: np.abs(x).sum(), lambda x, g: g * np.sign(x)
    evidence = measured(f, b, np.zeros((3, 4)))
    assert verdicts(evidence) == {"kink"}
    assert verdicts(evidence, "as captured, moved") == {"right"}
    assert not evidence.wrong
    twice = measured(f, lambda x, g: 2 * b(x, g), np.zeros((3, 4)))
    assert "wrong" in verdicts(twice, "as captured, moved")


def test_wrong_at_exactly_zero():
    evidence = measured(lambda x: x * x + x, lambda x, g: g * (2 * x + (x != 0)), normal(4, 5))
    assert "region" in codes(evidence)
    (at,) = [b.data["point"] for b in evidence.behaviours]
    assert "zeros" in at


def test_straight_through():
    evidence = measured(np.round, lambda x, g: g, normal(4, 5))
    assert codes(evidence) == {"straight_through"}
    assert "wrong" not in {t.verdict for t in evidence.trials}


def test_a_function_that_gives_back_its_argument_is_there_for_its_backward():
    back = lambda x, g: -0.3 * g
    given_back = Pair(lambda x: x.copy(), back, normal(4, 5))
    assert examine(given_back).wrong, "nobody wrote this backward on purpose"
    given_back.backward_place = Place("user.py", 1, "back")
    evidence = examine(given_back)
    assert codes(evidence) == {"straight_through"} and not evidence.wrong
    relu = measured(lambda x: np.maximum(x, 0), back, np.abs(normal(4, 5)) + 0.1)
    assert relu.wrong_inputs() == (0,)


@pytest.mark.parametrize("nothing", [0.0, np.zeros(5), np.zeros((4, 5), bool)])
def test_what_gives_back_its_argument_for_now_is_there_for_its_forward(nothing: Any):
    subject = Pair(lambda x, b: x + b, lambda x, b, g: (1.001 * g, None), normal(4, 5), nothing)
    subject.backward_place = Place("user.py", 1, "back")
    assert 0 in examine(subject).wrong_inputs()


def test_a_pole_is_no_step():
    f = lambda x, w: (w * x).sum(0) / w.sum()
    b = lambda x, w, g: (w / w.sum() * g, 2 * ((x - f(x, w)) * g).sum(1, keepdims=True) / w.sum())
    evidence = measured(f, b, normal(4, 4), np.abs(normal(4, 1)) + 0.5)
    assert evidence.wrong_inputs() == (1,)
    assert "straight_through" not in codes(evidence)


def quantised(x: Array, step: Array) -> Array:
    return step * np.round(x / step)


def quantised_back(x: Array, step: Array, g: Array) -> tuple[Array, ...]:
    return g, np.asarray((g * (np.round(x / step) - x / step)).sum())


def test_a_gradient_that_follows_the_trend_of_steps_is_made_up():
    evidence = measured(quantised, quantised_back, normal(40, 5), np.array(0.25))
    assert codes(evidence) == {"straight_through"}
    assert "wrong" not in {t.verdict for t in evidence.trials}


def test_a_wrong_gradient_beside_a_jump_is_wrong():
    f = lambda x, step: step * step * np.round(x / step)
    b = lambda x, step, g: (g * step, -np.asarray((g * step * np.round(x / step)).sum()))
    evidence = measured(f, b, normal(40, 5), np.array(0.25))
    assert {t.input for t in evidence.trials if t.verdict == "wrong"} == {1}
    assert {b.input for b in evidence.behaviours if b.code == "straight_through"} == {0}


def clamped_back(
    x: Array, step: Array, g: Array, between: float, scale: float
) -> tuple[Array, ...]:
    v = x / step
    inside = np.abs(v) < 2
    slopes = np.where(inside, np.round(v) - between * v, 2 * np.sign(v))
    return g * inside, np.asarray((g * slopes).sum() * scale)


@pytest.mark.parametrize(("between", "scale"), [(1.0, 1.0), (1.0, 0.07), (-1.0, 1.0), (1.0, -1.0)])
@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_of_a_step_size_follows_from_the_made_up_one(
    between: float, scale: float, seed: int
):
    f = lambda x, step: step * np.clip(np.round(x / step), -2, 2)
    b = lambda x, step, g: clamped_back(x, step, g, between, scale)
    evidence = measured(f, b, normal(6, 5, seed=seed), np.array(0.3))
    assert evidence.wrong == (between < 0 or scale < 0)


@pytest.mark.parametrize("size", [(4, 4), (3, 5), (6, 6)])
def test_quotients_have_no_steps(size: tuple[int, ...]):
    f, b = lambda a, b: a / b, lambda a, b, g: (g / b, -g / b**2)
    assert measured(f, b, normal(*size), normal(*size)).wrong_inputs() == (1,)


def test_vectors_that_turn_over_are_no_steps():
    f = lambda a: np.linalg.qr(a)[0]
    b = lambda a, g: np.asarray(g * a.sum())
    evidence = measured(f, b, normal(4, 4))
    assert "wrong" in verdicts(evidence) and "straight_through" not in codes(evidence)


def test_nan_in_the_captured_dtype():
    softplus = lambda x: np.logaddexp(0, x).astype(x.dtype)
    x = np.array([-1.5, 2.0, 100.0], np.float32)
    evidence = measured(softplus, lambda x, g: g * np.exp(x) / (1 + np.exp(x)), x)
    assert [(b.code, b.input) for b in evidence.behaviours] == [("nan", 0)]
    assert not measured(softplus, lambda x, g: g / (1 + np.exp(-x)), x).wrong


def test_a_sum_that_cancels_is_no_matter_of_layout():
    def normed(x: Array, w: Array) -> Array:
        y = x - x.mean(0)
        return y / np.sqrt((y * y).mean(0)) * w

    def back(x: Array, w: Array, g: Array) -> tuple[Array, ...]:
        y = x - x.mean(0)
        scale = 1 / np.sqrt((y * y).mean(0))
        hat = y * scale
        h = g * w
        x_bar = scale * (h - h.mean(0) - hat * (h * hat).mean(0))
        return x_bar, np.einsum("ij,ij->j", g, hat)

    assert codes(measured(normed, back, normal(5, 3), normal(3))) == set()


def test_a_constant_of_seven_digits_is_right():
    third = np.float64(np.float32(1 / 3))
    evidence = measured(lambda x: x / 3, lambda x, g: g * third, normal(3, 4))
    assert not evidence.wrong and verdicts(evidence) == {"right"}
    assert all(1e-9 < t.error <= t.tolerance for t in evidence.trials if "captured" in t.point)


def test_what_cannot_be_told_is_no_check():
    evidence = measured(lambda x: np.sin(1e18 * x), lambda x, g: g, normal(3, 4))
    assert not evidence.trials and [w for w, _ in evidence.skipped if w == "everything"]


# --- What a backward does -------------------------------------------------------------------------


def square_back(x: Array, g: Array) -> Array:
    return 2 * x * g


def unsteady(x: Array, g: Array) -> Array:
    unsteady.calls = getattr(unsteady, "calls", 0) + 1
    return square_back(x, g) * (1 + 0.1 * (unsteady.calls % 3))


def remembers(x: Array, g: Array) -> Array:
    held = getattr(remembers, "held", x)
    remembers.held = x
    return 2 * held * g if held.shape == x.shape else square_back(x, g)


def writes(x: Array, g: Array) -> Array:
    x_bar = square_back(x, g)
    if g.flags.writeable:
        g *= 2
    return x_bar


def fails_for_strides(x: Array, g: Array) -> Array:
    assert g.flags.c_contiguous, "contiguous only"
    return square_back(x, g)


def raises(x: Array, g: Array) -> Array:
    raise ZeroDivisionError("no such layer")


def only_small(x: Array, g: Array) -> Array:
    assert len(x) < 6, "too long"
    return square_back(x, g)


def in_single(x: Array, g: Array) -> Array:
    return square_back(x, g) * (1.003 if x.dtype == np.float32 else 1)


BEHAVIOURS = {
    "ignores_cotangent": lambda x, g: 2 * x,
    "not_linear": lambda x, g: 2 * x * np.clip(g, -0.7, 0.7),
    "dropped": lambda x, g: None,
    "wrong_shape": lambda x, g: square_back(x, g).sum(0),
    "contiguity": lambda x, g: 2 * x * g.ravel(order="K").reshape(x.shape),
    "not_deterministic": unsteady,
    "stale": remembers,
    "writes": writes,
    "raises": raises,
    "nan": lambda x, g: square_back(x, g) / (x != x[0, 0]),
    "one_sided": lambda x, g: 2 * np.abs(x) * g,
    "size": lambda x, g: square_back(x, g) * x.size / 20,
}


@pytest.mark.parametrize("code", BEHAVIOURS)
def test_behaviours(code: str):
    x = np.abs(normal(4, 5)) + 0.5 if code == "one_sided" else normal(4, 5)
    evidence = measured(np.square, BEHAVIOURS[code], x)
    assert evidence.wrong
    assert code in codes(evidence), evidence.behaviours
    assert all(b.says for b in evidence.behaviours)


@pytest.mark.parametrize(("b", "code"), [(fails_for_strides, "contiguity"), (only_small, "size")])
def test_a_backward_that_raises_now_and_then(b: Any, code: str):
    assert codes(measured(np.square, b, normal(4, 5))) == {code}


def test_wrong_in_float32_only():
    assert not measured(np.square, in_single, normal(4, 5)).wrong
    evidence = measured(np.square, in_single, normal(4, 5).astype(np.float32))
    (found,) = evidence.behaviours
    assert found.code == "precision"
    assert found.data["factor"] == pytest.approx(1.003, abs=1e-4)


def test_a_forward_that_differs_by_dtype_is_no_mistake():
    tiny = lambda x: np.finfo(x.dtype).eps
    f = lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + tiny(x))
    b = lambda x, g: g / np.sqrt(tiny(x))
    assert not measured(f, b, np.zeros((3, 4), np.float32)).behaviours


def test_rows_beyond_the_captured_ones():
    b = lambda x, g: square_back(x, g) * (np.arange(len(x)) < 6)[:, None]
    assert "size" in codes(measured(np.square, b, normal(4, 5)))


def bags(x: Array, begins: Array) -> Array:
    ends = np.append(begins[1:], len(x))
    return np.stack([x[a:b].sum(0) for a, b in zip(begins, ends, strict=True)])


def bags_back(x: Array, begins: Array, g: Array) -> Any:
    return g[np.searchsorted(begins, np.arange(len(x)), side="right") - 1], None


def test_parts_begin_at_0_at_other_sizes_too():
    """Else what is before the first part belongs to none, and to the last one in the backward."""
    evidence = examine(Pair(bags, bags_back, normal(23, 4), np.array([0, 2, 3, 9, 15])))
    assert not evidence.wrong
    assert len({t.point for t in evidence.trials}) > 2


def test_an_index_is_no_input():
    evidence = measured(lambda t, i: t[i], embedding_back, normal(7, 3), np.array([4, 0, 6]))
    assert {t.input for t in evidence.trials} == {0}
    assert not evidence.skipped


# --- The rest -------------------------------------------------------------------------------------


def test_what_is_random_for_itself_is_skipped():
    rng = np.random.default_rng(0)
    evidence = measured(lambda x: x * rng.random(), lambda x, g: g, normal(3))
    assert not evidence.wrong
    ((what, why),) = evidence.skipped
    assert what == "everything"
    assert "it is random" in why


def test_a_forward_that_fails_is_skipped():
    evidence = measured(lambda x: 1 // 0, lambda x, g: g, normal(3))
    assert not evidence.wrong
    assert (
        "everything",
        "forward raises ZeroDivisionError: integer division or modulo by zero",
    ) in (evidence.skipped)


def test_a_subject_that_runs_in_its_own_dtype_only():
    def f(x: Array) -> Array:
        assert x.dtype == np.float32
        return np.tanh(x)

    right = measured(f, lambda x, g: g * (1 - np.tanh(x) ** 2), normal(4, 5).astype(np.float32))
    assert verdicts(right) == {"right"}
    wrong = measured(f, lambda x, g: g * (1 - np.tanh(x)), normal(4, 5).astype(np.float32))
    assert "wrong" in verdicts(wrong)


def test_twice_the_same_and_nobody_elses_random_numbers():
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    one, two = (measured(attention, attention_back, *RIGHT["attention"][2]) for _ in range(2))
    assert (before == np.random.get_state()[1]).all()
    assert [(t.error, t.tolerance) for t in one.trials] == [
        (t.error, t.tolerance) for t in two.trials
    ]
    assert one.evaluations == two.evaluations


@pytest.mark.parametrize("name", ["matmul", "softmax", "network", "relu of zeros", "embedding"])
def test_planted_gradients_are_caught(name: str):
    found = planted(pair(name))
    assert found.caught, found
    assert "times 1.001" in found.what
    assert found.named == "factor"


def test_nothing_is_caught_where_there_is_nothing():
    assert not planted(pair("constant")).caught


def test_values_that_a_forward_clips_away_are_not_asked_for():
    low = lambda x: np.maximum(x, 1e-12)
    f, b = lambda x: np.log(low(x)), lambda x, g: g / low(x)
    assert not measured(f, b, np.exp(normal(4, 5))).wrong


def test_rounding_in_another_order_is_not_random():
    calls = iter(range(10**9))
    f = lambda x: np.sin(x) * (1 + 1e-15 * (next(calls) % 3))
    evidence = measured(f, lambda x, g: g * np.cos(x), normal(4, 5))
    assert not evidence.wrong
    assert verdicts(evidence) == {"right"}


def test_numbers_without_axes_come_as_arrays():
    def b(x: Array, g: Array) -> Array:
        assert isinstance(g, np.ndarray)
        return g * np.cos(x)

    assert not measured(lambda x: np.sin(x).sum(), b, normal(3)).wrong


def test_layout_is_blamed_only_for_what_is_right_otherwise():
    b = lambda x, g: 3 * x * g.ravel(order="K").reshape(x.shape)
    assert "contiguity" not in codes(measured(np.square, b, normal(4, 5)))


@pytest.mark.parametrize("seed", range(4))
def test_the_middle_of_three_equal_numbers_has_no_derivative(seed: int):
    f = lambda x: np.sort(x, -1)
    b = lambda x, g: np.take_along_axis(g, np.argsort(np.argsort(x, -1, kind="stable"), -1), -1)
    assert not measured(f, b, np.round(2 * normal(4, 6, seed=seed))).wrong


def test_straight_through_beside_a_step():
    x = np.zeros((4, 6))
    x[1, 2], x[3, 1], x[2, 2] = 1.5, -1.5, 0.3
    evidence = measured(lambda x: x + (np.round(x) - x), lambda x, g: g, x)
    assert codes(evidence) == {"straight_through"}
    assert "wrong" not in {t.verdict for t in evidence.trials}


def _gates(x: Array, h: Array, w: Array, u: Array) -> tuple[Array, ...]:
    xz, xn = np.array_split(x @ w, 2, axis=1)
    hz, hn = np.array_split(h @ u, 2, axis=1)
    return 1 / (1 + np.exp(-xz - hz)), np.tanh(xn + hn)


def _gated(x: Array, h: Array, w: Array, u: Array) -> Array:
    z, n = _gates(x, h, w, u)
    return (1 - z) * n + z * h


def _gated_back(g: Array, x: Array, h: Array, w: Array, u: Array) -> Any:
    z, n = _gates(x, h, w, u)
    da = np.concatenate([g * (h - n) * z * (1 - z), g * (1 - z) * (1 - n**2)], axis=1)
    return da @ w.T, da @ u.T + g * z, x.T @ da, h.T @ da


def _gated_for_four(g: Array, x: Array, h: Array, w: Array, u: Array) -> Any:
    dx, dh, dw, du = _gated_back(g, x, h, w, u)
    return dx, dh, dw, du * len(g) / 4


def test_a_cell_whose_gates_no_longer_fit_its_state_is_no_other_size():
    args = [normal(4, 3), normal(4, 2), normal(3, 4), normal(2, 4)]
    assert verify.pair(_gated, _gated_back, *args).ok
    assert not verify.pair(_gated, _gated_for_four, *args).ok


# --- What is slow, and what is nearly right -------------------------------------------------------


def slow(f: Any, seconds: float) -> Any:
    def slowed(*xs: Any) -> Any:
        end = time.process_time() + seconds  # work: what sleeps is waited for longer
        while time.process_time() < end:
            pass
        return f(*xs)

    return slowed


@pytest.mark.parametrize("after", [0.1, 0.4])
def test_what_is_slow_is_left_and_what_was_seen_by_then_is_said(monkeypatch, after: float):
    monkeypatch.setattr(measure_run.Run.__init__, "__defaults__", (after,))
    x, w = normal(4, 3), normal(3, 5)
    right = examine(Pair(slow(np.matmul, 0.005), matmul_back, x, w))
    assert not right.wrong
    assert any("evaluations took" in why for _, why in right.skipped)
    wrong = examine(Pair(slow(np.matmul, 0.005), lambda x, w, g: (g @ w.T, 2 * x.T @ g), x, w))
    assert any("evaluations took" in why for _, why in wrong.skipped)
    assert {t.input for t in wrong.trials if t.verdict == "wrong"} <= {1}


@pytest.mark.sweep
@sampled(one_in=2)
@pytest.mark.parametrize(("halvings", "level"), [(18, "note"), (9, "error")])
def test_a_solver_that_stops_early_is_an_approximation(halvings: int, level: str):
    """Its gradient is off by some digits, differently everywhere: no line is wrong."""

    def forward(x: Any) -> Any:
        return np.cbrt(x**3 + x)

    def backward(g: Any, x: Any) -> Any:
        low, high = np.zeros(x.shape), np.full(x.shape, 8.0)
        for _ in range(halvings):
            middle = (low + high) / 2
            below = middle**3 < x**3 + x
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (g * (3 * x**2 + 1) / (3 * low**2),)

    report = verify.pair(forward, backward, 1 + np.abs(normal(5, 4)))
    assert [f.level for f in report.findings] == [level]
    assert report.ok == (level == "note")
    assert (report.findings[0].name.code == "approximate") == (level == "note")


def test_a_constant_of_few_digits_is_a_mistake():
    def forward(x: Any) -> Any:
        return np.exp(1.41421356 * x)

    def backward(g: Any, x: Any) -> Any:
        return (g * 1.4142 * np.exp(1.41421356 * x),)

    report = verify.pair(forward, backward, normal(5, 4))
    assert [f.level for f in report.findings] == ["error"]


def test_naming_what_is_slow_ends_as_well(monkeypatch):
    monkeypatch.setattr(findings, "PATIENCE", 0.0)
    report = verify.pair(
        np.matmul, lambda g, x, w: (g @ w.T, 2 * x.T @ g), normal(4, 3), normal(3, 5)
    )
    assert [f.name.code for f in report.findings] == ["unnamed"]
    assert any("more names" in s.subject for s in report.ledger.skipped)


def turned(x: Any) -> Any:
    a, b = np.array_split(x, 2, -1)
    return np.concatenate([-b, a], -1)


@pytest.mark.parametrize("wrong", [False, True])
def test_what_is_made_for_even_lengths_is_not_asked_about_odd_ones(wrong: bool):
    """Where both halves of an odd length have the same name by chance, nobody means them."""

    def forward(x: Any, sin: Any) -> Any:
        return x * (1 - sin) + turned(x) * sin

    def backward(x: Any, sin: Any, g: Any) -> Any:
        by = 8 / x.shape[1] if wrong else 1.0
        return by * (g * (1 - sin) - turned(g * sin)), None

    subject = Pair(forward, backward, normal(6, 8), np.full((6, 8), 0.3))
    x, sin = subject.inputs
    subject.inputs = (x, replace(sin, wanted=False))
    evidence = examine(subject)
    found = {b.code for b in evidence.behaviours}
    assert "size" in found if wrong else found == {"lengths"}
    assert bool(evidence.wrong) is wrong


def _chunked(a: Array, x: Array) -> Array:
    """h[t] = a[t] h[t - 1] + x[t], over as many steps as `x` has."""
    ys, h = np.empty_like(x), np.zeros_like(x[:, 0])
    for t in range(x.shape[1]):
        h = a[:, t] * h + x[:, t]
        ys[:, t] = h
    return ys


def _chunked_back(a: Array, x: Array, g: Array, chunk: int) -> tuple[Array, Array]:
    ys = _chunked(a, x)
    before = np.concatenate([np.zeros_like(ys[:, :1]), ys[:, :-1]], 1)
    x_bar, carry = np.empty_like(x), np.zeros_like(x[:, 0])
    for t in reversed(range(x.shape[1])):
        carry = carry * ((t + 1) % chunk > 0)
        x_bar[:, t] = g[:, t] + carry
        carry = a[:, t] * x_bar[:, t]
    return x_bar * before, x_bar


@pytest.mark.parametrize("chunk", [6, 10**6])
def test_what_two_sequences_have_in_length_can_change(chunk: int):
    b = lambda a, x, g: _chunked_back(a, x, g, chunk)
    evidence = measured(_chunked, b, np.abs(normal(4, 6, 3)), normal(4, 6, 3))
    assert evidence.wrong == (chunk == 6)


def test_coordinates_stay_two_where_something_else_has_that_length():
    f = lambda p, w: p[:, :2] @ w[:2]
    b = lambda p, w, g: (g @ w[:2].T, p[:, :2].T @ g)
    assert not measured(f, b, normal(7, 2), normal(2, 3)).wrong


def test_right_for_one_sign_of_positive_numbers_below_one():
    """The other sign meets a pole of the backward's, and is asked about where code takes signs."""
    f = lambda x: x / (0.8 + np.abs(x))
    x = np.abs(normal(20, 7)) % 1.0 + 0.2
    assert codes(measured(f, lambda x, g: g * 0.8 / (0.8 + x) ** 2, x)) == {"one_sided"}
    assert not measured(f, lambda x, g: g * 0.8 / (0.8 + np.abs(x)) ** 2, x).wrong


def test_what_is_beyond_a_clip_is_not_asked():
    x = np.abs(normal(20, 7)) + 1.1
    f = lambda x: np.log(np.maximum(x, 1e-9))
    assert "one_sided" not in codes(measured(f, lambda x, g: g / np.maximum(x, 1e-9), x))


@pytest.mark.parametrize("told", [np.array([0, 3, 3, 8, 9]), np.array([3, 0, 5, 1])])
def test_rows_of_several_lengths_stay_as_many_as_is_told(told: Array):
    ends = told if told[0] == 0 else np.array([0, *np.cumsum(told)])

    def sums(x: Array, given: Array) -> Array:
        at = given if given[0] == 0 else np.array([0, *np.cumsum(given)])
        total = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, 0)])
        return total[np.minimum(at[1:], len(x))] - total[np.minimum(at[:-1], len(x))]

    def back(x: Array, given: Array, g: Array) -> tuple[Array, None]:
        return np.repeat(g, np.diff(ends), 0), None

    evidence = measured(sums, back, normal(9, 2), told)
    assert not evidence.wrong
    assert codes(evidence) == set()


def test_a_backward_that_unpacks_four_parts_is_made_for_four():
    def back(q: Array, g: Array) -> Array:
        a, b, c, d = (2 * q * g).T
        return np.stack([a, b, c, d], -1)

    assert not measured(np.square, back, normal(5, 4)).wrong


def _bent(x: Array, w: Array) -> Array:
    """Second differences, of which there are two less than numbers, and a weight for each."""
    return (w * (x[:, :-2] - 2 * x[:, 1:-1] + x[:, 2:]) ** 2).sum(-1)


def _bent_back(x: Array, w: Array, g: Array) -> tuple[Array, Array]:
    d = x[:, :-2] - 2 * x[:, 1:-1] + x[:, 2:]
    r, x_bar = 2 * w * d * g[:, None], np.zeros_like(x)
    x_bar[:, 2:] += r
    x_bar[:, 1:-1] -= 2 * r
    x_bar[:, :-2] += r
    return x_bar, (g[:, None] * d * d).reshape(-1, w.size).sum(0)


def test_a_length_at_which_a_forward_works_by_chance_is_not_asked_about():
    """One second difference is spread over all weights; two are not."""
    assert codes(measured(_bent, _bent_back, normal(3, 18), normal(16))) == set()
    assert not measured(_bent, _bent_back, normal(3, 18), normal(16)).wrong


def test_a_backward_that_raises_at_all_other_lengths_is_made_for_one():
    b = lambda x, g: (2 * g * x).reshape(6, 5)
    assert codes(measured(np.square, b, normal(6, 5))) == {"size"}


def test_a_kernel_of_odd_length_stays_odd():
    """Of an even one, the result is longer by one; nobody means that."""

    def f(x: Array, k: Array) -> Array:
        return np.convolve(np.pad(x, len(k) // 2), k[::-1], "valid")

    def b(x: Array, k: Array, g: Array) -> tuple[Array, Array]:
        half = len(k) // 2
        x_bar = np.convolve(np.pad(g, half), k, "valid")
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, half), len(k))
        return x_bar, g @ windows

    evidence = measured(f, b, normal(8), normal(3))
    assert not evidence.wrong
    assert codes(evidence) == {"lengths"}
