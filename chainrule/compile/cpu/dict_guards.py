"""A function of machine code that looks at the dictionaries a program depends on.

    i64 guarded(ptr words)

`words` (see `guards.py`) begin with the number of dictionaries, and where in one its version lies
(0: it has none). Then come, for each dictionary, its address, its version, whether its keys must be
the same, and the number of its entries. An entry is two addresses, of key and value (0: none).

A version that is as it was says that nothing has changed. Otherwise each entry is looked up, and if
all are there the new version is put into `words`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.symbols import LOOKUP
from chainrule.compile.llvm.functions import I64, declare

OF_DICTS = "guarded"
_PTR, _I8 = ir.PointerType(), ir.IntType(8)
_HEAD, _ENTRY = 4, 2


def _word(n: int) -> Any:
    return ir.Constant(I64, n)


def add_dict_guard(module: Any) -> Any:
    """Add the function to a module."""
    f = ir.Function(module, ir.FunctionType(I64, [_PTR]), OF_DICTS)
    (words,) = f.args
    names = ("begin", "next", "look", "version", "whole", "entry", "item", "equal", "new", "yes")
    blocks = {name: f.append_basic_block(name) for name in (*names, "no")}
    b = ir.IRBuilder(blocks["begin"])

    def at(i: Any) -> Any:
        return b.gep(words, [i], source_etype=I64)

    def load(i: Any) -> Any:
        return b.load(at(i), typ=I64)

    count, version_at = load(_word(0)), load(_word(1))
    b.branch(blocks["next"])

    b.position_at_end(blocks["next"])
    left, start = b.phi(I64, "left"), b.phi(I64, "start")
    left.add_incoming(count, blocks["begin"])
    start.add_incoming(_word(2), blocks["begin"])
    b.cbranch(b.icmp_signed("==", left, _word(0)), blocks["yes"], blocks["look"])

    b.position_at_end(blocks["look"])
    address, seen = load(start), load(b.add(start, _word(1)))
    entries = load(b.add(start, _word(3)))
    holder = b.inttoptr(address, _PTR)
    first = b.add(start, _word(_HEAD))
    end = b.add(first, b.mul(entries, _word(_ENTRY)))
    has = b.icmp_signed("!=", version_at, _word(0))
    b.cbranch(has, blocks["version"], blocks["whole"])

    b.position_at_end(blocks["version"])
    now = b.load(b.gep(holder, [version_at], source_etype=_I8), typ=I64)
    same = b.icmp_signed("==", now, seen)
    b.cbranch(same, blocks["equal"], blocks["whole"])

    b.position_at_end(blocks["whole"])
    current = b.phi(I64)
    current.add_incoming(seen, blocks["look"])
    current.add_incoming(now, blocks["version"])
    whole = load(b.add(start, _word(2)))
    b.cbranch(b.icmp_signed("!=", whole, _word(0)), blocks["no"], blocks["entry"])

    b.position_at_end(blocks["entry"])
    i = b.phi(I64, "i")
    i.add_incoming(first, blocks["whole"])
    b.cbranch(b.icmp_signed("<", i, end), blocks["item"], blocks["new"])

    b.position_at_end(blocks["item"])
    key, wanted = b.inttoptr(load(i), _PTR), load(b.add(i, _word(1)))
    found = b.ptrtoint(b.call(declare(b, LOOKUP, _PTR, [_PTR, _PTR]), [holder, key]), I64)
    i.add_incoming(b.add(i, _word(_ENTRY)), blocks["item"])
    b.cbranch(b.icmp_signed("==", found, wanted), blocks["entry"], blocks["no"])

    b.position_at_end(blocks["new"])
    b.store(current, at(b.add(start, _word(1))))
    b.branch(blocks["equal"])

    b.position_at_end(blocks["equal"])
    left.add_incoming(b.sub(left, _word(1)), blocks["equal"])
    start.add_incoming(end, blocks["equal"])
    b.branch(blocks["next"])

    b.position_at_end(blocks["yes"])
    b.ret(_word(1))
    b.position_at_end(blocks["no"])
    b.ret(_word(0))
    return f
