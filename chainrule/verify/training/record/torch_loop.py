"""PyTorch's training loop as events: backward passes, optimizers, calls of modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

import torch

from chainrule.verify.pytorch import door
from chainrule.verify.pytorch.door import unseen
from chainrule.verify.pytorch.modules import NOTHING, Listener, listen, unlisten
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Tap
from chainrule.verify.training.record.engine import Scale
from chainrule.verify.training.record.library import torch_library
from chainrule.verify.training.record.loop import LoopTap
from chainrule.verify.training.record.torch_engine import (
    TorchEngine,
    TorchNodes,
    graph_of,
    is_abstract,
    stream,
)
from chainrule.verify.user_frames import Line, here, place, site

if TYPE_CHECKING:
    from chainrule.verify.training.record.torch_ops import OpTap


@final
class TorchTap(LoopTap):
    """Puts events of a PyTorch program on the bus."""

    def __init__(self) -> None:
        super().__init__(torch_library(), TorchEngine())
        self.ops: OpTap | None = None
        """What sees ops, and is not to see those of models that are not trained."""
        self.before_compiling: list[Callable[[], None]] = []
        """Is called where something is compiled, with all that looks at it."""
        self._inside = 0  # backward passes that are running
        self._hidden = False  # whether kept values have hooks, which looking at them would run
        self._begun: dict[int, events.StepBegins] = {}  # by id of the optimizer

    def watch(self) -> None:
        """Functions of torch's: derivatives, resets and steps of optimizers, what is compiled."""
        torch: Any = import_module("torch")
        optimizer, module = self.library.optimizer, self.library.module
        for owner in (torch, module):
            self._patched.before(owner, "compile", self._compiles)
        for owner, name in self.library.grad:
            self._patched.around(owner, name, self._watch_grad)
        self._patched.around(optimizer, "zero_grad", self._resetting)
        self._patched.before(module, "load_state_dict", self._loads)
        self._patched.after(optimizer, "_optimizer_step_code", self._step_ends)
        self._patched.after(torch.utils.data.DataLoader, "__init__", self._loader_built)
        kept = torch.autograd.graph.saved_tensors_hooks
        self._patched.before(kept, "__enter__", self._hides)
        steps = import_module("torch.optim.optimizer")
        self._hooks = [steps.register_optimizer_step_pre_hook(self._step_hook)]

    def take(self) -> None:
        """Put everything back."""
        super().take()
        self.before_compiling.clear()
        for hook in self._hooks:
            hook.remove()
        self._begun.clear()

    def is_abstract(self) -> bool:
        """Traced, compiled or mapped."""
        return is_abstract(torch)

    def quiet(self) -> AbstractContextManager[object]:
        """Within it no mode sees what is asked of tensors."""
        return unseen()

    def graph(self, roots: Sequence[Any]) -> events.Graph:
        """By its nodes."""
        return graph_of(roots)

    def scale_of(self, root: Any) -> Scale | None:
        """Where kept numbers may be looked at: hooks on them could run the user's code."""
        return None if self._hidden else TorchNodes().scale(root.grad_fn, self.scale)

    # --- backward passes

    def backward(self, run: Callable[..., None], tensors: Any, *args: Any, **kwargs: Any) -> None:
        """Of a tensor, or of several."""
        if self._inside:
            run(tensors, *args, **kwargs)
            return
        retain = kwargs.get("retain_graph", args[1] if len(args) > 1 else None)
        create = kwargs.get("create_graph", args[2] if len(args) > 2 else False)
        self._inside += 1
        door.pause()
        try:
            retained = bool(retain or create)
            self.watch_pass(lambda: run(tensors, *args, **kwargs), tensors, retained)
        finally:
            self._inside -= 1
            self._hidden = False
            door.resume()

    def _watch_grad(self, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._inside:
            return run(*args, **kwargs)
        self._patched.tried(lambda: self._grad_begins(*args, **kwargs))
        self._inside += 1  # it goes through itself once more, where ops are watched
        try:
            found = run(*args, **kwargs)
        finally:
            self._inside -= 1
        self._patched.tried(lambda: self._grad_ends(found, *args, **kwargs))
        return found

    def _grad_begins(
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
            self.tell(events.Differentiated(
                self.engine, self._serial, roots, site(), place(), bool(retain_graph),
                graph_of(roots), leaves,
            ))  # fmt: skip

    def _grad_ends(self, found: Any, outputs: Any, inputs: Any, *_: Any, **__: Any) -> None:
        if self._bus.hears(events.Given):
            tensors = [inputs] if hasattr(inputs, "is_leaf") else list(inputs)
            self.tell(events.Given(tensors, list(found), place()))

    # --- optimizers

    def _step_hook(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        return self._patched.tried(lambda: self._step_begins(optimizer, args, kwargs))

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        told = callable(closure)
        begins = events.StepBegins(self.engine, optimizer, place(), told)
        self.remember(begins.params)
        self.tell(begins)
        if not told:
            self._look_away(begins)
            return None
        heard = self._closure(optimizer, closure)
        if "closure" in kwargs:
            return args, {**kwargs, "closure": heard}
        return (args[0], heard, *args[2:]), kwargs

    def _closure(self, optimizer: Any, run: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(run)
        def closure(*args: Any, **kwargs: Any) -> Any:
            before = self._patched.tried(lambda: stream(torch))
            result = run(*args, **kwargs)
            if self._patched.on:
                drew = self._patched.tried(lambda: stream(torch)) != before
                code = getattr(run, "__code__", None)
                self.tell(events.ClosureEnds(self.engine, optimizer, place(), code, drew))
            return result

        return closure

    def _look_away(self, event: events.StepBegins) -> None:
        """Look away. PyTorch's own optimizers write to no gradient behind its back."""
        if type(event.optimizer).__module__.startswith("torch.optim."):
            with self.quiet():
                if event.tokens:  # as they are before the step
                    self._begun[id(event.optimizer)] = event
        door.pause()

    def _step_ends(self, _: None, optimizer: Any) -> None:
        begin = self._begun.pop(id(optimizer), None)
        self.tell(events.StepEnds(self.engine, optimizer, place(), begin))
        door.resume()

    def _compiles(self, *_: Any, **__: Any) -> None:
        for leave in self.before_compiling:
            leave()
        self.tell(events.Compiles())

    def _loader_built(self, _: None, loader: Any, *args: Any, **kwargs: Any) -> None:
        self.tell(events.LoaderBuilt(loader, place()))

    def _loads(self, module: Any, state_dict: Any, *args: Any, **kwargs: Any) -> None:
        self.tell(events.Loaded(self.engine, module, dict(state_dict), place()))

    def _hides(self, hooks: Any) -> None:
        self._hidden = True

    def _resetting(
        self, run: Callable[..., None], optimizer: Any, *args: Any, **kwargs: Any
    ) -> None:  # fmt: skip
        """An optimizer's reset asks much of its parameters, which is not to be seen."""
        self._patched.tried(lambda: self.resets(optimizer))
        door.pause()
        try:
            run(optimizer, *args, **kwargs)
        finally:
            door.resume()


_Token = tuple[int, Line | None]
"""Of a call: its depth, and where it was made."""


@final
class ModuleTap(Tap, Listener):
    """Puts events of modules on the bus; its failure is not the program's."""

    def __init__(self, main: TorchTap) -> None:
        self._main = main
        self._depth = 0  # calls of modules that are running
        self._silent: set[int] = set()  # modules that were seen to run without a graph
        self._lines: dict[tuple[int, bool], tuple[Any, Line | None]] = {}
        self._met: dict[int, Any] = {}

    def put(self, bus: Bus) -> None:
        """Begin to listen."""
        self._bus, self._engine = bus, TorchEngine()
        self._main.before_compiling.append(self._leave)
        listen(self)

    def take(self) -> None:
        """Listen no more."""
        unlisten(self)
        self._lines.clear()
        self._met.clear()

    def _leave(self) -> None:
        """Look no more: what is compiled would be compiled so."""
        unlisten(self)
        self._depth = 0
        if self._main.ops is not None:
            self._main.ops.leave()
            self._bus.notes.append(("ops and modules", "the program uses torch.compile"))

    def enters(self, module: Any, inputs: tuple[Any, ...]) -> _Token | None:
        """A module is being called; `NOTHING` if nobody cares."""
        try:
            door.resume()  # what was to end a pause may have failed
            recording, depth, ops = torch.is_grad_enabled(), self._depth, self._main.ops
            trains = depth and recording and module.training  # as nearly all calls do
            if ops is not None and not (trains and ops.looks):
                ops.enters(module)
            if not recording:  # a loop over a test set: once is enough
                if id(module) in self._silent:
                    return NOTHING
                self._silent.add(id(module))
            known = self._lines.get((id(module), recording)) if depth else None
            at = known[1] if known is not None else here()
            if known is None or self._bus.attentive:
                self._report_call(
                    op_events.Entered(self._engine, module, depth, recording, at, inputs)
                )
            self._depth = depth + 1
            return depth, at
        except Exception:
            return None

    def leaves(self, module: Any, token: _Token | None, output: Any) -> None:
        """Its call is over."""
        try:
            ops = self._main.ops
            if ops is not None and not ops.looks:
                ops.leaves(module)
            if token is not None and token is not NOTHING:
                self._depth, at = token
                self._tell(module, at, output)
        except Exception:
            return

    def _tell(self, module: Any, at: Line | None, output: Any) -> None:
        recording = torch.is_grad_enabled()
        if recording and self._bus.hears(op_events.Passed):
            self._main.tell(op_events.Passed(self._engine, module, self._depth, at, output))
        if not self._depth:
            self._main.tell(op_events.Left(self._engine, module, recording, at, output))

    def _report_call(self, event: op_events.Entered) -> None:
        """Tell of a call. Where a module within another one is called is known from then on; of a
        model, its parameters are: those that come later are leaves of graphs."""
        module = event.module
        if event.depth:
            self._lines[id(module), event.recording] = (module, event.at)
        elif id(module) not in self._met:
            self._met[id(module)] = module
            parameters = [p for p in module.parameters() if isinstance(p, torch.nn.Parameter)]
            self._main.remember(parameters)
        if self._bus.hears(op_events.Entered):
            self._main.tell(event)
