"""The op table for pages: each function's value and partial derivatives, compiled to WebAssembly.

A page that evaluates what its reader types asks this module, so that no rule is written twice: the
numbers are those of the compiled engine without fused multiply-add. Beside it, as data, stand the
names, and the rules in symbols.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import chainrule
from chainrule.engine.creation import full
from chainrule.ops.rows import Elementwise, rows
from chainrule.traces.local_derivatives.formulas import formula_of
from chainrule.traces.local_derivatives.jacobians import rule_of

OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "neg": "-"}
TABLE = "chainrule.ops.elementwise"
ALIASES = {"ln": "log", "max": "maximum", "min": "minimum", "gelu": "gelu_erf"}
"""What readers may type beside the names of the table."""


def functions() -> list[Elementwise]:
    """The rows that a reader may use: differentiable, of one or two numbers, public or signs."""
    return [
        row
        for name, row in list(rows.items())
        if row.home == TABLE
        and 1 <= len(row.partials) <= 2
        and (name in OPERATORS or name in chainrule.__dir__())
    ]


def table_data() -> dict[str, Any]:
    """Names, numbers of arguments, and rules in symbols."""
    return {
        "aliases": ALIASES,
        "functions": {
            row.name: {
                "arguments": len(row.partials),
                "formula": formula_of(row, len(row.partials)),
                "rules": [rule_of(p, len(row.partials)) for p in row.partials],
                "strong": any(p.singular for p in row.partials),
                "sign": OPERATORS.get(row.name, ""),
            }
            for row in functions()
        },
    }


def every_function(a: Any, b: Any) -> list[Any]:
    """For each function its value at one point, then its partials, in the order of `functions`."""
    out: list[Any] = []
    for row in functions():
        xs = (a, b)[: len(row.partials)]
        y = row(*xs)
        out.append(y)
        for partial in row.partials:
            d = partial.value(y, xs)
            plain = not hasattr(d, "dtype")
            out.append(full((), float(d), dtype=np.float64) if plain else d.astype(np.float64))
    return out


def table_module(folder: Path) -> Path:
    """Write the WebAssembly module that computes `every_function` of two numbers."""
    from chainrule.compile.jit import jit  # a page whose modules are cached compiles nothing

    step = jit(every_function)
    return step.to_wasm(folder / "ops.wasm", np.float64(0.5), np.float64(0.25))
