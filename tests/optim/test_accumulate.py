"""Gradients from parts are those of the whole, however uneven the parts are; clipping by value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.amp import GradScaler

IGNORE = -1


def model() -> nn.Module:
    generator = cr.Generator(0)
    make: dict[str, Any] = {"generator": generator, "dtype": np.float64}
    return nn.Sequential(nn.Linear(5, 8, **make), nn.Tanh(), nn.Linear(8, 3, **make))


def rows(n: int) -> tuple[Any, Any]:
    generator = cr.Generator(1)
    return generator.normal((n, 5), dtype=np.float64), generator.integers(0, 3, (n,))


def gradients(net: nn.Module) -> list[Any]:
    return [p.grad.numpy() for p in net.parameters()]


def whole(net: nn.Module, x: Any, y: Any, **options: Any) -> tuple[float, list[Any]]:
    net.zero_grad()
    loss = cr.cross_entropy(net(x), y, **options)
    loss.backward()
    return loss.item(), gradients(net)


def close(a: list[Any], b: list[Any]) -> bool:
    return all(np.allclose(p, q, rtol=1e-12, atol=1e-15) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("sizes", [[8] * 8, [1, 20, 3, 40], [63, 1], [64]])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_parts_of_rows_give_the_gradient_of_the_batch(sizes: list[int], reduction: str):
    net, (x, y) = model(), rows(64)
    loss, expected = whole(net, x, y)
    net.zero_grad()
    ends = np.cumsum(sizes)
    parts = [
        (x[int(e) - n : int(e)], y[int(e) - n : int(e)]) for n, e in zip(sizes, ends, strict=True)
    ]
    run = optim.accumulate(parts)
    for micro in run:
        a, b = micro.part
        part_loss = cr.cross_entropy(net(a), b, reduction=reduction)
        micro.backward(part_loss, reduction=reduction)
    assert close(gradients(net), expected)
    assert run.loss == pytest.approx(loss, rel=1e-12)
    assert (len(run), run.total) == (len(sizes), 64)


def test_dividing_by_the_number_of_parts_is_wrong_for_uneven_ones():
    net, (x, y) = model(), rows(64)
    _, expected = whole(net, x, y)
    net.zero_grad()
    for a, b in ((x[:60], y[:60]), (x[60:], y[60:])):
        (cr.cross_entropy(net(a), b) / 2).backward()
    assert not close(gradients(net), expected)


def test_tokens_that_are_padding_do_not_count():
    net, (x, y) = model(), rows(24)
    x, y = x.reshape(6, 4, 5), y.numpy().reshape(6, 4).copy()
    for row, length in enumerate([4, 1, 2, 4, 0, 0]):
        y[row, length:] = IGNORE
    targets = cr.tensor(y)
    loss, expected = whole(net, x, targets, ignore_index=IGNORE)
    net.zero_grad()
    parts = [{"x": x[i : i + 2], "y": targets[i : i + 2]} for i in (0, 2, 4)]  # the last is padding
    run = optim.accumulate(parts, by="tokens", ignore_index=IGNORE)
    for micro in run:
        logits = net(micro.part["x"])
        micro.backward(cr.cross_entropy(logits, micro.part["y"], ignore_index=IGNORE))
    assert [m.count for m in run.micros] == [5, 6, 0]
    assert close(gradients(net), expected)
    assert run.loss == pytest.approx(loss, rel=1e-12)


def test_a_count_of_ones_own_and_arrays_of_numpy():
    w = cr.tensor([1.0, 2.0], dtype=np.float64, requires_grad=True)
    parts = [np.ones((2, 2)), np.full((1, 2), 4.0)]
    for micro in optim.accumulate(parts, by=lambda part: 3 * len(part)):
        micro.backward((cr.asarray(micro.part) @ w).mean())
    assert w.grad.tolist() == pytest.approx([2.0, 2.0])
    assert [m.count for m in optim.accumulate(parts, by="tokens").micros] == [4, 2]


def test_with_a_scaler_contributions_are_scaled():
    net, (x, y) = model(), rows(12)
    _, expected = whole(net, x, y)
    net.zero_grad()
    scaler, sgd = GradScaler(2.0**10), optim.SGD(net.parameters(), lr=0.1)
    for micro in optim.accumulate([(x[:9], y[:9]), (x[9:], y[9:])]):
        a, b = micro.part
        micro.backward(cr.cross_entropy(net(a), b), scaler=scaler)
    assert close([g / 2.0**10 for g in gradients(net)], expected)
    scaler.unscale_(sgd)
    assert close(gradients(net), expected)


def test_what_is_refused():
    with pytest.raises(cr.ConfigError, match="2 parts with nothing to count"):
        optim.accumulate([np.zeros((0, 2)), np.zeros((0, 2))])
    with pytest.raises(cr.ConfigError, match="by is 'rows', 'tokens' or a function, not 'batch'"):
        optim.accumulate([np.ones(2)], by="batch")
    with pytest.raises(cr.ConfigError, match="no array to count in a part of type str"):
        optim.accumulate(["text"])
    with pytest.raises(cr.ConfigError, match="cannot count -1"):
        optim.accumulate([np.ones(2)], by=lambda part: -1)
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    (micro,) = list(optim.accumulate([np.ones(2)], by=lambda part: 1).micros)
    with pytest.raises(cr.ConfigError, match="reduction is 'mean' or 'sum', not 'none'"):
        micro.backward(w.sum(), reduction="none")
    micro.backward(w.sum())
    with pytest.raises(cr.GradientError, match="would count twice"):
        micro.backward(w.sum())


def test_a_part_that_is_passed_over_is_noticed():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(cr.GradientError, match=r"part 0 of 2 was passed over.*its share of 0\.25"):
        for micro in optim.accumulate([np.ones(1), np.ones(3)]):
            if micro.count > 1:
                micro.backward(w.sum())


# --- Clipping ------------------------------------------------------------------------------------


def test_elements_are_limited_as_in_pytorch():
    torch = pytest.importorskip("torch")
    values = [0.5, -3.0, float("inf"), float("nan"), -0.25]
    ours = cr.tensor(values, requires_grad=True)
    theirs = torch.tensor(values, requires_grad=True)
    ours.grad, theirs.grad = cr.tensor(values), torch.tensor(values)
    idle = cr.tensor([1.0], requires_grad=True)
    optim.clip_grad_value([ours, idle], 1.5)
    torch.nn.utils.clip_grad_value_([theirs], 1.5)
    assert np.array_equal(ours.grad.numpy(), theirs.grad.numpy(), equal_nan=True)
    assert idle.grad is None
    optim.clip_grad_value(ours, 0.3)
    assert ours.grad.tolist()[0] == pytest.approx(0.3)
    with pytest.raises(cr.ConfigError, match="at least 0, not -1"):
        optim.clip_grad_value(ours, -1.0)
