"""Programs in the loop language with one mistake each, and what the checker says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.compile.graph.sizes import Size
from chainrule.compile.loops.expressions import (
    Affine,
    Buffer,
    Expr,
    Exprs,
    Local,
    Var,
    lower_bits,
    upper_bits,
)
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Host,
    Into,
    Kernel,
    Let,
    Loops,
    Matrix,
    Prefetch,
    Product,
    Routine,
    Span,
    Stmt,
    Store,
    Strided,
)

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
I64, BOOL = np.dtype(np.int64), np.dtype(bool)
T = Size.symbol("T")


def at(const: Any = 0) -> Affine:
    """A place that is known."""
    return Affine(const)


class Parts:
    """What programs here are made of: x (4, 8), w (8, 6), places (5) and m are given, s (4, 8) and
    u (4, 6) scratch, y (4, 6) the result; all float64 but for the places."""

    def __init__(self) -> None:
        self.e = Exprs()
        self.x, self.w = Buffer("x", F64, (4, 8), "input"), Buffer("w", F64, (8, 6), "input")
        self.places = Buffer("places", I64, (5,), "input")
        self.half = Buffer("half", F32, (4, 6), "input")
        self.ones = Buffer("ones", F64, (8,), "constant", np.ones(8))
        self.m = Buffer("m", F64, (4, 6), "state")
        self.s, self.u = Buffer("s", F64, (4, 8), "scratch"), Buffer("u", F64, (4, 6), "scratch")
        self.y = Buffer("y", F64, (4, 6), "result")
        self.line = Buffer("line", F64, (T,), "input")
        self.i, self.j, self.k = Var("i", 4), Var("j", 8), Var("k", 8)
        self.l, self.n, self.t = Var("l", 8), Var("n", 6), Var("t", T)
        self.r, self.q, self.acc = Local("r", F64), Local("q", F64), Local("acc", F64)

    def place(self, row: Var, width: int, col: Var) -> Affine:
        """row * width + col."""
        return Affine(0, ((row, width), (col, 1)))

    def load(self, b: Buffer, where: Affine, when: Expr | None = None) -> Expr:
        """An element."""
        return self.e.load(b, where, when)

    def fn(self, name: str, *xs: Expr, dtype: Any = F64) -> Expr:
        """A function."""
        return self.e.fn(name, *xs, dtype=dtype)

    @property
    def scaled(self) -> list[Stmt]:
        """s = x times the sums of its rows."""
        e, r = self.e, self.r
        x = self.load(self.x, self.place(self.i, 8, self.j))
        again = self.load(self.x, self.place(self.i, 8, self.l))
        times = self.fn("mul", again, e.local(r))
        rows = (
            Let(r, e.lit(0.0, F64)),
            For(self.j, (Into(r, "add", x),), "lanes"),
            For(self.l, (Store(self.s, self.place(self.i, 8, self.l), times),), "lanes"),
        )
        return [For(self.i, rows)]

    @property
    def multiplied(self) -> list[Stmt]:
        """y = s @ w."""
        i = Var("i", 4)
        left = self.load(self.s, self.place(i, 8, self.k))
        right = self.load(self.w, self.place(self.k, 6, self.n))
        out = Store(self.y, self.place(i, 6, self.n), self.e.local(self.acc))
        return [Product(i, self.n, (self.k,), left, right, self.acc, (out,))]

    def loops(self, *bodies: list[Stmt], symbols: tuple[str, ...] = ()) -> Loops:
        """A program of kernels with these bodies."""
        buffers = [b for b in vars(self).values() if isinstance(b, Buffer)]
        if not symbols:
            buffers.remove(self.line)
        kernels = [Kernel(f"k{i}", tuple(body)) for i, body in enumerate(bodies)]
        return Loops(buffers, kernels, symbols)

    def fine(self, *more: list[Stmt], symbols: tuple[str, ...] = ()) -> Loops:
        """A program that is fine, if `more` is."""
        return self.loops(self.scaled, self.multiplied, *more, symbols=symbols)


# --- mistakes ------------------------------------------------------------------------------------

Mistake = Callable[[Parts], Loops]
MISTAKES: dict[str, tuple[Mistake, str]] = {}


def mistake(says: str) -> Callable[[Mistake], Mistake]:
    """A program with a mistake, of which the checker says this."""

    def note(make: Mistake) -> Mistake:
        MISTAKES[make.__name__] = make, says
        return make

    return note


@mistake("i, l is not known")
def counter_of_no_loop(p: Parts) -> Loops:
    return p.fine([Store(p.m, at(), p.load(p.x, p.place(p.i, 8, p.l)))])


@mistake("n is not known")
def offset_by_a_counter_of_no_loop(p: Parts) -> Loops:
    return p.fine([Store(p.m, Affine.of(p.n), p.e.lit(1.0, F64))])


@mistake("r is not known")
def local_before_it_is_set(p: Parts) -> Loops:
    return p.fine([Store(p.m, at(), p.e.local(p.r)), Let(p.r, p.e.lit(0.0, F64))])


@mistake("q is not known")
def local_of_another_loop(p: Parts) -> Loops:
    n, o = Var("n", 6), Var("o", 6)
    first = For(n, (Let(p.q, p.load(p.m, Affine.of(n))),))
    return p.fine([first, For(o, (Store(p.m, Affine.of(o), p.e.local(p.q)),))])


@mistake("q has no value to begin with")
def folding_into_nothing(p: Parts) -> Loops:
    return p.fine([Into(p.q, "add", p.e.lit(1.0, F64))])


@mistake("q is set twice")
def local_set_twice(p: Parts) -> Loops:
    return p.fine([Let(p.q, p.e.lit(0.0, F64)), Let(p.q, p.e.lit(1.0, F64))])


@mistake("n is set twice")
def counter_used_twice(p: Parts) -> Loops:
    loop = For(p.n, (Store(p.m, Affine.of(p.n), p.e.lit(1.0, F64)),))
    return p.fine([For(p.n, (loop,))])


@mistake("z is no buffer")
def buffer_of_another_program(p: Parts) -> Loops:
    return p.fine([Store(Buffer("z", F64, (4,), "scratch"), at(), p.e.lit(1.0, F64))])


@mistake("T is no symbol")
def size_of_another_program(p: Parts) -> Loops:
    return p.fine([For(p.t, (Store(p.m, at(), p.e.lit(1.0, F64)),))])


@mistake("arguments of add differ in dtype: float64, float32")
def sum_of_two_kinds(p: Parts) -> Loops:
    total = p.fn("add", p.load(p.x, at()), p.load(p.half, at()))
    return p.fine([Store(p.m, at(), total)])


@mistake("less of float64 and its value differ in dtype: bool, float64")
def comparison_that_is_no_bool(p: Parts) -> Loops:
    x = p.load(p.x, at())
    return p.fine([Store(p.m, at(), p.fn("less", x, x))])


@mistake("does not choose by a condition")
def choice_by_a_number(p: Parts) -> Loops:
    x = p.load(p.x, at())
    return p.fine([Store(p.m, at(), p.fn("where", x, x, x))])


@mistake("branches and value of where")
def choice_between_two_kinds(p: Parts) -> Loops:
    c, h, x = p.e.lit(True, BOOL), p.load(p.half, at()), p.load(p.x, at())
    return p.fine([Store(p.m, at(), p.fn("where", c, x, h))])


@mistake("the condition x[0] is float64")
def load_if_a_number(p: Parts) -> Loops:
    x = p.load(p.x, at())
    return p.fine([Store(p.m, at(), p.load(p.w, at(), x))])


@mistake("the bits of float64 are no uint32")
def bits_of_another_size(p: Parts) -> Loops:
    bits = p.fn("bits", p.load(p.x, at()), dtype=np.uint32)
    return p.fine([Store(p.m, at(), p.e.cast(bits, F64))])


@mistake("there is no frobnicate of float64")
def function_that_nobody_knows(p: Parts) -> Loops:
    return p.fine([Store(p.m, at(), p.fn("frobnicate", p.load(p.x, at())))])


@mistake("there is no sqrt of int64")
def root_of_whole_numbers(p: Parts) -> Loops:
    root = p.fn("sqrt", p.load(p.places, at()), dtype=I64)
    return p.fine([Store(p.m, at(), p.e.cast(root, F64))])


@mistake("with which loops do not compute")
def complex_numbers(p: Parts) -> Loops:
    z = p.fn("cast", p.load(p.x, at()), dtype=np.complex128)
    return p.fine([Store(p.m, at(), p.e.cast(z, F64))])


@mistake("a local and its value differ in dtype: float32, float64")
def local_of_another_kind(p: Parts) -> Loops:
    return p.fine([Let(Local("h", F32), p.e.lit(1.0, F64))])


@mistake("a local and what is folded into it")
def folding_another_kind(p: Parts) -> Loops:
    return p.fine([Let(p.q, p.e.lit(0.0, F64)), Into(p.q, "add", p.e.lit(0.0, F32))])


@mistake("logical_or of numbers that are not bools")
def logic_of_numbers(p: Parts) -> Loops:
    return p.fine([Let(p.q, p.e.lit(0.0, F64)), Into(p.q, "logical_or", p.e.lit(1.0, F64))])


@mistake("a buffer and what is stored differ in dtype: float64, float32")
def store_of_another_kind(p: Parts) -> Loops:
    return p.fine([Store(p.m, at(), p.load(p.half, at()))])


@mistake("x[0] is float64, not a whole number")
def offset_that_is_no_whole_number(p: Parts) -> Loops:
    return p.fine([Store(p.m, Affine.of(p.load(p.x, at())), p.e.lit(1.0, F64))])


@mistake("lanes within lanes")
def lanes_within_lanes(p: Parts) -> Loops:
    i = Var("i", 4)
    inner = For(p.n, (Store(p.m, p.place(i, 6, p.n), p.e.lit(1.0, F64)),), "lanes")
    return p.fine([For(i, (inner,), "lanes")])


@mistake("every lane stores at the same place")
def lanes_that_meet(p: Parts) -> Loops:
    return p.fine([For(p.n, (Store(p.m, at(), p.load(p.w, Affine.of(p.n))),), "lanes")])


@mistake("every lane stores at the same place")
def lanes_that_meet_by_way_of_a_local(p: Parts) -> Loops:
    body = Let(p.q, p.load(p.w, Affine.of(p.n))), Store(p.m, at(), p.e.local(p.q))
    return p.fine([For(p.n, body, "lanes")])


@mistake("lanes end at different places")
def lanes_of_which_each_counts_how_far_it_goes(p: Parts) -> Loops:
    count, o = Local("count", I64), Var("o", 6)
    end = p.fn("minimum", p.e.local(count), p.e.lit(6, I64), dtype=I64)
    one = Into(count, "add", p.e.lit(1, I64))
    loop = For(o, (Store(p.m, Affine.of(p.n), p.e.lit(1.0, F64)),), upto=Affine.of(end))
    return p.fine([For(p.n, (Let(count, p.e.lit(0, I64)), one, loop), "lanes")])


def potrf(p: Parts, b: Buffer, first: Affine, size: int = 36, dtype: Any = F64) -> Routine:
    """A factorization in place."""
    return Routine("potrf", dtype, ("U", 6, Span(b, first, size, "inout"), 6))


@mistake("LAPACK within lanes")
def routine_within_lanes(p: Parts) -> Loops:
    return p.fine([For(p.n, (potrf(p, p.m, Affine.of(p.n), 8),), "lanes")])


@mistake("LAPACK has no potrf of int64")
def routine_of_whole_numbers(p: Parts) -> Loops:
    return p.fine([potrf(p, p.m, at(), 24, I64)])


@mistake("half is float32")
def routine_of_numbers_of_another_dtype(p: Parts) -> Loops:
    return p.fine([potrf(p, p.half, at(), 24)])


@mistake("x is only to be read")
def routine_that_overwrites_what_is_given(p: Parts) -> Loops:
    return p.fine([potrf(p, p.x, at(), 24)])


@mistake("m[0] goes from 0 to 35, m has 24 elements")
def routine_beyond_its_memory(p: Parts) -> Loops:
    return p.fine([potrf(p, p.m, at())])


@mistake("u is read before it is written")
def routine_on_memory_without_numbers(p: Parts) -> Loops:
    return p.fine([potrf(p, p.u, at(), 24)])


@mistake("n is not known")
def routine_at_a_counter_of_no_loop(p: Parts) -> Loops:
    return p.fine([potrf(p, p.m, Affine.of(p.n), 8)])


@mistake("m, which says whether it is run, is not one bool")
def eager_if_a_number_holds(p: Parts) -> Loops:
    whole = Strided(p.m, 0, (4, 6), (6, 1))
    return p.fine([Host("sort", (whole,), (whole,), p.m)])


@mistake("a product within lanes")
def product_within_lanes(p: Parts) -> Loops:
    return p.loops(p.scaled, [For(Var("z", 3), tuple(p.multiplied), "lanes")])


@mistake("left depends on j")
def left_that_knows_j(p: Parts) -> Loops:
    left, right = (p.load(p.x, p.place(p.k, 1, p.j)), p.load(p.w, p.place(p.k, 6, p.j)))
    return p.fine([Product(Var("z", 4), p.j, (Var("c", 8), p.k), left, right, p.q, ())])


@mistake("right depends on i")
def right_that_knows_i(p: Parts) -> Loops:
    i, k, n = Var("i", 4), Var("k", 8), Var("n", 6)
    left, right = p.load(p.x, p.place(i, 8, k)), p.load(p.w, p.place(i, 6, n))
    return p.fine([Product(i, n, (k,), left, right, p.q, ())])


@mistake("right's elements are no neighbours along n")
def right_that_is_turned(p: Parts) -> Loops:
    i, k, n = Var("i", 4), Var("k", 8), Var("n", 6)
    left, right = p.load(p.x, p.place(i, 8, k)), p.load(p.w, p.place(n, 8, k))
    return p.fine([Product(i, n, (k,), left, right, p.q, ())])


@mistake("left, right and their sum differ in dtype: float64, float32, float64")
def product_of_two_kinds(p: Parts) -> Loops:
    i, k, n = Var("i", 4), Var("k", 4), Var("n", 6)
    left, right = p.load(p.x, p.place(i, 8, k)), p.load(p.half, p.place(k, 6, n))
    return p.fine([Product(i, n, (k,), left, right, p.q, ())])


@mistake("i is not known")
def memory_asked_for_by_row(p: Parts) -> Loops:
    (s,) = p.multiplied
    assert isinstance(s, Product)
    prefetch = Prefetch(p.w, Affine.of(s.i), 8, 6, 6)
    return p.loops(p.scaled, [replace(s, prefetch=prefetch)])


def gemm(p: Parts, **other: Any) -> list[Stmt]:
    """u = s @ w by BLAS, but for what is `other`."""
    given = {"m": 4, "n": 6, "k": 8, "left": Matrix(p.s, at(), 8, 1),
             "right": Matrix(p.w, at(), 6, 1), "out": Matrix(p.u, at(), 6, 1)}  # fmt: skip
    return [Gemm(**(given | other))]


@mistake("n goes to 5, beyond 4")
def loop_that_goes_on_beyond_its_counter(p: Parts) -> Loops:
    store = Store(p.m, p.place(p.i, 6, p.n), p.e.lit(0.0, F64))
    return p.fine([For(p.n, (For(p.i, (store,), upto=Affine.of(p.n)),))])


@mistake("lanes end at different places")
def loop_of_a_lane_that_ends_for_itself(p: Parts) -> Loops:
    store = Store(p.m, p.place(p.i, 6, p.n), p.e.lit(0.0, F64))
    return p.fine([For(p.n, (For(p.i, (store,), upto=Affine.of(p.n)),), "lanes")])


def triangle(p: Parts, const: int) -> list[Stmt]:
    """For each l the elements l, l - 1, ... 0 of a line, which begins `const` further on."""
    value = p.load(p.ones, Affine(const, ((p.l, 1), (p.k, -1))))
    end = Affine(1, ((p.l, 1),))
    return [For(p.l, (For(p.k, (Store(p.m, Affine.of(p.l), value),), upto=end),))]


@mistake("goes from -1 to 6")
def triangle_that_begins_before_its_line(p: Parts) -> Loops:
    return p.fine(triangle(p, -1))


@mistake("goes from 1 to 8")
def triangle_that_ends_behind_its_line(p: Parts) -> Loops:
    return p.fine(triangle(p, 1))


@mistake("t is not known")
def loop_that_ends_nowhere(p: Parts) -> Loops:
    store = Store(p.m, p.place(p.i, 6, p.n), p.e.lit(0.0, F64))
    return p.fine([For(p.n, (For(p.i, (store,), upto=Affine.of(p.t)),))])


@mistake("9 goes to 9, beyond 8")
def product_that_goes_on(p: Parts) -> Loops:
    return p.fine(gemm(p, upto=("k", at(9))))


@mistake("neither rows nor columns of w lie together")
def matrix_that_blas_cannot_read(p: Parts) -> Loops:
    return p.fine(gemm(p, right=Matrix(p.w, at(), 3, 2), n=3))


@mistake("a product overwrites what it reads")
def product_in_place(p: Parts) -> Loops:
    return p.fine(gemm(p, out=Matrix(p.s, at(), 8, 1)))


@mistake("w is only to be read")
def product_into_an_input(p: Parts) -> Loops:
    return p.fine(gemm(p, right=Matrix(p.u, at(), 6, 1), out=Matrix(p.w, at(), 6, 1)))


@mistake("w[2] goes from 2 to 49, w has 48 elements")
def matrix_that_goes_beyond_its_buffer(p: Parts) -> Loops:
    return p.fine(gemm(p, right=Matrix(p.w, at(2), 6, 1)))


@mistake("an eager op shares its kernel")
def eager_op_beside_others(p: Parts) -> Loops:
    whole = Strided(p.m, 0, (4, 6), (6, 1))
    return p.fine([Host("sort", (whole,), (whole,)), *gemm(p)])


@mistake("m[1] goes from 1 to 24, m has 24 elements")
def eager_op_beyond_a_buffer(p: Parts) -> Loops:
    return p.fine([Host("sort", (Strided(p.m, 1, (4, 6), (6, 1)),), ())])


@mistake("x is only to be read")
def writing_an_input(p: Parts) -> Loops:
    return p.fine([Store(p.x, at(), p.e.lit(1.0, F64))])


@mistake("ones is only to be read")
def writing_a_constant(p: Parts) -> Loops:
    return p.fine([Store(p.ones, at(), p.e.lit(1.0, F64))])


@mistake("x[7*n + i] goes from 0 to 38, x has 32 elements")
def reading_beyond_a_buffer(p: Parts) -> Loops:
    i, n = Var("i", 4), Var("n", 6)
    value = p.load(p.x, Affine(0, ((n, 7), (i, 1))))
    return p.fine([For(i, (For(n, (Store(p.m, p.place(i, 6, n), value),)),))])


@mistake("m[n + -1] goes from -1 to 4")
def writing_before_a_buffer(p: Parts) -> Loops:
    return p.fine([For(p.n, (Store(p.m, Affine(-1, ((p.n, 1),)), p.e.lit(1.0, F64)),))])


def clamped(p: Parts, last: int) -> Affine:
    """A place from data, kept between 0 and `last`."""
    i = p.fn("maximum", p.load(p.places, at()), p.e.lit(0, I64), dtype=I64)
    return Affine.of(p.fn("minimum", i, p.e.lit(last, I64), dtype=I64))


@mistake("goes from 0 to 24, m has 24 elements")
def index_kept_within_another_array(p: Parts) -> Loops:
    return p.fine([Store(p.m, clamped(p, 24), p.e.lit(1.0, F64))])


@mistake("goes from 0 to 24, m has 24 elements")
def upper_bits_of_a_counter_beyond_an_array(p: Parts) -> Loops:
    wide = Var("wide", 100)
    return p.fine(
        [For(wide, (Store(p.m, upper_bits(p.e, Affine.of(wide), 2), p.e.lit(1.0, F64)),))]
    )


@mistake("goes from 9 to 24, m has 24 elements")
def lower_bits_of_a_counter_beyond_an_array(p: Parts) -> Loops:
    wide = Var("wide", 100)
    return p.fine(
        [For(wide, (Store(p.m, lower_bits(p.e, Affine.of(wide), 4) + 9, p.e.lit(1.0, F64)),))]
    )


@mistake("goes from 1 to 7, line has 7 elements with {'T': 7}")
def reading_beyond_an_array_of_any_size(p: Parts) -> Loops:
    value = p.load(p.line, Affine(1, ((p.t, 1),)))
    return p.fine([For(p.t, (Store(p.m, at(), value),))], symbols=("T",))


@mistake("s is read before it is written")
def kernels_in_the_wrong_order(p: Parts) -> Loops:
    return p.loops(p.multiplied, p.scaled)


@mistake("u is read before it is written")
def adding_to_nothing(p: Parts) -> Loops:
    return p.fine([Store(p.u, at(), p.e.lit(1.0, F64), add=True)])


@mistake("u is read before it is written")
def product_added_to_nothing(p: Parts) -> Loops:
    return p.fine(gemm(p, add=True))


@mistake("the result y is never written")
def result_that_nobody_writes(p: Parts) -> Loops:
    return p.loops(p.scaled)


@mistake("turns 0 and 1 of z meet in m")
def turns_that_write_to_the_same_place(p: Parts) -> Loops:
    n, z = Var("n", 6), Var("z", 4)
    fill = For(n, (Store(p.m, p.place(z, 5, n), p.e.lit(1.0, F64)),))
    return p.fine([For(z, (fill,), "parallel", independent=True)])


@mistake("turns 0 and 3 of z meet in m")
def turns_that_read_what_another_one_writes(p: Parts) -> Loops:
    z = Var("z", 4)
    last = p.load(p.m, Affine(3, ((z, -1),)))
    return p.fine([For(z, (Store(p.m, Affine.of(z), last),), "parallel", independent=True)])


@mistake("turns 0 and 1 of z meet in u")
def products_that_write_to_the_same_place(p: Parts) -> Loops:
    z = Var("z", 2)
    out = Matrix(p.u, Affine(0, ((z, 6),)), 6, 1)
    left = Matrix(p.s, Affine(0, ((z, 16),)), 8, 1)
    return p.fine([For(z, tuple(gemm(p, m=2, left=left, out=out)), "parallel", independent=True)])


@mistake("is not independent, or not all of its kernel")
def parallel_loop_that_is_not_independent(p: Parts) -> Loops:
    z = Var("z", 4)
    return p.fine([For(z, (Store(p.m, Affine.of(z), p.e.lit(1.0, F64)),), "parallel")])


@mistake("is not independent, or not all of its kernel")
def parallel_loop_beside_others(p: Parts) -> Loops:
    z = Var("z", 4)
    loop = For(z, (Store(p.m, Affine.of(z), p.e.lit(1.0, F64)),), "parallel", independent=True)
    return p.fine([loop, *gemm(p)])
