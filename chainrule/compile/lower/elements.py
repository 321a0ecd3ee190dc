"""Elements of terms as expressions: what has memory is loaded, maps are inlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from chainrule.compile.graph.array_patterns import Pattern
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Expr, Exprs
from chainrule.compile.loops.views import Index, View, back, is_view, located, source
from chainrule.compile.lower import constants, op_rules


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
            return self._guarded(t, at, when)
        if t in self._patterns:
            return constants.element(self.exprs, self._patterns[t], t.dtype, at)
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

    def _guarded(self, t: Term, at: Index, when: Expr) -> Expr:
        e, outer = self.exprs, self._guard
        self._guard = (
            when if outer is None else e.fn("logical_and", outer, when, dtype=op_rules.BOOL)
        )
        value = self.element(t, at)
        self._guard = outer
        if value.kind == "load":
            return value
        return e.fn("where", when, value, e.lit(0, value.dtype), dtype=value.dtype)

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
        return located(t, self._views)
