"""A function of machine code that looks at the dictionaries a program depends on.

    i64 guarded(ptr words)

`words` (see `guards.py`) begin with the number of dictionaries, and where in one its version lies
(0: it has none). Then come a record for each dictionary (`DICTIONARY`), and all entries. An entry
is two addresses, of key and value (0: none), and the key's place (see `place_of_key`).

A version that is as it was says that nothing has changed. Otherwise each entry is looked up, and if
all are there the new version is put into `words`. Records are of one length: which of them is next
does not depend on what is in one, so the processor looks at several at once.
"""

from __future__ import annotations

from typing import Any

from chainrule.compile.cpu.call_plan import DICTIONARY
from chainrule.compile.cpu.function_writer import PTR, FunctionWriter, int64
from chainrule.compile.llvm.numbers import I64

OF_DICTS = "guarded"
HEAD, ENTRY = 2, 5
"""Words before the records, and of an entry."""


def add_dict_guard(module: Any) -> Any:
    """Add the function to a module."""
    s = FunctionWriter(module, OF_DICTS, [PTR])
    (words,), b = s.args, s.b
    count, version_at = s.load(words, 0), s.load(words, 1)
    none = s.equal(version_at, 0)
    with s.count_up(count) as k:
        record = s.element(words, b.add(int64(HEAD), b.mul(k, int64(len(DICTIONARY)))))
        address, seen = s.load(record, 0), s.load(record, 1)
        holder = s.pointer(address)
        now = s.field(holder, version_at, I64)  # of a dictionary without versions its first word
        with b.if_then(b.or_(none, b.icmp_unsigned("!=", now, seen)), likely=False):
            whole, first, entries = [s.load(record, n) for n in (2, 3, 4)]
            s.return_unless(s.equal(whole, 0), 0)
            _look_up(s, holder, first, entries)
            s.store(b.select(none, seen, now), record, 1)
    s.return_(1)
    return s.f


def _look_up(s: FunctionWriter, holder: Any, first: Any, count: Any) -> None:
    """Return 0 if one of the entries is not there."""
    (words,), b = s.args, s.b
    with s.count_up(count) as k:
        i = b.add(first, b.mul(k, int64(ENTRY)))
        key, wanted, *place = [s.load(words, b.add(i, int64(n))) for n in range(ENTRY)]
        s.return_unless(s.equal(s.look_up_at(holder, s.pointer(key), place), wanted), 0)
