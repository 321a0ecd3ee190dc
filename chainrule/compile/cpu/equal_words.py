"""A function that tells whether two rows of words are equal: `equal(a, b, count)`, an int64.

It compares vectors without a branch in between: rows are mostly equal, and then all is looked at.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.function_writer import PTR, FunctionWriter, int64
from chainrule.compile.llvm.numbers import I64

NAME = "equal"
_LANES = 8
_VECTOR = ir.VectorType(I64, _LANES)


def equal_words(module: Any) -> Any:
    """The function of a module, added to it by the first call."""
    if NAME in module.globals:
        return module.globals[NAME]
    s = FunctionWriter(module, NAME, [PTR, PTR, I64])
    s.f.linkage = "internal"
    (one, other, count), b = s.args, s.b
    vectors, bits = b.alloca(_VECTOR), b.alloca(I64)
    b.store(ir.Constant(_VECTOR, [0] * _LANES), vectors)
    b.store(int64(0), bits)

    def note(i: Any, kind: Any, found: Any) -> None:
        x, y = [b.load(s.element(a, i), typ=kind, align=I64.width // 8) for a in (one, other)]
        b.store(b.or_(b.load(found, typ=kind), b.xor(x, y)), found)

    whole = b.udiv(count, int64(_LANES))
    with s.count_up(whole) as k:
        note(b.mul(k, int64(_LANES)), _VECTOR, vectors)
    start = b.mul(whole, int64(_LANES))
    with s.count_up(b.sub(count, start)) as k:
        note(b.add(start, k), I64, bits)
    reduced = s.call(f"llvm.vector.reduce.or.v{_LANES}i64", I64, b.load(vectors, typ=_VECTOR))
    s.return_(b.zext(s.equal(b.or_(reduced, b.load(bits, typ=I64)), 0), I64))
    return s.f
