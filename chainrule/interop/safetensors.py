"""Weights as safetensors files, by the names that the `safetensors` package and PyTorch users know.

A file holds tensors by name. A tree (nested dicts, lists, tuples, dataclasses) is stored under the
paths to its leaves, "layers.0.weight" say, and is given back as a flat dict, or, with `like`, in
the structure of another tree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor, to_array
from chainrule.errors import ConfigError, ShapeError, describe
from chainrule.interop.safetensors_file import read
from chainrule.optional import require
from chainrule.tree import Structure, flatten

StrPath = str | os.PathLike[str]


def save_file(tensors: Any, filename: StrPath, metadata: Mapping[str, str] | None = None) -> None:
    """Write a tree of tensors and arrays to `filename`, which appears whole or not at all.

    `metadata` are strings to go with it. Raises `ConfigError` for leaves that are no arrays and for
    two leaves with one path; errors of the file system pass through.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     cr.save_file(nn.Linear(2, 1).state_dict(), f"{place}/x.safetensors")
    ...     print(list(cr.load_file(f"{place}/x.safetensors")))
    ['bias', 'weight']
    """
    leaves, structure = flatten(tensors)
    names = _paths(structure)
    arrays = {name: _array(name, x) for name, x in zip(names, leaves, strict=True)}
    if len(arrays) != len(names):
        raise ConfigError("save_file: two leaves have the same path; a '.' in a key may be why")
    part = Path(f"{os.fspath(filename)}.part")
    try:
        _package().save_file(arrays, part, metadata=None if metadata is None else dict(metadata))
        part.replace(filename)
    finally:
        part.unlink(missing_ok=True)


def load_file(filename: StrPath, like: Any = None) -> Any:
    """The tensors of a file: a dict by name, or a tree with the structure of `like`.

    Raises `ConfigError` for a file that is damaged or of another kind, and, with `like`, if names
    are missing or left over; `ShapeError` where shapes differ.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     cr.save_file({"w": cr.ones(2)}, f"{place}/x.safetensors")
    ...     print(cr.load_file(f"{place}/x.safetensors"))
    {'w': tensor([1., 1.], dtype=float32)}
    """
    try:
        found = read(Path(filename))
    except ValueError as cause:
        raise ConfigError(f"{os.fspath(filename)} is no safetensors file: {cause}") from cause
    tensors = {name: variable(np.array(x)) for name, x in found.items()}
    return tensors if like is None else _in_structure(tensors, like)


def _package() -> Any:
    """Imported when it is first needed."""
    return require("safetensors.numpy", "a .safetensors file")


def _paths(structure: Structure, path: str = "") -> list[str]:
    """The path to each leaf, in the order of leaves."""
    if structure.kind is None:
        return [path or "value"]
    start = f"{path}." if path else ""
    keys = structure.keys or range(len(structure.children))
    pairs = zip(keys, structure.children, strict=True)
    return [name for key, child in pairs for name in _paths(child, f"{start}{key}")]


def _array(name: str, x: Any) -> Any:
    if not isinstance(x, Tensor | np.ndarray):
        raise ConfigError(f"save_file: '{name}' is {describe(x)}, not a tensor or an array")
    return np.asarray(to_array(x, copy=False), order="C")


def _in_structure(tensors: dict[str, Any], like: Any) -> Any:
    """The tensors in the structure of `like`."""
    leaves, structure = flatten(like)
    names = _paths(structure)
    missing = [name for name in names if name not in tensors]
    left = sorted(tensors.keys() - set(names))
    if missing or left:
        raise ConfigError(f"load_file: names that the file lacks: {missing}; that it adds: {left}")
    for name, x in zip(names, leaves, strict=True):
        if tuple(np.shape(x)) != tensors[name].shape:
            raise ShapeError(
                f"load_file: '{name}' has {tensors[name].shape} in the file, not {np.shape(x)}"
            )
    return structure.unflatten([tensors[name] for name in names])
