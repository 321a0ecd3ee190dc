"""A version of the user's function: text that can be edited, and run where the original runs.

Edits are made to the text, at the positions of syntax nodes, so that all that does not change stays
as the user wrote it. A version is compiled with the globals and the closure of the original and
with its file name and line numbers. `while` loops get a limit: an edited loop must end.
"""

from __future__ import annotations
import __future__

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, TypeAlias, cast

from chainrule.verify.place import Place
from chainrule.verify.repair.code.loop_limits import limit, with_limit
from chainrule.verify.subject import Source

Def: TypeAlias = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True)
class Edit:
    """A change of the text between two offsets, and the mistake that it undoes."""

    start: int
    end: int
    text: str
    code: str
    cost: float = 1.0
    """How unlikely it is: what is tried first costs least."""
    says: str = ""
    """To read: "`g @ w` becomes `g @ w.T`"."""
    rule: str = ""
    """Name of the rule that proposed it."""

    def moved(self, by: int) -> Edit:
        """The same change so many characters further on."""
        return replace(self, start=self.start + by, end=self.end + by)


def growth(edits: Iterable[Edit], start: int) -> int:
    """By how many characters edits in front of an offset make the text longer."""
    return sum([len(e.text) - (e.end - e.start) for e in edits if e.start < start])


class UnreadableError(Exception):
    """The source is not of a kind that can be changed."""


@dataclass(frozen=True, eq=False)
class Draft:
    """One version: `body` is the function's text, `head` and `tail` what else its lines hold."""

    source: Source
    head: str
    body: str
    tail: str
    is_lambda: bool

    @staticmethod
    def of(source: Source) -> Draft:
        """The version that the user wrote."""
        python_function(source.function)
        draft = Draft(source, "", source.text.rstrip("\n") + "\n", "", False)
        if source.function.__name__ == "<lambda>":
            return _lambda_of(source)
        try:
            _ = draft.root
        except (SyntaxError, StopIteration) as e:
            raise UnreadableError(
                f"the source of {source.function.__name__} cannot be parsed"
            ) from e
        return draft

    @property
    def text(self) -> str:
        """The lines as they would stand in the file."""
        return self.head + self.body + self.tail

    def edited(self, edit: Edit) -> Draft:
        """The version after an edit."""
        return replace(self, body=self.body[: edit.start] + edit.text + self.body[edit.end :])

    # Syntax.

    def parse(self) -> tuple[ast.Module, Def]:
        """A fresh tree, and the function in it."""
        tree = ast.parse(self._prefix + self.body + (")" if self.is_lambda else ""))
        kinds = ast.Lambda if self.is_lambda else ast.FunctionDef
        return tree, next(n for n in ast.walk(tree) if isinstance(n, kinds))

    @property
    def _prefix(self) -> str:
        if self.is_lambda:
            return "("
        return "if True:\n" if self.body[:1].isspace() else ""

    @cached_property
    def root(self) -> Def:
        """The function's node."""
        return self.parse()[1]

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the function, in an order that depends on nothing but the text."""
        return list(ast.walk(self.root))

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """All statements, in the order of their lines."""
        found = [n for n in self.nodes if isinstance(n, ast.stmt)]
        return sorted(found, key=lambda n: n.lineno)

    @cached_property
    def index(self) -> dict[ast.AST, int]:
        """Where each node stands in `nodes`."""
        return {n: i for i, n in enumerate(self.nodes)}

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node around each node."""
        return {c: p for p in self.nodes for c in ast.iter_child_nodes(p)}

    @cached_property
    def _starts(self) -> list[tuple[int, bytes]]:
        """Of each line of what is parsed: its offset in `body`, and its bytes."""
        offset, starts = -len(self._prefix), list[tuple[int, bytes]]()
        for line in (self._prefix + self.body).splitlines(keepends=True):
            starts.append((offset, line.encode()))
            offset += len(line)
        return starts

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Offsets in `body` at which a node starts and ends, without parentheses around it."""

        def at(line: int, column: int) -> int:
            start, content = self._starts[line - 1]
            return start + len(content[:column].decode())

        n: Any = node
        return at(n.lineno, n.col_offset), at(n.end_lineno, n.end_col_offset)

    def src(self, node: ast.AST) -> str:
        """A node's text."""
        start, end = self.span(node)
        return self.body[start:end]

    def place(self, node: ast.AST) -> Place:
        """The line of the file at which a node starts."""
        source, above = self.source, self.text[: self.span(node)[0]].count("\n")
        return Place(source.file, source.first_line + above, source.function.__qualname__)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of the function's arguments."""
        a = self.root.args
        every = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs]
        return tuple([x.arg for x in every])

    # Running.

    def compiled(
        self,
        names: Mapping[str, object] | None = None,
        change: Callable[[Def], Def] | None = None,
    ) -> Callable[..., Any]:
        """The function of this version. `names` are further names that it can read, `change` a last
        change of its tree, made before it is compiled."""
        original, rewritten = python_function(self.source.function), self.source.rewritten
        as_it_is = not names and change is None and rewritten is None
        if as_it_is and (code := _code_of_text(original, self)) is not None:
            return self._function(code, {})
        _, root = self.parse()
        extra = dict(names or {})
        if change is not None:
            root = change(root)
        if rewritten is not None:
            root = cast("Def", rewritten(root))
        if any(isinstance(n, ast.While) for n in ast.walk(root)):
            extra["__turn__"] = limit()
            root = with_limit(root)
        return self._function(_code_of(root, original, extra, self), extra)

    def _function(self, code: CodeType, extra: Mapping[str, object]) -> Callable[..., Any]:
        """Code as a function that stands where the original stands."""
        original = python_function(self.source.function)
        cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
        closure = tuple([CellType(extra[n]) if n in extra else cells[n] for n in code.co_freevars])
        made = FunctionType(
            code, original.__globals__, original.__name__, original.__defaults__, closure
        )
        made.__kwdefaults__ = original.__kwdefaults__
        made.__qualname__ = original.__qualname__
        asked = self.source.function
        return MethodType(made, asked.__self__) if isinstance(asked, MethodType) else made


def python_function(function: Callable[..., Any]) -> FunctionType:
    """The Python function under methods and decorators."""
    inner = inspect.unwrap(function)
    inner = inner.__func__ if isinstance(inner, MethodType) else inner
    if not isinstance(inner, FunctionType):
        raise UnreadableError(f"{inner!r} is not a function written in Python")
    return inner


def _code_of(
    root: Def, original: FunctionType, extra: Mapping[str, object], draft: Draft
) -> CodeType:
    """Code of `root` as it would be compiled where the original stands: below a function that has
    the closure's names, and in a class if it is a method (for names like `__x`)."""
    if isinstance(root, ast.FunctionDef):
        root.decorator_list = []
        inner: ast.stmt = root
    else:
        inner = ast.Expr(root)
    path = original.__qualname__.split(".")
    owner = path[-2] if len(path) > 1 else "<locals>"
    if owner != "<locals>":
        inner = ast.ClassDef(owner, [], [], [inner], [])
    free = [*[n for n in original.__code__.co_freevars if n != "__class__"], *extra]
    body: list[ast.stmt] = [inner]
    # Its class, or itself where it calls itself, by name is the user's, not this one.
    own = path[-1] if len(path) == 1 else owner
    if own.isidentifier() and own not in free:
        body = [ast.Global([own]), inner]
    arguments = ast.arguments([], [ast.arg(n) for n in free], None, [], [], None, [])
    outer = ast.FunctionDef("__make__", arguments, body, [])
    module = ast.fix_missing_locations(ast.Module([outer], []))
    lines = draft._prefix.count("\n")  # pyright: ignore[reportPrivateUsage]
    ast.increment_lineno(module, draft.source.first_line - 1 - lines + draft.head.count("\n"))
    flags = original.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(module, draft.source.file, "exec", dont_inherit=True, flags=flags)
    name = "<lambda>" if isinstance(root, ast.Lambda) else root.name
    return next(c for c in _codes(code) if c.co_name == name)


def _code_of_text(original: FunctionType, draft: Draft) -> CodeType | None:
    """The same from the text alone, which is several times faster; None where lines have to be
    rewritten for it."""
    path = original.__qualname__.split(".")
    free = [n for n in original.__code__.co_freevars if n != "__class__"]
    around = [f"def __make__({', '.join(free)}):"] if free else []
    if len(path) > 1 and path[-2] != "<locals>":
        around.append(f"class {path[-2]}:")
    lines = draft.source.first_line - 1 - len(around)
    indented = draft.body[:1].isspace()
    if draft.is_lambda or draft.head or "while" in draft.body or lines < 0:
        return None
    if not draft.body.startswith("  " if around else "") or (indented and not around):
        return None
    head = "\n" * lines + "".join([" " * i + line + "\n" for i, line in enumerate(around)])
    flags = original.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(head + draft.body, draft.source.file, "exec", dont_inherit=True, flags=flags)
    return next(c for c in _codes(code) if c.co_name == original.__name__)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield c
            yield from _codes(c)


def _lambda_of(source: Source) -> Draft:
    """The lambda among the source's lines whose code is the function's."""
    text, wanted = source.text, python_function(source.function).__code__
    start = text.find("lambda")
    while start >= 0:
        for end in range(len(text), start + 6, -1):
            if (draft := _as_lambda(source, start, end)) is not None:
                made = python_function(draft.compiled()).__code__
                if (made.co_code, made.co_names) == (wanted.co_code, wanted.co_names):
                    return draft
                break
        start = text.find("lambda", start + 6)
    raise UnreadableError("the lambda cannot be told from the others of its line")


def _as_lambda(source: Source, start: int, end: int) -> Draft | None:
    text = source.text
    try:
        tree = ast.parse(f"({text[start:end]})", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(tree, ast.Lambda):
        return None
    return Draft(source, text[:start], text[start:end].rstrip(), text[end:], True)
