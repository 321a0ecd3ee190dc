"""Value: the cases S1 to S7, graphs that share sums, what IEEE 754 says, every op of the table."""

from __future__ import annotations

import copy
import gc
import math
import operator
import pickle
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import DtypeError, GradientError
from chainrule.ops.families import rows
from chainrule.ops.rows import NotOffered
from chainrule.scalar import Value, walk
from tests.sampling import sampled


def leaves(*xs: float) -> list[Value]:
    return [Value(x) for x in xs]


def grads(*vs: Value) -> list[float]:
    return [v.grad for v in vs]


# --- S1 to S7 ------------------------------------------------------------------------------------


def test_s1_relu_of_a_product_and_a_sum():
    def f(x: float) -> tuple[Value, list[Value]]:
        a, b, d = leaves(x, -3.0, 10.0)
        product = a * b
        total = product + d
        return total.relu(), [a, b, d, product, total]

    y, parts = f(2.0)
    y.backward()
    assert y.data == 4.0
    assert grads(*parts, y) == [-3.0, 2.0, 1.0, 1.0, 1.0, 1]
    assert f(2.001)[0].data == pytest.approx(3.997)
    assert (f(2.001)[0].data - y.data) / 0.001 == pytest.approx(-3.0)


def test_s2_two_paths_add():
    (a,) = leaves(3.0)
    b = a + a
    b.backward()
    assert (b.data, a.grad) == (6.0, 2)


def test_s3_a_value_used_in_a_product_and_beside_it():
    a, b = leaves(2.0, 3.0)
    d = a * b + a
    d.backward()
    assert (d.data, a.grad, b.grad) == (8.0, 4.0, 2.0)
    assert (Value(2.001) * 3.0 + 2.001).data == pytest.approx(8.004)


def test_s4_the_wrong_order_step_by_step():
    a, b = leaves(2.0, 3.0)
    product = a * b
    total = product + a
    total.grad = 1.0
    product._backward()  # before its own gradient has come
    total._backward()
    assert grads(a, b) == [1.0, 0.0]


def test_s5_a_square():
    (x,) = leaves(1.0)
    y = (3 * x + 1) ** 2
    y.backward()
    assert (y.data, x.grad) == (16.0, 24.0)
    difference = ((3 * Value(1.001) + 1) ** 2 - y).data / 0.001
    assert difference == pytest.approx(24.009)


def test_s6_a_neuron():
    x1, x2, w1, w2, b = parts = leaves(2.0, 0.0, -3.0, 1.0, 6.881373587019543)
    h = (x1 * w1 + x2 * w2 + b).tanh()
    h.backward()
    assert h.data == pytest.approx(0.7071, abs=5e-5)
    slope = 1 - math.tanh(6.881373587019543 - 6) ** 2
    expected = [-3 * slope, slope, 2 * slope, 0.0, slope]
    assert grads(*parts) == pytest.approx(expected, rel=1e-12)


def test_s7_a_second_backward_adds_exactly_the_same():
    a, b, c = leaves(0.3, -1.7, 2.9)
    y = (a * b + b * c + c * a + a).tanh() * a + (a * b).exp() / c
    y.backward()
    once = grads(a, b, c)
    for times in (2, 3):
        y.backward()
        assert grads(a, b, c) == [sum([g] * times) for g in once]


def test_s7_two_results_that_share_a_part():
    a, b = leaves(0.5, 1.5)
    shared = a * b
    first, second = shared.exp(), shared * shared
    first.backward()
    second.backward()
    assert a.grad == pytest.approx(1.5 * math.exp(0.75) + 2 * 0.75 * 1.5, rel=1e-14)
    assert shared.grad == 1.5  # that of the last one


def test_s7_constants_on_either_side():
    cases = [
        (lambda v: 2**v, 2**1.5 * math.log(2)),
        (lambda v: 1 / v, -1 / 1.5**2),
        (lambda v: v**v, 1.5**1.5 * (1 + math.log(1.5))),
        (lambda v: 3 - v, -1),
        (lambda v: v - 3, 1),
        (lambda v: v / 4, 0.25),
        (lambda v: -v, -1),
        (lambda v: abs(-v), 1),
    ]
    for f, slope in cases:
        (v,) = leaves(1.5)
        y = f(v)
        y.backward()
        assert y.data == f(1.5)
        assert v.grad == pytest.approx(slope, rel=1e-14)


@sampled(one_in=3)
@pytest.mark.parametrize("grow", ["product", "sum", "sum used on the way"])
def test_s7_a_million_operations_forward_backward_and_freed(grow: str):
    (x,) = leaves(1.0)
    y = x
    for _ in range(1_000_000 if grow != "sum used on the way" else 250_000):
        if grow == "product":
            y = y * 1.0
        elif grow == "sum":
            y = y + x * 1e-6
        else:
            y = y + y.tanh() * x * 1e-7
    y.backward()
    expected = {"product": 1.0, "sum": 2.0}.get(grow)
    assert expected is None or x.grad == pytest.approx(expected, rel=1e-9)
    assert x.grad > 0.9
    del y  # nothing recurses here either
    gc.collect()


# --- Sums that share their terms -----------------------------------------------------------------


def test_sums_in_between_know_their_gradient():
    a, b, c, d = leaves(1.0, 2.0, 3.0, 4.0)
    p = a * b
    e = a + b
    f = e + p
    g = f + d * c
    h = g + c
    k = h * f + p.exp() + e
    k.backward()
    exp = math.exp(2)
    assert grads(h, g, f, e) == [5.0, 5.0, 25.0, 26.0]
    assert p.grad == pytest.approx(25 + exp, rel=1e-14)
    assert grads(c, d) == [25.0, 15.0]
    assert grads(a, b) == pytest.approx([26 + 2 * (25 + exp), 26 + 25 + exp], rel=1e-14)


def test_one_sum_goes_on_in_two_ways():
    a, b, c, d = leaves(1.0, 2.0, 3.0, 4.0)
    s = a + b + c
    left, right = s + d, s + a
    y = left * right
    y.backward()
    assert (y.data, s.grad, left.grad, right.grad) == (70.0, 17.0, 7.0, 10.0)
    assert grads(a, b, c, d) == [27.0, 17.0, 17.0, 7.0]


def test_running_totals_all_used():
    xs = leaves(*[0.5 + i for i in range(20)])
    totals = list(accumulate(xs))
    y = sum(t * t for t in totals)
    y.backward()
    expected = [sum(2 * t.data for t in totals[i:]) for i in range(20)]
    assert grads(*xs) == expected
    assert [t.grad for t in totals[1:]] == expected[1:]


def test_the_last_backward_counts_in_between():
    a, b, c = leaves(2.0, 3.0, 5.0)
    p = a * b
    s = a + b + p
    alone = p * 7
    s.backward()
    assert p.grad == 1
    alone.backward()
    assert p.grad == 7
    s.backward()
    assert p.grad == 1
    (s * c).backward()
    assert (p.grad, s.grad) == (5.0, 5.0)


def test_a_look_at_a_sum_shows_what_was_written():
    a, b, c, d = leaves(1.0, 2.0, 3.0, 4.0)
    y = a + b + c * d + b * d
    y.backward()
    so_far, product = y._children
    assert (product._op, product.data, product.grad) == ("*", 8.0, 1)
    assert product._children == (b, d)
    assert (so_far.data, so_far.grad) == (15.0, 1)
    first, middle = so_far._children
    assert (first.data, first._op, middle.data) == (3.0, "+", 12.0)
    assert first._children == (a, b)
    assert y._children == (so_far, product)  # the same objects each time
    assert sum([a, b])._operands[1] is b
    assert sum([a, b, c])._children[0]._operands[1] is b
    assert sum([a])._operands == (0, a)


def test_a_labelled_node_is_shown_itself():
    a, b, c = leaves(1.0, 2.0, 3.0)
    product = a * b
    product.label = "product"
    total = a + b + product
    total.label = "total"
    y = total + c
    assert y._children == (total, c)
    assert total._children[1] is product
    assert [v.label for v in (product, total, y)] == ["product", "total", ""]


def test_gradients_given_by_hand_reach_what_is_held():
    a, b, c, d = leaves(1.0, 2.0, 3.0, 4.0)
    e = a + b
    f = e + c
    g = f + d
    g.grad = 2.0
    for v in (g, f, e):
        v._backward()
    assert grads(g, f, e, a, b, c, d) == [2.0] * 7


# --- Numbers -------------------------------------------------------------------------------------


def test_where_python_raises_ieee_answers():
    inf = math.inf
    assert (Value(1.0) / 0).data == inf
    assert (Value(-1.0) / Value(0.0)).data == -inf
    assert (1 / Value(0)).data == inf
    assert (Value(0.0) ** -1).data == inf
    assert Value(0.0).log().data == -inf
    assert Value(1000.0).exp().data == inf
    assert (Value(10.0) ** 400).data == inf
    for nan in (Value(-1.0).log(), Value(-8.0) ** (1 / 3), Value(0.0) / 0, Value(inf) - inf):
        assert math.isnan(nan.data)
    x = Value(0.0)
    (x**0.5).backward()
    assert x.grad == inf


@pytest.mark.parametrize(
    "f", [Value.log, cr.sqrt, lambda x: x**0.5, lambda x: 1 / x, lambda x: x**x]
)
def test_strong_zero(f):
    x = Value(0.0)
    (f(x) * 0).backward()
    assert x.grad == 0


def test_a_product_with_infinity_is_no_strong_zero():
    x = Value(math.inf)
    y = Value(0.0)
    (x * y * 0).backward()
    assert math.isnan(y.grad)


def test_ints_stay_ints_and_numpys_numbers_become_pythons():
    assert repr(Value(2) * 3 + 1) == "Value(data=7, grad=0)"
    assert type(Value(np.float64(0.1)).data) is float
    for y in (np.float64(2.0) * Value(3.0), Value(3.0) * np.float64(2.0), np.int64(2) * Value(3.0)):
        assert (type(y), type(y.data), y.data) == (Value, float, 6.0)
    assert Value(np.True_).data == 1


def test_comparisons_are_of_numbers_and_equality_of_objects():
    a, b = leaves(1.0, 2.0)
    assert a < b and a <= 1.0 and b < 3 and b >= a
    assert max(a, b) is b
    assert a != Value(1.0) and a == a and len({a, b, Value(1.0)}) == 3


def test_a_leaf_can_be_differentiated():
    (a,) = leaves(3.0)
    a.backward()
    assert a.grad == 1


def test_data_may_change_between_forward_and_backward():
    a, b = leaves(2.0, 3.0)
    y = a * b + a * a + b
    a.data = 100.0
    y.backward()
    assert grads(a, b) == [7.0, 3.0]


# --- The table -----------------------------------------------------------------------------------

POINTS = (-1.7, -0.4, 0.0, 0.3, 0.8, 1.9)
WITH_GRADIENT = [
    r for r in rows.values() if r.partials and not isinstance(r.partials[0].formula, NotOffered)
]


def same(got: float, expected: float) -> bool:
    return bool(np.isclose(got, expected, rtol=2e-12, atol=1e-300, equal_nan=True))


@pytest.mark.parametrize("row", [r for r in WITH_GRADIENT if len(r.partials) == 1], ids=str)
def test_unary_ops_of_the_table_as_on_tensors(row):
    for point in POINTS:
        x, t = Value(point), cr.tensor(point, dtype="float64", requires_grad=True)
        y, u = row(x), row(t)
        y.backward()
        u.backward()
        assert same(y.data, u.item()), (point, y.data, u.item())
        assert same(x.grad, t.grad.item()), (point, x.grad, t.grad.item())


@pytest.mark.parametrize("row", [r for r in WITH_GRADIENT if len(r.partials) == 2], ids=str)
def test_binary_ops_of_the_table_as_on_tensors(row):
    for a in POINTS:
        for b in POINTS:
            x, y = leaves(a, b)
            t, u = (cr.tensor(p, dtype="float64", requires_grad=True) for p in (a, b))
            v, w = row(x, y), row(t, u)
            v.backward()
            w.backward()
            got = (v.data, x.grad, y.grad)
            expected = (w.item(), t.grad.item(), u.grad.item())
            assert all(map(same, got, expected)), (a, b, got, expected)
            for half, one, other in ((row(Value(a), b), 0, 1), (row(a, Value(b)), 1, 0)):
                assert same(half.data, v.data)
                half.backward()
                (leaf,) = half._children
                assert same(leaf.grad, got[1 + one]), (a, b, other)


def test_ops_without_a_derivative_give_plain_answers():
    assert cr.less(Value(1.0), 2) is True
    assert cr.isnan(Value(math.nan)) is True


# --- By hand, and errors -------------------------------------------------------------------------


def test_a_node_made_with_local_derivatives():
    a, b, c = leaves(2.0, 3.0, 5.0)
    y = Value(30.0, (a, b, c), (15.0, 10.0, 6.0))
    assert (y._children, y._local_grads) == ((a, b, c), (15.0, 10.0, 6.0))
    (y * a).backward()
    assert grads(a, b, c, y) == [60.0, 20.0, 12.0, 2.0]


def test_a_node_made_with_a_step_of_its_own():
    x = Value(0.5)
    h = x * 2
    t = Value(math.tanh(h.data), (h,), "tanh")

    def hand_on() -> None:
        h.grad += (1 - t.data**2) * t.grad

    t._backward = hand_on
    (t * 3 + x).backward()
    assert (t._op, t._prev) == ("tanh", {h})
    assert x.grad == pytest.approx(6 * (1 - math.tanh(1) ** 2) + 1, rel=1e-14)


def test_words_for_ops():
    x = Value(2.0, label="x")
    made = [x + 1, x * x, x**2, x.relu(), x.tanh(), x / x, 2**x]
    assert [v._op for v in made] == ["+", "*", "**2", "ReLU", "tanh", "/", "**"]
    assert (x._op, x.label, x._prev) == ("", "x", set())


def test_errors_say_what_was_given():
    x = Value(1.0)
    with pytest.raises(DtypeError, match="one real number, not str '3'"):
        Value("3")
    with pytest.raises(DtypeError, match="one real number"):
        Value(1j)
    with pytest.raises(DtypeError, match="only elementwise functions take both"):
        cr.broadcast_to(x, (2,))
    with pytest.raises(DtypeError, match="maximum: cannot be applied to a Value, str 'a'"):
        cr.maximum(x, "a")
    with pytest.raises(TypeError):
        x + "a"  # pyright: ignore
    with pytest.raises(GradientError, match="made with children"):
        x._backward = print


def test_an_interrupted_backward_leaves_the_graph_usable(monkeypatch):
    a, b = leaves(2.0, 3.0)
    y = ((a * b + a + b).tanh() + a * b).exp()

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as m, pytest.raises(KeyboardInterrupt):
        m.setattr(walk, "_pass_on", stop)
        y.backward()
    a.grad = b.grad = 0
    y.backward()
    x, w = leaves(2.0, 3.0)
    ((x * w + x + w).tanh() + x * w).exp().backward()
    assert grads(a, b) == grads(x, w)


def test_operators_called_as_functions():
    a, b, c = leaves(2.0, 3.0, 5.0)
    s = a + b
    t = s.__add__(c)
    assert (s.data, t.data, operator.add(s, t).data) == (5.0, 10.0, 15.0)


@pytest.mark.parametrize(
    "copy_of", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
@pytest.mark.parametrize("label", ["", "w"])
def test_a_copy_is_a_value_of_its_own(copy_of: Any, label: str):
    a = Value(2.0)
    if label:
        a.label = label
    (a * a).backward()
    b = copy_of(a)
    assert (b.data, b.grad, b.label) == (2.0, 4.0, label)
    b.grad = 0
    (3 * b + b * b + b).backward()
    assert (a.grad, b.grad) == (4.0, 8.0)
