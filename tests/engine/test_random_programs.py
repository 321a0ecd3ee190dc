"""Random programs of array ops, run by the library and by an oracle that shares no code with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from tests.ops import oracle

Step = tuple[str, int, int]
"""An op and the places of the values that it takes."""

# fmt: off
UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[oracle.Grid], oracle.Grid]]] = {
    "sin": (cr.sin, oracle.sin),
    "tanh": (cr.tanh, oracle.tanh),
    "transpose": (cr.matrix_transpose, oracle.transpose),
    "sum": (lambda x: cr.sum(x, axis=0, keepdims=True), oracle.sum_rows),
    "max": (lambda x: cr.max(x, axis=1, keepdims=True), oracle.largest),
    "flip": (lambda x: cr.flip(x, axis=1), oracle.flip),
    "pick": (lambda x: x[np.array([1, 0, 1]) % x.shape[0]], lambda x: oracle.pick(x, [1, 0, 1])),
}
BINARY = {"add": cr.add, "sub": cr.sub, "mul": cr.mul, "matmul": cr.matmul}
# fmt: on


def fits(op: str, a: tuple[int, int], b: tuple[int, int]) -> bool:
    if op == "matmul":
        return a[1] == b[0]
    return all(m == n or 1 in (m, n) for m, n in zip(a, b, strict=True))


def run(steps: list[Step], leaves: list[Any], grids: list[oracle.Grid]) -> tuple[Any, oracle.Grid]:
    """The program's last value by both; a step whose shapes do not fit squashes its first value.

    Every value may be used again by any later step: subexpressions are shared.
    """
    ours, theirs = list(leaves), list(grids)
    for op, i, j in steps:
        a, b = ours[i % len(ours)], ours[j % len(ours)]
        x, y = theirs[i % len(theirs)], theirs[j % len(theirs)]
        if op in UNARY:
            mine, naive = UNARY[op]
            ours.append(mine(a))
            theirs.append(naive(x))
        elif fits(op, a.shape, b.shape):
            ours.append(BINARY[op](a, b))
            theirs.append(oracle.matmul(x, y) if op == "matmul" else oracle.binary(op, x, y))
        else:
            ours.append(cr.sin(a))
            theirs.append(oracle.sin(x))
        if np.abs(ours[-1].detach().numpy()).max() > 1e3:  # keeps sin well-conditioned
            ours.append(cr.tanh(ours[-1]))
            theirs.append(oracle.tanh(theirs[-1]))
    return ours[-1], theirs[-1]


values = st.integers(-40, 40).map(lambda n: n / 16 + 0.03)  # ties happen, and are meant to


@st.composite
def grids(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    m, n = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return np.array(draw(st.lists(values, min_size=m * n, max_size=m * n))).reshape(m, n)


steps = st.lists(
    st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=9,
)
programs = st.tuples(steps, st.lists(grids(), min_size=1, max_size=3))


def prepare(arrays: list[Any]) -> tuple[list[cr.Tensor], list[oracle.Grid]]:
    leaves = [cr.tensor(x, requires_grad=True) for x in arrays]
    return leaves, [[[oracle.Number(float(v)) for v in row] for row in x] for x in arrays]


def slopes(out: oracle.Grid, grid: oracle.Grid) -> np.ndarray[Any, Any]:
    """The derivative of the sum of `out` with respect to each number of `grid`."""
    root = oracle.total([n for row in out for n in row])
    return np.array([[root.slope(n, {}) for n in row] for row in grid])


def agree(got: Any, want: np.ndarray[Any, Any], times: float = 1) -> None:
    got = np.zeros_like(want) if got is None else got.numpy()
    limit = 1e-9 * (np.abs(want).max() + 1)
    assert np.abs(got - times * want).max() <= limit, f"{got}\n{times * want}"


@given(programs)
def test_values_and_gradients(program: tuple[list[Step], list[Any]]):
    leaves, naive = prepare(program[1])
    y, want = run(program[0], leaves, naive)
    agree(y.detach(), np.array([[n.value for n in row] for row in want]))
    if y.requires_grad:
        y.sum().backward()
    for leaf, grid in zip(leaves, naive, strict=True):
        agree(leaf.grad, slopes(want, grid))


@given(programs)
def test_forward_mode_is_the_same_sum(program: tuple[list[Step], list[Any]]):
    def f(*xs: Any) -> Any:
        return run(program[0], list(xs), prepare(program[1])[1])[0].sum()

    ts = [np.cos(np.arange(x.size)).reshape(x.shape) for x in program[1]]
    _, dot = cr.jvp(f, program[1], ts)
    _, naive = prepare(program[1])
    _, want = run(program[0], *prepare(program[1])[:1], naive)
    total = sum(float(np.vdot(slopes(want, g), t)) for g, t in zip(naive, ts, strict=True))
    assert dot.item() == pytest.approx(total, rel=1e-9, abs=1e-9)


@given(programs, st.integers(1, 3))
def test_a_kept_graph_goes_back_again_and_accumulates(
    program: tuple[list[Step], list[Any]], times: int
):
    leaves, naive = prepare(program[1])
    y, want = run(program[0], leaves, naive)
    loss = y.sum()
    for _ in range(times):
        loss.backward(retain_graph=True)
    loss.backward()
    for leaf, grid in zip(leaves, naive, strict=True):
        agree(leaf.grad, slopes(want, grid), times + 1)


@given(programs)
def test_hooks_see_whole_gradients_and_replace_them(program: tuple[list[Step], list[Any]]):
    leaves, naive = prepare(program[1])
    seen: list[tuple[int, Any]] = []

    def hook_of(i: int) -> Callable[[Any], Any]:
        def hook(g: Any) -> Any:
            seen.append((i, g))
            return g * 2.0

        return hook

    for i, leaf in enumerate(leaves):
        leaf.register_hook(hook_of(i))
    y, want = run(program[0], leaves, naive)
    y.sum().backward()
    assert len({i for i, _ in seen}) == len(seen), "a hook saw a part of its gradient"
    for i, g in seen:
        agree(g, slopes(want, naive[i]))
    for leaf, grid in zip(leaves, naive, strict=True):
        agree(leaf.grad, slopes(want, grid), 2)


@given(programs)
@settings(max_examples=40)
def test_second_derivatives_do_not_depend_on_the_mode(program: tuple[list[Step], list[Any]]):
    """Reverse over reverse and forward over reverse: H t, where ties do not move."""

    def f(*xs: Any) -> Any:
        return run(program[0], list(xs), prepare(program[1])[1])[0].sum()

    every = tuple(range(len(program[1])))
    ts = [np.sin(1 + np.arange(x.size)).reshape(x.shape) for x in program[1]]

    def slope_along(*xs: Any) -> Any:
        gs = cr.grad(f, every)(*xs)
        return sum((g * t).sum() for g, t in zip(gs, ts, strict=True))

    twice = cr.grad(slope_along, every)(*program[1])
    for a, b in zip(cr.hvp(f, program[1], ts), twice, strict=True):
        agree(a, b.numpy())


def test_the_oracle_is_right_by_itself():
    """Against hand-computed derivatives: x**2 sin(y) at (3, 0.5), and a tie."""
    x, y = [[oracle.Number(3.0)]], [[oracle.Number(0.5)]]
    z = oracle.binary("mul", oracle.binary("mul", x, x), oracle.sin(y))
    assert slopes(z, x)[0, 0] == pytest.approx(6 * np.sin(0.5))
    assert slopes(z, y)[0, 0] == pytest.approx(9 * np.cos(0.5))
    row = [[oracle.Number(2.0), oracle.Number(1.0), oracle.Number(2.0)]]
    assert slopes(oracle.largest(row), row).tolist() == [[0.5, 0.0, 0.5]]


def test_a_wrong_program_is_noticed():
    leaves, naive = prepare([np.array([[0.3, 0.7]])])
    (leaves[0] * leaves[0].detach()).sum().backward()  # one of two paths is lost
    want = oracle.binary("mul", naive[0], naive[0])
    with pytest.raises(AssertionError):
        agree(leaves[0].grad, slopes(want, naive[0]))
