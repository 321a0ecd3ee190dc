"""The text of the user's code: the one door to it, for all who quote a line or read a function.

A file need not lie on disk. Cells of a notebook, examples of a doctest and code that `exec` runs
may be known to `linecache` only. Modules of a zip file have a loader. The text after `python -c` is
an argument of the process.

(pathlib takes long to import, and the engine needs this.)
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

_COMMAND = "<string>"
"""The file of the text after `python -c`; code that `exec` makes of a string has it, too."""


def file_lines(file: str) -> list[str]:
    """The lines of a file with their ends; none if nobody knows them.

    A file that was changed is read again. One that was deleted keeps the text that was read.
    """
    if file == _COMMAND:
        return linecache.getlines(file) or _command_lines()
    known = linecache.cache.get(file)
    linecache.checkcache(file)
    lines = linecache.getlines(file) or _loaded_lines(file) or _cell_lines(file)
    if not lines and known is not None and len(known) > 1:  # read, and deleted since
        linecache.cache[file] = known
        return known[2]
    return lines


def file_text(file: str) -> str:
    """The whole text of a file; empty if nobody knows it."""
    return "".join(file_lines(file))


def source_line(file: str, line: int) -> str:
    """A line without its end, counted from 1; empty if nobody knows it."""
    lines = file_lines(file)
    return lines[line - 1].rstrip() if 0 < line <= len(lines) else ""


def definition(x: Any) -> tuple[list[str], int] | None:
    """The lines of a function, a code object or a class, decorators included, and the number of the
    first one; None if nobody knows them."""
    if isinstance(x, type):
        return _class_block(x)
    code = _code_of(x)
    if code is None or (code.co_filename == _COMMAND and not is_command(code)):
        return None
    lines, first = file_lines(code.co_filename), max(code.co_firstlineno, 1)
    if first > len(lines):
        return None
    try:
        return inspect.getblock(lines[first - 1 :]), first
    except (tokenize.TokenError, SyntaxError):
        return None


def definition_text(x: Any) -> str:
    """The text of `definition`; empty if nobody knows it."""
    found = definition(x)
    return "" if found is None else "".join(found[0])


def class_file(cls: type) -> str | None:
    """The file in which a class is defined; None if nobody knows it."""
    return next((file for file in _class_files(cls) if file_lines(file)), None)


def is_command(code: CodeType) -> bool:
    """Whether code is part of the text after `python -c`."""
    return code.co_filename == _COMMAND and code in _command_codes()


def display_name(file: str) -> str:
    """A file as a reader knows it: a notebook's cell by its number, `In[3]`, others by their path.

    >>> display_name("/home/me/train.py")
    '/home/me/train.py'
    """
    return file if "IPython" not in sys.modules else _cell_name(file) or file


def display_line(where: str) -> str:
    """A place `file:line` with the file as a reader knows it."""
    file, _, line = where.rpartition(":")
    return f"{display_name(file)}:{line}" if file else where


def short_line(where: str) -> str:
    """A place `file:line` without the folders of the file."""
    file, _, line = display_line(where).rpartition(":")
    return f"{os.path.basename(file)}:{line}" if file else where  # noqa: PTH119


def _cell_name(file: str) -> str:
    """What IPython calls the cell that was compiled under this name; empty if it is none."""
    ipython: Any = sys.modules.get("IPython")
    try:
        names = ipython.get_ipython().compile.format_code_name(file)
    except AttributeError:  # no shell runs, or one without numbered cells
        return ""
    return names[1] if names else ""


def _cell_lines(name: str) -> list[str]:
    """The lines of the cell that a reader knows by this name, as `In[3]`."""
    if not name.startswith("In["):
        return []
    files = [file for file in list(linecache.cache) if _cell_name(str(file)) == name]
    return linecache.getlines(files[0]) if files else []


def _code_of(x: Any) -> CodeType | None:
    if isinstance(x, CodeType):
        return x
    unwrapped = inspect.unwrap(x)
    unwrapped = getattr(unwrapped, "__func__", unwrapped)
    return getattr(unwrapped, "__code__", None)


def _loaded_lines(file: str) -> list[str]:
    """The lines of a module that its loader knows, as that of a zip file does."""
    if file.startswith("<"):
        return []
    for module in list(sys.modules.values()):
        scope: dict[str, Any] = getattr(module, "__dict__", {})
        if scope.get("__file__") == file and scope.get("__loader__") is not None:
            spec = scope.get("__spec__")
            name = scope["__name__"] if spec is None else spec.name  # `python -m`: not __main__
            return linecache.getlines(file, {**scope, "__name__": name})
    return []


@lru_cache(maxsize=1)
def _command_lines() -> list[str]:
    if not sys.argv or sys.argv[0] != "-c" or len(sys.orig_argv) < len(sys.argv):
        return []
    text = sys.orig_argv[-len(sys.argv)]
    text = textwrap.dedent(text) if sys.version_info >= (3, 14) else text
    return text.splitlines(keepends=True)


@lru_cache(maxsize=1)
def _command_codes() -> frozenset[CodeType]:
    try:
        whole = compile("".join(_command_lines()), _COMMAND, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(_all_codes(whole))


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from _all_codes(x)


def _class_block(cls: type) -> tuple[list[str], int] | None:
    """The lines of a class and the number of the first one.

    Of several classes of one name in a file it is the one whose methods these are, or the last.
    """
    file = class_file(cls)
    if file is None:
        return None
    lines = file_lines(file)
    spans = _class_spans("".join(lines), cls.__qualname__)
    starts = [code.co_firstlineno for code in _methods(cls) if code.co_filename == file]
    held = [(a, b) for a, b in spans if any(a <= n <= b for n in starts)] or spans
    return (lines[held[-1][0] - 1 : held[-1][1]], held[-1][0]) if held else None


def _class_files(cls: type) -> Iterator[str]:
    """Files that may have the text of a class: of its methods, of its module."""
    yield from [code.co_filename for code in _methods(cls)]
    module = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if module:
        yield module


def _methods(cls: type) -> Iterator[CodeType]:
    """The code of functions that are defined in the body of a class."""
    for x in vars(cls).values():
        f = getattr(x, "fget", None) or getattr(x, "__func__", x)
        if isinstance(f, FunctionType) and f.__qualname__.startswith(f"{cls.__qualname__}."):
            yield f.__code__


@lru_cache(maxsize=64)
def _class_spans(text: str, qualname: str) -> tuple[tuple[int, int], ...]:
    """First and last lines of the classes of this name, decorators included."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    return tuple([_span(node) for name, node in _classes(tree, "") if name == qualname])


def _classes(tree: ast.AST, around: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        inner = around
        if isinstance(node, ast.ClassDef):
            yield around + node.name, node
            inner = f"{around}{node.name}."
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{around}{node.name}.<locals>."
        yield from _classes(node, inner)


def _span(node: ast.ClassDef) -> tuple[int, int]:
    first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
    return first, node.end_lineno or node.lineno
