"""Optimizers: PyTorch's numbers over many steps; what a step may and may not change; schedules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim

torch = pytest.importorskip("torch")

SHAPES = [(3, 4), (5,), (), (2, 1, 3)]
OPTIMIZERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "sgd": (optim.SGD, torch.optim.SGD, {"lr": 0.05}),
    "sgd, decay": (optim.SGD, torch.optim.SGD, {"lr": 0.05, "weight_decay": 0.1}),
    "sgd, momentum": (optim.SGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}),
    "sgd, dampened": (
        optim.SGD, torch.optim.SGD,
        {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.01},
    ),
    "sgd, nesterov": (
        optim.SGD, torch.optim.SGD,
        {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    ),
    "adam": (optim.Adam, torch.optim.Adam, {"lr": 0.02}),
    "adam, microgpt": (optim.Adam, torch.optim.Adam, {"lr": 0.01, "betas": (0.85, 0.99)}),
    "adam, decay": (optim.Adam, torch.optim.Adam, {"lr": 0.02, "weight_decay": 0.1, "eps": 1e-5}),
    "adam, no memory": (optim.Adam, torch.optim.Adam, {"lr": 0.02, "betas": (0.0, 0.0)}),
    "adamw": (optim.AdamW, torch.optim.AdamW, {"lr": 0.02}),
    "adamw, decay": (optim.AdamW, torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.3}),
}  # fmt: skip


class Twins:
    """The same parameters, here and in PyTorch, given the same random gradients."""

    def __init__(self, shapes: list[tuple[int, ...]] = SHAPES, dtype: Any = np.float64) -> None:
        self.rng = np.random.default_rng(3)
        start = [self.rng.normal(size=s).astype(dtype) for s in shapes]
        self.ours = [cr.tensor(x, requires_grad=True) for x in start]
        self.theirs = [torch.tensor(x, requires_grad=True) for x in start]

    def gradients(self, *, skip: tuple[int, ...] = ()) -> None:
        for i, (a, b) in enumerate(zip(self.ours, self.theirs, strict=True)):
            if i in skip:
                a.grad = b.grad = None
                continue
            g = self.rng.normal(size=a.shape).astype(a.dtype) * 10.0 ** self.rng.integers(-3, 2)
            a.grad, b.grad = cr.tensor(g), torch.tensor(g)

    def compare(self, tolerance: float = 1e-12) -> None:
        for a, b in zip(self.ours, self.theirs, strict=True):
            np.testing.assert_allclose(
                a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_pytorchs(name: str) -> None:
    make, make_torch, settings = OPTIMIZERS[name]
    twins = Twins()
    ours, theirs = make(twins.ours, **settings), make_torch(twins.theirs, **settings)
    for _ in range(200):
        twins.gradients()
        ours.step()
        theirs.step()
        twins.compare()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_missing_gradients_are_pytorchs(name: str) -> None:
    make, make_torch, settings = OPTIMIZERS[name]
    twins = Twins()
    ours, theirs = make(twins.ours, **settings), make_torch(twins.theirs, **settings)
    for step in range(40):
        twins.gradients(skip=((), (1,), (0, 1, 2, 3), (1, 3))[step % 4] if step > 4 else (2,))
        ours.step()
        theirs.step()
        twins.compare()


@pytest.mark.parametrize("name", ["sgd, dampened", "adam", "adamw"])
def test_groups_are_pytorchs(name: str) -> None:
    make, make_torch, settings = OPTIMIZERS[name]
    twins = Twins()

    def groups(params: list[Any]) -> list[dict[str, Any]]:
        return [{"params": params[:2], "weight_decay": 0.2}, {"params": params[2:], "lr": 0.3}]

    ours, theirs = (
        make(groups(twins.ours), **settings),
        make_torch(groups(twins.theirs), **settings),
    )
    for step in range(50):
        twins.gradients()
        if step == 25:
            for o in (ours, theirs):
                o.param_groups[1]["lr"] = 0.1
        ours.step()
        theirs.step()
        twins.compare()


def test_large_parameters_go_block_by_block_and_small_dtypes_apart() -> None:
    twins = Twins([(70_001,), (3,)])
    single = cr.tensor(np.ones(4, np.float32), requires_grad=True)
    ours = optim.AdamW([*twins.ours, single], lr=0.1)
    theirs = torch.optim.AdamW(twins.theirs, lr=0.1)
    for _ in range(3):
        twins.gradients()
        single.grad = cr.ones((4,))
        ours.step()
        theirs.step()
    twins.compare()
    assert single.dtype == np.float32
    assert (single < 1).all()


# --- What a step may change ----------------------------------------------------------------------


def _address(p: cr.Tensor) -> int:
    return p.detach().numpy().__array_interface__["data"][0]


def _step(optimizer: optim.Optimizer, p: cr.Tensor) -> None:
    p.grad = cr.ones(p.shape)
    optimizer.step()


def test_parameters_are_updated_in_place_where_nobody_looks() -> None:
    p = cr.zeros((3, 2)).requires_grad_()
    optimizer = optim.SGD([p], lr=1.0)
    _step(optimizer, p)
    places = set()
    for _ in range(5):
        _step(optimizer, p)
        places.add(_address(p))
    assert len(places) == 1
    assert (p == -6).all()


def _value(p: cr.Tensor) -> Any:
    return p.detach()


def _numpy(p: cr.Tensor) -> Any:
    return p.detach().numpy()


def _row(p: cr.Tensor) -> Any:
    return p.detach().numpy()[1:]


def _memory(p: cr.Tensor) -> Any:
    return memoryview(p.detach().numpy())


def _graph(p: cr.Tensor) -> Any:
    return p * cr.tensor(np.full(p.shape, 2.0, np.float32), requires_grad=True)


@pytest.mark.parametrize("look", [_value, _numpy, _row, _memory, _graph])
def test_what_somebody_holds_never_changes(look: Any) -> None:
    p = cr.ones((3, 2)).requires_grad_()
    optimizer = optim.SGD([p], lr=1.0)
    for _ in range(3):
        _step(optimizer, p)
    held = look(p)
    before = np.array(held.detach() if isinstance(held, cr.Tensor) else held)
    for _ in range(3):
        _step(optimizer, p)
    np.testing.assert_array_equal(held.detach() if isinstance(held, cr.Tensor) else held, before)
    assert (p == -5).all()


def test_a_graph_keeps_the_parameters_that_it_saw() -> None:
    p = cr.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=1.0)
    for _ in range(2):
        _step(optimizer, p)
    y = (p * p).sum()
    _step(optimizer, p)
    p.grad = None
    y.backward()
    assert p.grad is not None
    assert p.grad.tolist() == [-2.0, 0.0]


def test_assigned_values_are_taken_up() -> None:
    p = cr.zeros((2,)).requires_grad_()
    q = cr.zeros((2,)).requires_grad_()
    optimizer = optim.SGD([p, q], lr=1.0)
    for _ in range(3):
        p.grad, q.grad = cr.ones((2,)), cr.ones((2,))
        optimizer.step()
        p.data = np.array([10.0, 20.0])
    assert q.tolist() == [-3.0, -3.0]
    p.grad, q.grad = cr.ones((2,)), cr.ones((2,))
    optimizer.step()
    assert p.tolist() == [9.0, 19.0]


def test_assigned_values_are_taken_up_though_the_old_ones_are_held() -> None:
    p = cr.zeros((2,)).requires_grad_()
    optimizer = optim.SGD([p], lr=1.0)
    _step(optimizer, p)
    held = p.detach()  # as many references to the old array as before
    p.data = np.array([10.0, 20.0])
    _step(optimizer, p)
    assert p.tolist() == [9.0, 19.0]
    assert held.tolist() == [-1.0, -1.0]


def test_moments_of_rows_without_gradient_do_not_become_denormal() -> None:
    p = cr.zeros((4,)).requires_grad_()
    optimizer = optim.Adam([p], lr=0.1, betas=(0.85, 0.99))
    p.grad = cr.tensor([1.0, 1.0, 0.0, 1.0])
    optimizer.step()
    for _ in range(1000):
        p.grad = cr.tensor([0.0, 1.0, 0.0, 0.0])
        optimizer.step()
    moments = optimizer.state_dict()["state"][0]["exp_avg"]
    assert moments.tolist()[0] == 0
    assert moments[1] == pytest.approx(1, rel=1e-5)


def test_zero_grad() -> None:
    twins = Twins()
    optimizer = optim.SGD(twins.ours, lr=0.1)
    twins.gradients()
    optimizer.zero_grad()
    assert all(p.grad is None for p in twins.ours)
    before = [p.tolist() for p in twins.ours]
    optimizer.step()
    assert [p.tolist() for p in twins.ours] == before


# --- States --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgd, nesterov", "adam, decay", "adamw"])
def test_a_loaded_state_continues_exactly(name: str) -> None:
    make, _, settings = OPTIMIZERS[name]
    a, b = Twins(), Twins()
    first = make(a.ours, **settings)
    other = make(b.ours, lr=9.0)
    for step in range(30):
        a.gradients(skip=(1,) if step < 7 else ())
        first.step()
    first.param_groups[0]["lr"] = 0.03
    saved = first.state_dict()
    for p, q in zip(a.ours, b.ours, strict=True):
        q.data = p.data
    b.rng = a.rng
    other.load_state_dict({**saved, "state": {str(k): v for k, v in saved["state"].items()}})
    for _ in range(20):
        a.gradients()
        for p, q in zip(a.ours, b.ours, strict=True):
            q.grad = p.grad
        first.step()
        other.step()
    for p, q in zip(a.ours, b.ours, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())
    assert saved["state"][0]["step"] == 30
    assert saved["state"][1]["step"] == 23


def test_a_saved_state_stays_as_it_was() -> None:
    twins = Twins()
    optimizer = optim.Adam(twins.ours)
    twins.gradients()
    optimizer.step()
    saved = optimizer.state_dict()
    before = saved["state"][0]["exp_avg"].copy()
    twins.gradients()
    optimizer.step()
    np.testing.assert_array_equal(saved["state"][0]["exp_avg"], before)


def test_the_state_is_pytorchs() -> None:
    twins = Twins()
    ours, theirs = optim.Adam(twins.ours), torch.optim.Adam(twins.theirs)
    for _ in range(5):
        twins.gradients()
        ours.step()
        theirs.step()
    a, b = ours.state_dict()["state"], theirs.state_dict()["state"]
    for k in b:
        assert a[k]["step"] == b[k]["step"]
        for name in ("exp_avg", "exp_avg_sq"):
            np.testing.assert_allclose(a[k][name], b[k][name].numpy(), rtol=1e-12)


def test_foreign_states_are_refused_and_change_nothing() -> None:
    twins = Twins()
    adam = optim.Adam(twins.ours)
    twins.gradients()
    adam.step()
    saved = adam.state_dict()
    with pytest.raises(cr.ConfigError, match=r"groups of \[2\] parameters"):
        adam.load_state_dict({**saved, "param_groups": [{"params": [0, 1]}]})
    with pytest.raises(cr.ConfigError, match="SGD"):
        optim.SGD(twins.ours).load_state_dict(saved)
    state = {**saved["state"], 1: {**saved["state"][1], "exp_avg": np.zeros(6)}}
    with pytest.raises(cr.ConfigError, match=r"exp_avg of parameter 1 has shape \(6,\)"):
        adam.load_state_dict({**saved, "state": state})
    assert adam.state_dict()["state"][0]["step"] == 1


def _leaf(*shape: int) -> cr.Tensor:
    return cr.zeros(shape).requires_grad_()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: optim.Adam([]), "no parameters"),
        (lambda: optim.Adam([_leaf(2)], lr=-1.0), "lr is a number that is not negative, not -1.0"),
        (lambda: optim.Adam([_leaf(2)], lr=math.nan), "lr .* not nan"),
        (lambda: optim.Adam([_leaf(2)], betas=(1.0, 0.9)), "betas"),
        (lambda: optim.AdamW([_leaf(2)], eps=-1e-8), "eps"),
        (lambda: optim.SGD([_leaf(2)], nesterov=True), "nesterov"),
        (lambda: optim.SGD([{"params": [_leaf(2)], "beta": 1}]), "no setting beta"),
        (lambda: optim.SGD([cr.zeros((2,))]), "leaf that requires a gradient"),
        (lambda: optim.SGD([_leaf(2) * 2]), "leaf that requires a gradient"),
        (lambda: optim.SGD([_leaf(2)] * 2), "more than one place"),
        (lambda: optim.SGD([cr.tensor([1j], requires_grad=True)]), "real numbers, not complex"),
        (lambda: optim.Linear(0), "positive integer"),
        (lambda: optim.clip_grad_norm([_leaf(2)], -1.0), "max_norm"),
    ],
)
def test_settings_that_make_no_sense(make: Any, words: str) -> None:
    with pytest.raises(cr.ConfigError, match=words):
        make()


def test_a_learning_rate_that_became_nan_is_caught_at_the_step() -> None:
    p = _leaf(2)
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.param_groups[0]["lr"] = math.nan
    with pytest.raises(cr.ConfigError, match="lr"):
        _step(optimizer, p)


# --- Clipping ------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1e6, 0.0])
def test_clipping_is_pytorchs(max_norm: float, norm_type: float) -> None:
    twins = Twins()
    twins.gradients(skip=(1,))
    ours = optim.clip_grad_norm(twins.ours, max_norm, norm_type)
    theirs = torch.nn.utils.clip_grad_norm_(twins.theirs, max_norm, norm_type)
    assert ours == pytest.approx(theirs.item(), rel=1e-13)
    for a, b in zip(twins.ours, twins.theirs, strict=True):
        if a.grad is None:
            assert b.grad is None
        else:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)
            assert a.grad.dtype == a.dtype


def test_clipping_of_what_is_not_finite() -> None:
    p = _leaf(2)
    p.grad = cr.tensor([math.inf, 1.0])
    with pytest.raises(cr.GradientError, match="norm of the gradients is inf"):
        optim.clip_grad_norm(p, 1.0, error_if_nonfinite=True)
    assert optim.clip_grad_norm([p], 1.0) == math.inf
    assert p.grad is not None
    assert math.isnan(p.grad.tolist()[0])
    assert p.grad.tolist()[1] == 0
    assert optim.clip_grad_norm([_leaf(2)], 1.0) == 0


def test_clipping_of_float32_does_not_overflow() -> None:
    p = _leaf(2)
    p.grad = cr.tensor([3e30, 4e30])
    assert optim.clip_grad_norm(p, 1.0) == pytest.approx(5e30)
    assert p.grad is not None
    np.testing.assert_allclose(p.grad.numpy(), [0.6, 0.8], rtol=1e-6)


# --- Schedules -----------------------------------------------------------------------------------


def _torch_rates(make: Any, steps: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    scheduler = make(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


T = torch.optim.lr_scheduler
SCHEDULES = {
    "linear": (optim.Linear(10, 0.5, 0.1), lambda o: T.LinearLR(o, 0.5, 0.1, 10)),
    "warm-up": (optim.WarmUp(5), lambda o: T.LambdaLR(o, lambda s: min((s + 1) / 5, 1))),
    "constant": (optim.Constant(0.5), lambda o: T.ConstantLR(o, 0.5, 1000)),
    "then": (
        optim.WarmUp(4).then(optim.Linear(8), after=4),
        lambda o: T.LambdaLR(o, lambda s: (s + 1) / 4 if s < 4 else max(1 - (s - 4) / 8, 0)),
    ),
    "product": (
        optim.WarmUp(4) * optim.Linear(20),
        lambda o: T.LambdaLR(o, lambda s: min((s + 1) / 4, 1) * max(1 - s / 20, 0)),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_pytorchs(name: str) -> None:
    schedule, make = SCHEDULES[name]
    p = _leaf(1)
    optimizer = optim.SGD([p], lr=0.3)
    scheduler = optim.Scheduler(optimizer, schedule)
    rates = []
    for _ in range(25):
        rates.append(optimizer.param_groups[0]["lr"])
        _step(optimizer, p)
        scheduler.step()
    np.testing.assert_allclose(rates, _torch_rates(make, 25), rtol=1e-12, atol=1e-15)


def test_cosine_is_pytorchs_until_its_end_and_then_stays() -> None:
    ours = [0.3 * optim.Cosine(12, 0.1)(s) for s in range(20)]
    theirs = _torch_rates(lambda o: T.CosineAnnealingLR(o, 12, eta_min=0.03), 13)
    np.testing.assert_allclose(ours[:13], theirs, rtol=1e-12)
    np.testing.assert_allclose(ours[13:], 0.03, rtol=1e-12)


def test_a_scheduler_continues_where_it_was() -> None:
    def make() -> tuple[optim.SGD, optim.Scheduler]:
        groups = [{"params": [_leaf(1)]}, {"params": [_leaf(1)], "lr": 0.5}]
        optimizer = optim.SGD(groups, lr=0.1)
        return optimizer, optim.Scheduler(optimizer, optim.Cosine(10))

    a, scheduler = make()
    for _ in range(4):
        scheduler.step()
    b, other = make()
    other.load_state_dict(scheduler.state_dict())
    scheduler.step()
    other.step()
    assert [g["lr"] for g in a.param_groups] == [g["lr"] for g in b.param_groups]
    assert a.param_groups[1]["lr"] == pytest.approx(5 * a.param_groups[0]["lr"])
    with pytest.raises(cr.ConfigError, match="1 groups"):
        other.load_state_dict({"step_count": 0, "base_lrs": [0.1]})
