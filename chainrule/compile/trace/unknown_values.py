"""Values that are asked for while a function is traced, and that nobody knows yet."""

from __future__ import annotations

from typing import Any

from chainrule.engine.op import Spec
from chainrule.engine.provenance import location, source_quote, user_line
from chainrule.errors import WITHOUT_NUMBERS, TraceError, describe


def unknown(x: Any, what: str) -> TraceError:
    """What to raise where the code asks for the values of `x`, which are not known."""
    line = user_line()
    if x.value.__class__ is not Spec:
        return TraceError(
            f"{what} of {describe(x.value)} at {location(*line)}: a tensor that a compiled "
            "function reaches by itself may have other values at later calls. Compute with the "
            f"tensor, or give the number to the function as an argument{source_quote(*line)}"
        )
    made = "" if x.node is None or x.node.op is None else f", made at {x.node.where},"
    return TraceError(
        f"{what} at {location(*line)} of a value that is not known yet: {x.value}{made} stands for "
        f"what later calls bring. {WITHOUT_NUMBERS}; a number that the code must know is a static "
        f"argument: jit(f, static_argnames=...){source_quote(*line)}"
    )
