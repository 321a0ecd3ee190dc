"""What every expression of a function evaluates to, and what comes out if one of them is changed.

A version is compiled once with each expression `e` written `__see__(i, e)`. What `__see__` returns
can then be set from outside for one run: an expression can be scaled, or something added to it,
without compiling anything again.
"""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, TypeAlias, cast

import numpy as np

from chainrule.verify.repair.budget import VISITS
from chainrule.verify.repair.code.draft import Def, Draft
from chainrule.verify.subject import Array

Change: TypeAlias = Callable[[Any], Any]
Visit: TypeAlias = tuple[Any, dict[str, Any]]
"""What a node was, and the local names then."""
SEE = "__see__"
"""What is called with each node and its value."""
VALUE = "__value__"
"""What a node's own value is called in code that is evaluated beside it."""
_SMALL = 4096


@dataclass(eq=False)
class Watched:
    """A version of which the values can be seen and changed."""

    draft: Draft
    function: Callable[..., Any] = field(init=False)
    values: dict[int, Any] = field(init=False, default_factory=dict[int, Any])
    """What each node was, by its index in `draft.nodes`, when it was last evaluated."""
    turns: Counter[int] = field(init=False, default_factory=Counter[int])
    """How often each node was evaluated."""
    shapes: dict[int, list[tuple[int, ...] | None]] = field(
        init=False, default_factory=dict[int, list[tuple[int, ...] | None]]
    )
    """The shapes that its values had."""
    scopes: dict[int, dict[str, Any]] = field(init=False, default_factory=dict[int, dict[str, Any]])
    """The local names when each node was evaluated; small arrays as they were at that time."""
    visits: dict[int, list[Visit]] = field(init=False, default_factory=dict[int, list[Visit]])
    """The same for every turn of a loop, with the values of the node as they were."""
    names: dict[str, Any] = field(init=False, default_factory=dict[str, Any])
    """The local names where the function returned, or raised."""
    changes: Mapping[int, Change] = field(init=False, default_factory=dict[int, Change])
    """What to do with values of nodes in the next run; the values are not kept meanwhile."""
    instead: tuple[int, CodeType] | None = field(init=False, default=None)
    """A node, and code that gives another value for it in the next run, from the names around."""
    noted: dict[int, list[Visit]] = field(init=False, default_factory=dict[int, list[Visit]])
    """Of the nodes that are named here, their visits in the next run, before they are changed."""

    def __post_init__(self) -> None:
        names: dict[str, object] = {SEE: self._see, "__names__": self._note_names}
        self.function = self.draft.compiled(names, _Watch(self.draft).rewritten)

    def _see(self, i: int, value: Any) -> Any:
        """Note a value, or put another in its place, if that was asked for."""
        if self.instead is not None:
            frame = inspect.currentframe()
            if i != self.instead[0] or frame is None or frame.f_back is None:
                return value
            names = {**frame.f_back.f_locals, VALUE: value}
            return eval(self.instead[1], frame.f_back.f_globals, names)
        if self.changes:
            change = self.changes.get(i)
            if i in self.noted:
                self.noted[i].append(self._visit(value, inspect.currentframe()))
            return value if change is None else change(value)
        self.values[i] = value
        self.turns[i] += 1
        self.shapes.setdefault(i, []).append(shape_of(value))
        visit = self._visit(value, inspect.currentframe())
        self.scopes[i] = visit[1]
        if self.turns[i] <= VISITS:
            self.visits.setdefault(i, []).append(visit)
        return value

    def _visit(self, value: Any, frame: FrameType | None) -> Visit:
        caller = None if frame is None else frame.f_back
        names = {} if caller is None else caller.f_locals
        scope = {k: _snapshot(v) for k, v in names.items() if not k.startswith("__")}
        return _snapshot(value), scope

    def _note_names(self, names: dict[str, Any], value: Any = None) -> Any:
        if not self.changes:
            self.names = {k: v for k, v in names.items() if not k.startswith("__")}
        return value


class _Watch(ast.NodeTransformer):
    """Puts `__see__` around expressions, and `__names__` where the function ends."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._index: dict[ast.AST, int] = {}

    def rewritten(self, root: Def) -> Def:
        self._index = {n: i for i, n in enumerate(ast.walk(root))}
        if isinstance(root, ast.Lambda):
            root.body = _call_of("__names__", _locals(), self.visit(root.body))
        else:
            body = [self.visit(s) for s in root.body]
            end = ast.Expr(_call_of("__names__", _locals()))
            root.body = [ast.copy_location(ast.Try(body, [], [], [end]), root.body[0])]
        return ast.fix_missing_locations(root)

    def visit(self, node: ast.AST) -> Any:
        """The expression within a call that hands over its value."""
        match node:
            case ast.JoinedStr() | ast.FormattedValue() | ast.Starred() | ast.Slice():
                return node if isinstance(node, ast.JoinedStr) else self.generic_visit(node)
            case ast.Call(func=ast.Attribute() as function):
                function.value = self.visit(function.value)
                self._arguments(node)
            case ast.Call():
                self._arguments(node)
            case ast.Constant() if not _is_number(node.value):
                return node
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                return self.generic_visit(node)
            case ast.Name(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Del()):
                return node
            case _:
                self.generic_visit(node)
        if not isinstance(node, ast.expr) or isinstance(node, ast.Tuple | ast.List):
            return node
        at = ast.Constant(self._index[node])
        return ast.copy_location(_call_of(SEE, at, node), node)

    def _arguments(self, node: ast.Call) -> None:
        node.args = [self.visit(a) for a in node.args]
        node.keywords = [self.visit(k) for k in node.keywords]


def _snapshot(value: Any) -> Any:
    """A copy of an array that code to come may write into, unless it is large."""
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return array.copy() if array.size <= _SMALL else array
    return value.clone() if is_torch(value) and hasattr(value, "clone") else value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | complex) and not isinstance(value, bool)


def _locals() -> ast.expr:
    return ast.Call(ast.Name("locals", ast.Load()), [], [])


def _call_of(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def plain(value: Any) -> Array | None:
    """A number, an array or a tensor as a NumPy array; None for everything else."""
    if isinstance(value, np.ndarray):
        return cast("Array", value)
    if isinstance(value, int | float | complex | np.generic):
        return np.asarray(value)
    if isinstance(value, type) or not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return None
    try:
        return np.asarray(value.detach() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):
        return None


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of a number (), an array or a tensor; None for everything else."""
    if isinstance(value, int | float | complex):
        return ()
    shape = None if isinstance(value, type) else getattr(value, "shape", None)
    return None if shape is None or callable(shape) else tuple([int(n) for n in shape])


def is_count(value: Any) -> bool:
    """Whether a value is a whole number, of Python's or of NumPy's."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_torch(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch's."""
    return type(value).__module__.partition(".")[0] == "torch"
