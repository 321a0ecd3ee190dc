"""One call of a `torch.autograd.Function` as a subject.

Forward and backward are those that PyTorch runs: through `apply` and through its engine, with saved
tensors checked, hooks run, cotangents materialised. What `backward` itself returned is recorded on
the way, before the engine sums, casts or refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from chainrule.verify.pytorch.convert import Array, is_float, plain, tensor_like, to_numpy, to_torch
from chainrule.verify.pytorch.derivation import derivative
from chainrule.verify.pytorch.derivatives import gradients
from chainrule.verify.pytorch.observing.held_modules import held, with_holders
from chainrule.verify.pytorch.replays import Replay
from chainrule.verify.pytorch.sources import (
    Recorded,
    StandIn,
    backward_of,
    having,
    source_of_function,
)
from chainrule.verify.subject import Input, Source, Subject, needed_inputs
from chainrule.verify.user_code import argument_names, place_of

KIND = "torch.autograd.Function"


class FunctionSubject(Subject):
    """A function at the arguments of one `apply` (see `functions.subject_of_function`)."""

    kind = KIND

    def __init__(
        self,
        function: type[torch.autograd.Function],
        args: Sequence[Any],
        *,
        name: str | None = None,
        backward: Callable[..., Any] | None = None,
        replay: Replay | None = None,
    ) -> None:
        if backward is not None:
            function = having(function, backward_of(function), backward)
        self.function = function
        self.recorded = Recorded(function)
        args = self.recorded.bound(with_holders(args))
        self._like = tuple(args)
        self._replay = replay or Replay.of(args)
        self.name = name or function.__name__
        self.place = place_of(function.forward)
        self.backward_place = place_of(self.recorded.backward)
        names = argument_names(function.forward, len(args), skip=0 if self.recorded.split else 1)
        values = [plain(x) for x in args]
        self._outputs: tuple[bool, ...] | None = None
        rows = zip(names, values, args, strict=True)
        self.inputs = tuple([Input(n, v, is_float(x)) for n, v, x in rows])
        asked = [is_float(x) and x.requires_grad for x in args]
        self.inputs = needed_inputs(self.inputs, asked, self._pull_ones)

    def _pull_ones(self, inputs: tuple[Input, ...]) -> tuple[Array | None, ...]:
        """What the backward gives for cotangents of 1, where some inputs are wanted."""
        changed = copy(self)
        changed.inputs = inputs
        return changed.pull(self.values, [np.ones_like(y) for y in changed.forward(self.values)])

    @property
    def values(self) -> tuple[Any, ...]:
        """The point."""
        return tuple([x.value for x in self.inputs])

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """`apply` on copies, without a graph."""
        args = self._tensors(xs)
        if self._outputs is None:
            ys, leaves = self._applied(args)
            self._outputs = tuple([bool(y.requires_grad) for y in ys])
            del leaves
        else:
            with torch.no_grad(), self._replay.running(args):
                ys = _tensors_in(self.recorded.apply(held(args)))
        keep = self._outputs if len(self._outputs) == len(ys) else [is_float(y) for y in ys]
        return tuple([to_numpy(y) for y, k in zip(ys, keep, strict=True) if k])

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """What `backward` returns when PyTorch's engine calls it; where it returned one for each
        use of a broadcast input, their sum, as the engine makes it."""
        args = self._tensors(xs)
        return self._gradients(args, self._pulled(args, [to_torch(g) for g in gs]))

    def interrupted(
        self, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
    ) -> tuple[Array | None, ...]:
        """The same with another `apply` before the backward, and its own backward before this one,
        as where a network has two of them. Each has cotangents of its own, into which it may
        write."""
        args, other = self._tensors(xs), self._tensors(others)
        bars, sent = ([to_torch(g) for g in gs] for _ in range(2))
        raw = self._pulled(args, bars, lambda: self._pulled(other, sent))
        return self._gradients(args, raw)

    def _gradients(self, args: Sequence[Any], raw: Sequence[Any]) -> tuple[Array | None, ...]:
        wanted = [x.wanted for x in self.inputs]
        return tuple([_gradient_array(r, w, a) for r, w, a in zip(raw, wanted, args, strict=True)])

    def summed(self, xs: Sequence[Any], gs: Sequence[Array]) -> dict[int, tuple[int, ...]]:
        """Inputs whose gradient PyTorch's engine sums to their shape."""
        args = self._tensors(xs)
        raw = self._pulled(args, [to_torch(g) for g in gs])
        return {
            i: tuple(r.shape)
            for i, (r, a) in enumerate(zip(raw, args, strict=True))
            if self.inputs[i].wanted and _broadcast(r, a)
        }

    def _tensors(self, xs: Sequence[Any]) -> list[Any]:
        return [tensor_like(x, like) for x, like in zip(xs, self._like, strict=True)]

    def _applied(self, args: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
        """Outputs with their graph, and the leaves that they come from.

        The function gets copies of the leaves: what is changed in place must not be a leaf.
        """
        leaves = [
            x.requires_grad_() if i.wanted and is_float(x) else x
            for x, i in zip(args, self.inputs, strict=True)
        ]
        with torch.enable_grad(), self._replay.running(args):
            given = [x.clone() if isinstance(x, Tensor) else x for x in leaves]
            ys = _tensors_in(self.recorded.apply(held(given)))
        return ys, leaves

    def _pulled(
        self,
        args: Sequence[Any],
        gs: Sequence[Tensor],
        between: Callable[[], object] = lambda: None,
    ) -> tuple[Any, ...]:
        """The gradients that autograd gives of a new call, `between` being done before its
        backward."""
        ys, leaves = self._applied(args)
        held = between()  # with its graph, as long as this one's
        out = [y for y in ys if y.requires_grad]
        self._outputs = self._outputs or tuple([y.requires_grad for y in ys])
        wrt = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
        if not out or not wrt:
            return (None,) * len(leaves)
        self.recorded.returned = None
        try:
            with self._replay.running(args):
                gradients(out, gs, wrt)
        except Exception:  # the engine refuses what backward returned; that is looked at here
            if self.recorded.fits(len(leaves)) is None:
                raise
        del held
        raw = self.recorded.fits(len(leaves))
        if raw is None:
            raise RuntimeError(f"{self.name}: PyTorch never called its backward")
        return raw

    def _watched(
        self, args: Sequence[Any], gs: Sequence[Tensor]
    ) -> tuple[Sequence[Any], Collection[int]]:
        """The arguments as forward and backward leave them, and those that are said to change."""
        self.recorded.watched = True
        try:
            self._pulled(args, gs)
            return self.recorded.given, self.recorded.dirty
        finally:
            self.recorded.watched = False
            self.recorded.given = []

    def repeated(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """The second of two calls with the same buffers: tensors that have no gradient."""
        given, _ = self._watched(self._tensors(xs), [to_torch(g) for g in gs])
        again = [
            plain(y) if isinstance(y, Tensor) and not i.wanted else x
            for i, x, y in zip(self.inputs, xs, given, strict=True)
        ]
        ys, others = self.forward(xs), self.forward(again)
        same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ys, others, strict=True))
        return self.pull(again, gs) if same else None

    def changes(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[str, ...]:
        """Arguments that changed without `ctx.mark_dirty`, and cotangents that changed at all.

        A forward may write to buffers, which have no gradient: running statistics are such.
        """
        args, tensors = self._tensors(xs), [to_torch(g) for g in gs]
        before = [x.clone() if isinstance(x, Tensor) else x for x in args]
        self.recorded.between = before
        given, dirty = self._watched(args, tensors)
        names: list[str] = []
        rows = zip(self.inputs, before, self.recorded.between, strict=True)
        known = [first if i.wanted else later for i, first, later in rows]
        for i, (old, new) in enumerate(zip(known, given, strict=True)):
            changed = isinstance(new, Tensor) and not _is_same(cast("Tensor", old), new)
            if changed and i not in dirty:
                names.append(self.inputs[i].name)
        several = len(gs) > 1
        for i, (g, t) in enumerate(zip(gs, tensors, strict=True)):
            if not _is_same(to_torch(g), t):
                names.append(f"cotangent of output {i}" if several else "the cotangent")
        return tuple(names)

    def derived(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """What PyTorch derives from the forward's code, run outside of the function."""
        wanted, args = [x.wanted for x in self.inputs], self._tensors(xs)
        return derivative(lambda xs: self._outside(held(xs)), args, wanted, gs, self._replay)

    def _outside(self, args: Sequence[Any]) -> list[Tensor]:
        """The outputs that have a gradient, of the forward run outside the function."""
        ctx = StandIn(tuple([x.wanted for x in self.inputs]))
        first = [] if self.recorded.split else [ctx]
        ys = _tensors_in(self.function.forward(*first, *args))
        if self.recorded.split:
            return ys
        return [y for y in ys if not any(y is c for c in ctx.constant)]

    @property
    def functions(self) -> list[Callable[..., object]]:
        """Its methods, whether their text is known or not."""
        return [self.recorded.backward, self.function.forward]

    @property
    def source(self) -> Source | None:
        """The code of `backward`, and of what saves for it."""
        return source_of_function(self.function, self._changed)

    def _changed(self, function: type[torch.autograd.Function]) -> Subject:
        """The same with other code; it stands where the user's does."""
        changed = copy(self)
        changed.function, changed.recorded = function, Recorded(function)
        return changed


def _tensors_in(ys: Any) -> list[Tensor]:
    outputs = cast("Sequence[Any]", ys) if isinstance(ys, tuple | list) else (ys,)
    return [y for y in outputs if isinstance(y, Tensor)]


def _gradient_array(x: Any, wanted: bool, arg: Any) -> Array | None:
    if not wanted or x is None:
        return None
    if isinstance(x, Tensor):
        summed = cast("Any", x).sum_to_size(arg.shape) if _broadcast(x, arg) else x
        return to_numpy(summed)
    return np.asarray(x)


def _broadcast(bar: Any, arg: Any) -> bool:
    """Whether a gradient has another shape than its argument, one to which that can be expanded."""
    if not isinstance(bar, Tensor) or bar.shape == arg.shape or bar.dim() < arg.dim():
        return False
    pairs = zip(reversed(arg.shape), reversed(bar.shape), strict=False)
    return all(n in (1, m) for n, m in pairs)


def _is_same(a: Tensor, b: Tensor) -> bool:
    """Equal bit for bit."""
    return a.shape == b.shape and to_numpy(a).tobytes() == to_numpy(b).tobytes()
