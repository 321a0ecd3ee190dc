"""chainrule's own training loop as events, by its seams.

What is compiled (`jit`) is not seen: it does not run in Python. While a step is traced its values
are not known, and nothing is told. Losses are known by the function that runs, ops by their nodes.
"""

from __future__ import annotations

import gc
import math
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import islice
from types import CodeType, FrameType
from typing import Any, final

import numpy as np

from chainrule.engine import watch
from chainrule.engine.graph import is_recording, order, serial, tracer
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.nn.base.module import Module
from chainrule.ops import losses
from chainrule.ops.fusing import Fused
from chainrule.optim.optimizer import Optimizer
from chainrule.verify.installed_compiler import compiled_classes
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.engine import Engine, Nodes, Scale, Way, counts_of
from chainrule.verify.training.record.library import native_library
from chainrule.verify.training.record.loop import LoopTap
from chainrule.verify.training.record.op_names import COMPARE, LOSSES, RELUS, LossInput, Maker
from chainrule.verify.user_frames import Line, here, place, with_callers


@final
class NativeEngine(Engine):
    """chainrule's tensors, whose arrays are never written to: another gradient is another one."""

    def token(self, tensor: Any) -> tuple[int, ...]:
        """Its object and its array."""
        return (id(tensor), id(tensor.value))

    def serial(self) -> int:
        """One that no node gets."""
        return serial()

    def norms(self, tensors: Sequence[Any]) -> list[float]:
        """In float64."""
        return [_norm(t.value) for t in tensors]

    def listen(self, tensor: Any, hear: Callable[[Sequence[Any]], None]) -> bool:
        """By a hook of the tensor."""
        if tensor.node is None or tensor.is_leaf:
            return False

        def heard(g: Any) -> None:
            hear([g])

        tensor.register_hook(heard)
        return True

    def copies(self, tensors: Sequence[Any]) -> list[Any]:
        """Their arrays: who writes to a parameter gives it another one."""
        return [t.value for t in tensors]

    def moved(self, tensors: Sequence[Any], copies: Sequence[Any]) -> list[float]:
        """In float64."""
        return [_norm(t.value - old) for t, old in zip(tensors, copies, strict=True)]

    def array(self, values: Any) -> Array:
        """Of a tensor, or its array itself."""
        x = np.asarray(values.value if isinstance(values, Tensor) else values)
        return x.astype(np.float32) if x.itemsize < 4 else x

    def params(self, optimizer: Any) -> list[Any]:
        """Those of all groups."""
        return [p for group in optimizer.param_groups for p in group["params"]]

    def own(self, module: Any) -> list[tuple[str, Any]]:
        """Parameters that no child has."""
        below = {id(t) for _, child in module.children() for _, t in child.named_tensors()}
        return [(name, p) for name, p in module.named_parameters() if id(p) not in below]


def _norm(x: Array) -> float:
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(np.abs(x).astype(np.float64)))


@final
class NativeNodes(Nodes):
    """Nodes of chainrule's."""

    def name(self, node: Any) -> str:
        """That of its op; a sum divided by the number of its elements is a mean, and a loss that
        is one op is what it reduces by."""
        if isinstance(node.op, Fused) and (reduction := dict(node.op.static).get("reduction")):
            return node.name if reduction == "none" else reduction
        below = self.below(node) if node.name == "div" else []
        is_sum = bool(below) and below[0].name == "sum"
        return "mean" if is_sum and self.number(node) == _count(below[0]) else node.name

    def below(self, node: Any) -> list[Any]:
        """Those that need a gradient."""
        return [n for n in node.inputs if n is not None and n.needs]

    def number(self, node: Any) -> float | None:
        """An argument that is no node, and one number."""
        for n, x in zip(node.inputs, node.xs, strict=True):
            value: Any = x
            if n is None and isinstance(x, np.ndarray | np.generic | int | float):
                return float(np.asarray(value).item()) or None if np.size(value) == 1 else None
        return None

    def reduced(self, node: Any, way: Way) -> Scale:
        """By the name of its op."""
        reduction = name if (name := self.name(node)) in ("sum", "mean") else ""
        counts = counts_of(_shape_below(node)) if reduction == "sum" else frozenset[float]()
        return Scale(abs(way.divisor), reduction, way.divided, counts=counts)


def _count(node: Any) -> float:
    """How many elements a sum has added up for each element of its result."""
    return math.prod(_shape_below(node)) / max(math.prod(node.shape), 1)


def _shape_below(node: Any) -> tuple[int, ...]:
    """The shape of what a sum has added up."""
    inner = node.inputs[0]
    assert inner is not None
    return inner.shape


FIRST = frozenset({"take_along_axis", "logistic_loss", "logsumexp", "xlogy", "mul", "shift"})
"""Ops by which losses begin to use a prediction, if they are not one op by their own name."""
_FOLDER = losses.__path__[0]
_VIEWS = ("reshape", "transpose", "broadcast_to", "squeeze", "expand_dims", "take")
_PREDICTIONS = ("logits", "logp", "x")
_MOST = 12
"""Frames, and views, that are looked through."""


def maker(x: Any) -> Maker:
    """The op that made a tensor, or that of which it is only a view."""
    node = x.node if isinstance(x, Tensor) else None
    for _ in range(_MOST):
        if node is None or node.name not in _VIEWS:
            break
        node = node.inputs[0]
    if node is None or node.op is None:
        return Maker("", 0)
    name = "softmax" if node.name == "exp_diff" else node.name
    return Maker(name, node.serial)


def tell(engine: Engine, name: str, xs: Sequence[Any], say: Callable[[Any], None]) -> None:
    """Tell of the loss in which an op runs, if it is the first to use the prediction."""
    found = _loss(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    if found is None or name not in FIRST | LOSSES:
        return
    own = found.f_locals
    x = next((own[k] for k in _PREDICTIONS if k in own), None)
    if isinstance(x, Tensor) and x.requires_grad and any(x is y for y in xs):
        target = own.get("target")
        say(LossInput(engine, found.f_code.co_name, x, maker(x), 0, target, dict(own)))


def _loss(frame: FrameType | None) -> FrameType | None:
    near = islice(with_callers(frame), _MOST)
    return next((f for f in near if _is_loss(f.f_code)), None)


def _is_loss(code: CodeType) -> bool:
    return code.co_name in LOSSES and code.co_filename.startswith(_FOLDER)


@final
class NativeTap(LoopTap):
    """Puts events of a chainrule program on the bus."""

    def __init__(self) -> None:
        super().__init__(native_library(), NativeEngine())
        self._rules = ExitStack()
        self._of_node: dict[int, weakref.ref[Any]] = {}
        """Of leaves of graphs, by the ids of their nodes: the tensors."""
        self._depth = 0

    def watch(self) -> None:
        """Steps and resets of optimizers, calls of modules, and rules."""
        self._patched.before(Optimizer, "step", self._step_begins)
        self._patched.after(Optimizer, "step", self._step_ends)
        self._patched.before(Optimizer, "zero_grad", self.resets)
        self._patched.around(Module, "__call__", self._calling)
        self._patched.after(Tensor, "detach", self._on_detach)
        for name in ("__call__", "loop"):
            for cls in compiled_classes():
                self._patched.before(cls, name, self._compiles)
        seen = watch.Watch(on_op=self._on_op, on_leave=self._on_leave)
        self._rules.enter_context(watch.watching(seen))

    def take(self) -> None:
        """Put everything back."""
        super().take()
        self._rules.close()
        self._of_node.clear()

    def is_abstract(self) -> bool:
        """While a step is traced."""
        return tracer() is not None

    def quiet(self) -> AbstractContextManager[object]:
        """What is asked of arrays is nobody's."""
        return nullcontext()

    def graph(self, roots: Sequence[Any]) -> events.Graph:
        """By its nodes."""
        nodes = order([x.node for x in roots if x.node is not None])
        serials = tuple(sorted(node.serial for node in nodes if node.op is not None))
        leaves = self._leaves_of([node for node in nodes if node.op is None and node.needs])
        self.remember(leaves)
        return events.Graph(serials, tuple(leaves))

    def scale_of(self, root: Any) -> Scale | None:
        """By its node."""
        return NativeNodes().scale(root.node, self.scale)

    @property
    def _on(self) -> bool:
        return self._patched.on and tracer() is None

    def _compiles(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is compiled while somebody watches its rules: so from here on we do not."""
        if len(watch.watches) == 1:  # others have it run in Python anyhow
            self._rules.close()

    # --- backward passes

    def backward(self, run: Callable[..., None], y: Any, *args: Any, **kwargs: Any) -> None:
        """Of a tensor."""
        if not self._on:
            run(y, *args, **kwargs)
            return
        retained = bool(kwargs.get("retain_graph") or kwargs.get("create_graph"))
        self.watch_pass(lambda: run(y, *args, **kwargs), y, retained)

    def _leaves_of(self, nodes: Sequence[Any]) -> list[Any]:
        """The tensors of leaves; a node does not know its own."""
        new = [node for node in nodes if id(node) not in self._of_node]
        holders: list[Any] = gc.get_referrers(*new) if new else []
        for x in [x for x in holders if isinstance(x, Tensor) and x.node is not None]:
            self._of_node[id(x.node)] = weakref.ref(x)
        found = [ref() for node in nodes if (ref := self._of_node.get(id(node))) is not None]
        return [x for x in found if x is not None]

    def _on_op(self, op: Any, xs: Sequence[Any], y: Any, alarm: bool) -> None:
        if op.name in COMPARE and all(isinstance(x, Tensor) for x in xs) and self._on:
            event = op_events.Compared.of(op.name, xs[0], xs[1], y)
            if event is not None:
                self._bus.tell(event)
        if op.name in FIRST | LOSSES and self._on and self._bus.hears(LossInput):
            tell(self.engine, op.name, xs, self._bus.tell)
        if op.name in RELUS and self._on and is_recording():
            self._bus.tell(op_events.Activated(self.engine, op.name, xs[0], y))

    # --- optimizers

    def _step_begins(self, optimizer: Any) -> None:
        self.tell(events.StepBegins(self.engine, optimizer, place(), False))

    def _step_ends(self, _: None, optimizer: Any) -> None:
        self.tell(events.StepEnds(self.engine, optimizer, place()))

    # --- modules

    def _calling(self, run: Callable[..., Any], module: Any, /, *args: Any, **kwargs: Any) -> Any:
        at = here() if self._on else None
        if at is not None:
            self._patched.tried(lambda: self._enters(module, args, at))
        self._depth += 1
        try:
            y = run(module, *args, **kwargs)
        finally:
            self._depth -= 1
        if at is not None and self._on:
            self._leaves(module, at, y)
        return y

    def _leaves(self, module: Any, at: Line, y: Any) -> None:
        recording = is_recording()
        if recording:
            self._bus.tell(op_events.Passed(self.engine, module, self._depth, at, y))
        if self._depth == 0:
            self._bus.tell(op_events.Left(self.engine, module, recording, at, y))

    def _enters(self, module: Any, args: tuple[Any, ...], at: Line) -> None:
        if self._depth == 0:
            self._known.update({id(p): p for p in module.parameters()})
        recording = is_recording()
        self._bus.tell(op_events.Entered(self.engine, module, self._depth, recording, at, args))

    def _on_leave(self, x: Any, how: str) -> None:
        """A number was taken out of a graph."""
        name = how.removesuffix("()")
        if name in ("item", "tolist") and self._on and x.requires_grad:
            self._bus.tell(op_events.OpRan(self.engine, name, (x,), {}, None, [], _no_total, 0))

    def _on_detach(self, y: Any, x: Any) -> None:
        if self._on:
            self._bus.tell(op_events.OpRan(self.engine, "detach", (x,), {}, y, [y], _no_total, 0))


def _no_total(_: int) -> None:
    """Nobody asks for sums of what is cut off."""
