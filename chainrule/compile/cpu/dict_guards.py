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

from chainrule.compile.cpu.function_writer import PTR, FunctionWriter, int64
from chainrule.compile.llvm.numbers import I64

OF_DICTS = "guarded"
_HEAD, _ENTRY = 4, 2


def add_dict_guard(module: Any) -> Any:
    """Add the function to a module."""
    s = FunctionWriter(module, OF_DICTS, [PTR])
    (words,), b = s.args, s.b
    count, version_at = s.load(words, 0), s.load(words, 1)
    place = b.alloca(I64)
    b.store(int64(2), place)
    with s.count_up(count):
        start = b.load(place, typ=I64)
        head = s.element(words, start)
        address, seen, whole, entries = [s.load(head, n) for n in range(_HEAD)]
        holder, first = s.pointer(address), b.add(start, int64(_HEAD))
        b.store(b.add(first, b.mul(entries, int64(_ENTRY))), place)
        none = s.equal(version_at, 0)
        now = s.field(holder, version_at, I64)  # of a dictionary without versions its first word
        with b.if_then(b.or_(none, b.icmp_unsigned("!=", now, seen))):
            s.return_unless(s.equal(whole, 0), 0)
            _look_up(s, holder, first, entries)
            s.store(b.select(none, seen, now), head, 1)
    s.return_(1)
    return s.f


def _look_up(s: FunctionWriter, holder: Any, first: Any, count: Any) -> None:
    """Return 0 if one of the entries is not there."""
    (words,), b = s.args, s.b
    with s.count_up(count) as k:
        i = b.add(first, b.mul(k, int64(_ENTRY)))
        key, wanted = s.pointer(s.load(words, i)), s.load(words, b.add(i, int64(1)))
        s.return_unless(s.equal(s.look_up(holder, key), wanted), 0)
