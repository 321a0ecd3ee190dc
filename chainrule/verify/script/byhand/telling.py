"""The code of a script that tells of its turns and of its calls."""

from __future__ import annotations

import ast
from types import CodeType
from typing import cast

from chainrule.verify.script.byhand import loops, pairs


def compile_telling(text: bytes, file: str) -> CodeType:
    """That of a script; `SyntaxError` and `ValueError` as of `compile`."""
    tree = compile(text, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    return compile(telling(cast("ast.Module", tree)), file, "exec", dont_inherit=True)


def telling(tree: ast.Module) -> ast.Module:
    """The same for a tree, which is left as it is."""
    return pairs.with_calls(loops.with_calls(tree))
