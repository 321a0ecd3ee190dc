"""Optimizer: groups of parameters with settings, steps, states that save and load."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from chainrule.engine.dtypes import REAL
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError

Group = dict[str, Any]
Params = Iterable[Tensor] | Iterable[Mapping[str, Any]]


class Optimizer(ABC):
    """Changes parameters by their gradients, one `step()` at a time.

    `param_groups` is a list of dicts, each with its own settings and its list of "params". A
    subclass states what a step does and what is remembered. Parameters without a gradient are left
    alone.

    >>> w = cr.tensor([1.0], requires_grad=True)
    >>> optimizer = optim.SGD([{"params": [w], "lr": 0.5}], momentum=0.9)
    >>> optimizer.param_groups[0]["lr"], isinstance(optimizer, optim.Optimizer)
    (0.5, True)
    """

    def __init__(self, params: Params, defaults: Mapping[str, Any]) -> None:
        self.param_groups: list[Group] = []
        self._defaults = dict(defaults)
        self._valid: dict[str, Any] = {}  # by name, a setting that was found to make sense last
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
    def advance(self, closure: Callable[[], Any] | None) -> Any:
        """Change the parameters by one step; returns the loss of `closure`, None without one."""

    @abstractmethod
    def states(self) -> dict[int, dict[str, Any]]:
        """Arrays and numbers that outlive a step, by number of the parameter: for `state_dict`."""

    @abstractmethod
    def load_states(self, states: Mapping[int, Mapping[str, Any]], groups: Sequence[Group]) -> None:
        """Remember that instead, under the settings of `groups`.

        Raises `ConfigError`, before anything is changed, if it does not fit.
        """

    def joined(self, group: Group) -> None:  # noqa: B027 (most have nothing to do)
        """Called when `add_param_group` has added a group: a subclass makes room for its state."""

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
        self.joined(new)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make those that there are zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None if set_to_none or p.grad is None else p.grad * 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient.

        A `closure` computes the loss and its gradients before; what it returns is returned.
        """
        return self.advance(closure)

    # --- states that save and load

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's form: "state" by number of the parameter, "param_groups" with those numbers.

        Each state has "step" (an int) and copies of what is remembered (arrays); a parameter that
        has not taken a step has none.
        """
        numbers = self.numbers()
        groups = [{**g, "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]
        return {"state": dict(sorted(self.states().items())), "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`: settings, steps and what is remembered, exactly.

        Raises `ConfigError`, before anything is changed, if it is not one of such parameters.
        """
        states = {int(k): v for k, v in saved["state"].items()}
        groups: Sequence[Mapping[str, Any]] = saved["param_groups"]
        ours = [len(g["params"]) for g in self.param_groups]
        theirs = [len(g["params"]) for g in groups]
        if ours != theirs:
            raise ConfigError(
                f"this state is of groups of {theirs} parameters, the optimizer has {ours}"
            )
        new = [
            {**g, **t, "params": g["params"]}
            for g, t in zip(self.param_groups, groups, strict=True)
        ]
        for group in new:
            self.check(group)
        self.load_states(states, new)
        for group, settings in zip(self.param_groups, new, strict=True):
            group.update(settings)

    def numbers(self) -> dict[int, int]:
        """The numbers of the parameters in a state, by `id`."""
        every = [p for g in self.param_groups for p in g["params"]]
        return {id(p): k for k, p in enumerate(every)}

    def __repr__(self) -> str:
        lines = [
            ", ".join([f"{k}={v}" for k, v in g.items() if k != "params"])
            + f": {len(g['params'])} tensors, {sum([p.size for p in g['params']]):,} numbers"
            for g in self.param_groups
        ]
        return "\n  ".join([type(self).__name__, *lines])


def check_range(
    name: str, value: Any, *, below: float = math.inf, what: str = "a number that is not negative"
) -> None:
    """Raise `ConfigError` unless 0 <= value < below; NaN is outside."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < below:
        raise ConfigError(f"{name} is {what}, not {value!r}")
