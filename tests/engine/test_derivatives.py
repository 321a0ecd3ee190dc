"""backward and what belongs to it: leaves, hooks, freeing, provenance, ops of other forms."""

from __future__ import annotations

import gc
import inspect
import re
import subprocess
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.graph import order
from chainrule.engine.op import Need, Op, Spec
from chainrule.ops.families import Linear
from tests.ops import check

X = np.array([0.7, -1.3, 0.4])


def leaf(x: Any = X) -> cr.Tensor:
    return cr.tensor(x, requires_grad=True)


def here() -> str:
    """`file:line` of the caller."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return f"{__file__}:{frame.f_back.f_lineno}"


# --- Accumulation, keeping and freeing -----------------------------------------------------------


def test_gradients_accumulate_until_they_are_reset():
    x = leaf()
    for times in (1, 2, 3):
        (x * x).sum().backward()
        assert x.grad is not None and np.allclose(x.grad.numpy(), 2 * times * X)
    x.grad = None
    (x * 3.0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3, 3, 3]


def test_micro_batches_add_up_to_the_batch():
    """CASES A3: eight micro-batches of 8, each loss scaled by 1/8, and the batch of 64."""
    rng = np.random.default_rng(3)
    data, target = rng.normal(size=(64, 5)), rng.normal(size=(64, 2))
    small, large = leaf(rng.normal(size=(5, 2))), None
    for i in range(8):
        part = slice(8 * i, 8 * i + 8)
        y = cr.tanh(cr.tensor(data[part]) @ small)
        (cr.mse_loss(y, cr.tensor(target[part])) / 8).backward()
    large = leaf(small.detach().numpy())
    cr.mse_loss(cr.tanh(cr.tensor(data) @ large), cr.tensor(target)).backward()
    assert small.grad is not None and large.grad is not None
    assert np.allclose(small.grad.numpy(), large.grad.numpy(), rtol=1e-13)


def test_an_op_with_one_tensor_twice_and_both_paths():
    x = leaf()
    (x * x + x).sum().backward()
    assert x.grad is not None and np.allclose(x.grad.numpy(), 2 * X + 1)


def test_values_are_freed_by_backward():
    x = leaf()
    y = x * 2.0
    hidden = weakref.ref(y)
    z = (y * y).sum()
    del y
    z.backward()
    gc.collect()
    assert hidden() is None
    nodes = [n for n in order([z.node]) if n.op is not None]
    assert not [n for n in nodes if isinstance(n.y, np.ndarray)]


def test_what_no_rule_reads_is_not_kept():
    a, b = leaf(), leaf()
    kept = (a + b).node
    assert kept is not None and kept.y is None
    assert not [x for x in kept.xs if isinstance(x, np.ndarray)], "add reads nothing"
    exp, mul = cr.exp(a).node, (a * b).node
    assert isinstance(exp.y, np.ndarray) and not isinstance(exp.xs[0], np.ndarray)
    assert mul is not None and mul.y is None and isinstance(mul.xs[0], np.ndarray)


def test_a_second_backward_through_part_of_a_freed_graph():
    x = leaf()
    shared = cr.exp(x)
    (shared * 2.0).sum().backward()
    with pytest.raises(cr.GradientError, match=r"'exp'.*second time"):
        (shared * 3.0).sum().backward()


def test_nothing_to_free_may_be_walked_again():
    x = leaf()
    y = (x * 2.0).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [4, 4, 4]


def test_changing_data_after_the_forward_pass_changes_nothing():
    """The graph keeps what it saw: an assignment gives the tensor another array."""
    x, array = leaf(), X.copy()
    y = (x * x * array).sum()
    x.data = x.data * 10
    array *= 10
    y.backward()
    assert x.grad is not None and np.allclose(x.grad.numpy(), 2 * X * X)


def test_a_parameter_is_changed_in_place_within_no_grad_only():
    """Whoever has a name for it sees the new values; other tensors are never changed."""
    x = leaf()
    (x * x).sum().backward()
    with cr.no_grad():
        for p in [x]:
            p -= 0.5 * p.grad
            p += 1.0
            p *= 2.0
            p /= 4.0
    assert x.requires_grad and x.is_leaf and x.tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(cr.GradientError, match="within no_grad"):
        for p in [x]:
            p -= 0.5 * p.grad
    a = b = cr.tensor(X)
    a += 1.0
    assert b.tolist() == X.tolist() and a.tolist() == (X + 1).tolist()


def test_a_function_may_give_the_name_of_its_argument_to_another_tensor():
    def f(x):
        x -= 1.0
        x *= 3.0
        return (x * x).sum()

    assert np.allclose(cr.grad(f)(X).numpy(), 18 * (X - 1))
    w = leaf()
    assert np.allclose(cr.grad(f)(w).detach().numpy(), 18 * (X - 1)) and w.tolist() == X.tolist()


def test_a_step_by_hand_is_compiled():
    def step(w, x):
        loss = ((w * x) ** 2).sum()
        loss.backward()
        with cr.no_grad():
            w -= 0.1 * w.grad
        w.grad = None
        return loss

    ways = [leaf(), leaf()]
    fast = cr.jit(lambda x: step(ways[1], x))
    for _ in range(3):
        plain = step(ways[0], cr.tensor(X))
        assert np.allclose(fast(cr.tensor(X)).item(), plain.item())
    assert np.allclose(ways[0].detach().numpy(), ways[1].detach().numpy())


def test_what_goes_out_cannot_be_written_to():
    x = leaf()
    y = cr.exp(x)
    for array in (y.detach().numpy(), x.detach().numpy()):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3.0


def test_a_gradient_can_be_given_and_has_the_dtype_of_the_result():
    x = leaf(X.astype(np.float32))
    (x * 2.0).backward(np.array([1.0, 10.0, 100.0]))
    assert x.grad is not None and x.grad.dtype == np.float32 and x.grad.tolist() == [2, 20, 200]


def test_leaves_off_the_path_get_nothing():
    a, b = leaf(), leaf()
    (a * b.detach()).sum().backward()
    assert b.grad is None and a.grad is not None


# --- Hooks ---------------------------------------------------------------------------------------


def test_hooks_run_in_order_and_can_be_removed():
    x = leaf()
    seen: list[str] = []
    first = x.register_hook(lambda g: seen.append("first"))
    x.register_hook(lambda g: seen.append("second") or g * 2)
    x.register_hook(lambda g: seen.append(str(g.tolist()[0])))
    (x * 3.0).sum().backward()
    assert seen == ["first", "second", "6.0"] and x.grad is not None and x.grad.tolist() == [6] * 3
    first.remove()
    first.remove()
    (x * 3.0).sum().backward()
    assert seen[3:] == ["second", "6.0"]


def test_a_hook_on_the_way_changes_what_flows_on():
    x = leaf()
    y = cr.exp(x)
    y.register_hook(lambda g: cr.clip(g, -0.5, 0.5))
    y.retain_grad()
    (y * 4.0).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [0.5] * 3
    assert x.grad is not None and np.allclose(x.grad.numpy(), 0.5 * np.exp(X))


def test_a_hook_cannot_change_the_dtype():
    x = leaf(X.astype(np.float32))
    x.register_hook(lambda g: g.numpy().astype(np.float64) * 2)
    (x * 3.0).sum().backward()
    assert x.grad is not None and x.grad.dtype == np.float32


def test_a_hook_in_a_recorded_pass_is_differentiated():
    x = leaf()
    y = x * x
    y.register_hook(lambda g: g * g)
    (y * 3.0).sum().backward(create_graph=True)
    assert x.grad is not None
    first, x.grad = x.grad, None
    assert np.allclose(first.detach().numpy(), 9 * 2 * X)
    first.sum().backward()
    assert x.grad is not None and x.grad.tolist() == pytest.approx([18] * 3)


# --- Where nodes were made -----------------------------------------------------------------------


def test_a_node_knows_the_users_line():
    x = leaf()
    made, line = cr.exp(x), here()
    assert made.node.where == line
    inner, line = cr.softmax(x), here()
    places = {n.where for n in order([inner.node]) if n.op is not None}
    assert places == {line}, "all ops of a composite are on the line that called it"
    operator, line = x * 2, here()
    method, method_line = x.sum(), here()
    assert (operator.node.where, method.node.where) == (line, method_line)


def test_lines_of_one_expression_are_told_apart():
    x = leaf()
    y = cr.exp(
        cr.sin(x)
        + cr.cos(
            x,
        )
    )
    lines = {n.name: n.line for n in order([y.node]) if n.op is not None}
    first = inspect.getsourcelines(test_lines_of_one_expression_are_told_apart)[1]
    assert lines == {"exp": first + 2, "sin": first + 3, "add": first + 3, "cos": first + 4}


def test_gradients_that_are_recorded_point_to_the_backward_line():
    x = leaf()
    loss = cr.exp(x).sum()
    loss.backward(create_graph=True)
    line = here().rpartition(":")[2]
    assert x.grad is not None and x.grad.node is not None
    assert x.grad.node.where == f"{__file__}:{int(line) - 1}"


# --- Ops of other forms --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Polar(Op):
    """(r, phi) -> (r cos phi, r sin phi): two results; states what `states` says."""

    states: str
    many = True

    @property
    def name(self) -> str:
        return "polar"

    @property
    def states_vjp(self) -> bool:  # type: ignore[override]
        return self.states != "jvp"

    @property
    def states_jvp(self) -> bool:  # type: ignore[override]
        return self.states != "vjp"

    def eval(self, *xs: Any) -> Any:
        r, phi = xs
        return r * np.cos(phi), r * np.sin(phi)

    def spec(self, *xs: Any) -> Any:
        return xs[0], xs[1]

    def reads(self, i: int) -> tuple[int, ...]:
        return (1, 2)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        (r, phi), (gx, gy) = xs, [0.0 if c is None else c for c in g]
        return gx * cr.cos(phi) + gy * cr.sin(phi), r * (gy * cr.cos(phi) - gx * cr.sin(phi))

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        (r, phi), (tr, tp) = xs, [0.0 if t is None else t for t in ts]
        c, s = cr.cos(phi), cr.sin(phi)
        return tr * c - r * s * tp, tr * s + r * c * tp


R, PHI = np.array([1.3, 0.6]), np.array([0.4, 2.1])


@pytest.mark.parametrize("states", ["both", "vjp", "jvp"])
@pytest.mark.parametrize("used", [(0, 1), (0,), (1,)], ids=str)
@pytest.mark.parametrize("checker", [check.differences, check.adjoint, check.second_order])
def test_an_op_with_several_results(states: str, used: tuple[int, ...], checker: Any):
    op = Polar(states)
    checker(lambda r, phi: tuple(op(r, phi)[i] for i in used), (R, PHI))


@pytest.mark.parametrize("states", ["both", "vjp", "jvp"])
def test_an_op_with_several_results_and_one_argument_that_is_constant(states: str):
    check.differences(lambda r: Polar(states)(r, PHI), (R,))
    check.adjoint(lambda phi: Polar(states)(R, phi), (PHI,))


def test_several_results_used_several_times():
    op, r = Polar("both"), leaf(R)
    x, y = op(r, PHI)
    (x * x + y * y + x * y).sum().backward()
    want = 2 * R * (1 + np.cos(PHI) * np.sin(PHI))
    assert r.grad is not None and np.allclose(r.grad.numpy(), want)


@dataclass(frozen=True, eq=False)
class Cube(Op):
    """x**3 by one rule only, which reads nothing but the input."""

    states: str

    @property
    def name(self) -> str:
        return "cube"

    @property
    def states_vjp(self) -> bool:  # type: ignore[override]
        return self.states == "vjp"

    @property
    def states_jvp(self) -> bool:  # type: ignore[override]
        return self.states == "jvp"

    def eval(self, *xs: Any) -> Any:
        return xs[0] ** 3

    def spec(self, *xs: Any) -> Spec:
        return xs[0]

    def reads(self, i: int) -> tuple[int, ...]:
        return (1,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        return (g * 3 * xs[0] * xs[0],)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        assert y.shape == xs[0].shape, "the shape of y is known although it is not read"
        return ts[0] * 3 * xs[0] * xs[0]


@pytest.mark.parametrize("states", ["vjp", "jvp"])
@pytest.mark.parametrize("checker", [check.differences, check.adjoint, check.second_order])
def test_an_op_with_one_rule(states: str, checker: Any):
    checker(Cube(states), (X,))


@pytest.mark.parametrize("states", ["vjp", "jvp"])
def test_third_derivatives_of_an_op_with_one_rule(states: str):
    f: Any = Cube(states)
    for _ in range(3):
        f = cr.grad(f)
    assert f(np.float64(0.7)).item() == pytest.approx(6)
    assert cr.hessian(lambda x: Cube(states)(x).sum())(X).numpy().diagonal() == pytest.approx(6 * X)


def test_equal_ops_are_one_object_and_different_fields_are_not():
    assert Cube("vjp") is Cube("vjp") and Cube("vjp") is not Cube("jvp")
    assert issubclass(type(cr.reshape(leaf(), (3, 1)).node.op), Linear)


# --- Long graphs ---------------------------------------------------------------------------------

CHAIN = """
import chainrule as cr, numpy as np, sys
sys.setrecursionlimit(200)
x = cr.tensor(np.float64(0.5), requires_grad=True)
y = x
for _ in range({n}):
    y = y + x * 1e-5 if {dense} else -y
y.backward(retain_graph=True)
want = 1 + {n} * 1e-5 if {dense} else (-1.0) ** {n}
assert abs(x.grad.item() - want) < 1e-9, x.grad
def f(v):
    y = v
    for _ in range({n} // 10):
        y = y * 1.0001
    return y
assert abs(cr.jvp(f, (1.0,), (1.0,))[1].item() / 1.0001 ** ({n} // 10) - 1) < 1e-2
y.backward()
del y, x
print("freed")
"""


@pytest.mark.parametrize("dense", [True, False])
def test_a_chain_of_100_000_ops_needs_no_recursion(dense: bool):
    """Forward, backward, forward mode and deallocation, with a recursion limit of 200."""
    code = CHAIN.format(n=100_000, dense=dense)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "freed"), done.stderr


def test_a_wide_graph_is_walked_once():
    """2**60 paths through 60 nodes."""
    x = leaf(np.float64(1.0))
    y = x
    for _ in range(60):
        y = (y + y) * 0.5
    y.backward()
    assert x.grad is not None and x.grad.item() == 1


def test_the_walk_is_the_same_in_every_run():
    x, w = leaf(), leaf()
    y = (cr.sin(x) * w + cr.exp(w) * x).sum()
    names = [n.name for n in order([y.node])]
    assert names == [n.name for n in order([y.node])]
    assert names[0] == "sum" and names[1] == "add" and names.count("leaf") == 2


# --- Tensors -------------------------------------------------------------------------------------


def test_repr_says_value_dtype_and_what_made_it():
    assert repr(cr.tensor([1.0, 2.5])) == "tensor([1. , 2.5], dtype=float32)"
    assert repr(leaf([1.0])) == "tensor([1.], dtype=float32, requires_grad=True)"
    assert re.fullmatch(
        r"tensor\(\[2.718\d*\], dtype=float32, made by exp\)", repr(cr.exp(leaf([1.0])))
    )


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "**", "//", "%"])
@pytest.mark.parametrize("left", [1.7, 2, np.float32(1.7), np.array([1.7, 2.1, 3.3], np.float32)])
def test_operators_both_ways_keep_the_dtype(op: str, left: Any):
    values = np.array([1.2, 2.7, 3.4], np.float32)
    t = leaf(values)
    for code in (f"left {op} t", f"t {op} left"):
        got = eval(code, {"left": left, "t": t})
        want = eval(code, {"left": left, "t": values})
        assert isinstance(got, cr.Tensor) and got.dtype == np.float32
        assert np.allclose(got.detach().numpy(), want, rtol=3e-7)
        got.sum().backward()
    assert t.grad is not None and t.grad.dtype == np.float32


def test_default_dtypes():
    assert cr.tensor(1.5).dtype == np.float32 and cr.tensor([1]).dtype == np.int64
    assert cr.tensor(True).dtype == bool and cr.tensor(X).dtype == np.float64
    assert cr.tensor(np.float16(1)).dtype == np.float16 and (leaf() * 2.0).dtype == np.float64


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("used", [[0], [2, 0], [1, 1, 2]])
def test_slices_that_are_one_op_are_those_of_indexing(axis: int, used: list[int]):
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    v = np.random.default_rng(1).normal(size=x.shape)

    def of(slices: Any) -> Any:
        return lambda x: sum(
            ((i + 1) * slices(x)[i] ** 3 * (slices(x)[used[0]] + n)).sum()
            for n, i in enumerate(used)
        )

    plain = of(lambda x: [cr.moveaxis(x, axis, 0)[i] for i in range(x.shape[axis])])
    ours = of(lambda x: cr.unstack(x, axis=axis))
    for f in (cr.grad, lambda f: lambda x: cr.hvp(f, (x,), (v,)), lambda f: cr.jit(cr.grad(f))):
        a, b = f(ours)(x), f(plain)(x)
        a, b = [y[0] if isinstance(y, tuple) else y for y in (a, b)]
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)
    pushed = [cr.jvp(f, (x,), (v,))[1].detach().numpy() for f in (ours, plain)]
    np.testing.assert_allclose(*pushed, rtol=1e-12)
    y = cr.unstack(cr.tensor(x, requires_grad=True), axis=axis)[0]
    assert y.node is not None and y.node.inputs[0].name == "unstack"
