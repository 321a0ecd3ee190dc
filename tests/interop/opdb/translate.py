"""From PyTorch's arguments to ours.

A row of the table says in one string how a call translates: PyTorch's positional parameters in
their order, each either as it is (`input`: handed on in its place) or with our name for it
(`dim=axis`: handed on as that keyword). `"input dim=axis keepdim=keepdims"` is a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

import chainrule as cr

Function = Callable[..., Any]


class Unlike(Exception):  # noqa: N818 (not an error: a statement)
    """This sample asks for something that we do not offer, and why."""


def words(f: Function, parameters: str) -> Function:
    """`f` with PyTorch's parameters. Those that the caller leaves out keep our defaults."""
    ours = dict([p.partition("=")[::2] for p in parameters.split()])

    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(ours, args, strict=False)) | kwargs
        if len(args) > len(ours) or given.keys() - ours.keys():
            raise Unlike(f"arguments {sorted(given.keys() - ours.keys()) or args[len(ours) :]}")
        plain = [given[p] for p in given if not ours[p]]
        return f(*plain, **{ours[p]: x for p, x in given.items() if ours[p]})

    return call


def to_ours(x: Any) -> Any:
    """An argument that is not differentiated, in our types."""
    if isinstance(x, torch.Tensor):
        return cr.tensor(array(x))
    if isinstance(x, torch.dtype):
        return np.dtype(str(x).removeprefix("torch."))
    if isinstance(x, torch.Size):
        return tuple(x)
    if isinstance(x, list) and all(isinstance(i, int) for i in x):
        return tuple(x)
    return x


def array(x: Any) -> Any:
    """The values of a tensor of PyTorch's."""
    return x.numpy(force=True)


def leaves(tree: Any) -> list[Any]:
    """The arrays of a result: of tuples, lists, named tuples and dictionaries, in order."""
    if isinstance(tree, torch.Tensor | cr.Tensor | np.ndarray):
        return [tree]
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    if isinstance(tree, Sequence) and not isinstance(tree, str):
        return [leaf for part in tree for leaf in leaves(part)]
    return []


def axis_of(x: Any, dim: Any) -> Any:
    """Our `axis`: for PyTorch a number has axis 0 and an empty list names all axes."""
    if dim is None or dim == () or x.ndim == 0:
        return None
    return tuple(dim) if isinstance(dim, list) else dim


def reduction(f: Function) -> Function:
    """PyTorch's `dim`, `keepdim` and `dtype`."""

    def call(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        x = x if dtype is None else cr.astype(x, dtype)
        return f(x, axis=axis_of(x, dim), keepdims=keepdim)

    return call


def along(f: Function) -> Function:
    """A function along the one axis `dim`, where PyTorch's numbers count as one element."""

    def call(x: Any, dim: int = -1, *rest: Any, dtype: Any = None, **more: Any) -> Any:
        x = x if dtype is None else cr.astype(x, dtype)
        if x.ndim:
            return f(x, *rest, axis=dim, **more)
        y = f(cr.reshape(x, (1,)), *rest, axis=0, **more)
        return [cr.reshape(p, ()) for p in y] if isinstance(y, tuple) else cr.reshape(y, ())

    return call


def only(what: str, options: dict[str, Any]) -> None:
    """Leave the sample out if it sets one of the options, none of which we have."""
    given = sorted(k for k, v in options.items() if v not in (None, False))
    if given:
        raise Unlike(f"{what} with {', '.join(given)}")


def of_elements(f: Function) -> Function:
    """`f`, but not of arrays without elements."""

    def call(x: Any, *args: Any, **options: Any) -> Any:
        if 0 in x.shape:
            raise Unlike("an array without elements")
        return f(x, *args, **options)

    return call
