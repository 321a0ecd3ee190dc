"""`while_loop`: eager and compiled agree, also differentiated, nested and for many examples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import chainrule as cr
from chainrule.ops.linalg.base import MatrixError
from tests.compile.trace.backends import backend as backend
from tests.compile.trace.test_jit import Square, assert_same, numbers
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


class Orbit(NamedTuple):
    place: Any
    speed: Any


def collatz(n: Any) -> Any:
    """How many steps a whole number takes to 1."""
    first = {"n": n, "count": cr.zeros_like(n)}

    def body(s: Any) -> Any:
        n = s["n"]
        return {"n": cr.where(n % 2 == 0, n // 2, 3 * n + 1), "count": s["count"] + 1}

    return cr.while_loop(lambda s: s["n"] != 1, body, first)["count"]


def root(a: Any) -> Any:
    """The square root by Newton's method."""

    def body(s: Any) -> Any:
        x, _ = s
        return (x + a / x) / 2, x

    return cr.while_loop(lambda s: cr.abs(s[0] - s[1]) > 1e-6, body, (a, a + 1))[0]


def falling(w: Any) -> Any:
    """A place and speed whose forces are a gradient, until it is below the floor."""

    def energy(x: Any) -> Any:
        return w * cr.sum(x**4) + x[1]

    def body(s: Orbit) -> Orbit:
        return Orbit(s.place + 0.1 * s.speed, s.speed - 0.1 * cr.grad(energy)(s.place))

    start = Orbit(cr.tensor([0.5, 1.0]), cr.tensor([1.0, 0.0]))
    end = cr.while_loop(lambda s: s.place[1] > 0, body, start)
    return cr.sum(end.place * end.speed)


def test_values():
    assert [collatz(cr.tensor(n)).item() for n in (1, 2, 7, 27)] == [0, 1, 16, 111]
    f = cr.jit(collatz)
    assert [f(cr.tensor(n)).item() for n in (1, 2, 7, 27)] == [0, 1, 16, 111]
    assert f.traces == 1
    for g in (root, falling):
        a = cr.tensor(3.0)
        assert_same(cr.jit(g)(a), g(a))


def test_what_is_the_same_in_each_turn_is_computed_before(backend: str):
    def inner(w: Any, x: Any) -> Any:
        return cr.while_loop(lambda s: cr.sum(s) < 9, lambda s: cr.exp(s @ w.T), x)

    def outer(w: Any, x: Any) -> Any:
        step = lambda s: (s[0] + 1, inner(cr.cumsum(w, axis=0), s[1] * 0.1) @ w.T)
        return cr.while_loop(lambda s: s[0] < 4, step, (cr.tensor(0), x))[1]

    w, x = numbers(5, 5) * 0.1, numbers(5, 5)
    f = cr.jit(outer)
    assert_same(f(w, x), outer(w, x))
    assert_same(f(w, x + 90), outer(w, x + 90))  # without a turn of the inner loop
    if backend == "native":
        before, _, rest = f.loops().partition("  while ")
        assert before.count("_pack(") == 2 and "cumulative_sum(" in before
        assert "_pack(" not in rest and "cumulative_sum(" not in rest


def test_a_failure_of_what_is_the_same_in_each_turn():
    def f(a: Any, x: Any) -> Any:
        step = lambda s: (s[0] + 1, s[1] + cr.linalg.cholesky(a))
        return cr.while_loop(lambda s: s[0] < 3, step, (cr.tensor(0), x))[1]

    g, a, x = cr.jit(f), 4 * cr.eye(3), cr.zeros((3, 3))
    assert_same(g(a, x), 6 * cr.eye(3))
    for call in (f, g):
        with pytest.raises(MatrixError, match="not positive definite"):
            call(-a, x)


def test_it_is_one_native_loop(backend: str):
    calls: list[int] = []

    def count(x: Any) -> Any:
        def body(s: Any) -> Any:
            calls.append(1)
            return s + 1

        return cr.while_loop(lambda s: cr.sum(s) < 1e5, body, x)

    f = cr.jit(count)
    f(cr.tensor([0.0, 1.0]))
    calls.clear()
    assert f(cr.tensor([0.5, 1.0])).tolist() == [50000.5, 50001.0]
    assert not calls
    if backend == "values":
        return
    loops = f.loops()
    assert loops.count("while ") == 1
    assert "eager" not in loops
    assert "while_loop runs as long as values say" in str(f.explain(repeats=1))


@pytest.mark.parametrize("f", [root, falling])
def test_forward_mode(f: Any):
    a, t = cr.tensor(3.0), cr.tensor(1.0)
    wanted = cr.grad(f)(a)  # eager: by the tape
    assert_same(cr.jvp(f, (a,), (t,))[1], wanted)
    got = cr.jit(lambda a, t: cr.jvp(f, (a,), (t,)))(a, t)
    assert_same(got, (f(a), wanted))
    assert_same(cr.jit(cr.jacobian(f, mode="forward"))(a), wanted)
    second = cr.jacobian(cr.jacobian(f, mode="forward"), mode="forward")
    assert_same(cr.jit(second)(a), cr.grad(cr.grad(f))(a))


def test_value_and_tangent_are_one_loop(backend: str):
    f = cr.jit(lambda a, t: cr.jvp(root, (a,), (t,)))
    f(cr.tensor(2.0), cr.tensor(1.0))
    assert backend == "values" or f.loops().count("while ") == 1


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_what_a_jacobian_is_given_besides(mode: str):
    def f(x: Any) -> Any:
        return x**2, {"sum": cr.sum(x), "same": x}

    x = cr.tensor([1.0, 3.0])
    for wrap in (cr.jit, lambda g: g):
        slopes, aux = wrap(cr.jacobian(f, mode=mode, has_aux=True))(x)
        assert slopes.tolist() == [[2.0, 0.0], [0.0, 6.0]]
        assert (aux["sum"].item(), aux["same"].tolist()) == (4.0, [1.0, 3.0])
        assert not aux["same"].requires_grad
    value, slope = cr.value_and_grad(root)(cr.tensor(3.0))
    both = cr.jacobian(lambda a: (root(a),) * 2, mode="forward", has_aux=True)
    assert_same(cr.jit(both)(cr.tensor(3.0)), (slope, value))


def test_a_tangent_that_comes_in_through_what_is_read():
    def f(a: Any, b: Any) -> Any:
        start = {"s": cr.tensor([1.0, 2.0]), "n": cr.tensor(0)}

        def body(s: Any) -> Any:
            return {"s": s["s"] * b + cr.sin(a), "n": s["n"] + 1}

        return cr.while_loop(lambda s: s["n"] < 5, body, start)["s"]

    a, b = numbers(2), cr.tensor(0.7)
    wanted = cr.jacobian(f, (0, 1), mode="reverse")(a, b)
    assert_same(cr.jit(cr.jacobian(f, (0, 1), mode="forward"))(a, b), wanted)


def test_a_function_of_the_users_is_computed_but_not_differentiated():
    def f(x: Any) -> Any:
        return cr.while_loop(lambda s: s < 100, lambda s: Square.apply(s) + 1, x, most=9)

    x, t = cr.tensor(2.0), cr.tensor(1.0)
    assert_same(cr.jit(f)(x), f(x))
    with pytest.raises(cr.TraceError, match=r"calls a Function.*Write the turn with ops"):
        cr.jit(lambda x, t: cr.jvp(f, (x,), (t,)))(x, t)
    with pytest.raises(cr.TraceError, match="calls a Function"):
        cr.jit(cr.grad(f))(x)


def test_detach_and_no_grad_in_a_turn_cut():
    def f(a: Any) -> Any:
        def body(s: Any) -> Any:
            with cr.no_grad():
                still = s[0] * a
            return s[0] * a + (a * a).detach() + still, s[1] + 1

        return cr.while_loop(lambda s: s[1] < 4, body, (cr.tensor(1.0), cr.tensor(0)))[0]

    a, t = cr.tensor(0.9), cr.tensor(1.0)
    got = cr.jit(lambda a, t: cr.jvp(f, (a,), (t,)))(a, t)
    assert_same(got, cr.jvp(f, (a,), (t,)))
    assert_same(got[1], cr.grad(f)(a))


def test_reverse_mode_is_refused_where_it_is_compiled():
    with pytest.raises(
        cr.TraceError, match=r"while_loop: reverse mode .*most=n.* scan .* forward mode"
    ):
        cr.jit(cr.grad(root))(cr.tensor(2.0))
    with pytest.raises(cr.TraceError, match=r"while_loop: reverse mode"):
        cr.jit(root)(cr.tensor(2.0, requires_grad=True))
    x = cr.tensor(2.0, requires_grad=True)
    root(x).backward()
    assert x.grad.item() == pytest.approx(0.5 / np.sqrt(2), rel=1e-5)
    assert_same(cr.jit(lambda a: root(a).detach())(x), root(x).detach())


@pytest.mark.parametrize("f", [root, falling])
def test_reverse_mode_with_a_bound(f: Any, monkeypatch: pytest.MonkeyPatch):
    a = cr.tensor(3.0)
    wanted = f(a), cr.grad(f)(a)
    slope = cr.jacobian(cr.grad(f))(a)
    bounded(monkeypatch, 50)
    assert_same(cr.jit(cr.value_and_grad(f))(a), wanted)
    assert_same(cr.jit(cr.jacobian(cr.grad(f), mode="forward"))(a), slope)
    assert_same(cr.jit(cr.grad(lambda a: cr.jvp(f, (a,), (cr.tensor(1.0),))[1]))(a), slope)
    x = cr.tensor(3.0, requires_grad=True)
    cr.jit(f)(x).backward()
    assert_same(x.grad, wanted[1])


@pytest.mark.parametrize("f", [root, falling])
def test_reverse_mode_of_reverse_mode(f: Any, monkeypatch: pytest.MonkeyPatch):
    a = cr.tensor(3.0)
    second, third = cr.grad(cr.grad(f)), cr.grad(cr.grad(cr.grad(f)))
    wanted = second(a), third(a)
    bounded(monkeypatch, 50)
    assert_same(cr.jit(second)(a), wanted[0])
    np.testing.assert_allclose(cr.jit(third)(a).numpy(), wanted[1].numpy(), rtol=1e-4)
    x = cr.tensor(3.0, requires_grad=True)
    cr.jit(cr.grad(f))(x).backward()
    assert_same(x.grad, wanted[0])


def bounded(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Every loop of the functions above says how many turns it has at most."""
    free = cr.while_loop
    monkeypatch.setattr(cr, "while_loop", lambda *args: free(*args, most=most))


def test_reverse_mode_through_what_a_turn_reads():
    def f(a: Any, b: Any, s: Any) -> Any:
        def body(s: Any) -> Any:
            x, n = s
            return cr.tanh(x @ a + b), n + 1

        x, _ = cr.while_loop(lambda s: cr.sum(s[0] * s[0]) < 3, body, (s, cr.tensor(0)), most=9)
        return cr.sum(x**3)

    args = numbers(3, 3), numbers(3, seed=1), numbers(2, 3, seed=2) * 0.1
    assert_same(cr.jit(cr.grad(f, (0, 1, 2)))(*args), cr.grad(f, (0, 1, 2))(*args))
    rows = cr.stack([args[2], args[2] * 0.5])
    many = cr.vmap(cr.grad(f, (0, 1, 2)), in_axes=(None, None, 0))
    each = [cr.grad(f, (0, 1, 2))(*args[:2], row) for row in rows]
    assert_same(cr.jit(many)(*args[:2], rows), tuple(map(cr.stack, zip(*each, strict=True))))


def test_second_derivatives_through_what_a_turn_reads():
    def f(a: Any, b: Any, s: Any) -> Any:
        def body(s: Any) -> Any:
            x, n = s
            return cr.tanh(x @ a + b), n + 1

        x, _ = cr.while_loop(lambda s: cr.sum(s[0] * s[0]) < 3, body, (s, cr.tensor(0)), most=9)
        return cr.sum(x**3)

    def push(a: Any, b: Any, s: Any) -> Any:
        first = cr.grad(f, (0, 1, 2))(a, b, s)
        return sum([cr.sum(g * g) for g in first], cr.tensor(0.0))

    args = numbers(3, 3), numbers(3, seed=1), numbers(2, 3, seed=2) * 0.1
    every = cr.grad(push, (0, 1, 2))
    for found, wanted in zip(cr.jit(every)(*args), every(*args), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=2e-4, atol=1e-5)


def test_second_derivatives_of_examples_with_as_many_turns():
    def f(x: Any) -> Any:
        start = {"x": x, "n": cr.tensor(0)}
        body = lambda s: {"x": cr.sin(s["x"]) * 1.5, "n": s["n"] + 1}
        return cr.while_loop(lambda s: s["n"] < 4, body, start, most=6)["x"]

    xs = numbers(5)
    second = cr.grad(cr.grad(f))
    assert_same(cr.jit(cr.vmap(second))(xs), cr.stack([second(x) for x in xs]))


def test_second_derivatives_of_examples_that_stop_apart(monkeypatch: pytest.MonkeyPatch):
    a = cr.tensor(np.geomspace(0.1, 10, 6).astype(np.float32))
    second = cr.grad(cr.grad(root))
    wanted = cr.stack([second(x) for x in a])
    bounded(monkeypatch, 50)
    assert_same(cr.jit(cr.vmap(second))(a), wanted)


def test_a_parameter_whose_gradient_was_reset_before():
    def losses(wrap: Any) -> list[float]:
        w = (numbers(3) * 0.5).requires_grad_()

        def step() -> Any:
            w.grad = None
            body = lambda s: (s[0] * 0.9 + w, s[1] + 1)
            loss = cr.sum(
                cr.while_loop(lambda s: s[1] < 4, body, (w * 1, cr.tensor(0)), most=6)[0] ** 2
            )
            loss.backward()
            w.data = w - 0.01 * w.grad
            return loss

        run = wrap(step)
        return [run().item() for _ in range(3)]

    np.testing.assert_allclose(losses(cr.jit), losses(lambda f: f), rtol=1e-5)


def test_going_back_twice_adds_to_tapes_in_place(backend: str, monkeypatch: pytest.MonkeyPatch):
    bounded(monkeypatch, 1000)
    f = cr.jit(cr.grad(cr.grad(root)))
    f(cr.tensor(2.0))
    if backend == "native":
        loops = f.loops()
        assert loops.count("while ") == 4
        inside = "\n".join([line for line in loops.splitlines() if line.startswith("    ")])
        assert "keep" in inside and "scatter_add" in inside
        assert "< 1000" not in inside


def test_gradients_of_many_examples(backend: str, monkeypatch: pytest.MonkeyPatch):
    a = cr.tensor(np.geomspace(0.01, 100, 12).astype(np.float32))
    wanted = cr.stack([cr.grad(root)(x) for x in a]), cr.stack([cr.grad(falling)(x) for x in a])
    bounded(monkeypatch, 50)
    both = cr.jit(lambda a: (cr.vmap(cr.grad(root))(a), cr.vmap(cr.grad(falling))(a)))
    assert_same(both(a), wanted)
    if backend == "native":  # not one example after the other
        assert len(both.loops(a).splitlines()) == len(both.loops(a[:3]).splitlines())


def test_most_ends_the_loop():
    def f(x: Any, most: int) -> Any:
        return cr.while_loop(lambda s: s < 1000, lambda s: s * 2, x, most=most)

    for most, end in ((0, 1.0), (3, 8.0), (50, 1024.0)):
        assert f(cr.tensor(1.0), most).item() == end
        assert cr.jit(f)(cr.tensor(1.0), most).item() == end
    with pytest.raises(cr.ConfigError, match="most=-1"):
        f(cr.tensor(1.0), -1)


def test_going_back_rereads_a_tape_that_each_turn_adds_to_in_place(
    backend: str, monkeypatch: pytest.MonkeyPatch
):
    bounded(monkeypatch, 1000)
    f = cr.jit(cr.value_and_grad(root))
    f(cr.tensor(2.0))
    if backend == "values":
        return
    loops = f.loops()
    assert loops.count("while ") == 2  # there, keeping what it finds, and back
    there = loops[loops.index("while ") :]
    there = there[: there.index("while ", 1)]
    assert "keep" in there
    assert "< 1000" not in there


def test_vmap():
    a = cr.tensor([1.0, 2.0, 50.0, 0.01])
    wanted = cr.stack([root(x) for x in a])
    assert_same(cr.jit(cr.vmap(root))(a), wanted)
    n = cr.tensor([7, 1, 27])
    assert cr.jit(cr.vmap(collatz))(n).tolist() == [16, 0, 111]
    slopes = cr.stack([cr.grad(root)(x) for x in a])
    forward = cr.vmap(lambda a: cr.jvp(root, (a,), (cr.tensor(1.0),))[1])
    assert_same(cr.jit(forward)(a), slopes)
    with pytest.raises(cr.TraceError, match=r"jit\(vmap\(f\)\)"):
        cr.vmap(root)(a)


def test_vmap_of_what_a_turn_reads():
    def f(a: Any, n: Any) -> Any:
        def body(s: Any) -> Any:
            return s[0] * a + n, s[1] + 1

        return cr.while_loop(lambda s: s[1] < 3, body, (cr.ones(2), cr.tensor(0)))

    a = numbers(4, 2)
    got = cr.jit(cr.vmap(f, in_axes=(0, None)))(a, cr.tensor(0.5))
    each = [f(row, cr.tensor(0.5)) for row in a]
    assert_same(got, (cr.stack([e[0] for e in each]), cr.stack([e[1] for e in each])))


def nested(a: Any) -> Any:
    """Roots, of a growing number, added up until they are enough."""

    def body(s: Any) -> Any:
        return s[0] + root(s[1] * a), s[1] * 1.5

    return cr.while_loop(lambda s: s[0] < 20, body, (cr.tensor(0.0), a))[0]


def test_in_each_other(backend: str):
    a = cr.tensor(2.0)
    assert_same(cr.jit(nested)(a), nested(a))
    assert_same(cr.jit(cr.jacobian(nested, mode="forward"))(a), cr.grad(nested)(a))
    f = cr.jit(nested)
    f(a)
    assert backend == "values" or f.loops().count("while ") == 2
    many = cr.tensor([2.0, 0.5, 3.0])
    assert_same(cr.jit(cr.vmap(nested))(many), cr.stack([nested(x) for x in many]))


def test_in_a_scan_and_the_other_way_round():
    def roots(xs: Any) -> Any:
        return cr.scan(lambda c, x: (c + root(x), root(x)), cr.tensor(0.0), xs)

    xs = cr.tensor(np.arange(1, 9, dtype=np.float32))
    assert_same(cr.jit(roots)(xs), roots(xs))

    def sums(x: Any) -> Any:
        def body(s: Any) -> Any:
            return cr.scan(lambda c, y: (c + 0.1 * y, None), s, xs)[0]

        return cr.while_loop(lambda s: s < 100, body, x)

    assert_same(cr.jit(sums)(cr.tensor(0.0)), sums(cr.tensor(0.0)))


def test_no_turn_at_all_and_state_that_stays():
    f = cr.jit(lambda x, k: cr.while_loop(lambda s: s[0] < k, lambda s: (s[0] + 1, s[1]), (x, k)))
    assert [t.item() for t in f(cr.tensor(5), cr.tensor(3))] == [5, 3]
    assert [t.item() for t in f(cr.tensor(0), cr.tensor(3))] == [3, 3]


def test_what_turns_only_write_is_there_without_a_turn():
    """Numbers that are few live on the stack while the loop runs: they come and go with it."""

    def f(x: Any, limit: Any) -> Any:
        def body(s: Any) -> Any:
            return s[0] + 1, cr.sin(s[0]) * cr.ones((2, 3))

        return cr.while_loop(lambda s: s[0] < limit, body, (x, cr.ones((2, 3)) * x), most=4)

    g = cr.jit(f)
    slope = cr.jit(cr.grad(lambda x, limit: cr.sum(f(x, limit)[1]) * f(x, limit)[0]))
    for limit in (0.0, 1.5, 2.0, 9.0):
        given = cr.tensor(1.0), cr.tensor(limit)
        assert_same(g(*given), f(*given))
        wanted = cr.grad(lambda x, limit: cr.sum(f(x, limit)[1]) * f(x, limit)[0])(*given)
        assert_same(slope(*given), wanted)


def test_python_numbers_in_the_state():
    def f(x: Any) -> Any:
        return cr.while_loop(lambda s: s[0] < 10, lambda s: (s[0] * 2.0, s[1] + 1), (x, 0))

    assert_same(cr.jit(f)(1.5), f(1.5))


def test_dtypes_and_large_states():
    def f(x: Any) -> Any:
        def body(s: Any) -> Any:
            return cr.tanh(s[0] @ s[0] + x), s[1] * np.float16(0.5)

        return cr.while_loop(lambda s: s[1] > 0.01, body, (x, cr.tensor(1.0, dtype=np.float16)))

    x = numbers(40, 40) * 0.05
    assert_same(cr.jit(f)(x), f(x))


def test_what_has_no_loops_runs_eagerly_turn_by_turn(backend: str):
    def f(x: Any) -> Any:
        def body(s: Any) -> Any:
            y = cr.special.polygamma(7, s[1] + 9)
            return s[0] / 2 + cr.sum(y) * 0.01, y * 0.5

        return cr.while_loop(lambda s: s[0] > 1, body, (x, cr.tensor([[0.3, 0.1], [0.2, 0.9]])))[0]

    g = cr.jit(f)
    assert_same(g(cr.tensor(9.0)), f(cr.tensor(9.0)))
    assert backend == "values" or "eager" in g.loops()


@pytest.mark.parametrize("wrap", [cr.jit, lambda f: f])
def test_what_it_refuses(wrap: Any):
    x = cr.tensor([1.0, 2.0])

    def loop(cond: Any, body: Any, state: Any = None) -> Any:
        given = {"x": x, "n": (cr.tensor(0),)} if state is None else state
        return wrap(lambda s: cr.while_loop(cond, body, s))(given)

    def go(s: Any) -> Any:
        return s["n"][0] < 2

    with pytest.raises(cr.ShapeError, match=r"state\['x'\] was float32 \(2,\), and is .*\(4,\)"):
        loop(go, lambda s: {"x": cr.concat([s["x"], s["x"]]), "n": s["n"]})
    with pytest.raises(cr.DtypeError, match=r"state\['n'\]\[0\] was int64 \(\), and is float"):
        loop(go, lambda s: {"x": s["x"], "n": (s["n"][0] + 1.0,)})
    with pytest.raises(cr.ShapeError, match=r"the state was dict\(.*\), and is list"):
        loop(go, lambda s: [s["x"], s["n"]])
    with pytest.raises(cr.ShapeError, match=r"one bool, not .*bool \(2,\).*any"):
        loop(lambda s: s["x"] < 3, lambda s: s)
    with pytest.raises(cr.DtypeError, match=r"one bool, not .*int64 \(\)"):
        loop(lambda s: s["n"][0], lambda s: s)


def test_what_it_refuses_compiled():
    g, w = cr.Generator(0), cr.tensor([1.0])
    x = cr.tensor(1.0)

    def draws(x: Any) -> Any:
        return cr.while_loop(lambda s: s < 3, lambda s: s + g.uniform(()), x)

    def writes(x: Any) -> Any:
        def body(s: Any) -> Any:
            w.data = w + 1
            return s + 1

        return cr.while_loop(lambda s: s < 3, body, x)

    with pytest.raises(cr.TraceError, match="draws random numbers"):
        cr.jit(draws)(x)
    with pytest.raises(cr.TraceError, match="changes float32"):
        cr.jit(writes)(x)
    assert w.tolist() == [1.0]


def test_a_dynamic_size(backend: str):
    if backend == "values":  # it knows no symbols
        return

    def f(x: Any) -> Any:
        return cr.while_loop(lambda s: cr.sum(s) < 100, lambda s: s * 2 + 1, x)

    g = cr.jit(f, dynamic={"x": {0: "n"}})
    for n in (3, 5, 8):
        assert_same(g(numbers(n) + 3), f(numbers(n) + 3))
    assert g.traces == 1
