"""What a compiled function reads beside tensors: compiled as eager, or refused."""

from __future__ import annotations

import copy
import gc
import pickle
import types
import warnings
from multiprocessing import get_context
from typing import Any
from weakref import ref

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.runtime.call.retracing import RetraceWarning
from chainrule.compile.trace.guards import instructions
from tests.compile.trace.changes import PROGRAMS, REFUSED

CALLS = 5


def results(name: str, wrap: Any) -> list[Any]:
    """What the calls give; before each but the first two something changes, then nothing does."""
    f, change = PROGRAMS[name](wrap)
    found: list[Any] = []
    for i in range(CALLS):
        if i > 1:
            change(i)
        for _ in range(2):
            y = f(cr.tensor([1.0, -2.0, 3.0]))
            found.append(y if isinstance(y, float) else np.array(y.detach().numpy()))
    return found


@pytest.mark.filterwarnings("ignore::chainrule.compile.runtime.call.retracing.RetraceWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_between_calls_is_seen(name: str):
    eager, compiled = results(name, lambda f: f), results(name, cr.jit)
    for i, (a, b) in enumerate(zip(eager, compiled, strict=True)):
        np.testing.assert_allclose(b, a, rtol=1e-6, err_msg=f"call {i}")
        assert np.shape(a) == np.shape(b)


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_later_call_would_find_again_is_refused_with_its_line(name: str):
    f = cr.jit(REFUSED[name]())
    with pytest.raises(cr.TraceError, match=r"(changes\.py:\d+|draws from random)"):
        f(cr.tensor([1.0, 2.0, 3.0]))


def test_the_programs_would_show_a_reading_that_is_not_noted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(instructions.RULES, "LOAD_DEREF", lambda f, i: f.push(instructions.UNKNOWN))
    with pytest.raises(AssertionError):
        test_a_change_between_calls_is_seen("variable_of_an_enclosing_function")


def test_what_stays_is_traced_once():
    for name, (f, _) in ((n, p(cr.jit)) for n, p in PROGRAMS.items()):
        filling = ("counter", "list_that", "memo", "object_out_of_cached")
        if not hasattr(f, "traces") or name.startswith(filling):
            continue
        for _ in range(4):
            f(cr.tensor([1.0, -2.0, 3.0]))
        assert f.traces == 1, name


def test_large_arrays_are_inputs():
    a = np.ones(100_000)
    s = types.SimpleNamespace(a=a)
    f = cr.jit(lambda x: cr.sum(x * s.a))
    x = cr.tensor(np.ones(100_000))
    for i in range(4):
        a[:] = i
        assert f(x).item() == i * 1e5
        s.a = a = a.copy()
    assert f.traces == 1


def test_a_value_that_keeps_changing_is_named_once():
    s = types.SimpleNamespace(rate=0.0)

    @cr.jit
    def step(x: Any) -> Any:
        return x * s.rate

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(8):
            s.rate = i * 0.1
            step(cr.tensor([1.0]))
    (warning,) = caught
    assert warning.category is RetraceWarning
    assert "s.rate" in str(warning.message) and "test_guards.py:" in str(warning.message)


def test_what_cannot_be_looked_at_is_refused_with_its_line():
    class Odd(dict[str, float]):
        def items(self) -> Any:
            raise RuntimeError("no items")

    odd = Odd(k=2.0)
    with pytest.raises(cr.TraceError, match=r"test_guards\.py:\d+ .* RuntimeError: no items"):
        cr.jit(lambda x: x * odd["k"])(cr.tensor([1.0]))


def test_dynamic_sizes_and_a_counter():
    s = types.SimpleNamespace(n=0)

    def f(x: Any) -> Any:
        s.n += 1
        return x * s.n

    with pytest.raises(cr.TraceError, match=r"changes s\.n, .* at .*test_guards\.py:\d+"):
        cr.jit(f, dynamic={"x": ("B",)})(cr.tensor([1.0, 2.0, 3.0]))


def test_dynamic_sizes_and_a_setting():
    s = types.SimpleNamespace(k=1.0)
    f = cr.jit(lambda x: x * s.k, dynamic={"x": ("B",)})
    for n in (3, 5, 4):
        for k in (1.0, 2.0):
            s.k = k
            assert f(cr.tensor(np.ones(n))).numpy().tolist() == [k] * n
    assert f.traces == 2


def test_values_come_back_without_a_new_trace():
    s = types.SimpleNamespace(k=1.0)
    f = cr.jit(lambda x: x * s.k)
    for i in range(12):
        s.k = float(i % 3)
        assert f(cr.tensor([2.0])).item() == 2 * (i % 3)
    assert f.traces == 3


def test_a_loop_of_calls_sees_changes_too():
    s = types.SimpleNamespace(k=1.0, members={1})
    f = cr.jit(lambda x: x * s.k * len(s.members))

    def batches() -> Any:
        for i in range(9):
            if i % 3 == 0:
                s.k = float(i + 1)
            if i == 7:
                s.members.add(2)
            yield (cr.tensor([1.0]),)

    assert f.loop(batches()).numpy().ravel().tolist() == [1, 1, 1, 4, 4, 4, 7, 14, 14]


def test_guards_keep_no_model_alive():
    class Net(cr.nn.Module):
        def __init__(self) -> None:
            self.w = cr.tensor([1.0], requires_grad=True)
            self.scales = [1.0]

        def forward(self, x: Any) -> Any:
            return x * self.w * self.scales[0]

    holder = types.SimpleNamespace(net=Net())
    gone = ref(holder.net)
    f = cr.jit(lambda x: holder.net(x))
    f(cr.tensor([1.0]))
    holder.net = Net()
    holder.net.scales[0] = 3.0
    gc.collect()
    assert gone() is None
    assert f(cr.tensor([1.0])).item() == 3.0


@cr.jit
def doubled(x: Any) -> Any:
    """A compiled function of a module: its pickle is its name."""
    return x * 2


def _doubled(x: float) -> float:
    return doubled(cr.tensor([x])).item()


def test_compiled_functions_are_copied_and_pickled():
    x = cr.tensor([1.0, 2.0])
    doubled(x)
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    holder = {"step": doubled, "w": x}
    copied = copy.deepcopy(holder)
    assert copied["step"] is not doubled
    np.testing.assert_array_equal(copied["step"](x).numpy(), [2, 4])
    assert copy.copy(doubled)(x).numpy().tolist() == [2, 4]
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(cr.jit(lambda x: x))


def test_a_copied_object_has_a_compiled_method_of_its_own():
    class Model:
        def __init__(self) -> None:
            self.k = 2.0
            self.step = cr.jit(self.run)

        def run(self, x: Any) -> Any:
            return x * self.k

    a = Model()
    a.step(cr.tensor([1.0]))
    b = copy.deepcopy(a)
    b.k = 5.0
    assert (a.step(cr.tensor([1.0])).item(), b.step(cr.tensor([1.0])).item()) == (2.0, 5.0)


def test_other_processes_are_given_compiled_functions():
    with get_context("spawn").Pool(1) as pool:
        assert pool.map(_doubled, [1.0, 2.0]) == [2.0, 4.0]
