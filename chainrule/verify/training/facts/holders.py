"""Who holds a graph: variables of the running program that lead to nodes of steps that are over."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from types import FrameType
from typing import Any, NamedTuple, cast

from chainrule.engine.node import Node
from chainrule.engine.tensors import Tensor
from chainrule.verify.installed_compiler import loop_code
from chainrule.verify.place import Place
from chainrule.verify.trees import FunctionNode, function_at, tree_of_file
from chainrule.verify.user_frames import is_library, user_frame, with_callers

_LEAF = 1 << 63
_MOST = 64
"""Elements of a container that are looked at."""


def tensors(value: Any) -> list[Any]:
    """Tensors in a value: itself, or in lists, tuples and dicts of it."""
    found: list[Any] = []
    _gather((value,), found)
    return found


def _gather(values: Iterable[Any], found: list[Any]) -> None:
    for value in islice(values, _MOST):
        if isinstance(value, list | tuple | deque):
            _gather(cast("Iterable[Any]", value), found)
        elif isinstance(value, dict):
            _gather(cast("dict[Any, Any]", value).values(), found)
        elif is_tensor(value):
            found.append(value)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch's or of ours; asked of its class, since what a tensor
    itself is asked may raise."""
    return isinstance(value, Tensor) or hasattr(value.__class__, "grad_fn")


def node_of(tensor: Any) -> Any:
    """The node that made a tensor; None if it is a leaf, or PyTorch refuses to say: a view that was
    made without a graph and then written to has none that could be used."""
    if isinstance(tensor, Tensor):
        return None if tensor.node is None or tensor.node.op is None else tensor.node
    try:
        return getattr(tensor, "grad_fn", None)
    except RuntimeError:
        return None


def age(tensor: Any) -> int:
    """Serial number of the node that made a tensor; 0 if it has none."""
    return _serial(node_of(tensor))


def _serial(node: Any) -> int:
    if node is None:
        return 0
    serial: int = node.serial if isinstance(node, Node) else node._sequence_nr()
    return serial if serial < _LEAF else 0


def nodes_below(node: Any) -> list[Any]:
    """Nodes that a gradient goes on to from a node."""
    if isinstance(node, Node):
        return [n for n in node.inputs if n is not None and n.op is not None]
    return [n for n, _ in node.next_functions if n is not None]


def _oldest(tensor: Any) -> int:
    """Serial number of the oldest node behind a tensor that is found by going straight down."""
    node, oldest = node_of(tensor), 0
    for _ in range(10_000):
        if node is None:
            break
        oldest = _serial(node) or oldest
        node = min(nodes_below(node), key=_order, default=None)
    return oldest


def _order(node: Any) -> int:
    return node.serial if isinstance(node, Node) else node._sequence_nr()


def holder(over: int) -> tuple[str, Place | None] | None:
    """Name of a variable that holds graphs of more than one step, and the line that fills it.

    Containers first, then sums, whose graph has nodes from before `over`.
    """
    return container() or _sum(over)


def is_collecting() -> bool:
    """Whether chainrule itself collects the results of steps, for who has asked for all of them."""
    looped = loop_code()
    return bool(looped) and any(f.f_code is looped for f in with_callers(user_frame()))


def container() -> tuple[str, Place | None] | None:
    """Name of a list or the like that holds tensors of several graphs, and the line that fills
    it."""
    for row in _variables():
        held = [t for t in tensors(row.value) if age(t)]
        if not is_tensor(row.value) and len({age(t) for t in held}) >= 2:
            return row.name, _line(row)
    return None


def _sum(over: int) -> tuple[str, Place | None] | None:
    rows = [row for row in _variables() if is_tensor(row.value) and age(row.value)]
    sums = [(oldest, row) for row in rows if (oldest := _oldest(row.value)) <= over]
    if not sums:
        return None
    row = min(sums, key=lambda pair: pair[0])[1]
    return row.name, _line(row)


class _Variable(NamedTuple):
    """A variable of a frame's, or an attribute of what a variable names."""

    name: str
    value: Any
    frame: FrameType
    owner: Any = None
    """The object that has it, if it is an attribute."""


def _variables() -> Iterator[_Variable]:
    """Variables of the user's frames, and attributes of the objects that they name."""
    seen: set[int] = set()
    for frame in with_callers(user_frame()):
        if is_library(frame.f_code.co_filename):
            continue
        for scope in (frame.f_locals, frame.f_globals):
            for name, value in list(scope.items()):
                if id(value) not in seen and not name.startswith("__"):
                    seen.add(id(value))
                    yield _Variable(name, value, frame)
                    yield from _attributes(name, value, frame)


def _attributes(name: str, value: Any, frame: FrameType) -> Iterator[_Variable]:
    if isinstance(value, type) or inspect.ismodule(value) or is_tensor(value):
        return
    own: Any = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        for key, part in list(cast("dict[str, Any]", own).items()):
            yield _Variable(f"{name}.{key}", part, frame, value)


def _line(row: _Variable) -> Place | None:
    """The line that puts something into a variable: of its frame, of the class of the object that
    has it, or else of any other function of the file."""
    code = row.frame.f_code
    mine = {line for _, _, line in code.co_lines() if line is not None}
    found = [
        (rank, line)
        for rank, line in _statements_that_fill(code.co_filename, row.name)
        if line in mine
    ]
    most = max(found, default=(0, 0))
    if most[0] < _FOR_SURE:
        file, name = code.co_filename, row.name
        if row.owner is not None:
            module = sys.modules.get(type(row.owner).__module__)
            file, name = str(getattr(module, "__file__", "")), f"self.{row.name.rpartition('.')[2]}"
        elsewhere = max(_statements_that_fill(file, name), default=(0, 0))
        if elsewhere[0] > most[0]:
            return call_that_hands(Place(file, elsewhere[1]))
    return Place(code.co_filename, most[1], code.co_qualname) if most[0] else None


_FOR_SURE = 2
"""From here on a line adds something to what a variable has; below it may be its first value."""


def _statements_that_fill(file: str, name: str) -> list[tuple[int, int]]:
    """How surely statements of a file put something into a variable, and their lines."""
    tree = tree_of_file(file)
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]
    return [(rank, node.lineno) for node in statements if (rank := _fills(node, name))]


def _fills(node: ast.AST, name: str) -> int:
    """2 for `name.append(...)`, `name[...] = ...`, `name += ...` and `name = ... name ...`, 1 for
    `name = ...`, 0 for others."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        fills = node.func.attr in ("append", "extend", "add", "insert", "update", "setdefault")
        return 2 if fills and _root(node.func.value) == name else 0
    if isinstance(node, ast.Assign):
        if not any(_root(target) == name for target in node.targets):
            return 0
        within = [ast.unparse(n) for n in ast.walk(node.value) if isinstance(n, ast.expr)]
        parts = any(isinstance(target, ast.Subscript) for target in node.targets)
        return 2 if parts or name in within else 1
    return 2 if isinstance(node, ast.AugAssign) and _root(node.target) == name else 0


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node)


def call_that_hands(place: Place) -> Place:
    """The only call that hands a function what it stores at a line; the line itself, if it stores
    something else, or nobody can say who has called."""
    tree = tree_of_file(place.file)
    function = function_at(tree, place.line)
    if function is None or not _stores_argument(function, place.line):
        return place
    calls = [s for s in ast.walk(tree) if isinstance(s, ast.Expr) and _calls(s, function.name)]
    if len(calls) != 1 or calls[0].lineno != calls[0].end_lineno:
        return place
    around = function_at(tree, calls[0].lineno)
    return Place(place.file, calls[0].lineno, "" if around is None else around.name)


def _stores_argument(function: FunctionNode, line: int) -> bool:
    """Whether a line of a method reads one of its arguments, as it was given."""
    given = {a.arg for a in function.args.args[1:]}
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    anew = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    read = {n.id for n in names if isinstance(n.ctx, ast.Load) and n.lineno == line}
    return bool(read & given - anew)


def _calls(statement: ast.Expr, method: str) -> bool:
    """Whether a statement calls such a method, with a variable as its last argument."""
    match statement.value:
        case ast.Call(func=ast.Attribute(attr=name), args=[*_, ast.Name()]):
            return name == method
        case _:
            return False
