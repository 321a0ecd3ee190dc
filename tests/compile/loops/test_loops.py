"""The loop language: equal expressions are one object, offsets add up, everything is printed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule.compile.graph.sizes import Size
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Exprs, Local, Var, within
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
    While,
    exprs_of,
    statements,
)
from chainrule.ops.linalg.solving import Cholesky

F32, F64, I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
T = Size.symbol("T")

E = Exprs()
I, J, K = Var("i", 4), Var("j", T), Var("k", 8)
R, ACC = Local("r", F64), Local("acc", F64)
X = Buffer("x", F64, (4, T), "input", label="pixels")
W, Y = Buffer("w", F64, (8, T), "input"), Buffer("y", F64, (4, T), "result")
AT = Affine(0, ((I, T), (J, 1)))
LOAD = E.load(X, AT)
GOING = Buffer("going", np.dtype(bool), (), "scratch")


# --- printing ------------------------------------------------------------------------------------

STATEMENTS: list[tuple[Stmt, str]] = [
    (For(K, (Let(R, E.lit(0.5, F64)),)), "for k < 8:\n  r: float64 = 0.5"),
    (For(J, (Store(Y, AT, LOAD),), "lanes"), "for j < T lanes:\n  y[T*i + j] = x[T*i + j]"),
    (For(I, (), "parallel"), "for i < 4 parallel:"),
    (Let(R, LOAD), "r: float64 = x[T*i + j]"),
    (Into(R, "add", LOAD), "r += x[T*i + j]"),
    (Into(R, "mul", LOAD), "r *= x[T*i + j]"),
    (Into(R, "maximum", LOAD), "r max= x[T*i + j]"),
    (Into(R, "minimum", LOAD), "r min= x[T*i + j]"),
    (Into(R, "logical_or", E.lit(True, bool)), "r |= True"),
    (Into(R, "logical_and", E.lit(False, bool)), "r &= False"),
    (Store(Y, Affine(3), E.local(R)), "y[3] = r"),
    (Store(Y, Affine(), E.local(R), add=True), "y[0] += r"),
    (
        Product(I, J, (K,), E.load(W, Affine.of(K)), LOAD, ACC, (Store(Y, AT, E.local(ACC)),)),
        "product i < 4, j < T, k < 8:\n  acc: float64 += w[k] * x[T*i + j]\n  y[T*i + j] = acc",
    ),
    (
        Product(I, J, (K,), LOAD, LOAD, ACC, (), Prefetch(W, Affine(2), 4, T, 16)),
        "product i < 4, j < T, k < 8, ahead w[2; T, 1] (4, 16):\n"
        "  acc: float64 += x[T*i + j] * x[T*i + j]",
    ),
    (
        Gemm(4, T, 8, Matrix(X, Affine(), 8, 1), Matrix(W, Affine(2), 1, T), Matrix(Y, AT, T, 1)),
        "y[T*i + j; T, 1] = x[0; 8, 1] @ w[2; 1, T]   # (4, 8) @ (8, T), BLAS",
    ),
    (
        Gemm(4, T, 8, Matrix(X, AT, 8, 1), Matrix(W, AT, T, 1), Matrix(Y, AT, T, 1), add=True),
        "y[T*i + j; T, 1] += x[T*i + j; 8, 1] @ w[T*i + j; T, 1]   # (4, 8) @ (8, T), BLAS",
    ),
    (
        Host(Cholesky(), (Strided(X, 0, (4, T), (T, 1)),), (Strided(Y, 0, (4, T), (T, 1)),)),
        "y = eager cholesky(x)",
    ),
    (
        Host(Cholesky(), (Strided(X, 0, (4, T), (T, 1)),), (Strided(Y, 0, (4, T), (T, 1)),), GOING),
        "y = eager cholesky(x) if going[0]",
    ),
    (
        Routine("potrf", W.dtype, ("U", T, Span(Y, AT, 9, "inout"), 3, Span(X, Affine(), T, "in"))),
        "potrf(U, T, inout y[T*i + j; 9], 3, in x[0; T])   # float64, LAPACK",
    ),
    (
        While(GOING, (Kernel("k1", (Store(GOING, Affine(), E.lit(False, bool)),)),)),
        "while going[0]:\n  k1() -> (going):\n    going[0] = False",
    ),
]


def printed(*body: Stmt) -> str:
    """The lines of statements."""
    lines = str(Kernel("k", body)).splitlines()[1:]
    return "\n".join([line.removeprefix("  ") for line in lines])


@pytest.mark.parametrize(("s", "text"), STATEMENTS, ids=[type(s).__name__ for s, _ in STATEMENTS])
def test_statements_as_they_are_printed(s: Stmt, text: str):
    assert printed(s) == text


def test_every_kind_of_statement_is_printed_here():
    assert {type(s) for s, _ in STATEMENTS} == set(Stmt.__args__)


@pytest.mark.parametrize("s", [s for s, _ in STATEMENTS], ids=lambda s: type(s).__name__)
def test_what_a_statement_is_made_of_is_in_its_text(s: Stmt):
    """Nothing that decides what it does is left unsaid: names, sizes, dtypes, signs."""
    text = printed(s)
    for inner in statements([s]):
        for e in exprs_of(inner):
            assert str(e) in text
            assert all(str(x) in text for x in within(e))
        for name in _names(inner):
            assert name in text


def _names(s: Any) -> list[str]:
    match s:
        case For():
            return [f"{s.var} < {s.var.extent}", s.mode if s.mode != "serial" else "for"]
        case Let():
            return [f"{s.local}: {s.local.dtype}"]
        case Into():
            return [str(s.local)]
        case Store():
            return [f"{s.buffer}[{s.at}]"]
        case Product():
            return [*[f"{v} < {v.extent}" for v in (s.i, s.j, *s.k)], f"{s.acc}: {s.acc.dtype}"]
        case Gemm():
            each = [f"{m.buffer}[{m.at}; {m.row}, {m.col}]" for m in (s.left, s.right, s.out)]
            return [*each, f"({s.m}, {s.k}) @ ({s.k}, {s.n})"]
        case Routine():
            spans = s.spans("in", "out", "inout")
            return [s.name, str(s.dtype), *[f"{x.use} {x.buffer}[{x.at}; {x.size}]" for x in spans]]
        case While():
            return [f"while {s.going}[0]", *[k.name for k in s.kernels]]
        case _:
            told = [f"if {s.when}[0]"] if s.when is not None else []
            return [str(s.op), *told, *[x.buffer.name for x in (*s.inputs, *s.outputs)]]


EXPRESSIONS: list[tuple[Expr, str]] = [
    (E.lit(-0.0, F64), "-0.0"),
    (E.lit(np.inf, F32), "inf"),
    (E.lit(7, I64), "7"),
    (E.local(R), "r"),
    (E.index(AT), "T*i + j"),
    (E.index(Affine(T + 1, ((I, T * 2 + 3),))), "(2*T + 3)*i + T + 1"),
    (E.load(X, Affine.of(E.cast(LOAD, I64))), "x[cast(x[T*i + j])]"),
    (E.load(X, AT, E.fn("isnan", LOAD, dtype=bool)), "x[T*i + j] if isnan(x[T*i + j])"),
    (E.fn("add", LOAD, E.lit(1.0, F64), dtype=F64), "add(x[T*i + j], 1.0)"),
]


@pytest.mark.parametrize(("e", "text"), EXPRESSIONS, ids=[text for _, text in EXPRESSIONS])
def test_expressions_as_they_are_printed(e: Expr, text: str):
    assert str(e) == repr(e) == text


def test_a_program_as_it_is_printed():
    kernel = Kernel("k0_copy", (For(I, (For(J, (Store(Y, AT, LOAD),)),)),), ("copy of the pixels",))
    assert str(Loops([X, Y], [kernel], ("T",))).splitlines() == [
        "x: float64[4, T] input  # pixels",
        "y: float64[4, T] result",
        "",
        "k0_copy(x) -> (y):",
        "  # copy of the pixels",
        "  for i < 4:",
        "    for j < T:",
        "      y[T*i + j] = x[T*i + j]",
    ]


# --- expressions and offsets ---------------------------------------------------------------------


def test_equal_expressions_are_one_object():
    e = Exprs()
    a, b = (e.fn("add", e.load(X, AT), e.lit(2.0, F64), dtype=F64) for _ in range(2))
    assert a is b


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (E.lit(0.0, F64), E.lit(-0.0, F64)),
        (E.lit(1, I64), E.lit(1.0, F64)),
        (E.lit(1.0, F32), E.lit(1.0, F64)),
        (E.lit(True, bool), E.lit(1, I64)),
        (E.load(X, Affine()), E.load(W, Affine())),
        (E.load(X, Affine()), E.load(X, Affine(), E.lit(True, bool))),
        (E.fn("less", LOAD, LOAD, dtype=bool), E.fn("less_equal", LOAD, LOAD, dtype=bool)),
    ],
    ids=str,
)
def test_expressions_that_differ_are_two(a: Expr, b: Expr):
    assert a is not b


def test_nan_is_one_number():
    assert E.lit(np.nan, F64) is E.lit(float("nan"), F64)


def test_what_an_expression_depends_on():
    inner = E.fn("add", E.local(R), E.load(W, Affine.of(K)), dtype=F64)
    e = E.load(X, Affine(0, ((E.cast(inner, I64), 1), (J, 2))), E.fn("isnan", LOAD, dtype=bool))
    assert e.free == {R, K, I, J}


def test_offsets_add_up():
    total = AT + Affine(5, ((J, -1), (K, T)))
    assert str(total) == "T*i + T*k + 5" and total.coefficient(J) == 0
    assert str(total * 2) == "2*T*i + 2*T*k + 10" and (total * 0) == Affine()
    assert Affine() == (AT - AT)


def test_a_kernel_says_what_it_reads_and_writes():
    z = Buffer("z", F64, (4,), "scratch")
    kernel = Kernel("k", (Store(z, Affine(), LOAD), Store(Y, AT, E.load(z, Affine()), add=True)))
    assert kernel.buffers() == ([X, z, Y], [z, Y])
    gemm = Gemm(1, 1, 1, Matrix(X, AT, 1, 1), Matrix(W, AT, 1, 1), Matrix(Y, AT, 1, 1))
    assert Kernel("k", (gemm,)).buffers() == ([X, W], [Y])
