"""When a step of training is done, for scripts that know nothing of us.

A step is done when every optimizer that takes part has made its own: two of a GAN's count as one
step. A loop without an optimizer object, which changes its parameters by hand, is counted by its
backward passes: the next one says that the step before is over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from chainrule.verify.script.patches import Patches

OFTEN = 4
"""An optimizer that steps this many times as often as another one need not wait for it."""


class Steps:
    """Counts; `done(k)` is called when step k, from 1 on, is done."""

    def __init__(self, done: Callable[[int], None]) -> None:
        self._done = done
        self._counts: dict[int, int] = {}
        self._made = False
        self._backwards = 0
        self.last = 0
        """The number of the last step that is done."""

    @property
    def seen(self) -> bool:
        """Whether anything of a training was seen: a step, or a backward pass."""
        return bool(self._counts) or self._backwards > 0

    @property
    def backwards(self) -> int:
        """Backward passes so far."""
        return self._backwards

    def made(self) -> None:
        """An optimizer was made."""
        self._made = True

    def stepped(self, optimizer: Any) -> None:
        """An optimizer made a step, or skipped one on purpose."""
        self._made = True
        self._counts[id(optimizer)] = self._counts.get(id(optimizer), 0) + 1
        self._reach(max(min(self._counts.values()), max(self._counts.values()) // OFTEN))

    def count(self, optimizer: Any) -> int:
        """How many steps an optimizer has made."""
        return self._counts.get(id(optimizer), 0)

    def backward(self) -> None:
        """A backward pass begins."""
        if not self._made:
            self._reach(self._backwards)
        self._backwards += 1

    def _reach(self, step: int) -> None:
        if step > self.last:
            self.last = step
            self._done(step)


def watch_torch(steps: Steps, patches: Patches) -> Callable[[], None]:
    """Let PyTorch's optimizers and backward passes count; what is returned takes the hook away."""
    import torch
    from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

    def stepped(optimizer: Any, *_: Any) -> None:
        steps.stepped(optimizer)

    hook = register_optimizer_step_post_hook(stepped)
    patches.put(Optimizer, "__init__", lambda f: _after(f, steps.made))
    patches.put(torch.autograd, "backward", lambda f: _before(f, steps.backward))
    patches.put(torch.autograd, "grad", lambda f: _before(f, steps.backward))
    patches.put(torch.amp.GradScaler, "step", lambda f: _scaled(f, steps))
    return hook.remove


def watch_own(steps: Steps, patches: Patches) -> None:
    """Let chainrule's optimizers and backward passes count."""
    from chainrule.optim.optimizer import Optimizer
    from chainrule.tensor import Tensor

    def stepping(step: Any) -> Any:
        @wraps(step)
        def observed(self: Any) -> Any:
            result = step(self)
            steps.stepped(self)
            return result

        return observed

    patches.put(Optimizer, "__init__", lambda f: _after(f, steps.made))
    patches.put(Optimizer, "step", stepping)
    patches.put(Tensor, "backward", lambda f: _before(f, steps.backward))


def _scaled(step: Any, steps: Steps) -> Any:
    """A scaler that found infinities does not call the optimizer, but the loop goes on."""

    @wraps(step)
    def observed(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = steps.count(optimizer)
        result = step(self, optimizer, *args, **kwargs)
        if steps.count(optimizer) == before:
            steps.stepped(optimizer)
        return result

    return observed


def _before(f: Any, tell: Callable[[], None]) -> Any:
    @wraps(f)
    def observed(*args: Any, **kwargs: Any) -> Any:
        tell()
        return f(*args, **kwargs)

    return observed


def _after(f: Any, tell: Callable[[], None]) -> Any:
    @wraps(f)
    def observed(*args: Any, **kwargs: Any) -> Any:
        result = f(*args, **kwargs)
        tell()
        return result

    return observed
