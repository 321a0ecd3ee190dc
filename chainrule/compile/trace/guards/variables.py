"""The instructions that read and write variables; see `instructions.py`."""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import builtins
from typing import Any

from chainrule.compile.trace.guards.cells import content
from chainrule.compile.trace.guards.lookup import UNKNOWN
from chainrule.compile.trace.guards.stack import NULL, Frame


def load_const(f: Frame, i: Any) -> None:
    """A constant."""
    f.push(i.argval)


def load_fast(f: Frame, i: Any) -> None:
    """Variables of the function."""
    names = i.argval if isinstance(i.argval, tuple) else (i.argval,)
    local = f.frame.f_locals
    for name in names:
        f.push(local.get(name, UNKNOWN))


def store_fast_load_fast(f: Frame, i: Any) -> None:
    """One is stored, then another one read."""
    f.pop()
    f.push(UNKNOWN)
    f.loaded = i.argval[1]


def load_global(f: Frame, i: Any) -> None:
    """A name of the module, or of a class body."""
    names, notes = f.frame.f_globals, f.observer.notes
    if i.opname != "LOAD_GLOBAL" and i.argval in f.frame.f_locals:  # in a class body
        value = f.frame.f_locals[i.argval]
    else:
        notes.entry(names, i.argval, i.argval)
        value = names.get(i.argval, getattr(builtins, i.argval, UNKNOWN))
    f.observer.learn(value)
    if i.opname == "LOAD_GLOBAL" and i.arg & 1:
        f.push(NULL)
    f.push(value)


def load_deref(f: Frame, i: Any) -> None:
    """A variable of an enclosing function."""
    name = i.argval
    value = f.frame.f_locals.get(name, UNKNOWN)
    if name in f.frame.f_code.co_freevars:
        cell = f.cells().get(name)
        if value is UNKNOWN and cell is not None:  # in a class body
            value = content(cell)
        if value is not UNKNOWN:
            f.observer.notes.cell(cell, name, value)
            f.observer.learn(value)
    f.push(value)


def load_from_class(f: Frame, i: Any) -> None:
    """A name in a class body: its own, which is on top, or one from outside."""
    f.pop()
    (load_deref if i.opname.endswith("DEREF") else load_global)(f, i)


def store_deref(f: Frame, i: Any) -> None:
    """One is written."""
    f.pop()
    if i.argval in f.frame.f_code.co_freevars and (cell := f.cells().get(i.argval)) is not None:
        f.observer.notes.write(cell, None, i.argval)


def store_global(f: Frame, i: Any) -> None:
    """A name of the module is written."""
    if i.opname.startswith("STORE"):
        f.pop()
    f.observer.notes.write(f.frame.f_globals, i.argval, i.argval)


def store_fast(f: Frame, i: Any) -> None:
    """Variables of the function are written."""
    f.take(len(i.argval) if isinstance(i.argval, tuple) else 1)
