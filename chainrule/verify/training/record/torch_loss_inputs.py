"""Which PyTorch op has made a value, by the graph; and events of ops that expect a domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from torch import Tensor

from chainrule.verify.pytorch.door import Call
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.record.loss_inputs import LOSSES, SQUASH, LossInput, Maker, Selected

SELECT = frozenset({"mul", "__mul__", "__rmul__", "gather", "__getitem__"})
"""Ops that may choose among probabilities."""
_OPS = {
    "SoftmaxBackward0": "softmax", "LogSoftmaxBackward0": "log_softmax",
    "SigmoidBackward0": "sigmoid", "LogSigmoidBackward0": "logsigmoid", "ExpBackward0": "exp",
    "SoftplusBackward0": "softplus", "LogBackward0": "log",
}  # fmt: skip
_VIEWS = frozenset(
    f"{name}Backward{n}"
    for name in (
        "View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Transpose", "T", "Permute",
        "Select", "Slice", "Index", "Clone", "Alias", "ToCopy", "Expand", "Split", "Chunk",
    )
    for n in (0, 1, 2)
)  # fmt: skip
_MOST = 12
"""Views that are looked through."""


def maker(x: Any) -> Maker:
    """The op that made a tensor, or that of which it is only a view."""
    node: Any = _node(x)
    for _ in range(_MOST):
        if node is None or node.name() not in _VIEWS or not node.next_functions:
            break
        node = node.next_functions[0][0]
    if node is None:
        return Maker("", 0)
    name: str = node.name()
    return Maker(_OPS.get(name, name), node._sequence_nr())


def tell(engine: Engine, call: Call, say: Callable[[Any], None]) -> None:
    """Tell of a call of one of these ops, if it has a graph."""
    y, name = call.y, call.kind.name
    if y.__class__ is not Tensor or not y.requires_grad or not call.args:
        return
    if name in SELECT:
        _select(engine, call, say)
        return
    x = call.args[0]
    if not isinstance(x, Tensor) or not (name in SQUASH or name in LOSSES):
        return
    target = call.args[1] if name in LOSSES and len(call.args) > 1 else call.kwargs.get("target")
    node = _node(y)
    key = 0 if node is None else node._sequence_nr()
    say(LossInput(engine, name, x, maker(x), key, target, call.kwargs))


def _node(x: Any) -> Any:
    """The node that made a tensor; None for a leaf, and for what is no tensor."""
    return getattr(x, "grad_fn", None)


def _select(engine: Engine, call: Call, say: Callable[[Any], None]) -> None:
    a: Any = call.args[0]
    b: Any = call.args[1] if len(call.args) > 1 else None
    if call.kind.name == "gather":
        b = call.kwargs.get("dim", b)
    for x, other in ((a, b), (b, a)):
        node = _node(x)
        if node is None or node.name() not in ("SoftmaxBackward0", "LogSoftmaxBackward0"):
            continue
        made = Maker(_OPS[node.name()], node._sequence_nr())
        over = _axis(node._saved_dim, x.ndim)
        if isinstance(other, Tensor) and "mul" in call.kind.name:
            if not other.requires_grad and other.shape == x.shape:
                say(Selected(engine, x, made, over, other, -1))
        elif call.kind.name == "gather" and isinstance(other, int):
            say(Selected(engine, x, made, over, None, other % x.ndim))
        elif (axis := _chosen(other, x.ndim)) is not None:
            say(Selected(engine, x, made, over, None, axis))
        return


def _axis(saved: int, ndim: int) -> int:
    """An axis that autograd keeps as a number without a sign."""
    return (saved - (1 << 64) if saved >= 1 << 63 else saved) % max(ndim, 1)


def _chosen(key: Any, ndim: int) -> int | None:
    """Of `logp[range(N), y]`: the axis of y, the one whose indices are not all, in their order."""
    if not isinstance(key, tuple) or ndim != 2:
        return None
    every = list(map(_counts_up, cast("tuple[Any, ...]", key)))
    if len(every) != 2:
        return None
    return every.index(False) if sum(every) == 1 else None


def _counts_up(k: Any) -> bool:
    if isinstance(k, range):
        return True
    if k.__class__ is not Tensor or k.ndim != 1 or k.numel() < 3 or k.is_floating_point():
        return False
    return k.tolist() == list(range(k.numel()))
