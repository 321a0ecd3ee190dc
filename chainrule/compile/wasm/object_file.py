"""Reads the object file that LLVM makes for WebAssembly: sections, symbols, relocations.

WebAssembly Core Specification 2.0, chapter 5 (the binary format); WebAssembly Object File Linking,
version 2 of the tool conventions (symbols and relocations).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, final

TYPE, IMPORT, FUNCTION, CODE, DATA = 1, 2, 3, 10, 11
"""Numbers of sections."""
MAGIC: Final = b"\0asm\1\0\0\0"

_SYMBOL_FUNCTION, _SYMBOL_DATA, _SYMBOL_SECTION = 0, 1, 3
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40
_SYMBOL_TABLE, _SEGMENT_INFO = 8, 5
WITH_ADDEND: Final = frozenset([3, 4, 5, 8, 9])
"""Kinds of relocations after which a number stands that is added."""


@final
class Reader:
    """Bytes, read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def __bool__(self) -> bool:
        return self.at < len(self.data)

    def take(self, count: int) -> bytes:
        """So many bytes."""
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        """One byte."""
        return self.take(1)[0]

    def number(self) -> int:
        """An unsigned number."""
        n = shift = 0
        while True:
            b = self.byte()
            n |= (b & 0x7F) << shift
            shift += 7
            if b < 0x80:
                return n

    def signed(self) -> int:
        """A number with a sign."""
        start = self.at
        n = self.number()
        bits = 7 * (self.at - start)
        return n - (1 << bits) if n >> (bits - 1) & 1 else n

    def block(self) -> bytes:
        """Bytes behind their number."""
        return self.take(self.number())

    def name(self) -> str:
        """A string behind its length."""
        return self.block().decode()


@final
@dataclass(frozen=True, slots=True)
class Symbol:
    """A function, by its number, or memory in a segment; `where` is None if it is not here."""

    kind: int
    name: str
    where: int | None
    offset: int = 0

    @property
    def is_function(self) -> bool:
        """Whether it is one."""
        return self.kind == _SYMBOL_FUNCTION


@final
@dataclass(frozen=True, slots=True)
class Relocation:
    """A number in a section, at `at`, that depends on where a symbol comes to lie."""

    kind: int
    at: int
    symbol: int
    addend: int


@final
@dataclass(frozen=True, slots=True)
class Segment:
    """Memory with content: where it begins in the section, its bytes, log2 of its alignment."""

    start: int
    data: bytes
    align: int


@final
@dataclass(slots=True)
class ObjectFile:
    """What is in the file. `relocations` are those of the sections CODE and DATA."""

    sections: dict[int, bytes] = field(default_factory=dict[int, bytes])
    imports: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Name and kind: 0 a function, 1 a table, 2 memory, 3 a global."""
    symbols: list[Symbol] = field(default_factory=list[Symbol])
    segments: list[Segment] = field(default_factory=list[Segment])
    relocations: dict[int, list[Relocation]] = field(
        default_factory=lambda: dict[int, list[Relocation]]()
    )

    @property
    def missing(self) -> list[str]:
        """Names of functions that it calls and does not have."""
        return [name for name, kind in self.imports if kind == 0]


def read(data: bytes) -> ObjectFile:
    """The content of an object file."""
    r, out, numbers, aligns = Reader(data), ObjectFile(), list[int](), list[int]()
    assert r.take(len(MAGIC)) == MAGIC
    while r:
        number, body = r.byte(), r.block()
        if number:
            numbers.append(number)
            out.sections[number] = body
            continue
        numbers.append(0)
        custom = Reader(body)
        name = custom.name()
        if name == "linking":
            aligns = _linking(custom, out)
        elif name.startswith("reloc."):
            section = numbers[custom.number()]
            out.relocations[section] = list(_relocations(custom))
    out.imports = list(_imports(Reader(out.sections.get(IMPORT, b"\0"))))
    if DATA in out.sections:
        out.segments = list(_segments(Reader(out.sections[DATA]), aligns))
    return out


def _imports(r: Reader) -> Iterator[tuple[str, int]]:
    """The imports of a module: name and kind."""
    for _ in range(r.number()):
        r.name()
        name, kind = r.name(), r.byte()
        if kind in (1, 2):
            if kind == 1:
                r.byte()
            bounded = r.byte() & 1
            r.number()
            if bounded:
                r.number()
        elif kind == 3:
            r.take(2)
        else:
            r.number()
        yield name, kind


def _segments(r: Reader, aligns: list[int]) -> Iterator[Segment]:
    for i in range(r.number()):
        assert r.number() == 0, "an object's segments are active"
        assert r.byte() == 0x41  # i32.const
        r.signed()
        assert r.byte() == 0x0B  # end
        size = r.number()
        start = r.at
        yield Segment(start, r.take(size), aligns[i])


def _linking(r: Reader, out: ObjectFile) -> list[int]:
    """Reads the symbols; returns the alignments of segments."""
    assert r.number() == 2, "another version of the linking section"
    aligns: list[int] = []
    while r:
        kind, part = r.byte(), Reader(r.block())
        if kind == _SYMBOL_TABLE:
            out.symbols = [_symbol(part) for _ in range(part.number())]
        elif kind == _SEGMENT_INFO:
            for _ in range(part.number()):
                part.name()
                aligns.append(part.number())
                part.number()
    return aligns


def _symbol(r: Reader) -> Symbol:
    kind, flags = r.byte(), r.number()
    here = not flags & _UNDEFINED
    if kind == _SYMBOL_SECTION:
        return Symbol(kind, "", r.number())
    if kind == _SYMBOL_DATA:
        name = r.name()
        if not here:
            return Symbol(kind, name, None)
        where, offset, _ = r.number(), r.number(), r.number()
        return Symbol(kind, name, where, offset)
    index = r.number()
    name = r.name() if here or flags & _EXPLICIT_NAME else ""
    return Symbol(kind, name, index)


def _relocations(r: Reader) -> Iterator[Relocation]:
    for _ in range(r.number()):
        kind, at, symbol = r.byte(), r.number(), r.number()
        yield Relocation(kind, at, symbol, r.signed() if kind in WITH_ADDEND else 0)


# --- LEB128: numbers in as many bytes as they need ------------------------------------------------


def leb128(n: int) -> bytes:
    """`n`, at least 0, in as few bytes as it takes."""
    out = bytearray()
    while True:
        n, low = n >> 7, n & 0x7F
        out.append(low | 0x80 if n else low)
        if not n:
            return bytes(out)


def signed(n: int) -> bytes:
    """`n` in as few bytes as it takes."""
    out = bytearray()
    while True:
        n, low = n >> 7, n & 0x7F
        if n == -(low >> 6):  # all that is left is the sign
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)


def word(n: int) -> bytes:
    """`n` below 2^32 as the signed 32-bit number with the same bits."""
    return signed(n - (1 << 32) if n >> 31 else n)


def leb128_padded(n: int, *, sign: bool = False) -> bytes:
    """`n` below 2^32 in exactly five bytes; as a number with a `sign` that has the same bits."""
    low = [n >> shift & 0x7F for shift in range(0, 28, 7)]
    return bytes([*[b | 0x80 for b in low], n >> 28 | (0x70 if sign and n >> 31 else 0)])


def string(text: str) -> bytes:
    """The number of bytes of `text`, then these."""
    return block(text.encode())


def block(data: bytes) -> bytes:
    """The number of bytes, then these."""
    return leb128(len(data)) + data


def vector(items: list[bytes]) -> bytes:
    """The number of items, then these."""
    return leb128(len(items)) + b"".join(items)
