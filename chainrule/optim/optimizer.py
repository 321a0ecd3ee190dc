"""Optimizer: what SGD, Adam and AdamW share: groups, buckets, states that save and load."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from chainrule.dtypes import REAL
from chainrule.errors import ConfigError
from chainrule.graph import tracer
from chainrule.op import Array
from chainrule.optim.bucket import Bucket, buckets_of
from chainrule.optim.traced import traced_step
from chainrule.tensors import Tensor

Group = dict[str, Any]
_FLUSH_EVERY = 16


class Optimizer(ABC):
    """Changes parameters by their gradients, one `step()` at a time.

    `param_groups` is a list of dicts, each with its own settings and its list of "params". A
    subclass states how a vector of parameters is updated. Parameters without a gradient are left
    alone.
    """

    state_names: ClassVar[tuple[str, ...]] = ()
    """What is remembered, by name: each is as large as the parameters."""

    def __init__(
        self, params: Iterable[Tensor] | Iterable[Mapping[str, Any]], defaults: Mapping[str, Any]
    ) -> None:
        self.param_groups: list[Group] = []
        self._defaults = dict(defaults)
        self._buckets: list[list[Bucket]] = []
        if isinstance(cast(object, params), Tensor):
            raise ConfigError(f"{type(self).__name__}: params are several tensors: write [p]")
        given = list(params)
        if not given:
            raise ConfigError(f"{type(self).__name__}: there are no parameters to optimize")
        if isinstance(given[0], Mapping):
            groups = cast("list[Mapping[str, Any]]", given)
        else:
            groups = [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    @abstractmethod
    def check(self, group: Group) -> None:
        """Raise `ConfigError` for settings of a group that make no sense."""

    @abstractmethod
    def update(
        self, group: Group, step: int, p: Array, g: Array, state: Mapping[str, Array]
    ) -> None:
        """Change vectors of parameters `p` and of what is remembered of them by the gradient `g`.

        All are written in place; `g` may be used as scratch. `step` counts from 1. While a step is
        traced (see `jit`) they are `Vector`s, which only know in-place operators and NumPy's
        ufuncs, and so are `step` and the numbers in `group`: those cannot be branched on, but for
        whether a setting is 0.
        """

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimize the tensors `group["params"]`, too, with the settings in `group`."""
        params = group["params"]
        tensors = [params] if isinstance(params, Tensor) else list(params)
        unknown = sorted(set(group) - set(self._defaults) - {"params"})
        name = type(self).__name__
        if unknown:
            raise ConfigError(f"{name} has no setting {', '.join(unknown)}")
        new: Group = {**self._defaults, **group, "params": tensors}
        if not tensors:
            raise ConfigError(f"{name}: a group has no parameters")
        for p in tensors:
            if not isinstance(p, Tensor) or not p.is_leaf or not p.requires_grad:
                raise ConfigError(
                    f"{name}: a parameter is a leaf that requires a gradient, not {p!r}"
                )
            if p.dtype.kind not in REAL:
                raise ConfigError(f"{name}: parameters are real numbers, not {p.dtype}")
        every = [id(p) for g in [*self.param_groups, new] for p in g["params"]]
        if len(set(every)) < len(every):
            raise ConfigError(f"{name}: a parameter stands in more than one place; name it once")
        self.check(new)
        self.param_groups.append(new)
        self._buckets.append(buckets_of(tensors, self.state_names))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make those that there are zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None if set_to_none or p.grad is None else p.grad * 0

    def step(self) -> None:
        """Change every parameter that has a gradient."""
        by = tracer()
        for group, buckets in zip(self.param_groups, self._buckets, strict=True):
            self.check(group)
            for bucket in _with_gradients(buckets):
                if by is None:
                    self._step(group, bucket)
                else:
                    traced_step(by, bucket, group, partial(self.check, group), self.update)
        if by is not None:  # the trace holds as long as these are the buckets
            held = [list(buckets) for buckets in self._buckets]
            by.guards.append(lambda: self._buckets == held)

    def _step(self, group: Group, bucket: Bucket) -> None:
        bucket.steps += 1
        p = bucket.vector()
        with np.errstate(all="ignore"):
            for block, g in bucket.gradient():
                state = {name: t.value[block] for name, t in bucket.state.items()}
                self.update(group, bucket.steps, p[block], g, state)
        if bucket.steps % _FLUSH_EVERY == 0:
            bucket.flush()

    # --- states that save and load

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's form: "state" by number of the parameter, "param_groups" with those numbers.

        Each state has "step" (an int) and copies of what is remembered (arrays of the parameter's
        shape); a parameter that has not taken a step has none.
        """
        numbers = self._numbers()
        state: dict[int, dict[str, Any]] = {}
        for bucket in [b for buckets in self._buckets for b in buckets if b.steps]:
            for i, p in enumerate(bucket.params):
                parts = {name: bucket.part(name, i) for name in bucket.state}
                state[numbers[id(p)]] = {"step": bucket.steps, **parts}
        groups = [{**g, "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`: settings, steps and what is remembered, exactly.

        Raises `ConfigError`, before anything is changed, if it is not one of such parameters.
        """
        state = {int(k): v for k, v in saved["state"].items()}
        groups: Sequence[Mapping[str, Any]] = saved["param_groups"]
        ours = [len(g["params"]) for g in self.param_groups]
        theirs = [len(g["params"]) for g in groups]
        if ours != theirs:
            raise ConfigError(
                f"this state is of groups of {theirs} parameters, the optimizer has {ours}"
            )
        every = [p for g in self.param_groups for p in g["params"]]
        for k, values in state.items():
            self._check_state(k, every, values)
        new = [
            {**g, **t, "params": g["params"]}
            for g, t in zip(self.param_groups, groups, strict=True)
        ]
        for group in new:
            self.check(group)
        numbers = self._numbers()
        for group, settings in zip(self.param_groups, new, strict=True):
            group.update(settings)
        loaded = [self._loaded(g["params"], state, numbers) for g in self.param_groups]
        if [_members(b) for b in loaded] == [_members(b) for b in self._buckets]:
            for old, fresh in zip(self._buckets, loaded, strict=True):
                for mine, theirs in zip(old, fresh, strict=True):
                    mine.take(theirs)  # so that a compiled step, which knows them, goes on
        else:
            self._buckets = loaded

    def _check_state(self, k: int, every: Sequence[Tensor], values: Mapping[str, Any]) -> None:
        wanted = {"step", *self.state_names}
        if not 0 <= k < len(every) or set(values) != wanted:
            raise ConfigError(
                f"this state has {sorted(values)} for parameter {k}; {type(self).__name__} with "
                f"{len(every)} parameters needs {sorted(wanted)}"
            )
        for name in self.state_names:
            if np.shape(values[name]) != every[k].shape:
                raise ConfigError(
                    f"{name} of parameter {k} has shape {np.shape(values[name])}, the parameter "
                    f"{every[k].shape}"
                )

    def _loaded(
        self, params: Sequence[Tensor], state: Mapping[int, Any], numbers: Mapping[int, int]
    ) -> list[Bucket]:
        """Buckets of the parameters that have taken the same number of steps."""
        steps = {id(p): int(state.get(numbers[id(p)], {"step": 0})["step"]) for p in params}
        buckets: list[Bucket] = []
        for count in dict.fromkeys(steps.values()):
            for bucket in buckets_of(
                [p for p in params if steps[id(p)] == count], self.state_names
            ):
                bucket.steps = count
                for i, p in enumerate(bucket.params if count else []):
                    for name in self.state_names:
                        bucket.put(name, i, state[numbers[id(p)]][name])
                buckets.append(bucket)
        return buckets

    def _numbers(self) -> dict[int, int]:
        every = [p for g in self.param_groups for p in g["params"]]
        return {id(p): k for k, p in enumerate(every)}

    def __repr__(self) -> str:
        lines = [
            ", ".join([f"{k}={v}" for k, v in g.items() if k != "params"])
            + f": {len(g['params'])} tensors, {sum([p.size for p in g['params']]):,} numbers"
            for g in self.param_groups
        ]
        return "\n  ".join([type(self).__name__, *lines])


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


def check_range(
    name: str, value: Any, *, below: float = math.inf, what: str = "a number that is not negative"
) -> None:
    """Raise `ConfigError` unless 0 <= value < below; NaN is outside."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < below:
        raise ConfigError(f"{name} is {what}, not {value!r}")
