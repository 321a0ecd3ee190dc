"""The text of loops, in the grammar that `language` states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chainrule.compile.loops import statements as loops


def program(p: loops.Loops) -> str:
    """A whole program: its buffers, its kernels."""
    about = [
        f"{b.name}: {b.dtype}[{', '.join(map(str, b.shape))}] {b.role}"
        + (f"  # {b.label}" if b.label else "")
        for b in p.buffers
    ]
    return "\n".join([*about, "", *[f"{k}\n" for k in p.kernels]])


def kernel(k: loops.Kernel) -> str:
    """A kernel: what it reads and writes, what it computes, its statements."""
    reads, writes = k.buffers()
    ins = ", ".join([b.name for b in reads if b not in writes])
    head = f"{k.name}({ins}) -> ({', '.join([b.name for b in writes])})"
    about = "".join([f"  # {line}\n" for line in k.about])
    return f"{head}:\n{about}" + "\n".join(_lines(k.body, 1))


_SIGNS = {
    "add": "+",
    "mul": "*",
    "maximum": "max",
    "minimum": "min",
    "logical_or": "|",
    "logical_and": "&",
}


def _lines(body: Sequence[loops.Stmt], depth: int) -> Iterator[str]:
    """The statements of `body`, indented `depth` times."""
    pad = "  " * depth
    for s in body:
        match s:
            case loops.For():
                mode = "" if s.mode == "serial" else f" {s.mode}"
                end = "" if s.upto is None else f" upto {s.upto}"
                yield f"{pad}for {s.var} < {s.var.extent}{end}{mode}:"
                yield from _lines(s.body, depth + 1)
            case loops.Let():
                yield f"{pad}{s.local}: {s.local.dtype} = {s.value}"
            case loops.Into():
                yield f"{pad}{s.local} {_SIGNS[s.fold]}= {s.value}"
            case loops.Store():
                yield f"{pad}{s.buffer}[{s.at}] {'+=' if s.add else '='} {s.value}"
            case loops.Product():
                ks = ", ".join([f"{k} < {k.extent}" for k in s.k])
                soon = "" if s.prefetch is None else f", ahead {_ahead(s.prefetch)}"
                yield f"{pad}product {s.i} < {s.i.extent}, {s.j} < {s.j.extent}, {ks}{soon}:"
                yield f"{pad}  {s.acc}: {s.acc.dtype} += {s.left} * {s.right}"
                yield from _lines(s.body, depth + 1)
            case loops.While():
                yield f"{pad}while {s.going}[0]:"
                for k in s.kernels:
                    yield from [f"{pad}  {line}" for line in str(k).splitlines()]
            case _:
                yield f"{pad}{_library_call(s)}"


def _library_call(s: loops.Gemm | loops.Routine | loops.Host) -> str:
    """A statement that is computed by BLAS, by LAPACK or by the eager engine."""
    match s:
        case loops.Gemm():
            end = "" if s.upto is None else f", {s.upto[0]} upto {s.upto[1]}"
            return (
                f"{_matrix(s.out)} {'+=' if s.add else '='} {_matrix(s.left)} @ "
                f"{_matrix(s.right)}   # ({s.m}, {s.k}) @ ({s.k}, {s.n}){end}, BLAS"
            )
        case loops.Routine():
            words = [_span(x) if isinstance(x, loops.Span) else str(x) for x in s.args]
            return f"{s.name}({', '.join(words)})   # {s.dtype}, LAPACK"
        case loops.Host():
            ins = ", ".join([x.buffer.name for x in s.inputs])
            outs = ", ".join([x.buffer.name for x in s.outputs])
            when = "" if s.when is None else f" if {s.when}[0]"
            return f"{outs} = eager {s.op}({ins}){when}"


def _ahead(x: loops.Prefetch) -> str:
    return f"{x.buffer}[{x.at}; {x.row}, 1] ({x.rows}, {x.length})"


def _span(x: loops.Span) -> str:
    return f"{x.use} {x.buffer}[{x.at}; {x.size}]"


def _matrix(m: loops.Matrix) -> str:
    return f"{m.buffer}[{m.at}; {m.row}, {m.col}]"
