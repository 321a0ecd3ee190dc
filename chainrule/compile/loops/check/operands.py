"""What the statements of a kernel are made of: buffers, sizes, offsets, expressions."""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NoReturn, final

import numpy as np

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops.check.accesses import refuse
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, Var, computable, within
from chainrule.compile.loops.functions import is_function, value_dtype
from chainrule.compile.loops.statements import Kernel, Loops, Product, Stmt

BOOL, I64 = np.dtype(bool), np.dtype(np.int64)


@final
class Operands:
    """Checks the operands of a kernel's statements."""

    def __init__(self, program: Loops, kernel: Kernel) -> None:
        self._kernel = kernel
        self._buffers = set(program.buffers)
        self._symbols = set(program.symbols)
        self._fine: set[Expr] = set()

    def refuse(self, s: Stmt, why: str) -> NoReturn:
        """Raise `SpecError` for a statement."""
        refuse(self._kernel, s, why)

    def same(self, s: Stmt, what: str, *dtypes: Any) -> None:
        """Refuse dtypes that differ."""
        if len(set(dtypes)) != 1:
            self.refuse(s, f"{what} differ in dtype: {', '.join(map(str, dtypes))}")

    def extent(self, s: Stmt, n: Extent) -> None:
        """Refuse a size of symbols that are none."""
        missing = () if isinstance(n, int) else n.symbols - self._symbols
        if missing:
            self.refuse(s, f"{', '.join(sorted(missing))} is no symbol of the program")

    def buffer(self, s: Stmt, b: Buffer) -> None:
        """Refuse a buffer that is none."""
        if b not in self._buffers:
            self.refuse(s, f"{b} is no buffer of the program")

    def expr(self, s: Stmt, e: Expr, known: Set[Var | Local]) -> None:
        """An expression where these counters and locals are known."""
        own = {s.i, s.j, *s.k} if isinstance(s, Product) else set[Var]()
        unknown = e.free - known - own
        if unknown:
            self.refuse(s, f"{', '.join(sorted(map(str, unknown)))} is not known")
        for x in within(e):
            if x not in self._fine:
                self._one(s, x)
                self._fine.add(x)

    def _one(self, s: Stmt, e: Expr) -> None:
        """An expression whose parts are fine."""
        if not computable(e.dtype):
            self.refuse(s, f"{e} is {e.dtype}, with which loops do not compute")
        match e.kind:
            case "fn":
                self._call(s, e, *e.of)
            case "load":
                buffer, at, when = e.of
                self.buffer(s, buffer)
                self.same(s, f"{buffer} and its element", buffer.dtype, e.dtype)
                self._integers(s, at)
                if when is not None and when.dtype != BOOL:
                    self.refuse(s, f"the condition {when} is {when.dtype}")
            case "index":
                self.same(s, "an index and its number", e.dtype, I64)
                self._integers(s, e.of)
            case "local":
                self.same(s, f"{e.of} and its value", e.of.dtype, e.dtype)
            case "lit":
                pass

    def _call(self, s: Stmt, e: Expr, name: str, *xs: Expr) -> None:
        """Check the number and the dtypes of a function's arguments."""
        dtypes = [x.dtype for x in xs]
        if name == "cast":
            if len(xs) != 1:
                self.refuse(s, f"{e} casts {len(xs)} numbers")
            return
        if name == "bits":
            if dtypes[0].kind != "f" or e.dtype != np.dtype(f"u{dtypes[0].itemsize}"):
                self.refuse(s, f"{e}: the bits of {dtypes[0]} are no {e.dtype}")
            return
        if name == "where":
            if len(xs) != 3 or dtypes[0] != BOOL:
                self.refuse(s, f"{e} does not choose by a condition")
            self.same(s, f"branches and value of {e}", *dtypes[1:], e.dtype)
            return
        if not is_function(name, dtypes[0]):
            self.refuse(s, f"there is no {name} of {dtypes[0]}")
        self.same(s, f"arguments of {name}", *dtypes)
        result = value_dtype(name, *dtypes)
        self.same(s, f"{name} of {dtypes[0]} and its value", result, e.dtype)

    def offset(self, s: Stmt, at: Affine, known: Set[Var | Local]) -> None:
        """An offset, there."""
        unknown = free_in(at) - known
        if unknown:
            self.refuse(s, f"{', '.join(sorted(map(str, unknown)))} is not known")
        self._integers(s, at)

    def _integers(self, s: Stmt, at: Affine) -> None:
        for n in (at.const, *[c for _, c in at.terms]):
            self.extent(s, n)
        for v, _ in at.terms:
            if isinstance(v, Expr) and v.dtype.kind not in "iu":
                self.refuse(s, f"{v} is {v.dtype}, not a whole number")


def free_in(at: Affine) -> set[Var | Local]:
    """The counters and locals that an offset depends on."""
    return {x for v, _ in at.terms for x in (v.free if isinstance(v, Expr) else (v,))}
