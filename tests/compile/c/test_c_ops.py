"""What each function of the loop language is in C: the same numbers as NumPy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.c.expressions import Printer
from chainrule.compile.c.names import Namer
from chainrule.compile.export.call_data import names_from_function
from chainrule.compile.graph.sizes import Size
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Exprs, Var
from chainrule.ops import elementwise as ew
from chainrule.ops.families import Elementwise
from tests.compile.c.ccompiler import left, needs_compiler

F64 = np.dtype(np.float64)
ROWS = {n: op for n, op in vars(ew).items() if isinstance(op, Elementwise)}
ARITHMETIC = {
    "add", "sub", "mul", "neg", "positive", "square", "floor_divide", "remainder", "abs", "sign",
    "floor", "ceil", "trunc", "round", "maximum", "minimum", "relu", "at_least", "at_most",
}  # fmt: skip
WHOLE = {n for n, op in ROWS.items() if n in ARITHMETIC or not op.partials}
BITS = {n for n in ROWS if n.startswith("bitwise")}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.3, -0.7, 2.5, -3.5, 12.25, -40.0, 700.0, 1e-30, np.inf, -np.inf,
           np.nan]  # fmt: skip


def grid(dtype: Any) -> tuple[Any, Any]:
    """All pairs of special values."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        values: Any = SPECIAL
    elif dtype.kind == "b":
        values = [False, True]
    else:
        values = [0, 1, 2, 3, 7, 40, 100] + ([-1, -2, -7, -100] if dtype.kind == "i" else [])
    a, b = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    return a.ravel(), b.ravel()


def arity(op: Any) -> int:
    return op.fn.nin if isinstance(op.fn, np.ufunc) else len(op.partials)


def in_c(rows: dict[str, Any], dtype: Any, folder: Path) -> dict[str, tuple[Any, Any]]:
    """By op: what C gives, and what NumPy gives, of all special values."""
    a, b = grid(dtype)

    def every(x: Any, y: Any) -> Any:
        return [op(x, y) if arity(op) == 2 else op(x) for op in rows.values()]

    with np.errstate(all="ignore"):
        want = [np.asarray(w) for w in every(a, b)]
    files = cr.jit(every).to_c(folder / "ops.c", cr.tensor(a), cr.tensor(b))
    got = left(files.source, want)
    return dict(zip(rows, zip(got, want, strict=True), strict=True))


@needs_compiler
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-6), (np.float64, 4e-15)])
def test_functions_of_floats(dtype: Any, rtol: float, tmp_path: Path) -> None:
    rows = {n: op for n, op in ROWS.items() if n not in BITS}
    assert len(rows) > 60
    for name, (got, want) in in_c(rows, dtype, tmp_path).items():
        tiny = np.finfo(dtype).tiny if want.dtype.kind == "f" else 0
        np.testing.assert_allclose(got, want, rtol=rtol, atol=4 * tiny, err_msg=name)
        zeros = (want == 0) & (got == 0)
        if name not in ("remainder", "sign", "tan"):
            np.testing.assert_array_equal(
                np.signbit(got[zeros]), np.signbit(want[zeros]), err_msg=name
            )


@needs_compiler
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8, np.uint32])
def test_functions_of_integers(dtype: Any, tmp_path: Path) -> None:
    rows = {n: op for n, op in ROWS.items() if n in WHOLE}
    if np.dtype(dtype).itemsize == 1:
        del rows["round"]  # that is float16
    for name, (got, want) in in_c(rows, dtype, tmp_path).items():
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want, err_msg=name)


# --- how expressions are written -----------------------------------------------------------------


def written(e: Expr, **names: Any) -> str:
    printer = Printer({})
    printer.names = {v: n for n, v in names.items() if isinstance(v, Var)}
    printer.buffers = {b: (n, 0) for n, b in names.items() if isinstance(b, Buffer)}
    return printer.text(e)


def test_parentheses_where_they_are_needed_and_nowhere_else() -> None:
    e, i = Exprs(), Var("i1", 8)
    x, y = (Buffer(n, F64, (8,), "input") for n in "xy")
    a, b = (e.load(z, Affine.of(i)) for z in (x, y))

    def fn(name: str, *args: Expr) -> Expr:
        return e.fn(name, *args, dtype=bool if name in ("less", "logical_and") else F64)

    def text(z: Expr) -> str:
        return written(z, i=i, x=x, y=y)

    assert text(fn("add", fn("mul", a, b), a)) == "x[i] * y[i] + x[i]"
    assert text(fn("mul", fn("add", a, b), a)) == "(x[i] + y[i]) * x[i]"
    assert text(fn("sub", a, fn("sub", b, a))) == "x[i] - (y[i] - x[i])"
    assert text(fn("sub", fn("sub", a, b), a)) == "x[i] - y[i] - x[i]"
    assert text(fn("div", a, fn("mul", b, a))) == "x[i] / (y[i] * x[i])"
    assert text(fn("neg", fn("neg", a))) == "-(-x[i])"
    assert text(fn("neg", fn("add", a, b))) == "-(x[i] + y[i])"
    assert text(fn("square", fn("sub", a, b))) == "(x[i] - y[i]) * (x[i] - y[i])"
    less = fn("less", a, fn("add", b, a))
    assert text(fn("where", less, a, fn("where", less, b, a))) == (
        "x[i] < y[i] + x[i] ? x[i] : x[i] < y[i] + x[i] ? y[i] : x[i]"
    )
    assert text(fn("mul", fn("where", less, a, b), b)) == (
        "(x[i] < y[i] + x[i] ? x[i] : y[i]) * y[i]"
    )
    assert text(e.cast(fn("add", a, b), np.float32)) == "(float)(x[i] + y[i])"
    assert text(fn("sub", a, e.lit(-0.5, F64))) == "x[i] - -0.5"
    assert text(e.load(x, Affine.of(i) + 3, less)) == ("x[i] < y[i] + x[i] ? x[i + 3] : 0")


def test_offsets_with_symbols_and_signs() -> None:
    e, i, j = Exprs(), Var("i1", 8), Var("i2", 8)
    T = Size.symbol("T")
    x = Buffer("x", F64, (8,), "input")
    at = Affine.of(i) * (T * 4) - j - 2
    assert written(e.load(x, at), i=i, j=j, x=x) == "x[4*T*i - j - 2]"
    assert written(e.load(x, Affine.of(i) * (T + 1)), i=i, x=x) == "x[(T + 1)*i]"


def test_literals_are_the_same_numbers() -> None:
    e = Exprs()
    assert written(e.lit(0.1, np.float32)) == "0.1f"
    assert written(e.lit(1e-5, np.float32)) == "1e-05f"
    assert written(e.lit(0.1, F64)) == "0.1"
    assert written(e.lit(-np.inf, F64)) == "-INFINITY"
    assert written(e.lit(np.nan, F64)) == "NAN"
    assert written(e.lit(-(2**63), np.int64)) == "INT64_MIN"
    assert written(e.lit(2**40, np.int64)) == f"INT64_C({2**40})"


def test_names_are_new_and_are_no_words_of_c() -> None:
    name = Namer()
    made = [name(x) for x in ("h", "h", "exp", "double", "2 b!", "2 b?")]
    assert made == ["h", "h2", "exp3", "double2", "x2_b", "x2_b2"]  # exp2 is C's, too


class Holder:
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._private = [inner]


def test_what_the_user_calls_it() -> None:
    a, b, c = object(), object(), object()
    holder = Holder({"left": a})
    other = Holder(None)
    vars(other)["_private"] = [[b]]

    def f() -> Any:
        return holder, other, c

    found = names_from_function(f, [a, b, c])
    assert found == {id(a): "holder.inner.left", id(b): "other.0", id(c): "c"}
