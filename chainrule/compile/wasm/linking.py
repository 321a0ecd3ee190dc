"""Makes a module of an object file: memory and stack of its own, addresses filled in, exports.

0 .. stack          the stack, which grows down: beyond its end there is no memory
stack .. data       what the caller of `linked` has given addresses to
data ..             the object's constants
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from chainrule.compile.wasm.leb128 import block, padded, signed, string, unsigned, vector
from chainrule.compile.wasm.object_file import (
    CODE,
    DATA,
    FUNCTION,
    MAGIC,
    TYPE,
    ObjectFile,
    Reader,
    Relocation,
)

PAGE: Final = 1 << 16
"""Bytes in which memory is counted."""
_MEMORY, _GLOBAL, _EXPORT, _DATA_COUNT = 5, 6, 7, 12
_FUNCTION_INDEX, _TYPE_INDEX, _GLOBAL_INDEX = 0, 6, 7
_MEMORY_LEB, _MEMORY_SLEB, _MEMORY_WORD = 3, 4, 5
_I32, _END = 0x7F, 0x0B


@final
@dataclass(frozen=True, slots=True)
class Start:
    """What memory holds when `init` has run: these bytes at this address."""

    address: int
    data: bytes


def linked(
    o: ObjectFile,
    exports: Mapping[str, str],
    *,
    stack: int,
    data: int,
    start: Start,
    sections: Mapping[str, bytes],
) -> bytes:
    """The module. It exports `memory`, `init`, which fills memory as `start` says, and functions:
    by their names in the object, those that they get. `sections` are put beside its code."""
    assert not o.missing, f"nobody defines {o.missing}"
    addresses, end = _placed(o, data)
    known = {s.name: s.where for s in o.symbols if s.is_function}
    types, functions = Reader(o.sections[TYPE]), Reader(o.sections[FUNCTION])
    type_count, count = types.number(), functions.number()
    named = {"init": count, **{new: known[old] for old, new in exports.items()}}
    listed = [string(n) + b"\0" + unsigned(i or 0) for n, i in named.items()]
    code = Reader(_filled(o, CODE, addresses))
    assert code.number() == count
    globals_ = vector([bytes([_I32, 1, 0x41]) + signed(stack) + bytes([_END])])
    parts = [
        (TYPE, unsigned(type_count + 1) + types.take(1 << 30) + bytes([0x60, 0, 0])),
        (FUNCTION, unsigned(count + 1) + functions.take(1 << 30) + unsigned(type_count)),
        (_MEMORY, vector([b"\0" + unsigned(-(-end // PAGE))])),
        (_GLOBAL, globals_),
        (_EXPORT, vector([*listed, string("memory") + b"\2\0"])),
        (_DATA_COUNT, unsigned(len(o.segments) + 1)),
        (CODE, unsigned(count + 1) + code.take(1 << 30) + block(_init(start))),
        (DATA, _data(o, addresses, start)),
    ]
    custom = [b"\0" + block(string(name) + body) for name, body in sections.items()]
    return MAGIC + b"".join([bytes([n]) + block(body) for n, body in parts] + custom)


def _placed(o: ObjectFile, data: int) -> tuple[list[int], int]:
    """The address of each segment, and where the last one ends."""
    out: list[int] = []
    for s in o.segments:
        data = -(-data >> s.align) << s.align
        out.append(data)
        data += len(s.data)
    return out, data


def _init(start: Start) -> bytes:
    """The body of a function that copies segment 0 to its place."""
    copied = b"".join(b"\x41" + signed(n) for n in (start.address, 0, len(start.data)))
    return b"\0" + copied + b"\xfc\x08\x00\x00" + bytes([_END])


def _data(o: ObjectFile, addresses: list[int], start: Start) -> bytes:
    """Segment 0 waits for `init`; the others are there when the module is made."""
    filled = _filled(o, DATA, addresses)
    segments = [b"\1" + block(start.data)]
    for s, address in zip(o.segments, addresses, strict=True):
        content = filled[s.start : s.start + len(s.data)]
        segments.append(b"\0\x41" + signed(address) + bytes([_END]) + block(content))
    return vector(segments)


def _filled(o: ObjectFile, section: int, addresses: list[int]) -> bytes:
    """A section whose relocations have been applied."""
    out = bytearray(o.sections.get(section, b""))
    for r in o.relocations.get(section, ()):
        value = _value(o, r, addresses)
        new = value.to_bytes(4, "little") if r.kind == _MEMORY_WORD else padded(value)
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
