"""Two loops in machine code, forward and backward along a tape, with a branch for each op.

A tape is arrays: of each instruction its code, and the places of its operands; its result goes to
the next free place. Nothing is compiled for a graph, so that one of a million nodes costs no more
to prepare than to read. The branches are written from the op table: its partial derivatives are
called with symbols that emit what is done to them. Functions are the C library's, as Python's
`math` has them, so that numbers are the same bits.

Notation: `x` the numbers by place, `g` their gradients, `a b` places of operands.
"""

# The table's lambdas have no annotations: that is its form.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, final

import llvmlite.binding as llvm
from llvmlite import ir

from chainrule.compile.cpu.dict_guards import OF_DICTS, add_dict_guard
from chainrule.compile.cpu.function_writer import F64, I32, PTR, VOID, FunctionWriter, int64
from chainrule.compile.cpu.word_guards import OF_ROWS, add_row_guard
from chainrule.compile.llvm.numbers import I64
from chainrule.compile.runtime.code_placement import placed
from chainrule.compile.runtime.machine_code import compile_object
from chainrule.compile.scalars.formulas import NUMBERS, Number, arity, computed, partial, value
from chainrule.ops.families import rows

_COMMANDS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


@final
class Emitted(Number):
    """A number in machine code; arithmetic on it emits more."""

    __slots__ = ("b", "v")

    def __init__(self, b: Any, v: Any) -> None:
        self.b = b
        self.v = v

    def plain(self, x: float) -> Emitted:
        """A constant."""
        return Emitted(self.b, self._of(x))

    def _of(self, x: Any) -> Any:
        return x.v if isinstance(x, Emitted) else ir.Constant(F64, float(x))

    def arithmetic(self, name: str, a: Any, b: Any) -> Emitted:
        """One instruction."""
        return Emitted(self.b, getattr(self.b, _COMMANDS[name])(self._of(a), self._of(b)))

    def negative(self) -> Emitted:
        """This, with the other sign."""
        return Emitted(self.b, self.b.fneg(self.v))

    def is_(self, sign: str, x: Any) -> Any:
        """The bit of a comparison."""
        compare = self.b.fcmp_unordered if sign == "!=" else self.b.fcmp_ordered
        return compare(sign, self.v, self._of(x))

    def either(self, bit: Any, other: Any) -> Any:
        """The bit of `or`."""
        return self.b.or_(bit, other)

    def select(self, bit: Any, a: Any, b: Any) -> Emitted:
        """a where the bit is set, else b."""
        return Emitted(self.b, self.b.select(bit, self._of(a), self._of(b)))

    def call(self, name: str, *xs: Any) -> Emitted:
        """A function of the C library, by its address: LLVM may not put another in its place."""
        kind = ir.FunctionType(F64, [F64] * len(xs)).as_pointer()
        f = self.b.inttoptr(ir.Constant(I64, address_of(name)), kind)
        return Emitted(self.b, self.b.call(f, [self._of(x) for x in xs]))


@cache
def address_of(name: str) -> int:
    """Where the C library has a function."""
    f = getattr(ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None), name)
    return int(ctypes.cast(f, ctypes.c_void_p).value or 0)


def library_value(name: str, xs: Sequence[float]) -> float:
    """What a function of the C library gives."""
    kind = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * len(xs))
    return float(kind(address_of(name))(*xs))


# --- The loops -----------------------------------------------------------------------------------


@cache
def codes() -> dict[str, int]:
    """The code of each op that the loops have: those whose row can be emitted."""
    known: dict[str, int] = {}
    for label, row in sorted(rows.items()):
        if not row.partials:
            continue
        scratch = ir.Function(ir.Module(), ir.FunctionType(VOID, []), "f")
        b = ir.IRBuilder(scratch.append_basic_block())
        xs = [Emitted(b, ir.Constant(F64, 1.0)) for _ in row.partials]
        try:
            y = value(row, xs)
            for i in range(len(xs)):
                partial(row, i, y, xs)
        except (TypeError, AttributeError, ValueError):
            continue  # what calls NumPy or branches has no machine code
        known[label] = len(known)
    return known


@cache
def all_codes() -> dict[str, int]:
    """These, and those of functions of floats."""
    return codes() | {label: len(codes()) + i for i, label in enumerate(NUMBERS)}


@final
class _Loop:
    """One of the two loops as it is being written:

    void name(code, need, left, right, x, g, n, base)
    """

    def __init__(self, module: Any, name: str) -> None:
        self.s = s = FunctionWriter(module, name, [*[PTR] * 6, I64, I64], VOID)
        self.b = s.b
        self.code, self.need, self.left, self.right, self.x, self.g, self.n, self.base = s.args
        for arg in s.args[:6]:
            arg.add_attribute("noalias")

    def write(self, branch: Callable[[_Loop, str, Any], None], *, up: bool) -> None:
        """Write a branch for each op, upwards or downwards along the tape."""
        s, b = self.s, self.b
        with s.count_up(self.n) as k:
            i = k if up else b.sub(b.sub(self.n, int64(1)), k)
            done = b.append_basic_block("done")
            choice = b.switch(s.load(self.code, i, I32), done)
            for label, number in all_codes().items():
                block = b.append_basic_block(label)
                choice.add_case(ir.Constant(I32, number), block)
                b.position_at_end(block)
                branch(self, label, i)
                b.branch(done)
            b.position_at_end(done)
        b.ret_void()

    def operands(self, label: str, i: Any) -> tuple[list[Any], list[Emitted]]:
        """The places of an instruction's operands, and these."""
        sides = (self.left, self.right)[: arity(label)]
        places = [self.b.sext(self.s.load(side, i, I32), I64) for side in sides]
        return places, [Emitted(self.b, self.s.load(self.x, p, F64)) for p in places]


def _ahead(w: _Loop, label: str, i: Any) -> None:
    _, xs = w.operands(label, i)
    w.s.store(computed(label, xs).v, w.x, w.b.add(w.base, i))


def _back(w: _Loop, label: str, i: Any) -> None:
    """g[operand] += g * d, for the operands that `need` has a bit for; nothing of a zero."""
    if label in NUMBERS:
        return
    s, b, row = w.s, w.b, rows[label]
    place = b.add(w.base, i)
    g, need = s.load(w.g, place, F64), s.load(w.need, i, I32)
    with b.if_then(b.fcmp_unordered("!=", g, ir.Constant(F64, 0.0))):
        places, xs = w.operands(label, i)
        y = Emitted(b, s.load(w.x, place, F64))
        for n, p in enumerate(places):
            bit = b.and_(need, ir.Constant(I32, 1 << n))
            with b.if_then(b.icmp_signed("!=", bit, ir.Constant(I32, 0))):
                more = Emitted(b, g) * partial(row, n, y, xs)
                s.store((Emitted(b, s.load(w.g, p, F64)) + more).v, w.g, p)


@final
class Loops:
    """The machine code of both loops: `forward` and `backward`, of addresses and two counts; and of
    the questions whether what a function read is as it was."""

    def __init__(self) -> None:
        module = ir.Module("scalars")
        module.triple = llvm.get_process_triple()
        _Loop(module, "forward").write(_ahead, up=True)
        _Loop(module, "backward").write(_back, up=False)
        add_row_guard(module)
        add_dict_guard(module)
        self._code = code = placed(compile_object(str(module)))
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6, ctypes.c_int64, ctypes.c_int64)
        self.forward, self.backward = [kind(code.address(x)) for x in ("forward", "backward")]
        # called with the lock of the interpreter, which keeps what they look at as it is
        asking = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        self.unchanged = asking(code.address(OF_ROWS))
        asking = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
        self.guarded = asking(code.address(OF_DICTS))


@cache
def loops() -> Loops:
    """Both loops, compiled once in a process."""
    return Loops()
