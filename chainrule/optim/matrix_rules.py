"""Rules that look at a parameter as a whole: Adafactor, Muon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast, final

from chainrule.engine.dtypes import finfo
from chainrule.engine.op import Array
from chainrule.errors import ConfigError
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import matmul
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import matrix_transpose
from chainrule.optim.bucket import Memory
from chainrule.optim.optimizer import Group
from chainrule.optim.traced_step import Vector, fixed
from chainrule.optim.update_rule import (
    Check,
    Flag,
    NotNegative,
    NotPositive,
    UpdateRule,
    choice,
    is_number,
    numbers_such_that,
)

State = Mapping[str, Array]


def _is_least(x: Any) -> bool:
    return is_number(x) and x >= 0


_LEAST = Check(
    lambda x: (
        isinstance(x, tuple | list)
        and len(cast("list[Any]", x)) == 2
        and (x[0] is None or _is_least(x[0]))
        and _is_least(x[1])
    ),
    "two numbers that are not negative, of which the first may be None",
)
_AT_LEAST_1 = Check(lambda x: is_number(x) and x >= 1, "a number of at least 1")
_COEFFICIENTS = numbers_such_that(lambda *_: True, "three numbers", 3)
_STEPS = Check(lambda x: type(x) is int and 0 <= x < 100, "an integer from 0 to 99")


@final
class Adafactor(UpdateRule):
    """Adam without a first moment, whose second one is a product of a column and a row.

    Of a parameter with two axes or more the last two are factored. Shazeer & Stern 2018,
    arXiv:1804.04235, algorithms 4 and 5; eps[0] None stands for the spacing of the dtype at 1.

    >>> w = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.Adafactor([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8418861, 1.8418862], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 1e-2
    beta2_decay: NotPositive = -0.8
    eps: Annotated[tuple[float | None, float], _LEAST] = (None, 1e-3)
    d: Annotated[float, _AT_LEAST_1] = 1.0
    weight_decay: NotNegative = 0.0

    needs_whole_parameters: ClassVar[bool] = True
    decay: ClassVar[Any] = "own"

    def memory(self, group: Group, shape: tuple[int, ...]) -> Mapping[str, Memory]:
        """Of a matrix a column and a row, of anything else as much as it is large."""
        if len(shape) < 2:
            return {"variance": Memory()}
        row, column = (*shape[:-1], 1), (*shape[:-2], 1, shape[-1])
        return {"row_var": Memory(shape=row), "col_var": Memory(shape=column)}

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p -= alpha u / max(1, rms(u) / d), with u = g / sqrt(v)."""
        least, floor = group["eps"]
        least = finfo(p.dtype).eps if least is None else _tensor(least)
        share = _tensor(step ** group["beta2_decay"])
        x = _tensor(g)
        if len(p.shape) < 2:
            v = _follow(state, "variance", x * x, share)
        else:
            rows = _follow(state, "row_var", red.mean(x * x, axis=-1, keepdims=True), share)
            columns = _follow(state, "col_var", red.mean(x * x, axis=-2, keepdims=True), share)
            most = red.mean(rows, axis=-2, keepdims=True)
            v = matmul(rows, columns) / ew.maximum(most, least)
        u = x / ew.sqrt(ew.maximum(v, least * least))
        rho = ew.minimum(_tensor(group["lr"]), _tensor(1 / step**0.5))
        alpha = rho * ew.maximum(_root_mean_square(_tensor(p)), _tensor(floor))
        decay = group["weight_decay"]
        if decay:
            p *= 1 - group["lr"] * decay
        _write(p, -(alpha / ew.maximum(_root_mean_square(u) / _tensor(group["d"]), 1.0)) * u)


@final
class Muon(UpdateRule):
    """Steps along momentum made orthogonal: all directions of a matrix move as fast as another.

    For parameters with two axes. Newton and Schulz's iteration brings the singular values near 1.
    `adjust_lr_fn` "original" (or None) scales the step by sqrt(max(1, m / n)), "match_rms_adamw" by
    0.2 sqrt(max(m, n)). Computed in the parameters' dtype, in PyTorch in bfloat16. Jordan 2024,
    kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982.

    >>> w = cr.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> optimizer = optim.Muon([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([[1.0580661, 1.8974462],
            [2.8958704, 3.934056 ]], dtype=float32, requires_grad=True)
    """

    lr: NotNegative = 1e-3
    weight_decay: NotNegative = 0.1
    momentum: NotNegative = 0.95
    nesterov: Flag = True
    ns_coefficients: Annotated[tuple[float, float, float], _COEFFICIENTS] = (3.4445, -4.775, 2.0315)
    eps: NotNegative = 1e-7
    ns_steps: Annotated[int, _STEPS] = 5
    adjust_lr_fn: Annotated[str | None, choice("original", "match_rms_adamw")] = None

    needs_whole_parameters: ClassVar[bool] = True
    decay: ClassVar[Any] = "parameter"
    state_names: ClassVar[tuple[str, ...]] = ("momentum_buffer",)

    def agree(self, group: Group) -> None:
        """Raises `ConfigError` unless each parameter is a matrix (m, n)."""
        for t in group["params"]:
            if t.ndim != 2:
                raise ConfigError(
                    f"Muon: parameters have 2 axes, not {t.shape}; give others to AdamW, say"
                )

    def follow(self, group: Group, step: int, p: Array, g: Array, state: State) -> None:
        """p (m, n) -= lr scale o: the momentum with its singular values moved to about 1."""
        b, momentum = state["momentum_buffer"], group["momentum"]
        b += (1 - momentum) * (g - b)
        if group["nesterov"]:
            g += momentum * (b - g)
        else:
            g = b
        m, n = p.shape
        scale = math.sqrt(max(1, m / n))
        if group["adjust_lr_fn"] == "match_rms_adamw":
            scale = 0.2 * math.sqrt(max(m, n))
        coefficients = [_tensor(c) for c in group["ns_coefficients"]]
        steps = fixed(group, "ns_steps")
        o = _orthogonal(_tensor(g), coefficients, steps, _tensor(group["eps"]))
        _write(p, -(scale * _tensor(group["lr"])) * o)


def _orthogonal(x: Any, coefficients: list[Any], steps: int, eps: Any) -> Any:
    """A matrix with the singular vectors of x (m, n), and singular values near 1."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = matrix_transpose(x) if tall else x
    x = x / ew.maximum(ew.sqrt(red.sum(x * x)), eps)
    for _ in range(steps):
        gram = matmul(x, matrix_transpose(x))
        x = a * x + matmul(b * gram + c * matmul(gram, gram), x)
    return matrix_transpose(x) if tall else x


def _tensor(x: Any) -> Any:
    """The tensor or number that a `Vector` stands for."""
    return x.tensor if isinstance(x, Vector) else x


def _write(p: Any, change: Any) -> None:
    p += Vector(change)


def _root_mean_square(x: Any) -> Any:
    return ew.sqrt(red.mean(x * x)) if math.prod(x.shape) else 0.0


def _follow(state: State, name: str, now: Any, share: Any) -> Any:
    """What is remembered, moved towards `now` by `share`."""
    v: Any = state[name]
    v += Vector(share * (now - v.tensor))
    return v.tensor
