"""The plan of a program is a value: kernels are written of it, and nothing changes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.llvm.host_target import host
from chainrule.compile.lower.kernels import write
from chainrule.compile.lower.plan import Group, Member, MemoryPlan, Plan
from chainrule.compile.lower.planning import plan
from chainrule.compile.runtime import build

X = np.random.default_rng(5).normal(size=(6, 9)).astype(np.float32)


def _loop(x):
    return cr.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, cr.sin(c[1]) + x), (4, x))[1]


PROGRAMS = {
    "rows": lambda x: cr.softmax(x, axis=-1),
    "product": lambda x: cr.relu(x @ x.T),
    "concat": lambda x: cr.concat([cr.exp(x), x], axis=1),
    "scatter": lambda x: cr.grad(lambda x: cr.sum(x[np.array([0, 2, 2])] ** 2))(x),
    "scan": lambda x: cr.cumulative_sum(x, axis=0),
    "sorted": lambda x: cr.argsort(x, axis=-1),
    "several": lambda x: cr.linalg.qr(x.T @ x)[1],
    "eager": lambda x: cr.abs(cr.linalg.eigvals(x.T @ x)),
    "loop": _loop,
}


@pytest.fixture(params=PROGRAMS)
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Plan]:
    """A program, and its plan."""
    found: list[Any] = []

    def recorded(program: Any, target: Any) -> Plan:
        found.append((program, plan(program, target)))
        return found[-1][1]

    monkeypatch.setattr(build, "plan", recorded)
    step = cr.jit(PROGRAMS[request.param])
    step(cr.tensor(X)).numpy()
    step.loops()  # if its code came from the cache, nothing was planned yet
    return found[0]


def _parts(x: Any) -> Iterator[Any]:
    """What the plan is made of, except for programs, terms and the like, which are older."""
    yield x
    inner: list[Any] = []
    if isinstance(x, Plan | MemoryPlan | Group | Member):
        inner = [getattr(x, f.name) for f in fields(x)]
    elif isinstance(x, Mapping):
        inner = [*x.keys(), *x.values()]
    elif isinstance(x, tuple | frozenset):
        inner = list(x)
    for y in inner:
        yield from _parts(y)


def test_nothing_of_a_plan_can_be_changed(made: tuple[Any, Plan]):
    seen: set[type] = set()
    for x in _parts(made[1]):
        seen.add(type(x))
        assert not isinstance(x, list | dict | set), f"{x} can be changed"
        if isinstance(x, Mapping):
            with pytest.raises(TypeError):
                x[None] = None  # type: ignore[index]
        elif is_dataclass(x):
            name = fields(x)[0].name
            with pytest.raises(FrozenInstanceError):
                setattr(x, name, getattr(x, name))
    assert {Plan, MemoryPlan, Group, Member, MappingProxyType, tuple} <= seen


def test_kernels_are_written_of_a_plan_again_and_again(made: tuple[Any, Plan]):
    program, first = made
    text = str(write(first))
    assert str(write(first)) == text == str(write(plan(program, host())))


def test_planning_knows_no_builder():
    code = (
        "import chainrule.compile.lower.planning, sys; print([m for m in sys.modules if m in %r])"
    )
    names = ["chainrule.compile.lower.builder", "chainrule.compile.lower.kernels"]
    got = subprocess.run(
        [sys.executable, "-c", code % names], capture_output=True, text=True, check=True
    )
    assert got.stdout.strip() == "[]"


FOLDS = {"sum": cr.sum, "max": cr.max, "columns": lambda x: cr.sum(x, axis=0)}


@pytest.mark.parametrize("first", [False, True], ids=["fold first", "map first"])
@pytest.mark.parametrize("fold", FOLDS)
def test_a_fold_and_a_map_of_one_array_pass_through_it_once(fold: str, first: bool):
    """A fold of outer axes, whose lanes run along the rows, stays apart."""

    def both(x: Any, y: Any) -> Any:
        pair = (FOLDS[fold](cr.cos(x)), cr.exp(x) * y)
        return pair[::-1] if first else pair

    step = cr.jit(both)
    x = np.random.default_rng(2).normal(size=(40, 50))
    for found, right in zip(step(x, 2 * x), both(x, 2 * x), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)
    kernels = [s for s in step.loops(x, 2 * x).splitlines() if s.startswith("k")]
    assert len(kernels) == (2 if fold == "columns" else 1)


def test_a_fold_and_a_map_of_other_arrays_are_apart():
    step = cr.jit(lambda x, y, s: (cr.sum(cr.cos(x) * s), cr.exp(y) * s))
    step(X, X + 1, np.float32(2))
    assert len([s for s in step.loops().splitlines() if s.startswith("k")]) == 2
