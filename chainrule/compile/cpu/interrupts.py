"""Signals while machine code runs: a look for them now and then, and the way out of a program.

Python runs handlers of signals between its own instructions, and machine code has none of these. So
loops that go on for long call `poll`, which every 10 ms lets Python run what handlers are due. If
one raises (KeyboardInterrupt, say), the loops end, the program returns, and who called it raises
that. No handler is installed: what the user's do, they do here too.

    i1 poll(i64 me)      whether to end; only the thread that called the program, 0, asks Python

A run that keeps the interpreter's lock is short: no handler runs before it is over, so nobody else
comes in between.

Another Python thread may hold the interpreter for long. The longer a look had to wait, the later
the next one is, up to a fifth of a second. So little time is spent waiting.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, final

from llvmlite import ir

from chainrule.compile.cpu.symbols import CALL, CLOCK
from chainrule.compile.llvm.numbers import I1, I64, declare, intrinsic

POLL = "poll"
INTERVAL = 10
"""Milliseconds between two looks."""
PATIENCE = 100
"""A look that had to wait is followed by so many times the pause..."""
LATEST = 200
"""... but never by more milliseconds than these."""
EXACT: int = getattr(time, "CLOCK_MONOTONIC", 0)  # which Windows lacks
COARSE = 6 if sys.platform == "linux" else EXACT
"""The clock by which a look is due. Linux has one that goes forward by 1 to 10 ms and is read in a
sixth of the time, CLOCK_MONOTONIC_COARSE: short programs look often."""

_PTR, _VOID, _I32 = ir.PointerType(), ir.VoidType(), ir.IntType(32)
_RELAXED = "monotonic"


def _number(n: int) -> Any:
    return ir.Constant(I64, n)


@final
class Run:
    """A module's state for the current run: whether it is to end, when the next look is due, and
    Python's thread, 0 where the run holds the interpreter all the time (then no handler runs). The
    time of the next look outlives the run."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._stopped = self._word("stopped", I64)
        self._next = self._word("next_look", I64)
        self._thread = self._word("thread", I64)
        self.poll = ir.Function(module, ir.FunctionType(I1, [I64]), POLL)
        self.poll.linkage = "internal"
        self.poll.attributes.add("noinline")
        self._write_poll()

    def _word(self, name: str, kind: Any) -> Any:
        g: Any = ir.GlobalVariable(self.module, kind, name)
        g.linkage, g.initializer = "internal", ir.Constant(kind, None)
        return g

    def begin(self, b: Any, holding: Any = None) -> None:
        """A run begins: the interpreter is free for others, unless it is `holding` it."""
        b.store_atomic(_number(0), self._stopped, _RELAXED, 8)
        if holding is None:
            self._give(b)
        else:
            b.store(_number(0), self._thread)
            with b.if_then(b.icmp_signed("==", holding, _number(0))):
                self._give(b)

    def end(self, b: Any) -> None:
        """A run is over: this thread has the interpreter again."""
        self._acquire(b)

    def is_stopped(self, b: Any) -> Any:
        """Whether the run is to end, or has ended, because something was raised."""
        word = b.load_atomic(self._stopped, _RELAXED, 8, typ=I64)
        return b.icmp_signed("!=", word, _number(0))

    def host(self, b: Any, host: Any, number: int) -> None:
        """Call the Python function `host` with `number`; the run is to end if it raises."""
        self._acquire(b)
        called = declare(b, "PyLong_FromLongLong", _PTR, [I64])
        given = b.call(called, [_number(number)])
        name, module = CALL, self.module
        call = module.globals.get(name) or ir.Function(
            module, ir.FunctionType(_PTR, [_PTR], var_arg=True), name
        )
        none = ir.Constant(_PTR, None)
        result = b.call(call, [host, given, none])
        release = declare(b, "Py_DecRef", _VOID, [_PTR])  # which takes no notice of a null
        b.call(release, [given])
        b.call(release, [result])
        with b.if_then(b.icmp_unsigned("==", result, none), likely=False):
            b.store_atomic(_number(1), self._stopped, _RELAXED, 8)
        self._release(b)

    def _give(self, b: Any) -> None:
        thread = b.call(declare(b, "PyEval_SaveThread", _PTR, []), [])
        b.store(b.ptrtoint(thread, I64), self._thread)

    def _release(self, b: Any) -> None:
        with b.if_then(self._is_free(b)):
            self._give(b)

    def _acquire(self, b: Any) -> None:
        with b.if_then(self._is_free(b)):
            thread = b.inttoptr(b.load(self._thread, typ=I64), _PTR)
            b.call(declare(b, "PyEval_RestoreThread", _VOID, [_PTR]), [thread])

    def _is_free(self, b: Any) -> Any:
        """Whether this run does not hold the interpreter."""
        return b.icmp_signed("!=", b.load(self._thread, typ=I64), _number(0))

    def _write_poll(self) -> None:
        """Write the function that says whether a program is to stop, and asks Python for signals
        when due."""
        f = self.poll
        names = ("entry", "mine", "later", "look", "raised", "yes", "no")
        entry, mine, later, look, raised, yes, no = map(f.append_basic_block, names)
        b = ir.IRBuilder(entry)
        with b.goto_block(yes):
            b.ret(ir.Constant(I1, 1))
        with b.goto_block(no):
            b.ret(ir.Constant(I1, 0))
        b.cbranch(self.is_stopped(b), yes, mine)
        b.position_at_end(mine)
        asks = b.and_(b.icmp_signed("==", f.args[0], _number(0)), self._is_free(b))
        b.cbranch(asks, later, no)
        b.position_at_end(later)
        due = b.load(self._next, typ=I64)
        b.cbranch(b.icmp_signed("<", _milliseconds(b, COARSE), due), no, look)
        b.position_at_end(look)
        now = _milliseconds(b)
        self._acquire(b)
        waited = b.mul(b.sub(_milliseconds(b), now), _number(PATIENCE))
        pause = intrinsic(b, "smax", waited, _number(INTERVAL))
        pause = intrinsic(b, "smin", pause, _number(LATEST))
        bad = b.call(declare(b, "PyErr_CheckSignals", _I32, []), [])
        self._release(b)
        b.store(b.add(_milliseconds(b), pause), self._next)
        b.cbranch(b.icmp_signed("!=", bad, ir.Constant(_I32, 0)), raised, no)
        b.position_at_end(raised)
        b.store_atomic(_number(1), self._stopped, _RELAXED, 8)
        b.branch(yes)


@final
class Polls:
    """How the loops of one function look for signals: they leave it when the run is to end. `me`
    is the number of the thread."""

    def __init__(self, run: Run, function: Any, me: Any = None) -> None:
        self._run = run
        self._me = _number(0) if me is None else me
        self._leave = function.append_basic_block("leave")
        ir.IRBuilder(self._leave).ret_void()

    def between(self, b: Any, more: Any, body: Any, after: Any) -> None:
        """End an iteration: on to `body` if there is `more`, else to `after`."""
        poll = b.append_basic_block("poll")
        b.cbranch(more, poll, after)
        b.position_at_end(poll)
        b.cbranch(b.call(self._run.poll, [self._me]), self._leave, body)

    def leave_if_stopped(self, b: Any) -> None:
        """Go on, unless the run is to end."""
        on = b.append_basic_block("on")
        b.cbranch(self._run.is_stopped(b), self._leave, on)
        b.position_at_end(on)

    def look(self, b: Any) -> None:
        """Poll, and go on unless the run is to end."""
        on = b.append_basic_block("on")
        b.cbranch(b.call(self._run.poll, [self._me]), self._leave, on)
        b.position_at_end(on)


def _milliseconds(b: Any, clock: int = EXACT) -> Any:
    """A clock that only goes forward."""
    if os.name != "posix":
        return b.call(declare(b, CLOCK, I64, []), [])
    with b.goto_entry_block():
        spec = b.alloca(ir.ArrayType(I64, 2))
    read = declare(b, "clock_gettime", _I32, [_I32, _PTR])
    b.call(read, [ir.Constant(_I32, clock), spec])
    seconds, nanoseconds = [
        b.load(b.gep(spec, [_number(i)], source_etype=I64), typ=I64) for i in (0, 1)
    ]
    whole = b.mul(seconds, _number(1000))
    return b.add(whole, b.sdiv(nanoseconds, _number(1_000_000)))
