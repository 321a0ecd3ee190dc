"""A frame's stack as far as it is known: which objects the next instruction is about to read.

Instructions that read names, attributes, items and cells are told to the notes. Of the others only
the effect on the stack is known; what they take from it counts as read as a whole. Where the stack
is not known (after an exception, say) it is `UNKNOWN` all the way down: then variables still tell
which objects they hold.
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.compile.guards.lookup import UNKNOWN
from chainrule.compile.guards.random_state import never_the_same
from chainrule.node import Variable

if TYPE_CHECKING:
    from chainrule.compile.guards.observer import Observer

_GENERATORS = 0x20 | 0x80 | 0x200
"""The flags of generators and coroutines, whose frames go on after they have returned."""
_SHAPES = frozenset(("shape", "dtype", "ndim", "size", "itemsize", "nbytes"))
"""Attributes of an array that its class, shape and dtype say."""
_ANSWERS = (isinstance, issubclass, type, id, callable, super, hasattr, print)
"""Functions that do not look at what an object holds."""


@final
class Code:
    """The instructions of a code object by their offset."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        found = list(dis.get_instructions(code))
        self.at = {i.offset: i for i in found}
        self.following = {a.offset: b.offset for a, b in zip(found, found[1:], strict=False)}
        self.goes_on = bool(code.co_flags & _GENERATORS)


@final
@dataclass(frozen=True, slots=True)
class Method:
    """A method that was looked up: of what, its name, and the Python function that it runs."""

    receiver: Any
    name: str
    function: Any


NULL: Any = object()
"""What stands on the stack beside a function that is called without a receiver."""
RESULT: Any = object()
"""What a call will return."""


@final
class Frame:
    """A frame that is followed: its stack, as far as it is known."""

    def __init__(self, observer: Observer, frame: FrameType, code: Code) -> None:
        self.observer, self.frame, self.code = observer, frame, code
        self.stack: list[Any] = []
        self._cells: Mapping[str, CellType] | None = None
        self._latest: Any = None
        self._keywords: int = 0
        self._handed: list[tuple[Any, int]] = []

    # --- the stack

    def push(self, x: Any) -> None:
        """Put x on top."""
        self.stack.append(x)

    def pop(self) -> Any:
        """Take what is on top."""
        return self.stack.pop() if self.stack else UNKNOWN

    def take(self, n: int) -> list[Any]:
        """Take the n on top, the lowest first."""
        return [self.pop() for _ in range(n)][::-1]

    # --- what the observer tells

    def step(self) -> None:
        """The instruction at `f_lasti` is about to run."""
        frame, code = self.frame, self.code
        at = frame.f_lasti
        self.settle(at)
        i = code.at.get(at)
        if i is None:
            self.stack.clear()
            return
        rule = _RULES.get(i.opname)
        if rule is not None:
            rule(self, i)
        else:
            self._latest = i

    def settle(self, at: int = -1) -> None:
        """The latest instruction has run, and `at` is the next one."""
        for array, uses in self._handed:
            if self.observer.uses(array) == uses:
                self.observer.notes.contents(array)
        self._handed.clear()
        i, self._latest = self._latest, None
        if i is None:
            return
        jumped = self.code.following.get(i.offset) != at
        effect = dis.stack_effect(i.opcode, i.arg if i.opcode >= dis.HAVE_ARGUMENT else None,
                                  jump=jumped)  # fmt: skip
        if i.opname in _STACK_ONLY:
            touched = max(0, -effect)
        else:
            touched = max(1, -effect)
        for x in self.take(touched):
            self.read_whole(x)
        for _ in range(touched + effect):
            self.push(UNKNOWN)

    def interrupted(self) -> None:
        """An exception was raised: what is on the stack is not known."""
        self.settle()
        self._latest = None
        self.stack.clear()

    def returned(self, value: Any) -> None:
        """A function that this frame called has returned."""
        if self.stack and self.stack[-1] is RESULT:
            self.stack[-1] = value

    # --- what is read

    def known(self, x: Any) -> bool:
        """Whether x is an object at all."""
        return x is not UNKNOWN and x is not NULL and x is not RESULT

    def read_whole(self, x: Any, *, deep: bool = False) -> None:
        """An instruction takes x, and may look at all of it."""
        if type(x) is Method:
            x = x.receiver
        if not self.known(x) or not self.observer.notes.is_outer(x):
            return
        if self.observer.is_array(x):  # whether an op takes it shows when the instruction has run
            self._handed.append((x, self.observer.uses(x)))
            return
        if hasattr(type(x), "__next__") and not _is_python(getattr(type(x), "__next__", None)):
            self.observer.refuse(f"takes from an iterator, a {type(x).__name__},")
        self.observer.notes.contents(x, deep=deep)

    def cells(self) -> Mapping[str, CellType]:
        """The cells of the enclosing functions' variables."""
        if self._cells is None:
            code = self.frame.f_code
            self._cells = self.observer.cells.of(code, self.frame.f_locals)
        return self._cells

    def look_up(self, x: Any, name: str) -> Any:
        """What is known of `x.name`, which is read."""
        if not self.known(x) or type(x) is Method:
            return UNKNOWN
        notes = self.observer.notes
        if isinstance(x, Variable):
            return Method(x, name, None)
        if isinstance(x, np.ndarray):
            if name not in _SHAPES:
                self.read_whole(x)
            return UNKNOWN
        if isinstance(x, dict | list | set | bytearray) or _is_container(x):
            self.read_whole(x)
        found = notes.attribute(x, name)
        if found.value is UNKNOWN and name[:2] != "__" and notes.is_outer(x):
            return Method(x, name, found.method)
        if isinstance(found.value, FunctionType):
            self.observer.cells.learn(found.value)
        return found.value

    def called(self, callee: Any, args: list[Any]) -> None:
        """A function is called: what runs unseen may look at all that it is given."""
        function = callee.function if type(callee) is Method else callee
        receiver = callee.receiver if type(callee) is Method else None
        if isinstance(callee, BuiltinFunctionType | MethodType):
            receiver = getattr(callee, "__self__", None)
        self._refuse_changing(callee, function, receiver, len(args))
        if isinstance(function, MethodType):
            function = function.__func__
        self.observer.cells.learn(function)
        if _runs_python(function):
            self._add_defaults(function)
            return
        if function is getattr and len(args) >= 2 and isinstance(args[1], str):
            self.look_up(args[0], args[1])
            return
        if any(function is f for f in _ANSWERS):
            return
        deep = self.known(function) and not _is_chainrule(function)
        for x in [*args, *([receiver] if type(callee) is Method else [])]:
            self.read_whole(x, deep=deep and not isinstance(x, FunctionType))
            self.observer.cells.learn(x)

    def _refuse_changing(self, callee: Any, function: Any, receiver: Any, count: int) -> None:
        asked = getattr(receiver, callee.name, None) if type(callee) is Method and isinstance(
            receiver, type) else function  # fmt: skip
        if not self.known(asked):
            return
        if (name := never_the_same(asked, receiver, count)) is not None:
            self.observer.refuse(f"calls {name}")

    def _add_defaults(self, f: Any) -> None:
        notes = self.observer.notes
        if isinstance(f, FunctionType) and notes.is_outer(f):
            for x in [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]:
                notes.add(x, f"a default of {f.__name__}")
            if f.__defaults__ or f.__kwdefaults__:
                notes.answer(lambda: f.__defaults__, f.__defaults__, f"{f.__name__}.__defaults__")


def _is_python(f: Any) -> bool:
    return isinstance(f, FunctionType)


def _is_container(x: Any) -> bool:
    """Whether x holds other objects, and its methods are not written in Python."""
    return hasattr(type(x), "__len__") and not hasattr(x, "__dict__")


def _runs_python(f: Any) -> bool:
    """Whether calling f runs code that is followed."""
    from chainrule.compile.guards.observer import is_followed

    if isinstance(f, type):
        f = f.__init__
    elif not isinstance(f, FunctionType):
        f = getattr(type(f), "__call__", None)
    return isinstance(f, FunctionType) and is_followed(f.__code__, f.__globals__)


def _is_chainrule(f: Any) -> bool:
    return (getattr(f, "__module__", None) or "").startswith("chainrule")


# --- The instructions ----------------------------------------------------------------------------


def _load_const(f: Frame, i: Any) -> None:
    f.push(i.argval)


def _load_fast(f: Frame, i: Any) -> None:
    names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
    local = f.frame.f_locals
    for name in names:
        f.push(local.get(name, UNKNOWN))


def _store_fast_load_fast(f: Frame, i: Any) -> None:
    f.pop()
    f.push(UNKNOWN)


def _load_global(f: Frame, i: Any) -> None:
    names, notes = f.frame.f_globals, f.observer.notes
    if i.opname == "LOAD_NAME" and i.argval in f.frame.f_locals:
        value = f.frame.f_locals[i.argval]
    else:
        notes.entry(names, i.argval, i.argval)
        value = names.get(i.argval, getattr(builtins, i.argval, UNKNOWN))
    f.observer.cells.learn(value)
    if i.opname == "LOAD_GLOBAL" and i.arg & 1:
        f.push(NULL)
    f.push(value)


def _load_deref(f: Frame, i: Any) -> None:
    name = i.argval
    value = f.frame.f_locals.get(name, UNKNOWN)
    if name in f.frame.f_code.co_freevars and value is not UNKNOWN:
        f.observer.notes.cell(f.cells().get(name), name, value)
        f.observer.cells.learn(value)
    f.push(value)


def _store_deref(f: Frame, i: Any) -> None:
    f.pop()
    if i.argval in f.frame.f_code.co_freevars and (cell := f.cells().get(i.argval)) is not None:
        f.observer.notes.write(cell, None, i.argval)


def _make_function(f: Frame, i: Any) -> None:
    code = next((x for x in f.take(1 + (i.arg or 0).bit_count()) if isinstance(x, CodeType)), None)
    if code is not None:
        f.observer.cells.inherit(code, f.cells())
    f.push(UNKNOWN)


def _load_attr(f: Frame, i: Any) -> None:
    x = f.pop()
    value = f.look_up(x, i.argval)
    method = i.opname == "LOAD_METHOD" or (_ATTR_CALLS and i.arg & 1)
    if method:
        f.push(NULL)
    f.push(value)


_ATTR_CALLS = "LOAD_METHOD" not in dis.opmap
"""Whether LOAD_ATTR looks methods up too (from Python 3.12 on)."""


def _subscript(f: Frame, i: Any) -> None:
    x, key = f.take(2)
    f.push(_item(f, x, key))


def _item(f: Frame, x: Any, key: Any) -> Any:
    """What is known of `x[key]`, which is read."""
    notes = f.observer.notes
    if not f.known(x):
        return UNKNOWN
    if type(x) is list and type(key) is int and -len(x) <= key < len(x):
        if notes.is_outer(x):
            notes.item(x, key)
        return x[key]
    if type(x) is tuple and type(key) is int and -len(x) <= key < len(x):
        return x[key]
    if type(x) is dict and f.known(key) and _is_key(key):
        if notes.is_outer(x):
            notes.entry(x, key, f"{notes.text(x)}[{key!r}]")
        return x.get(key, UNKNOWN)
    f.read_whole(x)
    f.read_whole(key)
    return UNKNOWN


def _is_key(key: Any) -> bool:
    return isinstance(key, str | int | float | bool | bytes | type(None) | tuple | type)


def _contains(f: Frame, i: Any) -> None:
    key, x = f.take(2)
    if type(x) is dict and f.known(key) and _is_key(key) and f.observer.notes.is_outer(x):
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
    if f.known(x) and notes.is_outer(x) and not isinstance(x, Variable):
        notes.write_attribute(x, i.argval)


def _store_item(f: Frame, i: Any) -> None:
    """STORE_SUBSCR, DELETE_SUBSCR: the key is on top, the container below."""
    x, key = f.take(2)
    if i.opname == "STORE_SUBSCR":
        f.pop()
    notes = f.observer.notes
    if not f.known(x) or not notes.is_outer(x) or isinstance(x, Variable):
        return
    if type(x) in (dict, list) and f.known(key) and _is_key(key) and i.opname == "STORE_SUBSCR":
        notes.write(x, key, f"{notes.text(x)}[{key!r}]")
    else:
        notes.contents(x)


def _store_global(f: Frame, i: Any) -> None:
    if i.opname.startswith("STORE"):
        f.pop()
    f.observer.notes.write(f.frame.f_globals, i.argval, i.argval)


def _kw_names(f: Frame, i: Any) -> None:
    return


def _call(f: Frame, i: Any) -> None:
    if i.opname == "CALL_KW":
        f.pop()
    args = f.take(i.arg)
    first, second = f.take(2)
    callee = first
    if first is NULL or (not f.known(first) and second is not NULL):
        callee = second
    elif second is not NULL and f.known(second):
        args.insert(0, second)
    f.called(callee, args)
    f.push(RESULT)


def _call_spread(f: Frame, i: Any) -> None:
    if i.arg & 1:
        f.read_whole(f.pop())
    args = f.pop()
    callee = f.pop()
    if f.stack and f.stack[-1] is NULL:
        f.pop()
    f.called(callee, [args])
    f.push(RESULT)


def _copy(f: Frame, i: Any) -> None:
    f.push(f.stack[-i.arg] if len(f.stack) >= i.arg else UNKNOWN)


def _swap(f: Frame, i: Any) -> None:
    s = f.stack
    while len(s) < i.arg:
        s.insert(0, UNKNOWN)
    s[-1], s[-i.arg] = s[-i.arg], s[-1]


def _drop(f: Frame, i: Any) -> None:
    f.pop()


def _store_fast(f: Frame, i: Any) -> None:
    f.take(len(i.argval) if isinstance(i.argval, tuple) else 1)


def _push_null(f: Frame, i: Any) -> None:
    f.push(NULL)


def _build_tuple(f: Frame, i: Any) -> None:
    xs = f.take(i.arg)
    f.push(tuple(xs) if all(map(f.known, xs)) else UNKNOWN)


def _binary_op(f: Frame, i: Any) -> None:
    if "[" in i.argrepr:
        _subscript(f, i)
        return
    a, b = f.take(2)
    f.read_whole(a)
    f.read_whole(b)
    f.push(UNKNOWN)


def _is(f: Frame, i: Any) -> None:
    f.take(2)
    f.push(UNKNOWN)


def _build(f: Frame, i: Any) -> None:
    """BUILD_LIST and the like: what goes in stays what it is."""
    f.take(i.arg * (2 if i.opname == "BUILD_MAP" else 1))
    f.push(UNKNOWN)


_RULES: dict[str, Any] = {
    "LOAD_CONST": _load_const, "LOAD_SMALL_INT": _load_const,
    "LOAD_FAST": _load_fast, "LOAD_FAST_CHECK": _load_fast, "LOAD_FAST_BORROW": _load_fast,
    "LOAD_FAST_LOAD_FAST": _load_fast, "LOAD_FAST_BORROW_LOAD_FAST_BORROW": _load_fast,
    "LOAD_FAST_AND_CLEAR": _load_fast,
    "STORE_FAST": _store_fast, "STORE_FAST_STORE_FAST": _store_fast,
    "STORE_FAST_LOAD_FAST": _store_fast_load_fast,
    "LOAD_GLOBAL": _load_global, "LOAD_NAME": _load_global,
    "LOAD_DEREF": _load_deref, "STORE_DEREF": _store_deref,
    "LOAD_ATTR": _load_attr, "LOAD_METHOD": _load_attr,
    "BINARY_SUBSCR": _subscript, "BINARY_OP": _binary_op, "CONTAINS_OP": _contains,
    "STORE_ATTR": _store, "DELETE_ATTR": _store,
    "STORE_SUBSCR": _store_item, "DELETE_SUBSCR": _store_item,
    "STORE_GLOBAL": _store_global, "DELETE_GLOBAL": _store_global,
    "MAKE_FUNCTION": _make_function, "PUSH_NULL": _push_null, "POP_TOP": _drop,
    "KW_NAMES": _kw_names, "PRECALL": _kw_names, "CALL": _call, "CALL_KW": _call,
    "CALL_FUNCTION_EX": _call_spread, "COPY": _copy, "SWAP": _swap, "BUILD_TUPLE": _build_tuple,
    "BUILD_LIST": _build, "BUILD_SET": _build, "BUILD_MAP": _build, "RETURN_VALUE": _drop,
    "IS_OP": _is,
}  # fmt: skip
_STACK_ONLY = frozenset((
    "NOP", "RESUME", "CACHE", "MAKE_CELL", "COPY_FREE_VARS", "EXTENDED_ARG", "JUMP_FORWARD",
    "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_GENERATOR", "LOAD_CLOSURE",
    "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_IF_NONE",
    "POP_JUMP_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE",
    "PUSH_EXC_INFO", "POP_EXCEPT", "RERAISE", "SETUP_ANNOTATIONS", "NOT_TAKEN", "END_FOR",
))  # fmt: skip
"""Instructions that look at nothing on the stack."""
