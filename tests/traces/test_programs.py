"""Programs of every kind, recorded: the numbers are the engine's, and nothing else changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.amp import GradScaler
from chainrule.engine import graph, watch
from chainrule.engine.function import Function
from chainrule.scalar.value import backward_listeners
from tests.traces.programs import Net, check_file, check_numbers, gradient

X = np.linspace(-1.2, 1.7, 6).reshape(2, 3)


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def leaf(x: Any = X) -> Any:
    return cr.tensor(x, requires_grad=True)


def step(x: Any) -> Any:
    cr.sum(cr.tanh(x) * x).backward()
    return x.grad


def hooked(x: Any) -> Any:
    y = cr.exp(x)
    y.register_hook(lambda g: g * 2)
    cr.sum(y).backward()
    return x.grad


def hooked_leaf(x: Any) -> Any:
    x.register_hook(lambda g: g * 2)
    cr.sum(cr.exp(x)).backward()
    return x.grad


def second_order(x: Any) -> Any:
    cr.sum(x * x * x).backward(create_graph=True)
    first = x.grad
    x.grad = None
    cr.sum(first * first).backward()
    return x.grad


def two_passes(x: Any) -> Any:
    y = cr.sum(cr.exp(x))
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


def without_graph(x: Any) -> Any:
    with cr.no_grad():
        y = cr.exp(x)
    cr.sum(x * y).backward()
    return x.grad


def scaled(x: Any) -> Any:
    scaler = GradScaler(8.0)
    scaler.scale(cr.sum(cr.exp(x))).backward()
    return x.grad


def stepped(x: Any) -> Any:
    optimizer = cr.optim.SGD([x], 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        cr.sum(x * x).backward()
        optimizer.step()
    return x


def cube(x: Any) -> Any:
    return cr.sum(x**3)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "a step": step,
    "a hook": hooked,
    "a hook of a leaf": hooked_leaf,
    "second order": second_order,
    "two passes": two_passes,
    "no_grad": without_graph,
    "a scaled loss": scaled,
    "an optimizer": stepped,
    "jit": lambda x: step_of(cr.jit(lambda x: cr.sum(cr.exp(x) * x)), x),
    "checkpoint": lambda x: step_of(cr.checkpoint(lambda x: cr.sum(cr.exp(x) * x)), x),
    "grad": lambda x: cr.grad(lambda x: cr.sum(cr.exp(x)))(x),
    "grad of grad": lambda x: cr.grad(lambda x: cr.sum(cr.grad(lambda x: cr.sum(x**3))(x)))(x),
    "vjp": lambda x: cr.vjp(cr.exp, x)[1](cr.tensor(X)),
    "vjp of two": lambda x: cr.vjp(lambda x: (cr.exp(x), x * 2.0), x)[1]((X, X)),
    "jvp": lambda x: cr.jvp(cr.exp, (x,), (cr.tensor(X),))[1],
    "vmap": lambda x: step_of(lambda x: cr.sum(cr.vmap(lambda r: r @ r)(x)), x),
    "vmap of grad": lambda x: step_of(lambda x: cr.sum(cr.vmap(cr.grad(cube))(x)), x),
    "grads of examples, then a step": lambda x: (cr.vmap(cr.grad(cube))(X), step(x)),
    "jacobian": lambda x: step_of(lambda x: cr.sum(cr.jacobian(lambda x: x**3)(x)), x),
    "hessian": lambda x: step_of(lambda x: cr.sum(cr.hessian(cube)(x)), x),
    "hvp": lambda x: step_of(lambda x: cr.sum(cr.hvp(cube, (x,), (x,))[0]), x),
    "scan": lambda x: step_of(lambda x: cr.scan(lambda c, r: (c * r, c), cr.sum(x), x[0])[0], x),
    "while_loop": lambda x: step_of(
        lambda x: cr.while_loop(lambda c: c < 90, lambda c: c * 1.9, cr.sum(x * x)), x
    ),
    "a function of the user's": lambda x: step_of(lambda x: cr.sum(Cube.apply(x)), x),
    "autocast": lambda x: autocast(x),
    "several outputs": lambda x: step_of(lambda x: cr.sum(cr.linalg.svd(x)[1]), x),
    "a random mask": lambda x: step_of(
        lambda x: cr.sum(cr.nn.functional.dropout(x, 0.5, generator=cr.Generator(3))), x
    ),
}


def step_of(f: Callable[[Any], Any], x: Any) -> Any:
    f(x).backward()
    return x.grad


def autocast(x: Any) -> Any:
    with cr.amp.autocast(np.float16):
        y = cr.sum(x @ np.ones((3, 2)))
    y.backward()
    return x.grad


def bits(x: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in graph_leaves(x)]


def graph_leaves(x: Any) -> list[Any]:
    from chainrule.tree import flatten

    return [
        leaf.detach().numpy() if isinstance(leaf, cr.Tensor) else leaf for leaf in flatten(x)[0]
    ]


CHANGED = {"a hook", "a hook of a leaf"}
"""Programs that change a gradient on its way: it is no sum of contributions there."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_recording_changes_nothing(name: str):
    f = PROGRAMS[name]
    alone = f(leaf())
    x = leaf()
    with cr.record() as recording:
        result = f(x)
    if name != "jit":  # compiled code rounds in an order of its own
        assert bits(alone) == bits(result)
    trace = recording.trace
    assert trace.nodes and "Tensor" not in repr(trace)
    if name not in CHANGED:
        check_numbers(trace)
    check_file(trace)
    assert watch.watches == () and graph.around.get() is None


@pytest.mark.parametrize("name", ["a step", "a hook", "a hook of a leaf", "jit", "checkpoint"])
def test_gradients_are_those_of_the_engine(name: str):
    x = leaf()
    with cr.record() as recording:
        PROGRAMS[name](x)
    assert np.array_equal(gradient(recording.trace, "x"), x.grad.numpy())


def test_a_parameter_that_changes_is_a_new_node():
    x = leaf()
    with cr.record() as recording:
        stepped(x)
    trace = recording.trace
    values = [n.value for n in trace.nodes if n.label == "x"]
    assert len(values) == 2 and np.array_equal(values[0], X)  # type: ignore[arg-type]
    assert np.allclose(values[1], 0.8 * X)  # type: ignore[arg-type]
    check_numbers(trace)


def test_modules_and_lines_and_names():
    net = Net()
    trace = cr.record(lambda x: cr.sum(net(x) ** 2), X)
    check_numbers(trace)
    labels = {n.label: n for n in trace.nodes}
    assert {"x", "first.weight", "second.bias"} <= labels.keys()
    assert labels["first.weight"].kind == "parameter"
    assert {n.module for n in trace.nodes} >= {"first", "second"}
    assert all(n.line.endswith(tuple("0123456789")) for n in trace.nodes if n.kind == "op")
    assert any("net(x) ** 2" in text for text in trace.lines.values())
    assert net.first.weight.grad is None


def test_an_error_leaves_nothing_installed():
    listeners = len(backward_listeners)
    with pytest.raises(ZeroDivisionError), cr.record():
        step(leaf())
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        cr.record(lambda x: 1 / 0, X)
    assert watch.watches == () and graph.around.get() is None
    assert len(backward_listeners) == listeners


def test_an_error_in_a_rule_ends_the_sweep():
    class Bad(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ZeroDivisionError

    x = leaf()
    with cr.record() as recording:
        with pytest.raises(ZeroDivisionError):
            cr.sum(Bad.apply(x)).backward()
        step(x)
    assert len(recording.trace.sweeps) == 2
    assert np.array_equal(gradient(recording.trace, "x"), x.grad.numpy())


def test_two_recordings_at_once():
    with cr.record() as outer, cr.record() as inner:
        step(leaf())
    assert len(outer.trace.nodes) == len(inner.trace.nodes)
    assert len(outer.trace.sweeps) == len(inner.trace.sweeps) == 1


def test_threads_do_not_meet():
    counts: dict[int, int] = {}
    barrier = threading.Barrier(2)

    def run(k: int) -> None:
        x = leaf()
        with cr.record() as recording:
            barrier.wait()
            for _ in range(5 + k):
                step(x)
        barrier.wait()
        check_numbers(recording.trace)
        counts[k] = len(recording.trace.sweeps)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert counts == {0: 5, 1: 6}


def test_another_thread_is_not_recorded():
    with cr.record() as recording:
        t = threading.Thread(target=lambda: (step(leaf()), (cr.Value(2.0) * 3.0).backward()))
        t.start()
        t.join()
        step(leaf())
    assert len(recording.trace.sweeps) == 1


def test_what_was_computed_before():
    x = leaf()
    y = cr.sum(cr.exp(x) * 2.0)
    with cr.record() as recording:
        y.backward()
    assert np.array_equal(gradient(recording.trace, "x"), x.grad.numpy())
    assert {"exp", "mul", "sum"} <= {n.op for n in recording.trace.nodes}


def test_without_a_gradient():
    trace = cr.record(lambda x: cr.exp(x), cr.tensor(X))
    assert trace.sweeps == () and "backward has not run" in repr(trace)
    with pytest.raises(cr.GradientError, match="nothing ran"):
        cr.record(lambda: 1.0)
    with cr.record() as recording:
        with pytest.raises(cr.GradientError, match="when the `with` block has ended"):
            recording.trace.nodes
        step(leaf())


def test_a_picture_before_backward_says_so(tmp_path: Any):
    with cr.record() as recording:
        cr.exp(leaf()) * 2.0
    recording.trace.save(tmp_path / "t.svg")
    recording.trace.save(tmp_path / "t.txt")
    assert "backward has not run" in (tmp_path / "t.svg").read_text("utf-8")
    assert "∂ 0" not in (tmp_path / "t.txt").read_text("utf-8")


def test_large_arrays_are_summaries():
    x = leaf(np.ones((100, 100)))
    with cr.record() as recording:
        cr.sum(x * x).backward()
    trace = recording.trace
    check_numbers(trace)
    check_file(trace)
    assert trace.gradient(trace.find("x")).mean == 2.0  # type: ignore[union-attr]
