"""One kernel in LLVM's words: statements and expressions.

A loop over lanes runs W iterations at a time (`lanes.py`). Within it an expression that depends on
its counter is a vector; how numbers get to and from memory is in `memory_access.py`.

Notation: W lanes of a vector; `b` the builder.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import numpy as np
from llvmlite import ir

from chainrule.compile.graph.sizes import Extent, Size
from chainrule.compile.llvm import functions as fn
from chainrule.compile.llvm import memory_access, narrow_indices, serial_loops
from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.derived_values import Derived
from chainrule.compile.llvm.function_calls import call, call_library, is_mathematics
from chainrule.compile.llvm.invariants import compute_invariants
from chainrule.compile.llvm.lanes import Lanes, over_lanes
from chainrule.compile.llvm.numbers import I64, Value
from chainrule.compile.llvm.platform import Platform, Polls
from chainrule.compile.llvm.short_rows import row_of
from chainrule.compile.llvm.whole_powers import whole_exponent, whole_power
from chainrule.compile.loops import statements as loops
from chainrule.compile.loops.duration import nanoseconds
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, Var
from chainrule.compile.loops.statements import Stmt
from chainrule.compile.loops.transposed_copy import is_transposed_copy
from chainrule.compile.loops.value_numbering import AvailableValues
from chainrule.compile.target import Target

_CONTRACTED = ("add", "sub", "mul")
_COMPARISONS = frozenset(
    ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]
)  # fmt: skip


@final
class Emitter:
    """Writes statements at the place where its builder stands.

    `pointers`, `vars` and `locals` are what buffers, counters and locals are in the code. A local
    that is folded into is a slot on the stack; it has another, in `vectors`, while a loop over
    lanes folds into it. `begun` are the numbers that such locals have before anything is folded in.
    `lanes` is the vector that is being computed, `known` what has been.
    `polls`, if there are any, is how long loops look for signals, and `polled_loops` how many of
    those around do. Functions that are `called` are not written in place.
    """

    def __init__(
        self,
        builder: Any,
        pointers: dict[Buffer, Value],
        symbols: dict[str, Value],
        target: Target,
        body: Sequence[Stmt],
        platform: Platform | None = None,
        polls: Polls | None = None,
        called: Collection[str] = (),
    ) -> None:
        self.b = builder
        self.target = target
        self.pointers = pointers
        self.vars: dict[Var, Value] = {}
        self.locals: dict[Local, Value] = {}
        self.vectors: dict[Local, Value] = {}
        self.lanes: Lanes | None = None
        self.begun: dict[Local, Any] = {}
        self.known = AvailableValues()
        self.derived = Derived(builder)
        self.polls = polls
        self.polled_loops = 0
        self._platform = platform
        self._called = called
        self._symbols = symbols
        self._sizes: dict[Size, Value] = {}
        self._entry = builder.block
        self._folded = {s.local for s in loops.statements(body) if isinstance(s, loops.Into)}

    def entry(self, block: Any) -> None:
        """Where sizes are computed: a block that comes before everything."""
        self._entry = block

    # --- statements

    def run(self, body: Sequence[Stmt]) -> None:
        """Emit `body`."""
        for i, s in enumerate(body):
            rest = body[i:]
            row = row_of(self, rest)
            if row is not None:
                row.emit(otherwise=lambda rest=rest: self._each(rest))
                return
            self._statement(s)

    def _each(self, body: Sequence[Stmt]) -> None:
        """Emit statements one by one."""
        for s in body:
            self._statement(s)

    def _statement(self, s: Stmt) -> None:
        """Emit one statement. A loop over nothing leaves nothing."""
        if not isinstance(s, loops.Let | loops.Into | loops.Store):
            self.known.begin(s)
        match s:
            case loops.For() if s.var.extent == 0:
                pass
            case loops.For():
                compute_invariants(self, s)
                over_lanes(self, s) if s.mode == "lanes" else self._loop(s)
            case loops.Let():
                self._let(s)
            case loops.Into():
                self._into(s)
            case loops.Store():
                memory_access.store(self, s)
            case loops.Product():
                from chainrule.compile.llvm.matmul_tiles import product

                compute_invariants(self, s)
                product(self, s)
            case loops.Gemm() | loops.Routine():
                assert self._platform is not None, "there are no libraries"
                self._platform.library(self, s)
            case _:
                raise AssertionError(f"{type(s).__name__} is not a kernel's statement")

    def _loop(self, s: loops.For) -> None:
        if is_transposed_copy(s):
            from chainrule.compile.llvm.transpose_copy import transpose

            transpose(self, s)
            return
        self.begun.clear()
        each = self.takes(s.body)
        for i in serial_loops.iterations(self, self.end(s), 1, s.body, each):
            self.vars[s.var] = i
            self.run(s.body)
        self.begun.clear()

    def end(self, s: loops.For) -> Value:
        """Where a loop ends."""
        return self.extent(s.var.extent) if s.upto is None else self.affine(s.upto)

    def takes(self, body: Sequence[Stmt]) -> float:
        """About how many nanoseconds `body` takes; 0 where nobody asks."""
        return 0.0 if self.polls is None else nanoseconds(body)

    def counting(self, n: Value, step: int, each: float = 0.0) -> AbstractContextManager[Value]:
        """A loop: the counter is 0, step, 2 step, ... below n. Nothing runs if n is 0. `each` is
        about how many nanoseconds an iteration takes."""
        return serial_loops.counting(self, n, step, each)

    def _let(self, s: loops.Let) -> None:
        value = self.value(s.value)
        if s.local not in self._folded:
            self.locals[s.local] = value
            self.known.keep(s.value, value)
            return
        if self.lanes is not None:
            value = self.derived.splat(value, self.lanes.width)
        slot = self.slot(value.type)
        self.b.store(value, slot)
        self.locals[s.local] = slot
        if s.value.kind == "lit" and self.lanes is None:
            self.begun[s.local] = s.value.of

    def _into(self, s: loops.Into) -> None:
        """Fold a value into a local, in a register of lanes where the local has one."""
        b, value = self.b, self.value(s.value)
        slot, lanes = self.locals[s.local], self.lanes
        if lanes is not None and s.local in self.vectors:
            slot = self.vectors[s.local]
            value = self.derived.splat(value, lanes.width)
        old = b.load(slot, typ=slot.allocated_type)
        value = self.derived.splat(value, nums.lanes_of(old))
        if self.target.contract and s.fold == "add" and s.local.dtype.kind == "f":
            new = self._contracted(s.fold, [old, value])
        else:
            new = fn.call(b, s.fold, s.local.dtype, [old, value])
        if lanes is not None and lanes.mask is not None and s.local in self.vectors:
            new = b.select(lanes.mask, new, old)
        b.store(new, slot)
        if slot is self.locals[s.local]:
            self.begun.pop(s.local, None)
        self.known.invalidate_local(s.local)

    # --- expressions

    def value(self, e: Expr) -> Value:
        """The number `e`, or a vector of them."""
        value = self.known.find(e)
        if value is None:
            value = self._make(e)
            self.known.keep(e, value)
        return value

    def _make(self, e: Expr) -> Value:
        """The value of an expression that was not computed here before."""
        match e.kind:
            case "lit":
                return nums.constant(e.of, e.dtype)
            case "local":
                held = self.locals[e.of]
                if e.of not in self._folded:
                    return held
                return self.b.load(held, typ=held.allocated_type)
            case "load":
                return memory_access.load(self, e)
            case "index":
                if self.lanes is not None and memory_access.is_vector(self, e.of):
                    return memory_access.offsets(self, e.of, self.lanes)
                return self.affine(e.of)
            case _:
                return self._call(e)

    def _call(self, e: Expr) -> Value:
        """A function of other expressions: an instruction, or a call of ours or of a library."""
        name, *args = e.of
        if name in _COMPARISONS and (narrow := narrow_indices.narrow(self, args)):
            return fn.call(self.b, name, np.dtype(np.int32), narrow)
        xs = [self.value(a) for a in args]
        lanes = max(map(nums.lanes_of, xs))
        xs = [self.derived.splat(x, lanes) for x in xs]
        if name == "cast":
            return nums.cast(self.b, xs[0], args[0].dtype, e.dtype)
        if name == "where":
            return self.b.select(*xs)
        if self.target.library_functions and is_mathematics(e):
            return call_library(self.b, name, xs)
        if name == "pow" and self.target.fma and not lanes and (n := whole_exponent(e)) is not None:
            return whole_power(self.b, xs[0], self.value(n))
        if name in self._called and is_mathematics(e):
            return call(self.b, name, xs)
        dtype = args[0].dtype
        if self.target.contract and name in _CONTRACTED and dtype.kind == "f":
            return self._contracted(name, xs)
        if not lanes and e.dtype.kind == "b" and dtype.kind in "bi":
            return self.derived.condition(xs, (name, dtype), lambda b: fn.call(b, name, dtype, xs))
        return fn.call(self.b, name, dtype, xs, self.known)

    def _contracted(self, name: str, xs: Sequence[Value]) -> Value:
        """A sum, difference or product of floats, which may be one instruction with another."""
        return getattr(self.b, f"f{name}")(*xs, flags=("contract",))

    # --- places, sizes, slots

    def affine(self, at: Affine) -> Value:
        """An offset, for the first lane where there are several."""
        return memory_access.affine(self, at)

    def element_address(self, buffer: Buffer, at: Affine) -> Value:
        """The address of an element."""
        return memory_access.element_address(self, buffer, at)

    def extent(self, n: Extent) -> Value:
        """A size as a number."""
        if not isinstance(n, Size):
            return ir.Constant(I64, n)
        if n not in self._sizes:
            with self.b.goto_block(self._entry):
                self._sizes[n] = size_of(self.b, n, self._symbols)
        return self._sizes[n]

    def slot(self, kind: Any) -> Any:
        """Room for a value that changes; LLVM makes a register of it."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    def fresh(self) -> AbstractContextManager[None]:
        """Within it, values that are computed are forgotten at the end."""
        return self.known.within()


def size_of(b: Any, n: Extent, symbols: Mapping[str, Value]) -> Value:
    """A size as a number, computed where the builder stands."""
    if not isinstance(n, Size):
        return ir.Constant(I64, n)
    total = ir.Constant(I64, 0)
    for names, c in n.terms:
        part: Value = ir.Constant(I64, c)
        for s in names:
            part = b.mul(part, symbols[s])
        total = b.add(total, part)
    return total
