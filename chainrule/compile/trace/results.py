"""What a call returns, made of its results: an expression of Python, written once for each trace.

A structure put together leaf by leaf takes as long as a small kernel; Python's own displays do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from chainrule.compile.trace.outcome import NUMBER, TENSOR
from chainrule.engine.tensors import Tensor
from chainrule.tree import Structure

_new: Any = object.__new__


def finishing(leaves: Sequence[Any], structure: Structure) -> Callable[[Sequence[Any]], Any]:
    """From the results of a call to a tree of `structure` with all leaves. Results are arrays or
    tensors, in the order of the `TENSOR`s and `NUMBER`s among `leaves`. Not for use while a trace
    goes on."""
    if structure.kind is None and leaves[0] is TENSOR:
        return _only
    names: dict[str, Any] = {"tensor": _tensor}
    places = count()

    def leaf(x: Any) -> str:
        if x is TENSOR:
            return f"tensor(found[{next(places)}])"
        return f"found[{next(places)}].item()" if x is NUMBER else _new_name(x, names)

    text = _expression(structure, map(leaf, leaves), names)
    return eval(f"lambda found: {text}", names)


def _expression(s: Structure, leaves: Iterator[str], names: dict[str, Any]) -> str:
    """The tree, in Python's words; `names` is what they mean."""
    if s.kind is None:
        return next(leaves)
    parts = "".join([f"{_expression(child, leaves, names)}, " for child in s.children])
    if s.kind in (tuple, list):
        return f"({parts})" if s.kind is tuple else f"[{parts}]"
    flat = Structure(s.kind, s.keys, tuple([Structure(None, (), ()) for _ in s.children]))
    return f"{_new_name(flat.unflatten, names)}(({parts}))"


def _new_name(x: Any, names: dict[str, Any]) -> str:
    name = f"x{len(names)}"
    names[name] = x
    return name


def _only(found: Sequence[Any]) -> Any:
    x = found[0]
    if x.__class__ is not np.ndarray:
        return x
    t = _new(Tensor)
    t.value = x
    t.node = None
    return t


def _tensor(x: Any) -> Any:
    if x.__class__ is not np.ndarray:
        return x
    t = _new(Tensor)
    t.value = x
    t.node = None
    return t


def returns_tensor(finish: Callable[[Sequence[Any]], Any]) -> bool:
    """Whether this makes a tensor of the only result, which is an array."""
    return finish is _only
