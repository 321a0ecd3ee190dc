"""What went wrong, where, and what to do about it.

Inner code raises something short. The border (`graph.apply`, the derivative operators) catches it
once and adds what was asked, the shapes and dtypes. Every error of this package is a
`ChainruleError` and also the built-in kind that a caller would expect to catch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ChainruleError(Exception):
    """Base of every error that chainrule raises on purpose."""


class ShapeError(ChainruleError, ValueError):
    """Shapes that do not fit together."""


class DtypeError(ChainruleError, TypeError):
    """A dtype or kind of argument that the operation is not defined for."""


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


class BroadcastWarning(UserWarning):
    """Two arrays in a loss were broadcast against each other, most likely by accident."""


class CacheWarning(UserWarning):
    """The cache of compiled code is not used, since somebody else could have written to it."""


def describe(x: Any) -> str:
    """`float32 (3, 4)` for anything with a shape and a dtype, the type's name and value otherwise.

    >>> describe(2.5)
    'float 2.5'
    """
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{dtype} {tuple(shape)}"
    text = repr(x)
    return f"{type(x).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


_KINDS: tuple[tuple[type[Exception], type[ChainruleError]], ...] = (
    (IndexError, IndexingError),
    (TypeError, DtypeError),
    (OverflowError, DtypeError),
    (ValueError, ShapeError),
)


def explain(op: Any, xs: Sequence[Any], cause: Exception) -> Exception:
    """The error to raise when `op` failed on `xs`: names the op, its arguments and the reason.

    An error that is already one of ours, or of a kind that says nothing about the arguments
    (out of memory, say), is returned as it is.
    """
    if isinstance(cause, ChainruleError):
        return cause
    for kind, ours in _KINDS:
        if isinstance(cause, kind):
            args = ", ".join(describe(x) for x in xs)
            return ours(f"{op}: cannot be applied to {args}: {_reason(cause)}")
    return cause


def _reason(cause: Exception) -> str:
    """NumPy's reason in one line, without its internal operand jargon."""
    text = " ".join(str(cause).split())
    if "could not be broadcast together" in text or "cannot be broadcast to a single" in text:
        return "the shapes do not broadcast (compare them from the right; sizes must match or be 1)"
    if "core dimension" in text:
        return "the inner sizes differ: (.., m, k) @ (.., k, n) needs the same k twice"
    return text.removeprefix("ufunc ").rstrip(".") or type(cause).__name__
