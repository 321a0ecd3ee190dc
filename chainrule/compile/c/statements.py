"""Kernels as C functions: loops and variables."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from chainrule.compile.c import blocks
from chainrule.compile.c import functions as fn
from chainrule.compile.c.blocks import Cell, Row, Stamp
from chainrule.compile.c.expressions import Printer, extent, wrapped_index
from chainrule.compile.c.names import COUNTERS, Namer, short
from chainrule.compile.loops.accesses import accesses
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Into,
    Kernel,
    Let,
    Matrix,
    Store,
    statements,
)

_FOLDS = {"add": "sum", "mul": "product", "maximum": "largest", "minimum": "smallest",
          "logical_or": "any", "logical_and": "all"}  # fmt: skip
_SIGNS = {"add": "+=", "mul": "*="}
_WORDS = {"add": "sum", "sub": "difference", "mul": "product", "div": "ratio", "sqrt": "root",
          "exp": "power", "log": "logarithm", "neg": "negative"}  # fmt: skip
_WIDTH = 96
_BREAKS = re.compile(r" (?=[-+*/?:=|&<>]+ )|(?<=, )")
"""Where a line can be broken."""

Helpers = dict[tuple[str, Any], None]


@final
@dataclass(frozen=True, slots=True)
class Function:
    """A kernel in C without its name: parameters, lines, and what a call passes."""

    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    passed: tuple[tuple[Buffer, Any], ...]
    """Buffers, and from which element on."""
    symbols: tuple[str, ...]
    """The sizes that it is told."""


def function(
    kernel: Kernel, called: Mapping[Buffer, str], symbols: Sequence[str], helpers: Helpers
) -> Function:
    """`kernel` as a function of the buffers that it writes, then of those that it reads. `called`
    says what they are called outside; helpers that it needs are added to `helpers`."""
    read, written = kernel.buffers()
    order = list(dict.fromkeys([*written, *read]))
    body = blocks.write_out_products(kernel.body)
    starts = _starts(body)
    namer = Namer([*COUNTERS, *symbols])
    printer = Printer(helpers)
    parameters: list[str] = []
    for b in order:
        name = namer(short(called[b]))
        printer.buffers[b] = (name, starts.get(b, 0))
        const = "" if b in written else "const "
        parameters.append(f"{const}{fn.type_of(b.dtype)} *restrict {name}")
    folds = {s.local: s.fold for s in statements(body) if isinstance(s, Into)}
    lines = [x for y in _Body(printer, namer, folds).lines(body) for x in _wrap_line(y)]
    passed = tuple([(b, starts.get(b, 0)) for b in order])
    told = tuple([s for s in symbols if mentions(lines, s)])
    return Function((*parameters, *[f"int {s}" for s in told]), tuple(lines), passed, told)


def mentions(lines: Iterable[str], word: str) -> bool:
    """Whether `word` stands in a text."""
    return any(re.search(rf"\b{word}\b", line) for line in lines)


def _wrap_line(line: str) -> list[str]:
    """A line; if it is long, in several, broken outside of as many brackets as possible."""
    pad = " " * (len(line) - len(line.lstrip()) + 4)
    out: list[str] = []
    while len(line) > _WIDTH:
        ends = [m.start() for m in _BREAKS.finditer(line, len(pad) + 16, _WIDTH)]
        if not ends:
            break
        end = min(ends, key=lambda n: (_depth(line[:n]), -n))
        out.append(line[:end].rstrip())
        line = pad + line[end:].lstrip()
    return [*out, line]


def _depth(text: str) -> int:
    """How many brackets are open at the end of a text; those of an offset count more."""
    return text.count("(") - text.count(")") + 4 * (text.count("[") - text.count("]"))


def _starts(body: Sequence[Any]) -> dict[Buffer, int]:
    """The first element of each buffer that is used, as far as that is one known number."""
    out: dict[Buffer, int] = {}
    for x in accesses(body):
        low = x.at.const if isinstance(x.at.const, int) else 0
        if any(isinstance(c, int) and c < 0 for _, c in x.at.terms):
            low = 0
        out[x.buffer] = max(0, min(out.get(x.buffer, low), low))
    return out


@final
class _Body:
    """Writes statements as lines of C."""

    def __init__(self, printer: Printer, namer: Namer, folds: Mapping[Local, str]) -> None:
        self.printer, self.namer, self.folds = printer, namer, folds
        self._written: dict[Cell, int] = {}
        self._live: dict[Stamp, str] = {}
        self._reads: dict[Expr, tuple[Cell, ...]] = {}
        self._depth = 0
        printer.known = lambda e: self._live.get(self._stamp(e, {}))

    def lines(self, body: Sequence[Any]) -> list[str]:
        """The lines of a block."""
        for n, s in enumerate(body):
            if isinstance(s, Let) and blocks.shown_once(body, n, self.folds):
                self.printer.shown[s.local] = s.value
        needed = blocks.variables_needed(
            body, self._stamp, lambda key: key in self._live, self.printer.shown
        )
        out: list[str] = []
        for n, s in enumerate(body):
            for e in needed.get(n, ()):
                out.append(self._variable(e, self._name(e)))
            out += self._statement(s)
            self._wrote(blocks.writes([s]))
        return out

    def _stamp(self, e: Expr, later: Mapping[Cell, int]) -> Stamp:
        found = self._reads.get(e)
        if found is None:
            found = self._reads[e] = blocks.reads(e)
        known = self._written
        return e, tuple([known.get(x, 0) + later.get(x, 0) for x in found])

    def _wrote(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            self._written[cell] = self._written.get(cell, 0) + 1

    def _variable(self, e: Expr, name: str) -> str:
        text = self.printer.fresh(e)
        self._live[self._stamp(e, {})] = name
        kind = "int" if wrapped_index(e) else fn.type_of(e.dtype)
        return f"const {kind} {name} = {text};"

    def _name(self, e: Expr) -> str:
        if wrapped_index(e):
            return self.namer("at")
        return self.namer(_WORDS.get(e.of[0], "value") if e.kind == "fn" else "value")

    # --- one statement

    def _statement(self, s: Any) -> list[str]:
        """The lines of C of one statement."""
        match s:
            case For():
                return self._loop(s)
            case Let():
                return self._let(s)
            case Into():
                return [self._into(s)]
            case Store():
                return [self._store(s)]
            case Row():
                return self._row(s)
            case Gemm():
                return [self._gemm(s)]
            case _:
                raise AssertionError(f"{type(s).__name__} is not a kernel's statement")

    def _loop(self, s: For) -> list[str]:
        name = COUNTERS[self._depth] if self._depth < len(COUNTERS) else f"i{self._depth}"
        self.printer.names[s.var] = name
        self._wrote(blocks.writes(s.body))
        with self._scope():
            inner = self.lines(s.body)
        end = extent(s.var.extent) if s.upto is None else self.printer.offset(s.upto, 0)
        head = f"for (int {name} = 0; {name} < {end}; {name}++)"
        if len(inner) == 1:
            return [f"{head} {inner[0]}"] if len(inner[0]) < 48 else [head, f"    {inner[0]}"]
        return [f"{head} {{", *[f"    {line}" for line in inner], "}"]

    @contextmanager
    def _scope(self) -> Generator[None]:
        live = dict(self._live)
        self._depth += 1
        yield
        self._depth -= 1
        self._live = live

    def _let(self, s: Let) -> list[str]:
        """The declaration of a local; none where its value is written in its place."""
        if s.local in self.printer.shown:
            return []
        kind = fn.type_of(s.local.dtype)
        if s.local in self.folds:
            name = self.namer(_FOLDS[self.folds[s.local]])
            self.printer.names[s.local] = name
            return [f"{kind} {name} = {self.printer.text(s.value)};"]
        known = self.printer.known(s.value)
        if known is not None:
            self.printer.names[s.local] = known
            return []
        self.printer.names[s.local] = name = self._name(s.value)
        if s.value.kind == "fn":
            return [self._variable(s.value, name)]
        return [f"const {kind} {name} = {self.printer.text(s.value)};"]

    def _into(self, s: Into) -> str:
        name, value = self.printer.names[s.local], self.printer.text(s.value)
        if s.fold in _SIGNS:
            return f"{name} {_SIGNS[s.fold]} {value};"
        if s.fold in ("logical_or", "logical_and"):
            sign = "||" if s.fold == "logical_or" else "&&"
            return f"{name} = {name} {sign} ({value});"
        self.printer.used[s.fold, s.local.dtype] = None
        return f"{name} = {fn.helper_name(s.fold, s.local.dtype)}({name}, {value});"

    def _store(self, s: Store) -> str:
        value = s.value
        place = self.printer.element(s.buffer, s.at)
        sign = "+=" if s.add else "="
        if not s.add and value.kind == "fn" and value.of[0] in ("add", "sub", "mul", "div"):
            first = value.of[1]
            same = first.kind == "load" and first.of == (s.buffer, s.at, None)
            if same and self.printer.known(value) is None:
                sign, value = f"{fn.INFIX[value.of[0]][0]}=", value.of[2]
        return f"{place} {sign} {self.printer.text(value)};"

    def _row(self, s: Row) -> list[str]:
        name = self.namer("row")
        self.printer.buffers[s.buffer] = (name, 0)
        (n,) = s.buffer.shape
        kind = fn.type_of(s.buffer.dtype)
        if isinstance(n, int):
            return [f"{kind} {name}[{n}] = {{0}};"]
        i = COUNTERS[self._depth]
        return [f"{kind} {name}[{extent(n)}];",
                f"for (int {i} = 0; {i} < {extent(n)}; {i}++) {name}[{i}] = 0;"]  # fmt: skip

    def _gemm(self, s: Gemm) -> str:
        self.printer.used["matmul", s.out.buffer.dtype] = None
        sizes = ", ".join(
            [self.printer.offset(n, 0) if isinstance(n, Affine) else extent(n) for n in s.sizes]
        )
        words = ", ".join([self._matrix(m) for m in (s.left, s.right, s.out)])
        return f"{fn.helper_name('matmul', s.out.buffer.dtype)}({sizes}, {words}, {int(s.add)});"

    def _matrix(self, m: Matrix) -> str:
        name, start = self.printer.buffers[m.buffer]
        at = self.printer.offset(m.at, start)
        place = name if at == "0" else f"{name} + {at}"
        return f"{place}, {extent(m.row)}, {extent(m.col)}"
