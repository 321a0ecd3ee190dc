"""Two functions that Python calls as its own built-in ones: what a steady call costs is there.

    object again(object plan, object args)
    object enter(object self, object plan, object args, object result, ...)

`again` tells whether all is as it has to be: the arguments, a tuple; the words of the plan's rows;
the dictionaries that were read (see `dict_guards.py`). It gives a number that says the sizes, or
-1. Where an optimizer's settings are to be seen in Python (see `call_settings.py`), it gives the
number -2 - n instead of n.

`enter` puts arguments and results into the program's table and runs it, without the interpreter's
lock if the plan does not say that it keeps it. It gives None, or the number that says what is wrong
with indices. Where the plan wants it checked, it gives 0 and does nothing if the arguments are not
those that the plan is for.

`plan` is an array of int64. First come the words that `PLAN` names, then a record for each argument
(`ARGUMENT`), then the rows: an address and the word that is to be there.

Where objects hold what is looked at here is CPython's and NumPy's layout; `object_layout.py` makes
sure of it before anything of this is used.
"""

from __future__ import annotations

from typing import Any, final

from llvmlite import ir

from chainrule.compile.cpu.call_plan import ARGUMENT, BITS, PLAN, SYMBOLS
from chainrule.compile.cpu.call_settings import NONE, add_call_settings
from chainrule.compile.cpu.dict_guards import add_dict_guard
from chainrule.compile.cpu.function_writer import I32, PTR, VOID, FunctionWriter, int64
from chainrule.compile.cpu.interrupts import Run
from chainrule.compile.cpu.object_layout import ARRAY, ITEMS, KIND, LENGTH, READY
from chainrule.compile.llvm.numbers import I64

_MATCHING, _ANSWER = "matching", "answer"
"""The functions that say the number of a call's sizes, and the number that `again` gives."""


@final
class _Plan:
    """The words of a plan that a function reads; `no` is where it goes when something is not as it
    is to be."""

    def __init__(self, s: FunctionWriter, words: Any) -> None:
        self.s, self.b = s, s.b
        self.no: Any = None
        self.words = words

    def word(self, name: str) -> Any:
        """A word of the plan."""
        return self.s.load(self.words, PLAN.index(name))

    def pointer(self, name: str) -> Any:
        """A word of the plan that is an address."""
        return self.s.pointer(self.word(name))

    def record(self, k: Any) -> Any:
        """The address of the record of argument `k`."""
        at = self.b.add(int64(len(PLAN)), self.b.mul(k, int64(len(ARGUMENT))))
        return self.s.element(self.words, at)

    def argument(self, args: Any, k: Any) -> tuple[Any, Any]:
        """Argument `k`, and its record."""
        at = self.b.add(int64(ITEMS), self.b.mul(k, int64(8)))
        return self.s.field(args, at), self.record(k)

    def array(self, x: Any, record: Any) -> Any:
        """The array of an argument: what it holds, or itself."""
        at = self.s.load(record, ARGUMENT.index("value"))
        # An object's first word can always be read; it is not used.
        return self.b.select(self.s.equal(at, 0), x, self.s.field(x, at))

    def go_on_if(self, condition: Any) -> None:
        """Go on, or to `no`."""
        on = self.b.append_basic_block("on")
        self.b.cbranch(condition, on, self.no)
        self.b.position_at_end(on)

    def go_on_if_equal(self, x: Any, y: Any) -> None:
        """Go on if two words are equal."""
        self.go_on_if(self.s.equal(x, y))


def add_call_gate(module: Any) -> None:
    """Add the function to a module."""
    _add_matching(module)
    add_call_settings(module)
    _add_answer(module)
    s = FunctionWriter(module, "again", [PTR, PTR], PTR)
    plan, args = s.args
    s.return_(s.call("PyLong_FromLongLong", PTR, find_answer(s, s.field(plan, ARRAY.data), args)))


def find_answer(s: FunctionWriter, words: Any, args: Any) -> Any:
    """The number that `again` gives, of the words of its plan."""
    return s.call(_ANSWER, I64, words, args)


def _add_answer(module: Any) -> None:
    s = FunctionWriter(module, _ANSWER, [PTR, PTR])
    (words, args), b = s.args, s.b
    key = s.call(_MATCHING, I64, words, args)
    settings = _Plan(s, words).pointer("settings")
    with b.if_then(b.and_(b.icmp_signed(">=", key, int64(0)), b.not_(s.equal(settings, NONE)))):
        settled = s.call("settle", I64, settings)
        s.return_(b.select(s.equal(settled, 0), b.sub(int64(-2), key), key))
    s.return_(key)


def find_key(s: FunctionWriter, words: Any, args: Any) -> Any:
    """The number of a call's sizes, or -1; `words` are where those of the plan are."""
    return s.call(_MATCHING, I64, s.pointer(words), args)


def argument_array(s: FunctionWriter, words: Any, args: Any, k: Any) -> tuple[Any, Any]:
    """The array of argument `k`, and its place in the program's table."""
    w = _Plan(s, s.pointer(words))
    x, record = w.argument(args, k)
    return w.array(x, record), s.load(record, ARGUMENT.index("place"))


def _add_matching(module: Any) -> None:
    """Add the function that asks whether a call is like a known one; its answer is the sizes as a
    key."""
    s = FunctionWriter(module, _MATCHING, [PTR, PTR])
    (words, args), b = s.args, s.b
    w = _Plan(s, words)
    w.no = b.append_basic_block("no")
    count = w.word("arguments")
    w.go_on_if_equal(s.field(args, LENGTH, I64), count)
    found = b.alloca(I64, SYMBOLS)
    for symbol in range(SYMBOLS):
        s.store(-1, found, symbol)
    with s.count_up(count) as k:
        _argument(w, *w.argument(args, k), found)
    rows = w.record(count)
    with s.count_up(w.word("rows")) as i:
        row = s.element(rows, b.mul(i, int64(2)))
        w.go_on_if_equal(b.load(s.load(row, 0, PTR), typ=I64), s.load(row, 1))
    w.go_on_if_equal(b.call(add_dict_guard(module), [w.pointer("guards")]), 1)
    key = int64(0)
    for symbol in range(SYMBOLS):
        n = s.load(found, symbol)
        w.go_on_if(b.icmp_signed("<", n, int64((1 << BITS) - 1)))
        key = b.or_(b.shl(key, int64(BITS)), b.add(n, int64(1)))
    s.return_(key)
    b.position_at_end(w.no)
    s.return_(-1)


def _argument(w: _Plan, x: Any, record: Any, found: Any) -> None:
    """One argument: its class, then its array's."""
    s, b = w.s, w.b
    at = {name: s.load(record, i) for i, name in enumerate(ARGUMENT)}
    w.go_on_if_equal(s.field(x, KIND, I64), at["kind"])
    # A tensor with a node may need a gradient: that is for Python to see.
    node = s.field(x, at["node"], I64)
    w.go_on_if(b.or_(s.equal(at["value"], 0), s.equal(node, w.word("none"))))
    a = w.array(x, record)
    w.go_on_if_equal(s.field(a, KIND, I64), w.word("ndarray"))
    w.go_on_if_equal(s.field(a, ARRAY.dtype, I64), at["dtype"])
    axes = b.sext(s.field(a, ARRAY.axes, I32), I64)
    w.go_on_if_equal(axes, at["axes"])
    flag = ir.Constant(I32, READY)
    w.go_on_if_equal(b.and_(s.field(a, ARRAY.flags, I32), flag), flag)
    shape, sizes = s.field(a, ARRAY.shape), s.element(record, ARGUMENT.index("n0"))
    with s.count_up(axes) as i:
        _size(w, s.load(shape, i), s.load(sizes, i), found)


def _size(w: _Plan, n: Any, want: Any, found: Any) -> None:
    """A size: the one that is known, or that of a symbol, which is the same wherever it stands."""
    s, b = w.s, w.b
    symbol = b.icmp_signed("<", want, int64(0))
    number = b.select(symbol, b.sub(int64(-1), want), int64(0))
    before = s.load(found, number)
    known = b.select(symbol, b.select(s.equal(before, -1), n, before), want)
    w.go_on_if_equal(n, known)
    s.store(b.select(symbol, n, before), found, number)


def enter(run: Run, program: Any) -> None:
    """Add the function to a module that has `program`."""
    s = FunctionWriter(run.module, "enter", [PTR, PTR, I64], PTR)
    (_, given, count), b = s.args, s.b
    plan, args = s.load(given, 0, PTR), s.load(given, 1, PTR)
    w = _Plan(s, s.field(plan, ARRAY.data))
    w.no = b.append_basic_block("no")
    found = b.alloca(I64, SYMBOLS)
    with (
        b.if_then(b.icmp_signed("!=", w.word("checked"), int64(0))),
        s.count_up(w.word("arguments")) as k,
    ):
        w.go_on_if_equal(s.field(args, LENGTH, I64), w.word("arguments"))
        _argument(w, *w.argument(args, k), found)
    table = w.pointer("table")
    with s.count_up(w.word("arguments")) as k:
        x, record = w.argument(args, k)
        place = s.load(record, ARGUMENT.index("place"))
        with b.if_then(b.icmp_signed(">=", place, int64(0))):
            s.store(w.array(x, record), table, place)
    first = w.word("first")
    with s.count_up(b.sub(count, int64(2))) as k:
        s.store(s.load(given, b.add(k, int64(2)), PTR), table, b.add(first, k))
    flags = w.pointer("flags")
    with b.if_then(b.not_(s.equal(flags, NONE))):
        s.store(flags, table, b.add(first, b.sub(count, int64(2))))
    run.begin(b, w.word("holding"))
    memory = [w.pointer(name) for name in ("scratch", "sizes", "host")]
    b.call(program, [table, *memory, ir.Constant(PTR, None)])  # no clock
    run.end(b)
    s.return_if(run.is_stopped(b), ir.Constant(PTR, None))  # something was raised
    with b.if_then(b.not_(s.equal(flags, NONE))):
        wrong = s.load(s.field(flags, ARRAY.data), 0)
        with b.if_then(b.not_(s.equal(wrong, 0)), likely=False):
            s.return_(s.call("PyLong_FromLongLong", PTR, wrong))
    none = w.pointer("none")
    s.call("Py_IncRef", VOID, none)
    s.return_(none)
    b.position_at_end(w.no)
    s.return_(s.call("PyLong_FromLongLong", PTR, int64(0)))
