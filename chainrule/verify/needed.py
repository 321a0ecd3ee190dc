"""For which arguments of a `Function` a gradient is expected, where a call did not need all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def needed_arguments(
    floats: Sequence[bool],
    required: Sequence[bool],
    pull: Callable[[Sequence[bool]], Sequence[Any]],
) -> tuple[bool, ...]:
    """Those that the call needed, and others for which the backward gives one as well.

    `floats`: which arguments can have a gradient. `pull`: what the backward gives where some are
    needed, None where it gives nothing.
    """
    if not any(required) or list(required) == list(floats):
        return tuple(floats)
    try:
        given, alone = pull(floats), pull(required)
    except Exception:  # as the user's code raises it, where no gradient was ever asked for
        return tuple(required)
    if any(r and a is None for r, a in zip(required, alone, strict=True)):
        return tuple(required)  # as it is run, it gives none: `needs_input_grad` was misread
    return tuple([r or g is not None for r, g in zip(required, given, strict=True)])
