"""What nobody reads is not computed: stores to such memory go, and loops without a statement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from chainrule.compile.loops import statements as loops
from chainrule.compile.loops.accesses import writes_of
from chainrule.compile.loops.expressions import Buffer, Local, Var


def remove_dead_stores(program: loops.Loops) -> loops.Loops:
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
                changed, k.body = True, _remove_unused(body)
                used[id(k)] = k.buffers()
        program.kernels = [k for k in program.kernels if k.body]
        program.buffers = [b for b in program.buffers if b not in dead]
        if not changed:
            return program


def _kept_alive(program: loops.Loops, dead: set[Buffer]) -> set[Buffer]:
    """What calls of routines write; outputs of eager ops that are dead, but not all of them: the op
    writes them all."""
    inner = [s for k in program.kernels for s in loops.statements(k.body)]
    called = {
        x.buffer for s in inner if isinstance(s, loops.Routine) for x in s.spans("out", "inout")
    }
    outputs = [[x.buffer for x in s.outputs] for s in inner if isinstance(s, loops.Host)]
    return called | {b for bs in outputs if not all(b in dead for b in bs) for b in bs}


def _remove_unused(body: tuple[loops.Stmt, ...]) -> tuple[loops.Stmt, ...]:
    """Without numbers in registers that nothing asks for."""
    while True:
        wanted = {v for s in loops.statements(body) for v in _registers_read(s)}
        rest = _filter(body, partial(_is_wanted, wanted))
        if rest == body:
            return body
        body = rest


def _is_wanted(wanted: set[Var | Local], s: loops.Stmt) -> bool:
    return not isinstance(s, loops.Let | loops.Into) or s.local in wanted


def _registers_read(s: loops.Stmt) -> frozenset[Var | Local]:
    """The numbers in registers that a statement asks for; to add to one is not to ask for it."""
    own = {s.local} if isinstance(s, loops.Into) else set[Local]()
    return frozenset[Var | Local]().union(*[e.free for e in loops.exprs_of(s)]) - own


def _without(body: tuple[loops.Stmt, ...], dead: set[Buffer]) -> tuple[loops.Stmt, ...]:
    """Without what only writes to dead memory."""
    return _filter(body, lambda s: not _is_dead(s, dead))


def _is_dead(s: loops.Stmt, dead: set[Buffer]) -> bool:
    if isinstance(s, loops.Store | loops.Gemm | loops.Host):
        return all(b in dead for b in writes_of(s))
    return False


def _filter(
    body: tuple[loops.Stmt, ...], keep: Callable[[loops.Stmt], bool]
) -> tuple[loops.Stmt, ...]:
    """The statements that are to be kept, also within others, which go if they are empty then."""
    out: list[loops.Stmt] = []
    for s in body:
        if not keep(s):
            continue
        if isinstance(s, loops.While):
            inner = [(k, _remove_unused(_filter(k.body, keep))) for k in s.kernels]
            if any(b != k.body for k, b in inner):
                s = loops.While(
                    s.going, tuple([loops.Kernel(k.name, b, k.about) for k, b in inner if b])
                )
        if isinstance(s, loops.For | loops.Product):
            rest = _filter(s.body, keep)
            if not rest:
                continue
            s = s if rest == s.body else replace(s, body=rest)
        out.append(s)
    return tuple(out)
