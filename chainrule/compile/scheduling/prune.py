"""What nobody reads is not computed: stores to such memory go, and loops without a statement."""

from __future__ import annotations

from dataclasses import replace

from chainrule.compile.loops.language import (
    Buffer,
    For,
    Gemm,
    Host,
    Kernel,
    Loops,
    Product,
    Stmt,
    Store,
    While,
)


def pruned(program: Loops) -> Loops:
    """Without stores to scratch memory that nobody reads, and without that memory."""
    while True:
        read = {b for k in program.kernels for b in k.buffers()[0]}
        dead = {b for b in program.buffers if b.role == "scratch" and b not in read}
        dead -= _kept_alive(program, dead)
        changed = False
        for k in program.kernels:
            body = _without(k.body, dead)
            changed = changed or len(body) != len(k.body) or body != k.body
            k.body = body
        program.kernels = [k for k in program.kernels if k.body]
        program.buffers = [b for b in program.buffers if b not in dead]
        if not changed:
            return program


def _kept_alive(program: Loops, dead: set[Buffer]) -> set[Buffer]:
    """Outputs of eager ops that are dead, but not all of them: the op writes them all."""
    hosts = [s for k in program.kernels for s in k.body if isinstance(s, Host)]
    outputs = [[x.buffer for x in s.outputs] for s in hosts]
    return {b for bs in outputs if not all(b in dead for b in bs) for b in bs}


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
                kept = [
                    Kernel(k.name, b, k.about) for k, b in zip(s.kernels, bodies, strict=True) if b
                ]
                s = While(s.going, tuple(kept))
        if isinstance(s, For | Product):
            inner = _without(s.body, dead)
            if not inner:
                continue
            if inner != s.body:
                s = (
                    replace(s, body=inner)
                    if isinstance(s, For)
                    else Product(s.i, s.j, s.k, s.left, s.right, s.acc, inner)
                )
        out.append(s)
    return tuple(out)
