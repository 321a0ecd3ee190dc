"""Two functions that Python calls as its own built-in ones: what a steady call costs is there.

    object again(object plan, object args)
    object enter(object self, object plan, object args, object result, ...)

`again` tells whether all is as it has to be: the arguments, a tuple; the words of the plan's rows;
the dictionaries that were read (see `dict_guards.py`). It gives a number that says the sizes, or
-1. `enter` puts arguments and results into the program's table and runs it, without the
interpreter's lock. `plan` is an array of int64. First come the words that `PLAN` names, then a
record for each argument (`ARGUMENT`), then the rows: an address and the word that is to be there.

Where objects hold what is looked at here is CPython's and NumPy's layout; `object_layout.py` makes
sure of it before anything of this is used.
"""

from __future__ import annotations

from typing import Any, final

from llvmlite import ir

from chainrule.compile.cpu.call_plan import ARGUMENT, BITS, PLAN, SYMBOLS
from chainrule.compile.cpu.dict_guards import add_dict_guard
from chainrule.compile.cpu.interrupts import Run
from chainrule.compile.cpu.object_layout import ARRAY, ITEMS, KIND, LENGTH, READY
from chainrule.compile.llvm.functions import I64, declare

_PTR, _I8, _I32 = ir.PointerType(), ir.IntType(8), ir.IntType(32)


def _word(n: int) -> Any:
    return ir.Constant(I64, n)


@final
class _Writer:
    """Writes one of the functions; `no` is where it goes when something is not as it is to be."""

    def __init__(self, f: Any, plan: Any, b: Any) -> None:
        self.f, self.b = f, b
        self.no: Any = None
        self.words = self.field(plan, ARRAY.data)

    def field(self, thing: Any, at: Any, kind: Any = _PTR) -> Any:
        """What an object holds `at` bytes from its start."""
        at = _word(at) if isinstance(at, int) else at
        return self.b.load(self.b.gep(thing, [at], source_etype=_I8), typ=kind)

    def word(self, at: Any, start: Any = None) -> Any:
        """Word `at` of the plan, counted from `start`."""
        at = _word(at) if isinstance(at, int) else at
        index = at if start is None else self.b.add(start, at)
        return self.b.load(self.b.gep(self.words, [index], source_etype=I64), typ=I64)

    def pointer(self, name: str) -> Any:
        """A word of the plan that is an address."""
        return self.b.inttoptr(self.word(PLAN.index(name)), _PTR)

    def go_on_if(self, condition: Any) -> None:
        """Go on, or to `no`."""
        on = self.f.append_basic_block("on")
        self.b.cbranch(condition, on, self.no)
        self.b.position_at_end(on)

    def equal(self, x: Any, y: Any) -> None:
        """Go on if two words are equal."""
        self.go_on_if(self.b.icmp_signed("==", x, y))

    def counting(self, n: Any, name: str) -> tuple[Any, Any]:
        """Begin a loop over 0, 1, ... below n: the counter, and what ends it."""
        b, before = self.b, self.b.block
        test, body, after = [self.f.append_basic_block(f"{name}.{x}") for x in ("if", "do", "end")]
        b.branch(test)
        b.position_at_end(test)
        i = b.phi(I64)
        i.add_incoming(_word(0), before)
        b.cbranch(b.icmp_signed("<", i, n), body, after)
        b.position_at_end(body)

        def end() -> None:
            i.add_incoming(b.add(i, _word(1)), b.block)
            b.branch(test)
            b.position_at_end(after)

        return i, end

    def argument(self, args: Any, k: Any) -> tuple[Any, Any]:
        """Argument `k`, and the start of its record."""
        at = self.b.add(_word(ITEMS), self.b.mul(k, _word(8)))
        start = self.b.add(_word(len(PLAN)), self.b.mul(k, _word(len(ARGUMENT))))
        return self.field(args, at), start

    def array(self, x: Any, start: Any) -> Any:
        """The array of an argument: what it holds, or itself."""
        at = self.word(ARGUMENT.index("value"), start)
        itself = self.b.icmp_signed("==", at, _word(0))
        # An object's first word can always be read; it is not used.
        return self.b.select(itself, x, self.field(x, at))


def add_call_gate(module: Any) -> None:
    """Add the function to a module."""
    f = ir.Function(module, ir.FunctionType(_PTR, [_PTR, _PTR]), "again")
    plan, args = f.args
    b = ir.IRBuilder(f.append_basic_block("begin"))
    w = _Writer(f, plan, b)
    w.no = f.append_basic_block("no")
    count = w.word(PLAN.index("arguments"))
    w.equal(w.field(args, LENGTH, I64), count)
    found = b.alloca(I64, SYMBOLS)
    for s in range(SYMBOLS):
        b.store(_word(-1), b.gep(found, [_word(s)], source_etype=I64))
    k, end = w.counting(count, "argument")
    _argument(w, *w.argument(args, k), found)
    end()
    rows = b.add(_word(len(PLAN)), b.mul(count, _word(len(ARGUMENT))))
    i, end = w.counting(w.word(PLAN.index("rows")), "row")
    row = b.add(rows, b.mul(i, _word(2)))
    w.equal(b.load(b.inttoptr(w.word(0, row), _PTR), typ=I64), w.word(1, row))
    end()
    w.equal(b.call(add_dict_guard(module), [w.pointer("guards")]), _word(1))
    key = _word(0)
    for s in range(SYMBOLS):
        n = b.load(b.gep(found, [_word(s)], source_etype=I64), typ=I64)
        w.go_on_if(b.icmp_signed("<", n, _word((1 << BITS) - 1)))
        key = b.or_(b.shl(key, _word(BITS)), b.add(n, _word(1)))
    number = declare(b, "PyLong_FromLongLong", _PTR, [I64])
    b.ret(b.call(number, [key]))
    b.position_at_end(w.no)
    b.ret(b.call(number, [_word(-1)]))


def _argument(w: _Writer, x: Any, start: Any, found: Any) -> None:
    """One argument: its class, then its array's."""
    b = w.b
    at = {name: w.word(i, start) for i, name in enumerate(ARGUMENT)}
    w.equal(w.field(x, KIND, I64), at["kind"])
    # A tensor with a node may need a gradient: that is for Python to see.
    node = w.field(x, at["node"], I64)
    none = w.word(PLAN.index("none"))
    itself = b.icmp_signed("==", at["value"], _word(0))
    w.go_on_if(b.or_(itself, b.icmp_signed("==", node, none)))
    a = w.array(x, start)
    w.equal(w.field(a, KIND, I64), w.word(PLAN.index("ndarray")))
    w.equal(w.field(a, ARRAY.dtype, I64), at["dtype"])
    axes = b.sext(w.field(a, ARRAY.axes, _I32), I64)
    w.equal(axes, at["axes"])
    flag = ir.Constant(_I32, READY)
    w.go_on_if(b.icmp_signed("==", b.and_(w.field(a, ARRAY.flags, _I32), flag), flag))
    shape = w.field(a, ARRAY.shape)
    i, end = w.counting(axes, "axis")
    n = b.load(b.gep(shape, [i], source_etype=I64), typ=I64)
    _size(w, n, w.word(b.add(_word(ARGUMENT.index("n0")), i), start), found)
    end()


def _size(w: _Writer, n: Any, want: Any, found: Any) -> None:
    """A size: the one that is known, or that of a symbol, which is the same wherever it stands."""
    b = w.b
    symbol = b.icmp_signed("<", want, _word(0))
    s = b.select(symbol, b.sub(_word(-1), want), _word(0))
    slot = b.gep(found, [s], source_etype=I64)
    before = b.load(slot, typ=I64)
    new = b.icmp_signed("==", before, _word(-1))
    known = b.select(symbol, b.select(new, n, before), want)
    w.equal(n, known)
    b.store(b.select(symbol, n, before), slot)


def enter(run: Run, program: Any) -> None:
    """Add the function to a module that has `program`."""
    f = ir.Function(run.module, ir.FunctionType(_PTR, [_PTR, _PTR, I64]), "enter")
    _, given, count = f.args
    b = ir.IRBuilder(f.append_basic_block("begin"))
    plan, args = [b.load(b.gep(given, [_word(i)], source_etype=_PTR), typ=_PTR) for i in (0, 1)]
    w = _Writer(f, plan, b)
    table = w.pointer("table")
    k, end = w.counting(w.word(PLAN.index("arguments")), "argument")
    x, start = w.argument(args, k)
    place = w.word(ARGUMENT.index("place"), start)
    used = b.icmp_signed(">=", place, _word(0))
    with b.if_then(used):
        b.store(w.array(x, start), b.gep(table, [place], source_etype=_PTR))
    end()
    k, end = w.counting(b.sub(count, _word(2)), "result")
    result = b.load(b.gep(given, [b.add(k, _word(2))], source_etype=_PTR), typ=_PTR)
    place = b.add(w.word(PLAN.index("first")), k)
    b.store(result, b.gep(table, [place], source_etype=_PTR))
    end()
    run.begin(b)
    memory = [w.pointer(name) for name in ("scratch", "sizes", "host")]
    b.call(program, [table, *memory, ir.Constant(_PTR, None)])  # no clock
    run.end(b)
    with b.if_then(run.is_stopped(b), likely=False):
        b.ret(ir.Constant(_PTR, None))  # something was raised
    none = w.pointer("none")
    b.call(declare(b, "Py_IncRef", ir.VoidType(), [_PTR]), [none])
    b.ret(none)
