"""Slips as data: what stands in the code, and what was meant, in Python's own syntax.

In a row, letters stand for parts of the user's code: `A B` for arrays, `U` for those made of no
cotangent, `C D` for numbers, `S` for small ones, `N K` for whole numbers, `M` for masks, `Z` for
complex arrays, `O` for orders of memory, `X Y` for anything. `lib` is the library of the arrays. A
letter that comes twice stands for the same text.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import called, needs, operand
from chainrule.verify.repair.rule_costs import FAR, LIKELY, RARE, SHOWN, USUAL
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import is_count, plain


@dataclass(frozen=True)
class Pattern:
    """A row: `before` becomes each of `after`, for a mistake of the name `code`."""

    before: str
    after: tuple[str, ...]
    code: str
    cost: float

    @cached_property
    def tree(self) -> ast.expr:
        """The syntax of `before`."""
        return ast.parse(self.before, mode="eval").body


SMALL = 0.1
"""Bounds below which a series is used: what is used above them cancels near zero."""
ROWS: Final = (
    Pattern("N // K", ("-(-N // K)",), "lengths", SHOWN),
    Pattern("range(X, N - K + 1, K)", ("range(X, N, K)",), "lengths", SHOWN),
    Pattern("range(X, N - N % K, K)", ("range(X, N, K)",), "lengths", SHOWN),
    Pattern("where(M, X, Y)", ("where(M, Y, X)",), "region", USUAL),
    Pattern("~M", ("M",), "region", USUAL),
    Pattern("minimum(A, C)", ("lib.clip(A, -C, C)",), "one_sided", USUAL),
    Pattern("A.clamp(max=C)", ("A.clamp(-C, C)",), "one_sided", USUAL),
    Pattern("maximum(A, 0)", ("lib.abs(A)",), "one_sided", USUAL),
    Pattern("A < C", ("abs(A) < C",), "one_sided", USUAL),
    Pattern("A <= C", ("abs(A) <= C",), "one_sided", USUAL),
    Pattern("A < S", ("A < 10 * S", "A < 100 * S", "A < 1000 * S"), "precision", FAR),
    Pattern("A > S", ("A > 10 * S", "A > 100 * S", "A > 1000 * S"), "precision", FAR),
    Pattern("Z", ("lib.conj(Z)",), "transposed", USUAL),
    Pattern("conj(A) * B", ("A * lib.conj(B)",), "transposed", USUAL),
    Pattern("A * conj(B)", ("lib.conj(A) * B",), "transposed", USUAL),
    Pattern("A[0]", ("A.sum(0)",), "not_summed", USUAL),
    Pattern("A[-1]", ("A.sum(0)",), "not_summed", USUAL),
    Pattern("A[..., 0]", ("A.sum(-1)",), "not_summed", USUAL),
    Pattern("X + Y", ("X - Y",), "sign", USUAL),
    Pattern("X - Y", ("X + Y",), "sign", USUAL),
    Pattern("X * Y", ("X / Y",), "factor", USUAL),
    Pattern("X / Y", ("X * Y",), "factor", USUAL),
    Pattern("U", ("-U",), "sign", RARE),
    Pattern("U", ("1 - U", "1 / U", "U ** 2"), "wrong_value", FAR),
    Pattern("A ** 2", ("A", "A ** 3"), "wrong_value", RARE),
    Pattern("A ** N", ("A ** (N - 1)", "A ** (N + 1)"), "wrong_value", RARE),
    Pattern("A / B", ("A / B ** 2", "A / B ** 3", "A / B ** 0.5"), "wrong_value", RARE),
    Pattern("lu_solve(X, Y, A)", ("lu_solve(X, Y, A, adjoint=True)",), "transposed", USUAL),
    Pattern("A.as_strided(X, Y)", ("A.contiguous().as_strided(X, Y)",), "contiguity", LIKELY),
    Pattern("as_strided(A, X, Y)", ("as_strided(A.contiguous(), X, Y)",), "contiguity", LIKELY),
    Pattern("A.ravel(order=O)", ("A.ravel()",), "contiguity", LIKELY),
    Pattern("A.ravel(O)", ("A.ravel()",), "contiguity", LIKELY),
    Pattern("ravel(A, order=O)", ("ravel(A)",), "contiguity", LIKELY),
    Pattern("A.flatten(order=O)", ("A.flatten()",), "contiguity", LIKELY),
    Pattern("A.flatten(O)", ("A.flatten()",), "contiguity", LIKELY),
    Pattern("A.reshape(X, order=O)", ("A.reshape(X)",), "contiguity", LIKELY),
    Pattern("X.append(A)", ("X.insert(0, A)",), "wrong_value", USUAL),
    Pattern("X.insert(0, A)", ("X.append(A)",), "wrong_value", USUAL),
    Pattern("min(N, K)", ("N", "K"), "size", USUAL),
    Pattern("max(N, K)", ("N", "K"), "size", USUAL),
    Pattern("X[::-1]", ("X",), "wrong_value", USUAL),
    Pattern("A.copy()", ("A",), "wrong_value", LIKELY),
)


def patterns(scene: Scene) -> Iterator[Edit]:
    """Edits by the rows that match an expression."""
    for node in scene.expressions:
        for row in ROWS:
            found = dict[str, ast.expr]()
            if _matches(scene, row.tree, node, found):
                for after in row.after:
                    if (text := _filled(scene, after, found)) is not None:
                        yield scene.put(node, text, row.code, row.cost)


def _matches(scene: Scene, row: Any, node: Any, found: dict[str, ast.expr]) -> bool:
    """Whether a node is what a row says; `found` gets what its letters stand for."""
    match row, node:
        case ast.Name(id=letter), ast.expr() if letter in _KINDS:
            known = found.setdefault(letter, node)
            return scene.draft.src(known) == scene.draft.src(node) and _KINDS[letter](scene, node)
        case ast.Call(func=ast.Name(id=name)), ast.Call():
            found[name] = node.func
            arguments = [*row.args, *row.keywords], [*node.args, *node.keywords]
            return called(node) == name and _matches(scene, *arguments, found)
        case list(), list():
            rows, nodes = cast("list[Any]", row), cast("list[Any]", node)
            pairs = zip(rows, nodes, strict=False)
            return len(rows) == len(nodes) and all(_matches(scene, *p, found) for p in pairs)
        case ast.AST(), ast.AST() if type(row) is type(node):
            fields = [f for f in row._fields if f != "ctx"]
            pairs = [(getattr(row, f, None), getattr(node, f, None)) for f in fields]
            return all(_matches(scene, a, b, found) for a, b in pairs)
        case _:
            return not isinstance(row, ast.AST) and row == node


def _filled(scene: Scene, after: str, found: dict[str, ast.expr]) -> str | None:
    """What was meant, in the user's words; None if it needs a library that the code has not."""
    tree = ast.parse(after, mode="eval")
    parents = {c: p for p in ast.walk(tree) for c in ast.iter_child_nodes(p)}
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    for n in sorted(names, key=lambda n: -n.col_offset):
        if n.id in found:
            text = operand(scene.draft.src(found[n.id]), needs(parents[n], n))
        else:
            text = scene.dialect.library if n.id == "lib" else n.id
        if text is None:
            return None
        after = after[: n.col_offset] + text + after[n.end_col_offset :]
    return after


def _dtype(scene: Scene, node: ast.expr) -> str:
    value = plain(scene.value(node))
    return "" if value is None or not scene.is_array(node) else value.dtype.kind


_KINDS: Final[dict[str, Callable[[Scene, ast.expr], bool]]] = {
    **dict.fromkeys("AB", lambda s, n: s.is_array(n)),
    "U": lambda s, n: s.is_array(n) and not s.flows(n),
    **dict.fromkeys("CD", lambda s, n: s.shape(n) == () and not s.is_array(n)),
    **dict.fromkeys("NK", lambda s, n: is_count(s.value(n))),
    "S": lambda s, n: isinstance(v := s.value(n), float) and 0 < v < SMALL,
    "O": lambda s, n: isinstance(n, ast.Constant) and n.value in ("A", "F", "K"),
    **dict.fromkeys("XY", lambda s, n: True),
    "M": lambda s, n: _dtype(s, n) == "b",
    "Z": lambda s, n: _dtype(s, n) == "c" and not isinstance(n, ast.BinOp),
}
"""What a part of the user's code has to be to stand for a letter."""
