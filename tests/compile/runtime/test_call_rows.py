"""What machine code notes of the calls of a loop is what Python would note of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from sys import getrefcount
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import optim
from chainrule.compile.runtime.call.steady_call import Steady
from chainrule.compile.runtime.many_runs import ManyArguments
from chainrule.engine.graph import is_recording
from chainrule.optim.update_rule import NotNegative

CALLS = 40


def _int(k: int, group: dict[str, Any]) -> None:
    group["lr"] = k % 2


SETTINGS: dict[str, tuple[Callable[[int, dict[str, Any]], None], bool]] = {
    "the same": (lambda k, group: None, True),
    "floats": (lambda k, group: group.update(lr=0.1 / (1 + k)), True),
    "ints": (_int, True),
    "bools": (lambda k, group: group.update(eps=bool(k % 2)), True),
    "minus one": (lambda k, group: group.update(eps=-1.0 if k > 30 else 1.0), True),
    "NumPy's": (lambda k, group: group.update(lr=np.float64(0.1) / (1 + k)), True),
    "a pair": (lambda k, group: group.update(betas=(0.5, 0.9 + k / 1000)), True),
    "a list": (lambda k, group: group.update(betas=[0.5, 0.9 + k / 1000]), False),
    "switched on": (lambda k, group: group.update(weight_decay=0.0 if k < 20 else 0.1), True),
}
"""What is done with an optimizer's settings before call k; whether machine code notes it."""


def note(calls: ManyArguments, args: Any) -> int:
    """Note one call; the number of its sizes, or -1."""
    calls.begin(is_recording())
    calls.collect_all(iter([args]))
    return calls.key


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
        values = [n.read() for n in settings.numbers]
        truths = [n.truth in (None, bool(x)) for n, x in zip(settings.numbers, values, strict=True)]
        assert (note(calls, args) >= 0) is (noted and all(truths))
        if noted and all(truths):
            *_, (array, *found, _) = calls.rows({note(calls, args): 0})[-1]
            assert array == id(args[0].value)
            assert np.array(found).view(np.float64).tolist() == [*map(float, values)]
            calls.drop()
            calls.drop()


def test_an_int_that_is_no_float_raises_as_in_python():
    _, f = trained(lambda k, group: None, "calls")
    settings, gate = (vars(f._latest)[name] for name in ("_settings", "_gate"))
    calls = ManyArguments(1, settings.numbers, gate.words)
    settings.numbers[0].entry.holder["lr"] = 10**400
    with pytest.raises(OverflowError, match="too large"):
        note(calls, (cr.tensor(np.ones((2, 3))),))
    assert len(calls) == 0


@pytest.mark.parametrize("what", [(), (1,), [0], None, 3, (cr.tensor([1.0]), 2)])
def test_what_are_no_arguments_is_not_noted(what: Any):
    _, f = trained(lambda k, group: None, "calls")
    settings, gate = (vars(f._latest)[name] for name in ("_settings", "_gate"))
    calls = ManyArguments(1, settings.numbers, gate.words)
    assert note(calls, what) == -1 and len(calls) == 0


def _noting() -> tuple[ManyArguments, dict[str, Any], Any]:
    """What notes calls of a step that was called before, the optimizer's settings, the step."""
    _, f = trained(lambda k, group: None, "calls")
    settings, gate = (vars(f._latest)[name] for name in ("_settings", "_gate"))
    calls = ManyArguments(1, settings.numbers, gate.words)
    calls.begin(is_recording())
    return calls, settings.numbers[0].entry.holder, f


def _of_size(n: int) -> tuple[Any]:
    return (cr.tensor(np.ones((n, 3))),)


def test_calls_are_noted_up_to_one_that_is_for_python():
    calls, _, _step = _noting()
    sizes = [2, 3, 2, 5, 3, 2]
    batches = iter([*map(_of_size, sizes), None, _of_size(2)])
    keys: list[int] = []
    for count in (1, 2, 4):  # sizes that are new are noted, and given
        assert calls.collect_all(batches)[0].shape == (sizes[count - 1], 3)
        assert len(calls) == count and calls.key >= 0 and not calls.has_ended
        keys.append(calls.key)
        calls.know(keys[-1], len(keys) - 1)
    assert calls.collect_all(batches) is None  # which is no call
    assert len(calls) == 6 and calls.key == -1 and not calls.has_ended
    assert calls.collect_all(batches) is None
    assert len(calls) == 7 and calls.has_ended
    (rows,) = calls.rows({key: n for n, key in enumerate(keys)})
    assert (~rows[:, -1]).tolist() == [0, 1, 0, 2, 1, 0, 0]


def test_calls_between_which_recording_changes_are_not_noted():
    calls, _, _step = _noting()
    calls.know(note(calls, _of_size(2)), 0)

    def batches() -> Any:
        yield _of_size(2)
        with cr.no_grad():
            yield _of_size(2)

    assert calls.collect_all(batches()) is not None
    assert len(calls) == 2 and calls.key == -1


def test_what_is_raised_between_calls_and_by_settings():
    calls, group, _step = _noting()
    calls.know(note(calls, _of_size(2)), 0)

    def batches(error: Exception) -> Any:
        yield _of_size(2)
        raise error

    with pytest.raises(ZeroDivisionError, match="now"):
        calls.collect_all(batches(ZeroDivisionError("now")))
    assert len(calls) == 2
    group["lr"] = 10**400
    args = _of_size(2)
    count = getrefcount(args)
    with pytest.raises(OverflowError, match="too large"):
        calls.collect_all(iter([args]))
    assert getrefcount(args) == count
    assert len(calls) == 2


def test_batches_are_let_go():
    calls, _, _step = _noting()
    calls.know(note(calls, _of_size(2)), 0)
    args = _of_size(2)
    count = getrefcount(args)
    assert calls.collect_all(args for _ in range(5)) is None
    assert getrefcount(args) == count and len(calls) == 6


def test_a_setting_beside_a_key_that_cannot_be_compared():
    """What a key raises when it is compared is nothing that was asked for."""

    class Odd:
        def __hash__(self) -> int:
            return hash("lr")

        def __eq__(self, other: object) -> bool:
            raise ValueError("not this one")

    calls, group, _step = _noting()
    assert note(calls, _of_size(2)) >= 0
    values = dict(group)
    group.clear()
    group[Odd()] = 0
    assert note(calls, _of_size(2)) == -1  # the key is found first, and raises
    group.clear()
    group.update(values)
    assert note(calls, _of_size(2)) >= 0


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


def test_results_of_two_sizes_are_not_stacked():
    """Sizes at which the function was called before, so that the program is known to hold."""
    f = cr.jit(lambda x: x * 2, dynamic={"x": ("T",)})
    sizes = [2, 5, 2, 5, 2]
    for n in sizes:
        f(_ones(n))
    with pytest.raises(cr.ShapeError, match=r"batch 3 returns float64 \(5,\)"):
        f.loop([(_ones(n),) for n in (2, 2, 2, 5, 2)])


def _ones(n: int) -> Any:
    return cr.tensor(np.ones(n))


TAKEN: dict[str, tuple[dict[str, Any], bool | None]] = {
    "the same": ({}, True),
    "a float": ({"lr": 0.25}, True),
    "an equal float": ({"lr": float("0.1")}, True),
    "two floats": ({"lr": 0.0, "eps": 0.5}, True),
    "an int": ({"lr": 1}, False),
    "NumPy's": ({"lr": np.float64(0.5)}, True),
    "a pair": ({"betas": (0.5, 0.75)}, False),
    "a list": ({"betas": [0.5, 0.75]}, False),
    "a number that is not taken": ({"lr": -0.5}, None),
    "an infinite one": ({"lr": float("inf")}, None),
    "none": ({"lr": float("nan")}, None),
    "no number": ({"lr": "fast"}, None),
    "switched on": ({"weight_decay": 0.5}, None),  # the trace was told that it is 0
}
"""New settings, and whether machine code takes them over (True), Python does, or nobody."""


@pytest.mark.parametrize(("new", "taken"), TAKEN.values(), ids=TAKEN)
def test_settings_that_are_taken_over(new: dict[str, Any], taken: bool | None):
    _, f = trained(lambda k, group: None, "calls")
    settings, gate = (vars(f._latest)[name] for name in ("_settings", "_gate"))
    args = (cr.tensor(np.ones((2, 3))),)
    key = gate.again(args)
    assert key >= 0
    settings.numbers[0].entry.holder.update(new)
    before = [n.array.item() for n in settings.numbers]
    assert gate.again(args) == (key if taken else -2 - key)
    if taken is False:
        assert settings.take_over()
    elif taken is None:
        with pytest.raises(cr.ConfigError) if "lr" in new else nullcontext():
            assert not settings.take_over()
    found = [n.array.item() for n in settings.numbers]
    assert found == (before if taken is None else [n.read() for n in settings.numbers])
    assert [n.last for n in settings.numbers] == [
        n.read() for n in settings.numbers
    ] or taken is None


def test_who_has_a_setting_that_is_taken_over():
    """The number that was and the one that is are counted as Python counts them."""
    _, f = trained(lambda k, group: None, "calls")
    number = next(n for n in vars(f._latest)["_settings"].numbers if n.name == "lr")
    values = [float(f"0.{k}") for k in range(2, 6)]
    free = list(map(getrefcount, values))
    for k in range(4):
        number.entry.holder["lr"] = values[k]
        assert vars(f._latest)["_gate"].again((cr.tensor(np.ones((2, 3))),)) >= 0
        more = [n - m for n, m in zip(map(getrefcount, values), free, strict=True)]
        assert more == [2 * (i == k) for i in range(4)]  # the dictionary's and this one


def test_rules_with_checks_of_their_own_are_asked():
    """A range of a setting alone says nothing where a rule checks several of them together."""

    class Careful(optim.UpdateRule):
        lr: NotNegative = 0.1

        def agree(self, group: Any) -> None:
            if group["lr"] > 0.5:
                raise cr.ConfigError("too fast")

        def follow(self, group: Any, step: Any, p: Any, g: Any, state: Any) -> None:
            p -= group["lr"] * g

    w = cr.tensor(np.ones(3), requires_grad=True)
    rule = Careful([w], lr=0.1)

    @cr.jit
    def step(x: Any) -> Any:
        loss = (w * x).sum()
        rule.zero_grad()
        loss.backward()
        rule.step()
        return loss

    for lr in (0.1, 0.1, 0.1, 0.2, 0.3):
        rule.param_groups[0]["lr"] = lr
        step(cr.tensor(np.ones(3)))
    np.testing.assert_allclose(w.detach().numpy(), 0.2)
    rule.param_groups[0]["lr"] = 0.75
    with pytest.raises(cr.ConfigError, match="too fast"):
        step(cr.tensor(np.ones(3)))
