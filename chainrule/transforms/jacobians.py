"""Derivatives of functions of arrays by arrays: jacobian and hessian, in either mode.

One pass gives one row or one column; all passes are one vmap over unit arrays. Complex numbers
have two directions. A pass along 1 and one along i together give what both modes agree on: dy/dx of
a real x, and the gradient, as `grad` has it, of a real y. From complex to complex one number is a
derivative only of a holomorphic f, so that has to be said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import DtypeError, GradientError
from chainrule.ops.families import conj
from chainrule.ops.shapes.shaping import reshape
from chainrule.transforms.functional import (
    Argnums,
    _outer_tree,  # pyright: ignore[reportPrivateUsage]
    _Run,  # pyright: ignore[reportPrivateUsage]
    _set_name,  # pyright: ignore[reportPrivateUsage]
    grad,
)
from chainrule.transforms.vectorize import vmap
from chainrule.tree import flatten


def jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    mode: str = "auto",
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that returns all partial derivatives of f's result.

    For a result of shape s and an argument of shape r an array of shape s + r; for trees a tree
    like the result of trees like the argument. `mode` is "forward" (one pass per argument element),
    "reverse" (one pass per result element) or "auto" (whichever is fewer). With `has_aux` f gives a
    pair (result, anything), and the function returns (derivatives, anything). Of a real result by
    complex arguments they are gradients, as in `grad`; of a complex result by complex arguments
    f', for which `holomorphic` must say that f has it.

    >>> cr.jacobian(lambda x: x**2)(cr.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]], dtype=float32)
    """
    if mode not in ("auto", "forward", "reverse"):
        raise GradientError(f"jacobian: mode is 'auto', 'forward' or 'reverse', not {mode!r}")

    def full(*args: Any, **kwargs: Any) -> Any:
        run = _Run(f, argnums, args, kwargs)
        result, aux = run.result if has_aux else (run.result, None)
        outs, structure = run.outputs(result)
        _check_complex(run, outs, holomorphic)
        n_in = sum([math.prod(x.shape) for x in run.aliases])
        n_out = sum([math.prod(o.shape) for o in outs])
        forward = mode == "forward" or (mode == "auto" and n_in < n_out)
        blocks = (_by_columns if forward else _by_rows)(run, outs)
        _, record = run.walk(outs)
        if not record:
            blocks = [[b.detach() for b in row] for row in blocks]
        rows = [run._tree(row) for row in blocks]  # pyright: ignore[reportPrivateUsage]
        found = structure.unflatten(rows)
        return (found, _outer_tree(aux, run)) if has_aux else found

    return _set_name(full, f, "jacobian")


def _check_complex(run: _Run, outs: Sequence[Tensor], holomorphic: bool) -> None:
    """Refuses derivatives of complex by complex numbers, but where f is said to be holomorphic."""
    complex_outs = [o for o in outs if o.dtype.kind == "c"]
    if holomorphic:
        run.need_complex("jacobian")
        if len(complex_outs) < len(outs):
            real = next(o for o in outs if o.dtype.kind != "c")
            raise DtypeError(
                f"jacobian with holomorphic=True needs complex results, not {real.dtype}"
            )
        return
    complex_xs = [x for x in run.aliases if x.dtype.kind == "c"]
    if complex_outs and complex_xs:
        raise DtypeError(
            f"jacobian of {complex_outs[0].dtype} by {complex_xs[0].dtype}: of a holomorphic "
            "function write holomorphic=True; of any other take real and imaginary parts as "
            "arguments or results"
        )


def _by_rows(run: _Run, outs: Sequence[Tensor]) -> list[list[Any]]:
    """For each output the blocks of all arguments: a reverse pass for all its elements at once."""
    blocks: list[list[Any]] = []
    for k, out in enumerate(outs):

        def pull(g: Any, k: int = k) -> Any:
            gs = [g if i == k else None for i in range(len(outs))]
            return flatten(run.pull(outs, gs))[0]

        rows = _map_unit_arrays(pull, out, run.aliases)
        if out.dtype.kind == "c":
            rows = [conj(r) for r in rows]
            if any(x.dtype.kind != "c" for x in run.aliases):  # all of them
                along_i = _map_unit_arrays(pull, out, run.aliases, 1j)
                rows = [r + 1j * i for r, i in zip(rows, along_i, strict=True)]
        blocks.append(
            [reshape(r, (*out.shape, *x.shape)) for r, x in zip(rows, run.aliases, strict=True)]
        )
    return blocks


def _by_columns(run: _Run, outs: Sequence[Tensor]) -> list[list[Any]]:
    """For each output the blocks of all arguments: a forward pass for all elements of each."""
    blocks: list[list[Any]] = [[] for _ in outs]
    for j, x in enumerate(run.aliases):

        def push(t: Any, j: int = j) -> Any:
            return run.push(outs, [t if i == j else None for i in range(len(run.aliases))])

        columns = _map_unit_arrays(push, x, outs)
        if x.dtype.kind == "c" and any(o.dtype.kind != "c" for o in outs):  # all of them
            along_i = _map_unit_arrays(push, x, outs, 1j)
            columns = [c + 1j * i for c, i in zip(columns, along_i, strict=True)]
        for k, (column, out) in enumerate(zip(columns, outs, strict=True)):
            block = reshape(column, (*x.shape, *out.shape))
            nx, no = len(x.shape), len(out.shape)
            blocks[k].append(block.permute_dims((*range(nx, nx + no), *range(nx))))
    return blocks


def _map_unit_arrays(
    f: Callable[..., Any], x: Tensor, results: Sequence[Tensor], unit: complex = 1.0
) -> list[Any]:
    """What the linear f gives for each array of the shape of `x` with one element that is `unit`
    and zeros, along a new first axis."""
    n = math.prod(x.shape)
    if n == 0:
        return [variable(np.zeros((0, *r.shape), r.dtype)) for r in results]
    units = np.eye(n, dtype=x.dtype) * np.asarray(unit).astype(x.dtype)
    return vmap(f)(units.reshape(n, *x.shape))


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns all second derivatives of f, which gives one number.

    For an argument of shape r an array of shape r + r; for trees a tree of trees.

    >>> cr.hessian(lambda x: cr.sum(x**3))(cr.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]], dtype=float32)
    """
    return jacobian(grad(f, argnums), argnums)
