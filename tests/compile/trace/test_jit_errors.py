"""What `jit` cannot compile: every error names the line, says why, and what to do instead."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from tests.compile.trace.test_jit import numbers

HERE = re.escape(__file__)
kept: list[Any] = []
stream = cr.Generator(0)
state = numbers(3)


class Model(nn.Module):
    """Remembers its last value where it must not."""

    last: Any = None

    def forward(self, x: Any) -> Any:
        self.last = x * 2
        return self.last.sum()


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a branch": (
        lambda x: x if x.sum() > 0 else -x,
        rf"bool\(\) at {HERE}:\d+ of a value that is not known yet: bool\[\], made at {HERE}:\d+"
        r", .*Use where\(condition, a, b\) instead",
    ),
    "item": (lambda x: x * x.sum().item(), rf"item\(\) at {HERE}:\d+ .*take numbers out"),
    "float": (lambda x: float(x[0]), rf"float\(\) at {HERE}:\d+ .*static"),
    "an array": (lambda x: np.asarray(x), rf"numpy\(\) at {HERE}:\d+"),
    "an index": (lambda x: [1, 2, 3][x[0].astype(np.int64)], rf"an index at {HERE}:\d+"),
    "printing a number": (lambda x: f"{x.sum():.3f}", rf"item\(\) at {HERE}:\d+"),
    "a mask as an index": (lambda x: x[x > 0], r"shape that depends on values; use where"),
    "unique": (lambda x: cr.unique_values(x), rf"unique at {HERE}:\d+: how many values .* call it"),
    "nonzero": (lambda x: cr.nonzero(x), rf"nonzero at {HERE}:\d+: how many .* call it"),
    "a number of the state": (
        lambda x: x * state.sum().item(), rf"item\(\) at {HERE}:\d+ of a value that is not known",
    ),
    "the state itself as a number": (
        lambda x: x * state.tolist()[0],
        rf"tolist\(\) of float32 \(3,\) at {HERE}:\d+: a tensor that a compiled function "
        r"reaches by itself may have other values at later calls",
    ),
    "Python's random": (lambda x: x * random.random(), r"draws from random: .*chainrule Gen"),
    "NumPy's random": (
        lambda x: x * float(np.random.rand()), r"draws from numpy\.random: .* chainrule Generator"
    ),
    "a choice": (lambda x: x[stream.choice([0.5, 0.5])], r"asked for a choice .* Do it outside"),
    "a seed": (lambda x: (stream.manual_seed(1), x)[1], r"seeded, set or asked .* Do it outside"),
    "a value stored in a list": (
        lambda x: kept.append(x * 2),
        rf"<lambda> stores float32 \(3,\), made at {HERE}:\d+, where it outlives the .*Return",
    ),
    "a value stored in a module": (Model(), rf"Model stores float32 \(3,\), made at {HERE}:\d+"),
    "an argument stored": (lambda x: kept.append(x), r"stores float32 \(3,\)"),
    "backward twice": (
        lambda x: _twice(x), r"cannot go back through .* a second time: say retain_graph=True"
    ),
}  # fmt: skip


def _twice(x: Any) -> None:
    v = cr.tensor(1.0, requires_grad=True)
    loss = (x * v * v).sum()
    loss.backward()
    loss.backward()


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_compiled(name: str):
    f, message = WRONG[name]
    before, python, numpy = state.tolist(), random.getstate(), np.random.get_state()
    with pytest.raises(cr.ChainruleError, match=message):
        cr.jit(f)(numbers(3))
    assert state.tolist() == before
    assert state.node is None
    kept.clear()
    random.setstate(python)
    np.random.set_state(numpy)


def test_the_same_functions_run_without_jit():
    """So that it is `jit` that refuses them."""
    for name, (f, _) in WRONG.items():
        if name != "backward twice":
            f(numbers(3))
    kept.clear()


def parameter() -> cr.Tensor:
    return numbers(3).requires_grad_()


def test_a_schedule_steps_outside():
    opt = optim.SGD([parameter()], lr=0.1)
    schedule = optim.Scheduler(opt, optim.Linear(10))
    with pytest.raises(cr.TraceError, match=r"call it outside, after the compiled step"):
        cr.jit(schedule.step)()
    assert schedule.step_count == 0


def test_a_grad_scaler_stays_outside():
    w, scaler = parameter(), cr.GradScaler()
    with pytest.raises(cr.TraceError, match=r"call scale, backward, step and update outside"):
        cr.jit(lambda: scaler.scale(w.sum()).backward())()


def test_the_norm_is_looked_at_outside():
    w = parameter()

    @cr.jit
    def f() -> Any:
        w.sum().backward()
        return optim.clip_grad_norm([w], 1.0, error_if_nonfinite=True)

    with pytest.raises(cr.TraceError, match="return the norm, and look at it outside"):
        f()
    assert w.grad is None


def test_a_backward_into_an_argument():
    x = parameter()
    with pytest.raises(cr.TraceError, match=r"reaches leaf 0 of its arguments.*give it detached"):
        cr.jit(lambda v: (v * v).sum().backward())(x)
    assert x.grad is None


def test_settings_that_the_function_changes():
    """Each call finds what the one before left, as without `jit`."""
    found: list[list[float]] = []
    for compiled in (False, True):
        w = parameter()
        opt = optim.SGD([w], lr=0.1, momentum=0.9, nesterov=True)

        def f(w: cr.Tensor = w, opt: optim.SGD = opt) -> None:
            w.sum().backward()
            opt.step()
            opt.param_groups[0]["nesterov"] = False

        step = cr.jit(f) if compiled else f
        for _ in range(4):
            step()
        found.append(w.tolist())
    np.testing.assert_allclose(*found, rtol=1e-12)


def test_settings_are_checked_when_they_change():
    w = parameter()
    opt = optim.SGD([w], lr=0.1)

    @cr.jit
    def step() -> None:
        opt.zero_grad()
        w.sum().backward()
        opt.step()

    step()
    before = w.tolist()
    opt.param_groups[0]["lr"] = -1.0
    with pytest.raises(cr.ConfigError, match=r"lr is a number that is not negative, not -1.0"):
        step()
    assert w.tolist() == before
    opt.param_groups[0]["lr"] = 0.5
    step()
    np.testing.assert_allclose(w.tolist(), np.array(before) - 0.5, rtol=1e-6)


def test_arguments_that_cannot_be():
    with pytest.raises(cr.DtypeError, match=r"neither an array nor hashable.*as a tuple"):
        cr.jit(lambda x: x)(set[int]())
    with pytest.raises(cr.DtypeError, match="holds text; a tensor holds numbers"):
        cr.jit(lambda x: x)(np.array(["a"]))
    with pytest.raises(cr.DtypeError, match="jit: f must be a function or None, not int 3"):
        cr.jit(3)  # type: ignore[arg-type]


def test_batches_whose_results_cannot_be_stacked() -> None:
    f = cr.jit(lambda x: (x * 2, x.sum()))
    batches = [(cr.tensor(np.ones(n)),) for n in (3, 3, 3, 2)]
    message = r"batch 3 returns float64 \(2,\), float64 \(\), the first one float64 \(3,\)"
    with pytest.raises(cr.ShapeError, match=message):
        f.loop(batches)
    with pytest.raises(cr.ConfigError, match="there is no batch"):
        f.loop([])
    with pytest.raises(cr.ConfigError, match=r"not a tensor: write \(x,\)"):
        f.loop([cr.tensor([1.0])])
