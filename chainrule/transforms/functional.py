"""Derivatives of functions: grad, value_and_grad, vjp, jvp and hvp, in any nesting.

Each operator gives its function an alias of the argument and asks the sweeps in `derive` what
arrives there, so nested derivatives are kept apart by identity, without tags or levels. The result
is itself recorded where something else than those aliases could still be differentiated.

Arguments and results are trees (see `tree`) of tensors, NumPy arrays and numbers. Python floats
become float32; gradients have the shape and dtype of what they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.engine.derive import pullback_nodes, pushforward_nodes
from chainrule.engine.dtypes import INEXACT, REAL
from chainrule.engine.graph import Node, Variable, alias, order, recording, variable
from chainrule.engine.lost_gradients import differentiated
from chainrule.engine.op import Spec
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import DtypeError, ShapeError
from chainrule.ops.eager_kernels import fusing
from chainrule.ops.families import conj
from chainrule.tree import Structure, flatten, tree_map

Argnums = int | tuple[int, ...]


class _Run:
    """One run of `f` with aliases in place of the arguments `argnums`, and the graph it left."""

    def __init__(self, f: Callable[..., Any], argnums: Argnums, args: Sequence[Any], kwargs: Any):
        self.single = isinstance(argnums, int)
        numbers = (argnums,) if isinstance(argnums, int) else argnums
        if not all(-len(args) <= n < len(args) for n in numbers):
            raise ShapeError(f"argnums {argnums}: the function was given {len(args)} arguments")
        picked = [args[n] for n in numbers]
        leaves, self.structure = flatten(picked)
        self.aliases: list[Tensor] = [alias(_differentiable(x)) for x in leaves]
        new = list(args)
        for n, x in zip(numbers, self.structure.unflatten(self.aliases), strict=True):
            new[n] = x
        token = differentiated.set((*differentiated.get(), *[x.node for x in self.aliases]))
        try:
            with recording(True):
                self.result = f(*new, **kwargs)
        finally:
            differentiated.reset(token)

    def outputs(self, result: Any) -> tuple[list[Tensor], Structure]:
        """The leaves of a result as tensors."""
        leaves, structure = flatten(result)
        return [asarray(x) for x in leaves], structure

    def need_complex(self, what: str) -> None:
        """Refuses real arguments of a function that is said to be holomorphic."""
        for x in self.aliases:
            if x.dtype.kind != "c":
                raise DtypeError(
                    f"{what} with holomorphic=True needs complex arguments, not {x.dtype} {x.shape}"
                )

    def walk(self, outs: Sequence[Tensor]) -> tuple[list[Node], bool]:
        """The order of the graph of `outs`, and whether its derivative is to be recorded."""
        mine = [x.node for x in self.aliases if x.node is not None]
        walk = order([o.node for o in outs if o.node is not None and o.node.needs], mine)
        # what was made after the aliases is f's own: places of derivatives that it took inside
        first = min([n.serial for n in mine], default=0)
        foreign = any(n.op is None and n.serial < first for n in walk)
        inner = any(n.inputs for n in mine) or any(type(o.value) is Spec for o in outs)
        return walk, foreign or inner

    def pull(self, outs: Sequence[Tensor], gs: Sequence[Any]) -> Any:
        """Cotangents of the arguments, in their structure; None among `gs` is no cotangent."""
        walk, record = self.walk(outs)
        record = record or any(isinstance(g, Variable) and g.node is not None for g in gs)
        seeds: dict[Node, Any] = {}
        for o, g in zip(outs, gs, strict=True):
            if g is not None and o.node is not None and o.node.needs:
                g = _as(g, record)
                seeds[o.node] = g if o.node not in seeds else seeds[o.node] + g
        nodes = [x.node for x in self.aliases if x.node is not None]
        got = pullback_nodes(walk, seeds, set(nodes), record=record, free=False)
        return self._tree([got.get(n) for n in nodes])

    def _tree(self, bars: Sequence[Any]) -> Any:
        full = [
            variable(np.zeros(x.shape, x.dtype)) if b is None else _as(b, True)
            for b, x in zip(bars, self.aliases, strict=True)
        ]
        trees = self.structure.unflatten(full)
        return trees[0] if self.single else tuple(trees)

    def push(self, outs: Sequence[Tensor], ts: Sequence[Any]) -> list[Tensor]:
        """Tangents of `outs`; None among `ts` is no tangent."""
        walk, record = self.walk(outs)
        record = record or any(isinstance(t, Variable) and t.node is not None for t in ts)
        tangents: dict[Node, Any] = {}
        for x, t in zip(self.aliases, ts, strict=True):
            if t is not None and x.node is not None:
                tangents[x.node] = _as(t, record)
        got = pushforward_nodes(walk, tangents, record=record)
        dots = [got.get(o.node) if o.node is not None else None for o in outs]
        return [
            variable(np.zeros(o.shape, o.dtype)) if d is None else _as(d, True)
            for d, o in zip(dots, outs, strict=True)
        ]


def _as(x: Any, wrap: bool) -> Any:
    """A variable if `wrap`, an array otherwise."""
    if isinstance(x, Variable):
        return x if wrap else x.value
    return variable(x) if wrap else np.asarray(x)


def _differentiable(x: Any) -> Tensor:
    tensor = asarray(x)
    if tensor.dtype.kind not in INEXACT:
        raise DtypeError(
            f"cannot differentiate with respect to {tensor.dtype} {tensor.shape}: only "
            "floating-point arguments have derivatives (write 2.0 for 2, or use x.astype(float))"
        )
    return tensor


def _scalar(outs: Sequence[Tensor], what: str, holomorphic: bool = False) -> Tensor:
    if len(outs) != 1 or outs[0].shape != ():
        got = ", ".join([str(o.shape) for o in outs])
        raise ShapeError(
            f"{what} needs a function with one number as its result, this one gave shape {got}; "
            "sum it, or use jacobian or vjp"
        )
    dtype = outs[0].dtype
    if holomorphic and dtype.kind != "c":
        raise DtypeError(f"{what} with holomorphic=True needs a complex result, not {dtype}")
    if not holomorphic and dtype.kind not in REAL:
        hint = "; of a holomorphic function write holomorphic=True" if dtype.kind == "c" else ""
        raise DtypeError(f"{what} needs a real floating-point result, not {dtype}{hint}")
    return outs[0]


def value_and_grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that returns (f(..), gradient of f with respect to the arguments `argnums`).

    f gives one number; with `has_aux` a pair (number, anything), and the result is
    ((number, anything), gradient). The gradient is a tree like the argument (a tuple of trees if
    `argnums` is a tuple). Of a real f of complex z it is the direction in which f grows, with
    df/dRe z + i df/dIm z as its elements, as in PyTorch. With `holomorphic` f gives one complex
    number of complex arguments, and the gradient is f', which f is trusted to have.

    >>> cr.value_and_grad(lambda x: x**2)(3.0)
    (tensor(9., dtype=float32), tensor(6., dtype=float32))
    """

    def both(*args: Any, **kwargs: Any) -> Any:
        run = _Run(f, argnums, args, kwargs)
        value, aux = run.result if has_aux else (run.result, None)
        outs, _ = run.outputs(value)
        out = _scalar(outs, "grad", holomorphic)
        bars = run.pull([out], [np.ones((), out.dtype)])
        if holomorphic:
            run.need_complex("grad")
            bars = tree_map(conj, bars)
        shown = _outer(out, run)
        if not has_aux:
            return shown, bars
        return (shown, _outer_tree(aux, run)), bars

    return _set_name(both, f, "value_and_grad")


def _outer(out: Any, run: _Run) -> Any:
    """A result as the caller sees it: without a graph, unless something outside is in it."""
    if not isinstance(out, Tensor) or not out.requires_grad:
        return out
    _, record = run.walk([out])
    return out if record else out.detach()


def _outer_tree(tree: Any, run: _Run) -> Any:
    leaves, structure = flatten(tree)
    return structure.unflatten([_outer(x, run) for x in leaves])


def grad(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of f, which gives one number; see `value_and_grad`.

    >>> import chainrule as cr
    >>> cr.grad(lambda x: x**3)(2.0)
    tensor(12., dtype=float32)
    >>> cr.grad(lambda z: z**2, holomorphic=True)(1 + 2j)
    tensor(2.+4.j, dtype=complex64)
    """
    both = value_and_grad(f, argnums, has_aux=has_aux, holomorphic=holomorphic)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, bars = both(*args, **kwargs)
        return (bars, value[1]) if has_aux else bars

    return _set_name(gradient, f, "grad")


def vjp(f: Callable[..., Any], *xs: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(f(*xs), pull), where pull(g) gives, for a cotangent g of the result, those of all xs.

    >>> y, pull = cr.vjp(lambda x: x**2, cr.tensor([1.0, 3.0]))
    >>> pull(cr.tensor([1.0, 1.0]))
    (tensor([2., 6.], dtype=float32),)
    """
    run = _Run(f, tuple(range(len(xs))), xs, {})
    outs, structure = run.outputs(run.result)

    def pull(g: Any) -> Any:
        return run.pull(outs, _matching(g, outs, structure, "cotangent"))

    return structure.unflatten([_outer(o, run) for o in outs]), pull


def _matching(tree: Any, like: Sequence[Any], structure: Structure, what: str) -> list[Any]:
    """The leaves of a tree of cotangents or tangents, checked and in the dtypes of `like`."""
    leaves, its = flatten(tree)
    if its != structure:
        raise ShapeError(f"the {what} has the structure {its}, needed is {structure}")
    out: list[Any] = []
    for t, x in zip(leaves, like, strict=True):
        t = asarray(t)
        if t.shape != x.shape:
            raise ShapeError(f"the {what} has shape {t.shape}, needed is {x.shape}")
        out.append(t.astype(x.dtype))
    return out


def _check_tuples(asked: str, **given: Any) -> None:
    """Raise where what is to be a tuple with an entry for each argument is an argument itself."""
    for what, xs in given.items():
        if not isinstance(xs, tuple | list):
            raise DtypeError(
                f"{asked}: {what} is a tuple with an entry for each argument of f, not "
                f"{type(xs).__name__}: write {what}=(x,)"
            )


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(*primals), its directional derivative along `tangents`).

    Both are tuples, with an entry for each argument of f. Raises `DtypeError` for anything else.

    >>> cr.jvp(lambda x: x**2, (cr.tensor(3.0),), (cr.tensor(1.0),))
    (tensor(9., dtype=float32), tensor(6., dtype=float32))
    """
    _check_tuples("jvp", primals=primals, tangents=tangents)
    run = _Run(f, tuple(range(len(primals))), primals, {})
    ts = _matching(list(tangents), run.aliases, run.structure, "tangent")
    outs, structure = run.outputs(run.result)
    dots = run.push(outs, ts)
    return structure.unflatten([_outer(o, run) for o in outs]), structure.unflatten(dots)


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The Hessian of f, which gives one number, times `tangents`: a tuple like `primals`.

    Both are tuples, with an entry for each argument of f. Raises `DtypeError` for anything else.

    >>> cr.hvp(lambda x: cr.sum(x**3), (cr.tensor([1.0, 2.0]),), (cr.tensor([1.0, 0.0]),))
    (tensor([6., 0.], dtype=float32),)
    """
    _check_tuples("hvp", primals=primals, tangents=tangents)
    every = tuple(range(len(primals)))
    return jvp(grad(f, every), primals, tangents)[1]


def _set_name(wrapper: Any, f: Callable[..., Any], what: str) -> Any:
    name = getattr(f, "__name__", type(f).__name__)
    wrapper.__name__ = wrapper.__qualname__ = f"{what}({name})"
    wrapper.__doc__ = f"The {what} of {name}."
    return wrapper


def no_grad(f: Callable[..., Any] | None = None) -> Any:
    """Within `with no_grad():` (or on a function, `@no_grad()`) nothing is recorded.

    >>> x = cr.tensor(2.0, requires_grad=True)
    >>> with cr.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """
    return recording(False) if f is None else recording(False)(f)


def enable_grad(f: Callable[..., Any] | None = None) -> Any:
    """Within `with enable_grad():` ops are recorded again, inside a `no_grad`.

    >>> x = cr.tensor(2.0, requires_grad=True)
    >>> with cr.no_grad(), cr.enable_grad():
    ...     y = x * x
    >>> y.requires_grad
    True
    """
    return recording(True) if f is None else recording(True)(f)


def op_by_op() -> Any:
    """Within `with op_by_op():` (or on a function, `@op_by_op()`) composites run op by op.

    Elsewhere softmax, norms, activations, losses and recurrent steps on at least 64 elements of
    float32 or float64 run as one compiled kernel for the value and one for the gradient. That is
    several times faster, equal to rounding, and one op in the graph, which keeps its inputs only.
    So do ops whose value is no
    function of NumPy's, and such slopes of others. Which calls do depends on shapes
    and dtypes alone. Kernels are for all sizes; each is compiled once on a machine, in 0.1 to 0.4
    seconds, and then found on disk, which costs a process 0.02 seconds once. With
    CHAINRULE_OP_BY_OP=1 in the environment no call does.

    >>> with cr.op_by_op():
    ...     y = cr.softmax(cr.tensor([0.0, 0.0], requires_grad=True))
    >>> y
    tensor([0.5, 0.5], dtype=float32, made by exp_diff)
    """
    return fusing(False)
