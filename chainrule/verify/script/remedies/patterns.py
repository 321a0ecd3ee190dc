"""Rewrites as data: what stands in a script, and what a reader would write there instead.

A row is a text in Python's syntax and one or more that may take its place. A capital letter stands
for any expression (`C` for a constant), `*A` for the other arguments of a call. `f(X, *A)` calls a
module's function of that name or a method of X, and is written as it was found; `torch.f(X)` is a
function of that module alone, `lib.f(X)` one of any. `(D := f(X))` gives a whole a letter. A name
stands for what it was made of.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast, final

from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import Piece, Source, called_name, nodes
from chainrule.verify.trees import last_word

Row = tuple[str, ...]
"""What stands there, then what may take its place."""
_LETTERS = frozenset("ABCDMNSWXY")
_PLAIN = ast.Name | ast.Attribute | ast.Call | ast.Subscript


@dataclass(frozen=True)
class Rewrite:
    """Rows, and where they are applied."""

    rows: tuple[Row, ...]
    within: Literal["line", "around", "file"] = "file"
    """The statement on the line; calls around it, one by one, the innermost first; the file."""

    def __call__(self, source: Source, finding: Finding) -> Iterator[Edit | None]:
        """The proposals for a finding."""
        return self.edits(source)

    def at(self, place: Place | None) -> Edit | None:
        """The first of those for a place."""
        source = Source.at(place)
        edits = self.edits(source) if source is not None else ()
        return next((edit for edit in edits if edit is not None), None)

    def edits(self, source: Source) -> Iterator[Edit | None]:
        """Those for the place of a source."""
        for some in self._scopes(source):
            pieces = list(fits_of_rows(source, some, self.rows))
            if self.within == "around":
                yield from (source.with_pieces([piece]) for piece in pieces)
                continue
            yield source.with_pieces(pieces)

    def _scopes(self, source: Source) -> Iterator[Sequence[ast.AST]]:
        if self.within == "around":
            yield from ([call] for call in source.around(ast.Call))
            return
        statement = source.statement()
        scopes: dict[str, Iterable[ast.AST | None]] = {
            "line": [statement], "file": [source.tree]
        }  # fmt: skip
        yield from (nodes(scope, ast.expr) for scope in scopes[self.within] if scope is not None)


def fits_of_rows(source: Source, some: Sequence[ast.AST], rows: Sequence[Row]) -> Iterator[Piece]:
    """Nodes that rows fit, each with what may take its place; not those within one of them."""
    done: list[ast.AST] = []
    for node in some:
        if any(node is inner for outer in done for inner in ast.walk(outer)):
            continue
        for before, *afters in rows:
            match = _Match(source)
            if match.fits(_tree(before), node):
                done.append(node)
                yield from ((node, match.written(after, node)) for after in afters)
                break


@lru_cache(maxsize=512)
def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@final
class _Match:
    """What the letters of a row stand for."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: dict[str, ast.expr] = {}
        self._rest: dict[str, list[ast.expr | ast.keyword]] = {}
        self.calls: dict[str, ast.Call] = {}
        """By the letter that a call of the row begins with."""
        self.module = ""

    def rest(self, star: ast.Starred) -> list[ast.expr | ast.keyword]:
        """The other arguments that a letter stands for."""
        return self._rest[ast.unparse(star.value)]

    # --- does it fit

    def fits(self, row: Any, node: Any, *, top: bool = True) -> bool:
        """Whether a node is what a row says."""
        match row:
            case ast.Name(id=letter) if letter in _LETTERS:
                known = self.found.setdefault(letter, node)
                constant = letter != "C" or isinstance(node, ast.Constant)
                return constant and ast.dump(known) == ast.dump(node)
            case ast.NamedExpr(target=ast.Name(id=letter), value=value):
                self.found[letter] = node
                return self.fits(value, node, top=top)
            case ast.Call():
                node = node if top else self.source.made(node)
                return isinstance(node, ast.Call) and self._is_called(row, node)
            case ast.AST():
                fields = [f for f in row._fields if f not in ("ctx", "kind")]
                pairs = [(getattr(row, f), getattr(node, f, None)) for f in fields]
                return type(row) is type(node) and all(self.fits(a, b, top=False) for a, b in pairs)
            case list():
                some, others = cast("list[Any]", row), cast("list[Any]", node)
                pairs = zip(some, others, strict=False)
                same = isinstance(node, list) and len(some) == len(others)
                return same and all(self.fits(a, b, top=False) for a, b in pairs)
            case _:
                return row == node

    def _is_called(self, row: ast.Call, node: ast.Call) -> bool:
        given: list[ast.expr] = [*node.args]
        if isinstance(row.func, ast.Attribute):
            name = ast.unparse(row.func).removeprefix("lib.")
            text = "." + ast.unparse(node.func)
            if not text.endswith(f".{name}") or not isinstance(node.func, ast.Attribute):
                return False
            self.module = text[1 : -len(row.func.attr) - 1]
        elif not isinstance(row.func, ast.Name) or called_name(node) != row.func.id:
            return False
        elif is_method(self.source, node) and not _is_whole(row):
            given.insert(0, cast("ast.Attribute", node.func).value)
        return self._takes(row, node, given)

    def _takes(self, row: ast.Call, node: ast.Call, given: list[ast.expr]) -> bool:
        """Whether the arguments are those of the row; what is over goes to its last letter."""
        named = {k.arg: k for k in node.keywords}
        words = [(k.value, named.pop(k.arg, None)) for k in row.keywords]
        plain = [a for a in row.args if not isinstance(a, ast.Starred)]
        over = [a for a in row.args if isinstance(a, ast.Starred)]
        left = [*given[len(plain) :], *named.values()]
        if any(k is None for _, k in words) or len(given) < len(plain) or (left and not over):
            return False
        for star in over:
            self._rest[ast.unparse(star.value)] = left
        first = (over if _is_whole(row) else plain or over)[:1]
        self.calls |= {_letter(a): node for a in first}
        pairs = [*zip(plain, given, strict=False), *[(v, k.value) for v, k in words if k]]
        return all(self.fits(a, b, top=False) for a, b in pairs)

    # --- what takes its place

    def written(self, after: str, node: ast.AST) -> str:
        """The text of a row with what its letters stand for, in brackets where it needs them."""
        made = _Filled(self, after).visit(copy.deepcopy(_tree(after)))
        text = ast.unparse(made)
        return text if isinstance(made, _PLAIN) or self._is_alone(node) else f"({text})"

    def _is_alone(self, node: ast.AST) -> bool:
        """Whether a node is all that a statement or an argument is."""
        for n in ast.walk(self.source.tree):
            held = [*getattr(n, "args", ())] if isinstance(n, ast.Call) else []
            held += [getattr(n, "value", None)] if isinstance(n, ast.stmt | ast.keyword) else []
            if any(x is node for x in held):
                return True
        return False


@final
class _Filled(ast.NodeTransformer):
    """A row's text with what was found in the places of its letters."""

    def __init__(self, match: _Match, text: str) -> None:
        self._match = match
        self._text = text

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """As it is written there: `1e-8`, `"cpu"`."""
        return ast.Name(ast.get_source_segment(self._text, node) or "", ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A letter."""
        return self._match.found.get(node.id, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call of the kind that was found: of a function of the same module, or of a method."""
        match, name = self._match, last_word(node.func)
        like = match.calls.get(_letter(node.args[0])) if node.args else None
        like = like or next((c for c in match.calls.values() if called_name(c) == name), None)
        rest = [r for a in node.args if isinstance(a, ast.Starred) for r in match.rest(a)]
        plain = [self.visit(a) for a in node.args if not isinstance(a, ast.Starred)]
        words = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        args = [*plain, *[r for r in rest if isinstance(r, ast.expr)]]
        words = [*[r for r in rest if isinstance(r, ast.keyword)], *words]
        if isinstance(node.func, ast.Attribute):
            own = ast.unparse(node.func.value)
            known = own == "lib" or f".{match.module}".endswith(f".{own}")
            owner = (
                ast.parse(match.module, mode="eval").body if known else self.visit(node.func.value)
            )
            return ast.Call(ast.Attribute(owner, name, ast.Load()), args, words)
        if like is None:
            return ast.Call(node.func, args, words)
        if is_method(match.source, like) and not isinstance(node.args[0], ast.Starred):
            return ast.Call(ast.Attribute(args[0], name, ast.Load()), args[1:], words)
        head = copy.copy(like.func)
        if isinstance(head, ast.Attribute):
            head.attr = name
        return ast.Call(head if isinstance(head, ast.Attribute) else node.func, args, words)


def _letter(node: ast.expr) -> str:
    """The letter that an argument of a row is made of."""
    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in _LETTERS]
    return names[0] if names else ""


def _is_whole(row: ast.Call) -> bool:
    """Whether a row takes all arguments of a call together."""
    return bool(row.args) and isinstance(row.args[0], ast.Starred)


def is_method(source: Source, call: ast.Call) -> bool:
    """Whether what is called is a method of a value, not a module's function."""
    node: ast.AST = call.func
    while isinstance(node, ast.Attribute):
        node = node.value
    of_module = isinstance(node, ast.Name) and node.id in source.modules
    return isinstance(call.func, ast.Attribute) and not of_module
