"""The code of a user's `Function`, the same with other code, and what goes through it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from torch import Tensor
from torch.autograd import Function

from chainrule.errors import ConfigError
from chainrule.verify.subject import Source, Subject
from chainrule.verify.user_code import source_of

_BASE = Function.__mro__[1]


def states(function: type[Function], method: str) -> bool:
    """Whether the user stated this method."""
    return getattr(function, method) is not getattr(_BASE, method)


def backward_of(function: type[Function]) -> str:
    """The name of the method that gives gradients; it may have either."""
    return "vjp" if states(function, "vjp") else "backward"


def saves_of(function: type[Function]) -> str:
    """The name of the method that keeps values for the backward."""
    return "setup_context" if states(function, "setup_context") else "forward"


def having(function: type[Function], method: str, f: Callable[..., Any]) -> type[Function]:
    """The same function with `f` as one of its methods."""
    return cast("Any", type(function.__name__, (function,), {method: staticmethod(f)}))


def source_of_function(
    function: type[Function], subject_of: Callable[[type[Function]], Subject]
) -> Source | None:
    """The code of its backward, and in it that of the method which saves; None if it has none.

    `subject_of` gives the subject of a function with other code.
    """
    backward = _source(function, backward_of(function), subject_of)
    if backward is None:
        return None
    saves = saves_of(function)
    computing = _source(function, "forward", subject_of) if saves != "forward" else None
    return replace(backward, forward=_source(function, saves, subject_of), computing=computing)


def _source(
    function: type[Function], method: str, subject_of: Callable[[type[Function]], Subject]
) -> Source | None:
    changed: Callable[[Callable[..., Any]], Subject] = lambda g: subject_of(
        having(function, method, g)
    )
    return source_of(getattr(function, method), changed)


class Recorded:
    """`function`, run by PyTorch as it is, with the returned gradients and the arguments kept.

    `split` says that the function has a
    `setup_context`, so that its forward gets no `ctx`; `saves` names the method that keeps values.
    """

    def __init__(self, function: type[Function]) -> None:
        key = backward_of(function)
        if not states(function, key):
            raise ConfigError(
                f"{function.__name__} has neither backward nor vjp: there is no gradient to verify"
            )
        self.function = function
        self.backward: Callable[..., Any] = getattr(function, key)
        self.saves = saves_of(function)
        self.split = self.saves == "setup_context"
        self.returned: Any = None
        self.watched = False
        self.given: list[Any] = []
        self.dirty: frozenset[int] = frozenset()
        self.between: list[Any] = []
        """The arguments as they were when the backward of a watched call began."""
        methods = {key: staticmethod(self._backward), **self._forwards()}
        self._class = cast("Any", type(function.__name__, (function,), methods))

    def bound(self, args: Sequence[Any]) -> list[Any]:
        """args, with the defaults of a forward that gets no `ctx`, as `apply` fills them in."""
        if not self.split:
            return list(args)
        call = inspect.signature(self.function.forward).bind(*args)
        call.apply_defaults()
        return list(call.args)

    def apply(self, args: Sequence[Any]) -> Any:
        """What `function.apply` returns."""
        if self.watched:
            self.given = list(args)
        return self._class.apply(*args)

    def fits(self, count: int) -> tuple[Any, ...] | None:
        """What backward returned, one for each of `count` arguments; None if it did not, or if
        their number is wrong, which PyTorch refuses."""
        if self.returned is None:
            return None
        raw: tuple[Any, ...] = self.returned
        if len(raw) < count or any(x is not None for x in raw[count:]):
            return None
        return raw[:count]

    def _backward(self, ctx: Any, *gs: Any) -> Any:
        if self.watched:
            self.between = [x.clone() if isinstance(x, Tensor) else x for x in self.given]
        out = self.backward(ctx, *gs)
        self.returned = (
            tuple(cast("Sequence[Any]", out)) if isinstance(out, tuple | list) else (out,)
        )
        return cast("Any", out)

    def _forwards(self) -> dict[str, Any]:
        """The method after which what was marked dirty is known."""
        user = cast("Callable[..., Any]", getattr(self.function, self.saves))

        def watching(ctx: Any, *args: Any) -> Any:
            out = user(ctx, *args)
            if self.watched:
                marked = [id(x) for x in getattr(ctx, "dirty_tensors", None) or ()]
                self.dirty = frozenset([i for i, x in enumerate(self.given) if id(x) in marked])
            return out

        return {self.saves: staticmethod(watching)}


class StandIn:
    """Takes what a forward says to its `ctx`, and keeps what it saves."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.saved_tensors: tuple[Any, ...] = ()
        self.constant: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """As on a real one."""
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """As on a real one."""

    def mark_dirty(self, *tensors: Any) -> None:
        """As on a real one."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """As on a real one; `constant` holds them."""
        self.constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """As on a real one."""
