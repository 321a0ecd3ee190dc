"""What a compiled function does, kernel by kernel, and how near that is to what the machine can do.

Measured on copies of a call's arrays, with the same code; only a look at the processor's counter is
added before and after each kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import final

import numpy as np

from chainrule.compile.inspect.machine_limits import Limits, limits, ticks
from chainrule.compile.loops.expressions import computable
from chainrule.compile.loops.memory import plan
from chainrule.compile.loops.statements import Host, Kernel
from chainrule.compile.loops.work import Work, work
from chainrule.compile.runtime.call.inputs import Inputs
from chainrule.compile.runtime.native_program import Native
from chainrule.engine.source_text import short_line
from chainrule.page.html import table, to_html
from chainrule.page.readable import Tabled


@final
@dataclass(frozen=True, slots=True)
class Fused:
    """An op in a kernel: its name, dtype and shape as the program prints it, and the user's line,
    as `train.py:12`. The line is empty where it is not known."""

    op: str
    what: str
    line: str


@final
@dataclass(frozen=True, slots=True)
class Row:
    """A kernel: what was fused into it, what it moves and computes, and how long it takes.

    `copying` is how many seconds the machine's measured copy needs for as many bytes. `computing`
    is how many its measured product needs for as many operations. `least` is the larger one.
    `eager` says why it runs in its eager form, through Python; nothing if it is native.
    """

    kernel: str
    fused: tuple[Fused, ...]
    bytes: int
    flops: int
    seconds: float
    copying: float
    computing: float
    least: float
    eager: str = ""

    @property
    def gbs(self) -> float:
        """10^9 bytes a second."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gflops(self) -> float:
        """10^9 operations a second."""
        return self.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def of_peak(self) -> float:
        """The fraction of the machine's measured peak, of whichever limits this kernel."""
        return self.least / self.seconds if self.seconds else 0.0


_HEAD = ("time", "share", "of peak", "bytes", "GB/s", "copied in",
         "flops", "GFLOP/s", "computed in")  # fmt: skip
"""The columns of numbers."""


@final
@dataclass(frozen=True)
class Explanation(Tabled):
    """What a compiled function does; `str()` is a table, `rows` its kernels, slowest first.

    `scratch` are bytes of memory between kernels, `compiling` the seconds that tracing and
    compiling took (little where the code came from the cache).
    """

    name: str
    rows: tuple[Row, ...]
    scratch: int
    compiling: float
    symbols: Mapping[str, int]
    machine: Limits

    @property
    def seconds(self) -> float:
        """One call, without what Python does around it."""
        return sum([r.seconds for r in self.rows])

    @property
    def total(self) -> Row:
        """All kernels as one."""
        r = self.rows
        return Row(
            "total", tuple([f for x in r for f in x.fused]),
            sum([x.bytes for x in r]), sum([x.flops for x in r]),
            self.seconds, sum([x.copying for x in r]), sum([x.computing for x in r]),
            sum([x.least for x in r]),
        )  # fmt: skip

    def __str__(self) -> str:
        return "\n".join([*self._head(), "", *self._table(), *self._fallbacks()])

    def _head(self) -> list[str]:
        sizes = ", ".join([f"{s} = {n}" for s, n in self.symbols.items()])
        copies = self.machine.copies
        return [
            f"{self.name}: {len(self.rows)} kernels, {_time(self.seconds)} a call"
            + (f" with {sizes}" if sizes else "")
            + f"; {_size(self.scratch)} of scratch memory; traced and compiled in "
            f"{self.compiling:.2f} s",
            f"this machine, measured: copies {min(copies) / 1e9:.0f} to {max(copies) / 1e9:.0f} "
            f"GB/s by their size, matrix products {self.machine.singles / 1e9:.0f} GFLOP/s in "
            f"float32, {self.machine.doubles / 1e9:.0f} in float64",
        ]

    def _table(self) -> list[str]:
        cells = [_cells(r, self.seconds) for r in [*self.rows, self.total]]
        widths = [max(map(len, column)) for column in zip(_HEAD, *cells, strict=True)]
        names = max([len(r.kernel) for r in [*self.rows, self.total]])
        lines = [f"{_row(_HEAD, widths)}  {'kernel':<{names}}  what is fused into it"]
        for r, cs in zip(self.rows, cells, strict=False):
            lines.append(f"{_row(cs, widths)}  {r.kernel:<{names}}  {_op_words(r)}")
        return [*lines, f"{_row(cells[-1], widths)}  total"]

    def html_pieces(self) -> list[str]:
        """What the table says, for a notebook."""
        rows = [["kernel", *_HEAD, "what is fused into it"]]
        rows += [[r.kernel, *_cells(r, self.seconds), _op_words(r)] for r in self.rows]
        rows.append(["total", *_cells(self.total, self.seconds), ""])
        return [
            *[f"<p>{to_html(line)}</p>" for line in self._head()],
            table(rows, "kernels, slowest first", text=(0, len(_HEAD) + 1)),
            *[f"<p>{to_html(line)}</p>" for line in self._fallbacks() if line],
        ]

    def _fallbacks(self) -> list[str]:
        said = [f"{r.kernel} runs in its eager form: {r.eager}" for r in self.rows if r.eager]
        said += [
            f"{r.kernel} runs as long as values say: its bytes and flops are those of one turn"
            for r in self.rows
            if not r.eager and r.fused and r.fused[0].op == "while_loop"
        ]
        return ["", *said] if said else []


def measure_kernels(
    name: str, native: Native, given: Inputs, compiling: float, repeats: int
) -> Explanation:
    """Run `native` `repeats` times on the arrays of `given`, which it writes into."""
    results = [np.empty(s, d) for s, d in native.loaded.block(tuple(given.symbols.values())).shapes]
    cycles = native.measured([*given.arrays, *results], given.symbols, repeats)
    machine, rate = limits(), ticks()
    rows = [
        _kernel_row(k, work(k, given.symbols), c / rate, machine)
        for k, c in zip(native.loops.kernels, cycles, strict=True)
    ]
    layout = native.loaded.layout
    scratch = plan(layout.scratch, layout.lives, given.symbols).size
    ranked = sorted(rows, key=lambda r: -r.seconds)
    return Explanation(name, tuple(ranked), scratch, compiling, given.symbols, machine)


def _kernel_row(kernel: Kernel, w: Work, seconds: float, machine: Limits) -> Row:
    return Row(
        kernel.name, tuple([_parse_op(line) for line in kernel.about]), w.bytes, w.flops, seconds,
        machine.copying(w.bytes), machine.computing(w.singles, w.doubles),
        machine.seconds(w.bytes, w.singles, w.doubles), _why_eager(kernel),
    )  # fmt: skip


def _parse_op(about: str) -> Fused:
    """What a kernel says of one of its ops: `name dtype[shape]  file:line`."""
    what, _, place = about.partition("  ")
    return Fused(what.split()[0], what, short_line(place) if place else "")


def _why_eager(kernel: Kernel) -> str:
    for s in kernel.body:
        if isinstance(s, Host) and s.when is None:
            dtypes = {x.buffer.dtype for x in [*s.inputs, *s.outputs]}
            odd = sorted([str(d) for d in dtypes if not computable(d)])
            if odd:
                return f"loops do not compute with {' and '.join(odd)}"
            return f"{s.op.name} has no loops"
    return ""


# --- words ---------------------------------------------------------------------------------------


def _cells(r: Row, whole: float) -> list[str]:
    share = r.seconds / whole if whole else 0.0
    moved = [_size(r.bytes), f"{r.gbs:.1f}", _time(r.copying)]
    if r.eager:
        return [_time(r.seconds), f"{share:.1%}", "", *moved, "", "", ""]
    done = [f"{r.flops:,}", f"{r.gflops:.1f}", _time(r.computing) if r.flops else ""]
    return [_time(r.seconds), f"{share:.1%}", f"{r.of_peak:.0%}", *moved, *done]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join([f"{c:>{w}}" for c, w in zip(cells, widths, strict=True)])


def _op_words(r: Row) -> str:
    """The ops in order, equal neighbours together, and after them their lines."""
    words: list[str] = []
    for op, same in groupby([f.op for f in r.fused]):
        n = len(list(same))
        words.append(op if n == 1 else f"{op} ({n})")
    lines = _lines([f.line for f in r.fused if f.line])
    return ", ".join(words or [r.kernel.partition("_")[2]]) + (f"  [{lines}]" if lines else "")


def _lines(places: Sequence[str]) -> str:
    """`train.py:12, 14; model.py:3`."""
    files: dict[str, list[str]] = {}
    for place in dict.fromkeys(places):
        file, _, line = place.rpartition(":")
        files.setdefault(file, []).append(line)
    return "; ".join([f"{file}:{', '.join(lines)}" for file, lines in files.items()])


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def _size(n: float) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= scale:
            return f"{n / scale:.1f} {unit}"
    return f"{n:.0f} B"
