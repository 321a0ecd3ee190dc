"""What went wrong, where, and what to do about it.

Inner code raises something short. The border (`graph.apply`, the derivative operators) catches it
once and adds what was asked, the shapes and dtypes. Every error of this package is a
`ChainruleError` and also the built-in kind that a caller would expect to catch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast


class ChainruleError(Exception):
    """Base of every error that chainrule raises on purpose."""


class ShapeError(ChainruleError, ValueError):
    """Shapes that do not fit together."""


class DtypeError(ChainruleError, TypeError):
    """A dtype or kind of argument that the operation is not defined for."""


class ForeignArrayError(DtypeError):
    """An object that computes in a way of its own, where an array or a number belongs: `array`."""

    array: Any

    def __init__(self, message: str, array: Any = None) -> None:
        super().__init__(message)
        self.array = array


class IndexingError(ChainruleError, IndexError):
    """An index outside its axis, or of a kind that cannot index."""


class GradientError(ChainruleError, RuntimeError):
    """A derivative was asked for that does not exist or is no longer available."""


class NonFiniteError(ChainruleError, FloatingPointError):
    """A NaN or an infinity appeared, and a trap was set for it."""


class TraceError(ChainruleError, RuntimeError):
    """A traced value was asked for its number, which is not known yet."""


WITHOUT_NUMBERS = (
    "Use where(condition, a, b) instead of a Python branch and while_loop(condition, body, state) "
    "instead of a Python loop, and take numbers out of the function as results"
)
"""What to write where a number is not known yet."""


class ConfigError(ChainruleError, ValueError):
    """A setting that makes no sense, with the sentence that a user should read."""


class MissingPackageError(ChainruleError, ImportError):
    """A package is not installed that what was asked for needs; says how to install it."""


class ParallelError(ChainruleError, RuntimeError):
    """Workers that train together cannot go on: one is gone, or they do not do the same."""


class OtherWorkerError(ParallelError):
    """Another worker has stopped, and this one with it; the words are that worker's."""

    EXIT_CODE = 3
    """Of a worker's command that ends by it: a launcher then looks for the cause elsewhere."""


class BroadcastWarning(UserWarning):
    """Two arrays in a loss were broadcast against each other, most likely by accident."""


class LostGradientWarning(UserWarning):
    """A function that is being differentiated computes with a plain number of its argument's."""


class CacheWarning(UserWarning):
    """The cache of compiled code is not used, since somebody else could have written to it."""


def describe(x: Any) -> str:
    """`float32 (3, 4)` for anything with a shape and a dtype, the type's name and value otherwise.

    >>> describe(2.5)
    'float 2.5'
    """
    if isinstance(x, type):
        home = "" if x.__module__ == "builtins" else f"{x.__module__}."
        return f"the class {home}{x.__qualname__}"
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        return f"{dtype} {tuple(cast(Any, shape))}"  # a subclass has a name of its own
    text = _one_line(x)
    return f"{type(x).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def _one_line(x: Any) -> str:
    """`x` in one line; lists that are nested too deep and numbers of too many digits included."""
    try:
        return " ".join(repr(x).split())
    except Exception:  # of any class: an object's `__repr__` may raise what it likes
        return "that cannot be shown"


_KINDS: tuple[tuple[type[Exception], type[ChainruleError]], ...] = (
    (IndexError, IndexingError),
    (TypeError, DtypeError),
    (AttributeError, DtypeError),
    (OverflowError, DtypeError),
    (ValueError, ShapeError),
    (RecursionError, ShapeError),
    (KeyError, ConfigError),
)


def explain(op: Any, xs: Sequence[Any], cause: Exception, reason: str = "") -> Exception:
    """The error to raise when `op` failed on `xs`: names the op, its arguments and the reason.

    An error that is already one of ours, or of a kind that says nothing about the arguments
    (out of memory, say), is returned as it is. `reason` stands in place of what `cause` says.
    """
    if isinstance(cause, ChainruleError):
        return cause
    for kind, ours in _KINDS:
        if isinstance(cause, kind):
            return ours(
                f"{op}: cannot be applied to {describe_all(xs)}: {reason or _reason(cause)}"
            )
    return cause


def describe_all(xs: Sequence[Any]) -> str:
    """The arguments of an op in words."""
    return ", ".join(describe(x) for x in xs)


def _reason(cause: Exception) -> str:
    """NumPy's reason in one line, without its internal operand jargon."""
    if isinstance(cause, RecursionError):
        return "lists are nested deeper than an array can have axes"
    if isinstance(cause, KeyError):
        return f"there is nothing under {cause}"
    text = " ".join(str(cause).split())
    if "could not be broadcast together" in text or "cannot be broadcast to a single" in text:
        return "the shapes do not broadcast (compare them from the right; sizes must match or be 1)"
    if "core dimension" in text:
        return "the inner sizes differ: (.., m, k) @ (.., k, n) needs the same k twice"
    return text.removeprefix("ufunc ").rstrip(".") or type(cause).__name__
