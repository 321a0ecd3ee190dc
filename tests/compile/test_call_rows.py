"""What machine code notes of the calls of a loop is what Python would note of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim
from chainrule.compile.runtime.call.steady_call import Steady
from chainrule.compile.runtime.many_runs import ManyArguments

CALLS = 40


def _int(k: int, group: dict[str, Any]) -> None:
    group["lr"] = k % 2


SETTINGS: dict[str, tuple[Callable[[int, dict[str, Any]], None], bool]] = {
    "the same": (lambda k, group: None, True),
    "floats": (lambda k, group: group.update(lr=0.1 / (1 + k)), True),
    "ints": (_int, True),
    "bools": (lambda k, group: group.update(eps=bool(k % 2)), True),
    "minus one": (lambda k, group: group.update(eps=-1.0 if k > 30 else 1.0), True),
    "NumPy's": (lambda k, group: group.update(lr=np.float64(0.1) / (1 + k)), False),
    "a pair": (lambda k, group: group.update(betas=(0.5, 0.9 + k / 1000)), True),
    "a list": (lambda k, group: group.update(betas=[0.5, 0.9 + k / 1000]), False),
    "switched on": (lambda k, group: group.update(weight_decay=0.0 if k < 20 else 0.1), True),
}
"""What is done with an optimizer's settings before call k; whether machine code notes it."""


def trained(change: Callable[[int, dict[str, Any]], None], how: str) -> tuple[Any, Any]:
    """A parameter after some steps, each with data of another size, and the compiled step."""
    w = cr.tensor(np.arange(1, 4) / 7, requires_grad=True)
    adam = optim.Adam([w], lr=0.1, eps=1.0)

    def step(x: Any) -> Any:
        loss = ((x @ w - 1) ** 2).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    def batches() -> Any:
        for k in range(CALLS):
            change(k, adam.param_groups[0])
            yield (cr.tensor(np.full((2 + k % 3, 3), 1.0 + k % 5)),)

    f = cr.jit(step, dynamic={"x": ("B", None)})
    if how == "loop":
        f.loop(batches())
    else:
        for batch in batches():
            (step if how == "eager" else f)(*batch)
    return w.detach().numpy().copy(), f


@pytest.mark.parametrize("name", [n for n in SETTINGS if n not in ("minus one", "bools")])
def test_settings_are_those_of_each_call(name: str):
    (got, _), (want, _) = (trained(SETTINGS[name][0], how) for how in ("loop", "eager"))
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("name", SETTINGS)
def test_what_machine_code_notes(name: str):
    change, noted = SETTINGS[name]
    _, f = trained(lambda k, group: None, "calls")
    steady = f._latest
    assert isinstance(steady, Steady)
    settings = vars(steady)["_settings"]
    group: Any = settings.numbers[0].entry.holder
    calls = ManyArguments(1, settings.numbers, vars(steady)["_gate"].words)
    args = (cr.tensor(np.ones((2, 3))),)
    for k in range(5, CALLS):
        change(k, group)
        truths = [bool(x) is t for (i, t) in settings.truths for x in [settings.read()[i]]]
        assert (calls.collect(args) >= 0) is (noted and all(truths))
        if noted and all(truths):
            (arrays,), found, _ = calls.columns()
            assert arrays[-1] == id(args[0].value)
            assert found[-1].tolist() == [float(x) for x in settings.read()]
            calls.drop()


def test_an_int_that_is_no_float_raises_as_in_python():
    _, f = trained(lambda k, group: None, "calls")
    settings, gate = (vars(f._latest)[name] for name in ("_settings", "_gate"))
    calls = ManyArguments(1, settings.numbers, gate.words)
    settings.numbers[0].entry.holder["lr"] = 10**400
    with pytest.raises(OverflowError, match="too large"):
        calls.collect((cr.tensor(np.ones((2, 3))),))
    assert len(calls) == 0


@pytest.mark.parametrize("what", [(), (1,), [0], None, 3, (cr.tensor([1.0]), 2)])
def test_what_are_no_arguments_is_not_noted(what: Any):
    _, f = trained(lambda k, group: None, "calls")
    settings, gate = (vars(f._latest)[name] for name in ("_settings", "_gate"))
    calls = ManyArguments(1, settings.numbers, gate.words)
    assert calls.collect(what) == -1 and len(calls) == 0


def test_more_calls_than_there_are_rows_at_first():
    """Arrays live as long as they are needed, though nobody else keeps them."""
    f = cr.jit(lambda x: x * 2 + 1)
    got = f.loop((cr.tensor(float(k)),) for k in range(5000)).numpy()
    np.testing.assert_array_equal(got, 2 * np.arange(5000.0, dtype=np.float32) + 1)


def test_calls_that_stop_being_alike():
    """Sizes that are new, and recording that is switched off, between calls."""
    f = cr.jit(lambda x: (x * x).sum(), dynamic={"x": ("T",)})

    def batches() -> Any:
        for k in range(60):
            with cr.no_grad() if k % 20 > 15 else cr.enable_grad():
                yield (cr.tensor(np.full(1 + k // 10, float(k))),)

    want = [k * k * (1.0 + k // 10) for k in range(60)]
    np.testing.assert_allclose(f.loop(batches()).numpy(), want)


def test_which_settings_have_changed():
    """Equal numbers are others if they are other objects; lists are always asked in Python."""
    _, f = trained(lambda k, group: None, "calls")
    settings = vars(f._latest)["_settings"]
    names = [n.name for n in settings.numbers]
    group: Any = settings.numbers[0].entry.holder

    def found() -> set[str]:
        bits = settings.changed(None)
        return {name for k, name in enumerate(names) if bits >> k & 1}

    assert found() == set()
    group["lr"] = float("0.1")
    assert found() == {"lr"}
    assert settings.take_over(settings.changed(None)) and found() == set()
    group["eps"], group["betas"] = 0.5, (0.5, group["betas"][1])
    assert found() == {"eps", "betas 0"}
    assert settings.take_over(settings.changed(None)) and found() == set()
    assert [n.array.item() for n in settings.numbers] == list(settings.read())
    group["betas"] = list(group["betas"])
    assert found() == {"betas 0", "betas 1"} and settings.take_over(settings.changed(None))
    assert found() == {"betas 0", "betas 1"}
    group["weight_decay"] = 0.5  # which the trace was told is 0
    assert not settings.take_over(settings.changed(None))


def test_a_setting_of_a_variant_that_another_call_took_over():
    """What changed is asked of the variant, not of what one of its short ways saw."""
    _, f = trained(lambda k, group: None, "calls")
    settings = vars(f._latest)["_settings"]
    number = next(n for n in settings.numbers if n.name == "lr")
    number.entry.holder["lr"] = other = float("0.3")
    assert settings.changed(None) and number.fits(other) and not settings.changed(None)
