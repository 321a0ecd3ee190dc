"""Makes a module of an object file: memory and stack of its own, addresses filled in, exports.

0 .. stack          the stack, which grows down: beyond its end there is no memory
stack .. data       what the caller of `link` has given addresses to
data ..             the object's constants
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from chainrule.compile.wasm.object_file import (
    CODE,
    DATA,
    FUNCTION,
    MAGIC,
    TYPE,
    ObjectFile,
    Reader,
    Relocation,
    block,
    leb128,
    leb128_padded,
    string,
    vector,
    word,
)

PAGE: Final = 1 << 16
"""Bytes in which memory is counted."""
GAP: Final = 16
"""Bytes between two pieces of memory that are not worth being apart."""
_MEMORY, _GLOBAL, _EXPORT, _DATA_COUNT = 5, 6, 7, 12
_FUNCTION_INDEX, _TYPE_INDEX, _GLOBAL_INDEX = 0, 6, 7
_MEMORY_LEB, _MEMORY_SLEB, _MEMORY_WORD = 3, 4, 5
_I32, _END = 0x7F, 0x0B


@final
@dataclass(frozen=True, slots=True)
class Start:
    """Bytes that lie at an address when `init` has run."""

    address: int
    data: bytes


def merge_adjacent(starts: Sequence[Start]) -> list[Start]:
    """The same memory in fewer pieces: what lies side by side is one. Room that the largest sizes
    leave is not a part of any, so that it is not in the file."""
    out: list[Start] = []
    for x in starts:
        gap = x.address - out[-1].address - len(out[-1].data) if out else GAP
        if 0 <= gap < GAP:
            last = out.pop()
            x = Start(last.address, last.data + bytes(gap) + x.data)
        out.append(x)
    return out


def link(
    o: ObjectFile,
    exports: Mapping[str, str],
    *,
    stack: int,
    data: int,
    starts: Sequence[Start],
    sections: Mapping[str, bytes],
) -> bytes:
    """The module. It exports `memory`, `init`, which fills memory as `starts` say, and functions:
    by their names in the object, those that they get. `sections` are put beside its code."""
    assert not o.missing, f"nobody defines {o.missing}"
    addresses, end = _assign_addresses(o, data)
    known = {s.name: s.where for s in o.symbols if s.is_function}
    types, functions = Reader(o.sections[TYPE]), Reader(o.sections[FUNCTION])
    type_count, count = types.number(), functions.number()
    named = {"init": count, **{new: known[old] for old, new in exports.items()}}
    listed = [string(n) + b"\0" + leb128(i or 0) for n, i in named.items()]
    code = Reader(_relocate(o, CODE, addresses))
    assert code.number() == count
    globals_ = vector([bytes([_I32, 1, 0x41]) + word(stack) + bytes([_END])])
    parts = [
        (TYPE, leb128(type_count + 1) + types.take(1 << 30) + bytes([0x60, 0, 0])),
        (FUNCTION, leb128(count + 1) + functions.take(1 << 30) + leb128(type_count)),
        (_MEMORY, vector([b"\0" + leb128(-(-end // PAGE))])),
        (_GLOBAL, globals_),
        (_EXPORT, vector([*listed, string("memory") + b"\2\0"])),
        (_DATA_COUNT, leb128(len(starts) + len(o.segments))),
        (CODE, leb128(count + 1) + code.take(1 << 30) + block(_init(starts))),
        (DATA, _data(o, addresses, starts)),
    ]
    custom = [b"\0" + block(string(name) + body) for name, body in sections.items()]
    return MAGIC + b"".join([bytes([n]) + block(body) for n, body in parts] + custom)


def _assign_addresses(o: ObjectFile, data: int) -> tuple[list[int], int]:
    """The address of each segment, and where the last one ends."""
    out: list[int] = []
    for s in o.segments:
        data = -(-data >> s.align) << s.align
        out.append(data)
        data += len(s.data)
    return out, data


def _init(starts: Sequence[Start]) -> bytes:
    """The body of a function that copies each of the first segments to its place."""
    copies = [
        b"".join([b"\x41" + word(n) for n in (x.address, 0, len(x.data))])
        + b"\xfc\x08" + leb128(segment) + b"\0"
        for segment, x in enumerate(starts)
    ]  # fmt: skip
    return b"\0" + b"".join(copies) + bytes([_END])


def _data(o: ObjectFile, addresses: list[int], starts: Sequence[Start]) -> bytes:
    """The first segments wait for `init`; the others are there when the module is made."""
    filled = _relocate(o, DATA, addresses)
    segments = [b"\1" + block(x.data) for x in starts]
    for s, address in zip(o.segments, addresses, strict=True):
        content = filled[s.start : s.start + len(s.data)]
        segments.append(b"\0\x41" + word(address) + bytes([_END]) + block(content))
    return vector(segments)


def _relocate(o: ObjectFile, section: int, addresses: list[int]) -> bytes:
    """A section whose relocations have been applied."""
    out = bytearray(o.sections.get(section, b""))
    for r in o.relocations.get(section, ()):
        value = _value(o, r, addresses)
        if r.kind == _MEMORY_WORD:
            new = value.to_bytes(4, "little")
        else:
            new = leb128_padded(value, sign=r.kind == _MEMORY_SLEB)
        out[r.at : r.at + len(new)] = new
    return bytes(out)


def _value(o: ObjectFile, r: Relocation, addresses: list[int]) -> int:
    """The number that belongs there. Numbers of functions, types and globals stay what they are:
    the module imports no functions, and of globals the object has the stack pointer alone."""
    if r.kind == _TYPE_INDEX:
        return r.symbol
    symbol = o.symbols[r.symbol]
    assert symbol.where is not None, symbol.name
    if r.kind in (_FUNCTION_INDEX, _GLOBAL_INDEX):
        return symbol.where
    assert r.kind in (_MEMORY_LEB, _MEMORY_SLEB, _MEMORY_WORD), f"a relocation of kind {r.kind}"
    return addresses[symbol.where] + symbol.offset + r.addend
