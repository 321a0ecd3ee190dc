"""Where chainrule's side of these benchmarks is compiled: in this one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import chainrule as cr

NAME = "chainrule, jit"
"""What `compiled` gives, as the results call it."""


def compiled(step: Callable[..., Any], dynamic: Any = None) -> Any:
    """The function that is measured in the place of `step`."""
    return cr.jit(step, dynamic=dynamic)
