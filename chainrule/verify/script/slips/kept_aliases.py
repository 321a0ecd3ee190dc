"""Second names that were to keep an old value, of an array that is then changed in place.

`before = v`, then `v *= 0.9`, then `v - before`: both are one array, so that one expression that
reads both is meant for two. Numbers have no such trouble: `before` keeps what `v` was.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from chainrule.verify.script.slips.slip import Slip
from chainrule.verify.trees import blocks, last_word

_MAKES = {"zeros", "zeros_like", "ones", "ones_like", "empty", "empty_like", "full", "full_like",
          "array", "copy", "clone", "randn"}  # fmt: skip
"""Calls that give an array, and no number."""


def kept_aliases(tree: ast.AST) -> Iterator[Slip]:
    """A name for an array that a function makes or keeps, which is changed in place behind that,
    before one expression reads both."""
    for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
        arrays = set(_arrays(function))
        for block in blocks(function):
            for i, s in enumerate(block):
                match s:
                    case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=name)) if (
                        name in arrays and _is_read_with(block[i + 1 :], alias, name)
                    ):
                        copied = "clone" if _is_torch(tree) else "copy"
                        after = f"{alias} = {name}.{copied}()"
                        says = f"`{alias}` is `{name}`, which is changed in place before both are "
                        says += "read in one expression: they are the same then"
                        advice = f"keep the old values: `{after}`"
                        yield Slip("stale", s.lineno, says, advice, after, "error")
                    case _:
                        pass


def _arrays(function: ast.FunctionDef) -> Iterator[str]:
    """Names that are given arrays, and nothing else."""
    given = dict[str, list[ast.expr]]()
    for n in ast.walk(function):
        if isinstance(n, ast.Assign):
            for target in n.targets:
                given.setdefault(ast.unparse(target), []).append(n.value)
    for name, found in given.items():
        if all(_MAKES & {last_word(n.func) for n in ast.walk(v) if isinstance(n, ast.Call)}
               for v in found):  # fmt: skip
            yield name


def _is_read_with(behind: Sequence[ast.stmt], alias: str, name: str) -> bool:
    """Whether statements change an array in place, and one then reads it by both names."""
    changed = False
    for s in behind:
        names = {n.id for n in ast.walk(s) if isinstance(n, ast.Name)}
        if changed and {alias, name} <= names:
            return True
        stored = {
            ast.unparse(t) for n in ast.walk(s) if isinstance(n, ast.Assign) for t in n.targets
        }
        if stored & {alias, name}:
            return False
        changed |= isinstance(s, ast.AugAssign) and ast.unparse(s.target) in (name, f"{name}[:]")
        changed |= f"{name}[:]" in stored or f"{name}[...]" in stored
    return False


def _is_torch(tree: ast.AST) -> bool:
    return any(isinstance(n, ast.Import) and n.names[0].name == "torch" for n in ast.walk(tree))
