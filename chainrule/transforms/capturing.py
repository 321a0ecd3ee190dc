"""capture: every gradient that a backward pass makes on its way, by module and by line.

Cotangents are seen as the rules get them; a module owns the ops that ran during its calls, which
their serial numbers tell. So nothing is recorded per op, and nothing is kept but the gradients.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, final

import numpy as np

from chainrule.engine import watch
from chainrule.engine.derive import pullback_nodes
from chainrule.engine.graph import Node, Variable, leaf, order
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, GradientError
from chainrule.nn.base import hooks
from chainrule.nn.base.module import Module
from chainrule.ops.families import conj


@dataclass(frozen=True)
class Gradient:
    """The gradient of one intermediate value: an op's output, or one of its outputs."""

    op: str
    where: str
    """`file:line` of the user's line that made the value."""
    module: str
    """Name of the innermost module that made it; '' outside of all, `GPT` for the outermost."""
    value: Array
    """Of the shape and dtype of the value that it belongs to."""

    @property
    def norm(self) -> float:
        """The Euclidean length of `value`, in float64."""
        return _length([self])


@final
class capture:  # noqa: N801 (it is used like a function)
    """All intermediate gradients of `loss`, or of the backward passes within `with capture() as c`.

    `capture(loss)` goes through the graph of `loss`, one number, and leaves graph and `.grad` as
    they are. It knows lines; modules only if the forward pass ran within another capture. In the
    form `with` everything that runs back within it is captured. `by_module` and `by_line` are dicts
    of lists of `Gradient`, in the order of the forward pass; `table()` is what `print` shows.
    Gradients of parameters are not intermediate: they are in `.grad`.

    >>> x = cr.tensor([1.0, -2.0], requires_grad=True)
    >>> found = cr.capture(cr.sum(cr.tanh(x) ** 2))
    >>> [len(lines) for lines in found.by_line.values()]
    [3]
    """

    def __init__(self, loss: Tensor | None = None) -> None:
        self._raw: list[tuple[Node, Array]] = []
        self._calls = _Calls()
        self._exit = ExitStack()
        if loss is not None:
            self._pull(loss)

    def _pull(self, loss: Tensor) -> None:
        if loss.size != 1:
            raise GradientError(f"capture: loss is one number, this has shape {loss.shape}: sum it")
        if loss.node is None or not loss.node.needs:
            raise GradientError("capture: this loss does not depend on anything with a gradient")
        seed = np.ones(loss.shape, loss.dtype)
        with watch.watching(watch.Watch(on_vjp=self._on_vjp)):
            pullback_nodes(order([loss.node]), {loss.node: seed}, None, record=False, free=False)

    def __enter__(self) -> Self:
        self._exit.enter_context(watch.watching(watch.Watch(on_vjp=self._on_vjp)))
        self._exit.enter_context(hooks.watching(self._calls.during))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exit.close()

    def _on_vjp(self, node: Node, g: Any, bars: Sequence[Any], alarm: bool) -> None:
        """Note a cotangent that arrived; an op with several outputs has them one by one."""
        if g is not None and not isinstance(g, tuple):
            self._raw.append((node, conj(g.value if isinstance(g, Variable) else g)))

    @property
    def gradients(self) -> list[Gradient]:
        """All of them, in the order in which their values were made."""
        rows = sorted(self._raw, key=lambda row: row[0].serial)
        return [Gradient(n.name, n.where, self._calls.owner(n.serial), g) for n, g in rows]

    @property
    def by_module(self) -> dict[str, list[Gradient]]:
        """By the name of the module, as in `named_modules` of the outermost one."""
        return _group_by(self.gradients, lambda g: g.module)

    @property
    def by_line(self) -> dict[str, list[Gradient]]:
        """By the user's line, `file:line`."""
        return _group_by(self.gradients, lambda g: g.where)

    def table(self, by: str = "module") -> str:
        """One row for each module, line or op. It says how many gradients there are, their length
        together, the largest element, the share of zeros, and how many elements are infinite or
        NaN."""
        if by not in ("module", "where", "line", "op"):
            raise ConfigError(f"table: by is 'module', 'line' or 'op', not {by!r}")
        name = "where" if by == "line" else by
        groups = _group_by(self.gradients, lambda g: getattr(g, name))
        head = (by, "gradients", "norm", "largest", "zeros", "inf, nan")
        rows = [head, *[_row(label, group) for label, group in groups.items()]]
        wide = [max([len(row[i]) for row in rows]) for i in range(len(head))]
        return "\n".join([_line(row, wide) for row in rows])

    def __len__(self) -> int:
        return len(self._raw)

    def __str__(self) -> str:
        return self.table()


def _group_by(
    gradients: Sequence[Gradient], key: Callable[[Gradient], str]
) -> dict[str, list[Gradient]]:
    groups: dict[str, list[Gradient]] = {}
    for gradient in gradients:
        groups.setdefault(key(gradient), []).append(gradient)
    return groups


def _row(label: str, group: Sequence[Gradient]) -> tuple[str, ...]:
    size = sum([g.value.size for g in group])
    zeros = size - sum([int(np.count_nonzero(g.value)) for g in group])
    bad = size - sum([int(np.count_nonzero(np.isfinite(g.value))) for g in group])
    with np.errstate(all="ignore"):
        largest = max([float(np.max(np.abs(g.value), initial=0)) for g in group])
    share = f"{zeros / size:.0%}" if size else "-"
    return (
        label or "(outside)", str(len(group)), f"{_length(group):.3g}", f"{largest:.3g}", share,
        str(bad),
    )  # fmt: skip


def _line(row: Sequence[str], wide: Sequence[int]) -> str:
    first, *rest = row
    numbers = [f"{text:>{n}}" for text, n in zip(rest, wide[1:], strict=True)]
    return "  ".join([f"{first:<{wide[0]}}", *numbers])


def _length(group: Sequence[Gradient]) -> float:
    with np.errstate(all="ignore"):
        squares = [np.sum(np.square(np.abs(g.value).astype(np.float64))) for g in group]
    return float(np.sqrt(sum(squares)))


# --- Which module made what ----------------------------------------------------------------------


@dataclass
class _Calls:
    """Who runs from which serial number on: the innermost module that is being called."""

    names: dict[int, str] = field(default_factory=dict[int, str])
    stack: list[str] = field(default_factory=list[str])
    starts: list[int] = field(default_factory=list[int])
    owners: list[str] = field(default_factory=list[str])

    @contextmanager
    def during(self, module: Module) -> Generator[None]:
        """A call of `module`."""
        if not self.stack:
            self._name(module)
        self.stack.append(self.names.get(id(module), type(module).__name__))
        self._switch()
        try:
            yield
        finally:
            self.stack.pop()
            self._switch()

    def _name(self, root: Module) -> None:
        """Names for a module that is called from outside, and for all below it, the first time."""
        for name, module in root.named_modules():
            self.names.setdefault(id(module), name or type(root).__name__)

    def _switch(self) -> None:
        self.starts.append(leaf((), np.dtype(float), needs=False).serial)
        self.owners.append(self.stack[-1] if self.stack else "")

    def owner(self, serial: int) -> str:
        """The module that made the node with this serial number, '' if none did."""
        at = bisect_right(self.starts, serial)
        return self.owners[at - 1] if at else ""
