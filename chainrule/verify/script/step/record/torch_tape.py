"""What a PyTorch script computes in one step, call by call, known without asking autograd.

A mode sees every call of PyTorch's that the script makes, including those which cut
the graph: `.detach()`, `.data`, everything under `no_grad`. A tensor has its slot while it lives;
it is not held. Its sum is kept, so that a later change shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from chainrule.verify.pytorch.door import Call, Kind, Recorder, unseen
from chainrule.verify.pytorch.nested_tensors import tensors_in
from chainrule.verify.script.step.record.aliases import Aliases
from chainrule.verify.script.step.record.marks import Marks, is_same, is_zero, memory
from chainrule.verify.script.step.record.tape import DRAWS, Constant, Entry, Slot, Tape, with_things
from chainrule.verify.training.facts.names import IdentityTable
from chainrule.verify.user_frames import frames, here

EXITS = frozenset({"item", "__float__", "tolist", "numpy", "__array__", "__int__"})
"""Calls by which values leave as numbers."""
_KEPT = frozenset({"view", "reshape", "flatten", "contiguous", "transpose", "t", "pad_sequence"})
"""Calls on constants that are kept while their result lives."""
_PLAIN = frozenset({int, float, bool, str, type(None)})
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_EPS = {dtype: torch.finfo(dtype).eps for dtype in (*_FLOATS, torch.complex64, torch.complex128)}


class _Begun(NamedTuple):
    """A call that is being made: its entry, and all tensors that it is given."""

    entry: Entry
    given: list[Tensor]
    stream: Tensor | None
    """State of the random stream before, if the call may draw from it."""


@final
class TorchTape(Tape, Recorder):
    """Records while it is active.

    Values are not held, so that a step that is recorded needs no more memory than others; but
    those of which another tensor shares the memory behind autograd's back are, while that can
    change them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records: Callable[[], bool] = lambda: True
        """Is asked before each call whether it is to be recorded."""
        self.marks = Marks()
        """Tensors that went into or came out of connected calls."""
        self._slots = IdentityTable[int]()
        self._memory: dict[int, int] = {}  # of a slot: where the memory of its tensor begins
        self._noise = IdentityTable[bool]()  # normal numbers, drawn as constants
        self._fresh = IdentityTable[bool]()  # constants that were made in this step
        self._means = IdentityTable[int]()  # constants that are means: of how many
        self._constants = IdentityTable[Constant]()
        self._loose: set[int] = set()  # groups of which somebody has a tensor without a graph
        self._made: set[int] = set()  # slots of results
        self._leaves: set[int] = set()  # slots of leaves that were computed
        self._unlinked: set[int] = set()  # slots that have a graph through which nothing flows
        self._aliased: list[Any] = []
        self.aliases = Aliases()

    def clear(self) -> None:
        """Let go of all tensors."""
        super().clear()
        self._aliased.clear()
        self.marks.clear()
        for table in (self._slots, self._noise, self._fresh, self._means, self._constants):
            table.clear()

    # --- slots

    def slot(self, x: Tensor, /) -> int | None:
        """The number of a tensor that depends on a root."""
        return self._slots.of(x)

    def alive(self) -> set[int]:
        """Slots of the tensors that somebody still has."""
        return {slot for _, slot in self._slots.items()}

    def is_noise(self, x: Any, /) -> bool:
        """Whether a constant was drawn from the normal distribution."""
        return self._noise.of(x) is not None

    def is_fresh(self, x: Any, /) -> bool:
        """Whether a constant was made in this step, of nothing that is older."""
        return self._fresh.of(x) is not None

    def mean_of(self, x: Any, /) -> int:
        """Of how many elements a constant is the mean."""
        return self._means.of(x) or 0

    def constant_of(self, x: Any, /) -> Constant | None:
        """How a constant was made, if it is another view of one, or filled up to one length."""
        return self._constants.of(x)

    def _new(self, t: Tensor, of: int | None = None) -> int:
        """A slot for a tensor, which is a view of that in the slot `of`."""
        slot = self.anonymous()
        self.shapes[slot] = tuple(t.shape)
        self._memory[slot] = memory(t) if of is None else self._memory[of]
        if of is not None:
            self.group[slot] = self.group[of]
        self._slots.put(t, slot)
        return slot

    def _views(self, made: Sequence[Tensor], inputs: Iterable[int]) -> list[int | None]:
        """Of which of some slots each tensor is a view."""
        shared = {self._memory[s]: s for s in inputs if s in self._memory}
        return [shared.get(memory(t)) for t in made]

    # --- calls

    def begins(self, call: Call) -> None:
        """Begin to record a call. `grad`, imported by name before it was replaced, hands itself on
        to what took its place, and that is recorded (`observe`)."""
        own = call.func is torch.autograd.grad
        records = self.active and not own and self.records()
        call.noted = self.attempt(self._before, call) if records else None

    def saw(self, call: Call) -> None:
        """Record what it has made."""
        if call.noted is not None and not self.broken:
            self.attempt(self._after, call.noted, call)
        elif self.active and call.made:
            self._note_constants(call)

    def _note_constants(self, call: Call) -> None:
        """What a call has made that depends on no leaf."""
        given = tensors_in((call.args, call.kwargs))
        if all(map(self.is_fresh, given)):
            for t in call.made:
                self._fresh.put(t, True)
        if call.kind.name in _KEPT:
            self._constants.put(call.made[0], Constant(call.kind.name, call.args, here()))
        if call.kind.name == "mean" and given and call.made[0].numel() == 1:
            x = given[0]
            if x.numel() > 1 and x.is_floating_point() and bool((x != x.round()).any()):
                self._means.put(call.made[0], x.numel())

    def observe(self, name: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Make a call that PyTorch does not hand on, and record it by that name."""
        call = Call(Kind.of(name), func, args, kwargs)
        with unseen():
            self.begins(call)
        y = func(*args, **kwargs)
        with unseen():
            call.gave(y)
            self.saw(call)
        return y

    def opaque(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """The function; what it calls in turn is its own, and not recorded."""

        def call(*args: Any, **kwargs: Any) -> Any:
            before, self.active = self.active, False
            try:
                return func(*args, **kwargs)
            finally:
                self.active = before and not self.broken

        return call

    # --- before a call

    def _before(self, call: Call) -> _Begun | None:
        """What is known of a call; None if it depends on no leaf, and draws no noise."""
        given: list[Tensor] = []
        kind, grad = call.kind, torch.is_grad_enabled()
        if kind.writes:
            self.aliases.note(kind.name, call.args)
        if kind.writes and not self._is_recorded(call.args, grad):
            others = tensors_in((call.args[1:], call.kwargs))
            self.consumed.update([s for t in others if (s := self.slot(t)) is not None])
            return None
        some, more = self._arguments(call.args, given), self._arguments(call.kwargs, given)
        slots = {s: t for t in given if (s := self.slot(t)) is not None}
        if not slots and kind.name not in DRAWS:
            return None
        loose = self._unlinked
        connected = tuple([s for s, t in slots.items() if t.requires_grad and s not in loose])
        low = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        entry = Entry(kind.name, call.func, some, more, tuple(slots), connected, grad, low)
        return _Begun(entry, given, None if kind.still else torch.get_rng_state())

    def _is_recorded(self, args: Sequence[Any], grad: bool) -> bool:
        """Whether a call that writes to its first argument is recorded."""
        target = args[0] if args else None
        if not isinstance(target, Tensor):
            return True
        slot = self.slot(target)
        if slot is not None:  # a parameter is updated: what counts is the value it is left with
            return self.group[slot] not in self.roots
        if target.requires_grad and target.is_leaf:
            return False
        others = tensors_in(args[1:])
        if target.requires_grad or any(t.requires_grad or self.slot(t) is not None for t in others):
            if not grad:
                return False  # state that is kept up to date: averages, running statistics
            self._follow(target)
        return True

    def _follow(self, target: Tensor) -> None:
        """Follow from now on a tensor that nothing depended on: it is what it is now."""
        old = target.detach().clone()
        slot = self._new(target)
        entry = Entry("old", old.clone, (), {}, (), (), True, None)
        entry.outputs, entry.is_float = (slot,), True
        self.entries.append(entry)

    def _root(self, t: Tensor) -> int:
        """A slot for a tensor that requires a gradient and comes from outside."""
        slot = self._new(t)
        self.roots[slot] = t
        self.hold(t.numel() * t.element_size())
        return slot

    def _computed_leaf(self, t: Tensor, slot: int) -> int:
        """A slot for what was computed without a graph and then set to require a gradient, as
        points are by which a derivative is taken; that it does is no cut."""
        if slot in self._leaves:
            return slot
        entry = Entry("requires_grad_", _leaf_of, (Slot(slot),), {}, (slot,), (), True)
        new = self._new(t, slot)
        entry.outputs, entry.is_float, entry.at = (new,), True, here()
        self.entries.append(entry)
        self._leaves.add(new)
        return new

    def _arguments(self, x: Any, given: list[Tensor]) -> Any:
        """Arguments with slots in place of what is followed; `given` gets their tensors."""

        def followed(x: Any) -> Any:
            if x.__class__ in _PLAIN or not isinstance(x, Tensor):
                return x
            given.append(x)
            slot = self.slot(x)
            if x.requires_grad and slot not in self.roots:
                if slot is None:
                    slot = self._root(x)
                elif x.is_leaf:
                    slot = self._computed_leaf(x, slot)
            return x if slot is None else Slot(slot)

        return with_things(x, followed)

    # --- after it

    def _after(self, begun: _Begun, call: Call) -> None:
        """Put a call that was made onto the tape: its inputs, what it wrote, its results."""
        entry, given, stream = begun
        inputs, in_place = entry.inputs, call.kind.writes
        of_call = entry.name != "__setitem__"
        made = call.made if of_call else given[:1]
        if not inputs:
            for t in made:
                self._noise.put(t, True)
            self._note_constants(call)
            return
        if not made:
            if entry.name in EXITS and inputs:
                self.leave(entry.name, inputs[0], call.y)
            return
        views_of = self._views(made, inputs)
        entry.wrote = self.group[inputs[0]] if in_place else None
        entry.outputs = tuple([self._new(t, of) for t, of in zip(made, views_of, strict=True)])
        for slot, t in zip(entry.outputs, made, strict=True):
            self._link(entry, slot, t)
            entry.grade(slot, _rounding(t.dtype))
        if stream is not None and not torch.equal(stream, torch.get_rng_state()):
            entry.random = stream
        self._made.update(entry.outputs)
        self.entries.append(entry)
        if entry.is_live:
            entry.is_same = len(inputs) > 1 and is_same(entry.name, made[0])
            entry.is_zero = is_zero(entry.name, made[0])
            self._mark_inputs(given)
            views = [None] * len(made) if in_place else views_of
            total = call.total if of_call else None
            for i, (t, slot, of) in enumerate(zip(made, entry.outputs, views, strict=True)):
                self.marks.made(t, slot, of, partial(total, i) if total is not None else None)
        elif any(of is not None for of in views_of):
            self._aliased += given
            self._loose.update([self.group[s] for s in inputs])
        if entry.cuts:
            entry.frames = frames()
        entry.at = here()

    def _link(self, entry: Entry, slot: int, t: Tensor) -> None:
        """Whether a result has a graph, and one that leads back to the call's arguments."""
        if t.requires_grad and t.is_leaf:
            self._leaves.add(slot)  # as views of some kinds are that were made without a graph
        has_graph = t.requires_grad and not t.is_leaf
        if has_graph and (entry.name == "normal" or not entry.connected):
            self._unlinked.add(slot)  # PyTorch's derivative of a draw is 0
        else:
            entry.is_live |= has_graph

    def _mark_inputs(self, given: Iterable[Tensor]) -> None:
        """Mark arguments that no call of the tape made."""
        for t in given:
            slot = self.slot(t)
            if slot not in self._made:
                loose = slot is not None and self.group[slot] in self._loose
                self.marks.read(t, slot, loose)


def _rounding(dtype: torch.dtype) -> float | None:
    is_float = dtype.is_floating_point or dtype.is_complex
    return _EPS.get(dtype, 0.0 if is_float else None)


def _leaf_of(x: Tensor) -> Tensor:
    """What requires a gradient as `x` is set to; it is `x` if that has a graph by now."""
    return x if x.requires_grad else x.detach().requires_grad_()
