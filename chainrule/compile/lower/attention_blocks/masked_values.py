"""What is known of an expression where a causal mask is false: right of the diagonal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, Var
from chainrule.compile.lower.attention_blocks.band_types import Rows

_COMPUTED = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "exp": np.exp,
    "equal": np.equal, "maximum": np.maximum,
}  # fmt: skip
"""Functions whose value is known where their arguments are."""


@final
@dataclass(frozen=True, slots=True)
class ZeroTimes:
    """0 times the element of a buffer."""

    buffer: Buffer


Known = float | bool | Literal["finite"] | ZeroTimes | None
"""What is known of a number: its value, that it is neither inf nor NaN, or nothing."""


@final
@dataclass
class Masked:
    """What expressions are where column > row; `column` is None for what has no column."""

    rows: Rows
    column: Var | None
    buffers: Mapping[Buffer, Known]
    facts: Mapping[Local, Known]

    def of(self, e: Expr) -> Known:
        """What is known of it."""
        match e.kind:
            case "lit":
                return e.of
            case "local":
                return self.facts.get(e.of)
            case "load":
                buffer, at, when = e.of
                mine = self.column is not None and at.coefficient(self.column) == 1
                return self.buffers.get(buffer) if mine and when is None else None
            case "index":
                return None
            case "fn":
                return self._call(e, *e.of)

    def _call(self, e: Expr, name: str, *args: Expr) -> Known:
        """What a function of known values is, None if that cannot be told."""
        if name == "less_equal" and self._is_mask(*args):
            return False
        if name == "where":
            return self._chosen(*args)
        known: list[Known] = [self.of(a) for a in args]
        if name == "strong_mul" and _is(known[0], 0):
            return 0.0
        if name in ("mul", "strong_mul") and (spoilt := self._zero_times(args, known)) is not None:
            return spoilt
        if name == "sub" and _is(known[0], -math.inf) and known[1] == "finite":
            return -math.inf
        if name == "isfinite":
            return True if known[0] == "finite" else None
        values = [k for k in known if isinstance(k, float | int)]
        if name not in _COMPUTED or len(values) < len(known):
            return None
        with np.errstate(all="ignore"):
            kind = args[0].dtype.type
            return _COMPUTED[name](*[kind(v) for v in values]).item()

    def _chosen(self, test: Expr, yes: Expr, no: Expr) -> Known:
        chosen = self.of(test)
        if isinstance(chosen, bool):
            return self.of(yes if chosen else no)
        a, b = self.of(yes), self.of(no)
        if test.kind == "fn" and test.of[0] == "isfinite" and test.of[1] is yes:
            a = "finite"
        if a == "finite" and isinstance(b, float) and math.isfinite(b):
            return "finite"
        return a if a == b else None

    def _zero_times(self, args: Sequence[Expr], known: Sequence[Known]) -> ZeroTimes | None:
        """For a product of an element of this column and 0."""
        for x, k in zip(args, reversed(known), strict=True):
            if _is(k, 0) and x.kind == "load" and self.column is not None:
                buffer, at, when = x.of
                if when is None and at.coefficient(self.column) == 1:
                    return ZeroTimes(buffer)
        return None

    def _is_mask(self, column: Expr, row: Expr) -> bool:
        plain = column.kind == row.kind == "index" and self.column is not None
        return plain and _is_counter(column.of, self.column) and _is_counter(row.of, self.rows.row)


def _is(known: Known, value: float) -> bool:
    return isinstance(known, float | int) and known == value


def _is_counter(at: Affine, v: Var | None) -> bool:
    return v is not None and at.const == 0 and list(at.terms) == [(v, 1)]
