"""PyTorch's training loop as events: optimizers, backward passes, resets.

Only the few functions through which every loop goes are replaced, for as long as somebody listens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, Protocol, final

from chainrule.verify.patches import Patches
from chainrule.verify.training.record import events, torch_graph
from chainrule.verify.training.record.bus import Bus, Tap
from chainrule.verify.training.record.torch_engine import TorchEngine, is_abstract, stream
from chainrule.verify.where import place, site


class Pauses(Protocol):
    """What can be told to look away for a while."""

    looks: bool
    """Whether it looks now."""

    def leave(self) -> None:
        """Look no more."""

    def enters(self, module: Any) -> None:
        """A module is being called."""

    def leaves(self, module: Any) -> None:
        """The call of a module is over."""


@final
class TorchTap(Tap):
    """Puts events of a PyTorch program on the bus."""

    def __init__(self) -> None:
        self.scale: float | None = None
        """What a gradient scaler multiplied the next loss by."""
        self.pauses: Pauses | None = None
        """What sees ops, and is not to see those of backward passes and optimizers."""
        self._patched = Patches()
        self._serial = 0
        self._inside = 0  # backward passes that are running
        self._hidden = False  # whether kept values have hooks, which looking at them would run
        self._known: dict[int, Any] = {}  # parameters of optimizers and modules, by id
        self._begun: dict[int, events.StepBegins] = {}  # by id of the optimizer

    def put(self, bus: Bus) -> None:
        """Replace functions of torch by ones that tell."""
        torch: Any = import_module("torch")
        self._bus, self._torch, self._engine = bus, torch, TorchEngine()
        self._unseen = torch._C.DisableTorchFunction
        self._door: Any = import_module("chainrule.verify.pytorch.door")
        optimizer = torch.optim.Optimizer
        kept = torch.autograd.graph.saved_tensors_hooks
        for owner in (torch.Tensor, torch.autograd):  # the first before its modes are set aside
            self._patched.put(owner, "backward", self._backward)
        self._patched.put(torch.autograd, "grad", self._deriving)
        self._patched.after(optimizer, "__init__", self._built)
        self._patched.put(optimizer, "zero_grad", self._zeroing)
        self._patched.before(torch.nn.Module, "zero_grad", self._zeroed)
        self._patched.before(torch.nn.Module, "load_state_dict", self._loaded)
        self._patched.after(optimizer, "_optimizer_step_code", self._stepped)
        self._patched.before(kept, "__enter__", self._hidden_now)
        steps = import_module("torch.optim.optimizer")
        self._hooks = [steps.register_optimizer_step_pre_hook(self._steps)]

    def take(self) -> None:
        """Put everything back."""
        self._patched.undo()
        for hook in self._hooks:
            hook.remove()
        self._known.clear()
        self._begun.clear()

    def tell(self, event: Any) -> None:
        """Publish an event; what is done about it is seen by nobody."""
        if is_abstract(self._torch):
            return
        with self._unseen():
            self._bus.tell(event)

    # --- backward passes

    def _backward(self, run: Callable[..., None]) -> Callable[..., None]:
        @wraps(run)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if self._inside or not self._patched.on:
                return run(tensors, *args, **kwargs)
            self._inside += 1
            try:
                self._observed(run, tensors, args, kwargs)
            finally:
                self._inside -= 1

        return backward

    def _observed(self, run: Callable[..., None], tensors: Any, args: Any, kwargs: Any) -> None:
        self._serial += 1
        begin = before = None
        self._door.pause()
        if self._bus.hears(events.BackwardBegins) or self._bus.hears(events.BackwardEnds):
            begin = self._patched.tried(lambda: self._begin(tensors, args, kwargs))
            before = self._tokens(begin.graph.leaves if begin is not None else ())
        try:
            run(tensors, *args, **kwargs)
        except BaseException as error:
            self._end(begin, before, error)
            self._door.resume()
            raise
        self._end(begin, before, None)
        self._door.resume()

    def _begin(self, tensors: Any, args: Any, kwargs: Any) -> events.BackwardBegins:
        roots = [tensors] if hasattr(tensors, "grad_fn") else list(tensors)
        scale = None
        if len(roots) == 1:
            scale = torch_graph.scale_of(roots[0], self.scale, not self._hidden)
        self._hidden, self.scale = False, None
        retain = kwargs.get("retain_graph", args[1] if len(args) > 1 else None)
        create = kwargs.get("create_graph", args[2] if len(args) > 2 else False)
        begin = events.BackwardBegins(
            self._engine, self._serial, roots, site(), place(), bool(retain or create),
            torch_graph.graph_of(roots), scale,
        )  # fmt: skip
        self.tell(begin)
        return begin

    def _deriving(self, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def grad(*args: Any, **kwargs: Any) -> Any:
            if self._inside or not self._patched.on:
                return run(*args, **kwargs)
            self._patched.tried(lambda: self._differentiated(*args, **kwargs))
            self._inside += 1  # it goes through itself once more, where ops are watched
            try:
                found = run(*args, **kwargs)
            finally:
                self._inside -= 1
            self._patched.tried(lambda: self._given(found, *args, **kwargs))
            return found

        return grad

    def _differentiated(
        self, outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None,
        create_graph: bool = False, *_: Any, **__: Any,
    ) -> None:  # fmt: skip
        """`torch.autograd.grad`; by leaves, as who takes steps by hand calls it, it says more."""
        leaves = [inputs] if hasattr(inputs, "is_leaf") else list(inputs)
        roots = [outputs] if hasattr(outputs, "grad_fn") else list(outputs)
        self.tell(events.Asked(leaves))
        if (
            not create_graph
            and len(roots) == 1
            and self._bus.hears(events.Differentiated)
            and all(x.is_leaf for x in leaves)
        ):
            self._serial += 1
            graph = torch_graph.graph_of(roots)
            self.tell(events.Differentiated(
                self._engine, self._serial, roots, site(), place(), bool(retain_graph), graph,
                leaves,
            ))  # fmt: skip

    def _given(self, found: Any, outputs: Any, inputs: Any, *_: Any, **__: Any) -> None:
        if self._bus.hears(events.Given):
            tensors = [inputs] if hasattr(inputs, "is_leaf") else list(inputs)
            self.tell(events.Given(tensors, list(found), place()))

    def _end(self, begin: Any, before: Any, error: BaseException | None) -> None:
        if begin is None or before is None or not self._patched.on:
            return
        after = self._tokens(begin.graph.leaves)
        touched = frozenset([key for key, token in after.items() if before.get(key) != token])
        self.tell(events.BackwardEnds(begin, touched, after, error))

    def _tokens(self, leaves: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        token, known = self._engine.token, self._known
        with self._unseen():
            every = [*known.items(), *[(id(x), x) for x in leaves if id(x) not in known]]
            return {key: token(grad) for key, p in every if (grad := p.grad) is not None}

    # --- optimizers

    def knows(self, optimizer: Any) -> None:
        """Tell of an optimizer that was there before."""
        self.remember(self._engine.params(optimizer))
        self.tell(events.Built(self._engine, optimizer, None))

    def remember(self, params: Iterable[Any]) -> None:
        """Remember leaves; others (of a functional call) have no `.grad`, and live for a moment."""
        with self._unseen():
            self._known.update({id(p): p for p in params if p.is_leaf})

    def _built(self, _: None, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        self.remember(self._engine.params(optimizer))
        self.tell(events.Built(self._engine, optimizer, place()))

    def _steps(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        return self._patched.tried(lambda: self._step(optimizer, args, kwargs))

    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        told = callable(closure)
        begins = events.StepBegins(self._engine, optimizer, place(), told)
        self.remember(begins.params)
        self.tell(begins)
        if not told:
            self._begins(begins)
            return None
        heard = self._closure(optimizer, closure)
        if "closure" in kwargs:
            return args, {**kwargs, "closure": heard}
        return (args[0], heard, *args[2:]), kwargs

    def _closure(self, optimizer: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def closure(*args: Any, **kwargs: Any) -> Any:
            before = self._patched.tried(lambda: stream(self._torch))
            result = run(*args, **kwargs)
            if self._patched.on:
                drew = self._patched.tried(lambda: stream(self._torch)) != before
                code = getattr(run, "__code__", None)
                self.tell(events.ClosureEnds(self._engine, optimizer, place(), code, drew))
            return result

        return closure

    def _begins(self, event: events.StepBegins) -> None:
        """Look away. PyTorch's own optimizers write to no gradient behind its back."""
        if type(event.optimizer).__module__.startswith("torch.optim."):
            with self._unseen():
                if event.tokens:  # as they are before the step
                    self._begun[id(event.optimizer)] = event
        self._door.pause()

    def _stepped(self, _: None, optimizer: Any) -> None:
        begin = self._begun.pop(id(optimizer), None)
        self.tell(events.StepEnds(self._engine, optimizer, place(), begin))
        self._door.resume()

    def _zeroed(self, owner: Any, *_: Any, **__: Any) -> None:
        if self._bus.hears(events.Zeroed):
            optimizer = hasattr(owner, "param_groups")
            params = self._engine.params(owner) if optimizer else list(owner.parameters())
            self.tell(events.Zeroed(self._engine, params, place()))

    def _loaded(self, module: Any, *args: Any, **kwargs: Any) -> None:
        self.tell(events.Loaded(self._engine, module))

    def _hidden_now(self, hooks: Any) -> None:
        self._hidden = True

    def _zeroing(self, run: Callable[..., None]) -> Callable[..., None]:
        """An optimizer's reset asks much of its parameters, which is not to be seen."""

        @wraps(run)
        def zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            if not self._patched.on:
                return run(optimizer, *args, **kwargs)
            self._patched.tried(lambda: self._zeroed(optimizer))
            self._door.pause()
            try:
                run(optimizer, *args, **kwargs)
            finally:
                self._door.resume()

        return zero_grad
