"""A size that a compiled function has not seen is tried on the function first."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.graph.size_polynomials import count_needed, samples_near, told_apart
from chainrule.compile.runtime.call import dynamic_axes
from chainrule.errors import ShapeError, TraceError

TABLE = cr.tensor(np.arange(30.0).reshape(10, 3))


def rows(x: Any) -> Any:
    if x.shape[0] > 10:
        raise ShapeError(f"{x.shape[0]} rows are too many")
    return x * 2 + TABLE[: x.shape[0]]


def test_what_the_function_refuses_is_refused():
    """Nothing is read beyond the table."""
    f = cr.jit(rows, dynamic={"x": ("T", None)})
    for n in (7, 3, 10, 1, 9, 10, 5):
        x = cr.tensor(np.random.default_rng(n).normal(size=(n, 3)))
        np.testing.assert_array_equal(f(x).numpy(), rows(x).numpy())
    assert f.traces == 1, "10 rows, the whole table, are stated like 7 of them"
    for _ in range(2):
        with pytest.raises(ShapeError, match="19 rows are too many"):
            f(cr.tensor(np.ones((19, 3))))
    with pytest.raises(ShapeError, match="19 rows are too many"):
        f.loop([(cr.tensor(np.ones((n, 3))),) for n in (3, 3, 19)])


def test_a_branch_over_the_size_is_another_program():
    def f(x: Any) -> Any:
        return x * 2 if x.shape[0] < 12 else x * 3

    g = cr.jit(f, dynamic={"x": ("T",)})
    for n in (7, 15, 8, 20, 7, 12):
        x = cr.tensor(np.arange(float(n)))
        np.testing.assert_array_equal(g(x).numpy(), f(x).numpy())


def test_sizes_of_one_name_are_equal_in_every_call():
    """Also in those that are like the one before, which are not looked at as closely."""
    f = cr.jit(lambda a, b: (a * b).sum(), dynamic={"a": ("T",), "b": ("T",)})

    def of(n: int) -> Any:
        return cr.tensor(np.arange(float(n)))

    for n in (5, 6, 5, 5):
        assert f(of(n), of(n)).item() == (np.arange(n) ** 2).sum()
    for longer in (7, 6, 1):
        with pytest.raises(ShapeError, match="axes of one name have one size"):
            f(of(5), of(longer))
    with pytest.raises(ShapeError, match="axes of one name have one size"):
        f.loop([(of(5), of(5)), (of(5), of(5)), (of(5), of(7))])


@pytest.mark.parametrize(
    ("rule", "traces"),
    [(lambda n: 2 * n + 1, 3), (lambda n: n * n, 3), (lambda n: n * n + 3 * n + 7, 4)],
    ids=["line", "square", "all monomials"],
)
def test_as_many_traces_as_the_polynomial_needs(
    rule: Any, traces: int, monkeypatch: pytest.MonkeyPatch
):
    seen: list[dict[str, int]] = []
    traced = dynamic_axes._trace_at

    def counted(name: Any, leaves: Any, named: Any, sample: Any, call: Any) -> Any:
        seen.append(sample)
        return traced(name, leaves, named, sample, call)

    monkeypatch.setattr(dynamic_axes, "_trace_at", counted)

    def f(x: Any) -> Any:
        return x.sum() * cr.ones((rule(x.shape[0]),), dtype=x.dtype).sum()

    compiled = cr.jit(f, dynamic={"x": ("T",)})
    for n in (5, 9, 14):
        x = cr.tensor(np.arange(1.0, n + 1))
        assert compiled(x).item() == f(x).item()
        if n == 5:
            assert len({s["T"] for s in seen}) == len(seen) == traces


def test_a_program_for_one_size_alone_is_not_taken_for_another():
    """Called with that size first, and again, which is what the short way of a call is for."""
    f = lambda x: x * (3.0 if x.shape[0] == 3 else 1.0)
    g = cr.jit(f, dynamic={"x": ("N",)})
    for n in (3, 3, 3, 5, 3, 6, 5):
        x = cr.tensor(np.ones((n, 2)))
        np.testing.assert_array_equal(g(x).numpy(), f(x).numpy())
    with pytest.raises(ShapeError):
        cr.jit(f, dynamic={"x": ("N",)}).loop([(cr.tensor(np.ones((n, 2))),) for n in (3, 3, 5)])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: cr.zeros((x.shape[0], 2)) + 1,
        lambda x: cr.tensor(2.0) * x.shape[0],
        lambda x: TABLE[: x.shape[0]],
        lambda x: TABLE * (3.0 if x.shape[0] == 3 else 1.0),
    ],
)
def test_a_size_of_which_only_the_shape_is_read_is_refused(f: Any):
    with pytest.raises(TraceError, match=r"'N', but reads no argument that\s+has it"):
        cr.jit(f, dynamic={"x": ("N",)})(cr.tensor(np.ones((3, 2))))


def test_a_size_is_not_returned_as_if_it_were_a_constant():
    g = cr.jit(lambda x: (x.sum(), x.shape[0]), dynamic={"x": ("N",)})
    with pytest.raises(TraceError, match=r"returns \[3\] at {'N': 3} and \[4\] at {'N': 4}"):
        g(cr.tensor(np.ones((3, 2))))
    assert cr.jit(lambda x: (x, "name", 7), dynamic={"x": ("N",)})(cr.tensor([1.0, 2.0]))[1:] == (
        "name",
        7,
    )


@pytest.mark.parametrize("find", [cr.argmax, cr.argmin, cr.max])
def test_sizes_at_which_there_is_nothing_to_find_are_left_out(find: Any) -> None:
    f = cr.jit(lambda x: find(x[3:], axis=0) + x.sum(), dynamic={"x": ("B",)})
    for n in (4, 9):
        x = np.sin(np.arange(2.0 * n).reshape(n, 2))
        np.testing.assert_allclose(f(cr.tensor(x)), f.__wrapped__(cr.tensor(x)))
    with pytest.raises(cr.ShapeError, match="over an axis without elements"):
        f(cr.ones((3, 2)))


@pytest.mark.parametrize(("b", "t"), [(2, 4), (3, 6), (1, 2), (4, 4), (2, 5), (5, 3)])
def test_sizes_that_are_multiples_of_each_other_at_first_are_told_apart(b: int, t: int) -> None:
    f = cr.jit(lambda x: cr.matrix_transpose(x) * 2, dynamic={"x": ("B", "T")})
    for shape in ((b, t, 3), (b + 1, t + 1, 3), (b + 1, 2 * (b + 1), 3), (b, t + 3, 3)):
        x = cr.tensor(np.sin(np.arange(np.prod(shape))).reshape(shape))
        got, want = f(x), f.__wrapped__(x)
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("symbols", [1, 2, 3])
def test_the_first_samples_tell_sizes_apart(symbols: int) -> None:
    least, most = count_needed(symbols)
    for sizes in itertools.product(range(1, 9), repeat=symbols):
        now = dict(zip("ABC", sizes, strict=False))
        assert told_apart(samples_near(now, frozenset({1, 2, 16}), most)[:least])
    assert not told_apart([{"A": n, "B": 2 * n} for n in range(2, 7)])
    assert not told_apart([{"A": n, "B": n * n} for n in range(2, 7)])
    assert not told_apart([{"A": n, "B": 3 + n} for n in range(2, 7)])
