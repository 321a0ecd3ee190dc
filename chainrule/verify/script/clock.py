"""When a step of training is done, for scripts that know nothing of us.

A step is done when every optimizer that takes part has made its own: two of a GAN's count as one
step. A loop without an optimizer object, which changes its parameters by hand, is counted by its
backward passes from one line, or by the derivatives that it takes of one function at other and
other values: the next one says that the step before is over.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

from chainrule.verify.patches import Patches
from chainrule.verify.training.record.library import torch_library
from chainrule.verify.user_frames import Line, here

Origin: TypeAlias = tuple[Line | None, tuple[tuple[int, ...], ...]]
"""A line on which an optimizer is made, and the shapes of its parameters."""
PATIENCE = 8
"""Steps that a scaler may skip in a row: it starts at 2^16 and is halved each time."""
OFTEN = 4
"""An optimizer that steps this many times as often as another one need not wait for it."""


class Steps:
    """Counts; `done(k)` is called when step k, from 1 on, is done."""

    def __init__(self, done: Callable[[int], None]) -> None:
        self._done = done
        self._counts: dict[int, int] = {}
        self._turns: dict[Any, int] = {}
        self.made_at: set[Origin] = set()
        """Where optimizers were made, and of what."""
        self.loaded_at: set[Line] = set()
        """Where values were loaded into modules."""
        self._made = False
        self._backwards = 0
        self._passes: dict[Line | None, int] = {}
        """Backward passes by line, as long as there is no optimizer."""
        self._derived = False
        self._depth = 0
        self._skipped: dict[int, int] = {}
        """By optimizer: steps that a scaler has skipped."""
        self.last = 0
        """The number of the last step that is done."""
        self.compiled: list[str] = []
        """Names of compiled functions that hold a step."""

    @property
    def has_seen_training(self) -> bool:
        """Whether anything of a training was seen: a step, or a backward pass."""
        return bool(self._counts or self._turns) or self._backwards > 0

    @property
    def is_watched(self) -> bool:
        """Whether an optimizer, a backward pass or a derivative of a function was seen: what a step
        is, these tell."""
        return self._made or self._backwards > 0 or bool(self._counts) or self._derived

    def note_optimizer(self, params: Any = ()) -> None:
        """An optimizer was made, of parameters."""
        self._made = True
        self.made_at.add((here(), shapes_of(params)))

    def note_load(self, *_: Any, **__: Any) -> None:
        """Values are about to be loaded into a module."""
        if (at := here()) is not None:
            self.loaded_at.add(at)

    def note_step(self, optimizer: Any) -> None:
        """An optimizer made a step, or skipped one for good."""
        self._made = True
        self._counts[id(optimizer)] = self._counts.get(id(optimizer), 0) + 1
        self._reach(_common(self._counts))

    def note_iteration(self, function: Any) -> None:
        """The derivative of a function is about to be taken again, at other values."""
        self._turns[function] = self._turns.get(function, 0) + 1
        if not self._made:
            self._reach(_common(self._turns))

    def note_derivative(self) -> None:
        """The derivative of a function is taken."""
        self._derived = True

    def count(self, optimizer: Any) -> int:
        """How many steps an optimizer has made."""
        return self._counts.get(id(optimizer), 0)

    @contextmanager
    def inside(self) -> Generator[bool]:
        """Within a backward pass; whether it is not part of another one."""
        self._depth += 1
        try:
            yield self._depth == 1
        finally:
            self._depth -= 1

    def note_backward(self) -> None:
        """A backward pass begins: the second one from a line begins the second step."""
        self._backwards += 1
        if not self._made:
            line = here()
            count = self._passes.get(line, 0)
            self._passes[line] = count + 1
            self._reach(count)

    def count_step(self, step: Any, optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call of an optimizer's `step`, which counts if that of a base class has not."""
        count = self.count(optimizer)
        result = step(optimizer, *args, **kwargs)
        if self.count(optimizer) == count:
            self.note_step(optimizer)
        return result

    def count_scaler(
        self, step: Any, scaler: Any, optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:  # fmt: skip
        """A scaler that found infinities does not call the optimizer, but the loop goes on. It does
        so until it has found its scale; if that takes longer than usual, these are steps as others
        are."""
        count, key = self.count(optimizer), id(optimizer)
        result = step(scaler, optimizer, *args, **kwargs)
        if self.count(optimizer) == count:
            self._skipped[key] = self._skipped.get(key, 0) + 1
            if self._skipped[key] >= PATIENCE:
                self.note_step(optimizer)
        return result

    def count_pass(self, run: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A backward pass, which counts as it begins."""
        with self.inside() as outermost:
            if outermost:
                self.note_backward()
            return run(*args, **kwargs)

    def _reach(self, step: int) -> None:
        if step > self.last:
            self.last = step
            self._done(step)


def listed(params: Any) -> Any:
    """What an optimizer is given, generators as lists, so that it can be read twice."""
    if isinstance(params, dict):
        group = cast("dict[str, Any]", params)
        return {**group, "params": listed(group.get("params"))}
    if hasattr(params, "shape") or not isinstance(params, Iterable):
        return params
    return [listed(x) for x in cast("Iterable[Any]", params)]


def shapes_of(params: Any) -> tuple[tuple[int, ...], ...]:
    """Shapes of the tensors in nested lists and groups of an optimizer's parameters."""
    if isinstance(params, dict):
        params = cast("dict[str, Any]", params).get("params", ())
    if isinstance(params, list | tuple):
        return tuple([s for x in cast("list[Any]", params) for s in shapes_of(x)])
    return (tuple(params.shape),) if hasattr(params, "shape") else ()


def _common(counts: Mapping[Any, int]) -> int:
    """How many steps all have made that take part."""
    return max(min(counts.values()), max(counts.values()) // OFTEN)


def watch_torch(steps: Steps, patches: Patches) -> None:
    """Let PyTorch's optimizers and backward passes count.

    Not by PyTorch's own hooks: what happens at the end of a step takes hooks away, and PyTorch goes
    through its list of hooks at that very moment. So each class's `step` is wrapped from outside.
    """
    library = torch_library()
    known: set[type] = set()

    def made(_: None, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        steps.note_optimizer([group["params"] for group in optimizer.param_groups])
        kind: Any = optimizer.__class__
        if kind not in known:
            known.add(kind)
            patches.around(kind, "step", steps.count_step)

    patches.after(library.optimizer, "__init__", made)
    patches.before(library.module, "load_state_dict", steps.note_load)
    for owner, name in (*library.backward, *library.grad):
        patches.around(owner, name, steps.count_pass)
    patches.around(library.scaler, "step", steps.count_scaler)
