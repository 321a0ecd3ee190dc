"""One kernel in LLVM's words: loops, vectors, masks.

A loop over lanes runs W iterations at a time. Within it an expression that depends on its counter
is a vector: a load along it is one load of W numbers, any other load a gather; what remains beyond
the last full vector is masked off.

Notation: W lanes of a vector; `b` the builder.
"""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from llvmlite import ir

from chainrule.compile.llvm import functions as fn
from chainrule.compile.llvm.functions import I1, I64
from chainrule.compile.llvm.machine import Machine
from chainrule.compile.loops import language as loops
from chainrule.compile.loops.language import Affine, Buffer, Expr, Local, Stmt, Var
from chainrule.compile.terms.sizes import Extent, Size

Value = Any


@final
@dataclass(slots=True)
class Lanes:
    """The vector that is computed: `var` is `base`, base + 1, ...; `mask` says which count."""

    var: Var
    width: int
    base: Value
    mask: Value | None
    copy: int = 0
    """Which of several accumulators it adds to."""


@final
class Emitter:
    """Writes statements at the place where its builder stands."""

    def __init__(
        self,
        builder: Any,
        pointers: dict[Buffer, Value],
        symbols: dict[str, Value],
        machine: Machine,
        body: Sequence[Stmt],
    ) -> None:
        self.b = builder
        self.machine = machine
        self.pointers = pointers
        self.vars: dict[Var, Value] = {}
        self.locals: dict[Local, Value] = {}
        self.lanes: Lanes | None = None
        self._symbols = symbols
        self._entry = builder.block
        every = list(loops.statements(body))
        self._folded = {s.local for s in every if isinstance(s, loops.Into)}
        self._written = {s.buffer for s in every if isinstance(s, loops.Store)}
        self._vectors: dict[Local, list[Value]] = {}
        self._memo: list[dict[Expr, Value]] = [{}]
        self._unsafe: dict[Expr, bool] = {}
        self._sizes: dict[Size, Value] = {}

    def entry(self, block: Any) -> None:
        """Where sizes are computed: a block that comes before everything."""
        self._entry = block

    # --- statements

    def run(self, body: Iterable[Stmt]) -> None:
        """Emit `body`. A loop over nothing leaves nothing."""
        for s in body:
            match s:
                case loops.For() if s.var.extent == 0:
                    pass
                case loops.For():
                    self._lanes_loop(s) if s.mode == "lanes" else self._loop(s)
                case loops.Let():
                    self._let(s)
                case loops.Into():
                    self._into(s)
                case loops.Store():
                    self._store(s)
                case loops.Product():
                    from chainrule.compile.llvm.tiles import product

                    product(self, s)
                case loops.Gemm():
                    from chainrule.compile.llvm.gemm import gemm

                    gemm(self, s)
                case _:
                    raise AssertionError(f"{type(s).__name__} is not a kernel's statement")

    def _loop(self, s: loops.For) -> None:
        from chainrule.compile.llvm.turn import is_turn, turn

        if is_turn(s):
            turn(self, s)
            return
        with self.counting(self.extent(s.var.extent), 1) as i:
            self.vars[s.var] = i
            self.run(s.body)

    @contextmanager
    def counting(self, n: Value, step: int) -> Generator[Value]:
        """A loop: the counter is 0, step, 2 step, ... below n. Nothing runs if n is 0."""
        b = self.b
        static = n.constant if isinstance(n, ir.Constant) else None
        zero, by = ir.Constant(I64, 0), ir.Constant(I64, step)
        if static is not None and static <= step:
            if static == 0:
                raise AssertionError("a loop without iterations")
            self._memo.append({})
            yield zero
            self._memo.pop()
            return
        before = b.block
        body, after = b.append_basic_block("for"), b.append_basic_block("after")
        if static is None:
            b.cbranch(b.icmp_signed(">", n, zero), body, after)
        else:
            b.branch(body)
        b.position_at_end(body)
        i = b.phi(I64)
        i.add_incoming(zero, before)
        self._memo.append({})
        yield i
        self._memo.pop()
        following = b.add(i, by, flags=("nsw",))
        i.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, n), body, after)
        b.position_at_end(after)

    def _let(self, s: loops.Let) -> None:
        value = self.value(s.value)
        if s.local not in self._folded:
            self.locals[s.local] = value
            self._memo[-1][s.value] = value
            return
        if self.lanes is not None:
            value = fn.splat(self.b, value, self.lanes.width)
        slot = self.slot(value.type)
        self.b.store(value, slot)
        self.locals[s.local] = slot

    def _into(self, s: loops.Into) -> None:
        b, value = self.b, self.value(s.value)
        slot, lanes = self.locals[s.local], self.lanes
        if lanes is not None and s.local in self._vectors:
            slot = self._vectors[s.local][lanes.copy]
            value = fn.splat(b, value, lanes.width)
        old = b.load(slot, typ=slot.allocated_type)
        value = fn.splat(b, value, fn.lanes_of(old))
        new = fn.call(b, s.fold, s.local.dtype, [old, value])
        if lanes is not None and lanes.mask is not None and fn.lanes_of(new):
            new = b.select(lanes.mask, new, old)
        b.store(new, slot)
        self._forget_local(s.local)

    def _store(self, s: loops.Store) -> None:
        b, value, dtype = self.b, self.value(s.value), s.buffer.dtype
        lanes = self.lanes
        along = s.at.coefficient(lanes.var) if lanes is not None else 0
        vector = lanes is not None and (along != 0 or self._is_vector(s.at))
        if not vector:
            at = self.place(s.buffer, s.at)
            if s.add:
                value = fn.call(b, "add", dtype, [self._read(at, dtype, 0), value])
            b.store(self._to_memory(value, dtype), at)
        else:
            assert lanes is not None
            value = fn.splat(b, value, lanes.width)
            if along == 1 and not self._is_vector(s.at, but=lanes.var):
                self._store_vector(s, value, lanes)
            else:
                self._scatter(s, value, lanes)
        self._forget(self._reads_written)

    def _store_vector(self, s: loops.Store, value: Value, lanes: Lanes) -> None:
        b, dtype = self.b, s.buffer.dtype
        at = self.place(s.buffer, s.at)
        if s.add:
            old = self._load_vector(at, dtype, lanes.width, lanes.mask)
            value = fn.call(b, "add", dtype, [old, value])
        value = self._to_memory(value, dtype)
        if lanes.mask is None:
            b.store(value, at, align=_align(dtype))
            return
        align = ir.Constant(ir.IntType(32), _align(dtype))
        name = f"llvm.masked.store.{fn.suffix(value.type)}.p0"
        kinds = [value.type, at.type, align.type, lanes.mask.type]
        b.call(fn.declare(b, name, ir.VoidType(), kinds), [value, at, align, lanes.mask])

    def _scatter(self, s: loops.Store, value: Value, lanes: Lanes) -> None:
        """One number after the other: two lanes may go to the same place."""
        b, dtype = self.b, s.buffer.dtype
        offset = self._offsets(s.at, lanes)
        for lane in range(lanes.width):
            place = ir.Constant(ir.IntType(32), lane)
            with self._lane_is_on(lanes, place):
                at = self._gep(s.buffer, b.extract_element(offset, place))
                one = b.extract_element(value, place)
                if s.add:
                    one = fn.call(b, "add", dtype, [self._read(at, dtype, 0), one])
                b.store(self._to_memory(one, dtype), at)

    @contextmanager
    def _lane_is_on(self, lanes: Lanes, place: Value) -> Generator[None]:
        if lanes.mask is None:
            yield
            return
        with self.b.if_then(self.b.extract_element(lanes.mask, place)):
            yield

    # --- loops over lanes

    def _lanes_loop(self, s: loops.For) -> None:
        n = s.var.extent
        width = self.width(s.body, n)
        folds = [x.local for x in loops.statements(s.body) if isinstance(x, loops.Into)]
        outer = [x for x in dict.fromkeys(folds) if x in self.locals]
        kinds: dict[Local, loops.Fold] = {
            x.local: x.fold for x in loops.statements(s.body) if isinstance(x, loops.Into)
        }
        full = n // width if isinstance(n, int) else 0
        copies = 4 if outer and full >= 8 else 1
        for local in outer:
            self._vectors[local] = [
                self._started(local, kinds[local], width) for _ in range(copies)
            ]
        if isinstance(n, int):
            whole = full - full % copies
            self._strip(s, width, 0, whole, copies)
            self._strip(s, width, whole * width, full - whole, 1)
            if n % width:
                mask = ir.Constant(
                    ir.VectorType(I1, width), [ir.Constant(I1, i < n % width) for i in range(width)]
                )
                self._memo.append({})
                self.vector(s, Lanes(s.var, width, ir.Constant(I64, full * width), mask))
                self._memo.pop()
        else:
            end = self.extent(n)
            with self.counting(end, width) as base:
                self.vector(s, Lanes(s.var, width, base, self.below(end, base, width)))
        for local in outer:
            self._finish(local, kinds[local])

    def _strip(self, s: loops.For, width: int, start: int, count: int, copies: int) -> None:
        """`count` full vectors from `start`, `copies` of them at a time."""
        if not count:
            return
        b, first = self.b, ir.Constant(I64, start)
        with self.counting(ir.Constant(I64, count * width), copies * width) as i:
            for copy in range(copies):
                shift = ir.Constant(I64, start + copy * width)
                base = b.add(i, shift, flags=("nsw",)) if start or copy else i
                base = first if count == 1 else base
                self._memo.append({})
                self.vector(s, Lanes(s.var, width, base, None, copy))
                self._memo.pop()

    def vector(self, s: loops.For, lanes: Lanes) -> None:
        """The body for one vector."""
        assert self.lanes is None, "lanes within lanes"
        self.lanes = lanes
        self.vars[s.var] = lanes.base
        self.run(s.body)
        self.lanes = None

    def _started(self, local: Local, fold: loops.Fold, width: int) -> Value:
        start = fn.constant(identity(fold, local.dtype), local.dtype, width)
        slot = self.slot(start.type)
        self.b.store(start, slot)
        return slot

    def _finish(self, local: Local, fold: loops.Fold) -> None:
        """Fold the lanes of all accumulators into the local."""
        b, dtype = self.b, local.dtype
        first, *rest = [b.load(v, typ=v.allocated_type) for v in self._vectors.pop(local)]
        total = first
        for v in rest:
            total = fn.call(b, fold, dtype, [total, v])
        one = self._across(total, fold, dtype)
        slot = self.locals[local]
        old = b.load(slot, typ=slot.allocated_type)
        b.store(fn.call(b, fold, dtype, [old, one]), slot)
        self._forget_local(local)

    def _across(self, v: Value, fold: str, dtype: Any) -> Value:
        """All lanes folded into one number, halves with halves: the same order in every run."""
        b, width = self.b, fn.lanes_of(v)
        i32, whole = ir.IntType(32), v
        plain = dtype.kind == "f" and fold in ("maximum", "minimum")
        while width > 1:
            width //= 2
            low, high = (
                ir.Constant(ir.VectorType(i32, width), list(range(a, a + width)))
                for a in (0, width)
            )
            nothing = ir.Constant(v.type, ir.Undefined)
            x, y = b.shuffle_vector(v, nothing, low), b.shuffle_vector(v, nothing, high)
            if plain:  # NaN is looked for at the end
                v = b.select(b.fcmp_ordered(">" if fold == "maximum" else "<", x, y), x, y)
            else:
                v = fn.call(b, fold, dtype, [x, y])
        if plain:
            odd = b.bitcast(b.fcmp_unordered("uno", whole, whole), ir.IntType(fn.lanes_of(whole)))
            some = b.icmp_unsigned("!=", odd, ir.Constant(odd.type, 0))
            one = b.extract_element(v, ir.Constant(i32, 0))
            return b.select(some, fn.constant(float("nan"), dtype), one)
        return b.extract_element(v, ir.Constant(ir.IntType(32), 0))

    def width(self, body: Sequence[Stmt], n: Extent) -> int:
        """How many lanes suit the numbers that `body` computes with."""
        sizes = {1}
        for s in loops.statements(body):
            for e in loops.exprs_of(s):
                sizes |= {x.dtype.itemsize for x in loops.within(e) if x.dtype.kind == "f"}
                sizes |= {x.dtype.itemsize for x in (e,)}
            if isinstance(s, loops.Store):
                sizes.add(s.buffer.dtype.itemsize)
        width = self.machine.lanes(max(sizes))
        if not isinstance(n, int) and width > 4:
            width //= 2  # such loops are often short: half a vector wastes less of the last one
        while isinstance(n, int) and width // 2 >= n and width > 1:
            width //= 2
        return width

    def below(self, end: Value, base: Value, width: int) -> Value:
        """The mask of those lanes whose counter is below `end`."""
        b = self.b
        left = b.trunc(b.sub(end, base), ir.IntType(32))
        return b.icmp_signed("<", _iota(width, ir.IntType(32)), fn.splat(b, left, width))

    # --- expressions

    def value(self, e: Expr) -> Value:
        """The number `e`, or a vector of them."""
        for frame in reversed(self._memo):
            if e in frame:
                return frame[e]
        made = self._make(e)
        self._memo[-1][e] = made
        return made

    def _make(self, e: Expr) -> Value:
        match e.kind:
            case "lit":
                return fn.constant(e.of, e.dtype)
            case "local":
                held = self.locals[e.of]
                if e.of not in self._folded:
                    return held
                return self.b.load(held, typ=held.allocated_type)
            case "load":
                return self._load(e)
            case "index":
                lanes = self.lanes
                if lanes is not None and (
                    e.of.coefficient(lanes.var) != 0 or self._is_vector(e.of)
                ):
                    return self._offsets(e.of, lanes)
                return self.affine(e.of)
            case _:
                return self._call(e)

    def _call(self, e: Expr) -> Value:
        name, *args = e.of
        xs = [self.value(a) for a in args]
        lanes = max(map(fn.lanes_of, xs))
        xs = [fn.splat(self.b, x, lanes) for x in xs]
        if name == "cast":
            return fn.cast(self.b, xs[0], args[0].dtype, e.dtype)
        if name == "where":
            return self.b.select(*xs)
        return fn.call(self.b, name, args[0].dtype, xs)

    def _load(self, e: Expr) -> Value:
        b, lanes = self.b, self.lanes
        buffer, at, when = e.of
        along = at.coefficient(lanes.var) if lanes is not None else 0
        on = None if when is None else self.value(when)
        indexed = self._is_vector(at, but=lanes.var if lanes else None)
        if lanes is None or (along == 0 and not indexed and not (on and fn.lanes_of(on))):
            return self._load_one(buffer, at, on)
        mask = lanes.mask
        if on is not None:
            on = fn.splat(b, on, lanes.width)
            mask = on if mask is None else b.and_(mask, on)
        if along == 1 and not indexed:
            return self._load_vector(self.place(buffer, at), buffer.dtype, lanes.width, mask)
        return self._gather(buffer, self._offsets(at, lanes), lanes.width, mask)

    def _load_one(self, buffer: Buffer, at: Affine, on: Value | None) -> Value:
        if on is None:
            return self._read(self.place(buffer, at), buffer.dtype, 0)
        b = self.b  # read an element that is there in any case, if the wanted one is not
        offset = b.select(on, self.affine(at), ir.Constant(I64, 0))
        got = self._read(self._gep(buffer, offset), buffer.dtype, 0)
        return b.select(on, got, fn.constant(0, buffer.dtype))

    def _load_vector(self, at: Value, dtype: Any, width: int, mask: Value | None) -> Value:
        if mask is None:
            return self._read(at, dtype, width)
        b, kind = self.b, fn.in_memory(dtype, width)
        align = ir.Constant(ir.IntType(32), _align(dtype))
        zero = ir.Constant(kind, None)
        name = f"llvm.masked.load.{fn.suffix(kind)}.p0"
        f = fn.declare(b, name, kind, [at.type, align.type, mask.type, kind])
        return self._from_memory(b.call(f, [at, align, mask, zero]), dtype, width)

    def _gather(self, buffer: Buffer, offsets: Value, width: int, mask: Value | None) -> Value:
        b, kind = self.b, fn.in_memory(buffer.dtype, width)
        if mask is not None:  # a masked lane reads the first element: that exists
            offsets = b.select(mask, offsets, ir.Constant(offsets.type, None))
        got = ir.Constant(kind, ir.Undefined)
        for lane in range(width):
            place = ir.Constant(ir.IntType(32), lane)
            at = self._gep(buffer, b.extract_element(offsets, place))
            one = b.load(at, typ=fn.in_memory(buffer.dtype), align=_align(buffer.dtype))
            got = b.insert_element(got, one, place)
        value = self._from_memory(got, buffer.dtype, width)
        if mask is None:
            return value
        return b.select(mask, value, fn.constant(0, buffer.dtype, width))

    # --- places

    def _is_vector(self, at: Affine, but: Var | None = None) -> bool:
        """Whether an offset has a part that differs from lane to lane other than `but`."""
        lanes = self.lanes
        if lanes is None:
            return False
        for v, _ in at.terms:
            if v is but:
                continue
            if v is lanes.var or (isinstance(v, Expr) and fn.lanes_of(self.value(v))):
                return True
        return False

    def _offsets(self, at: Affine, lanes: Lanes) -> Value:
        """The offset in every lane."""
        b, width = self.b, lanes.width
        along = at.coefficient(lanes.var)
        plain = Affine(at.const, tuple([(v, c) for v, c in at.terms if not self._varies(v)]))
        total = fn.splat(b, self.affine(plain), width)
        for v, c in at.terms:
            if self._varies(v):
                if v is lanes.var:
                    each = b.add(fn.splat(b, lanes.base, width), _iota(width, I64))
                    factor = along
                else:
                    assert isinstance(v, Expr)
                    each, factor = self._whole(v), c
                by = fn.splat(b, self.extent(factor), width)
                total = b.add(total, b.mul(each, by))
        return total

    def _varies(self, v: Var | Expr) -> bool:
        lanes = self.lanes
        if lanes is None:
            return False
        return v is lanes.var or (isinstance(v, Expr) and fn.lanes_of(self.value(v)) > 0)

    def _whole(self, e: Expr) -> Value:
        """An index from data, as an int64."""
        return fn.cast(self.b, self.value(e), e.dtype, np.dtype(np.int64))

    def affine(self, at: Affine) -> Value:
        """An offset, for the first lane where there are several."""
        b = self.b
        total = self.extent(at.const)
        for v, c in at.terms:
            x = self.vars[v] if isinstance(v, Var) else self._whole(v)
            part = x if c == 1 else b.mul(x, self.extent(c), flags=("nsw",))
            zero = isinstance(total, ir.Constant) and total.constant == 0
            total = part if zero else b.add(total, part, flags=("nsw",))
        return total

    def extent(self, n: Extent) -> Value:
        """A size as a number."""
        if not isinstance(n, Size):
            return ir.Constant(I64, n)
        if n not in self._sizes:
            with self.b.goto_block(self._entry):
                self._sizes[n] = size_of(self.b, n, self._symbols)
        return self._sizes[n]

    def place(self, buffer: Buffer, at: Affine) -> Value:
        """The address of an element."""
        return self._gep(buffer, self.affine(at))

    def _gep(self, buffer: Buffer, offset: Value) -> Value:
        kind = fn.in_memory(buffer.dtype)
        return self.b.gep(self.pointers[buffer], [offset], source_etype=kind, inbounds=True)

    def _read(self, at: Value, dtype: Any, width: int) -> Value:
        got = self.b.load(at, typ=fn.in_memory(dtype, width), align=_align(dtype))
        return self._from_memory(got, dtype, width)

    def _from_memory(self, v: Value, dtype: Any, width: int) -> Value:
        if dtype.kind != "b":
            return v
        return self.b.icmp_unsigned("!=", v, ir.Constant(fn.in_memory(dtype, width), None))

    def _to_memory(self, v: Value, dtype: Any) -> Value:
        if dtype.kind != "b":
            return v
        return self.b.zext(v, fn.in_memory(dtype, fn.lanes_of(v)))

    def slot(self, kind: Any) -> Any:
        """Room for a value that changes; LLVM makes a register of it."""
        with self.b.goto_entry_block():
            return self.b.alloca(kind)

    # --- what is still true after something was written

    def _forget(self, stale: Any) -> None:
        for frame in self._memo:
            for e in [e for e in frame if stale(e)]:
                del frame[e]

    def _forget_local(self, local: Local) -> None:
        for frame in self._memo:
            for e in [e for e in frame if local in e.free]:
                del frame[e]

    def _reads_written(self, e: Expr) -> bool:
        known = self._unsafe.get(e)
        if known is None:
            known = any(x.kind == "load" and x.of[0] in self._written for x in loops.within(e))
            self._unsafe[e] = known
        return known

    @contextmanager
    def fresh(self) -> Generator[None]:
        """Within it, values that are computed are forgotten at the end."""
        self._memo.append({})
        yield
        self._memo.pop()


def size_of(b: Any, n: Extent, symbols: dict[str, Value]) -> Value:
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


def _align(dtype: Any) -> int:
    return dtype.itemsize


def _iota(width: int, kind: Any) -> Value:
    return ir.Constant(ir.VectorType(kind, width), [ir.Constant(kind, i) for i in range(width)])


def identity(fold: str, dtype: Any) -> Any:
    """The number that changes nothing when it is folded in."""
    if fold in ("maximum", "minimum"):
        if dtype.kind == "f":
            return float("-inf") if fold == "maximum" else float("inf")
        if dtype.kind == "b":
            return fold == "minimum"
        info = np.iinfo(dtype)
        return int(info.min if fold == "maximum" else info.max)
    return {"add": 0, "mul": 1, "logical_or": False, "logical_and": True}[fold]
