"""Where Values stand: by the containers that a function reaches, names and indices.

`weights["w1"][i][j]` and `model.layers[l].neurons[j].w[i]` are found by walking what the function
refers to. What is a list or a tuple on the way gives an index, what is a name or a key names the
array. So all the Values of one matrix have one name. A Value that several paths lead to stands
where most indices do: in its matrix rather than in a list of all parameters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np

from chainrule.compile.trace.guards.followed_code import is_followed_file
from chainrule.compile.trace.guards.reachable_state import names_in
from chainrule.engine.tensors import Tensor
from chainrule.scalar import Value

Stand = tuple[tuple[Any, ...], tuple[int, ...]]
"""The names on the way to a Value, and the indices."""
PLAIN = (str, bytes, int, float, complex, type(None), type, ModuleType, BuiltinFunctionType)
_ARRAYS = (Tensor, np.ndarray, np.generic)


def parts(x: Any) -> Iterator[tuple[Any, Any]]:
    """What x refers to, as far as a function may find Values there: name or index, and object."""
    match x:
        case FunctionType():
            for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
                if _filled(cell):
                    yield name, cell.cell_contents
            yield from ((f"default {i}", d) for i, d in enumerate(x.__defaults__ or ()))
            if not (x.__module__ or "").startswith("chainrule."):
                names = dict.fromkeys(names_in(x.__code__))  # in the order of their use
                found = [(n, x.__globals__[n]) for n in names if n in x.__globals__]
                yield from found
                for name, module in found:
                    if isinstance(module, ModuleType) and is_followed_file(module):
                        inside = vars(module)
                        yield from ((f"{name}.{n}", inside[n]) for n in names if n in inside)
        case MethodType():
            yield "self", x.__self__
            yield "function", x.__func__
        case list() | tuple() | set() | frozenset():
            yield from enumerate(cast("Sequence[Any]", x))
        case dict():
            yield from cast("Mapping[Any, Any]", x).items()
        case _ if isinstance(x, _ARRAYS):
            pass
        case _:
            own = getattr(x, "__dict__", None)
            if isinstance(own, Mapping):
                yield from cast("Mapping[Any, Any]", own).items()


def objects_among(leaves: Sequence[Any]) -> list[Any]:
    """What a function may find Values in of its arguments' leaves: `self`, say."""
    return [x for x in leaves if not isinstance(x, (*PLAIN, *_ARRAYS, Value))]


def named(roots: Sequence[Any]) -> dict[str, Any]:
    """A function and objects among its arguments, by names to be walked from."""
    f, *objects = roots
    return {"function": f, **{f"argument{i or ''}": x for i, x in enumerate(objects)}}


def entry_of(f: FunctionType, name: str) -> tuple[dict[str, Any], str]:
    """The dictionary that a name of `parts` is of, and the key there: of the function's module, or
    of a module that it names."""
    module, _, key = name.rpartition(".")
    if not module:
        return f.__globals__, name
    named: ModuleType = f.__globals__[module]
    return vars(named), key


def reaches_value(root: Any) -> bool:
    """Whether there is a Value in what a function refers to: closure, names of its module,
    objects."""
    queue, seen = [root], {id(root)}
    for x in queue:
        for _, y in parts(x):
            if isinstance(y, Value):
                return True
            if id(y) not in seen and not isinstance(y, PLAIN):
                seen.add(id(y))
                queue.append(y)
    return False


def stands(root: Any) -> dict[int, Stand]:
    """By `id`, where the Values stand that `root` refers to; of paths with equally many indices the
    first counts. An object is looked at again where a path with more indices leads to it."""
    found: dict[int, Stand] = {}
    depth = {id(root): 0}
    queue: list[tuple[Any, Stand]] = [(root, ((), ()))]
    for x, (names, at) in queue:
        listed = isinstance(x, list | tuple)
        for key, y in parts(x):
            if isinstance(y, PLAIN):
                continue
            stand = (names, (*at, key)) if listed else ((*names, key), at)
            if isinstance(y, Value):
                if id(y) not in found or len(found[id(y)][1]) < len(stand[1]):
                    found[id(y)] = stand
            elif depth.get(id(y), -1) < len(stand[1]) <= DEEPEST:
                depth[id(y)] = len(stand[1])
                queue.append((y, stand))
    return {i: ((*names, len(at)), at) for i, (names, at) in found.items()}


DEEPEST = 6
"""Indices on the way to a Value."""


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that has no value yet
        return False
