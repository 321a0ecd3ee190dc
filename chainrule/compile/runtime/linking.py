"""Object files put into memory without LLVM, whose import alone takes longer than most of them run.

    memory := code | constants | numbers        each from a page of its own, with its own rights

LLVM's code for x86-64 takes every address from a word of 64 bits. So to link is to copy sections
and to fill in these words. Whatever else an object file may hold (another format or processor, a
symbol that nobody knows) is an `UnlinkableError`, and LLVM links it. Nothing is unwound through
this code, so that tables for that stay out of memory.

System V Application Binary Interface, AMD64 Supplement 1.0, chapters 4.1 to 4.4 (object files).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any, Final, final

import numpy as np

_HEADER: Final = np.dtype(
    [("ident", "S5"), ("", "V11"), ("kind", "<u2"), ("machine", "<u2"), ("", "V20"),
     ("sections", "<u8"), ("", "V12"), ("count", "<u2"), ("", "V2")]
)  # fmt: skip
_SECTION: Final = np.dtype(
    [("name", "<u4"), ("kind", "<u4"), ("flags", "<u8"), ("", "V8"), ("at", "<u8"), ("size", "<u8"),
     ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("each", "<u8")]
)  # fmt: skip
_SYMBOL: Final = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("", "V1"), ("section", "<u2"), ("value", "<u8"),
     ("size", "<u8")]
)  # fmt: skip
_RELOCATION: Final = np.dtype([("at", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("add", "<i8")])

_ELF64, _RELOCATABLE, _X86_64 = b"\x7fELF\x02", 1, 62
_SYMBOLS, _RELOCATIONS, _ZEROS, _UNWINDING = 2, 4, 8, 0x70000001
_WRITE, _ALLOC, _RUN, _THREAD = 1, 2, 4, 0x400
_NOWHERE, _RESERVED, _GLOBAL = 0, 0xFF00, 1
_WORD = 1
"""The kind of relocation that is an address in 64 bits."""

known: dict[str, int] = {}
"""Addresses that machine code may ask for by name, beside those of the process."""


@final
class UnlinkableError(Exception):
    """An object file that this linker does not link."""


def address_of(name: str) -> int | None:
    """Where the function or variable of that name is in this process."""
    if name in known:
        return known[name]
    found = getattr(ctypes.CDLL(None), name, None)  # of Python and of the C library
    if found is not None:
        return ctypes.cast(found, ctypes.c_void_p).value
    llvm: Any = sys.modules.get("llvmlite.binding")  # who uses it may have told it more
    return None if llvm is None else llvm.address_of_symbol(name)


@final
class Linked:
    """The code of an object file, which lives as long as this object."""

    def __init__(self, code: bytes) -> None:
        """Raises `UnlinkableError`."""
        try:
            self._read(code)
            self._memory = self._place()
            self._fill()
        except (ValueError, IndexError, UnicodeDecodeError, OSError) as cause:
            raise UnlinkableError(str(cause)) from cause
        self._protect()

    def address(self, name: str) -> int:
        """Where the function or variable of that name is."""
        return self._addresses[self._globals[name]]

    def _read(self, code: bytes) -> None:
        """Sections, symbols and their names."""
        header = np.frombuffer(code, _HEADER, 1)[0]
        if (header["ident"], header["kind"], header["machine"]) != (_ELF64, _RELOCATABLE, _X86_64):
            raise UnlinkableError("no object file for x86-64")
        self._code = code
        self._sections = np.frombuffer(
            code, _SECTION, int(header["count"]), int(header["sections"])
        )
        (table,) = self._sections[self._sections["kind"] == _SYMBOLS]
        names = self._bytes_of(self._sections[table["link"]])
        self._symbols = np.frombuffer(self._bytes_of(table), _SYMBOL)
        self._names = [
            names[n : names.index(0, n)].decode() for n in self._symbols["name"].tolist()
        ]
        self._globals = {
            name: i
            for i, (name, s) in enumerate(zip(self._names, self._symbols, strict=True))
            if s["info"] >> 4 == _GLOBAL and s["section"] != _NOWHERE
        }

    def _bytes_of(self, section: Any) -> bytes:
        at, size = int(section["at"]), int(section["size"])
        if at + size > len(self._code):
            raise UnlinkableError("a section that ends behind the file")
        return self._code[at : at + size]

    def _place(self) -> mmap.mmap:
        """Memory with the sections in it, those of equal rights together."""
        flags, kinds = self._sections["flags"], self._sections["kind"]
        wanted = (flags & _ALLOC != 0) & (kinds != _UNWINDING)
        if (flags[wanted] & _THREAD).any():
            raise UnlinkableError("memory of threads")
        self._offsets: dict[int, int] = {}
        self._parts: list[tuple[int, int, int]] = []
        end = 0
        for rights in (_RUN, 0, _WRITE):
            start = end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
            for i in np.flatnonzero(wanted & (flags & (_RUN | _WRITE) == rights)).tolist():
                section = self._sections[i]
                align = max(1, int(section["align"]))
                if align > mmap.PAGESIZE:
                    raise UnlinkableError("larger than a page")
                self._offsets[i] = -(-end // align) * align
                end = self._offsets[i] + int(section["size"])
            self._parts.append((start, end, rights))
        if len(self._offsets) != wanted.sum():
            raise UnlinkableError("code that is written to")
        # private: after a fork each process has data of its own
        memory = mmap.mmap(-1, max(end, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for i, offset in self._offsets.items():
            if self._sections[i]["kind"] != _ZEROS:
                data = self._bytes_of(self._sections[i])
                memory[offset : offset + len(data)] = data
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        return memory

    def _fill(self) -> None:
        """Write the addresses that sections ask for."""
        sections = self._sections[self._sections["kind"] == _RELOCATIONS]
        inside = [s for s in sections if int(s["info"]) in self._offsets]
        lists = [np.frombuffer(self._bytes_of(s), _RELOCATION) for s in inside]
        asked = {i for r in lists for i in r["symbol"].tolist()}
        asked |= set(self._globals.values())
        self._addresses = {i: self._address(i) for i in asked}
        values = np.zeros(len(self._symbols), np.uint64)
        values[list(self._addresses)] = list(self._addresses.values())
        memory = np.frombuffer(self._memory, np.uint8)
        for section, r in zip(inside, lists, strict=True):
            if (r["kind"] != _WORD).any():
                raise UnlinkableError("a relocation that is no address")
            size = int(self._sections[section["info"]]["size"])
            if len(r) and int(r["at"].max()) + 8 > size:
                raise UnlinkableError("an address behind its section")
            words = values[r["symbol"]] + r["add"].view(np.uint64)
            places = r["at"].astype(np.int64) + self._offsets[int(section["info"])]
            memory[places[:, None] + np.arange(8)] = words.view(np.uint8).reshape(-1, 8)

    def _address(self, i: int) -> int:
        """That of a symbol."""
        symbol = self._symbols[i]
        section = int(symbol["section"])
        if section in self._offsets:
            return self._base + self._offsets[section] + int(symbol["value"])
        found = address_of(self._names[i]) if section == _NOWHERE else None
        if found is None:
            raise UnlinkableError(f"{self._names[i]} is nowhere")
        return found

    def _protect(self) -> None:
        """From now on code is run and not written to, and constants neither."""
        rights = {_RUN: mmap.PROT_READ | mmap.PROT_EXEC, 0: mmap.PROT_READ}
        for start, end, kind in self._parts:
            if kind != _WRITE and end > start:
                call = ctypes.CDLL(None, use_errno=True).mprotect
                call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
                if call(self._base + start, end - start, rights[kind]):
                    raise UnlinkableError(os.strerror(ctypes.get_errno()))
