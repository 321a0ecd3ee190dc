"""What the forward's text says of values that the backward names, or computes again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import called
from chainrule.verify.repair.rules.recomputed import code_of
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import is_simple
from chainrule.verify.repair.watch import shape_of
from chainrule.verify.repair.wording import ELEMENTWISE, forward_texts
from chainrule.verify.trees import tree_of

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_BY_SIGN = re.compile(r"[<>]=? 0(?![\w.])")
"""Signs that are told apart."""
_WITH = 1.25
"""How unlikely it is that a value stands for what the forward makes of it."""


def as_in_forward(scene: Scene) -> Iterator[Edit]:
    """What is computed again, as the forward computes what it calls by the same name or names."""
    made, held = dict[str, list[str]](), _held(scene)
    for said in forward_texts(scene.draft.source):
        for name, texts in _assigned(said).items():
            made.setdefault(name, []).extend(texts)
    for node in scene.draft.statements:
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Tuple() as target], value=value) if (
                not scene.flows(value)
            ):
                texts = made.get(ast.unparse(target), [])
            case _:
                continue
        for text in dict.fromkeys([_NAME.sub(lambda m: held.get(m[0], m[0]), t) for t in texts]):
            if text != (here := ast.unparse(value)):
                apart = _BY_SIGN.search(text) and not _BY_SIGN.search(here)
                apart = apart or ("abs(" in here and "abs(" not in text)
                yield scene.put(value, text, "one_sided" if apart else "wrong_value", 1.2)


def _held(scene: Scene) -> dict[str, str]:
    """The forward's names that the backward has by what holds them only."""
    found = [_held_as(said) for said in forward_texts(scene.draft.source)]
    return {k: v for held in found for k, v in held.items() if k not in scene.watched.names}


def _held_as(text: str) -> dict[str, str]:
    """What the forward's names are to the backward that are kept on an object: `w` as `ctx.w`."""
    found = dict[str, str]()
    for node in ast.walk(tree_of(text)):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name()) as target], value=ast.Name(id=k)
            ):
                found[k] = ast.unparse(target)
            case _:
                continue
    return found


def _assigned(text: str) -> dict[str, list[str]]:
    """The expressions that names, or several at once, are assigned, in some code."""
    found = dict[str, list[str]]()
    tree = tree_of(text)
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Tuple() as target], value=value):
                found.setdefault(ast.unparse(target), []).append(ast.unparse(value))
            case _:
                continue
    return found


def with_operand(scene: Scene) -> Iterator[Edit]:
    """What the forward makes of a value, before it goes on, where the backward has that value
    alone: `h` to `r * h`, where the forward computes `(r * h) @ u`."""
    held, wider = _held(scene), dict[str, list[str]]()
    for said in forward_texts(scene.draft.source):
        for name, texts in _operations(said).items():
            wider.setdefault(name, []).extend(texts)
    here = {v: k for k, v in held.items()}
    for node in scene.expressions if wider else ():
        name = scene.draft.src(node)
        if not is_simple(node) or not scene.shape(node) or scene.flows(node):
            continue
        parent = scene.draft.parents[node]
        around = scene.draft.src(parent) if isinstance(parent, ast.expr) else ""
        for said in dict.fromkeys(wider.get(here.get(name, name), [])):
            text = _NAME.sub(lambda m: held.get(m[0], m[0]), said)
            if text != around and shape_of(scene.evaluated(node, text)) == scene.shape(node):
                function = text.partition("(")[0].rpartition(".")[2]
                yield scene.put(node, text, code_of(function), _WITH)


def as_called_in_forward(scene: Scene) -> Iterator[Edit]:
    """What the forward asks of a value that the backward asks something else of, no cotangent:
    `mask.numel()` to `mask.sum()`."""
    held, asked = _held(scene), dict[str, list[str]]()
    for said in forward_texts(scene.draft.source):
        for owner, texts in _calls(said).items():
            asked.setdefault(_NAME.sub(lambda m: held.get(m[0], m[0]), owner), []).extend(texts)
    for node in scene.expressions if asked else ():
        shape = scene.shape(node)
        for said in _asked_of(scene, node, asked):
            text = _NAME.sub(lambda m: held.get(m[0], m[0]), said)
            if text != ast.unparse(node) and shape_of(scene.evaluated(node, text)) == shape:
                yield scene.put(node, text, "wrong_value" if shape else "factor", 1.1)


def _asked_of(scene: Scene, node: ast.expr, asked: dict[str, list[str]]) -> list[str]:
    """What the forward asks of the array of which a node asks something; of a module anything may
    be asked."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner)) if not scene.flows(node):
            found = asked.get(ast.unparse(owner), []) if scene.shape(owner) else []
            return list(dict.fromkeys(found))
        case _:
            return []


@cache
def _calls(text: str) -> dict[str, list[str]]:
    """By what is asked: calls of its methods."""
    found = dict[str, list[str]]()
    for node in ast.walk(tree_of(text)):
        match node:
            case ast.Call(func=ast.Attribute(value=owner)) if is_simple(owner):
                found.setdefault(ast.unparse(owner), []).append(ast.unparse(node))
            case _:
                continue
    return found


@cache
def _operations(text: str) -> dict[str, list[str]]:
    """By name: sums, products and functions of each element of which it is an operand, where they
    go on into others."""
    found = dict[str, list[str]]()
    for outer in ast.walk(tree_of(text)):
        for part in [p for p in _operands(outer) if _is_elementwise(p)]:
            for name in [ast.unparse(o) for o in _operands(part) if is_simple(o)]:
                found.setdefault(name, []).append(ast.unparse(part))
    return found


def _operands(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Call(args=args):
            return args
        case _:
            return []


def _is_elementwise(node: ast.expr) -> bool:
    """Whether nothing but numbers comes of it, however often it is computed."""
    return isinstance(node, ast.BinOp) or (
        isinstance(node, ast.Call) and called(node) in ELEMENTWISE
    )
