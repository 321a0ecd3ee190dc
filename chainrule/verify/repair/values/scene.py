"""A version of the code as the rules see it: its text, what its expressions were, what is wrong."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import Any, cast

import numpy as np

from chainrule.verify.repair.budget import NAMED_ARRAYS
from chainrule.verify.repair.code import syntax, value_flow
from chainrule.verify.repair.code.dialect import Dialect
from chainrule.verify.repair.code.draft import Draft, Edit, UnreadableError, python_function
from chainrule.verify.repair.code.parentheses import replacement
from chainrule.verify.repair.code.syntax import is_simple, mentions, names_in
from chainrule.verify.repair.code.value_flow import statements_of_value
from chainrule.verify.repair.failing_rules import Failures
from chainrule.verify.repair.values.names_in_reach import atoms_of, is_number, owner
from chainrule.verify.repair.values.watch import VALUE, Visit, Watched, is_count, is_torch, shape_of

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Scene:
    """One version after one run at a point at which it is wrong."""

    draft: Draft
    watched: Watched
    shapes: tuple[Shape, ...]
    """Shapes of the inputs whose gradients are wrong."""
    cotangent_shapes: tuple[Shape, ...]
    seen: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    pool: dict[object, list[Any]] = field(default_factory=dict[object, list[Any]])
    """Expressions over named arrays, by these and their shape, once they have been formed."""
    failures: Failures = field(default_factory=Failures)
    """Of rules that raised."""

    # What expressions were.

    def value(self, node: ast.AST) -> Any:
        """What a node was when it was last evaluated; None if it never was."""
        return self.watched.values.get(self.draft.index[node])

    def shape(self, node: ast.AST) -> Shape | None:
        """The shape of a node's value; None if it is neither a number nor an array."""
        return shape_of(self.value(node))

    def is_array(self, node: ast.AST) -> bool:
        """Whether a node was an array (of any number of axes), not a number."""
        value = self.value(node)
        return shape_of(value) is not None and not isinstance(value, int | float | complex)

    @cached_property
    def expressions(self) -> list[ast.expr]:
        """Expressions that were evaluated on the way to a gradient, outer ones first, in the order
        of the text."""
        return [n for n in self._evaluated if not self.is_of_value(self.draft.span(n)[0])]

    @cached_property
    def _evaluated(self) -> list[ast.expr]:
        seen = [n for n in self.draft.nodes if isinstance(n, ast.expr) and self._reached(n)]
        return sorted(seen, key=lambda n: (self.draft.span(n)[0], -self.draft.span(n)[1]))

    @cached_property
    def _of_value(self) -> list[ast.stmt]:
        """Statements that compute the value, where one function gives it and its gradients."""
        source = self.draft.source
        return statements_of_value(self.draft.root, self._idle) if source.makes_both else []

    @cached_property
    def _idle(self) -> list[ast.stmt]:
        """Statements that only hand gradients on."""
        handing_on = self.draft.source.handing_on
        return [] if handing_on is None else handing_on(self.draft.root)

    @cached_property
    def _apart(self) -> list[tuple[int, int]]:
        """Where no gradient is computed."""
        return [self.draft.span(n) for n in (*self._of_value, *self._idle)]

    def is_of_value(self, start: int) -> bool:
        """Whether what begins at a place computes the value, or uses gradients, and is none."""
        return any(first <= start < last for first, last in self._apart)

    def _reached(self, node: ast.expr) -> bool:
        """Whether a node was evaluated, or raised after all its parts had been."""
        if self.draft.index[node] in self.watched.values:
            return True
        parts = [n for n in ast.walk(node) if isinstance(n, ast.expr) and n is not node]
        raised = isinstance(node, ast.BinOp | ast.Call | ast.Subscript)
        return raised and any(self.draft.index[n] in self.watched.values for n in parts)

    @cached_property
    def roots(self) -> list[ast.expr]:
        """Whole right-hand sides and returned values that were arrays."""
        whole = [
            n
            for n in value_flow.whole_expressions(self.draft)
            if not self.is_of_value(self.draft.span(n)[0])
        ]
        return [n for n in whole if self.is_array(n)]

    @cached_property
    def returned(self) -> list[ast.expr]:
        """The elements of what the function returns."""
        return value_flow.returned_values(self.draft)

    def visits(self, node: ast.AST) -> list[Visit]:
        """What a node was, and the local names then, in each turn; none if some are not kept."""
        i = self.draft.index[node]
        found = self.watched.visits.get(i, [])
        return found if len(found) == self.watched.turns[i] else []

    def evaluated(self, node: ast.AST, text: str | CodeType, visit: Visit | None = None) -> Any:
        """What an expression over names within reach of a node is there; None if it fails."""
        scope = self.watched.scopes.get(self.draft.index[node], self.watched.names)
        value, scope = visit or (self.value(node), scope)
        names = {**python_function(self.draft.source.function).__globals__, **scope}
        try:
            with np.errstate(all="ignore"):
                return eval(text, {**names, VALUE: value})
        except Exception:  # Whatever a term may do at other sizes, it is only no term then.
            return None

    @cached_property
    def arrays(self) -> dict[str, Any]:
        """Named arrays within reach, by the text that names them; the function's own first."""
        found = {k: v for k, v in self._atoms() if (s := shape_of(v)) is not None and s != ()}
        return dict(list(found.items())[:NAMED_ARRAYS])

    def arrays_at(self, node: ast.AST) -> dict[str, Any]:
        """Named arrays within reach of a node, as they were when it was last evaluated."""
        i = self.draft.index[node]
        if (scope := self.watched.scopes.get(i)) is None:
            return self.arrays
        if i not in self.seen:
            self.seen[i] = self.arrays_in(scope)
        return self.seen[i]

    def arrays_like(self, node: ast.AST) -> list[str]:
        """Names of arrays within reach of a node that have its shape, however many others there
        are."""
        scope = self.watched.scopes.get(self.draft.index[node], self.watched.names)
        found = {k: scope.get(k, v) for k, v in self._atoms() if owner(k) in scope}
        return [k for k, v in found.items() if shape_of(v) == self.shape(node)][:NAMED_ARRAYS]

    def arrays_in(self, scope: dict[str, Any]) -> dict[str, Any]:
        """Named arrays, as they are among some local names."""
        found = {k: scope.get(k, v) for k, v in self._atoms() if owner(k) in scope}
        found = {k: v for k, v in found.items() if shape_of(v)}
        return dict(list(found.items())[:NAMED_ARRAYS])

    def rows_at(self, node: ast.AST, visit: Visit | None = None) -> dict[str, Any]:
        """What a turn of a loop reads of what holds something for every turn: `a[t]`."""
        arrays = self.arrays_at(node) if visit is None else self.arrays_in(visit[1])
        texts = [f"{a}[{i}]" for a in [*arrays, *self.lists] for i in self.counters]
        second = [i for i in self.counters if f"[:, {i}]" in self.draft.body]
        texts += [f"{a}[:, {i}]" for a in arrays for i in second]
        found = {text: self.evaluated(node, text, visit) for text in texts}
        return {k: v for k, v in found.items() if shape_of(v)}

    def numbers_at(self, node: ast.AST, visit: Visit | None = None) -> dict[str, Any]:
        """Real numbers of a turn of a loop: by name, and what it reads of what holds one for every
        turn."""
        scope = self.watched.scopes.get(self.draft.index[node], {}) if visit is None else visit[1]
        texts = [f"{a}[{i}]" for a in self.arrays_in(scope) for i in self.counters]
        found = {**scope, **{text: self.evaluated(node, text, visit) for text in texts}}
        names = [k for k, v in found.items() if isinstance(v, float | np.floating)]
        return {k: found[k] for k in names[:NAMED_ARRAYS]}

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """Named numbers within reach that are not 0 or 1."""
        found = {k: v for k, v in self._atoms() if shape_of(v) == ()}
        found = {k: v for k, v in found.items() if not isinstance(v, bool) and is_number(v)}
        return dict(list(found.items())[:NAMED_ARRAYS])

    @cached_property
    def lists(self) -> list[str]:
        """What the code calls lists of arrays: of what a forward kept in each turn, say."""
        held = dict(self.watched.names)
        held |= {self.draft.src(n): self.value(n) for n in self._evaluated if is_simple(n)}
        found = {k: cast("list[Any]", v) for k, v in held.items() if isinstance(v, list | tuple)}
        return [k for k, v in found.items() if v and shape_of(v[0])][:NAMED_ARRAYS]

    @cached_property
    def counters(self) -> list[str]:
        """What counts the turns of loops."""
        loops = [n for n in self.draft.nodes if isinstance(n, ast.For)]
        found = {name for n in loops for name in names_in(n.target)}
        return sorted([k for k in found if is_count(self.watched.names.get(k))])

    @cached_property
    def counts(self) -> list[str]:
        """What the code calls whole numbers above 0."""
        found = {k for k, v in self._atoms() if is_count(v) and v > 0}
        return sorted([k for k in found if not k.isdigit()])

    def _atoms(self) -> Iterator[tuple[str, Any]]:
        simple = [(self.draft.src(n), self.value(n)) for n in self._evaluated if is_simple(n)]
        return atoms_of(self.draft, self.watched.names, simple, self.unread)

    @cached_property
    def extents(self) -> dict[str, int]:
        """Sizes of named arrays, by the text that gives them: `x.shape[0]`, `x.size`."""
        found = dict[str, int]()
        for k, v in self.arrays.items():
            shape = shape_of(v) or ()
            for axis, n in enumerate(shape):
                found[f"{k}.shape[{axis}]"] = n
            if len(shape) > 1:
                found[f"{k}.numel()" if is_torch(v) else f"{k}.size"] = math.prod(shape)
        return found

    @cached_property
    def cotangents(self) -> set[str]:
        """Parameters that have a cotangent's shape and are not known to be anything else."""
        names = self.draft.parameters
        shaped = {n for n in names if shape_of(self.watched.names.get(n)) in self.cotangent_shapes}
        usual = {n for n in shaped if n.startswith(("g", "d", "up", "out_bar", "y_bar", "out"))}
        told = usual or shaped
        return told - set(self._given) or told

    @cached_property
    def _given(self) -> tuple[str, ...]:
        """Arguments of a forward of its own."""
        forward = self.draft.source.separate_forward
        if forward is None:
            return ()
        try:
            code = python_function(forward.function).__code__
        except UnreadableError:
            return ()
        return code.co_varnames[: code.co_argcount]

    @cached_property
    def flowing(self) -> set[str]:
        """Names that the cotangents flow into; where the value is computed as well, those that are
        not of it."""
        return value_flow.flowing(self.draft, self.cotangents, self._of_value)

    def flows(self, node: ast.AST) -> bool:
        """Whether a node depends on a cotangent."""
        return bool(mentions(node) & self.flowing)

    def flows_at(self, start: int, end: int) -> bool:
        """Whether a whole value, of which this is a stretch, depends on a cotangent."""
        spans = [(self.draft.span(n), n) for n in self.roots]
        around = [n for (first, last), n in spans if first <= start and end <= last]
        return not around or any(self.flows(n) for n in around)

    @cached_property
    def made(self) -> set[str]:
        """Local names that are computed (see `syntax.made`)."""
        return syntax.names_computed(self.draft)

    @cached_property
    def assigned_once(self) -> set[str]:
        """Names that one statement gives, and none changes."""
        return syntax.assigned_once(self.draft)

    @cached_property
    def names_returned(self) -> set[tuple[int, int]]:
        """Where a name that is computed is returned; not what the turns of a loop have made of it,
        for nothing in the loop comes after them."""
        names = [n for n in self.returned if isinstance(n, ast.Name) and n.id in self.made]
        turned = syntax.loop_carried_names(self.draft)
        return {self.draft.span(n) for n in names if n.id not in turned}

    @cached_property
    def only_returned(self) -> set[tuple[int, int]]:
        """Those of them that nothing else reads: what is done to them there is done as well where
        they are computed."""
        return self.names_returned & syntax.only_reads(self.draft)

    @cached_property
    def renamed(self) -> set[tuple[int, int]]:
        """Where what has a name is given another name, and nothing is computed of it."""
        parents, given = self.draft.parents, set(self.draft.parameters) - self.made
        names = [n for n in self.roots if isinstance(n, ast.Name) and n.id not in given]
        return {self.draft.span(n) for n in names if isinstance(parents[n], ast.Assign)}

    @cached_property
    def read_once(self) -> set[tuple[int, int]]:
        """Where a name that is computed once is read for the only time: an edit belongs where it
        is computed, unless it needs the name more than once. A call that is made for what it does,
        `layer.backward(d * mask)`, is as good a place."""
        return syntax.read_once(self.draft)

    @cached_property
    def unread(self) -> set[str]:
        """Local names that are assigned and never read: they were meant for something."""
        return syntax.unread(self.draft)

    @cached_property
    def dialect(self) -> Dialect:
        """How the user's code says things."""
        return Dialect(self.draft, tuple(self.arrays.values()))

    def put(self, node: ast.AST, text: str, code: str, cost: float = 1.0) -> Edit:
        """The edit that puts an expression where a node stands."""
        return replacement(self.draft, node, text, code, cost)
