"""What each problem states, and nothing about how it is timed or over which wire it is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[..., Any]
Jit = Callable[[Function], Function]
"""`chainrule.jit`, or `eager`: what a program wraps around the functions that should be fast."""
Input = Mapping[str, Any]
"""The `input` of one of the suite's messages; lists there may be arrays here."""


def eager(f: Function) -> Function:
    """The engine that compiles nothing."""
    return f


def plain(result: Any) -> Any:
    """A result as the lists and numbers that the suite's messages carry."""
    if isinstance(result, Mapping):
        return {k: plain(v) for k, v in result.items()}
    return np.asarray(result).tolist()


@dataclass(frozen=True)
class Problem:
    """One eval of the suite: `name`, and the following.

    functions: from an engine, the functions of the eval by the suite's names for them
    read:      from a message's input, the arguments of those functions: float64 arrays, and ints
               for what decides shapes
    make:      from a size and a generator, an input as the suite's script would make it
    sizes:     which sizes are timed here; `timed` are the functions that are timed
    write:     from the arguments, a function's name and its result, the message's output
    """

    name: str
    functions: Callable[[Jit], dict[str, Function]]
    read: Callable[[Input], tuple[Any, ...]]
    make: Callable[..., Input]
    sizes: tuple[dict[str, int], ...]
    timed: tuple[str, ...]
    write: Callable[[tuple[Any, ...], str, Any], Any] = lambda args, name, result: plain(result)


def array(x: Any) -> np.ndarray[Any, Any]:
    """Numbers as a float64 array."""
    return np.asarray(x, np.float64)
