"""How a traced function is followed: the stack beside Python's own, and events that stop."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.trace.guards import instructions, stack
from tests.compile.trace.changes import PROGRAMS

X = [1.0, -2.0, 3.0]


def depths(name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many values the stacks have that a program's functions return from."""
    found: list[int] = []
    returns = instructions.RULES["RETURN_VALUE"]

    def counted(f: Any, i: Any) -> None:
        found.append(len(f.stack))
        returns(f, i)

    monkeypatch.setitem(instructions.RULES, "RETURN_VALUE", counted)
    PROGRAMS[name](cr.jit)[0](cr.tensor(X))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_but_the_result_is_left_on_the_stack(name: str, monkeypatch: pytest.MonkeyPatch):
    assert set(depths(name, monkeypatch)) <= {0, 1}  # 0: it is not known after an exception


def test_a_value_that_is_left_on_the_stack_is_found(monkeypatch: pytest.MonkeyPatch):
    for name in ("STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST"):
        monkeypatch.setitem(instructions.RULES, name, lambda f, i: None)
    assert max(depths("items_of_a_list", monkeypatch)) > 1


def take_over() -> None:
    """What another tool does that takes the events: not seen as a call by its name."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        list(map(sys.settrace, [None]))
        return
    tool = next(i for i in range(6) if "chainrule" in (monitoring.get_tool(i) or ""))
    monitoring.set_events(tool, 0)
    monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
    monitoring.free_tool_id(tool)


def test_a_trace_that_gets_no_more_events_is_refused():
    s = types.SimpleNamespace(k=1.0, stop=True)

    def f(x: Any) -> Any:
        if s.stop:
            take_over()
        return x * s.k

    g, before = cr.jit(f), sys.gettrace()
    with pytest.raises(cr.TraceError, match=r"stopped reporting its instructions.*sys\.settrace"):
        g(cr.tensor(X))
    assert sys.gettrace() is before
    s.stop = False
    for s.k in (1.0, 2.0, 3.0):  # the next trace is followed again
        assert g(cr.tensor([1.0])).item() == s.k


def test_an_interpreter_that_reports_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stack.Frame, "step", lambda self, at: None)
    monkeypatch.setattr(
        "chainrule.compile.trace.guards.observer.Observer.begin", lambda self, f: None
    )
    with pytest.raises(cr.TraceError, match="stopped reporting its instructions"):
        cr.jit(lambda x: x * 2)(cr.tensor(X))


def test_who_traced_before_does_so_afterwards():
    seen: list[str] = []

    def trace(frame: Any, event: str, arg: Any) -> Any:
        seen.append(frame.f_code.co_name)
        return trace

    def later() -> None:
        pass

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        cr.jit(lambda x: x * 2)(cr.tensor(X))
        later()
    finally:
        sys.settrace(before)
    assert "later" in seen


def test_threads_and_functions_within_are_followed_each_by_itself():
    s = types.SimpleNamespace(a=1.0, b=1.0)
    inner = cr.jit(lambda x: x * s.a)
    functions = [cr.jit(lambda x, i=i: inner(x) + s.b * i) for i in range(4)]
    found: dict[tuple[int, float], float] = {}

    def run(i: int) -> None:
        found[i, s.b] = functions[i](cr.tensor([1.0])).item()

    for s.a, s.b in ((1.0, 2.0), (3.0, 4.0)):
        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        np.testing.assert_allclose([found[i, s.b] for i in range(4)], s.a + s.b * np.arange(4))


def test_names_beyond_the_256th():
    s = types.SimpleNamespace(**{f"a{i}": float(i) for i in range(300)})
    names: dict[str, Any] = {"s": s, "__name__": __name__}
    lines = "".join(f"    x = x + s.a{i}\n" for i in range(300))
    exec(f"def f(x):\n{lines}    return x\n", names)
    f = cr.jit(names["f"])
    total = sum(range(300))
    for s.a299 in (299.0, 300.0, 301.0):
        assert f(cr.tensor([0.0])).item() == total - 299 + s.a299
