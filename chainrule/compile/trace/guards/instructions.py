"""The instructions that read: what each takes from the stack, and what it puts there."""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from chainrule.compile.trace.guards.calls import call, super_of
from chainrule.compile.trace.guards.contents import contents
from chainrule.compile.trace.guards.lookup import UNKNOWN
from chainrule.compile.trace.guards.stack import NULL, Derived, Frame
from chainrule.compile.trace.guards.variables import (
    load_const,
    load_deref,
    load_fast,
    load_from_class,
    load_global,
    store_deref,
    store_fast,
    store_fast_load_fast,
    store_global,
)
from chainrule.engine.node import Variable


def _nothing(f: Frame, i: Any) -> None:
    """A part of a call, which its last instruction stands for."""


def _make_function(f: Frame, i: Any) -> None:
    code = next((x for x in f.take(1 + (i.arg or 0).bit_count()) if isinstance(x, CodeType)), None)
    if code is not None:
        f.observer.cells.inherit(code, f.cells())
    f.push(UNKNOWN)


def _load_attr(f: Frame, i: Any) -> None:
    x = f.pop()
    value = f.look_up(x, i.argval)
    method = i.opname == "LOAD_METHOD" or (_ATTR_CALLS and i.arg & _METHOD)
    if method:
        f.push(NULL)
    f.push(value)


def _load_super_attr(f: Frame, i: Any) -> None:
    function, *args = f.take(3)
    if i.arg & _METHOD:
        f.push(NULL)
    if function is super:
        f.push(f.look_up(super_of(f, args), i.argval))
    else:
        f.push(f.derived(args))


_METHOD = 1
"""The bit of an instruction's argument that says that what it looks up is called."""
_ATTR_CALLS = sys.version_info >= (3, 12)
"""Whether LOAD_ATTR looks methods up too (from Python 3.12 on)."""


def _subscript(f: Frame, i: Any) -> None:
    x, key = f.take(2)
    f.push(_item(f, x, key))


def _item(f: Frame, x: Any, key: Any) -> Any:
    """What is known of `x[key]`, which is read."""
    notes = f.observer.notes
    if type(x) is Derived:
        return f.read_unknown_element(x)
    if not f.is_object(x):
        return UNKNOWN
    if type(x) is list and type(key) is int and -len(x) <= key < len(x):
        if notes.is_outer(x):
            notes.item(x, key)
        return x[key]
    if type(x) is tuple and type(key) is int and -len(x) <= key < len(x):
        return x[key]
    if type(x) is dict and f.is_object(key) and _is_key(key):
        if notes.is_outer(x):
            notes.entry(x, key, f"{notes.text(x)}[{key!r}]")
        return x.get(key, UNKNOWN)
    f.read_whole(x)
    f.read_whole(key)
    return f.derived([x])


def _is_key(key: Any) -> bool:
    return isinstance(key, str | int | float | bool | bytes | type(None) | tuple | type)


def _contains(f: Frame, i: Any) -> None:
    key, x = f.take(2)
    if type(x) is dict and f.is_object(key) and _is_key(key) and f.observer.notes.is_outer(x):
        f.observer.notes.entry(x, key, f"{f.observer.notes.text(x)}[{key!r}]")
    else:
        f.read_whole(x)
    f.push(UNKNOWN)


def _store(f: Frame, i: Any) -> None:
    """STORE_ATTR, DELETE_ATTR: the object is on top."""
    x = f.pop()
    if i.opname == "STORE_ATTR":
        f.pop()
    notes = f.observer.notes
    if f.is_object(x) and notes.is_outer(x) and not isinstance(x, Variable):
        notes.write_attribute(x, i.argval)


def _store_item(f: Frame, i: Any) -> None:
    """STORE_SUBSCR, DELETE_SUBSCR: the key is on top, the container below."""
    x, key = f.take(2)
    if i.opname == "STORE_SUBSCR":
        f.pop()
    notes = f.observer.notes
    if not f.is_object(x) or not notes.is_outer(x) or isinstance(x, Variable):
        return
    if type(x) in (dict, list) and f.is_object(key) and _is_key(key) and i.opname == "STORE_SUBSCR":
        notes.write(x, key, f"{notes.text(x)}[{key!r}]")
    else:
        contents(notes, x)


def _call(f: Frame, i: Any) -> None:
    if i.opname == "CALL_KW":
        f.pop()
    args = f.take(i.arg)
    first, second = f.take(2)
    callee = first
    if first is NULL or (not f.is_object(first) and second is not NULL):
        callee = second
    elif second is not NULL and f.is_object(second):
        args.insert(0, second)
    f.push(call(f, callee, args))


def _call_spread(f: Frame, i: Any) -> None:
    if i.arg & 1:
        f.read_whole(f.pop())
    args = f.pop()
    first, second = f.take(2)  # one of them is NULL: the second from Python 3.13 on
    callee = first if second is NULL else second
    f.push(call(f, callee, [args]))


def _import_name(f: Frame, i: Any) -> None:
    """The module is loaded here already, so that it is known."""
    level, names = f.take(2)
    try:
        module = __import__(i.argval, f.frame.f_globals, None, names, level)
    except Exception:  # the instruction itself will raise it
        module = UNKNOWN
    f.push(module)


def _import_from(f: Frame, i: Any) -> None:
    f.push(f.look_up(f.stack[-1], i.argval) if f.stack else UNKNOWN)


def _match_class(f: Frame, i: Any) -> None:
    xs = f.take(3)
    f.read_whole(xs[0], deep=True)
    f.push(f.derived(xs))


def _set_function_attribute(f: Frame, i: Any) -> None:
    f.take(2)
    f.push(UNKNOWN)


def _copy(f: Frame, i: Any) -> None:
    f.push(f.stack[-i.arg] if len(f.stack) >= i.arg else UNKNOWN)


def _swap(f: Frame, i: Any) -> None:
    s = f.stack
    while len(s) < i.arg:
        s.insert(0, UNKNOWN)
    s[-1], s[-i.arg] = s[-i.arg], s[-1]


def _drop(f: Frame, i: Any) -> None:
    f.pop()


def _push_null(f: Frame, i: Any) -> None:
    f.push(NULL)


def _build_tuple(f: Frame, i: Any) -> None:
    xs = f.take(i.arg)
    f.push(tuple(xs) if all(map(f.is_object, xs)) else f.derived(xs))


def _binary_op(f: Frame, i: Any) -> None:
    if "[" in i.argrepr:
        _subscript(f, i)
        return
    a, b = f.take(2)
    f.read_whole(a)
    f.read_whole(b)
    compute = _INTEGERS.get(i.argrepr) if type(a) is int and type(b) is int else None
    f.push(f.derived([a, b]) if compute is None else compute(a, b))


def _is(f: Frame, i: Any) -> None:
    f.take(2)
    f.push(UNKNOWN)


def _build(f: Frame, i: Any) -> None:
    """BUILD_LIST and the like: what goes in stays what it is."""
    n = i.arg * (2 if i.opname == "BUILD_MAP" else 1) + (i.opname == "BUILD_CONST_KEY_MAP")
    f.push(f.derived(f.take(n)))


def _extend(f: Frame, i: Any) -> None:
    """LIST_EXTEND and the like: the container lies `i.arg` below what goes in."""
    x = f.pop()
    f.read_whole(x)
    if len(f.stack) >= i.arg:
        f.stack[-i.arg] = f.derived([f.stack[-i.arg], x])


_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip
"""What indices are computed by."""
RULES: dict[str, Any] = {
    "LOAD_CONST": load_const, "LOAD_SMALL_INT": load_const,
    "LOAD_FAST": load_fast, "LOAD_FAST_CHECK": load_fast, "LOAD_FAST_BORROW": load_fast,
    "LOAD_FAST_LOAD_FAST": load_fast, "LOAD_FAST_BORROW_LOAD_FAST_BORROW": load_fast,
    "LOAD_FAST_AND_CLEAR": load_fast,
    "STORE_FAST": store_fast, "STORE_FAST_STORE_FAST": store_fast,
    "STORE_FAST_LOAD_FAST": store_fast_load_fast,
    "LOAD_GLOBAL": load_global, "LOAD_NAME": load_global,
    "LOAD_DEREF": load_deref, "STORE_DEREF": store_deref,
    "LOAD_ATTR": _load_attr, "LOAD_METHOD": _load_attr,
    "BINARY_SUBSCR": _subscript, "BINARY_OP": _binary_op, "CONTAINS_OP": _contains,
    "STORE_ATTR": _store, "DELETE_ATTR": _store,
    "STORE_SUBSCR": _store_item, "DELETE_SUBSCR": _store_item,
    "STORE_GLOBAL": store_global, "DELETE_GLOBAL": store_global,
    "MAKE_FUNCTION": _make_function, "PUSH_NULL": _push_null, "POP_TOP": _drop,
    "KW_NAMES": _nothing, "PRECALL": _nothing, "CALL": _call, "CALL_KW": _call,
    "CALL_FUNCTION_EX": _call_spread, "COPY": _copy, "SWAP": _swap, "BUILD_TUPLE": _build_tuple,
    "BUILD_LIST": _build, "BUILD_SET": _build, "BUILD_MAP": _build, "RETURN_VALUE": _drop,
    "LIST_EXTEND": _extend, "SET_UPDATE": _extend, "DICT_UPDATE": _extend, "DICT_MERGE": _extend,
    "IS_OP": _is, "BUILD_CONST_KEY_MAP": _build, "STORE_NAME": _drop,
    "LOAD_CLASSDEREF": load_deref, "LOAD_FROM_DICT_OR_DEREF": load_from_class,
    "LOAD_FROM_DICT_OR_GLOBALS": load_from_class, "LOAD_SUPER_ATTR": _load_super_attr,
    "IMPORT_NAME": _import_name, "IMPORT_FROM": _import_from, "MATCH_CLASS": _match_class,
    "SET_FUNCTION_ATTRIBUTE": _set_function_attribute,
}  # fmt: skip
