"""What somebody is told whose own code raises while it is verified.

The error stays what it is, so that it is caught as always. What was asked is added to it, and what
runs between the call and the code that raised is left out of what is printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from operator import is_
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from chainrule.engine.arrays import admit_values
from chainrule.engine.misuse.foreign_arrays import report_caller
from chainrule.engine.provenance import is_inside
from chainrule.errors import ChainruleError, describe
from chainrule.tree import flatten
from chainrule.verify.user_code import name_of
from chainrule.verify.user_frames import raised_at

_P = ParamSpec("_P")
_R = TypeVar("_R")


def with_request_in_errors(face: Callable[_P, _R]) -> Callable[_P, _R]:
    """`face`, whose errors say what was asked, and begin at the line that raised."""

    @wraps(face)
    def told(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        __tracebackhide__ = True
        given: Any = [_admitted(face.__name__, x) for x in args]
        try:
            return face(*given, **kwargs)
        except AssertionError:
            raise  # a diagnosis, or what a test is about
        except Exception as error:
            inner = _below(error.__traceback__)
            if inner is None and not isinstance(error, ChainruleError):
                raise  # a mistake of ours: where it is, is needed
            error = error.with_traceback(inner)
            if inner is not None and not _is_said(error):  # a face may call another
                error.add_note(_said(face.__name__, args, error))
            raise error

    return told


def _admitted(face: str, x: Any) -> Any:
    """An argument with its arrays as the border lets them in; PyTorch's and settings pass."""
    leaves, structure = flatten(x)
    try:
        taken = [leaf if _is_setting(leaf) else admit_values(leaf) for leaf in leaves]
    except ChainruleError as error:
        raise report_caller(error, f"verify.{face}") from None
    return x if all(map(is_, leaves, taken)) else structure.unflatten(taken)


def _is_setting(x: Any) -> bool:
    """Whether it is an array of words, dates or objects, which nobody differentiates."""
    return x.__class__ is np.ndarray and x.dtype.kind in "OSUTMm"


def _below(trace: TracebackType | None) -> TracebackType | None:
    """Where the code begins that is verified, below ours and NumPy's; None where none ran."""
    steps = list(_steps(trace))[1:]
    return next((t for t in steps if not is_inside(t.tb_frame.f_code)), None)


def _steps(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_said(error: Exception) -> bool:
    return any(note.startswith("verify.") for note in getattr(error, "__notes__", ()))


def _said(face: str, args: tuple[Any, ...], error: Exception) -> str:
    what, *given = args
    if given and callable(given[0]) and not hasattr(given[0], "dtype"):
        given = given[1:]  # a backward
    inputs = ", ".join(_shown(x) for x in given) or "no arguments"
    at = raised_at(error)
    where = "" if at is None else f" at {at}"
    return (
        f"verify.{face} ran {name_of(what)} with {inputs}, and it raised this{where}: what is "
        "verified has to run by itself with these arguments first"
    )


def _shown(x: Any) -> str:
    """Shapes and dtypes; of what holds several, those of its parts."""
    if isinstance(x, list | tuple) and any(hasattr(v, "dtype") for v in x):  # pyright: ignore
        return f"({', '.join(_shown(v) for v in x)})"  # pyright: ignore
    return describe(x)
