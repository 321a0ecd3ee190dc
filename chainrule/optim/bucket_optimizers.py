"""Optimizers that update each parameter by its own gradient, and keep their memory in buckets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from chainrule.engine.graph import tracer
from chainrule.engine.op import Array
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.optim.bucket import Bucket, Memory, together
from chainrule.optim.native_step import is_native, native_step
from chainrule.optim.optimizer import Group, Optimizer, Params
from chainrule.optim.traced_step import traced_step, whole_step

_FLUSH_EVERY = 16


class Bucketed(Optimizer):
    """A rule that changes vectors of parameters, and of what is remembered of them."""

    needs_whole_parameters: ClassVar[bool] = False
    """Whether the rule needs each parameter by itself, in its shape."""

    def __init__(self, params: Params, defaults: Mapping[str, Any]) -> None:
        self._buckets: list[list[Bucket]] = []
        super().__init__(params, defaults)

    @abstractmethod
    def memory(self, group: Group, shape: tuple[int, ...]) -> Mapping[str, Memory]:
        """What is remembered of a parameter of that shape, by name."""

    def first_numbers(self) -> Mapping[str, float]:
        """Numbers that are remembered once for parameters that take their steps together."""
        return {}

    def next_numbers(self, group: Group, step: int, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """The numbers after the step, which `update` finds in its `state`."""
        return dict(numbers)

    def limits(self, name: str) -> tuple[float, float] | None:
        """A range of a setting of which every float passes `check`, if there is one."""
        return None

    @abstractmethod
    def update(
        self, group: Group, step: int, p: Array, g: Array, state: Mapping[str, Array]
    ) -> None:
        """Change vectors of parameters `p` and of what is remembered of them by the gradient `g`.

        All are written in place; `g` may be used as scratch. `step` counts from 1. While a step is
        traced (see `jit`) they are `Vector`s, which only know in-place operators and NumPy's
        ufuncs. So are `step` and the numbers in `group`: nothing can branch on those, but on
        whether a setting is 0. Of a rule that `needs_whole_parameters` they are always `Vector`s.
        """

    def joined(self, group: Group) -> None:
        """Make buckets for its parameters."""
        self._buckets.append(self._fresh(group, group["params"]))

    def _fresh(self, group: Group, params: Sequence[Tensor]) -> list[Bucket]:
        """Buckets for parameters that have taken no step."""
        numbers = self.first_numbers()
        return [
            Bucket(same, self.memory(group, same[0].shape), numbers)
            for same in together(params, alone=self.needs_whole_parameters)
        ]

    def advance(self, closure: Callable[[], Any] | None) -> Any:
        """One step of every parameter that has a gradient."""
        loss = None if closure is None else closure()
        by = tracer()
        for group, buckets in zip(self.param_groups, self._buckets, strict=True):
            self.check(group)
            for bucket in _with_gradients(buckets):
                memory = self.memory(group, bucket.params[0].shape)
                if memory.keys() != bucket.state.keys():  # a setting has changed
                    bucket.remember(memory)
                if by is not None:
                    traced_step(by, bucket, group, partial(self.check, group), self)
                elif self.needs_whole_parameters:
                    whole_step(bucket, group, self)
                else:
                    self._step(group, bucket)
        if by is not None:  # the trace holds as long as these are the buckets
            by.reads(vars(self), "_buckets", "the parameters of an optimizer")
        return loss

    def _step(self, group: Group, bucket: Bucket) -> None:
        """Update the parameters of one bucket, block by block."""
        bucket.steps += 1
        numbers: dict[str, Any] = {}
        if bucket.numbers:
            numbers = {name: bucket.number(name) for name in bucket.numbers}
            numbers = self.next_numbers(group, bucket.steps, numbers)
            for name, value in numbers.items():
                bucket.set_number(name, value)
        p = bucket.vector()
        if is_native(self, group, p):
            state = {name: t.value for name, t in bucket.state.items()}
            native_step(self, group, bucket.steps, p, bucket.whole_gradient(), state, numbers)
        else:
            self._step_by_blocks(group, bucket, p, numbers)
            if bucket.steps % _FLUSH_EVERY == 0:
                bucket.flush()

    def _step_by_blocks(
        self, group: Group, bucket: Bucket, p: Array, numbers: Mapping[str, Any]
    ) -> None:
        with np.errstate(all="ignore"):
            for block, g in bucket.gradient():
                state = {name: t.value[block] for name, t in bucket.state.items()}
                self.update(group, bucket.steps, p[block], g, {**state, **numbers})

    # --- states that save and load

    def states(self) -> dict[int, dict[str, Any]]:
        """The steps, and what is remembered, of the parameters that have taken one."""
        numbers = self.numbers()
        state: dict[int, dict[str, Any]] = {}
        for bucket in [b for buckets in self._buckets for b in buckets if b.steps]:
            for i, p in enumerate(bucket.params):
                parts = {name: bucket.state_of(name, i) for name in bucket.state}
                scalars = {name: bucket.number(name) for name in bucket.numbers}
                state[numbers[id(p)]] = {"step": bucket.steps, **scalars, **parts}
        return state

    def load_states(self, states: Mapping[int, Mapping[str, Any]], groups: Sequence[Group]) -> None:
        """Buckets of that state; those that there are take it over where they fit."""
        numbers = self.numbers()
        every = [(g, p) for g in groups for p in g["params"]]
        for k, values in states.items():
            self._check_state(k, every, values)
        loaded = [self._load_buckets(g, states, numbers) for g in groups]
        if [_members(b) for b in loaded] == [_members(b) for b in self._buckets]:
            for old, fresh in zip(self._buckets, loaded, strict=True):
                for mine, theirs in zip(old, fresh, strict=True):
                    mine.take(theirs)  # so that a compiled step, which knows them, goes on
        else:
            self._buckets = loaded

    def _check_state(
        self, k: int, every: Sequence[tuple[Group, Tensor]], values: Mapping[str, Any]
    ) -> None:
        """Raise `ConfigError` if a loaded state has other numbers or shapes than parameter `k`
        needs."""
        memory: Mapping[str, Memory] = {}
        if 0 <= k < len(every):
            memory = self.memory(every[k][0], every[k][1].shape)
        wanted = {"step", *self.first_numbers(), *memory}
        if not 0 <= k < len(every) or set(values) != wanted:
            raise ConfigError(
                f"this state has {sorted(values)} for parameter {k}; {type(self).__name__} with "
                f"{len(every)} parameters needs {sorted(wanted)}"
            )
        for name, m in memory.items():
            shape = every[k][1].shape if m.shape is None else m.shape
            if np.shape(values[name]) != shape:
                raise ConfigError(
                    f"{name} of parameter {k} has shape {np.shape(values[name])}, needed is {shape}"
                )

    def _load_buckets(
        self, group: Group, states: Mapping[int, Any], numbers: Mapping[int, int]
    ) -> list[Bucket]:
        """Buckets of the parameters that have taken the same number of steps."""
        first = self.first_numbers()
        alike: dict[Any, list[Tensor]] = {}
        for p in group["params"]:
            state = states.get(numbers[id(p)], {"step": 0, **first})
            key = (int(state["step"]), *[float(state[name]) for name in first])
            alike.setdefault(key, []).append(p)
        buckets: list[Bucket] = []
        for (count, *values), params in alike.items():
            for bucket in self._fresh(group, params):
                bucket.steps = count
                for name, value in zip(first, values, strict=True):
                    bucket.set_number(name, value)
                for i, p in enumerate(bucket.params if count else []):
                    for name in bucket.state:
                        bucket.put(name, i, states[numbers[id(p)]][name])
                buckets.append(bucket)
        return buckets


def _with_gradients(buckets: list[Bucket]) -> list[Bucket]:
    """The buckets whose parameters have gradients. One in which only some have them is split."""
    ready: list[Bucket] = []
    for bucket in list(buckets):
        has = [p.grad is not None for p in bucket.params]
        if all(has):
            ready.append(bucket)
        elif any(has):
            with_, without = (
                bucket.sub([i for i, h in enumerate(has) if h is wanted])
                for wanted in (True, False)
            )
            buckets[buckets.index(bucket)] = with_
            buckets.append(without)
            ready.append(with_)
    return ready


def _members(buckets: Sequence[Bucket]) -> list[list[int]]:
    """Which parameters are in which bucket."""
    return [[id(p) for p in bucket.params] for bucket in buckets]
