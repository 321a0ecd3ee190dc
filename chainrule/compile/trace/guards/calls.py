"""Calls of functions: what is known of their results, and what they may look at."""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from chainrule.compile.trace.guards.contents import is_layer, public_contents
from chainrule.compile.trace.guards.followed_code import is_followed
from chainrule.compile.trace.guards.lookup import UNKNOWN, instance_dict
from chainrule.compile.trace.guards.places import Defaults, Reading, defaults_of
from chainrule.compile.trace.guards.random_state import never_the_same
from chainrule.compile.trace.guards.stack import Frame, Method


def call(f: Frame, callee: Any, args: list[Any]) -> Any:
    """A function is called; gives what is known of its result. What runs unseen may look at all
    that it is given."""
    function = callee.function if type(callee) is Method else callee
    receiver = callee.receiver if type(callee) is Method else None
    if isinstance(callee, BuiltinFunctionType | MethodType):
        receiver = getattr(callee, "__self__", None)
    _refuse_changing(f, callee, function, receiver, len(args))
    if isinstance(function, MethodType):
        function = function.__func__
    if type(callee) is Method:  # a method's function belongs to its class
        f.observer.cells.learn(function)
    else:
        f.observer.learn(function)
    if _runs_python(function):
        _add_defaults(f, function)
        if not isinstance(function, type):  # a class gives another object than its __init__
            f.begin_call()
        return f.derived(args)
    if (rule := _ANSWERS.get(id(function))) is not None:
        return rule(f, args)
    if not f.is_object(function):
        f.begin_call()
    deep = f.is_object(function) and not _is_chainrule(function)
    taken = [*args, *([receiver] if type(callee) is Method else [])]
    for x in taken:
        f.read_whole(x, deep=deep and not isinstance(x, FunctionType))
        f.observer.learn(x)
    if type(callee) is Method and _is_module_method(function):
        public_contents(f.observer.notes, receiver)
    return f.derived(taken)


def _refuse_changing(f: Frame, callee: Any, function: Any, receiver: Any, count: int) -> None:
    asked = getattr(receiver, callee.name, None) if type(callee) is Method and isinstance(
        receiver, type) else function  # fmt: skip
    if not f.is_object(asked):
        return
    if (name := never_the_same(asked, receiver, count)) is not None:
        f.observer.refuse(f"calls {name}")


def _add_defaults(f: Frame, function: Any) -> None:
    """Defaults of a function that was there before are read when it is called."""
    notes = f.observer.notes
    if not isinstance(function, FunctionType) or not notes.is_outer(function):
        return
    by_place, by_name = values = defaults_of(function)
    if not by_place and not by_name:
        return
    reading = Reading(f"{function.__name__}.__defaults__", notes.line)
    notes.guards.sources.append(Defaults(function, values, reading))
    for x in by_place or ():
        notes.add(x, f"a default of {function.__name__}")
    for key in by_name or {}:
        notes.entry(by_name or {}, key, f"a default of {function.__name__}")


def _nothing(f: Frame, args: list[Any]) -> Any:
    """A function that does not look at what an object holds."""
    return UNKNOWN


def _attribute_of(f: Frame, args: list[Any]) -> Any:
    """`getattr`, `hasattr`."""
    if len(args) >= 2 and isinstance(args[1], str):
        return f.look_up(args[0], args[1])
    return f.derived(args)


def _names_of(f: Frame, args: list[Any]) -> Any:
    """`vars` and `globals`: a dictionary, which is looked at afterwards."""
    notes = f.observer.notes
    if not args:
        names = f.frame.f_globals
        notes.add(names, "globals()")
        return names
    x = args[0]
    if f.is_object(x) and is_layer(x):
        public_contents(notes, x)
        return f.derived(args)
    names = vars(x) if isinstance(x, ModuleType) else instance_dict(x) if f.is_object(x) else None
    if names is None or not notes.is_outer(x):
        return f.derived(args)
    notes.add(names, f"vars({notes.text(x)})")
    return names


def _super(f: Frame, args: list[Any]) -> Any:
    """`super()`, which looks attributes up in the classes after its own."""
    if not args:
        local, names = f.frame.f_locals, f.frame.f_code.co_varnames
        args = [local.get("__class__", UNKNOWN), local.get(names[0] if names else "", UNKNOWN)]
    return super_of(f, args)


def super_of(f: Frame, args: list[Any]) -> Any:
    """What is known of `super(*args)`."""
    cls, x = args if len(args) == 2 else (UNKNOWN, UNKNOWN)
    if not isinstance(cls, type) or not f.is_object(x):
        return f.derived(args)
    try:
        found: Any = super(cls, x)
    except TypeError:
        return UNKNOWN
    f.observer.notes.add(found, "super()")
    return found


_ANSWERS: dict[int, Callable[[Frame, list[Any]], Any]] = {
    **{id(g): _nothing for g in (isinstance, issubclass, type, id, callable, print)},
    id(getattr): _attribute_of, id(hasattr): _attribute_of,
    id(vars): _names_of, id(globals): _names_of, id(super): _super,
}  # fmt: skip
"""What is known of functions of Python's, by their address."""


def _is_module_method(f: Any) -> bool:
    """Whether f is a method that all layers share, and so looks at their attributes."""
    return getattr(f, "__module__", None) == "chainrule.nn.base.module"


def _runs_python(f: Any) -> bool:
    """Whether calling f runs code that is followed."""
    if isinstance(f, type):
        f = f.__init__
    elif not isinstance(f, FunctionType):
        f = getattr(type(f), "__call__", None)  # noqa: B004 - the function, not whether there is one
    return isinstance(f, FunctionType) and is_followed(f.__code__, f.__globals__)


def _is_chainrule(f: Any) -> bool:
    return (getattr(f, "__module__", None) or "").startswith("chainrule")
