"""L-BFGS: Newton's direction, from the changes of the gradient along the latest steps.

Nocedal & Wright 2006, Numerical Optimization, algorithms 7.4 and 7.5, with PyTorch's names, stops
and numbers. One step asks for the loss many times, so that it cannot itself be compiled: compile
the closure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from chainrule.engine.arrays import operand
from chainrule.engine.graph import tracer, variable
from chainrule.engine.op import Array
from chainrule.errors import ConfigError, TraceError
from chainrule.optim.line_search import Point, Search
from chainrule.optim.optimizer import Group, Optimizer, Params, check_range

_CURVED = 1e-10
"""A pair is remembered if the gradient has changed along the step by more than this."""
_PAIRS = ("old_dirs", "old_stps", "ro")
"""Changes of the gradient, the steps that they came of, 1 over their products: in a saved state."""
_VECTORS = ("d", "prev_flat_grad")
_NUMBERS = ("func_evals", "n_iter", "t", "H_diag", "prev_loss")


@final
class LBFGS(Optimizer):
    """Up to `max_iter` iterations a step, at most `max_eval` (5/4 of that) evaluations.

    `line_search_fn` is "strong_wolfe", or None for steps of length `lr`. A step ends early where no
    element of the gradient exceeds `tolerance_grad`, or where loss and parameters change by less
    than `tolerance_change`. `step(closure)` needs a closure, which clears the gradients, computes
    the loss and calls backward. There is one group. Liu & Nocedal 1989, Math. Program. 45.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.LBFGS([w])
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 3.0) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> w
    tensor([3.       , 3.0000002], dtype=float32, requires_grad=True)
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        self._memory: dict[str, Any] = {}
        settings = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_eval, "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, settings)

    def check(self, group: Group) -> None:
        """Counts are positive, numbers not negative; there is one group."""
        if group["max_eval"] is None and type(group["max_iter"]) is int:
            group["max_eval"] = group["max_iter"] * 5 // 4
        for name in ("lr", "tolerance_grad", "tolerance_change"):
            check_range(name, group[name])
        for name in ("max_iter", "max_eval", "history_size"):
            if type(group[name]) is not int or group[name] < 1:
                raise ConfigError(f"LBFGS: {name} is a positive integer, not {group[name]!r}")
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ConfigError(
                f"LBFGS: line_search_fn is 'strong_wolfe' or None, not {group['line_search_fn']!r}"
            )
        if self.param_groups and self.param_groups[0]["params"] is not group["params"]:
            raise ConfigError("LBFGS: the parameters are one group, which share one direction")

    def advance(self, closure: Callable[[], Any] | None) -> Any:
        """Iterations until one of the limits is reached; the loss before them."""
        if tracer() is not None:
            raise TraceError(
                "LBFGS.step() in a function that is compiled: how often it asks for the loss "
                "depends on numbers. Compile the closure instead, and call step outside"
            )
        if closure is None:
            raise ConfigError("LBFGS: step(closure) needs a function that computes the loss")
        group, m = self.param_groups[0], self._memory
        self.check(group)
        first = closure()
        now = Point(0.0, float(first), self._gradient(), 0.0)
        count = 1
        m["func_evals"] = m.get("func_evals", 0) + 1
        if _largest(now.gradient) <= group["tolerance_grad"]:
            return first
        for i in range(group["max_iter"]):
            before = now.loss
            found = self._iterate(group, closure, now, i, count)
            if found is None:
                break
            now, used = found
            count += used
            m["func_evals"] += used
            if count >= group["max_eval"] or _largest(now.gradient) <= group["tolerance_grad"]:
                break
            tolerance = group["tolerance_change"]
            if _largest(m["d"] * m["t"]) <= tolerance or abs(now.loss - before) < tolerance:
                break
        return first

    def _iterate(
        self, group: Group, closure: Callable[[], Any], now: Point, i: int, count: int
    ) -> tuple[Point, int] | None:
        """One step along a new direction: where it led, after how many evaluations. None: it does
        not lead down."""
        m, g = self._memory, now.gradient
        m["n_iter"] = m.get("n_iter", 0) + 1
        begins = m["n_iter"] == 1
        m["d"] = d = -g if begins else self._direction(group["history_size"], g)
        m["prev_flat_grad"], m["prev_loss"] = g.copy(), now.loss
        shy = min(1.0, 1.0 / float(np.sum(np.abs(g)))) if begins else 1.0
        m["t"] = shy * group["lr"]
        slope = float(g @ d)
        if slope > -group["tolerance_change"]:
            return None
        start = self._parameters()
        used = 0
        if group["line_search_fn"] is None:
            self._move(start, m["t"] * d)
            if i + 1 < group["max_iter"]:  # after the last one nobody asks
                now, used = self._look(closure, d, m["t"]), 1
        else:

            def look(at: float) -> Point:
                self._move(start, at * d)
                return self._look(closure, d, at)

            search = Search(
                Point(0.0, now.loss, g, slope), look, _largest(d), group["max_eval"] - count,
                group["tolerance_change"],
            )  # fmt: skip
            now, used = search.run(m["t"])
            m["t"] = now.at
            self._move(start, now.at * d)
        return now, used

    def _direction(self, size: int, g: Array) -> Array:
        """-H g, H the inverse Hessian of the remembered pairs: the two loops of algorithm 7.4."""
        m = self._memory
        pairs: list[tuple[Array, Array, float]] = m.setdefault("pairs", [])
        y, s = g - m["prev_flat_grad"], m["d"] * m["t"]
        curvature = float(y @ s)
        if curvature > _CURVED:
            pairs.append((y, s, 1.0 / curvature))
            del pairs[:-size]
            m["H_diag"] = curvature / float(y @ y)
        q: Array = -g
        shares: list[float] = []
        for y, s, r in reversed(pairs):
            shares.append(r * float(s @ q))
            q = q - shares[-1] * y
        q = q * m.get("H_diag", 1.0)
        for (y, s, r), share in zip(pairs, reversed(shares), strict=True):
            q = q + (share - r * float(y @ q)) * s
        return q

    # --- the parameters as one vector

    def _look(self, closure: Callable[[], Any], d: Array, at: float) -> Point:
        """The loss where the parameters are now."""
        loss = float(closure())
        g = self._gradient()
        return Point(at, loss, g, float(g @ d))

    def _gradient(self) -> Array:
        grads = [
            np.zeros(p.size, p.dtype) if p.grad is None else operand(p.grad.value).reshape(-1)
            for p in self.param_groups[0]["params"]
        ]
        return np.concatenate(grads)

    def _parameters(self) -> list[Array]:
        return [p.value for p in self.param_groups[0]["params"]]

    def _move(self, start: list[Array], by: Array) -> None:
        """Put the parameters `by` away from `start`."""
        at = 0
        for p, x in zip(self.param_groups[0]["params"], start, strict=True):
            p.data = variable(np.asarray(x + by[at : at + x.size].reshape(x.shape), x.dtype))
            at += x.size

    # --- states that save and load

    def states(self) -> dict[int, dict[str, Any]]:
        """What is remembered, as the state of the first parameter."""
        m = self._memory
        if "d" not in m:
            return {}
        pairs: list[tuple[Array, Array, float]] = m.get("pairs", [])
        parts = {name: np.array([p[i] for p in pairs]) for i, name in enumerate(_PAIRS)}
        vectors = {name: m[name].copy() for name in _VECTORS}
        return {0: {**{name: m.get(name, 1.0) for name in _NUMBERS}, **parts, **vectors}}

    def load_states(self, states: Mapping[int, Mapping[str, Any]], groups: Sequence[Group]) -> None:
        """Continue from `states()`. Raises `ConfigError` for other names or another size."""
        memory: dict[str, Any] = {}
        for k, state in states.items():
            wanted = {*_PAIRS, *_VECTORS, *_NUMBERS}
            if k != 0 or set(state) != wanted:
                raise ConfigError(
                    f"this state has {sorted(state)} for parameter {k}; LBFGS needs "
                    f"{sorted(wanted)} for parameter 0"
                )
            size = sum([p.size for p in groups[0]["params"]])
            if np.shape(state["d"]) != (size,):
                raise ConfigError(f"d has shape {np.shape(state['d'])}, needed is ({size},)")
            memory = {name: state[name] for name in _NUMBERS}
            memory |= {name: np.array(operand(state[name])) for name in _VECTORS}
            old = [np.array(operand(state[name])) for name in _PAIRS]
            memory["pairs"] = [(y, s, float(r)) for y, s, r in zip(*old, strict=True)]
        self._memory = memory


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x), initial=0.0))
