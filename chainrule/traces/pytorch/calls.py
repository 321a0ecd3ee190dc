"""Which call of PyTorch's made a node of its autograd graph, and what it was applied to.

Autograd numbers its nodes, and makes a node before its call runs. So the number of the last node,
as seen from within a call, is that of the node which the call makes, if it makes one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

_core: Any = torch._C  # pyright: ignore[reportPrivateUsage]
_next_number: Callable[[], int] = _core._autograd._get_sequence_nr
_OPERANDS = {"Tensor", "Optional[Tensor]", "number", "List[Tensor]", "List[Optional[Tensor]]"}
"""Types of arguments that are numbers to compute with; all others are settings."""


@final
@dataclass(frozen=True, eq=False, slots=True)
class Operand:
    """A tensor or a number that a call computed with: where it stands among the flat arguments, the
    thing itself, what it was then, and the output of a node that it is."""

    at: int
    given: Any
    value: Any
    """A copy; None where it is too large."""
    node: Any = None
    output: int = 0

    def is_of(self, node: Any, output: int) -> bool:
        """Whether it is this output of this node; a leaf's node keeps the leaf."""
        variable = getattr(node, "variable", None)
        if variable is not None:
            return self.given is variable
        return self.node is node and self.output == output


@final
@dataclass(frozen=True, eq=False, slots=True)
class TorchCall:
    """A function of PyTorch's (aten's) that ran: `function(*args, **kwargs)`, flattened."""

    function: Any
    flat: Sequence[Any]
    spec: Any
    operands: Sequence[Operand]
    results: list[Any] = field(default_factory=list[Any])

    @property
    def name(self) -> str:
        """`add` for aten.add_.Tensor, `layer_norm` for aten.native_layer_norm.default."""
        name = str(self.function.overloadpacket.__name__).strip("_")
        return name.removeprefix("native_").removesuffix("_forward")

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that were given by keyword."""
        return pytree.tree_unflatten(list(self.flat), self.spec)[1]

    @property
    def is_whole(self) -> bool:
        """Whether all operands were kept."""
        return all(x.value is not None for x in self.operands)

    @property
    def bytes(self) -> int:
        """Of the narrowest number that it computed with, or gave."""
        return bytes_of([*[x.given for x in self.operands], *self.results])

    def run(self, values: Sequence[Any]) -> Any:
        """Its value with other operands."""
        flat = list(self.flat)
        for operand, value in zip(self.operands, values, strict=True):
            flat[operand.at] = value
        args, kwargs = pytree.tree_unflatten(flat, self.spec)
        return self.function(*args, **kwargs)


@final
class CallRecorder(TorchDispatchMode):
    """While it is entered, the calls that make nodes are kept by their numbers. `takes` says of a
    number of elements whether they are to be copied, `tell` is told of each result."""

    def __init__(self, takes: Callable[[int], bool], tell: Callable[[int], None]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._takes, self._tell = takes, tell
        self._calls: dict[int, TorchCall] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        number = _next_number() - 1
        known = None
        if torch.is_grad_enabled() and number not in self._calls:
            flat, spec = pytree.tree_flatten((args, kwargs or {}))
            if any(isinstance(x, torch.Tensor) and x.requires_grad for x in flat):
                operands = self._operands(func, args)
                self._calls[number] = known = TorchCall(func, flat, spec, operands)
                self._tell(number)
        result = func(*args, **(kwargs or {}))
        if known is not None:
            known.results.extend([self._copy(y) for y in as_list(result) if is_float(y)])
        return result

    def of(self, node: Any) -> TorchCall | None:
        """The call that made a node; None where another one was not told apart from it."""
        call = self._calls.get(number_of(node))
        if call is None or is_python_function(node):
            return None
        edges = [(n, k) for n, k in node.next_functions if n is not None]
        fits = all(any(x.is_of(n, k) for x in call.operands) for n, k in edges)
        return call if fits else None

    def _operands(self, func: Any, args: Sequence[Any]) -> list[Operand]:
        found: list[Operand] = []
        at = 0
        for arg, stated in zip(args, func._schema.arguments, strict=False):
            for x in pytree.tree_leaves(arg):
                number = isinstance(x, int | float) and not isinstance(x, bool)
                if str(stated.type) in _OPERANDS and (isinstance(x, torch.Tensor) or number):
                    found.append(self._operand(at, x))
                at += 1
        return found

    def _operand(self, at: int, x: Any) -> Operand:
        if not isinstance(x, torch.Tensor):
            return Operand(at, x, x)
        return Operand(at, x, self._copy(x), x.grad_fn, x.output_nr)

    def _copy(self, x: Any) -> Any:
        if not self._takes(x.numel()):
            return None
        return x.detach().clone().requires_grad_(x.requires_grad)


def number_of(node: Any) -> int:
    """A node's number in the order in which nodes were made."""
    return int(node._sequence_nr())


def is_python_function(node: Any) -> bool:
    """Whether a node is a call of a function that is written in Python."""
    return isinstance(node, torch.autograd.function.BackwardCFunction)


def is_float(x: Any) -> bool:
    """Whether `x` is a tensor that may have a gradient."""
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


def bytes_of(xs: Sequence[Any]) -> int:
    """Of a number of the narrowest tensor of floats among these; 8 where there is none."""
    return min([x.element_size() // (2 if x.is_complex() else 1) for x in xs if is_float(x)],
               default=8)  # fmt: skip


def as_list(x: Any) -> list[Any]:
    """The elements of a tuple or a list; anything else alone."""
    return [*x] if isinstance(x, tuple | list) else [x]
