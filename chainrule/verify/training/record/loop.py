"""A training loop as events: backward passes, optimizers, resets, alike for both frameworks.

Only the few functions through which every loop goes are replaced, for as long as somebody listens.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

from chainrule.verify.patches import Patches
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Tap
from chainrule.verify.training.record.engine import Engine, Scale
from chainrule.verify.training.record.library import Library
from chainrule.verify.user_frames import place, site


class LoopTap(Tap):
    """Puts events of a framework's loops on the bus."""

    _bus: Bus

    def __init__(self, library: Library, engine: Engine) -> None:
        self.library = library
        self.engine = engine
        self.scale: float | None = None
        """What a gradient scaler multiplied the next loss by."""
        self._patched = Patches()
        self._serial = 0
        self._known: dict[int, Any] = {}
        """Parameters of optimizers and modules, by id."""

    @final
    def put(self, bus: Bus) -> None:
        """Wrap what every loop goes through."""
        self._bus = bus
        for owner, name in self.library.backward:
            self._patched.around(owner, name, self.backward)
        self._patched.after(self.library.optimizer, "__init__", self.builds)
        self._patched.before(self.library.module, "zero_grad", self.resets)
        self.watch()

    @abc.abstractmethod
    def watch(self) -> None:
        """Wrap what is one library's."""

    @abc.abstractmethod
    def backward(self, run: Callable[..., None], roots: Any, *args: Any, **kwargs: Any) -> None:
        """A call by which a backward pass begins."""

    @abc.abstractmethod
    def is_abstract(self) -> bool:
        """Whether the program runs on values that are not there: traced, compiled or mapped."""

    @abc.abstractmethod
    def quiet(self) -> AbstractContextManager[object]:
        """Within it nobody sees what is asked of tensors."""

    @abc.abstractmethod
    def graph(self, roots: Sequence[Any]) -> events.Graph:
        """The graph behind tensors."""

    @abc.abstractmethod
    def scale_of(self, root: Any) -> Scale | None:
        """How a loss was scaled; None if that cannot be read."""

    def take(self) -> None:
        """Put everything back."""
        self._patched.undo()
        self._known.clear()

    @final
    def tell(self, event: Any) -> None:
        """Publish an event, where values are known; what is done about it is seen by nobody."""
        if not self.is_abstract():
            with self.quiet():
                self._bus.tell(event)

    @final
    def remember(self, params: Iterable[Any]) -> None:
        """Remember leaves; others (of a functional call) have no `.grad`, and live for a moment."""
        with self.quiet():
            self._known.update({id(p): p for p in params if p.is_leaf})

    # --- backward passes

    @final
    def watch_pass(self, run: Callable[[], object], roots: Any, retained: bool) -> None:
        """Run a backward pass that is not part of another one."""
        begin = before = error = None
        if self._bus.hears(events.BackwardBegins) and not self.is_abstract():
            begin = self._patched.tried(lambda: self._begin(roots, retained))
            before = self._tokens(begin.graph.leaves if begin is not None else ())
        try:
            run()
        except BaseException as raised:
            error = raised
            raise
        finally:
            if begin is not None and before is not None and self._patched.on:
                after = self._tokens(begin.graph.leaves)
                touched = [key for key, token in after.items() if before.get(key) != token]
                self.tell(events.BackwardEnds(begin, frozenset(touched), after, error))

    def _begin(self, roots: Any, retained: bool) -> events.BackwardBegins:
        self._serial += 1
        roots = [roots] if hasattr(roots, "requires_grad") else list(roots)
        graph, scale = self.graph(roots), self.scale_of(roots[0]) if len(roots) == 1 else None
        self.scale = None
        begin = events.BackwardBegins(
            self.engine, self._serial, roots, site(), place(), retained, graph, scale
        )
        self.tell(begin)
        return begin

    def _tokens(self, leaves: Iterable[Any]) -> Mapping[int, tuple[int, ...]]:
        """How the gradients of all known parameters look."""
        with self.quiet():
            every = {**self._known, **{id(x): x for x in leaves}}
            token = self.engine.token
            return {key: token(g) for key, p in every.items() if (g := p.grad) is not None}

    # --- optimizers

    def knows(self, optimizer: Any) -> None:
        """Tell of an optimizer that was there before."""
        self.remember(self.engine.params(optimizer))
        self.tell(events.Built(self.engine, optimizer, None))

    def builds(self, _: None, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        """An optimizer was made."""
        self.remember(self.engine.params(optimizer))
        self.tell(events.Built(self.engine, optimizer, place()))

    def resets(self, owner: Any, *_: Any, **__: Any) -> None:
        """An optimizer, or a module, is about to reset gradients."""
        if self._bus.hears(events.Zeroed):
            is_optimizer = hasattr(owner, "param_groups")
            params = self.engine.params(owner) if is_optimizer else list(owner.parameters())
            self.tell(events.Zeroed(self.engine, params, place()))
