"""`jit`: a function that is traced once for each structure of its arguments, and compiled.

Tensors that the function reaches by itself are its state: they are read anew at every call, and
updated where the function updates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from chainrule.compile.jitted_function import Jitted
from chainrule.errors import ConfigError
from chainrule.names.jax_names import COMPILED
from chainrule.names.spellings import Hint

__all__ = ["Jitted", "jit"]

for _name, _hint in COMPILED.items():
    setattr(Jitted, _name, Hint(_name, _hint))


def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    dynamic: Any = None,
    reassociate: bool = False,
) -> Any:
    """The function f, compiled: the first call traces it, further calls are one native call.

    Arguments and results are trees. Tensors and NumPy arrays among the leaves of the arguments are
    traced: their values may change from call to call. Python floats and complex numbers are traced,
    too, and promote as Python numbers do. Everything else (ints, bools, strings, None, what is
    hashable), and all arguments that are named static, is part of the program. A new value, shape
    or dtype has f traced again.

    `dynamic` names axes of arguments whose size may change from call to call without another
    compilation: {"tokens": ("B", "T")}, say, or {0: {1: "T"}}. Axes of one name have one size. f is
    then traced at several sizes, and must do the same at each.

    Tensors that f reaches by itself (parameters, buffers, gradients, an optimizer's state) are
    found, read anew at every call, and updated where f updates them. So a whole training step can
    be one call. Draws from chainrule's generators are the same as without `jit`.

    What else f reads is compared at each call: names of its module and of enclosing functions,
    attributes, items, lengths, defaults. If one is another value, f is traced again: the result is
    that of f as it is now. After the third time a `RetraceWarning` names it. NumPy arrays that f
    reaches by itself and hands to ops are inputs, read anew at every call. f must not draw from
    generators other than chainrule's, ask a clock, or take from an iterator: `TraceError`.
    docs/compiled.md says what is compared.

    f must not branch on traced values in Python, nor store them anywhere but in tensors: that
    raises `TraceError`. Printing, and writing to files, happens only while it is traced.
    What f returns can be differentiated like any result, with respect to arguments and state.

    A function of `Value`s, among its arguments or by itself, is compiled too; where it repeats
    itself, to loops (docs/scalar_speed.md). Numbers taken from their `data` inside f stay what they
    were when it was traced, but for the largest of several. So f is tried with other numbers as
    well. If its results depend on such a number (a branch, say), it runs as it is, and `explain`
    says why. f may call `backward`, and change data, gradients and lists of floats. With
    `reassociate`, its loops round otherwise than the program: products are fused with sums,
    quotients are products with reciprocals, functions are chainrule's own; so values agree to
    rounding, and not to the bit. It says nothing about functions of tensors.

    Also a decorator, `@jit` or `@jit(static_argnames="n")`, of functions and of methods.

    >>> import chainrule as cr
    >>> double = cr.jit(lambda x: x + x)
    >>> double(cr.tensor([1.0, 2.0]))
    tensor([2., 4.], dtype=float32)
    """
    if f is None:
        return partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            dynamic=dynamic,
            reassociate=reassociate,
        )
    if not callable(f):
        raise ConfigError(f"jit compiles functions, not {type(f).__name__}")
    return Jitted(f, (static_argnums, static_argnames, dynamic), reassociate)
