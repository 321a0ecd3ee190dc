"""The checker of the loop language: programs are fine, and each kind of mistake is found."""

from __future__ import annotations

from typing import Any

import pytest

from chainrule.compile.graph.terms import Program, Terms
from chainrule.compile.loops import memory
from chainrule.compile.loops.check import checker
from chainrule.compile.loops.check.accesses import check_disjoint
from chainrule.compile.loops.check.checker import SpecError, check
from chainrule.compile.loops.expressions import Affine, Buffer, Var, lower_bits, upper_bits
from chainrule.compile.loops.statements import (
    For,
    Loops,
    Matrix,
    Stmt,
    Store,
)
from chainrule.compile.runtime.native_program import Native
from chainrule.ops import elementwise as ew
from tests.compile.loops.mistakes import (
    BOOL,
    F64,
    I64,
    MISTAKES,
    Parts,
    at,
    clamped,
    gemm,
    triangle,
    writing_an_input,
)


def test_a_program_that_is_fine():
    check(Parts().fine())


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found(name: str):
    make, says = MISTAKES[name]
    with pytest.raises(SpecError) as caught:
        check(make(Parts()))
    assert says in str(caught.value)


def test_what_is_refused_is_printed():
    with pytest.raises(SpecError) as caught:
        check(writing_an_input(Parts()))
    assert str(caught.value).splitlines() == [
        "k2: x is only to be read, it is a program's input:",
        "  x[0] = 1.0",
    ]


# --- what is not refused -------------------------------------------------------------------------


def test_what_a_condition_guards_may_lie_outside():
    p = Parts()
    test = p.fn("less", p.e.index(Affine.of(p.n)), p.e.lit(3, I64), dtype=BOOL)
    value = p.load(p.ones, Affine(0, ((p.n, 3),)), test)
    check(p.fine([For(p.n, (Store(p.m, Affine.of(p.n), value),))]))


def test_a_triangle_of_which_each_row_ends_where_it_does():
    p = Parts()
    check(p.fine(triangle(p, 0)))


def test_an_index_that_is_kept_inside():
    p = Parts()
    check(p.fine([Store(p.m, clamped(p, 23), p.e.lit(1.0, F64))]))


def test_bits_of_a_counter_that_are_inside():
    p = Parts()
    wide = Var("wide", 96)
    upper = upper_bits(p.e, Affine.of(wide), 2)
    check(p.fine([For(wide, (Store(p.m, upper, p.e.lit(1.0, F64)),))]))
    other = Var("other", 96)
    lower = lower_bits(p.e, Affine.of(other), 4)
    check(p.fine([For(other, (Store(p.m, lower + 8, p.e.lit(1.0, F64)),))]))


def test_a_loop_without_turns_reads_nothing():
    p = Parts()
    none = Var("none", 0)
    check(p.fine([For(none, (Store(p.m, Affine(100), p.load(p.x, Affine(100))),))]))


def test_a_size_for_which_all_is_well_is_enough():
    """Rows of a table of 4: T is at most 4."""
    p = Parts()
    value = p.load(p.x, Affine(0, ((p.t, 8),)))
    check(p.fine([For(p.t, (Store(p.m, Affine.of(p.t), value),))], symbols=("T",)))


def test_a_product_by_blas():
    p = Parts()
    check(p.fine(gemm(p), gemm(p, add=True)))


def test_parallel_loops_that_keep_apart():
    p = Parts()
    z, n = Var("z", 2), Var("n", 6)
    out, left = Affine(0, ((z, 12),)), Affine(0, ((z, 16),))
    product = gemm(p, m=2, left=Matrix(p.s, left, 8, 1), out=Matrix(p.u, out, 6, 1))
    i = Var("i", 4)
    own = p.place(i, 6, n)
    fill = For(n, (Store(p.m, own, p.load(p.m, own)),), "lanes")
    check(
        p.fine(
            [For(z, tuple(product), "parallel", independent=True)],
            [For(i, (fill,), "parallel", independent=True)],
        )
    )


# --- memory --------------------------------------------------------------------------------------


def test_buffers_that_live_together_lie_apart():
    p = Parts()
    loops = p.fine(gemm(p))
    check_disjoint(loops, {p.s: 0, p.u: 256}, {})
    with pytest.raises(SpecError, match=r"s, bytes 0 to 256, and u, bytes 248 to 440"):
        check_disjoint(loops, {p.s: 0, p.u: 248}, {})


def test_buffers_that_live_one_after_the_other_share_memory():
    p = Parts()
    fill: list[Stmt] = [Store(p.u, at(), p.e.lit(1.0, F64))]
    check_disjoint(p.fine(fill), {p.s: 0, p.u: 0}, {})


def test_a_planner_that_puts_all_in_one_place_is_caught(monkeypatch: pytest.MonkeyPatch):
    p = Parts()

    def plan(scratch: list[Buffer], *rest: Any) -> memory.Plan:
        return memory.Plan(tuple([0] * len(scratch)), 256)

    monkeypatch.setattr(memory, "plan", plan)
    with pytest.raises(SpecError, match="live together"):
        check(p.fine(gemm(p)))


# --- when it looks -------------------------------------------------------------------------------


def test_every_program_compiled_here_is_checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", "")
    seen: list[Loops] = []
    monkeypatch.setattr(checker, "check", seen.append)
    terms = Terms()
    x = terms.input(0, (3,), F64)
    native = Native(Program((x,), (terms.op(ew.exp, [x]),)))
    assert seen == [native.loops]
