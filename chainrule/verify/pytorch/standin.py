"""A `ctx` for a forward that is run outside its `Function`."""

from __future__ import annotations

from typing import Any


class StandIn:
    """Takes what a forward says to its `ctx`, and keeps what it saves."""

    def __init__(self, needs: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs
        self.saved_tensors: tuple[Any, ...] = ()
        self.constant: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """As on a real one."""
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """As on a real one."""

    def mark_dirty(self, *tensors: Any) -> None:
        """As on a real one."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """As on a real one; `constant` holds them."""
        self.constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """As on a real one."""
