"""For which arguments of a `Function` a gradient is expected, where a call did not need all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from chainrule.verify.subject import Input

Inputs = tuple[Input, ...]


def needed_inputs(
    inputs: Inputs, asked: Sequence[bool], pull: Callable[[Inputs], Sequence[Any]]
) -> Inputs:
    """The inputs, wanted where the call asked for a gradient, and where the backward gives one as
    well.

    Wanted now: those that can have a gradient. `pull`: what the backward gives where some are
    wanted, None where it gives nothing.
    """

    def wanting(wants: Sequence[bool]) -> Inputs:
        return tuple([replace(x, wanted=bool(w)) for x, w in zip(inputs, wants, strict=True)])

    required = [x.wanted and bool(a) for x, a in zip(inputs, asked, strict=True)]
    if not any(required) or required == [x.wanted for x in inputs]:
        return inputs
    try:
        given, alone = pull(inputs), pull(wanting(required))
    except Exception:  # as the user's code raises it, where no gradient was ever asked for
        return wanting(required)
    if any(r and a is None for r, a in zip(required, alone, strict=True)):
        return wanting(required)  # as it is run, it gives none: `needs_input_grad` was misread
    return wanting([r or g is not None for r, g in zip(required, given, strict=True)])
