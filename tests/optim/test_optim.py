"""Optimizers: PyTorch's numbers over many steps; what a step may and may not change; schedules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim
from tests.optim.optimizer_twins import SHAPES, Twins, leaf, one_step, pair
from tests.optim.optimizer_twins import exact as exact
from tests.optim.optimizers import ROWS, takes

torch = pytest.importorskip("torch")


def _shapes(name: str) -> list[tuple[int, ...]]:
    return [s for s in [*SHAPES, (6, 2), (4, 3)] if takes(name, s)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ROWS)
def test_steps_are_pytorchs(name: str, dtype: Any) -> None:
    twins = Twins(_shapes(name), dtype)
    ours, theirs = pair(name, twins.ours, twins.theirs)
    for _ in range(80 if dtype == np.float64 else 10):
        twins.gradients()
        ours.step()
        theirs.step()
        twins.compare(1e-12 if dtype == np.float64 else 2e-5)


@pytest.mark.parametrize("name", ROWS)
def test_missing_gradients_are_pytorchs(name: str) -> None:
    shapes = _shapes(name)
    twins = Twins(shapes if len(shapes) > 3 else 2 * shapes)
    ours, theirs = pair(name, twins.ours, twins.theirs)
    for step in range(40):
        twins.gradients(skip=((), (1,), (0, 1, 2, 3), (1, 3))[step % 4] if step > 4 else (2,))
        ours.step()
        theirs.step()
        twins.compare()


@pytest.mark.parametrize("name", [n for n in ROWS if ROWS[n][0] != "Rprop"])
def test_groups_are_pytorchs(name: str) -> None:
    twins = Twins([s for s in [(3, 2), (2, 2), *SHAPES] if takes(name, s)])

    def groups(params: list[Any]) -> list[dict[str, Any]]:
        return [{"params": params[:2], "weight_decay": 0.2}, {"params": params[2:], "lr": 0.3}]

    ours, theirs = pair(name, groups(twins.ours), groups(twins.theirs))
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


def test_parameters_are_updated_in_place_where_nobody_looks() -> None:
    p = cr.zeros((3, 2)).requires_grad_()
    optimizer = optim.SGD([p], lr=1.0)
    one_step(optimizer, p)
    places = set()
    for _ in range(5):
        one_step(optimizer, p)
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
        one_step(optimizer, p)
    held = look(p)
    before = np.array(held.detach() if isinstance(held, cr.Tensor) else held)
    for _ in range(3):
        one_step(optimizer, p)
    np.testing.assert_array_equal(held.detach() if isinstance(held, cr.Tensor) else held, before)
    assert (p == -5).all()


def test_a_graph_keeps_the_parameters_that_it_saw() -> None:
    p = cr.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=1.0)
    for _ in range(2):
        one_step(optimizer, p)
    y = (p * p).sum()
    one_step(optimizer, p)
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
    one_step(optimizer, p)
    held = p.detach()  # as many references to the old array as before
    p.data = np.array([10.0, 20.0])
    one_step(optimizer, p)
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


@pytest.mark.parametrize("name", ROWS)
def test_a_loaded_state_continues_exactly(name: str) -> None:
    cls, settings = ROWS[name]
    make, shapes = getattr(optim, cls), _shapes(name)
    a, b = Twins(shapes), Twins(shapes)
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


@pytest.mark.parametrize("name", ROWS)
def test_the_state_is_pytorchs(name: str) -> None:
    twins = Twins(_shapes(name))
    ours, theirs = pair(name, twins.ours, twins.theirs)
    for _ in range(5):
        twins.gradients()
        ours.step()
        theirs.step()
    a, b = ours.state_dict()["state"], theirs.state_dict()["state"]
    assert a.keys() == b.keys() or not b  # plain SGD remembers nothing, not even steps
    for k, wanted in b.items():
        assert {"step", *wanted} == a[k].keys()
        for part, value in wanted.items():
            assert np.shape(a[k][part]) == tuple(np.shape(value))
            np.testing.assert_allclose(a[k][part], np.asarray(value), rtol=1e-9, err_msg=part)


def test_a_setting_that_needs_more_memory_may_be_turned_on() -> None:
    twins = Twins()
    optimizer = optim.RMSprop(twins.ours)
    for momentum, names in ((0.0, {"square_avg"}), (0.9, {"square_avg", "momentum_buffer"})):
        optimizer.param_groups[0]["momentum"] = momentum
        twins.gradients()
        optimizer.step()
        assert optimizer.state_dict()["state"][0].keys() == names | {"step"}


def test_a_closure_computes_the_gradients() -> None:
    p = leaf(2)
    optimizer = optim.SGD([p], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((p - 1) ** 2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    assert p.tolist() == [1.0, 1.0]


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


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: optim.Adam([]), "no parameters"),
        (lambda: optim.Adam([leaf(2)], lr=-1.0), "lr is a number that is not negative, not -1.0"),
        (lambda: optim.Adam([leaf(2)], lr=math.nan), "lr .* not nan"),
        (lambda: optim.Adam([leaf(2)], betas=(1.0, 0.9)), "betas"),
        (lambda: optim.AdamW([leaf(2)], eps=-1e-8), "eps"),
        (lambda: optim.Adam([leaf(2)], amsgrad=1), "amsgrad"),
        (lambda: optim.Adafactor([leaf(2)], beta2_decay=0.8), "beta2_decay .* not positive"),
        (lambda: optim.Adafactor([leaf(2)], d=0.5), "d is .* at least 1"),
        (lambda: optim.Muon([leaf(2)]), r"2 axes, not \(2,\); give others to AdamW"),
        (lambda: optim.Muon([leaf(2, 2)], adjust_lr_fn="none"), "one of original, match"),
        (lambda: optim.Muon([leaf(2, 2)], ns_steps=100), "ns_steps"),
        (lambda: optim.Rprop([leaf(2)], etas=(1.2, 0.5)), "etas"),
        (lambda: optim.Adadelta([leaf(2)], rho=1.5), "rho is a number from 0 to 1"),
        (lambda: optim.SGD([leaf(2)], nesterov=True), "nesterov"),
        (lambda: optim.SGD([{"params": [leaf(2)], "beta": 1}]), "no setting beta"),
        (lambda: optim.SGD([cr.zeros((2,))]), "leaf that requires a gradient"),
        (lambda: optim.SGD([leaf(2) * 2]), "leaf that requires a gradient"),
        (lambda: optim.SGD([leaf(2)] * 2), "more than one place"),
        (lambda: optim.SGD([cr.tensor([1j], requires_grad=True)]), "real numbers, not complex"),
        (lambda: optim.LBFGS([leaf(2)], max_iter=0), "max_iter is a positive integer"),
        (lambda: optim.LBFGS([leaf(2)], line_search_fn="armijo"), "'strong_wolfe' or None"),
        (lambda: optim.LBFGS([{"params": [leaf(1)]}] * 2), "one place|one group"),
    ],
)
def test_settings_that_make_no_sense(make: Any, words: str) -> None:
    with pytest.raises(cr.ConfigError, match=words):
        make()


def test_a_learning_rate_that_became_nan_is_caught_at_the_step() -> None:
    p = leaf(2)
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.param_groups[0]["lr"] = math.nan
    with pytest.raises(cr.ConfigError, match="lr"):
        one_step(optimizer, p)
