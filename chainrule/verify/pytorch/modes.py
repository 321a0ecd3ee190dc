"""Modes that look on at PyTorch's calls, put on its stack and taken away without disturbing it.

A program enters and leaves modes of its own, each of which takes away what is on top when it
leaves. So ours go below them; only that of `torch.set_default_device` must stay the lowest.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

_count: Any = torch._C._len_torch_function_stack  # pyright: ignore
_push: Any = torch._C._push_on_torch_function_stack  # pyright: ignore
_pop: Any = torch._C._pop_torch_function_stack  # pyright: ignore


def push(mode: Any) -> None:
    """Put a mode, once, below all others but that of the default device."""
    if not _count():
        _push(mode)
        return
    held: Any = torch._GLOBAL_DEVICE_CONTEXT  # pyright: ignore
    default = getattr(held, "device_context", None)
    stack = [each for each in _taken() if each is not mode]
    lowest = [each for each in stack if each is default]
    _put([*lowest, mode, *[each for each in stack if each is not default]])


def pull(mode: Any) -> bool:
    """Take a mode away, and leave the others as they are; whether it was there."""
    stack = _taken()
    _put([each for each in stack if each is not mode])
    return any(each is mode for each in stack)


@contextmanager
def within(mode: Any) -> Generator[None]:
    """Within it the mode looks on."""
    push(mode)
    try:
        yield
    finally:
        pull(mode)


def _taken() -> list[Any]:
    """The stack, the lowest first; it is empty now."""
    return [_pop() for _ in range(_count())][::-1]


def _put(stack: list[Any]) -> None:
    for each in stack:
        _push(each)
