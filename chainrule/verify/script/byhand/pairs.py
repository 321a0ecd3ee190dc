"""Functions of a script that state a derivative of others: by their names, or what they take.

    corr, corr_back; forward, backward; nll, grad_nll     by their names
    nll(w, x, y), score(w, x, y)                          by what they take, if nll gives a number
    nll(w, x, y) -> value, gradient                       by what it gives
    class Dense: forward, backward                        by its methods
    class Poisson: objective, gradient                    by what its methods take

Whether they are what they seem to be is found out with the arrays that they get
(`pair_calls.py`).
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from chainrule.verify.arrays.methods import METHODS
from chainrule.verify.script.byhand.code_hooks import CALLS

Definition: TypeAlias = ast.FunctionDef
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_BACK = frozenset(
    ("back", "backward", "backwards", "backprop", "bwd", "bp", "vjp", "pullback",
     "grad", "grads", "gradient", "gradients", "d", "deriv", "derivative", "bar")
)  # fmt: skip
_FORTH = frozenset(("forward", "fwd", "fprop", "fp", "f"))


@dataclass(frozen=True)
class Stated:
    """A function and what states its derivative."""

    forward: str
    backward: str
    """The same name where one function gives both."""
    owner: str = ""
    """The class whose methods they are."""
    named: bool = True
    """Whether their names tell, not only what they take."""
    lines: tuple[int, int] = (0, 0)
    """Of their definitions."""

    @property
    def is_usual(self) -> bool:
        """Whether they are methods of a layer's usual names."""
        return (self.forward, self.backward) in METHODS


def stated_in(tree: ast.Module) -> list[Stated]:
    """All of a script, those whose names tell first."""
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and _names_of(n)]
    found = [*_methods(tree), *_by_name(functions)]
    taken = {name for s in found for name in (s.forward, s.backward)}
    rest = [f for f in functions if f.name not in taken]
    return [
        *found,
        *_by_arguments(rest),
        *_methods_by_arguments(tree, taken),
        *(_pair(f, f, named=False) for f in rest if _gives_more(f)),
    ]


def with_calls(tree: ast.Module) -> ast.Module:
    """A copy that tells of the calls of these functions; the tree itself if there are none."""
    lines = {line for s in stated_in(tree) for line in s.lines}
    if not lines:
        return tree
    made = copy.deepcopy(tree)
    for node in ast.walk(made):
        if isinstance(node, ast.FunctionDef) and node.lineno in lines:
            has_text = ast.get_docstring(node, clean=False) is not None and len(node.body) > 1
            CALLS.put_into(node.body, int(has_text), node.lineno)
    return ast.fix_missing_locations(made)


def _methods(tree: ast.Module) -> Iterator[Stated]:
    for cls in _classes(tree):
        own = {n.name: n for n in cls.body if isinstance(n, ast.FunctionDef)}
        for f, b in METHODS:
            if f in own and b in own and _names_of(own[f]):
                yield Stated(f, b, cls.name, lines=(own[f].lineno, own[b].lineno))
                break


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [n for n in tree.body if isinstance(n, ast.ClassDef)]


def _methods_by_arguments(tree: ast.Module, taken: Container[str]) -> Iterator[Stated]:
    """Methods of one class that take the same: more than one argument, or a name tells."""
    for cls in _classes(tree):
        own = [n for n in cls.body if isinstance(n, ast.FunctionDef) and not n.decorator_list]
        rest = [f for f in own if f.name not in taken and not f.name.startswith("__")]
        for stated, f, b in _taking_the_same(rest):
            is_back = not _BACK.isdisjoint(_words(b.name))
            if _BACK.isdisjoint(_words(f.name)) and (is_back or len(_names_of(f)) > 2):
                yield replace(stated, owner=cls.name, named=is_back)


def _by_name(functions: Sequence[Definition]) -> Iterator[Stated]:
    for b in functions:
        words = _words(b.name)
        if _BACK.isdisjoint(words):
            continue
        about = [w for w in words if w not in _BACK | _FORTH]
        fits = [f for f in functions if f is not b and _BACK.isdisjoint(_words(f.name))
                and [w for w in _words(f.name) if w not in _FORTH] == about]  # fmt: skip
        if len(fits) == 1:
            yield _pair(fits[0], b, named=True)


def _by_arguments(functions: Sequence[Definition]) -> Iterator[Stated]:
    """Each two that take arguments of the same names."""
    for stated, _, _ in _taking_the_same(functions):
        yield stated


def _taking_the_same(
    functions: Sequence[Definition],
) -> Iterator[tuple[Stated, Definition, Definition]]:
    for f in functions:
        for b in functions:
            if f is not b and len(_names_of(f)) > 1 and _names_of(f) == _names_of(b):
                yield _pair(f, b, named=False), f, b


def _pair(f: Definition, b: Definition, *, named: bool) -> Stated:
    return Stated(f.name, b.name, named=named, lines=(f.lineno, b.lineno))


def _gives_more(f: Definition) -> bool:
    """Whether it returns several things, of which the first may be a value."""
    returns = [n for n in ast.walk(f) if isinstance(n, ast.Return)]
    return bool(returns) and all(
        isinstance(r.value, ast.Tuple) and len(r.value.elts) > 1 for r in returns
    )


def _names_of(f: Definition) -> list[str]:
    """Its arguments' names; none where it takes any number of them."""
    a = f.args
    return [] if a.vararg or a.kwarg else [x.arg for x in (*a.posonlyargs, *a.args)]


def _words(name: str) -> list[str]:
    return [w.lower() for part in name.split("_") for w in _WORD.findall(part)]
