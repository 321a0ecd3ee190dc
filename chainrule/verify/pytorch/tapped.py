"""Each use of a tensor by an op, noted and given an alias of its own.

The gradient that flows back over an alias is multiplied by the weight of its edge: that is all that
it takes to ask what the gradient would be if one path were forgotten, negated or counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from chainrule.verify import where
from chainrule.verify.place import Place
from chainrule.verify.pytorch.definitions import definition
from chainrule.verify.pytorch.seen import Seen
from chainrule.verify.subject import Edge

_TENSOR: Any = Tensor
_CUTS: tuple[Any, ...] = (Tensor.detach, _TENSOR.data.__get__, torch.detach)
"""Inside a `Function` there is no graph to cut: these are the identity."""
_REFUSED: tuple[Any, ...] = (*(_TENSOR.item, _TENSOR.tolist, _TENSOR.numpy, _TENSOR.__array__),)
_MAX_EDGES = 2000


class UntraceableError(Exception):
    """The forward does what leaves the graph."""


class Tapped(Seen):
    """While active: ops are recorded as `edges`; `weights` holds those that are not 1."""

    def __init__(self, inputs: list[Tensor | None]) -> None:
        super().__init__()
        self.edges: list[Edge] = []
        self.weights: dict[int, float] = {}
        self._reached: dict[int, frozenset[int]] = {}
        self._kept: list[Tensor] = []
        for i, x in enumerate(inputs):
            if x is not None:
                self._note(x, frozenset([i]))

    def called(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The call, its uses of tensors noted."""
        live = [x for x in _tensors((args, kwargs)) if x.requires_grad]
        if not live:
            return func(*args, **kwargs)
        if func in _REFUSED or "out" in kwargs:
            raise UntraceableError(op_name(func))
        if func in _CUTS:
            return args[0]
        written = definition(func, args, kwargs)
        if written is not None:
            with self:
                return written()
        return self._run(func, args, kwargs, live)

    def _run(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], live: list[Tensor]
    ) -> Any:
        name = op_name(func)
        own = args[0] if _in_place(func) and args else None
        first = len(self.edges)
        place, settings, seen = where.place(), _settings(args, kwargs), [-1]

        def tap(x: Tensor) -> Tensor:
            seen[0] += 1
            return x if x is own or not x.requires_grad else self._alias(x, name, place, seen[0])

        with torch.enable_grad():
            given: Any = pytree.tree_map_only(Tensor, tap, (args, kwargs))
            out = func(*given[0], **given[1])
        results = [y for y in _tensors((out, own)) if y.requires_grad]
        if not results:
            del self.edges[first:]
            return out
        self.edges[first:] = [_with(e, settings) for e in self.edges[first:]]
        reach = frozenset[int]().union(*[self._reached.get(id(x), frozenset()) for x in live])
        for y in results:
            self._note(y, reach)
        return out

    def _alias(self, x: Tensor, name: str, place: Place | None, argument: int) -> Tensor:
        number = len(self.edges)
        if number >= _MAX_EDGES:
            raise UntraceableError(f"more than {_MAX_EDGES} uses of tensors")
        reach = self._reached.get(id(x), frozenset())
        self.edges.append(Edge(name, argument, place, reach))
        alias = x.view_as(x)
        hook: Callable[[Tensor], Tensor | None] = lambda g: self._weighted(g, number)
        alias.register_hook(hook)  # pyright: ignore[reportUnknownMemberType]
        self._note(alias, reach)
        return alias

    def _weighted(self, g: Tensor, edge: int) -> Tensor | None:
        weight = self.weights.get(edge)
        return None if weight is None else g * weight

    def _note(self, x: Tensor, reach: frozenset[int]) -> None:
        self._reached[id(x)] = reach | self._reached.get(id(x), frozenset())
        self._kept.append(x)

    @contextmanager
    def weighted(self, weights: dict[int, float]) -> Generator[None]:
        """Inside, gradients over these edges are multiplied."""
        self.weights = weights
        try:
            yield
        finally:
            self.weights = {}


def op_name(func: Any) -> str:
    """The name of an op without its spelling: "mul" for `a * b`, "T" for `a.T`.

    >>> op_name(Tensor.__mul__), op_name(Tensor.__imul__), op_name(Tensor.T.__get__)
    ('mul', 'mul', 'T')
    """
    name: str = getattr(func, "__name__", str(func))
    if name == "__get__":
        return str(func.__self__.__name__)
    bare = name.strip("_")
    if name.startswith("__i") and bare not in ("invert", "iter", "index", "int"):
        return bare[1:]
    if name.startswith("__r") and bare not in ("repr", "rshift"):
        return bare[1:]
    return bare


def _in_place(func: Any) -> bool:
    name: str = getattr(func, "__name__", "")
    inplace = name.endswith("_") and not name.endswith("__")
    augmented = name.startswith("__i") and op_name(func) != name.strip("_")
    return inplace or augmented or name in ("__setitem__", "__set__")


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, Tensor)]


def _with(edge: Edge, settings: str) -> Edge:
    return Edge(edge.op, edge.argument, edge.place, edge.inputs, settings)


def _settings(args: Any, kwargs: dict[str, Any]) -> str:
    said = [repr(x) for x in args if _plain(x)]
    said += [f"{k}={v!r}" for k, v in kwargs.items() if _plain(v)]
    return ", ".join(said)[:120]


def _plain(x: Any) -> bool:
    return not _tensors(x) and isinstance(x, bool | int | float | str | tuple | list | None)
