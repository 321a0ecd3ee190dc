"""Calls of the hooks that a user put on PyTorch's backward pass, as events: those that change what
they are given.

PyTorch's documentation of `Tensor.register_hook` and `Module.register_full_backward_hook` asks that
a hook leave its argument as it is, and lets it return another gradient instead: the one it is given
may be another node's as well, or be used again. A version number tells of a write; values are
compared at the first call of a hook, and after a write was seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from types import CodeType
from typing import Any, NamedTuple, cast, final

import torch
from torch import Tensor

from chainrule.verify.patches import Patches
from chainrule.verify.training.record.bus import Bus, Tap
from chainrule.verify.training.record.torch_engine import is_abstract, stream
from chainrule.verify.training.record.torch_loop import TorchTap
from chainrule.verify.user_frames import is_library

_LARGE = 1 << 26
"""Elements from which on no copy is made."""
_MEASURED = 3
"""Changes of one hook that are measured."""
ROUNDED = 1e-3
"""Relative difference of quotients that are one number, in the coarsest dtypes that train."""
_DRAWS = 3
"""Calls of one hook at which the random numbers are looked at."""
_GIVEN = {
    "_get_backward_hooks": ("grad_input", "grad_output"),
    "_get_backward_pre_hooks": ("grad_output",),
}
"""Where a module has its hooks, and what they are given after the module."""


class HookCalled(NamedTuple):
    """A hook of the user's has run."""

    code: CodeType
    what: str
    """What it changed: "the gradient", "grad_output[0]"; empty if nothing."""
    returned: bool
    """Whether it returned something."""
    drew: bool
    """Whether it drew random numbers, and returned something."""
    change: Change | None
    instead: Change | None = None
    """How what it returned differs from what it was given, and left as it is."""


class Change(NamedTuple):
    """By how much a gradient changed."""

    moved: int
    """Elements that changed."""
    size: int
    share: float
    """Norm of the difference by the norm of what it was."""
    factor: float | None = None
    """What the elements are multiplied by that are not 0, if it is one number."""


@dataclass(frozen=True, eq=False)
class _Before:
    """A gradient as a hook was given it."""

    what: str
    tensor: Tensor
    version: int
    copy: Tensor | None

    def changed(self) -> bool:
        """Whether it has been written to."""
        if self.tensor._version != self.version:
            return True
        return self.copy is not None and bool(_differences(self.tensor.detach(), self.copy).any())


@final
class HookTap(Tap):
    """Puts events of hooks on the bus."""

    def __init__(self, main: TorchTap) -> None:
        self._main = main
        self._patched = Patches()
        self._on = False
        library: Any = torch
        self._unseen = library._C.DisableTorchFunction
        self._put: list[tuple[Any, int, Any, Any]] = []
        """Hooks of tensors that are watched: their dict (weakly), the key, ours, the user's."""
        self._calls: dict[CodeType, int] = {}
        self._measured: dict[CodeType, int] = {}

    def put(self, bus: Bus) -> None:
        """Watch hooks that are registered from now on."""
        self._on = True
        self._main.adopt = self.adopt
        self._main.before_compiling.append(self._leave)
        self._patched.around(Tensor, "register_hook", self._registering)
        for name, given in _GIVEN.items():
            if hasattr(torch.nn.Module, name):
                self._patched.around(torch.nn.Module, name, partial(self._listing, given))

    def take(self) -> None:
        """Give all tensors back the hooks that they were given."""
        self._leave()
        self._patched.undo()

    def _leave(self) -> None:
        """Watch no more: what is compiled is compiled with all that looks at it."""
        self._on = False
        for ref, key, ours, hook in self._put:
            hooks = ref()
            if hooks is not None and hooks.get(key) is ours:
                hooks[key] = hook
        self._put.clear()

    def adopt(self, leaves: Iterable[Any]) -> None:
        """Watch the hooks that leaves were given before we came."""
        found = [hooks for leaf in leaves if self._on and (hooks := leaf._backward_hooks)]
        for hooks in found:
            for key, hook in list(hooks.items()):
                ours = self._watch(hook, ("the gradient",))
                if ours is not hook:
                    self._put.append((weakref.ref(hooks), key, ours, hook))
                    hooks[key] = ours

    def _registering(self, register: Callable[..., Any], tensor: Any, hook: Any) -> Any:
        ours = self._watch(hook, ("the gradient",))
        handle = register(tensor, ours)
        if ours is not hook:
            ref: Any = getattr(handle, "hooks_dict_ref", None)
            if ref is not None:
                self._put.append((ref, handle.id, ours, hook))
        return handle

    def _listing(self, given: Sequence[str], get: Callable[..., Any], module: Any) -> Any:
        """What a module says its hooks are; PyTorch asks for each call of the module."""
        found = get(module)
        if isinstance(found, tuple):  # the second ones are of an older kind
            full, older = cast("tuple[list[Any], list[Any]]", found)
            return [self._watch(hook, ("", *given)) for hook in full], older
        return [self._watch(hook, ("", *given)) for hook in found]

    # --- calls

    def _watch(self, hook: Any, given: Sequence[str]) -> Any:
        """The hook, telling of what it does; itself if it is a library's, or is watched."""
        code = code_of(hook) if self._on else None
        if code is None or is_library(code.co_filename):  # such as our own
            return hook
        return self._patched.tried(lambda: self._wrap(hook, code, given)) or hook

    def _wrap(self, hook: Any, code: CodeType, given: Sequence[str]) -> Any:
        """The hook, watched: what it was given, whether it changed that, or drew numbers."""

        @wraps(hook)
        def watched(*args: Any) -> Any:
            if not self._on or is_abstract(torch):
                return hook(*args)
            rows = self._patched.tried(lambda: self._before(code, given, args))
            looks = self._calls.get(code, 0) <= _DRAWS
            state = self._patched.tried(_stream) if looks else None
            out = hook(*args)
            drew = state is not None and self._patched.tried(_stream) != state
            if rows:
                self._patched.tried(lambda: self._after(code, rows, given, out, drew))
            return out

        return watched

    def _before(self, code: CodeType, given: Sequence[str], args: Sequence[Any]) -> list[_Before]:
        first = not self._calls.get(code)
        self._calls[code] = self._calls.get(code, 0) + 1
        copies = first or 0 < self._measured.get(code, 0) < _MEASURED
        with self._unseen():
            return [
                _Before(what, t, t._version, _copy(t) if copies else None)
                for what, t in _name_tensors(given, args)
            ]

    def _after(
        self, code: CodeType, rows: Sequence[_Before], given: Sequence[str], out: Any, drew: bool
    ) -> None:
        with self._unseen(), torch.no_grad():
            written = [row for row in rows if row.changed()]
            change = instead = None
            if written:
                self._measured[code] = self._measured.get(code, 0) + 1
                change = _measure(written[0])
            elif out is not None and self._calls[code] <= _MEASURED:
                instead = _replacement(rows, next(filter(None, given)), out)
        what, returned = written[0].what if written else "", out is not None
        self._main.tell(HookCalled(code, what, returned, drew and returned, change, instead))


def _stream() -> bytes:
    return stream(torch)


def _name_tensors(given: Sequence[str], args: Sequence[Any]) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a hook is given, and what they are called."""
    for what, arg in zip(given, args, strict=False):
        if isinstance(arg, Tensor):
            yield what, arg
        elif isinstance(arg, tuple):
            parts = enumerate(cast("tuple[Any, ...]", arg))
            yield from [(f"{what}[{i}]", t) for i, t in parts if isinstance(t, Tensor)]


def _copy(t: Tensor) -> Tensor | None:
    """Its values, if they are few enough and can be compared."""
    return t.detach().clone() if t.layout is torch.strided and t.numel() < _LARGE else None


def _differences(a: Tensor, b: Tensor) -> Tensor:
    """Where elements differ; NaN is like NaN."""
    return (a != b) & ~((a != a) & (b != b))


def _measure(row: _Before) -> Change | None:
    return None if row.copy is None else _compare(row.tensor.detach(), row.copy)


def _replacement(rows: Sequence[_Before], name: str, out: Any) -> Change | None:
    """How what a hook returned differs from what it takes the place of, where that differs most."""
    was = {row.what: row.tensor.detach() for row in rows}
    out = (out,) if isinstance(out, Tensor) and name not in was else out  # one stands for a tuple
    pairs = [(t.detach(), was.get(what)) for what, t in _name_tensors((name,), (out,))]
    found = [_compare(a, b) for a, b in pairs if b is not None and _comparable(a, b)]
    return max(found, key=lambda c: c.share, default=None)


def _comparable(a: Tensor, b: Tensor) -> bool:
    same = a.shape == b.shape and a.device == b.device
    return same and a.layout is b.layout is torch.strided and a.numel() < _LARGE


def _compare(now: Tensor, before: Tensor) -> Change:
    wide = torch.promote_types(before.dtype, torch.float32)
    a, b = now.to(wide), before.to(wide)
    moved, was = float(torch.dist(a, b)), float(torch.dist(b, torch.zeros_like(b)))
    share = moved / was if was else float(moved > 0)
    return Change(int(_differences(now, before).sum()), before.numel(), share, _factor(a, b))


def _factor(now: Tensor, before: Tensor) -> float | None:
    both = (now != 0) & (before != 0)
    if not both.any() or now.is_complex():
        return None
    ratios = now[both] / before[both]
    mean = float(ratios.mean())
    return mean if float((ratios - mean).abs().max()) <= ROUNDED * abs(mean) else None


def code_of(hook: Any) -> CodeType | None:
    """The code of a function, a method, a partial or an object that can be called."""
    while isinstance(hook, partial):
        hook = cast("partial[Any]", hook).func
    own = getattr(hook, "__code__", None)
    code = own or getattr(getattr(hook.__class__, "__call__", None), "__code__", None)  # noqa: B004
    return code if isinstance(code, CodeType) else None
