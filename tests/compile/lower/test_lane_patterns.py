"""Two loops as one over lanes: places that have upper and lower bits of a counter.

The reference is both loops, one number after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule.compile.llvm import lane_patterns, memory_access
from chainrule.compile.loops.collapse import interleave
from chainrule.compile.loops.expressions import Affine, Var, counter_bits, lower_bits, upper_bits
from chainrule.compile.loops.statements import For, Let, Local
from tests.compile.lower.test_known import F32, E, X, Y, out, plus, run_native, run_plain

Steps = tuple[int, int, int]
"""Where an element is: a number, and what each of the two counters is multiplied by."""

# (sizes of the loops, where it is read, where it is written)
CASES: dict[str, tuple[tuple[int, int], Steps, Steps]] = {
    "neighbours": ((6, 4), (0, 4, 1), (0, 4, 1)),
    "again and again": ((8, 4), (3, 0, 1), (0, 4, 1)),
    "again and again, the last vector not full": ((5, 4), (3, 0, 1), (0, 4, 1)),
    "each several times": ((4, 4), (2, 1, 0), (0, 4, 1)),
    "each several times, the last vector not full": ((5, 4), (2, 1, 0), (0, 4, 1)),
    "a square turned": ((4, 4), (1, 1, 4), (0, 4, 1)),
    "a square turned when stored": ((4, 4), (0, 4, 1), (5, 1, 4)),
    "runs": ((4, 4), (0, 32, 1), (0, 4, 1)),
    "runs when stored": ((4, 4), (0, 4, 1), (0, 40, 1)),
    "runs of two": ((8, 2), (0, 16, 1), (0, 16, 1)),
    "runs, the last vector not full": ((5, 4), (0, 32, 1), (0, 40, 1)),
    "far apart": ((4, 4), (0, 3, 60), (0, 50, 7)),
    "in gaps": ((8, 2), (0, 0, 9), (0, 2, 1)),
    "a few": ((3, 2), (0, 0, 1), (0, 2, 1)),
    "many, four at a time": ((16, 4), (0, 4, 1), (0, 4, 1)),
}


def body(case: str, i: Var, j: Var) -> list[Any]:
    """What is done for both counters."""
    _, *places = CASES[case]
    read, written = (Affine(n, ((i, a), (j, b))) for n, a, b in places)
    local = Local(f"at {case}", F32)
    return [Let(local, plus(E.load(X, read), E.lit(1.5, F32))), out(written, E.local(local))]


@pytest.mark.parametrize("case", CASES)
def test_as_one_after_the_other(case: str):
    m, n = CASES[case][0]
    i, j = Var("i", m), Var("j", n)
    statements = body(case, i, j)
    x = np.random.default_rng(0).normal(size=(16, 16)).astype(F32)
    got, want = (x.copy(), np.zeros_like(x)), (x.copy(), np.zeros_like(x))
    run_native([interleave(E, i, j, statements, independent=True)], got)
    nest = [For(i, (For(j, tuple(statements)),))]
    run_plain(nest, {X: want[0].reshape(-1), Y: want[1].reshape(-1)}, {})
    np.testing.assert_array_equal(got[1], want[1])


BY_NUMBERS = ("far apart", "runs, the last vector not full")
"""Cases that are none of the patterns, of those that are neither neighbours nor alike."""


@pytest.mark.parametrize(
    "case",
    [
        "again and again",
        "each several times",
        "a square turned",
        "runs",
        "runs when stored",
        "a square turned when stored",
        *BY_NUMBERS,
    ],
)
def test_which_go_number_by_number(case: str, monkeypatch: pytest.MonkeyPatch):
    done: list[str] = []
    for name in ("_gather", "_scatter"):
        one = getattr(memory_access, name)
        monkeypatch.setattr(
            memory_access, name, lambda *xs, one=one, name=name: (done.append(name), one(*xs))[1]
        )
    m, n = CASES[case][0]
    i, j = Var("i", m), Var("j", n)
    loop = interleave(E, i, j, body(case, i, j), independent=True)
    run_native([loop], [np.zeros((16, 16), F32), np.zeros((16, 16), F32)])
    assert bool(done) is (case in BY_NUMBERS)


def test_bits_of_a_counter():
    at = Affine.of(Var("i", 32))
    for make, upper in ((upper_bits, True), (lower_bits, False)):
        ((bits, c),) = make(E, at, 3).terms
        assert c == 1
        assert counter_bits(bits) == (at, upper, 3)  # type: ignore[arg-type]
    for other in (E.fn("bitwise_and", E.index(at), E.lit(5, np.int64)), E.index(at)):
        assert counter_bits(other) is None


def test_what_a_pattern_is():
    """The last number of a window says how much is read."""
    steps = [(4, [0, 1, 2, 3]), (1, [0, 0, 0, 0])]
    found = lane_patterns.Pattern(None, steps)
    assert found.numbers() == [0, 4, 8, 12]
    assert found.runs() is None
    assert lane_patterns.Pattern(None, [(9, [0, 0, 1, 1]), (1, [0, 1, 0, 1])]).runs() == (2, [0, 9])
