"""PyTorch's training loop as events: optimizers, backward passes, resets, modules.

Only the few functions through which every loop goes are replaced, for as long as somebody listens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, Protocol, final

from chainrule.verify.patches import Patches
from chainrule.verify.training import events, torchgraph
from chainrule.verify.training.bus import Bus, Tap
from chainrule.verify.training.torchengine import TorchEngine, is_abstract
from chainrule.verify.where import Line, here, place, site


class Pauses(Protocol):
    """What can be told to look away for a while."""

    def pause(self) -> None:
        """Look away."""

    def resume(self) -> None:
        """Look again."""

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
        self._stack: list[events.Entered] = []  # calls of modules that are running
        self._silent: set[int] = set()  # modules that were seen to run without a graph
        self._hidden = False  # whether kept values have hooks, which looking at them would run
        self._lines: dict[int, tuple[Any, Line | None]] = {}
        self._met: dict[int, Any] = {}
        self._known: dict[int, Any] = {}  # parameters of optimizers and modules, by id

    def put(self, bus: Bus) -> None:
        """Replace functions of torch by ones that tell."""
        torch: Any = import_module("torch")
        self._bus, self._torch, self._engine = bus, torch, TorchEngine()
        self._unseen = torch._C.DisableTorchFunction
        optimizer = torch.optim.Optimizer
        module = torch.nn.modules.module
        kept = torch.autograd.graph.saved_tensors_hooks
        self._patched.put(torch.autograd, "backward", self._backward)
        self._patched.after(optimizer, "__init__", self._built)
        self._patched.before(optimizer, "zero_grad", self._zeroed)
        self._patched.before(torch.nn.Module, "zero_grad", self._zeroed)
        self._patched.before(torch.nn.Module, "load_state_dict", self._loaded)
        self._patched.after(optimizer, "_optimizer_step_code", self._stepped)
        self._patched.before(kept, "__enter__", self._hidden_now)
        self._patched.before(torch, "compile", self._leave)
        self._patched.before(torch.nn.Module, "compile", self._leave)
        steps = import_module("torch.optim.optimizer")
        self._hooks = [steps.register_optimizer_step_pre_hook(self._steps)]
        self._calls = [
            module.register_module_forward_pre_hook(self._enters),
            module.register_module_forward_hook(self._leaves, always_call=True),
        ]

    def take(self) -> None:
        """Put everything back."""
        self._patched.undo()
        for hook in (*self._hooks, *self._calls):
            hook.remove()
        for held in (self._known, self._lines, self._met, self._stack):
            held.clear()

    def _pause(self) -> None:
        if self.pauses is not None:
            self.pauses.pause()

    def _resume(self) -> None:
        if self.pauses is not None:
            self.pauses.resume()

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
        self._pause()
        if self._bus.hears(events.BackwardBegins) or self._bus.hears(events.BackwardEnds):
            begin = self._patched.tried(lambda: self._begin(tensors, args, kwargs))
            before = self._tokens(begin.graph.leaves if begin is not None else ())
        try:
            run(tensors, *args, **kwargs)
        except BaseException as error:
            self._end(begin, before, error)
            self._resume()
            raise
        self._end(begin, before, None)
        self._resume()

    def _begin(self, tensors: Any, args: Any, kwargs: Any) -> events.BackwardBegins:
        roots = [tensors] if hasattr(tensors, "grad_fn") else list(tensors)
        scale = None
        if len(roots) == 1:
            scale = torchgraph.scale_of(roots[0], self.scale, not self._hidden)
        self._hidden, self.scale = False, None
        retain = kwargs.get("retain_graph", args[1] if len(args) > 1 else None)
        create = kwargs.get("create_graph", args[2] if len(args) > 2 else False)
        begin = events.BackwardBegins(
            self._engine, self._serial, roots, site(), place(), bool(retain or create),
            torchgraph.graph_of(roots), scale,
        )  # fmt: skip
        self.tell(begin)
        return begin

    def _end(self, begin: Any, before: Any, error: BaseException | None) -> None:
        if begin is None or before is None or not self._patched.on:
            return
        after = self._tokens(begin.graph.leaves)
        touched = frozenset([key for key, token in after.items() if before.get(key) != token])
        self.tell(events.BackwardEnds(begin, touched, error))

    def _tokens(self, leaves: Sequence[Any]) -> dict[int, tuple[int, ...]]:
        token = self._engine.token
        every = {**self._known, **{id(x): x for x in leaves}}
        with self._unseen():
            return {key: token(grad) for key, p in every.items() if (grad := p.grad) is not None}

    # --- optimizers

    def knows(self, optimizer: Any) -> None:
        """Tell of an optimizer that was there before."""
        self._knows(self._engine.params(optimizer))
        self.tell(events.Built(self._engine, optimizer, None))

    def _knows(self, params: Iterable[Any]) -> None:
        """Remember leaves; others (of a functional call) have no `.grad`, and live for a moment."""
        with self._unseen():
            self._known.update({id(p): p for p in params if p.is_leaf})

    def _built(self, _: None, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        self._knows(self._engine.params(optimizer))
        self.tell(events.Built(self._engine, optimizer, place()))

    def _steps(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        return self._patched.tried(lambda: self._step(optimizer, args, kwargs))

    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        self._knows(self._engine.params(optimizer))
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        told = callable(closure)
        self.tell(events.StepBegins(self._engine, optimizer, place(), told))
        if not told:
            self._pause()
            return None
        heard = self._closure(optimizer, closure)
        if "closure" in kwargs:
            return args, {**kwargs, "closure": heard}
        return (args[0], heard, *args[2:]), kwargs

    def _closure(self, optimizer: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def closure(*args: Any, **kwargs: Any) -> Any:
            result = run(*args, **kwargs)
            if self._patched.on:
                self.tell(events.ClosureEnds(self._engine, optimizer))
            return result

        return closure

    def _stepped(self, _: None, optimizer: Any) -> None:
        self.tell(events.StepEnds(self._engine, optimizer, place()))
        self._resume()

    def _zeroed(self, owner: Any, *args: Any, **kwargs: Any) -> None:
        if self._bus.hears(events.Zeroed):
            optimizer = hasattr(owner, "param_groups")
            params = self._engine.params(owner) if optimizer else list(owner.parameters())
            self.tell(events.Zeroed(self._engine, params, place()))

    def _loaded(self, module: Any, *args: Any, **kwargs: Any) -> None:
        self.tell(events.Loaded(self._engine, module))

    def _hidden_now(self, hooks: Any) -> None:
        self._hidden = True

    # --- modules

    def _leave(self, *args: Any, **kwargs: Any) -> None:
        """What is compiled is compiled with all that looks at it: so we look no more."""
        for hook in self._calls:
            hook.remove()
        self._stack.clear()
        if self.pauses is not None:
            self.pauses.leave()
            self._bus.notes.append(("ops and modules", "the program uses torch.compile"))

    def _enters(self, module: Any, inputs: Any) -> None:
        if self.pauses is not None:
            self.pauses.enters(module)
        recording = self._torch.is_grad_enabled()
        if not recording:  # a loop over a test set: once is enough
            if id(module) in self._silent:
                return
            self._silent.add(id(module))
        depth = len(self._stack)
        at = self._line(module) if depth else here()
        entered = events.Entered(self._engine, module, depth, recording, at, inputs)
        self._stack.append(entered)
        if depth == 0:
            self._patched.tried(lambda: self._meets(module))
        if self._bus.hears(events.Entered):
            self.tell(entered)

    def _line(self, module: Any) -> Line | None:
        """Where a module within another one is called: as it was at first."""
        known = self._lines.get(id(module))
        if known is None:
            known = self._lines[id(module)] = (module, here())
        return known[1]

    def _meets(self, module: Any) -> None:
        """Remember the parameters of a model, once: those that come later are leaves of graphs."""
        if id(module) not in self._met:
            self._met[id(module)] = module
            parameter = self._torch.nn.Parameter
            self._knows([p for p in module.parameters() if isinstance(p, parameter)])

    def _leaves(self, module: Any, inputs: Any, output: Any) -> None:
        if self.pauses is not None:
            self.pauses.leaves(module)
        if not self._stack or not any(called.module is module for called in self._stack):
            return
        entered = self._stack.pop()
        while entered.module is not module:  # the calls above it have failed
            entered = self._stack.pop()
        if self._bus.hears(events.Left):
            recording = self._torch.is_grad_enabled()
            self.tell(
                events.Left(self._engine, module, entered.depth, recording, entered.at, output)
            )
