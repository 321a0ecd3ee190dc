"""Pictures of tensor graphs. A graph keeps only the values that a rule reads; the others are found.

A value is known if the user named its tensor, if its op or an op that uses it kept it, or if it can
be computed again from known ones. Gradients are those that `backward` left; where it has not run,
they are computed for the picture, and nothing is stored.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast, final

import numpy as np

from chainrule.arrays import holds_numbers
from chainrule.derive import pullback_nodes
from chainrule.dtypes import INEXACT
from chainrule.graph import order, recording
from chainrule.node import Freed, Node, Variable
from chainrule.op import Spec
from chainrule.show.picture import Constant, Facts, Source, number
from chainrule.source_text import short_line
from chainrule.tensors import Tensor, asarray
from chainrule.tree import flatten

SMALL = 6
"""Up to this many elements a tensor is written out; above, it is summarised."""


@final
class TensorSource(Source):
    """The graph of the tensor `root`. `tensors` are those that the user named, whose values are
    thereby known. With `held`, gradients that `backward` left are shown if there are any."""

    def __init__(self, root: Tensor, tensors: Iterable[Any] = (), *, held: bool = True) -> None:
        self._y = root
        self._root: Any = Constant(root.value) if root.node is None else root.node
        self._held = held
        self._inputs: dict[Any, tuple[Any, ...]] = {}
        self._grads: dict[Any, Any] = {}
        self._values: dict[Any, Any] = {}
        for x in (*tensors, root):
            if isinstance(x, Variable) and x.node is not None and not isinstance(x.value, Spec):
                self._values[x.node] = x.value

    @property
    def root(self) -> Any:
        """The node of the tensor."""
        return self._root

    @property
    def hint(self) -> str:
        """How to see everything."""
        if self._held:
            return "–: not kept. Name the inputs, or let show.graph(f, *args) run the function"
        return "–: not kept. Name the tensors that the function uses"

    def key(self, x: Any) -> Any:
        """The tensor's node."""
        return x.node if isinstance(x, Variable) else None

    def inputs(self, node: Any) -> Sequence[Any]:
        """Nodes, and constants in the places of inputs without one."""
        if isinstance(node, Constant):
            return ()
        got = self._inputs.get(node)
        if got is None:
            xs = (None,) * len(node.inputs) if isinstance(node.xs, Freed) else node.xs
            got = tuple(
                [Constant(x) if n is None else n for n, x in zip(node.inputs, xs, strict=True)]
            )
            self._inputs[node] = got
        return got

    def observe(self, nodes: Sequence[Any]) -> None:
        """Collect what was kept, compute again what was not, and find the gradients."""
        known = [n for n in nodes if isinstance(n, Node)]
        for node in known:
            if _is_array(node.y):
                self._values[node] = node.y
            if not isinstance(node.xs, Freed):
                for n, x in zip(node.inputs, node.xs, strict=True):
                    if n is not None and _is_array(x):
                        self._values[n] = x
        wanted = set(known)
        walk = order([self._root]) if isinstance(self._root, Node) and self._root.needs else []
        for node in reversed(walk):
            if node in wanted and node not in self._values:
                self._compute(node)
        self._grads = self._gradients(walk, wanted)

    def _compute(self, node: Node) -> None:
        """The value of a node whose inputs are all known."""
        if node.op is None or node.op.many:
            return
        xs = [
            n.value if isinstance(n, Constant) else self._values.get(n) for n in self.inputs(node)
        ]
        if all(x is not None and not isinstance(x, Spec) for x in xs):
            with recording(False), np.errstate(all="ignore"):
                self._values[node] = np.asarray(node.op.eval(*xs))

    def _gradients(self, walk: Sequence[Node], wanted: set[Node]) -> dict[Node, Any]:
        """By node: what backward left if it ran, otherwise what it would bring."""
        held = {
            n: n.extra.grad.value for n in walk if n.extra is not None and n.extra.grad is not None
        }
        freed = any(isinstance(n.xs, Freed) for n in walk)
        if (held and self._held) or freed or not walk or isinstance(self._y.value, Spec):
            return held
        seed = np.ones(self._y.shape, self._y.dtype)
        return pullback_nodes(walk, {walk[0]: seed}, wanted, record=False, free=False)

    def facts(self, node: Any, label: str) -> Facts:
        """Value, gradient, dtype and shape, op, label and line."""
        if isinstance(node, Constant):
            return Facts("constant", "constant", label, _type(node.value), summary(node.value))
        grad = self._grads.get(node)
        leaf = node.op is None
        return Facts(
            kind="input" if leaf else "op",
            op="input" if leaf else node.op.name,
            label=label,
            type=_type(node),
            value=summary(self._values.get(node)),
            grad=summary(grad),
            size=_size(grad),
            line=short_line(node.where),
        )


def observed(f: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, list[tuple[str, Any]]]:
    """Run `f` on tensors that require gradients in place of the floats, arrays and tensors in
    `args` (which may be nested); its result, and what it was run on by name.

    Anything else in the arguments is passed on as it is. The result is a tensor or a scalar.
    """
    leaves, structure = flatten(list(args))
    inputs = [_as_input(x) for x in leaves]
    with recording(True):
        y = f(*structure.unflatten(inputs))
    return y, list(zip(_leaf_names(f, args), inputs, strict=True))


def _leaf_names(f: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """A name for each leaf of the arguments: its parameter's, numbered where it has several."""
    out: list[str] = []
    for name, arg in zip(_parameters(f, len(args)), args, strict=True):
        count = len(flatten(arg)[0])
        out += [name] if count == 1 else [f"{name}.{k}" for k in range(count)]
    return out


def _parameters(f: Callable[..., Any], count: int) -> list[str]:
    """Names for `count` positional arguments of `f`."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
        parameters = []
    names: list[str] = []
    for i in range(count):
        p = parameters[min(i, len(parameters) - 1)] if parameters else None
        single = p is not None and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        names.append(p.name if p is not None and single else f"argument {i}")
    return names


def _as_input(x: Any) -> Any:
    if not isinstance(x, float | np.ndarray | np.generic | Tensor):
        return x
    value = asarray(x)
    return Tensor(value.value, None, requires_grad=value.dtype.kind in INEXACT)


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray)


def _type(x: Any) -> str:
    """`float32 (3, 4)`; nothing for one number, whose value says enough."""
    if isinstance(getattr(x, "dtype", None), tuple):
        return f"{len(x.dtype)} outputs"
    shape = getattr(x, "shape", ())
    return f"{x.dtype} {tuple(shape)}" if shape else ""


def _size(grad: Any) -> float | None:
    if grad is None or isinstance(grad, tuple) or np.size(grad) == 0:
        return None
    return float(np.max(np.abs(grad)))


def summary(x: Any) -> str:
    """A value in one line: written out if it is small, otherwise mean, deviation and range.

    >>> summary(np.array([[1.0, 2.5]]))
    '[[1, 2.5]]'
    """
    if x is None or isinstance(x, Spec | Node | tuple):
        return ""
    array = np.asarray(x)
    if not holds_numbers(array.dtype):
        return str(x)
    if array.ndim == 0:
        return number(array.item())
    if array.size == 0:
        return "empty"
    if array.size <= SMALL:
        return _nested(array.tolist())
    if array.dtype.kind in "bc":
        return f"{array.size:,} elements"
    return _statistics(array.astype(np.float64).ravel())


def _nested(x: Any) -> str:
    if not isinstance(x, list):
        return number(x)
    return f"[{', '.join([_nested(e) for e in cast(list[Any], x)])}]"


def _statistics(x: Any) -> str:
    """`0.1 ± 1, −3 … 3`, of the finite elements, and how many are not."""
    finite = x[np.isfinite(x)]
    bad = f"{len(x) - len(finite):,} not finite"
    if not len(finite):
        return bad
    with np.errstate(over="ignore"):
        mean, deviation, low, high = finite.mean(), finite.std(), finite.min(), finite.max()
    spread = f"{mean:.3g} ± {deviation:.2g}, {low:.3g} … {high:.3g}"
    text = (spread if low < high else f"all {low:.5g}").replace("-", "−")
    return text if len(finite) == len(x) else f"{text}, {bad}"
