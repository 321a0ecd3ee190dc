"""What the emitter remembers of memory and locals is what a loop's every turn may rely on.

The scheduler seldom writes such loops, so they are written by hand, and read out in Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from chainrule.compile.cpu.program_module import emit
from chainrule.compile.llvm.host_target import host
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs, Local, Var
from chainrule.compile.loops.statements import For, Gemm, Into, Kernel, Let, Loops, Matrix, Store
from chainrule.compile.loops.value_numbering import AvailableValues
from chainrule.compile.runtime import machine_code

F32 = np.dtype(np.float32)
X, Y = Buffer("x", F32, (16, 16), "state"), Buffer("y", F32, (16, 16), "result")
I, J, N = Var("i", 16), Var("j", 16), Var("n", 3)
ACC = Local("acc", F32)
E = Exprs()
FIRST = E.load(X, Affine(0))
ALONG = Affine(0, ((I, 1),))
ACROSS = Affine(0, ((I, 16), (J, 1)))
TURNED = Affine(0, ((I, 1), (J, 16)))


def out(at: int | Affine, value: Any) -> Store:
    return Store(Y, Affine(at) if isinstance(at, int) else at, value)


def into_x(at: int | Affine, value: Any) -> Store:
    return Store(X, Affine(at) if isinstance(at, int) else at, value)


def plus(a: Any, b: Any) -> Any:
    return E.fn("add", a, b, dtype=F32)


ONE, BEFORE = E.lit(1.0, F32), Local("before", F32)
READ = [Let(BEFORE, FIRST), out(20, E.local(BEFORE))]
WRITES: dict[str, list[Any]] = {
    "the loop stores there at the end of a turn": [
        *READ,
        For(N, (out(Affine(0, ((N, 1),)), FIRST), into_x(0, plus(FIRST, ONE)))),
        out(21, FIRST),
    ],
    "a loop within it does": [
        *READ,
        For(N, (
            out(Affine(0, ((N, 1),)), FIRST),
            For(I, (into_x(ALONG, plus(E.load(X, ALONG), ONE)),), "lanes"),
        )),
        out(21, FIRST),
    ],
    "a local is folded into at the end of a turn": [
        Let(ACC, ONE),
        out(20, E.local(ACC)),
        For(N, (out(Affine(0, ((N, 1),)), E.local(ACC)), Into(ACC, "add", ONE))),
        out(21, E.local(ACC)),
    ],
    "squares are turned": [
        Let(BEFORE, E.load(Y, Affine(1))),
        For(I, (For(J, (Store(Y, ACROSS, E.load(X, TURNED)),), "lanes"),)),
        into_x(3, E.load(Y, Affine(1))),
    ],
    "BLAS writes there": [
        into_x(3, E.load(Y, Affine(1))),
        Gemm(16, 16, 16, Matrix(X, Affine(0), 16, 1), Matrix(X, Affine(0), 16, 1),
             Matrix(Y, Affine(0), 16, 1)),
        into_x(3, E.load(Y, Affine(1))),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_every_turn_reads_what_is_there(name: str):
    x = np.random.default_rng(0).normal(size=(16, 16)).astype(F32)
    got, want = (x.copy(), np.zeros_like(x)), (x.copy(), np.zeros_like(x))
    run_native(WRITES[name], got)
    run_plain(WRITES[name], {X: want[0].reshape(-1), Y: want[1].reshape(-1)}, {})
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)


def test_a_store_of_one_vector_of_a_row_leaves_the_others():
    """Of a row that is a few vectors: what is known of the others holds, of all else nothing."""
    first, second, other = Var("row", 16), Var("row", 16), Var("other", 16)
    places = [Affine(3, ((v, 1), (I, 16))) for v in (first, second)]
    beside = [Affine(4, ((second, 1), (I, 16))), Affine(3, ((second, 2), (I, 16)))]
    beside += [Affine(3, ((second, 1),)), Affine(3, ((other, 1), (I, 16)))]
    known = AvailableValues()
    with known.within(), known.apart([first, second]):
        for number, at in enumerate([*places, *beside]):
            known.keep(E.load(Y, at), number)
        both = plus(E.load(Y, places[0]), E.load(Y, places[1]))
        known.keep(both, "both")
        known.stored(out(places[0], ONE), "new")
        assert known.find(E.load(Y, places[1])) == 1
        assert [known.find(E.load(Y, at)) for at in [places[0], *beside]] == [None] * 5
        assert known.find(both) is None
        known.stored(out(places[1], ONE), "newer")
        assert [known.stored_value(Y, at) for at in places] == ["new", "newer"]
        known.stored(out(Affine(5), ONE), "anywhere")
        assert [known.stored_value(Y, at) for at in places] == [None, None]
    known.stored(out(places[0], ONE), "new")
    known.stored(out(places[1], ONE), "newer")
    assert known.stored_value(Y, places[0]) is None


def run_native(body: Sequence[Any], arrays: Sequence[Any]) -> None:
    """As machine code, on the arrays of X and Y."""
    program = Loops([X, Y], [Kernel("k", tuple(body))])
    code = machine_code.load(machine_code.compile_object(str(emit(program, [X, Y], [], host()).ir)))
    table = (ctypes.c_void_p * 2)(*map(id, arrays))
    nothing = (ctypes.c_int64 * 1)()
    code.call(table, nothing, nothing, 0, nothing)


def run_plain(body: Sequence[Any], memory: dict[Any, Any], known: dict[Any, Any]) -> None:
    """The same, statement by statement; `known` are counters and locals."""

    def offset(at: Affine) -> Any:
        return at.const + sum(known[v] * c for v, c in at.terms)

    def number(e: Any) -> Any:
        match e.kind:
            case "lit":
                return e.of
            case "local":
                return known[e.of]
            case "load":
                return memory[e.of[0]][offset(e.of[1])]
            case _:
                return sum(map(number, e.of[1:]))

    for s in body:
        match s:
            case For():
                turns: Any = s.var.extent
                for n in range(turns):
                    known[s.var] = n
                    run_plain(s.body, memory, known)
            case Let():
                known[s.local] = number(s.value)
            case Into():
                known[s.local] += number(s.value)
            case Store():
                memory[s.buffer][offset(s.at)] = number(s.value)
            case _:
                x, y = (memory[m.buffer].reshape(16, 16) for m in (s.left, s.right))
                memory[s.out.buffer][:] = (x @ y).reshape(-1)
