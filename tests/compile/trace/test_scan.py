"""`scan`: a carried loop, eager and compiled, differentiated, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim
from tests.compile.trace.backends import backend as backend
from tests.compile.trace.test_jit import assert_same, numbers
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


def decaying(c: Any, x: Any) -> Any:
    new = {"s": c["s"] * 0.9 + x[0], "n": c["n"] + 1}
    return new, (new["s"].tanh(), [x[1] * new["n"]])


def start() -> Any:
    return {"s": numbers(3), "n": cr.tensor(0)}


XS = (numbers(5, 3, seed=1), numbers(5, seed=2))


def test_it_is_a_loop():
    carry, ys = cr.scan(decaying, start(), XS)
    c, wanted = start(), []
    for i in range(5):
        c, y = decaying(c, (XS[0][i], XS[1][i]))
        wanted.append(y)
    assert_same(carry, c)
    assert_same(ys[0], cr.stack([w[0] for w in wanted]))
    assert_same(ys[1][0], cr.stack([w[1][0] for w in wanted]))


def test_compiled():
    f = cr.jit(lambda c, x: cr.scan(decaying, c, x))
    assert_same(f(start(), XS), cr.scan(decaying, start(), XS))


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_flow_through(compiled: bool):
    def last(s: Any, decay: Any) -> Any:
        carry, ys = cr.scan(lambda c, x: (c * decay + x, c * c), s, XS[0])
        return (carry * carry).sum() + ys.sum()

    def by_hand(s: Any, decay: Any) -> Any:
        total = cr.tensor(0.0)
        for i in range(5):
            total, s = total + (s * s).sum(), s * decay + XS[0][i]
        return total + (s * s).sum()

    got = cr.grad(cr.jit(last) if compiled else last, (0, 1))(numbers(3), cr.tensor(0.7))
    assert_same(got, cr.grad(by_hand, (0, 1))(numbers(3), cr.tensor(0.7)))


@pytest.mark.parametrize("of", ["carry", "xs"])
def test_a_result_is_differentiated_outside_with_respect_to(of: str):
    def last(s: Any, xs: Any) -> Any:
        return cr.scan(lambda c, x: (c * 0.7 + x * x, None), s, xs)[0]

    def gradient(f: Any) -> Any:
        s, xs = numbers(3), numbers(5, 3, seed=1)
        (s if of == "carry" else xs).requires_grad_()
        f(s, xs).sum().backward()
        return [s.grad, xs.grad][of == "xs"]

    assert_same(gradient(cr.jit(last)), gradient(last))


def test_state_may_change_in_every_turn():
    def run(wrap: Any) -> Any:
        w = numbers(3).requires_grad_()

        def turn(c: Any, x: Any) -> Any:
            loss = ((w - x) ** 2).sum()
            w.grad = None
            loss.backward()
            w.data = w - 0.1 * w.grad
            return c + 1, loss.detach()

        count, losses = wrap(lambda xs: cr.scan(turn, cr.tensor(0), xs))(XS[0])
        return count, losses, w.detach()

    assert_same(run(cr.jit), run(lambda f: f))


def test_a_length_in_place_of_xs_and_no_turn_at_all():
    carry, ys = cr.scan(lambda c, _: (c * 2, c), cr.tensor([1.0]), length=4)
    assert carry.tolist() == [16.0]
    assert ys.tolist() == [[1.0], [2.0], [4.0], [8.0]]
    c = start()
    carry, ys = cr.scan(decaying, c, (XS[0][:0], XS[1][:0]))
    assert carry is c
    assert (ys[0].shape, ys[0].dtype, ys[1][0].shape) == ((0, 3), np.float32, (0,))


def test_what_it_refuses():
    c = cr.tensor([1.0])
    with pytest.raises(cr.ShapeError, match=r"xs are arrays of one length.*\(5, 3\), \(4,\)"):
        cr.scan(lambda c, x: (c, c), c, (XS[0], XS[1][:4]))
    with pytest.raises(cr.ShapeError, match=r"float32 \(1,\) is float32 \(2,\) after one step"):
        cr.scan(lambda c, x: (cr.concat([c, c]), c), c, length=2)
    with pytest.raises(cr.DtypeError, match=r"float32 \(1,\) is float64 \(1,\) after one step"):
        cr.scan(lambda c, x: (c.astype(np.float64), c), c, length=2)
    with pytest.raises(cr.ShapeError, match=r"the carry was \*, and is tuple\(\*, \*\)"):
        cr.scan(lambda c, x: ((c, c), c), c, length=2)
    with pytest.raises(cr.DtypeError, match=r"returns \(carry, y\)"):
        cr.scan(lambda c, x: c, c, length=2)
    with pytest.raises(cr.ShapeError, match="each of xs has a first axis"):
        cr.scan(lambda c, x: (c, c), c, cr.tensor(1.0))
    g = cr.Generator(0)
    with pytest.raises(cr.TraceError, match=r"1000 turns are too many.*random numbers"):
        noisy = lambda c: cr.scan(lambda c, _: (c * g.normal(()), None), c, length=1000)
        cr.jit(noisy)(c.requires_grad_())


def test_many_turns_are_one_op_whose_body_is_traced_once():
    calls: list[int] = []
    g, w = cr.Generator(0), numbers(3).requires_grad_()
    opt = optim.AdamW([w], lr=0.1)
    scale = numbers(3, seed=5)

    def turn(c: Any, x: Any) -> Any:
        calls.append(1)
        loss = (((w - x) * scale + 0.1 * g.normal((3,))) ** 2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return (c[0] + 1, loss), (loss, w.detach())

    def run(wrap: Any) -> Any:
        w.data, w.grad = numbers(3), None
        opt.load_state_dict({"state": {}, "param_groups": opt.state_dict()["param_groups"]})
        g.manual_seed(1)
        compiled = wrap(lambda xs: cr.scan(turn, (cr.tensor(0), cr.tensor(0.0)), xs))
        results = [compiled(numbers(n, 3, seed=n)) for n in (40, 40)]
        moments = [cr.tensor(v) for v in list(opt.state_dict()["state"][0].values())[1:]]
        return results, w.detach(), w.grad, moments, [opt.state_dict()["state"][0]["step"]]

    eager = run(lambda f: f)
    assert len(calls) == 80
    calls.clear()
    assert_same(run(cr.jit), eager)
    assert len(calls) == 2  # once in each call: the list that grows has it traced again


def test_what_a_loop_reads_from_before_it_stays():
    w = cr.tensor([1.0, 2.0])

    def f(x: Any) -> Any:
        old, twice = w.detach(), w * 2

        def turn(c: Any, _: Any) -> Any:
            w.data = w + old + x
            return c + twice, w * 1

        return cr.scan(turn, x * 0, length=20), w * 1

    wanted = f(cr.tensor([0.5, 0.25])), w.detach()
    w.data = cr.tensor([1.0, 2.0])
    assert_same((cr.jit(f)(cr.tensor([0.5, 0.25])), w.detach()), wanted)


def test_turns_that_leave_gradients_to_each_other_are_unrolled():
    def run(wrap: Any, turns: int) -> Any:
        w = numbers(3).requires_grad_()

        def turn(c: Any, x: Any) -> Any:
            (w * x).sum().backward()
            return c, None

        wrap(lambda xs: cr.scan(turn, cr.tensor(0), xs))(numbers(turns, 3, seed=1))
        return w.grad

    assert_same(run(cr.jit, 12), run(lambda f: f, 12))
    with pytest.raises(cr.TraceError, match=r"300 turns are too many.*zero_grad"):
        run(cr.jit, 300)


LONG = numbers(300, 3, seed=1) * 0.1


def rolled(w: Any, xs: Any) -> Any:
    """A number made of all turns, of a carry, ys, what turns read, and whole numbers."""

    def turn(c: Any, x: Any) -> Any:
        h, n = c
        new = cr.tanh(h * w + x)
        return (new, n + 1), (new * n, {"sum": new.sum()})

    (h, n), (ys, more) = cr.scan(turn, (w * 0.5, cr.tensor(0)), xs)
    return (h * h).sum() + (ys[::50] ** 2).sum() * 1e-4 + more["sum"].mean() + n


@pytest.mark.parametrize("turns", [20, 33, 300])
def test_long_ones_have_derivatives(turns: int, backend: str):
    w, xs = numbers(3, seed=4) * 0.3, LONG[:turns]
    first = cr.value_and_grad(rolled, (0, 1))
    f = cr.jit(first)
    assert_same(f(w, xs), first(w, xs))
    if backend == "native":
        assert f.loops().count("while ") == (0 if turns == 20 else 2)
        assert f"< {turns} lanes:\n        " not in f.loops()  # each turn touches one row
    second = cr.grad(lambda w: (cr.grad(rolled)(w, xs) ** 2).sum())
    np.testing.assert_allclose(cr.jit(second)(w).numpy(), second(w).numpy(), rtol=1e-4, atol=1e-6)
    assert_same(cr.jit(lambda w, t: cr.jvp(lambda w: rolled(w, xs), (w,), (t,)))(w, w),
                cr.jvp(lambda w: rolled(w, xs), (w,), (w,)))  # fmt: skip
    many = cr.vmap(cr.grad(rolled), in_axes=(0, None))
    ws = cr.stack([w, w * 2])
    assert_same(cr.jit(many)(ws, xs), cr.stack([cr.grad(rolled)(w, xs) for w in ws]))


def test_parameters_that_a_long_one_reaches_by_itself():
    def run(wrap: Any) -> list[Any]:
        w = (numbers(3, seed=4) * 0.3).requires_grad_()
        opt = optim.SGD([w], lr=0.1)

        def step(xs: Any) -> Any:
            opt.zero_grad()
            loss = rolled(w, xs)
            loss.backward()
            opt.step()
            return loss

        compiled = wrap(step)
        return [compiled(LONG).item() for _ in range(4)]

    np.testing.assert_allclose(run(cr.jit), run(lambda f: f), rtol=1e-5)
    x = numbers(3, seed=4).requires_grad_()
    cr.jit(rolled)(x, LONG).backward()  # differentiated outside
    assert_same(x.grad, cr.grad(rolled)(x.detach(), LONG))


class Doubled(cr.Function):
    """2 x, with a derivative of the user's."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3  # so that it shows whose derivative was taken


def test_turns_that_call_a_function_of_the_users_are_unrolled():
    def f(x: Any) -> Any:
        return cr.scan(lambda c, _: (Doubled.apply(c) * 0.4, None), x, length=40)[0].sum()

    x = numbers(3)
    assert_same(cr.jit(cr.grad(f))(x), cr.grad(f)(x))


def test_one_in_a_turn_of_a_while_loop_is_native(backend: str):
    def f(x: Any, ys: Any) -> Any:
        def body(s: Any) -> Any:
            end, seen = cr.scan(lambda c, y: (c + 0.1 * y, c * y), s["x"], ys)
            return {
                "x": end + 0.01 * seen.sum(),
                "n": s["n"] + cr.scan(lambda c, y: (c + 1, None), s["n"], ys)[0],
            }

        start = {"x": x, "n": cr.tensor(0)}
        return cr.while_loop(lambda s: cr.abs(s["x"]) < 3, body, start, most=30)["x"]

    x, ys = cr.tensor(0.2), cr.abs(numbers(9, seed=7))
    g = cr.jit(cr.value_and_grad(f, (0, 1)))
    assert_same(g(x, ys), cr.value_and_grad(f, (0, 1))(x, ys))
    if backend == "native":
        assert "in its eager form" not in str(g.explain(repeats=1)) and " = eager " not in g.loops()
