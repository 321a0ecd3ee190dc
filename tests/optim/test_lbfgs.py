"""L-BFGS and its line search: PyTorch's parameters after each step, in as many evaluations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim
from tests.sampling import sampled

torch = pytest.importorskip("torch")


def rosenbrock(x: Any) -> Any:
    """Of Rosenbrock 1960: a long bent valley."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def quartic(x: Any) -> Any:
    return ((x - 1) ** 4).sum() + (x[0] * x[1] - 2) ** 2


def waves(x: Any) -> Any:
    """With several minima: the search has to go back."""
    return (10 * ((x - 0.5) * (x + 1.5) * (x - 2)) ** 2 / (1 + x**4) + x * x).sum()


def steep(x: Any) -> Any:
    return ((40 * x - 3).exp() + (-x).exp()).sum()


LOSSES: list[Callable[[Any], Any]] = [rosenbrock, quartic, waves, steep]
PRECISE: dict[str, Any] = {"line_search_fn": "strong_wolfe", "tolerance_change": 1e-14}
SETTINGS: list[dict[str, Any]] = [
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "lr": 0.3, "history_size": 3, "max_iter": 7},
    {"line_search_fn": "strong_wolfe", "max_eval": 5, "lr": 5.0},
    {"lr": 1e-3},
    {"lr": 1e-3, "max_iter": 4, "history_size": 2},
]


def stepper(optimizer: Any, params: list[Any], loss: Callable[[Any], Any], join: Any) -> Any:
    calls = [0]

    def closure() -> Any:
        calls[0] += 1
        optimizer.zero_grad()
        value = loss(join(params))
        value.backward()
        return value

    return lambda: (float(optimizer.step(closure).detach()), calls[0])


def ours(params: list[Any]) -> Any:
    return cr.concat([p.reshape(-1) for p in params])


def theirs(params: list[Any]) -> Any:
    return torch.cat([p.reshape(-1) for p in params])


@sampled(one_in=3)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_steps_are_pytorchs(loss: Callable[[Any], Any], settings: dict[str, Any]):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        start = [rng.normal(size=(2, 2)), rng.normal(size=3)]
        a = [cr.tensor(x, requires_grad=True) for x in start]
        b = [torch.tensor(x, requires_grad=True) for x in start]
        mine = stepper(optim.LBFGS(a, **settings), a, loss, ours)
        other = stepper(torch.optim.LBFGS(b, **settings), b, loss, theirs)
        for _ in range(4):
            got, wanted = mine(), other()
            if not np.isfinite(wanted[0]) or abs(wanted[0]) > 1e9:
                break  # fixed steps may run away
            assert got[1] == wanted[1], "another number of evaluations"
            assert got[0] == pytest.approx(wanted[0], rel=1e-6, abs=1e-9)
        else:
            for p, q in zip(a, b, strict=True):
                np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5)


def test_the_search_finds_the_minimum():
    x = cr.tensor(np.array([-1.2, 1.0]), requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=100, **PRECISE)
    stepper(optimizer, [x], rosenbrock, ours)()
    np.testing.assert_allclose(x.detach().numpy(), [1.0, 1.0], rtol=1e-6)


def test_a_loaded_state_continues_exactly():
    params = [cr.tensor(np.array([-1.2, 1.0]), requires_grad=True) for _ in range(2)]
    first, other = [optim.LBFGS([p], 0.5, 5, line_search_fn="strong_wolfe") for p in params]
    stepper(first, params[:1], rosenbrock, ours)()
    params[1].data = params[0].detach()
    other.load_state_dict(first.state_dict())
    losses = [
        stepper(o, [p], rosenbrock, ours)() for o, p in zip((first, other), params, strict=True)
    ]
    assert losses[0] == losses[1]
    assert params[0].tolist() == params[1].tolist()
    with pytest.raises(cr.ConfigError, match="LBFGS needs"):
        other.load_state_dict({**first.state_dict(), "state": {0: {"step": 1}}})


def test_the_closure_may_be_compiled_and_the_step_may_not():
    x = cr.tensor(np.array([-1.2, 1.0]), requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=60, **PRECISE)

    @cr.jit
    def closure() -> Any:
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(x.detach().numpy(), [1.0, 1.0], rtol=1e-5)
    with pytest.raises(cr.TraceError, match="Compile the closure"):
        cr.jit(lambda: optimizer.step(closure))()
    with pytest.raises(cr.ConfigError, match=r"step\(closure\) needs a function"):
        optimizer.step()
