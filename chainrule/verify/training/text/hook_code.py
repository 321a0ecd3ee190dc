"""Where the text of a hook writes into what it is given, and where it draws random numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

from chainrule.verify.trees import last_word, tree_of_file

_RANDOM = frozenset(
    {"rand", "randn", "randint", "randperm", "normal", "uniform", "bernoulli", "dropout"}
    | {"multinomial", "exponential", "poisson", "sample", "rsample", "random"}
)
_HARMLESS = frozenset({"requires_grad_", "retain_grad_", "detach_"})


class Write(NamedTuple):
    """A write, as the text has it."""

    line: int
    text: str
    alone: bool
    """Whether it is a statement of its own, and so is meant to change something."""


def write_of(code: CodeType) -> Write | None:
    """The first write into an argument, or into what was made of one; None if none is seen."""
    found = [w for hook in _hooks(code) for w in _writes(hook)]
    return min(found, key=lambda w: w.line, default=None)


def draw_line(code: CodeType) -> int:
    """The first line that calls what draws random numbers, as far as its name tells; else the
    line of the hook."""
    return min([n.lineno for n in _draws(code)], default=code.co_firstlineno)


def return_line(code: CodeType) -> int:
    """The first line that returns something; that of the hook if none does so by that word."""
    inside = [n for hook in _hooks(code) for n in ast.walk(hook)]
    lines = [n.lineno for n in inside if isinstance(n, ast.Return) and n.value is not None]
    return min(lines, default=code.co_firstlineno)


def has_generator(code: CodeType) -> bool:
    """Whether it draws random numbers from a generator of its own, as far as its text tells."""
    return any(k.arg == "generator" for n in _draws(code) for k in n.keywords)


def _draws(code: CodeType) -> list[ast.Call]:
    """Calls of what draws random numbers."""
    calls = [n for hook in _hooks(code) for n in ast.walk(hook) if isinstance(n, ast.Call)]
    return [n for n in calls if last_word(n.func).rstrip("_").removesuffix("_like") in _RANDOM]


def _hooks(code: CodeType) -> list[ast.AST]:
    """Definitions of the code in its file."""
    return [n for n in ast.walk(tree_of_file(code.co_filename)) if _is(n, code)]


def _is(node: ast.AST, code: CodeType) -> bool:
    """Whether a definition is that of the code."""
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    if not isinstance(node, ast.FunctionDef):
        return False
    first = min([d.lineno for d in node.decorator_list], default=node.lineno)
    return node.name == code.co_name and first == code.co_firstlineno


def _writes(hook: ast.AST) -> Iterator[Write]:
    assert isinstance(hook, ast.FunctionDef | ast.Lambda)
    known = _names_from_arguments(hook)
    alone = {id(n.value) for n in ast.walk(hook) if isinstance(n, ast.Expr)}
    for n in ast.walk(hook):
        if isinstance(n, ast.Call) and is_in_place(n) and _root(n) in known:
            yield Write(n.lineno, ast.unparse(n.func), id(n) in alone)
        elif isinstance(n, ast.AugAssign) and _root(n.target) in known:
            yield Write(n.lineno, ast.unparse(n), True)
        elif isinstance(n, ast.Assign):
            for target in n.targets:
                if isinstance(target, ast.Subscript) and _root(target) in known:
                    yield Write(n.lineno, ast.unparse(n), True)


def is_in_place(call: ast.Call) -> bool:
    """Whether a call is of a method that changes its object: `g.abs_()`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name.endswith("_") and not name.endswith("__") and name not in _HARMLESS


def _names_from_arguments(hook: ast.FunctionDef | ast.Lambda) -> set[str]:
    """Names of arguments, and of what is made of them."""
    known = {a.arg for a in hook.args.args} - {"self"}
    for n in ast.walk(hook):
        rows = [(n.target, n.iter)] if isinstance(n, ast.For | ast.comprehension) else []
        rows += [(t, n.value) for t in n.targets] if isinstance(n, ast.Assign) else []
        for target, value in rows:
            if known & {x.id for x in ast.walk(value) if isinstance(x, ast.Name)}:
                known |= {
                    x.id
                    for x in ast.walk(target)
                    if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
                }
    return known


def _root(node: ast.AST) -> str:
    """The name g of `g.view(-1)[0].abs_()`."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return ""
    return node.id
