"""PyTorch's ops as events, while their results can still be looked at.

Every op that a program calls by name or operator is seen, with the user's line on the stack; but
not where a backward pass or an optimizer runs, nor where a model without gradients is evaluated:
PyTorch chooses other kernels there when somebody looks on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, cast, final

import torch
from torch import Tensor

from chainrule.verify.pytorch.door import Call, Onlooker, look, look_away
from chainrule.verify.pytorch.nested_tensors import tensors_in
from chainrule.verify.training.record import op_events, op_names
from chainrule.verify.training.record.bus import Bus, Tap
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.record.op_names import LossInput, Maker, Selected
from chainrule.verify.training.record.torch_engine import TorchEngine, is_abstract
from chainrule.verify.training.record.torch_loop import TorchTap
from chainrule.verify.user_frames import here

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
    if not isinstance(x, Tensor) or name not in op_names.EXPECT:
        return
    is_second = name in op_names.LOSSES and len(call.args) > 1
    target = call.args[1] if is_second else call.kwargs.get("target")
    node = _node(y)
    key = 0 if node is None else node._sequence_nr()
    say(LossInput(engine, name, x, maker(x), key, target, call.kwargs))


def _node(x: Any) -> Any:
    """The node that made a tensor; None for a leaf, and for what is no tensor."""
    return getattr(x, "grad_fn", None)


def _select(engine: Engine, call: Call, say: Callable[[Any], None]) -> None:
    """Tell that values of a softmax are selected: by a mask, by an index, by `gather`."""
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


_FED = op_names.EXPECT | SELECT
_WIDE = (torch.float32, torch.float64)
_OF_TWO = frozenset({"copy_", "sub", "__sub__", "rsub"})
"""Ops that do nothing, or give 0, if both tensors are the same memory."""


@final
class _Ops(Onlooker):
    """Makes events of calls."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._engine = TorchEngine()

    def saw(self, call: Call) -> None:
        """Tell of the op, if it is not an ordinary one."""
        bus = self._bus
        bus.ops += 1
        try:
            if is_abstract(torch):
                return
            if call.kind.name in _FED and bus.hears(LossInput):
                tell(self._engine, call, bus.tell)
            if call.kind.writes and bus.hears(op_events.Written):
                self._on_change(call)
            if call.kind.name in op_names.SEQUENCES and bus.hears(op_events.Called):
                self._on_sequence(call)
            if call.kind.name in op_names.RELUS and bus.hears(op_events.Activated):
                self._on_activation(call)
            elif call.kind.name in op_names.COMPARE:
                self._on_comparison(call)
            if call.kind.name in _OF_TWO and bus.hears(op_events.Coincided):
                self._on_pair(call)
            if not bus.attentive and (
                _is_ordinary(call) or (not bus.following and _is_apart(call))
            ):
                return
            if bus.hears(op_events.OpRan):
                bus.tell(
                    op_events.OpRan(
                        self._engine, call.kind.name, call.args, call.kwargs, call.y, call.made,
                        call.total, call.since,
                    )
                )  # fmt: skip
        except Exception as error:
            note = "ops", f"an error of the verifier: {type(error).__name__}: {error}"
            if note not in bus.notes:
                bus.notes.append(note)

    def _on_activation(self, call: Call) -> None:
        if call.args and call.y.__class__ is Tensor and call.y.requires_grad:
            engine, name = self._engine, call.kind.name
            self._bus.tell(op_events.Activated(engine, name, call.args[0], call.y))

    def _on_change(self, call: Call) -> None:
        x = call.args[0] if call.args else None
        if isinstance(x, Tensor) and not x.requires_grad:
            self._bus.tell(op_events.Written(x.data_ptr()))

    def _on_sequence(self, call: Call) -> None:
        if call.args and call.made and call.made[0].requires_grad:
            name, args = call.kind.name, call.args
            self._bus.tell(op_events.Called(self._engine, name, args, call.kwargs, call.y))

    def _on_pair(self, call: Call) -> None:
        a, b = call.args[:2] if len(call.args) > 1 else (None, None)
        if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a is b or _node(call.y):
            return
        where, other = ((x.data_ptr(), x.shape, x.stride()) for x in (a, b))
        if where == other and where[0]:
            self._bus.tell(op_events.Coincided(call.kind.name, where[0], here()))

    def _on_comparison(self, call: Call) -> None:
        """Nearly always both have one shape."""
        a, b = call.args[:2] if len(call.args) > 1 else (*call.args, call.kwargs.get("target"))
        if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.shape == b.shape:
            return
        event = op_events.Compared.of(call.kind.name, a, b, call.y)
        if event is not None:
            self._bus.tell(event)


def _is_ordinary(call: Call) -> bool:
    """Whether a call's results have a graph and are finite in a wide dtype, and its rule makes
    finite gradients of finite ones."""
    name = call.kind.name
    known = name in op_names.VIEWS
    if not (known or name in op_names.TAME):
        return False
    known = known or (name in op_names.BOUNDED and _is_made(call.args))
    for i, y in enumerate(call.made):
        if y.dtype not in _WIDE or not y.requires_grad:
            return False
        if not known:
            total = call.total(i)
            if total is None or not math.isfinite(total):
                return False
    return bool(call.made)


def _is_apart(call: Call) -> bool:
    """Whether nothing in a call has a graph, or loses one, and its results are finite."""
    if call.kind.writes or any(t.requires_grad for t in tensors_in((call.args, call.kwargs))):
        return False
    for i, y in enumerate(call.made):
        if y.requires_grad or y.is_complex():
            return False
        if y.is_floating_point():
            total = call.total(i)
            if total is None or not math.isfinite(total):
                return False
    return True


def _is_made(args: Sequence[Any]) -> bool:
    """Whether the first argument is a result with a graph: it was looked at when it was made."""
    return bool(args) and isinstance(args[0], Tensor) and args[0].grad_fn is not None


@final
class OpTap(Tap):
    """Puts events of ops on the bus."""

    def __init__(self, main: TorchTap) -> None:
        self._main = main
        self.looks = False
        self._quiet: list[Any] = []  # modules whose call has switched us off

    def put(self, bus: Bus) -> None:
        """Begin to look."""
        self._ops, self._thread = _Ops(bus), get_ident()
        self._look()
        self._main.ops = self

    def take(self) -> None:
        """Look no more."""
        self.leave()

    def _look(self) -> None:
        look(self._ops)
        self.looks = True

    def _look_away(self) -> bool:
        self.looks = False
        return look_away(self._ops)

    def leave(self) -> None:
        """See no more."""
        self._look_away()
        self._main.ops = None
        self._quiet.clear()

    def _is_here(self) -> bool:
        """Whether this is the thread in which we look; others have a door of their own."""
        return get_ident() == self._thread

    def enters(self, module: Any) -> None:
        """See nothing of a call that trains nothing."""
        if self._quiet:
            return
        untrained = is_abstract(torch) or self._is_untrained(module)
        if untrained and self._is_here() and self._look_away():
            self._quiet.append(module)

    def _is_untrained(self, module: Any) -> bool:
        """Whether nothing is trained in this call, so that PyTorch may choose faster ways."""
        if not torch.is_grad_enabled():
            return True
        return not module.training and not any(p.requires_grad for p in module.parameters())

    def leaves(self, module: Any) -> None:
        """That call is over."""
        if self._quiet and self._quiet[-1] is module and self._is_here():
            self._quiet.pop()
            self._look()
