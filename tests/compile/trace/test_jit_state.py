"""`jit` and what a function reaches by itself: found, read anew, updated, put back."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from tests.compile.trace.backends import backend as backend
from tests.compile.trace.test_jit import assert_same, numbers


def parameter(*shape: int, seed: int = 0) -> cr.Tensor:
    return numbers(*shape, seed=seed).requires_grad_()


def test_values_are_read_anew_at_every_call():
    w = numbers(3)
    f = cr.jit(lambda x: x * w)
    x = numbers(3, seed=1)
    for seed in (2, 3):
        w.data = numbers(3, seed=seed)
        assert_same(f(x), x * w)
    assert f.traces == 1


def test_assigned_values_are_state():
    t, u = numbers(3), numbers(2, 3)

    def f(x: Any) -> Any:
        t.data = t * 2 + x
        u[0] = t
        u[1, 2] = 7.0
        return t - x

    a, b = t.copy(), u.copy()
    compiled = cr.jit(f)
    x = numbers(3, seed=1)
    wanted: Any = []
    for _ in range(3):
        wanted.append(f(x))
    after = t.copy(), u.copy()
    t.data, u.data = a, b
    assert_same([compiled(x) for _ in range(3)], wanted)
    assert_same((t, u), after)
    assert compiled.traces == 1


def test_one_tensor_may_be_updated_from_another_and_both_ways():
    a, b = numbers(3), numbers(3, seed=1)

    @cr.jit
    def swap() -> None:
        a.data, b.data = b.detach(), a.detach()

    before = a.tolist(), b.tolist()
    swap()
    assert (b.tolist(), a.tolist()) == before
    swap()
    assert (a.tolist(), b.tolist()) == before


def test_who_kept_an_array_never_sees_it_change():
    w = numbers(4)

    @cr.jit
    def step() -> None:
        w.data = w + 1

    step()
    view, snapshot, graph = w.numpy(), w.detach(), w * cr.tensor(1.0, requires_grad=True)
    before = view.tolist()
    step()
    assert view.tolist() == snapshot.tolist() == graph.detach().tolist() == before
    assert w.tolist() == [v + 1 for v in before]
    del view, snapshot, graph
    array = id(w.value)
    step()
    assert id(w.value) == array, "nobody else has it: it is written in place"


def test_two_tensors_of_one_array_part_when_one_is_updated():
    a = numbers(3)
    b = a.detach()
    before = b.tolist()
    cr.jit(lambda: setattr(a, "data", a * 2))()
    assert b.tolist() == before
    assert a.tolist() == [2 * v for v in before]


def test_arrays_of_any_layout():
    w = numbers(3, 4)
    w.data = cr.tensor(np.asfortranarray(w.numpy()))
    v = numbers(4, 3).mT

    @cr.jit
    def f() -> Any:
        w.data = w + v
        return w * 1

    wanted = w + v
    assert_same(f(), wanted)
    assert_same(w, wanted)


def test_a_changed_argument_is_changed_as_in_eager_code():
    def f(x: Any, a: Any) -> Any:
        x[0] = 5.0
        a[1] = a[0] * 2
        return x * 1

    compiled = cr.jit(f)
    for _ in range(2):
        x, a = numbers(3), np.array([1.0, 2.0], np.float32)
        kept = x.detach()
        y = compiled(x, a)
        assert x.tolist()[0] == 5.0
        assert a.tolist() == [1.0, 2.0 * 1]
        assert kept.tolist()[0] != 5.0
        assert_same(y, x)


class Counted(nn.Module):
    """Batch norm whose running statistics are buffers, dropout, and a count of the calls."""

    def __init__(self) -> None:
        self.weight = parameter(4)
        self.mean, self.var = cr.zeros(4), cr.ones(4)
        self.calls = cr.tensor(0)
        self.drop = nn.Dropout(0.5, generator=cr.Generator(1))

    def forward(self, x: Any) -> Any:
        out = nn.functional.batch_norm(x, self.mean, self.var, self.weight, training=self.training)
        self.mean.data, self.var.data = out.running_mean, out.running_var
        self.calls.data = self.calls + 1
        return self.drop(out.y)


def test_buffers_and_the_mode_of_modules():
    eager, mine = Counted(), Counted()
    compiled = cr.jit(mine)
    for k, mode in enumerate([True, True, False, True, False, False]):
        x = numbers(8, 4, seed=k)
        assert_same(compiled_mode(mine, mode, compiled, x), eager.train(mode)(x))
        for a, b in zip(mine.buffers(), eager.buffers(), strict=True):
            assert_same(a, b)
    assert compiled.traces == 2, "one trace for each mode, kept"


def compiled_mode(module: nn.Module, mode: bool, f: Any, x: Any) -> Any:
    module.train(mode)
    return f(x)


# --- Gradients -----------------------------------------------------------------------------------


def test_gradients_accumulate_over_calls():
    eager, mine = parameter(3), parameter(3)

    def f(w: Any, x: Any) -> Any:
        loss = (w * w * x).sum()
        loss.backward()
        return loss

    compiled = cr.jit(lambda x: f(mine, x))
    for k in range(4):
        if k == 2:
            eager.grad = mine.grad = None
        x = numbers(3, seed=k)
        a, b = f(eager, x), compiled(x)
        assert_same(b.detach(), a.detach())
        assert_same(mine.grad, eager.grad)
    assert compiled.traces == 2, "one where there is a gradient before, one where there is none"


def test_a_gradient_that_somebody_keeps_stays():
    w = parameter(3)

    @cr.jit
    def step(x: Any) -> None:
        w.grad = None
        (w * x).sum().backward()

    x, y = numbers(3, seed=1), numbers(3, seed=2)
    step(x)
    kept = w.grad
    step(y)
    assert_same(kept, x)
    assert_same(w.grad, y)
    array = w.grad.numpy()
    step(x)
    assert_same(cr.tensor(array), y)
    assert_same(w.grad, x)


def test_a_step_that_clears_gradients_leaves_none():
    w = parameter(3)

    @cr.jit
    def step(x: Any) -> None:
        (w * x).sum().backward()
        g = w.grad
        w.grad = None
        w.data = w - g

    before = w.detach()
    step(numbers(3, seed=1))
    assert w.grad is None
    assert_same(w.detach(), before - numbers(3, seed=1))
    assert w.requires_grad
    assert w.is_leaf


def test_an_existing_gradient_is_read():
    w = parameter(3)
    f = cr.jit(lambda: w.grad * 2)
    for seed in (1, 2):
        w.grad = numbers(3, seed=seed)
        assert_same(f(), numbers(3, seed=seed) * 2)
    assert f.traces == 1


def test_gradients_of_results_outside():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = numbers(5, 3).requires_grad_()

    def f(v: Any) -> Any:
        y = model(v)
        return (y * y).mean(), y.argmax(axis=1), y.detach()

    def gradients(g: Any) -> Any:
        model.zero_grad()
        x.grad = None
        loss, *rest = g(x)
        assert loss.requires_grad
        assert not any(r.requires_grad for r in rest)
        loss.backward()
        return loss.detach(), rest, x.grad, [p.grad for p in model.parameters()]

    compiled = cr.jit(f)
    for _ in range(2):
        assert_same(gradients(compiled), gradients(f))
    assert compiled.traces == 1


def test_a_result_remembers_the_values_it_was_computed_from():
    w = parameter(3)
    x = numbers(3, seed=1)
    loss = cr.jit(lambda v: (cr.sin(w * v)).sum())(x)
    before = w.detach()
    update = cr.jit(lambda: setattr(w, "data", w * 2))
    update()
    update()
    loss.backward()
    np.testing.assert_allclose(w.grad.numpy(), (x * cr.cos(before * x)).numpy(), rtol=1e-5)


def test_a_loss_whose_graph_was_used_up_inside_has_none_outside():
    w = parameter(3)

    @cr.jit
    def f(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        return loss

    assert not f(numbers(3)).requires_grad
    with pytest.raises(cr.GradientError, match="does not depend on anything"):
        f(numbers(3)).backward()


def test_no_grad_around_a_compiled_function():
    w = parameter(3)
    f = cr.jit(lambda x: x * w)
    with cr.no_grad():
        assert not f(numbers(3)).requires_grad
    assert f(numbers(3)).requires_grad


def test_second_derivatives_of_state_go_through_the_function_itself():
    w = parameter(3)

    def f(x: Any) -> Any:
        return cr.sin(w * x).sum()

    def penalty(g: Any) -> Any:
        w.grad = None
        slope = cr.grad(g)(numbers(3, seed=1).requires_grad_())
        (slope * slope).sum().backward()
        return w.grad

    assert_same(penalty(cr.jit(f)), penalty(f))


def test_a_function_that_changes_its_state_has_one_derivative_only():
    w, count = parameter(3), cr.tensor(0)

    @cr.jit
    def f(x: Any) -> Any:
        count.data = count + 1
        return (w * x * x).sum()

    x = numbers(3).requires_grad_()
    f(x).backward()
    assert_same(x.grad, 2 * w.detach() * x.detach())
    with pytest.raises(cr.GradientError, match="changes its state or draws random numbers"):
        f(x).backward(create_graph=True)


# --- What may change between calls ---------------------------------------------------------------


def test_frozen_and_thawed_parameters():
    w = parameter(3)
    x = numbers(3, seed=1)
    f = cr.jit(lambda v: (v * w).sum())
    assert f(x).requires_grad
    w.requires_grad_(False)
    assert not f(x).requires_grad
    w.requires_grad_()
    assert f(x).requires_grad


def test_a_tensor_that_is_gone_makes_a_new_trace():
    class Holder:
        w = numbers(3)

    f = cr.jit(lambda x: x * Holder.w)
    x = numbers(3, seed=1)
    assert_same(f(x), x * Holder.w)
    Holder.w = numbers(3, seed=2)
    gc.collect()
    assert_same(f(x), x * Holder.w)
    assert f.traces == 2


def test_a_compiled_function_does_not_keep_its_state_alive():
    class Holder:
        w: Any = numbers(3)

    f = cr.jit(lambda x: x * Holder.w)
    f(numbers(3))
    from weakref import ref

    gone = ref(Holder.w)
    Holder.w = None
    assert gone() is None


def test_state_of_another_shape_makes_a_new_trace():
    w = numbers(3)
    f = cr.jit(lambda: w * 2)
    f()
    w.value = np.ones((2, 2), np.float32)
    assert f().tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert f.traces == 2


def test_an_exception_puts_everything_back():
    w, x = parameter(3), numbers(3, seed=1)
    w.grad = numbers(3, seed=2)
    grad, values, node = w.grad, w.tolist(), w.node

    @cr.jit
    def f(v: Any, fail: bool) -> Any:
        loss = (w * v).sum()
        loss.backward()
        w.data = w * 2
        w.grad = None
        if fail:
            raise KeyError("mine")
        return loss

    with pytest.raises(KeyError, match="mine"):
        f(x, True)
    assert w.grad is grad
    assert w.node is node
    assert w.tolist() == values
    f(x, False)
    assert w.grad is None
    assert w.tolist() == [2 * v for v in values]


def test_the_function_may_cache_what_it_made_of_numbers():
    class Cached:
        mask: Any = None

    def f(x: Any) -> Any:
        if Cached.mask is None:
            Cached.mask = cr.tensor(np.tri(3, dtype=np.float32))
        return x * Cached.mask

    compiled = cr.jit(f)
    x = numbers(3, 3)
    for _ in range(2):
        assert_same(compiled(x), x * cr.tensor(np.tri(3, dtype=np.float32)))


def test_a_closure_that_is_differentiated_within_is_read_at_every_call():
    w = cr.tensor(np.arange(12.0).reshape(4, 3) / 10)

    @cr.jit
    def step(x: Any) -> Any:
        loss, slope = cr.value_and_grad(lambda v: (cr.tanh(x @ v) ** 2).sum())(w)
        w.data = w - 0.1 * slope
        return loss

    x = cr.tensor(np.ones((2, 4)))
    losses = [step(x).item() for _ in range(3)]
    assert losses[0] > losses[1] > losses[2]


def test_gradients_that_nobody_else_holds_are_written_in_place():
    """Also on the long way of a call; one that is held keeps its numbers."""
    w = cr.tensor(np.ones(1000), requires_grad=True)

    @cr.jit
    def f(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        return loss

    def address() -> int:
        return w.grad.value.ctypes.data

    f(cr.tensor(np.full(1000, 1.0)))
    first = address()
    f(cr.tensor(np.full(1000, 2.0)))
    assert address() == first
    held = w.grad
    f(cr.tensor(np.full(1000, 3.0)))
    assert (held.numpy() == 2).all() and (w.grad.numpy() == 3).all()


def test_state_is_written_in_place_though_gradients_are_replaced_between_calls():
    """No short way is kept that never serves: what it holds could not be written in place."""
    layer = nn.Linear(40, 30)
    optimizer = optim.AdamW(layer.parameters(), lr=0.01)

    def gradients(x: Any) -> Any:
        loss = (layer(x) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        return loss

    compiled, update = cr.jit(gradients), cr.jit(optimizer.step)
    x = np.ones((5, 40), np.float32)
    addresses: list[int] = []
    for _ in range(40):
        compiled(x)
        for p in layer.parameters():
            p.grad = cr.tensor(0.5 * p.grad.numpy())
        update()
        addresses.append(layer.weight.detach().numpy().ctypes.data)
    moves = [a != b for a, b in itertools.pairwise(addresses)]
    assert sum(moves) < 20
