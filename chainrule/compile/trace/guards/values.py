"""When two values are the same for a program, and how a value is kept without keeping it alive.

Notation: an atom is a value that cannot change, so that equal atoms are interchangeable.
"""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import struct
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any
from weakref import ref

import numpy as np

ATOMS = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented))
SHARED: tuple[type, ...] = (BuiltinFunctionType, np.ufunc, np.dtype, slice, range)
"""Other classes whose objects cannot change."""


def is_atom(x: Any) -> bool:
    """Whether x cannot change, with whatever it holds."""
    if type(x) in ATOMS or isinstance(x, (np.generic, *SHARED)):
        return True
    return type(x) in (tuple, frozenset) and all(map(is_atom, x))


def is_value(x: Any) -> bool:
    """Whether x is a `Value`, whose numbers a trace reads by itself."""
    return type(x).__module__ == "chainrule.scalar.value"


def same(a: Any, b: Any) -> bool:
    """Whether b may stand for a in a program: it is a, or an equal atom of a's class.

    Floats are compared by their bits, so that -0.0 is not 0.0 and NaN is NaN.
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return struct.pack("d", a) == struct.pack("d", b)
    if type(a) is complex:
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if type(a) is tuple:
        return len(a) == len(b) and all(map(same, a, b))
    return is_atom(a) and bool(a == b)


def keep_weakly(x: Any, gone: Callable[[Any], None]) -> Callable[[], Any]:
    """Gives x, or None once x is gone: then `gone` has been called.

    Only what a weak reference can name may go; anything else is kept alive, so that no other
    object takes its address.
    """
    if is_value(x) or is_atom(x):  # a Value takes no weak references
        return lambda: x
    try:
        return ref(x, gone)
    except TypeError:
        return lambda: x
