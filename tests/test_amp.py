"""Mixed precision: which op computes in what, what float16 loses, and the scaler that saves it."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.amp import PRECISION, GradScaler, autocast
from chainrule.ops.convolution import conv1d

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)

USES: dict[str, Any] = {
    "matmul": lambda a, b: a @ b,
    "einsum": lambda a, b: cr.einsum("ij,jk->ik", a, b),
    "conv": lambda a, b: conv1d(a[None], b[:, :, None]),
    "logaddexp": cr.logaddexp,
    "pow": lambda a, b: a**b,
    "exp_diff": lambda a, b: cr.softmax(a),
    "cumulative_sum": lambda a, b: cr.cumulative_sum(a, axis=0),
    "cumulative_prod": lambda a, b: cr.cumulative_prod(a, axis=0),
}


def named(op: str) -> Any:
    """How a user calls the op of that name, with two matrices at hand."""
    return USES.get(op) or (lambda a, b: getattr(cr, op)(a))


@pytest.mark.parametrize("op", PRECISION)
@pytest.mark.parametrize("given", [np.float16, np.float32])
def test_every_op_of_the_table_computes_in_its_dtype(op: str, given: Any):
    a = cr.tensor(np.linspace(0.1, 0.9, 9).reshape(3, 3), dtype=given)
    b = cr.tensor(np.linspace(0.2, 0.8, 9).reshape(3, 3), dtype=given)
    with autocast():
        y = named(op)(a, b)
    assert y.dtype == PRECISION[op]
    plain = named(op)(a, b)
    assert plain.dtype == given
    assert np.allclose(y.numpy(), plain.numpy(), rtol=5e-3)


def test_float64_arrays_by_themselves_and_other_ops_are_left_alone():
    x, h = cr.ones((2, 2)), cr.ones((2, 2), dtype=np.float16)
    d = cr.ones((2, 2), dtype=np.float64)
    with autocast():
        assert (d @ d).dtype == np.float64 and (d @ x).dtype == np.float64
        assert cr.matmul(np.ones((2, 2), SINGLE), np.ones((2, 2), SINGLE)).dtype == SINGLE
        assert (h + h).dtype == HALF and (h + x).dtype == SINGLE and cr.tanh(h).dtype == HALF
        assert (cr.tensor([[1]]) @ cr.tensor([[2]])).dtype == np.int64


def test_it_ends_nests_switches_off_and_decorates():
    x = cr.ones((2, 2))
    with autocast():
        with autocast(enabled=False):
            assert (x @ x).dtype == SINGLE
            with autocast():
                assert (x @ x).dtype == HALF
        assert (x @ x).dtype == HALF
    assert (x @ x).dtype == SINGLE

    @autocast()
    def product() -> Any:
        return x @ x

    assert product().dtype == HALF and (x @ x).dtype == SINGLE
    with pytest.raises(ZeroDivisionError), autocast():
        1 / 0
    assert (x @ x).dtype == SINGLE


@pytest.mark.parametrize("dtype", ["bfloat16", np.float32, np.float64])
def test_only_float16_is_offered(dtype: Any):
    with pytest.raises(cr.DtypeError, match="casts to float16 only, not to"):
        autocast(dtype)


def test_gradients_of_float32_parameters_are_float32_and_close():
    generator = cr.Generator(0)
    block = nn.Block(16, 2, generator=generator)
    x = generator.normal((2, 6, 16))
    results: list[list[Any]] = []
    for on in (False, True):
        block.zero_grad()
        with autocast(enabled=on):
            loss = (block(x) ** 2).mean()
        loss.backward()
        assert loss.dtype == SINGLE
        assert all(p.grad.dtype == SINGLE for p in block.parameters())
        results.append([p.grad.numpy() for p in block.parameters()])
    assert not all(np.array_equal(a, b) for a, b in zip(*results, strict=True))
    for a, b in zip(*results, strict=True):
        assert np.abs(a - b).max() <= 0.02 * np.abs(a).max() + 1e-5


# --- The scaler ----------------------------------------------------------------------------------


def test_a_gradient_of_1e_8_survives_with_scaling_only():
    master = cr.tensor([1.0], requires_grad=True)
    tiny = cr.tensor([1e-8])
    sgd = optim.SGD([master], lr=1.0)

    def loss() -> Any:
        half = master.astype(np.float16) * 1  # what is computed in float16 ...
        return (half.astype(np.float32) * tiny).sum()  # ... gets a gradient of 1e-8

    loss().backward()
    assert master.grad.tolist() == [0.0]
    sgd.zero_grad()
    scaler = GradScaler()
    scaler.scale(loss()).backward()
    scaler.unscale_(sgd)
    assert master.grad.tolist() == [pytest.approx(1e-8, rel=1e-3)]


def scripted(scaler: Any, found: list[float], step: Any) -> list[tuple[float, int]]:
    """Scale and growth tracker after each of several iterations with given gradients."""
    out: list[tuple[float, int]] = []
    for g in found:
        step(g)
        scaler.update()
        out.append((scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
    return out


def test_scale_and_steps_are_pytorchs(caplog: pytest.LogCaptureFixture):
    torch = pytest.importorskip("torch")
    found = [1.0, 2.0, math.inf, 1.0, math.nan, -math.inf, 1.0, 1.0, 1.0, 1.0, 1.0]
    options = {"init_scale": 8.0, "growth_interval": 3}
    ours, theirs = GradScaler(**options), torch.amp.GradScaler("cpu", **options)
    w = cr.tensor([1.0], requires_grad=True)
    v = torch.tensor([1.0], requires_grad=True)
    sgd, torch_sgd = optim.SGD([w], lr=0.1), torch.optim.SGD([v], lr=0.1)
    taken: list[bool] = []

    def our_step(g: float) -> None:
        sgd.zero_grad()
        ours.scale((w * g).sum()).backward()
        taken.append(ours.step(sgd))

    def their_step(g: float) -> None:
        torch_sgd.zero_grad()
        theirs.scale((v * g).sum()).backward()
        theirs.step(torch_sgd)

    with caplog.at_level(logging.WARNING, "chainrule.amp"):
        mine = scripted(ours, found, our_step)
    assert mine == scripted(theirs, found, their_step)
    assert taken == [math.isfinite(g) for g in found]
    assert w.tolist() == pytest.approx(v.tolist())
    assert ours.skipped == 3 == len(caplog.messages)
    assert ours.message == (
        "step 6 of SGD was skipped: the gradients of 1 of 1 parameters were infinite or NaN at "
        "scale 2, first that of parameter 0, float32 (1,)"
    )
    assert caplog.messages[-1] == ours.message


def test_it_recovers_from_a_scale_that_is_too_large():
    layer = nn.Linear(4, 4, generator=cr.Generator(0))
    sgd, scaler = optim.SGD(layer.parameters(), lr=0.01), GradScaler(2.0**24)
    x = cr.Generator(1).normal((8, 4))
    losses: list[float] = []
    for _ in range(30):
        sgd.zero_grad()
        with autocast():
            loss = (layer(x) ** 2).mean()
        scaler.scale(loss).backward()
        scaler.step(sgd)
        scaler.update()
        losses.append(loss.item())
    assert 0 < scaler.skipped < 20
    assert losses[-1] < losses[0]
    assert f"skipped={scaler.skipped}" in repr(scaler)


def prepared() -> tuple[GradScaler, optim.Optimizer, Any]:
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    scaler, sgd = GradScaler(1024.0), optim.SGD([w], lr=0.1)
    scaler.scale((w * w).sum()).backward()
    return scaler, sgd, w


@pytest.mark.parametrize("clip", [optim.clip_grad_norm, optim.clip_grad_value])
def test_clipping_before_unscaling_is_refused(clip: Any):
    scaler, sgd, w = prepared()
    other = cr.tensor([1.0], requires_grad=True)
    other.grad = cr.tensor([5.0])
    clip([other], 1.0)  # has nothing to do with the scaler
    assert other.grad.tolist() == [pytest.approx(1.0, rel=1e-5)]
    with pytest.raises(cr.GradientError, match=r"1 of 2 gradients are still .*\(1024\)"):
        clip([other, w], 1.0)
    assert w.grad.tolist() == [2048.0, 4096.0]
    scaler.unscale_(sgd)
    assert w.grad.tolist() == [2.0, 4.0]
    clip([w], 1.0)
    assert max(w.grad.tolist()) <= 1.0
    scaler.step(sgd)
    scaler.update()
    sgd.zero_grad()
    (w * w).sum().backward()  # not scaled: nothing to refuse
    clip([w], 1.0)


def test_the_order_of_calls_is_checked():
    scaler, sgd, _ = prepared()
    with pytest.raises(cr.GradientError, match="no gradient was looked at"):
        scaler.update()
    scaler.unscale_(sgd)
    with pytest.raises(cr.GradientError, match="are unscaled already"):
        scaler.unscale_(sgd)
    scaler.step(sgd)
    for again in (scaler.step, scaler.unscale_):
        with pytest.raises(cr.GradientError, match=r"has taken its step: call update\(\) first"):
            again(sgd)
    scaler.update(64.0)
    assert scaler.get_scale() == 64.0


def test_two_optimizers_are_looked_at_one_by_one():
    a, b = (cr.tensor([1.0], requires_grad=True) for _ in range(2))
    scaler, first, second = GradScaler(4.0), optim.SGD([a], lr=0.5), optim.SGD([b], lr=0.5)
    scaler.scale((a * 1 + b * math.inf).sum()).backward()
    assert (scaler.step(first), scaler.step(second)) == (True, False)
    assert (a.tolist(), b.tolist()) == ([0.5], [1.0])
    scaler.update()
    assert scaler.get_scale() == 2.0


def test_parameters_in_float16_are_refused():
    w = cr.tensor([1.0], dtype=np.float16, requires_grad=True)
    scaler = GradScaler(2.0)
    scaler.scale((w * 1).sum()).backward()
    with pytest.raises(cr.DtypeError, match=r"a parameter float16 \(1,\) has no room"):
        scaler.step(optim.SGD([w], lr=0.1))


def test_state_settings_and_one_that_is_off():
    scaler = GradScaler(32.0, growth_interval=5)
    state = scaler.state_dict()
    torch = pytest.importorskip("torch")
    assert state.keys() == torch.amp.GradScaler("cpu").state_dict().keys()
    other = GradScaler()
    other.load_state_dict({**state, "_growth_tracker": 2})
    assert other.state_dict() == {**state, "_growth_tracker": 2}
    with pytest.raises(cr.ConfigError, match="a GradScaler needs"):
        other.load_state_dict({"scale": 2.0})
    for bad in ({"init_scale": 0.0}, {"growth_factor": 1.0}, {"growth_interval": 0}):
        with pytest.raises(cr.ConfigError, match="GradScaler: "):
            GradScaler(**bad)  # pyright: ignore[reportArgumentType]
    off = GradScaler(enabled=False)
    w = cr.tensor([1.0], requires_grad=True)
    sgd = optim.SGD([w], lr=0.5)
    assert off.scale(w) is w and off.get_scale() == 1.0 and off.state_dict() == {}
    off.scale(w.sum()).backward()
    off.unscale_(sgd)
    assert off.step(sgd) and w.tolist() == [0.5]
    off.update()
