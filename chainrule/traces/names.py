"""What the program calls its tensors: parameters of modules, arguments, variables, assignments."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from chainrule.engine.node import Variable
from chainrule.nn.base.module import Module
from chainrule.scalar import Value
from chainrule.tree import flatten

Pairs = Sequence[tuple[str, Any]]


def argument_names(f: Callable[..., Any], args: Sequence[Any]) -> Pairs:
    """The leaves of the arguments, by the names of the parameters of `f`."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
        parameters = []
    out: list[tuple[str, Any]] = []
    for i, arg in enumerate(args):
        p = parameters[i] if i < len(parameters) else None
        single = p is not None and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        out += _leaves(p.name if p is not None and single else f"argument {i}", arg)
    return out


def _leaves(name: str, x: Any) -> Pairs:
    if isinstance(x, Module):
        return []
    leaves = flatten(x)[0]
    if len(leaves) == 1 and leaves[0] is x:
        return [(name, x)]
    return [(f"{name}[{k}]", leaf) for k, leaf in enumerate(leaves)]


def parameter_names(scopes: Sequence[Mapping[str, Any]]) -> Pairs:
    """Parameters and buffers of the modules in these scopes, by their names in `state_dict`."""
    modules = [(n, x) for scope in scopes for n, x in scope.items() if isinstance(x, Module)]
    several = len({id(m) for _, m in modules}) > 1
    return [
        (f"{name}.{inner}" if several else inner, t)
        for name, module in modules
        for inner, t in module.named_tensors()
    ]


def variable_names(scopes: Sequence[Mapping[str, Any]]) -> Pairs:
    """Tensors and Values in these scopes, by the names of the variables, lists by their index."""
    out: list[tuple[str, Any]] = []
    for scope in scopes:
        for name, x in scope.items():
            if not name.startswith("_"):
                out += [pair for pair in _elements(name, x, 2) if _is_number(pair[1])]
    return out


def _is_number(x: Any) -> bool:
    return isinstance(x, Variable | Value)


def _elements(name: str, x: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(x, list | tuple) and depth and len(x) <= 1 << 12:  # pyright: ignore[reportUnknownArgumentType]
        items: list[Any] = list(x)  # pyright: ignore[reportUnknownArgumentType]
        for i, item in enumerate(items):
            yield from _elements(f"{name}[{i}]", item, depth - 1)
    elif isinstance(x, dict) and depth:
        pairs: dict[Any, Any] = x  # pyright: ignore[reportUnknownVariableType]
        for key, item in pairs.items():
            yield from _elements(f"{name}.{key}", item, depth)
    else:
        yield name, x


def scopes_of(f: Callable[..., Any]) -> list[Mapping[str, Any]]:
    """What a function reads from outside: its closure, the globals that it names, and the object
    that it is a method of."""
    inner: Any = inspect.unwrap(getattr(f, "__wrapped__", f))
    owner = getattr(inner, "__self__", None)
    code: Any = getattr(getattr(inner, "__func__", inner), "__code__", None)
    if isinstance(f, Module) or hasattr(f, "named_parameters"):  # PyTorch's modules have them, too
        return [{"": f}]
    if code is None:
        return []
    found: Any = inspect.getclosurevars(inner)
    own = {"self": owner} if owner is not None else {}
    return [dict(found.nonlocals), dict(found.globals), own]


def scopes_of_frame(frame: FrameType) -> list[Mapping[str, Any]]:
    """Local and global variables of a frame."""
    return [dict(frame.f_locals), dict(frame.f_globals)]


def assigned_name(text: str) -> str:
    """The name that a line of a program assigns to; empty if it is no such line.

    >>> assigned_name("h = tanh(x @ w)"), assigned_name("return h")
    ('h', '')
    """
    try:
        body = ast.parse(text.strip()).body
    except SyntaxError:
        return ""
    if len(body) != 1 or not isinstance(body[0], ast.Assign | ast.AnnAssign):
        return ""
    target = body[0].targets[0] if isinstance(body[0], ast.Assign) else body[0].target
    return target.id if isinstance(target, ast.Name) else ""
