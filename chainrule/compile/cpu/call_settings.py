"""Functions of machine code that read an optimizer's settings, and take changed ones over.

    ptr setting(ptr record)                 the object that a setting is now; null: there is none
    i64 settle(ptr words)                   whether all settings are as they were, or taken over

`words` are those that `SETTINGS` names, then a record for each setting (`SETTING`). What is taken
over without Python is a float in the range in which the optimizer takes any number.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.call_plan import SETTING, SETTINGS
from chainrule.compile.cpu.function_writer import F64, PTR, VOID, FunctionWriter, int64
from chainrule.compile.cpu.object_layout import ITEMS, KIND, LENGTH
from chainrule.compile.cpu.symbols import HEADER
from chainrule.compile.llvm.numbers import I64

_SETTING, _TAKEN = "setting", "taken"
NONE = ir.Constant(PTR, None)


def add_call_settings(module: Any) -> None:
    """Add the functions to a module."""
    _add_setting(module)
    _add_taken(module)
    s = FunctionWriter(module, "settle", [PTR])
    (words,) = s.args
    s.return_unless(s.equal(s.load(words, SETTINGS.index("asked")), 0), 0)
    with s.count_up(s.load(words, SETTINGS.index("count"))) as k:
        record = setting_record(s, words, len(SETTINGS), k)
        kinds = [s.load(words, SETTINGS.index(name)) for name in ("float", "float64")]
        s.return_if(s.equal(s.call(_TAKEN, I64, record, *kinds), 0), 0)
    s.return_(1)


def setting_record(s: FunctionWriter, words: Any, first: int, k: Any) -> Any:
    """Where the record of setting `k` is, of those that begin at word `first`."""
    return s.element(words, s.b.add(int64(first), s.b.mul(k, int64(len(SETTING)))))


def find_setting(s: FunctionWriter, record: Any) -> Any:
    """The object that a setting is now; null where there is none."""
    return s.call(_SETTING, PTR, record)


def has_truth(s: FunctionWriter, record: Any, value: Any) -> Any:
    """Whether a number is 0, or is not, as its record says."""
    truth = s.load(record, SETTING.index("truth"))
    true = s.b.zext(s.b.fcmp_unordered("!=", value, ir.Constant(F64, 0.0)), I64)
    return s.b.or_(s.equal(truth, -1), s.equal(truth, true))


def _add_setting(module: Any) -> None:
    s = FunctionWriter(module, _SETTING, [PTR], PTR)
    (record,), b = s.args, s.b
    holder, key, item, kind = [s.load(record, i) for i in range(4)]
    place = [s.load(record, SETTING.index(name)) for name in ("table", "form", "at")]
    found = s.look_up_at(s.pointer(holder), s.pointer(key), place)
    s.return_if(b.or_(s.equal(found, NONE), b.icmp_signed("<", item, int64(0))), found)
    s.return_unless(s.equal(s.field(found, KIND, I64), kind), NONE)
    s.return_unless(b.icmp_signed("<", item, s.field(found, LENGTH, I64)), NONE)
    s.return_(s.field(found, b.add(int64(ITEMS), b.mul(item, int64(8)))))


def _add_taken(module: Any) -> None:
    """Whether one setting, a record, is the object that it was, or a float that is taken over."""
    s = FunctionWriter(module, _TAKEN, [PTR, I64, I64])
    (record, *kinds), b = s.args, s.b
    found = find_setting(s, record)
    place = s.load(record, SETTING.index("last"), PTR)
    was = s.load(place, 0, PTR)
    s.return_if(s.equal(found, was), 1)
    s.return_if(s.equal(found, NONE), 0)
    one, other = [s.equal(s.field(found, KIND, I64), kind) for kind in kinds]
    s.return_unless(b.or_(one, other), 0)
    value = s.field(found, HEADER, F64)
    low, high = (s.load(record, SETTING.index(name), F64) for name in ("low", "high"))
    inside = b.and_(b.fcmp_ordered("<=", low, value), b.fcmp_ordered("<=", value, high))
    s.return_unless(b.and_(inside, has_truth(s, record, value)), 0)
    s.store(value, s.load(record, SETTING.index("number"), PTR), 0)
    s.call("Py_IncRef", VOID, found)
    s.store(found, place, 0)
    s.call("Py_DecRef", VOID, was)
    s.return_(1)
