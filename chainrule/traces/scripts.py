"""One step of a training script, recorded: the script runs unmodified, up to that step's end.

A step ends where an optimizer is about to change its parameters. Where no optimizer was made, it
ends with a backward pass, or with the outermost `grad` of a function.
"""

# pyright: reportPrivateUsage=false
# (all operators are one run of a function and one sweep over it, which ends a step here)

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any, final

from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.optim.optimizer import Optimizer
from chainrule.optional import require
from chainrule.scalar import Value
from chainrule.traces.kept_values import MAX_ELEMENTS
from chainrule.traces.record import Recording
from chainrule.traces.trace import Trace
from chainrule.transforms.functional import _Run
from chainrule.tree import flatten
from chainrule.verify.patches import Patches
from chainrule.verify.script.session import Stop
from chainrule.verify.script.target import as_main, target


def record_script(
    path: str | Path,
    argv: Sequence[str] = (),
    *,
    step: int = 1,
    max_elements: int | None = MAX_ELEMENTS,
    certify: bool | None = None,
) -> Trace:
    """Run a script with its arguments as Python would; its step number `step`, from 1, as a trace.

    The script is stopped as soon as that step's gradients are there. Other settings are those of
    `record`. Raises `ConfigError` if there is no such file, if the script raises or ends before, or
    if it runs no backward pass.
    """
    if step < 1:
        raise ConfigError(f"record_script: steps are counted from 1, not {step}")
    code = target(str(path))
    if "torch" in (*code.code.co_names, *sys.modules):
        require("torch", "record_script")  # so that it is watched from the first line on
    run = _Steps(code.file, step, partial(Recording, max_elements, certify))
    with as_main(code, argv) as namespace:
        try:
            with run:
                exec(code.code, namespace)
        except Stop:
            pass
        except SystemExit as ending:
            run.ending = f"it ended with exit code {ending.code!r}"
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise ConfigError(f"{code.name} raised {said:.300}") from error
        finally:
            sys.stdout.flush()
        scopes = [*run.scopes, namespace]
    return run.trace(code.name, scopes)


def _classes(cls: type) -> list[type]:
    return [cls, *[inner for sub in cls.__subclasses__() for inner in _classes(sub)]]


@final
class _Steps:
    """Counts steps, a recording for each, and stops the script after one."""

    def __init__(self, file: str, step: int, new: Callable[..., Recording]) -> None:
        self.ending = ""
        self.scopes: list[Mapping[str, Any]] = []
        self._file, self._step = file, step
        self._new = partial(new, self._pass_ended)
        self._done = 0
        self._optimizers = False
        self._patches = Patches()
        self._recording = self._new()

    def __enter__(self) -> None:
        self._patches.after(Optimizer, "__init__", self._note_optimizer)
        self._patches.put(Optimizer, "step", self._before_step)
        self._patches.put(Tensor, "backward", self._after_backward)
        self._patches.put(Value, "backward", self._after_backward)
        self._patches.put(_Run, "pull", self._after_backward)
        self._recording.start()
        if "torch" in sys.modules:
            self._watch_torch()

    def _watch_torch(self) -> None:
        """PyTorch's optimizers end steps, too; of its backward passes the recording tells."""
        torch: Any = sys.modules["torch"]
        self._patches.after(torch.optim.Optimizer, "__init__", self._note_optimizer)
        for cls in _classes(torch.optim.Optimizer):
            if "step" in vars(cls):
                self._patches.put(cls, "step", self._before_step)

    def __exit__(self, *error: object) -> None:
        self._patches.undo()
        self._recording.stop()

    def _note_optimizer(self, *_: Any, **__: Any) -> None:
        self._optimizers = True

    def _before_step(self, f: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if self._patches.on and self._recording.has_backward:
                self._end()
                result = f(*args, **kwargs)
                self._begin()
                return result
            return f(*args, **kwargs)

        return wrapper

    def _after_backward(self, f: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = f(*args, **kwargs)
            self._pass_ended(result)
            return result

        return wrapper

    def _pass_ended(self, result: Any) -> None:
        """A step ends here, unless an optimizer ends it or the result is to be differentiated."""
        outermost = not any(getattr(x, "requires_grad", False) for x in flatten(result)[0])
        on = self._patches.on and not self._optimizers
        if on and outermost and self._recording.has_backward:
            self._end()
            self._begin()

    def _end(self) -> None:
        self._done += 1
        if self._done == self._step:
            frame: FrameType | None = sys._getframe()
            while frame is not None:
                if frame.f_code.co_filename == self._file:
                    self.scopes.append(dict(frame.f_locals))
                frame = frame.f_back
            raise Stop

    def _begin(self) -> None:
        self._recording.stop()
        self._recording = self._new()
        self._recording.start()

    def trace(self, name: str, scopes: Sequence[Mapping[str, Any]]) -> Trace:
        """The step's trace; the unfinished one of a script that ended in the middle of it."""
        if self._done < self._step and not self._recording.has_backward:
            raise ConfigError(f"{name}: {self._missing()}")
        return self._recording.finish(Path(name).name, scopes, pruned=True)

    def _missing(self) -> str:
        end = f"; {self.ending}" if self.ending else ""
        if not self._done:
            return (
                f"it runs no backward pass, so there is no step to record{end}. A step of "
                "PyTorch's or chainrule's is recorded; gradients that a program computes by hand "
                "are checked by `chainrule verify`"
            )
        return f"it ended after {self._done} steps, before step {self._step}{end}"
