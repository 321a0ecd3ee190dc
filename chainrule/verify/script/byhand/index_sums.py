"""Sums at indices: `x[i] += v` adds once where an index comes twice, and the other values are lost.

So it is in NumPy and in PyTorch. The script tells when it comes to such a statement
(`code_hooks.py`), and the indices are looked at for some times.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.observer import Observer
from chainrule.verify.place import Place
from chainrule.verify.script.byhand.code_hooks import SUMS
from chainrule.verify.subject import extent
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text.source import line_as
from chainrule.verify.trees import blocks, tree_of_file

_TIMES = 12
"""How often the indices of one statement are looked at."""
_LARGEST = 1_000_000
_READS = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.Slice, ast.Constant, ast.UnaryOp,
    ast.BinOp, ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip
"""What an expression is made of that changes nothing."""


def with_calls(tree: ast.Module) -> ast.Module:
    """A copy that tells when it comes to such a statement, if there is one."""
    if not any(map(_is_sum, ast.walk(tree))):
        return tree
    made = copy.deepcopy(tree)
    for block in blocks(made):
        for at in reversed(range(len(block))):
            if _is_sum(block[at]):
                SUMS.put_into(block, at, block[at].lineno)
    return ast.fix_missing_locations(made)


def _is_sum(node: ast.AST) -> bool:
    match node:
        case ast.AugAssign(ast.Subscript(slice=index) as target, ast.Add() | ast.Sub(), value):
            named = any(isinstance(n, ast.Name) for n in ast.walk(index))
            return named and _is_plain(target) and not isinstance(value, ast.Constant)
        case _:
            return False


def _is_plain(node: ast.AST) -> bool:
    """Whether to evaluate it once more has no effect."""
    return all(isinstance(n, _READS) for n in ast.walk(node))


@dataclass
class _Statement:
    """One of them: code for what it adds to, for the indices, and for what it adds, if that has no
    effect; what was seen."""

    node: ast.AugAssign
    target: ast.Subscript
    array: CodeType
    index: CodeType
    value: CodeType | None
    seen: int = 0
    times: int = 0
    """With an index more than once."""
    count: int = 0
    lost: int = 0
    """Of so many indices, the last time."""
    numpy: str = ""
    """What NumPy is called there."""
    torch: bool = False


@final
class IndexSums(Observer):
    """Finds sums that lose what comes to one index more than once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Statement | None] = {}

    def start(self) -> None:
        """Wait for them."""
        SUMS.listen(self._told)

    def stop(self) -> None:
        """Look at no more."""
        SUMS.unlisten(self._told)

    def _told(self, line: int, frame: FrameType) -> None:
        key = frame.f_code.co_filename, line
        try:
            if key not in self._known:
                self._known[key] = _statement_at(*key)
            known = self._known[key]
            if known is not None and known.seen < _TIMES:
                _look(known, frame)
        except Exception:  # the statement itself will fail, or is none that can be looked at
            self._known[key] = None

    def findings(self, ledger: Ledger) -> list[Finding]:
        """One for each statement."""
        found = [(key, s) for key, s in self._known.items() if s is not None and s.times]
        return [_finding(Place(*key), s) for key, s in found]


def _statement_at(file: str, line: int) -> _Statement | None:
    nodes = [n for n in ast.walk(tree_of_file(file)) if getattr(n, "lineno", 0) == line]
    node = next((n for n in nodes if _is_sum(n)), None)
    if not isinstance(node, ast.AugAssign) or not isinstance(node.target, ast.Subscript):
        return None
    array, index, value = (
        compile(ast.Expression(part), file, "eval") if _is_plain(part) else None
        for part in (node.target.value, node.target.slice, node.value)
    )
    if array is None or index is None:
        return None
    return _Statement(node, node.target, array, index, value)


def _look(known: _Statement, frame: FrameType) -> None:
    """Look whether an index comes twice in this statement, in a sum of floats."""

    def now(code: CodeType) -> Any:
        return eval(code, frame.f_globals, frame.f_locals)

    array, index = now(known.array), now(known.index)
    known.seen += 1
    one = known.value is not None and not extent(now(known.value))  # that all of them get
    if one or "float" not in str(getattr(array, "dtype", "")):
        return
    parts: list[Any] = [*index] if isinstance(index, tuple) else [index]
    rows = _rows(parts, array.shape)
    if rows is None or rows.shape[1] > _LARGEST:
        return
    distinct = np.unique(rows, axis=1).shape[1]
    if distinct < rows.shape[1]:
        known.times += 1
        known.count, known.lost = rows.shape[1], rows.shape[1] - distinct
        known.torch = not isinstance(array, np.ndarray)
        module = sys.modules["numpy"]
        known.numpy = next((k for k, v in frame.f_globals.items() if v is module), "")


def _rows(parts: Sequence[Any], shape: Sequence[int]) -> Array | None:
    """Which elements the arrays of whole numbers in an index choose, one column for each."""
    found: list[Array] = []
    for axis, part in enumerate(parts):
        held = part.detach().cpu() if hasattr(part, "detach") else part
        array: Array = np.asarray(held if extent(held) else ())
        if array.dtype.kind in "iu" and array.ndim:
            # without `...` and None, a part stands at its axis
            usual = not any(p is None or p is ... for p in parts)
            found.append(np.where(array < 0, array + shape[axis], array) if usual else array)
    return np.stack([x.ravel() for x in np.broadcast_arrays(*found)]) if found else None


def _finding(place: Place, s: _Statement) -> Finding:
    """What is said of a sum at indices in which values are lost."""
    sign = "+" if isinstance(s.node.op, ast.Add) else "-"
    after = _added_at(s)
    return finding(
        "error",
        "overwritten",
        f"in {s.times} of {s.seen} runs an index comes more than once (the last time {s.lost} of "
        f"{s.count} values): `{ast.unparse(s.node.target)} {sign}= ...` adds one value to each "
        "element, and the others are lost",
        "add at indices: " + (after or "np.add.at, or index_put_(accumulate=True) of a tensor"),
        place,
        subject=ast.unparse(s.target.value),
        kind="sum at indices",
        edit=line_as(place, after) if after else None,
    )


def _added_at(s: _Statement) -> str:
    """The statement that adds all values; empty where none is known, as for slices of a tensor."""
    index, value = s.target.slice, ast.unparse(s.node.value)
    value = value if isinstance(s.node.op, ast.Add) else f"-({value})"
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    texts = [_as_argument(part) for part in parts]
    array = ast.unparse(s.target.value)
    if s.torch:
        has_slice = any(isinstance(part, ast.Slice) for part in parts)
        indices = ", ".join(texts) + "," * (len(texts) == 1)
        return "" if has_slice else f"{array}.index_put_(({indices}), {value}, accumulate=True)"
    whole = f"({', '.join(texts)})" if isinstance(index, ast.Tuple) else texts[0]
    return f"{s.numpy}.add.at({array}, {whole}, {value})" if s.numpy else ""


def _as_argument(part: ast.expr) -> str:
    """A part of an index as an argument of a call: `slice(a, b)` for `a:b`."""
    if not isinstance(part, ast.Slice):
        return ast.unparse(part)
    ends = [part.lower, part.upper, *([part.step] if part.step else [])]
    if not part.lower and len(ends) == 2:
        ends = ends[1:]
    return f"slice({', '.join(['None' if e is None else ast.unparse(e) for e in ends])})"
