"""Hooks of leaves and modules, as PyTorch has them; and every gradient on the way, captured."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.transforms.capturing import capture
from chainrule.transforms.checkpointing import checkpoint

torch = pytest.importorskip("torch")

X = np.arange(6, dtype=np.float64).reshape(2, 3) / 4 + 0.5


def twins() -> tuple[nn.Linear, Any]:
    """A layer of ours and one of PyTorch's with the same weights."""
    ours = nn.Linear(3, 2, dtype=np.float64, generator=cr.Generator(0))
    theirs = torch.nn.Linear(3, 2, dtype=torch.float64)
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(ours.weight.detach().numpy()))
        theirs.bias.copy_(torch.tensor(ours.bias.detach().numpy()))
    return ours, theirs


def numbers(x: Any) -> Any:
    """Nested lists of what hooks were given."""
    if isinstance(x, tuple):
        return [numbers(part) for part in x]
    return None if x is None else x.tolist()


def agree(a: Any, b: Any) -> None:
    """The same structure, the same numbers to rounding."""
    assert type(a) is type(b)
    if isinstance(a, list):
        assert len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            agree(p, q)
    elif a is not None:
        assert a == pytest.approx(b, rel=1e-12)


# --- After accumulation --------------------------------------------------------------------------


def test_a_hook_after_accumulation_sees_the_sum_and_may_take_the_step():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    seen: list[Any] = []
    handle = w.register_post_accumulate_grad_hook(lambda p: seen.append((p is w, p.grad.tolist())))
    (w * w).sum().backward()
    (3 * w).sum().backward()
    handle.remove()
    w.sum().backward()
    assert seen == [(True, [2.0, 4.0]), (True, [5.0, 7.0])]


def test_an_optimizer_in_the_backward_pass():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    sgd = optim.SGD([w], lr=0.5)

    def step(p: Any) -> None:
        sgd.step()
        p.grad = None

    w.register_post_accumulate_grad_hook(step)
    (w * w).sum().backward()
    assert w.tolist() == [0.0, 0.0] and w.grad is None


def test_a_hook_after_accumulation_is_for_leaves():
    w = cr.tensor([1.0], requires_grad=True)
    with pytest.raises(cr.GradientError, match="made by mul: use register_hook"):
        (w * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(cr.GradientError, match="requires a gradient"):
        cr.tensor([1.0]).register_post_accumulate_grad_hook(print)


# --- Modules -------------------------------------------------------------------------------------


def with_all_hooks(module: Any, x: Any) -> Any:
    """What hooks of every kind, each of which changes something, see; and the gradients."""
    seen: list[Any] = []

    def backward(m: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append([m is module, numbers(grad_input), numbers(grad_output)])
        return (grad_input[0] * 10,)

    handles = [
        module.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        module.register_forward_pre_hook(lambda m, args: args[0] + 1),
        module.register_forward_hook(lambda m, args, y: seen.append(numbers(args)) or y * 3),
        module.register_full_backward_pre_hook(lambda m, gs: (gs[0] * 0.5,)),
        module.register_full_backward_hook(backward),
    ]
    y = module(x)
    (y * y).sum().backward()
    for handle in handles:
        handle.remove()
    module(x).sum().backward()
    return [seen, x.grad.tolist(), module.weight.grad.tolist(), module.bias.grad.tolist()]


def test_all_hooks_see_and_change_what_they_do_in_pytorch():
    ours, theirs = twins()
    agree(
        with_all_hooks(ours, cr.tensor(X, requires_grad=True)),
        with_all_hooks(theirs, torch.tensor(X, requires_grad=True)),
    )


class Several(nn.Module):
    """Two tensors, something else, and a keyword in; a dict out, of which one entry is not used."""

    def forward(self, a: Any, k: int, b: Any, *, c: Any) -> Any:
        return {"y": a * k + b * c, "unused": a * 2}


def test_entries_stand_for_arguments_and_results():
    module = Several()
    seen: list[Any] = []
    module.register_full_backward_hook(lambda m, gi, go: seen.append([numbers(gi), numbers(go)]))
    a = cr.tensor([1.0], requires_grad=True)
    b, c = cr.tensor([2.0]), cr.tensor([5.0], requires_grad=True)
    module(a, 3, b, c=c)["y"].sum().backward()
    assert seen == [[[[3.0], None, None], [[1.0], None]]]
    assert c.grad.tolist() == [2.0]


def test_without_an_input_that_needs_a_gradient_the_hook_still_runs():
    ours, _ = twins()
    seen: list[Any] = []
    ours.register_full_backward_hook(lambda m, gi, go: seen.append([numbers(gi), numbers(go)]))
    ours(cr.tensor(X)).sum().backward()
    assert seen == [[[None], [[[1.0, 1.0], [1.0, 1.0]]]]]
    with cr.no_grad():
        ours(cr.tensor(X))
    assert len(seen) == 1


def test_hooks_in_a_second_derivative_are_given_what_can_be_differentiated():
    ours, _ = twins()
    ours.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))
    x = cr.tensor(X, requires_grad=True)
    (ours(x) ** 2).sum().backward(create_graph=True)
    w = ours.weight.detach().numpy()
    first = 2 * 2 * (X @ w.T + ours.bias.detach().numpy()) @ w
    assert np.allclose(x.grad.detach().numpy(), first, rtol=1e-12)
    grad, x.grad = x.grad, None
    grad.sum().backward()
    # the inner pass runs through the hook once more: another factor of 2
    assert np.allclose(x.grad.numpy(), 2 * 4 * (np.ones_like(X) @ w.T @ w), rtol=1e-12)


@pytest.mark.parametrize(
    ("hook", "error", "text"),
    [
        (
            lambda m, gi, go: (gi[0], gi[0]),
            cr.GradientError,
            "returned 2 gradients; it was",
        ),
        (lambda m, gi, go: (gi[0][:1],), cr.ShapeError, r"returned shape \(1, 3\) for gradient 0"),
        (lambda m, gi, go: (None,), cr.ShapeError, "returned None for gradient 0"),
    ],
)
def test_what_a_backward_hook_returns_is_checked(hook: Any, error: Any, text: str):
    ours, _ = twins()
    ours.register_full_backward_hook(hook)
    with pytest.raises(error, match=f"a backward hook of Linear {text}"):
        ours(cr.tensor(X, requires_grad=True)).sum().backward()


def test_hooks_leave_value_forward_mode_and_vmap_as_they_are():
    ours, _ = twins()
    x, t = cr.tensor(X), cr.tensor(X[::-1].copy())
    plain = [ours(x), cr.jvp(ours, (x,), (t,))[1], cr.vmap(ours)(x)]
    ours.register_full_backward_hook(lambda m, gi, go: None)
    hooked = [ours(x), cr.jvp(ours, (x,), (t,))[1], cr.vmap(ours)(x)]
    for a, b in zip(plain, hooked, strict=True):
        assert np.array_equal(a.detach().numpy(), b.detach().numpy())


# --- Every gradient on the way -------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        generator = cr.Generator(0)
        self.first = nn.Linear(3, 4, generator=generator)
        self.rest = nn.Sequential(nn.Tanh(), nn.Linear(4, 2, generator=generator))

    def forward(self, x: Any) -> Any:
        return self.rest(self.first(x) * 2)


def run(net: Any, x: Any, back: Callable[[Any], Any]) -> Any:
    y = net(x)
    loss = (y * y).sum()
    back(loss)
    return y


def test_captured_gradients_are_those_that_retained_ones_are():
    net, x = Net(), cr.tensor(X, dtype=np.float32)
    with capture() as c:
        y = net(x)
        y.retain_grad()
        (y * y).sum().backward()
    by_module = c.by_module
    assert set(by_module) == {"first", "Net", "rest.0", "rest.1", ""}
    assert [g.op for g in by_module["rest.0"]] == ["tanh"]
    assert np.array_equal(by_module["rest.1"][-1].value, y.grad.numpy())
    assert by_module[""][-1].op == "sum" and by_module[""][-1].value == 1
    bias = net.first.bias.grad.numpy()
    assert np.allclose(by_module["first"][-1].value.sum(axis=0), bias, rtol=1e-6)
    assert by_module["rest.0"][0].norm == pytest.approx(
        math.sqrt((by_module["rest.0"][0].value.astype(float) ** 2).sum())
    )


def test_capturing_a_loss_changes_nothing():
    net, x = Net(), cr.tensor(X, dtype=np.float32)
    loss = (net(x) ** 2).sum()
    c = capture(loss)
    assert [p.grad for p in net.parameters()] == [None] * 4
    ops = ["matmul", "add", "mul", "tanh", "matmul", "add", "square", "sum"]
    assert [g.op for g in c.gradients] == ops
    loss.backward()  # the graph is still there
    lines = c.by_line
    assert len(lines) == 2 and all("test_hooks.py:" in where for where in lines)
    assert sum([len(group) for group in lines.values()]) == len(c)


def test_gradients_inside_a_checkpoint_are_captured_with_their_modules():
    net, x = Net(), cr.tensor(X, dtype=np.float32)
    found: list[Any] = []
    for f in (net, checkpoint(net)):
        with capture() as c:
            run(f, x, lambda loss: loss.backward())
        found.append(c.by_module)
    for name in ("first", "rest.0", "rest.1"):
        for a, b in zip(found[0][name], found[1][name], strict=True):
            assert a.op == b.op and np.array_equal(a.value, b.value)


def test_the_table_counts():
    x = cr.tensor([3.0, -4.0, 0.0], requires_grad=True)
    with capture() as c:
        (cr.relu(x * 2) * cr.tensor([1.0, 2.0, math.inf])).sum().backward()
    rows = [line.split("  ") for line in c.table("op").splitlines()]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["op", "gradients", "norm", "largest", "zeros", "inf, nan"],
        rows_of(c, "mul"),
        rows_of(c, "relu"),
        ["sum", "1", "1", "1", "0%", "0"],
    ]
    assert str(c) == c.table("module") and str(c).splitlines()[1].startswith("(outside)")
    assert "test_hooks.py:" in c.table("line")


def rows_of(c: Any, op: str) -> list[str]:
    """The row of one op, computed by other means."""
    values = np.concatenate([g.value.reshape(-1) for g in c.gradients if g.op == op])
    count = len([g for g in c.gradients if g.op == op])
    zeros = round(100 * float((values == 0).mean()))
    norm, most = np.linalg.norm(values.astype(float)), np.abs(values).max()
    bad = int((~np.isfinite(values)).sum())
    return [op, str(count), f"{norm:.3g}", f"{most:.3g}", f"{zeros}%", str(bad)]


def test_what_capture_refuses():
    with pytest.raises(cr.GradientError, match=r"one number, this has shape \(2,\)"):
        capture(cr.tensor([1.0, 2.0], requires_grad=True) * 2)
    with pytest.raises(cr.GradientError, match="does not depend on anything"):
        capture(cr.tensor(1.0))
    with pytest.raises(cr.ConfigError, match="'module', 'line' or 'op', not 'size'"):
        capture(cr.tensor(1.0, requires_grad=True) * 2).table("size")
