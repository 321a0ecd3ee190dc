"""Mixed precision: which op computes in what, what float16 loses, and what saves it."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.amp import LOWERED, WIDENED, GradScaler, autocast
from chainrule.engine.graph import intercept_ops
from chainrule.ops.shapes.shaping import Astype
from chainrule.ops.windows.convolution import conv1d, conv_transpose1d

HALF, SINGLE, BRAIN = cr.float16, cr.float32, cr.bfloat16
COARSE = {HALF: 5e-3, BRAIN: 4e-2}
"""How far a few roundings may lead, relative to a number."""

USES: dict[str, Any] = {
    "matmul": lambda a, b: a @ b,
    "einsum": lambda a, b: cr.einsum("ij,jk->ik", a, b),
    "conv": lambda a, b: conv1d(a[None], b[:, :, None]),
    "conv_transpose": lambda a, b: conv_transpose1d(a[None], b[:, :, None]),
    "logaddexp": cr.logaddexp,
    "pow": lambda a, b: a**b,
    "exp_diff": lambda a, b: cr.softmax(a),
    "cumulative_sum": lambda a, b: cr.cumulative_sum(a, axis=0),
    "cumulative_prod": lambda a, b: cr.cumulative_prod(a, axis=0),
}


def named(op: str) -> Any:
    """How a user calls the op of that name, with two matrices at hand."""
    return USES.get(op) or (lambda a, b: getattr(cr, op)(a))


@pytest.mark.parametrize("op", sorted(LOWERED | WIDENED))
@pytest.mark.parametrize("given", [HALF, BRAIN, SINGLE], ids=str)
@pytest.mark.parametrize("low", [HALF, BRAIN], ids=str)
def test_every_op_of_the_lists_computes_in_its_dtype(op: str, given: Any, low: Any):
    a = cr.tensor(np.linspace(0.1, 0.9, 9).reshape(3, 3), dtype=given)
    b = cr.tensor(np.linspace(0.2, 0.8, 9).reshape(3, 3), dtype=given)
    with autocast(low):
        y = named(op)(a, b)
    assert y.dtype == (low if op in LOWERED else SINGLE)
    plain = named(op)(a, b)
    assert plain.dtype == given
    coarse = max(COARSE[low], COARSE.get(given, 0))
    assert np.allclose(y.numpy(), np.asarray(plain.numpy(), SINGLE), rtol=coarse)


@pytest.mark.parametrize("low", [HALF, BRAIN], ids=str)
def test_layers_give_the_small_dtype_norms_and_losses_float32(low: Any):
    generator = cr.Generator(3)
    x = generator.normal((2, 6, 4))
    linear = nn.Linear(4, 5, generator=generator)
    kernel, bias = generator.normal((3, 6, 2)), generator.normal(3)
    with autocast(low):
        assert linear(x).dtype == low  # its bias is float32
        assert conv1d(x, kernel, bias).dtype == low
        assert cr.scaled_dot_product_attention(x, x, x).dtype == low
        logits = linear(x)
        for f in (cr.softmax, cr.layer_norm, cr.rms_norm, cr.mean, cr.std, cr.logsumexp):
            assert f(logits).dtype == SINGLE
        target = cr.zeros((2, 6), dtype=np.int64)
        assert cr.cross_entropy(logits, target).dtype == SINGLE
        assert cr.mse_loss(logits, logits * 0).dtype == SINGLE
        assert cr.relu(logits).dtype == low and (logits * 2.0).dtype == low
    assert cr.softmax(logits).dtype == low and cr.mean(logits).dtype == low


def test_pytorchs_autocast_gives_the_same_dtypes_and_numbers():
    torch = pytest.importorskip("torch")
    generator = cr.Generator(4)
    x, w, b = generator.normal((8, 16)), generator.normal((5, 16)), generator.normal(5)
    tx, tw, tb = (torch.tensor(np.asarray(t)) for t in (x, w, b))
    target = np.arange(8) % 5
    with autocast(BRAIN), torch.autocast("cpu", dtype=torch.bfloat16):
        y, ty = cr.linear(x, w, b), torch.nn.functional.linear(tx, tw, tb)
        loss = cr.cross_entropy(y, cr.tensor(target))
        their_loss = torch.nn.functional.cross_entropy(ty, torch.tensor(target))
    assert (str(ty.dtype), str(their_loss.dtype)) == (f"torch.{y.dtype}", f"torch.{loss.dtype}")
    assert np.allclose(np.asarray(y.numpy(), SINGLE), ty.float().numpy(), rtol=2**-7, atol=2**-6)
    assert loss.item() == pytest.approx(their_loss.item(), rel=1e-2)


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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, "small"])
def test_other_dtypes_are_refused(dtype: Any):
    with pytest.raises(cr.DtypeError, match="float16 or"):
        autocast(dtype)


@pytest.mark.parametrize("low", [HALF, BRAIN], ids=str)
def test_gradients_of_float32_parameters_are_float32_and_close(low: Any):
    generator = cr.Generator(0)
    block = nn.Block(16, 2, generator=generator)
    x = generator.normal((2, 6, 16))
    results: list[list[Any]] = []
    for on in (False, True):
        block.zero_grad()
        with autocast(low, enabled=on):
            loss = (block(x) ** 2).mean()
        loss.backward()
        assert loss.dtype == SINGLE
        assert all(p.grad.dtype == SINGLE for p in block.parameters())
        results.append([p.grad.numpy() for p in block.parameters()])
    assert not all(np.array_equal(a, b) for a, b in zip(*results, strict=True))
    for a, b in zip(*results, strict=True):
        assert np.abs(a - b).max() <= 4 * COARSE[low] * np.abs(a).max() + 1e-5


# --- A parameter is cast once ---------------------------------------------------------------------


def casts_of(p: Any, run: Any) -> list[Any]:
    """The casts of `p` that `run` makes under autocast."""
    made: list[Any] = []

    def look(op: Any, xs: Any) -> Any:
        if isinstance(op, Astype) and xs[0] is p:
            made.append(op)
        return op(*xs)

    with intercept_ops(look):
        run()
    return made


def test_a_weight_is_cast_once_in_a_region_and_again_in_the_next():
    w, x = cr.ones((3, 3), requires_grad=True), cr.ones((3, 3))

    def region() -> None:
        with autocast(BRAIN):
            y = x @ w @ w
            with autocast(BRAIN):
                y = y @ w
            (y @ w).sum().backward()

    assert len(casts_of(w, region)) == 1
    assert w.grad.dtype == SINGLE and w.grad.tolist() == [[324.0] * 3] * 3
    assert len(casts_of(w, lambda: (region(), region()))) == 2
    with autocast(HALF):
        small = x @ w
    assert small.dtype == HALF


def test_gradients_of_several_uses_of_a_weight_are_added_up_in_its_own_dtype():
    w, n = cr.ones((1, 1), requires_grad=True), 1000
    with autocast(BRAIN):
        total = sum(cr.sum(cr.ones((1, 1)) @ w) for _ in range(n))
    total.backward()
    assert w.grad.tolist() == [[n]]  # in bfloat16 the sum would stop at 256


def test_forward_mode_and_second_order_go_through_a_kept_cast():
    x = cr.tensor([[0.5, -0.25], [1.0, 2.0]])

    def f(v: Any) -> Any:
        return (v @ v @ v).sum()

    small = autocast(BRAIN)(f)
    assert cr.jvp(small, (x,), (x,))[1].item() == pytest.approx(3 * f(x).item(), rel=2**-6)
    assert np.allclose(cr.grad(small)(x), cr.grad(f)(x), rtol=2**-5)
    assert np.allclose(cr.hvp(small, (x,), (x,))[0], cr.hvp(f, (x,), (x,))[0], rtol=2**-5)


def test_a_step_within_the_region_casts_the_weight_anew():
    w = cr.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x = cr.ones((1, 2))
    sgd = optim.SGD([w], lr=0.5)
    with autocast(BRAIN):
        for _ in range(3):  # backward frees the graph of the cast, the step changes the weight
            before = w.detach().numpy().copy()
            y = x @ w
            assert y.tolist() == [before.sum(0).tolist()]
            y.sum().backward()
            assert w.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
            sgd.step()
            sgd.zero_grad()
        w.data = cr.zeros((2, 2))
        assert (x @ w).tolist() == [[0.0, 0.0]]
    assert w.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_cast_without_a_graph_is_not_used_where_a_gradient_is_wanted():
    w, x = cr.ones((2, 2), requires_grad=True), cr.ones((2, 2))
    with autocast(BRAIN):
        with cr.no_grad():
            assert not (x @ w).requires_grad
        (x @ w).sum().backward()
        assert w.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
        assert cr.grad(lambda v: (v @ v).sum())(w).tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_checkpoint_agrees_where_a_weight_is_used_twice():
    w, x = cr.Generator(5).normal((4, 4)).requires_grad_(), cr.Generator(6).normal((4, 4))
    found: list[Any] = []
    for wrap in (lambda f: f, cr.checkpoint):
        w.grad = None
        with autocast(BRAIN):
            y = wrap(lambda v: cr.tanh(v @ w) @ w)(x) @ w
        y.sum().backward()
        found.append(w.grad.tolist())
    assert found[0] == found[1]


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


def test_a_gradient_of_1e_8_survives_in_bfloat16_by_itself():
    master = cr.tensor([1.0], requires_grad=True)
    small = master.astype(BRAIN) * 1.0
    assert small.dtype == BRAIN
    (small.astype(np.float32) * cr.tensor([1e-8])).sum().backward()
    assert master.grad.dtype == SINGLE
    assert master.grad.tolist() == [pytest.approx(1e-8, rel=2**-8)]


def test_a_model_learns_under_bfloat16_without_a_scaler():
    model = nn.Sequential(nn.Linear(4, 8, generator=cr.Generator(0)), nn.Linear(8, 1))
    x = cr.Generator(1).normal((64, 4))
    target = x.sum(axis=1, keepdims=True)
    adam, losses = optim.AdamW(model.parameters(), lr=0.02), []
    for _ in range(60):
        adam.zero_grad()
        with autocast(BRAIN):
            loss = cr.mse_loss(model(x), target)
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 * losses[0]


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
