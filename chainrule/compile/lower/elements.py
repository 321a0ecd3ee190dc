"""Elements of terms as expressions: what has memory is loaded, maps are inlined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

from chainrule.compile.graph.array_patterns import (
    Pattern,
    Ratio,
    Steps,
    Triangle,
    Uniform,
    find_pattern,
)
from chainrule.compile.graph.sizes import Size
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Expr, Exprs
from chainrule.compile.loops.views import ZERO, Index, View, back, is_view, locate, source
from chainrule.compile.lower import op_rules


@final
class Inliner:
    """Elements of the terms of a program, by where these lie."""

    def __init__(self, views: Mapping[Term, View], patterns: Mapping[Term, Pattern]) -> None:
        self.exprs = Exprs()
        self.requests: dict[tuple[Term, Index], None] = {}
        """The realized terms that were asked for, and at which index, as far as it is known."""
        self.in_registers: dict[Term, Callable[[Index], Expr | None]] = {}
        self._views, self._patterns = views, patterns
        self._known: dict[Any, Expr] = {}
        self._guard: Expr | None = None

    def forget(self) -> None:
        """No expression is known: what was computed is computed anew."""
        self._known = {}
        self.requests = {}

    def element(self, t: Term, at: Index, when: Expr | None = None) -> Expr:
        """The element of `t` at `at`; 0 where `when` is given and false."""
        if when is not None:
            return self._element_if(t, at, when)
        if t in self._patterns:
            return constant_element(self.exprs, self._patterns[t], t.dtype, at)
        if t in self.in_registers and (value := self.in_registers[t](at)) is not None:
            return value
        if (view := self.view(t)) is not None:
            self._request(t, at)
            return self.exprs.load(view.buffer, view.at(at), self._guard)
        key = (t, at, self._guard)
        if key not in self._known:
            if is_view(t):
                index = back(t, at)
                assert index is not None, f"{t} has an index that is not affine"
                self._known[key] = self.element(t.args[0], index)
            else:
                self._known[key] = self.computed(t, at)
        return self._known[key]

    def computed(self, t: Term, at: Index) -> Expr:
        """The element of the map `t` at `at`, from its arguments, wherever it lies itself."""
        return op_rules.MAPS[type(t.op)](self, t, at)

    def _element_if(self, t: Term, at: Index, when: Expr) -> Expr:
        e, outer = self.exprs, self._guard
        self._guard = e.both(outer, when)
        value = self.element(t, at)
        self._guard = outer
        if value.kind == "load":
            return value
        return e.fn("where", when, value, e.lit(0, value.dtype))

    def _request(self, t: Term, at: Index) -> None:
        while is_view(t):
            index = back(t, at) if at else at
            t, at = t.args[0], index if index is not None else ()
        if t.op is not None:
            self.requests[t, at] = None

    def view(self, t: Term) -> View | None:
        """Where `t` lies, None if it does not lie anywhere or is in registers now."""
        if is_view(t) and source(t) in self.in_registers:
            return None
        return locate(t, self._views)


# --- constants that a formula says: no memory for them --------------------------------------------


def patterns(order: Iterable[Term]) -> dict[Term, Pattern]:
    """The formulas of all elements of those constants that have one."""
    out: dict[Term, Pattern] = {}
    for t in order:
        if t.op is None and t.index is None:
            known = isinstance(t.value, Uniform | Triangle | Steps)
            found = t.value if known else find_pattern(t.value)
            if found is not None:
                out[t] = found
    return out


def constant_element(e: Exprs, p: Pattern, dtype: Any, at: Index) -> Expr:
    """The element of a constant of that pattern."""
    match p:
        case Uniform():
            return _number(e, p.value, dtype)
        case Triangle():
            if not at:
                return e.lit(True, bool)
            row, col = e.index(at[-2] + p.k), e.index(at[-1])
            return e.fn("less_equal", col, row)
        case Steps():
            place = (at[p.axis] if at else ZERO) * p.step + p.start
            return e.cast(e.index(place), dtype)


def _number(e: Exprs, value: Any, dtype: Any) -> Expr:
    if isinstance(value, Size):
        return e.cast(e.index(Affine(value)), dtype)
    if isinstance(value, Ratio):
        scale, size = e.lit(value.scale, dtype), e.cast(e.index(Affine(value.size)), dtype)
        return e.fn("div" if value.over else "mul", scale, size)
    return e.lit(value, dtype)
