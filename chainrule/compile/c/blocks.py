"""What a block of statements should keep in variables, and what its statements read and write.

A variable is for an expression that is needed again while what it reads stays as it is. Or it is
for one that a loop would compute in every iteration for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, final

from chainrule.compile.c import functions as fn
from chainrule.compile.c import special
from chainrule.compile.c.expressions import wrapped_index
from chainrule.compile.loops import statements as loops
from chainrule.compile.loops.expressions import (
    Affine,
    Buffer,
    Expr,
    Exprs,
    Local,
    Var,
    operands_of,
    within,
)
from chainrule.compile.loops.statements import For, Gemm, Into, Let, Product, Store

WIDE = 1 << 14
"""From how many columns on a product's row of sums is not kept on the stack."""
_LIGHT = {"neg", "cast", "positive", "conj", "logical_not", "square"}
_HEAVY = {*fn.LIBRARY, *special.TEXTS, "div", "reciprocal", "sigmoid", "silu", "gelu_tanh",
          "gelu_gate", "gelu_erf", "gelu_erf_slope", "gelu_tanh_slope", "gelu_gate_slope",
          "gelu_gate_density", "gelu_gate_tanh", "silu_slope", "exp_product", "sigmoid_diff",
          "logistic_density",
          "sech_square", "sech", "ndtr", "entr_slope", "softplus", "exp_diff",
          "logaddexp", "floor_divide", "remainder"} - {"abs"}  # fmt: skip

Cell = Buffer | Local
Stamp = tuple[Expr, tuple[int, ...]]
"""An expression, and how often each thing that it reads had been written to."""


@final
@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """Memory within a function: the sums of a product's row, all 0."""

    buffer: Buffer


Stmt = loops.Stmt | Row


def every(body: Iterable[Any]) -> Iterator[Any]:
    """All statements, those within others, too: rows of sums are among them."""
    return loops.statements(cast(Sequence[Any], body))


# --- products in loops ---------------------------------------------------------------------------


def write_out_products(body: Iterable[Any]) -> list[Any]:
    """Statements with loops for products."""
    out: list[Any] = []
    for s in body:
        match s:
            case Product():
                out += _product(s)
            case For():
                out.append(replace(s, body=tuple(write_out_products(s.body))))
            case _:
                out.append(s)
    return out


def _product(s: Product) -> list[Any]:
    """Row by row, so that the innermost loop runs along memory; where a row is one number, or too
    long, number by number."""
    e, n = Exprs(), s.j.extent
    dtype = s.acc.dtype
    if n == 1 or (isinstance(n, int) and n > WIDE):
        term = e.fn("mul", s.left, s.right, dtype=dtype)
        inner = _nest(s.k, [Into(s.acc, "add", term)])
        return _nest((s.i, s.j), [Let(s.acc, e.lit(0, dtype)), *inner, *s.body])
    row = Buffer("row", dtype, (n,), "scratch")
    at = Affine.of(s.j)
    left, first = s.left, list[Any]()
    if left.kind != "load":
        local = Local("left", dtype)
        first, left = [Let(local, left)], e.local(local)
    add = Store(row, at, e.fn("mul", left, s.right, dtype=dtype), add=True)
    sums = _nest(s.k, [*first, For(s.j, (add,))])
    rest = For(s.j, (Let(s.acc, e.load(row, at)), *s.body))
    return _nest((s.i,), [Row(row), *sums, rest])


def _nest(axes: Sequence[Var], body: list[Any]) -> list[Any]:
    for v in reversed(axes):
        if v.extent != 1:
            body = [For(v, tuple(body))]
    return body


# --- what statements read and write --------------------------------------------------------------


def writes(body: Iterable[Any]) -> set[Cell]:
    """What statements write to; a variable that is set only once is not written to."""
    out: set[Cell] = set()
    for s in every(body):
        match s:
            case Store() | Row():
                out.add(s.buffer)
            case Into():
                out.add(s.local)
            case Gemm():
                out.add(s.out.buffer)
            case _:
                pass
    return out


def made_in(s: For) -> set[Var | Local]:
    """Counters and variables that exist only within a loop."""
    inner = {x.local for x in every(s.body) if isinstance(x, Let)}
    return {s.var, *inner, *[x.var for x in every(s.body) if isinstance(x, For)]}


def reads(e: Expr) -> tuple[Cell, ...]:
    """The buffers and variables in an expression."""
    found: dict[Cell, None] = {}
    for x in within(e):
        if x.kind == "load":
            found[x.of[0]] = None
        elif x.kind == "local":
            found[x.of] = None
    return tuple(found)


def children(e: Expr) -> list[Expr]:
    """The expressions that the text of `e` shows, as often as it shows them."""
    wrapped = wrapped_index(e)
    if wrapped is not None:
        return [wrapped[0]]
    return [*operands_of(e)] * (2 if e.kind == "fn" and e.of[0] == "square" else 1)


# --- what is kept --------------------------------------------------------------------------------


def shown_once(body: Sequence[Any], n: int, folded: Mapping[Local, str]) -> bool:
    """Whether the variable that statement `n` sets can be replaced by its value. It can if it is
    another variable's name. It also can if one statement of the same block needs it, before
    anything that it reads is written to."""
    let = body[n]
    rest = body[n + 1 :]
    if let.local in folded:
        return False
    if let.value.kind == "local":
        return let.value.of not in writes(rest)
    users = [m for m, s in enumerate(rest) if _count_uses([s], let.local)]
    if len(users) != 1 or isinstance(rest[users[0]], For) or _count_uses(rest, let.local) > 1:
        return False
    return not {*reads(let.value)} & writes(rest[: users[0]])


def _count_uses(body: Sequence[Any], local: Local) -> int:
    """How often expressions show `local`."""
    roots = [e for s in every(body) for e in loops.exprs_of(s)]
    seen: set[Expr] = set()
    count, stack = 0, [e for e in roots if local in e.free]
    while stack:
        e = stack.pop()
        if e.kind == "local" and e.of is local:
            count += 1
        elif e not in seen:
            seen.add(e)
            stack += [x for x in children(e) if local in x.free]
    return count


def variables_needed(
    body: Sequence[Any],
    stamp: Callable[[Expr, Mapping[Cell, int]], Stamp],
    live: Callable[[Stamp], bool],
    shown: Mapping[Local, Expr],
) -> dict[int, list[Expr]]:
    """By number of a statement: what should be in variables from there on, in order."""
    count: dict[Stamp, int] = {}
    first: dict[Stamp, int] = {}
    forced: set[Stamp] = set()
    later: dict[Cell, int] = {}

    def visit(e: Expr, n: int) -> None:
        if e.kind == "local" and e.of in shown:
            visit(shown[e.of], n)
            return
        key = stamp(e, later)
        if live(key):
            return
        count[key] = count.get(key, 0) + 1
        if count[key] == 1:
            for x in children(e):
                visit(x, n)
            first[key] = n  # after those in it

    for n, s in enumerate(body):
        if isinstance(s, For):
            for e in _for_nothing(s):
                visit(e, n)
                forced.add(stamp(e, later))
        elif not (isinstance(s, Let) and s.local in shown):
            for e in loops.exprs_of(s):
                visit(e, n)
        for cell in writes([s]):
            later[cell] = later.get(cell, 0) + 1
    out: dict[int, list[Expr]] = {}
    for key, n in first.items():
        if key in forced or (count[key] > 1 and _is_worth_it(key[0])):
            out.setdefault(n, []).append(key[0])
    return out


def _is_worth_it(e: Expr) -> bool:
    if e.kind != "fn" or all(x.kind == "lit" for x in e.of[1:]):
        return False
    return _is_worth_it(e.of[1]) if e.of[0] in _LIGHT else True


def _for_nothing(s: For) -> list[Expr]:
    """The largest expressions in a loop that are the same in each of its iterations, and cost
    something."""
    inner, written = made_in(s), writes(s.body)
    out: dict[Expr, None] = {}
    seen: set[Expr] = set()
    stack = [e for x in every(s.body) for e in loops.exprs_of(x)]
    stack.reverse()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        fixed = not (e.free & inner) and not (written & {*reads(e)})
        if fixed and e.kind == "fn" and _costs(e):
            out[e] = None
        else:
            stack += reversed(children(e))
    return list(out)


def _costs(e: Expr) -> bool:
    return any(x.kind == "fn" and (x.of[0] in _HEAVY or wrapped_index(x)) for x in within(e))
