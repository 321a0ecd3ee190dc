"""A value and its gradients in one go: `loss, grads = net.loss(x, y)`, `cost, g = f(theta, x)`.

One function is the forward and the backward. Its first result is the forward's; what it returns
behind that, or leaves in its object, are gradients of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.verify.arrays.convention import Convention, Slot, as_list
from chainrule.verify.arrays.members import Way
from chainrule.verify.arrays.methods import takes
from chainrule.verify.arrays.returned import gradients_in
from chainrule.verify.arrays.values import is_float
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import EXACT

METHODS = (
    "loss", "loss_and_grad", "loss_and_grads", "loss_and_gradient", "loss_and_gradients",
    "loss_grad", "loss_grads", "value_and_grad", "value_and_grads", "cost", "cost_and_grad",
    "cost_and_gradient", "cost_and_gradients", "forward_backward", "compute_loss", "objective",
)  # fmt: skip
"""What people call a method that gives both."""


def method_of(x: Any, args: Sequence[Any]) -> str | None:
    """The name of such a method that takes `args`; None if there is none. Whether it does what its
    name says is seen when it runs."""
    found = [n for n in METHODS if callable(getattr(cast(Any, type(x)), n, None))]
    return next((n for n in found if takes(getattr(x, n), args)), None)


def gives_both(result: Any) -> bool:
    """Whether a result is one number, and something behind it with floats in it."""
    parts = as_list(result)
    behind = [r.value for part in parts[1:] for r in gradients_in(part, Way())]
    floats = any(is_float(x) or isinstance(x, float) for x in behind)
    return len(parts) > 1 and np.size(parts[0]) == 1 and floats


def convention_of(names: Sequence[str]) -> Convention:
    """All arguments, and one output."""
    slots = [(name, Slot("input", i)) for i, name in enumerate(names)]
    return Convention(tuple(slots), 1, by_name=False, at_once=True, of_parameters=True)


def gradients_behind(result: Any, value: Array | None) -> Any:
    """What stands behind the value; an empty dict for nothing.

    `ValueError` if the value is not what it should be: gradients of another function are none.
    """
    first, *rest = as_list(result)
    if value is not None and not np.allclose(first, value, rtol=EXACT, atol=0, equal_nan=True):
        raise ValueError(f"the value became {first}, and was {value}")
    if not rest:
        return {}
    return rest[0] if len(rest) == 1 else tuple(rest)
