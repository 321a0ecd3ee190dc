"""Trees of plain things as JSON and arrays: how states travel and lie in files, without a pickle.

`encode` takes what `state_dict()` of modules, optimizers, schedulers and scalers gives: dicts,
lists, tuples, numbers, strings, None, arrays and tensors. The JSON keeps what JSON has no word for
as an object with one key: {"tuple": [..]}, {"dict": [[key, value], ..]}, {"array": name},
{"tensor": name}, {"float": "inf"}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from chainrule.engine.graph import variable
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, describe


def encode(tree: Any, name: str, arrays: dict[str, Array]) -> Any:
    """`tree` as what JSON can say; its arrays go into `arrays`, named by their paths."""
    if isinstance(tree, Tensor):
        arrays[name] = np.asarray(tree.detach().numpy(), order="C")
        return {"tensor": name}
    if isinstance(tree, np.ndarray):
        arrays[name] = np.asarray(cast("Any", tree), order="C")
        return {"array": name}
    if isinstance(tree, np.generic):
        return encode(tree.item(), name, arrays)
    if tree is None or isinstance(tree, bool | int | str):
        return tree
    if isinstance(tree, float):
        return tree if math.isfinite(tree) else {"float": repr(tree)}
    if isinstance(tree, dict):
        items = cast("dict[Any, Any]", tree).items()
        return {"dict": [[k, encode(v, f"{name}.{k}", arrays)] for k, v in items]}
    if isinstance(tree, list | tuple):
        parts = [encode(x, f"{name}.{i}", arrays) for i, x in enumerate(cast("list[Any]", tree))]
        return {"tuple": parts} if isinstance(tree, tuple) else parts
    raise ConfigError(
        f"{name} is {describe(tree)}: what is saved and sent is made of arrays, numbers, strings, "
        "lists, tuples and dicts"
    )


def decode(said: Any, arrays: Mapping[str, Array]) -> Any:
    """The tree that `encode` was given; `KeyError`, `TypeError` or `ValueError` if it is none."""
    if isinstance(said, list):
        return [decode(x, arrays) for x in cast("list[Any]", said)]
    if not isinstance(said, dict):
        return said
    ((kind, value),) = cast("dict[str, Any]", said).items()
    match kind:
        case "tuple":
            return tuple([decode(x, arrays) for x in value])
        case "dict":
            return {k: decode(v, arrays) for k, v in value}
        case "array":
            return arrays[value]
        case "tensor":
            return variable(arrays[value])
        case "float":
            return float(value)
        case _:
            raise ValueError(f"there is no kind {kind!r:.40} of thing")
