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
from collections.abc import Callable
from functools import cache
from typing import Any, final

import llvmlite.binding as llvm
from llvmlite import ir

from chainrule.compile.cpu.dict_guards import LOOKUP, OF_DICTS, add_dict_guard
from chainrule.compile.cpu.word_guards import OF_ROWS, add_row_guard
from chainrule.compile.llvm.host_target import target
from chainrule.compile.runtime.machine_code import compile_object
from chainrule.compile.scalars.formulas import NUMBERS, Number, arity, computed, partial, value
from chainrule.ops.families import rows

_F64, _I64, _I32 = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
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
        return x.v if isinstance(x, Emitted) else ir.Constant(_F64, float(x))

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
        kind = ir.FunctionType(_F64, [_F64] * len(xs)).as_pointer()
        f = self.b.inttoptr(ir.Constant(_I64, address_of(name)), kind)
        return Emitted(self.b, self.b.call(f, [self._of(x) for x in xs]))


@cache
def address_of(name: str) -> int:
    """Where the C library has a function."""
    f = getattr(ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None), name)
    return int(ctypes.cast(f, ctypes.c_void_p).value or 0)


# --- The loops -----------------------------------------------------------------------------------


@cache
def codes() -> dict[str, int]:
    """The code of each op that the loops have: those whose row can be emitted."""
    known: dict[str, int] = {}
    for label, row in sorted(rows.items()):
        if not row.partials:
            continue
        scratch = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), []), "f")
        b = ir.IRBuilder(scratch.append_basic_block())
        xs = [Emitted(b, ir.Constant(_F64, 1.0)) for _ in row.partials]
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
class _Frame:
    """One of the two loops as it is being written: `at(array, i)` is an element's address."""

    def __init__(self, module: Any, name: str) -> None:
        pointer = [_I32.as_pointer()] * 4 + [_F64.as_pointer()] * 2
        f = ir.Function(module, ir.FunctionType(ir.VoidType(), [*pointer, _I64, _I64]), name)
        self.code, self.need, self.left, self.right, self.x, self.g, self.n, self.base = f.args
        for arg in f.args[:6]:
            arg.add_attribute("noalias")
        self.b = ir.IRBuilder(f.append_basic_block("entry"))
        self.f = f

    def at(self, array: Any, i: Any) -> Any:
        return self.b.gep(array, [i])

    def load(self, array: Any, i: Any) -> Any:
        return self.b.load(self.at(array, i))


def _loop(module: Any, name: str, branch: Callable[[_Frame, str, Any], None]) -> None:
    """void name(code, need, left, right, x, g, n, base): forward upwards, backward downwards."""
    s = _Frame(module, name)
    up = name == "forward"
    head, body, step, end = [s.f.append_basic_block(w) for w in ("head", "body", "step", "end")]
    entry, one = s.b.block, ir.Constant(_I64, 1)
    s.b.branch(head)
    s.b.position_at_end(head)
    k = s.b.phi(_I64)
    k.add_incoming(ir.Constant(_I64, 0), entry)
    s.b.cbranch(s.b.icmp_signed("<", k, s.n), body, end)
    s.b.position_at_end(body)
    i = k if up else s.b.sub(s.b.sub(s.n, one), k)
    choice = s.b.switch(s.load(s.code, i), step)
    for label, number in all_codes().items():
        block = s.f.append_basic_block(label)
        choice.add_case(ir.Constant(_I32, number), block)
        s.b.position_at_end(block)
        branch(s, label, i)
        s.b.branch(step)
    s.b.position_at_end(step)
    k.add_incoming(s.b.add(k, one), step)
    s.b.branch(head)
    s.b.position_at_end(end)
    s.b.ret_void()


def _operands(s: _Frame, label: str, i: Any) -> tuple[list[Any], list[Emitted]]:
    sides = (s.left, s.right)[: arity(label)]
    places = [s.b.sext(s.load(side, i), _I64) for side in sides]
    return places, [Emitted(s.b, s.load(s.x, p)) for p in places]


def _ahead(s: _Frame, label: str, i: Any) -> None:
    _, xs = _operands(s, label, i)
    s.b.store(computed(label, xs).v, s.at(s.x, s.b.add(s.base, i)))


def _back(s: _Frame, label: str, i: Any) -> None:
    """g[operand] += g * d, for the operands that `need` has a bit for; nothing of a zero."""
    if label in NUMBERS:
        return
    row = rows[label]
    place = s.b.add(s.base, i)
    g = s.load(s.g, place)
    need = s.load(s.need, i)
    with s.b.if_then(s.b.fcmp_unordered("!=", g, ir.Constant(_F64, 0.0))):
        places, xs = _operands(s, label, i)
        y = Emitted(s.b, s.load(s.x, place))
        for n, p in enumerate(places):
            bit = s.b.and_(need, ir.Constant(_I32, 1 << n))
            with s.b.if_then(s.b.icmp_signed("!=", bit, ir.Constant(_I32, 0))):
                to = s.at(s.g, p)
                more = Emitted(s.b, g) * partial(row, n, y, xs)
                s.b.store((Emitted(s.b, s.b.load(to)) + more).v, to)


@final
class Loops:
    """The machine code of both loops: `forward` and `backward`, of addresses and two counts; and of
    the questions whether what a function read is as it was."""

    def __init__(self) -> None:
        module = ir.Module("scalars")
        module.triple = llvm.get_process_triple()
        _loop(module, "forward", _ahead)
        _loop(module, "backward", _back)
        add_row_guard(module)
        add_dict_guard(module)
        code = compile_object(str(module))
        llvm.add_symbol(LOOKUP, _address_in_python(LOOKUP))
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6, ctypes.c_int64, ctypes.c_int64)
        self.forward = kind(self._engine.get_function_address("forward"))
        self.backward = kind(self._engine.get_function_address("backward"))
        # called with the lock of the interpreter, which keeps what they look at as it is
        asking = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        self.unchanged = asking(self._engine.get_function_address(OF_ROWS))
        asking = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
        self.guarded = asking(self._engine.get_function_address(OF_DICTS))


def _address_in_python(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@cache
def loops() -> Loops:
    """Both loops, compiled once in a process."""
    return Loops()
