"""What nobody reads is not computed: stores to such memory go, and loops without a statement."""

from __future__ import annotations

from dataclasses import replace

from chainrule.compile.loops.expressions import Buffer, Local, Var
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Host,
    Into,
    Kernel,
    Let,
    Loops,
    Product,
    Routine,
    Stmt,
    Store,
    While,
    exprs_of,
    statements,
)


def pruned(program: Loops) -> Loops:
    """Without stores to scratch memory that nobody reads, and without that memory."""
    used = {id(k): k.buffers() for k in program.kernels}  # looked at again where it changes
    while True:
        read = {b for k in program.kernels for b in used[id(k)][0]}
        dead = {b for b in program.buffers if b.role == "scratch" and b not in read}
        dead -= _kept_alive(program, dead)
        changed = False
        for k in program.kernels:
            if dead.isdisjoint(used[id(k)][1]):
                continue
            body = _without(k.body, dead)
            if body != k.body:
                changed, k.body = True, _used(body)
                used[id(k)] = k.buffers()
        program.kernels = [k for k in program.kernels if k.body]
        program.buffers = [b for b in program.buffers if b not in dead]
        if not changed:
            return program


def _kept_alive(program: Loops, dead: set[Buffer]) -> set[Buffer]:
    """What calls of routines write; outputs of eager ops that are dead, but not all of them: the op
    writes them all."""
    inner = [s for k in program.kernels for s in statements(k.body)]
    called = {x.buffer for s in inner if isinstance(s, Routine) for x in s.spans("out", "inout")}
    outputs = [[x.buffer for x in s.outputs] for s in inner if isinstance(s, Host)]
    return called | {b for bs in outputs if not all(b in dead for b in bs) for b in bs}


def _used(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Without numbers in registers that nothing asks for."""
    while True:
        wanted = {v for s in statements(body) for v in _asked(s)}
        rest = _kept(body, wanted)
        if rest == body:
            return body
        body = rest


def _asked(s: Stmt) -> frozenset[Var | Local]:
    """The numbers in registers that a statement asks for; to add to one is not to ask for it."""
    own = {s.local} if isinstance(s, Into) else set[Local]()
    return frozenset[Var | Local]().union(*[e.free for e in exprs_of(s)]) - own


def _kept(body: tuple[Stmt, ...], wanted: set[Var | Local]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Let | Into) and s.local not in wanted:
            continue
        if isinstance(s, For):
            inner = _kept(s.body, wanted)
            if not inner:
                continue
            s = s if inner == s.body else replace(s, body=inner)
        out.append(s)
    return tuple(out)


def _without(body: tuple[Stmt, ...], dead: set[Buffer]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Store) and s.buffer in dead:
            continue
        if isinstance(s, Gemm) and s.out.buffer in dead:
            continue
        if isinstance(s, Host) and all(x.buffer in dead for x in s.outputs):
            continue
        if isinstance(s, While):
            bodies = [_without(k.body, dead) for k in s.kernels]
            if any(b != k.body for b, k in zip(bodies, s.kernels, strict=True)):
                kept = [(k, _used(b)) for k, b in zip(s.kernels, bodies, strict=True) if b]
                s = While(s.going, tuple([Kernel(k.name, b, k.about) for k, b in kept if b]))
        if isinstance(s, For | Product):
            inner = _without(s.body, dead)
            if not inner:
                continue
            if inner != s.body:
                s = replace(s, body=inner)
        out.append(s)
    return tuple(out)
