"""Kernels for eager calls on many elements: whether there are any, and those of single rows.

The kernels come from the compiler, which stands above this file and is loaded when it is needed. A
call runs one where its first argument is large, so that equal calls give equal bits, watched or
not. None does where the compiler's packages are not installed, or with CHAINRULE_OP_BY_OP=1 in the
environment. `fusing(False)` is for composites alone: how the value of an op is computed does not
depend on who asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from math import prod
from typing import Any, Protocol, final

import numpy as np

from chainrule.engine.dtypes import Dtype
from chainrule.engine.op import Array
from chainrule.ops.rows import rows
from chainrule.optional import is_installed

LEAST = 1 << 5
"""The fewest elements of a first argument for which composites are kernels, and so are single rows
of the table that NumPy computes in several passes. A step forward and back then takes as little as
a seventh of its time op by op. Loading the kernels pays after about a hundred steps. Smaller
examples, as one types them, load and compile nothing."""

Shape = tuple[int, ...]
Kinds = Sequence[tuple[Shape, Dtype]]
"""Shape and dtype of each of some arrays."""
Direct = Callable[[tuple[Array, ...]], list[Array] | None]
"""Runs a kernel on arrays; None if these are not of the kinds that it is for, in C's order."""


class Run(Protocol):
    """Runs a function of arrays, compiled, at certain sizes; arrays are in C's order."""

    def __call__(self, arrays: tuple[Array, ...]) -> list[Array] | None:
        """New arrays."""
        ...

    @property
    def direct(self) -> Direct:
        """The same, with as little as possible between the call and the compiled function."""
        ...

    def into(self, arrays: tuple[Array, ...], results: Sequence[Array]) -> None:
        """The results go into arrays that are there, of the shapes that results are to have."""
        ...


class Kernel(Protocol):
    """A compiled function of arrays of all sizes."""

    def at(self, shapes: Sequence[Shape], results: Sequence[Shape], given: Kinds = ()) -> Run:
        """What runs it on arrays of as many elements as these shapes say, an axis for each letter;
        the shapes that results are to have. It refuses arrays of other kinds than are `given`."""
        ...


Maker = Callable[[str, Callable[[Sequence[Any]], Any], Sequence[str], Sequence[Dtype]], Kernel]
"""Makes a kernel of a function of a list of tensors, of all sizes: a letter names each axis. The
first argument names the function."""

_ALLOWED = os.environ.get("CHAINRULE_OP_BY_OP", "") in ("", "0")
_on: ContextVar[bool] = ContextVar("fusing", default=_ALLOWED)


def is_on() -> bool:
    """Whether composites may run as kernels here; `fusing` says so."""
    return _on.get()


@contextmanager
def fusing(on: bool) -> Generator[None]:
    """Within it composites may run as kernels, or may not."""
    token = _on.set(on)
    try:
        yield
    finally:
        _on.reset(token)


@cache
def has_kernels() -> bool:
    """Whether eager calls on many elements may run as kernels at all."""
    return _ALLOWED and is_installed("llvmlite", "scipy")


def maker() -> Maker:
    """What compiles."""
    return import_module("chainrule.compile.eager").kernel


def updater() -> Maker:
    """What compiles functions whose results are new values of their first arguments: their kernels
    write to these, and return nothing."""
    return import_module("chainrule.compile.eager").updating_kernel


def is_large(x: Array) -> bool:
    """Whether rows that have a kernel run it on `x`."""
    return x.size >= LEAST and x.ndim > 0 and x.dtype.char in "fd" and has_kernels()


def are_alike(g: Any, x: Array) -> bool:
    """Whether g is an array, of the shape and dtype of x."""
    return g.__class__ is np.ndarray and g.dtype == x.dtype and g.shape == x.shape


by_kernels: set[Any] = set()
"""Functions of one array that kernels compute: the values of rows."""


def is_ours(row: Any) -> bool:
    """Whether a row stands in a table of this package: kernels are known by names, and what a name
    means is said by the package's source."""
    return row.home.startswith("chainrule.") and rows.get(row.label) is row


def is_value(fn: Any, label: str) -> bool:
    """Whether a function is the value of our row of that name: another one may be called so."""
    row: Any = rows.get(label)
    return row is not None and row.fn is fn and is_ours(row)


@cache
def row_kernel(label: str, dtype: Dtype) -> Kernel:
    """The value of a row of one argument."""
    row: Any = rows[label]
    return maker()(f"row {label}", lambda xs: row(xs[0]), ["N"], (dtype,))


@cache
def product_kernel(label: str, dtype: Dtype) -> Kernel:
    """The cotangent of the argument of a row: the one that came, times the row's slope. As in all
    compiled code a cotangent of 0 wins, for no flag tells that it met an infinity."""
    row: Any = rows[label]
    need = (True,)
    return maker()(
        f"cotangent of row {label}",
        lambda xs: row.strong_vjp(need, xs[0], None, xs[1:])[0],
        ["N", "N"],
        (dtype, dtype),
    )


@final
class Calls:
    """A kernel of arrays that are alike. `latest` has by shape what runs it on arrays of that shape
    in C's order, of the dtype that was met last."""

    def __init__(self, kernel: Callable[[Dtype], Kernel], count: int) -> None:
        self._kernel, self._count = kernel, count
        self._known: dict[tuple[Shape, Dtype], Direct] = {}
        self.latest: dict[Shape, Direct] = {}
        _calls.append(self)

    def run(self, arrays: tuple[Array, ...]) -> Array:
        """Run it on arrays in any order."""
        x = arrays[0]
        key = shape, dtype = x.shape, x.dtype
        run = self._known.get(key)
        if run is None:
            if len(self._known) >= MOST_CALLS:
                self.clear()
            flat = [(prod(shape),)] * self._count
            kernel = self._kernel(dtype)
            run = self._known[key] = kernel.at(flat, [shape], [key] * self._count).direct
        self.latest[shape] = run
        made = run(tuple([np.ascontiguousarray(x) for x in arrays]))
        assert made is not None, f"arrays that are not alike: {arrays}"
        return made[0]

    def clear(self) -> None:
        """Forget what is known."""
        self._known.clear()
        self.latest.clear()


MOST_CALLS = 4096
"""Kinds of calls of a row that are remembered."""
_calls: list[Calls] = []


def forget_kernels() -> None:
    """Let go of all kernels of rows."""
    row_kernel.cache_clear()
    product_kernel.cache_clear()
    for calls in _calls:
        calls.clear()
