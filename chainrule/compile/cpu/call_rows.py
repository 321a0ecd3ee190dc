"""A function that notes the calls of a loop, which Python calls as a built-in one.

    object collect_all(object plan, object iterator)

Of each batch that the iterator gives it asks what `again` asks of the arguments (see
`call_gate.py`), whose number says the sizes. Then it notes the call in the next row: the addresses
of the arrays that the program reads, the settings of optimizers as they are now, what is known of
the number, a word below 0. The arrays are kept in a list. `plan` is an array of int64: the words
that `CALLS` names, then a record for each setting (`SETTING`).

It goes on up to the first batch whose number is none of those that are known. It gives this one,
and notes its number in the plan: -1 if it is not noted. It is not where `again` says so, where
there is no row left, or where a setting is no float, int or bool, which is for Python to see.
"""

from __future__ import annotations

from typing import Any, final

from llvmlite import ir

from chainrule.compile.cpu.call_gate import argument_array, find_key
from chainrule.compile.cpu.call_plan import CALLS
from chainrule.compile.cpu.call_settings import NONE, find_setting, has_truth, setting_record
from chainrule.compile.cpu.function_writer import F64, PTR, VOID, FunctionWriter, int64
from chainrule.compile.cpu.object_layout import ARRAY, KIND, LENGTH
from chainrule.compile.cpu.symbols import APPEND, AS_FLOAT, ERROR, NEXT
from chainrule.compile.llvm.numbers import I64

_NOTED = "noted"
"""The function that notes a call and gives its number; `_RAISED` where something was raised."""
_RAISED = -2


def add_call_rows(module: Any) -> None:
    """Add the function to a module that has `again`."""
    _add_noted(module)
    _add_collect_all(module)


def _add_noted(module: Any) -> None:
    """Add the function that asks what `again` asks, and fills a row."""
    s = FunctionWriter(module, _NOTED, [PTR, PTR])
    (words, args), b = s.args, s.b
    c = _Calls(s, words, b.append_basic_block("no"))
    c.go_on_if(s.equal(s.field(args, KIND, I64), c.word("tuple")))
    key = find_key(s, c.word("gate"), args)
    c.go_on_if(b.icmp_signed(">=", key, int64(0)))
    filled = c.word("filled")
    c.go_on_if(b.icmp_signed("<", filled, c.word("rows")))
    row = s.element(s.pointer(c.word("memory")), b.mul(filled, c.word("width")))
    arrays, settings = c.word("arrays"), c.word("settings")
    with s.count_up(settings) as k:
        s.store(c.setting(k), row, b.add(arrays, k))
    with s.count_up(s.field(args, LENGTH, I64)) as k:
        x, place = argument_array(s, c.word("gate"), args, k)
        with b.if_then(b.icmp_signed(">=", place, int64(0))):
            s.store(b.ptrtoint(x, I64), row, place)
            s.call(APPEND, ir.IntType(32), s.pointer(c.word("kept")), x)
    s.store(key, row, b.add(arrays, settings))
    s.store(b.add(filled, int64(1)), c.words, CALLS.index("filled"))
    s.return_(key)
    b.position_at_end(c.no)
    s.return_(-1)


def _add_collect_all(module: Any) -> None:
    """Add the loop over what an iterator gives: each batch is noted and let go, as long as its
    number is known."""
    s = FunctionWriter(module, "collect_all", [PTR, PTR], PTR)
    (plan, iterator), b = s.args, s.b
    following, again = map(b.append_basic_block, ("following", "again"))
    c = _Calls(s, s.field(plan, ARRAY.data), following)
    found, place = b.alloca(I64), b.alloca(I64)
    b.branch(following)
    b.position_at_end(following)
    batch = s.call(NEXT, PTR, iterator)
    with b.if_then(s.equal(batch, NONE), likely=False):
        s.return_if(b.not_(s.equal(s.call(ERROR, PTR), NONE)), NONE)
        s.store(1, c.words, CALLS.index("ended"))
        none = s.pointer(c.word("none"))
        s.call("Py_IncRef", VOID, none)
        s.return_(none)
    key = c.key_of(batch, place)
    s.store(key, c.words, CALLS.index("key"))
    s.store(0, found, 0)
    with s.count_up(c.word("sizes")) as k:
        known = s.element(s.pointer(c.word("known")), b.mul(k, int64(2)))
        same = s.equal(s.load(known, 0), key)
        s.store(b.select(same, s.load(known, 1), s.load(found, 0)), found, 0)
    with b.if_then(s.equal(s.load(found, 0), 0), likely=False):
        s.return_(batch)
    after = b.mul(c.word("filled"), c.word("width"))
    s.store(s.load(found, 0), s.pointer(c.word("memory")), b.sub(after, int64(1)))
    b.branch(again)
    b.position_at_end(again)
    s.call("Py_DecRef", VOID, batch)
    b.branch(following)


@final
class _Calls:
    """The words of the plan; `no` is where the function goes when it notes nothing."""

    def __init__(self, s: FunctionWriter, words: Any, no: Any) -> None:
        self.s, self.words, self.no = s, words, no

    def word(self, name: str) -> Any:
        """A word of the plan."""
        return self.s.load(self.words, CALLS.index(name))

    def go_on_if(self, condition: Any) -> None:
        """Go on, or to `no`."""
        on = self.s.b.append_basic_block("on")
        self.s.b.cbranch(condition, on, self.no)
        self.s.b.position_at_end(on)

    def key_of(self, batch: Any, key: Any) -> Any:
        """The number of a call, which is noted; -1 where it is not. `key` is memory for it. Where
        something is raised the function is left, and the batch let go."""
        s, b = self.s, self.s.b
        s.store(-1, key, 0)
        with b.if_then(s.equal(s.context(self.word("recording")), self.word("answer"))):
            s.store(s.call(_NOTED, I64, self.words, batch), key, 0)
        with b.if_then(s.equal(s.load(key, 0), _RAISED), likely=False):
            s.call("Py_DecRef", VOID, batch)
            s.return_(NONE)
        return s.load(key, 0)

    def setting(self, k: Any) -> Any:
        """The bits of setting `k`, a float64."""
        s, b = self.s, self.s.b
        record = setting_record(s, self.words, len(CALLS), k)
        found = find_setting(s, record)
        self.go_on_if(b.not_(s.equal(found, NONE)))
        value = self._number(found)
        self.go_on_if(has_truth(s, record, value))
        return b.bitcast(value, I64)

    def _number(self, x: Any) -> Any:
        """The number that a float or an int is; an int that is none raises what Python raises."""
        s, b = self.s, self.s.b
        kind = s.field(x, KIND, I64)
        is_float = s.equal(kind, self.word("float"))
        for name in ("float64", "int", "bool"):
            is_float = b.or_(is_float, s.equal(kind, self.word(name)))
        self.go_on_if(is_float)
        value = s.call(AS_FLOAT, F64, x)
        with b.if_then(b.fcmp_ordered("==", value, ir.Constant(F64, -1.0)), likely=False):
            s.return_if(b.not_(s.equal(s.call(ERROR, PTR), NONE)), _RAISED)
        return value
