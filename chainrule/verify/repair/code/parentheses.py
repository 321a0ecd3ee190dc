"""Where parentheses are needed: text of expressions put together as a person would write it."""

from __future__ import annotations

import ast

from chainrule.verify.repair.code.draft import Draft, Edit

ADD, MUL, UNARY, POW, ATOM = 10, 11, 12, 13, 15
"""How tightly an expression binds."""

_BINDS: dict[type[ast.operator], int] = {
    ast.BitOr: 6,
    ast.BitXor: 7,
    ast.BitAnd: 8,
    ast.LShift: 9,
    ast.RShift: 9,
    ast.Add: ADD,
    ast.Sub: ADD,
    ast.Pow: POW,
}

_WORDS = ("return", "in", "and", "or", "not", "if", "else", "lambda", "yield")
"""Words after which a parenthesis is none of a call."""


def binds(node: ast.AST) -> int:
    """How tightly an expression's own operator binds."""
    match node:
        case ast.BinOp():
            return _BINDS.get(type(node.op), MUL)
        case ast.UnaryOp():
            return 4 if isinstance(node.op, ast.Not) else UNARY
        case ast.Compare():
            return 5
        case ast.BoolOp():
            return 3 if isinstance(node.op, ast.And) else 2
        case ast.IfExp():
            return 1
        case ast.Lambda():
            return 0
        case ast.Tuple() | ast.NamedExpr() | ast.Starred():
            return -1
        case _:
            return ATOM


def needs(parent: ast.AST, child: ast.AST) -> int:
    """How tightly an expression must bind to stand without parentheses where `child` stands."""
    match parent:
        case ast.BinOp() if isinstance(parent.op, ast.Pow):
            return ATOM if parent.left is child else UNARY
        case ast.BinOp():
            return binds(parent) + (parent.right is child)
        case ast.UnaryOp():
            return binds(parent)
        case ast.Compare():
            return 6
        case ast.BoolOp():
            return binds(parent) + 1
        case ast.IfExp():
            return 0 if parent.orelse is child else 2
        case ast.Attribute() | ast.Subscript() if parent.value is child:
            return ATOM
        case ast.Call() if parent.func is child:
            return ATOM
        case ast.Return() | ast.Assign() | ast.Subscript():
            return -1
        case _:
            return 0


def as_operand(draft: Draft, node: ast.AST, at_least: int) -> str:
    """A node's text, in parentheses if it binds less tightly than it must."""
    text = draft.src(node)
    enclosed = isinstance(node, ast.Tuple) and text.startswith("(")
    return text if binds(node) >= at_least or enclosed else f"({text})"


def operand(text: str, at_least: int) -> str:
    """The same for text of an expression."""
    node = ast.parse(text, mode="eval").body
    return text if _is_enclosed(text) or binds(node) >= at_least else f"({text})"


def _is_enclosed(text: str) -> bool:
    """Whether the parenthesis with which a text begins is closed at its end."""
    if not text.startswith("("):
        return False
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return i == len(text) - 1
    return False


def number(value: float) -> str:
    """A number as it is written: whole ones without a point."""
    return str(int(value)) if value == int(value) else repr(value)


def called(node: ast.Call) -> str:
    """The last name of what is called: `sum` of `np.sum(x)` and of `x.sum()`."""
    match node.func:
        case ast.Attribute():
            return node.func.attr
        case ast.Name():
            return node.func.id
        case _:
            return ""


def replacement(draft: Draft, node: ast.AST, text: str, code: str, cost: float = 1.0) -> Edit:
    """The edit that puts `text` where `node` stands."""
    start, end = enclosed(draft, node)
    says = f"`{draft.src(node)}` becomes `{text}`"
    wider = (start, end) != draft.span(node)
    if wider and "\n" in text:
        text = f"({text})"
    else:
        text = operand(text, needs(draft.parents[node], node))
    return Edit(start, end, text, code, cost, says)


def removal(draft: Draft, statement: ast.stmt, code: str, cost: float) -> Edit:
    """The edit that takes a statement away, with its lines if nothing else stands on them."""
    start, end = draft.span(statement)
    says = f"`{draft.src(statement)}` is left out"
    first, last = draft.body.rfind("\n", 0, start) + 1, draft.body.find("\n", end)
    body: list[ast.stmt] = getattr(draft.parents[statement], "body", [])
    alone = not draft.body[first:start].strip() and not draft.body[end:last].strip()
    if len(body) < 2 or not alone or last < 0:
        return Edit(start, end, "pass", code, cost, says)
    return Edit(first, last + 1, "", code, cost, says)


def enclosed(draft: Draft, node: ast.AST) -> tuple[int, int]:
    """A node's span with the parentheses that are its own: not those of a call."""
    start, end = draft.span(node)
    before, after = draft.body[:start].rstrip(" "), draft.body[end:]
    gap = len(after) - len(after.lstrip(" "))
    if before.endswith("(") and after[gap : gap + 1] == ")":
        owner = before[:-1].rstrip(" ")
        word = owner[len(owner.rstrip("abcdefghijklmnopqrstuvwxyz")) :]
        called = owner[-1:].isalnum() or owner[-1:] in ("_", ")", "]")
        if not called or word in _WORDS:
            return len(before) - 1, end + gap + 1
    return start, end
