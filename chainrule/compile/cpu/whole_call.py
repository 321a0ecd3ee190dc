"""A steady call from its arguments to what it returns, as one function that Python calls.

    object call(object plan, object args)

It asks what `again` asks (see `call_gate.py`), whether ops are recorded as they were, and that
nobody intercepts or watches them. It makes arrays for the results, runs the program by its `enter`,
and makes what is returned. If the call is not like the one before, or has sizes without an entry,
it changes nothing and returns an object that says so. `plan` is an array of int64, the words that
`CALL_PLAN` names.
"""

from __future__ import annotations

from typing import Any, final

from llvmlite import ir

from chainrule.compile.cpu.call_gate import find_answer
from chainrule.compile.cpu.call_plan import CALL_PLAN, ENTRY, RESULTS
from chainrule.compile.cpu.call_settings import NONE
from chainrule.compile.cpu.function_writer import I32, PTR, VOID, FunctionWriter, int64
from chainrule.compile.cpu.object_layout import ARRAY
from chainrule.compile.cpu.symbols import APPEND, FETCH, ITEM, NEW, RESTORE
from chainrule.compile.llvm.numbers import I8, I64

NAME = "call"


def add_whole_call(module: Any) -> None:
    """Add the function to a module that has `again`."""
    s = FunctionWriter(module, NAME, [PTR, PTR], PTR)
    (plan, args), b = s.args, s.b
    c = _Call(s, s.field(plan, ARRAY.data))
    c.go_on_if(s.equal(s.context(c.word("recording")), c.word("answer")))
    c.go_on_if(s.equal(s.context(c.word("around")), c.word("none")))
    watches = s.look_up(c.pointer("watch"), c.pointer("watches"))
    c.go_on_if(s.equal(watches, c.word("nobody")))
    key = find_answer(s, c.pointer("gate"), args)
    c.go_on_if(b.icmp_signed(">=", key, int64(0)))
    entry = c.entry(key)
    c.go_on_if(b.not_(s.equal(entry, NONE)))
    c.make_arrays(entry)
    c.run(entry, args)
    with b.if_then(b.not_(s.equal(c.word("tensor"), 0))):
        s.return_(c.tensor())
    s.return_(c.finished())
    c.end()


@final
class _Call:
    """The words of the plan, and the memory for what `enter` is given: its plan, the arguments,
    the results."""

    def __init__(self, s: FunctionWriter, words: Any) -> None:
        self.s, self.b, self.words = s, s.b, words
        self._no, self._failed = map(s.b.append_basic_block, ("no", "failed"))
        self._given = s.memory(PTR, 2 + RESULTS)
        for k in range(RESULTS):
            s.store(NONE, self._given, 2 + k)

    def word(self, name: str) -> Any:
        """A word of the plan."""
        return self.s.load(self.words, CALL_PLAN.index(name))

    def pointer(self, name: str) -> Any:
        """A word of the plan that is an address."""
        return self.s.pointer(self.word(name))

    def go_on_if(self, condition: Any) -> None:
        """Go on, or return that the call is not like the one before."""
        self._branch(condition, self._no)

    def _branch(self, condition: Any, otherwise: Any) -> None:
        on = self.b.append_basic_block("on")
        self.b.cbranch(condition, on, otherwise)
        self.b.position_at_end(on)

    def _go_on_with(self, x: Any) -> Any:
        """Go on if `x` is an object, or raise what was raised."""
        self._branch(self.b.not_(self.s.equal(x, NONE)), self._failed)
        return x

    def entry(self, key: Any) -> Any:
        """The entry for these sizes; null if there is none."""
        s = self.s
        found = s.memory(PTR)
        s.store(NONE, found, 0)
        with s.count_up(self.word("filled")) as i:
            entry = s.element(self.pointer("entries"), self.b.mul(i, int64(len(ENTRY))))
            same = s.equal(s.load(entry, 0), key)
            s.store(self.b.select(same, entry, s.load(found, 0, PTR)), found, 0)
        return s.load(found, 0, PTR)

    def make_arrays(self, entry: Any) -> None:
        """Make the results' arrays."""
        s, b = self.s, self.b
        maker, count = s.load(entry, ENTRY.index("maker"), PTR), self.word("results")
        with b.if_else(s.equal(maker, 0)) as (small, lent):
            with small, s.count_up(count) as k:
                first = b.add(int64(ENTRY.index("shape0")), b.mul(k, int64(2)))
                shape, dtype = (s.load(entry, b.add(first, int64(n)), PTR) for n in (0, 1))
                made = self._go_on_with(s.call_object(self.pointer("empty"), shape, dtype))
                s.store(made, self._given, b.add(k, int64(2)))
            with lent:
                found = self._go_on_with(s.call_object(maker))
                with s.count_up(count) as k:
                    made = s.call(ITEM, PTR, found, k)
                    s.call("Py_IncRef", VOID, made)
                    s.store(made, self._given, b.add(k, int64(2)))
                s.call("Py_DecRef", VOID, found)

    def run(self, entry: Any, args: Any) -> None:
        """Run the program while no other thread does. A short run needs no lock where nobody has
        it: nobody else can take it before the run is over."""
        s, b = self.s, self.b
        s.store(s.load(entry, ENTRY.index("plan"), PTR), self._given, 0)
        s.store(args, self._given, 1)
        alone = s.memory(I64)
        s.store(0, alone, 0)
        place, short = self.word("locked"), s.load(entry, ENTRY.index("short"))
        with b.if_then(b.not_(b.or_(s.equal(place, 0), s.equal(short, 0)))):
            locked = b.load(s.pointer(place), typ=I8)
            s.store(b.zext(b.icmp_unsigned("==", locked, ir.Constant(I8, 0)), I64), alone, 0)
        with b.if_else(b.icmp_signed("!=", s.load(alone, 0), int64(0))) as (free, other):
            with free:
                self._go_on_if_none(self._enter())
            with other:
                s.call("Py_DecRef", VOID, self._go_on_with(s.call_object(self.pointer("acquire"))))
                refused = self._enter()
                self._release(refused)
                self._go_on_if_none(refused)

    def _enter(self) -> Any:
        b = self.b
        kind = ir.FunctionType(PTR, [PTR, PTR, I64])
        enter = b.inttoptr(self.word("enter"), kind.as_pointer())
        return b.call(enter, [NONE, self._given, b.add(self.word("results"), int64(2))])

    def _release(self, refused: Any) -> None:
        """Unlock the program; what was raised meanwhile stays raised."""
        s, b = self.s, self.b
        raised = [s.memory(PTR) for _ in range(3)]
        failed = s.equal(refused, NONE)
        with b.if_then(failed, likely=False):
            s.call(FETCH, VOID, *raised)
        s.call("Py_DecRef", VOID, s.call_object(self.pointer("release")))
        with b.if_then(failed, likely=False):
            s.call(RESTORE, VOID, *[s.load(x, 0, PTR) for x in raised])

    def _go_on_if_none(self, refused: Any) -> None:
        """Go on if `enter` gave None; raise what was raised, or what is wrong with indices."""
        s, b = self.s, self.b
        self._go_on_with(refused)
        with b.if_then(b.not_(s.equal(refused, self.pointer("none"))), likely=False):
            s.call_object(self.pointer("refuse"), refused)  # which raises
            s.call("Py_DecRef", VOID, refused)
            b.branch(self._failed)
        s.call("Py_DecRef", VOID, refused)

    def tensor(self) -> Any:
        """A tensor of the only result."""
        s = self.s
        made = self._go_on_with(s.call(NEW, PTR, self.pointer("tensor"), int64(0)))
        none = self.pointer("none")
        s.call("Py_IncRef", VOID, none)
        s.store(s.load(self._given, 2, PTR), s.place(made, self.word("value")), 0)
        s.store(none, s.place(made, self.word("node")), 0)
        return made

    def finished(self) -> Any:
        """What Python makes of a list of the results."""
        s, b = self.s, self.b
        found = self._go_on_with(s.call("PyList_New", PTR, int64(0)))
        with s.count_up(self.word("results")) as k:
            result = s.load(self._given, b.add(k, int64(2)), PTR)
            s.call(APPEND, I32, found, result)
            s.call("Py_DecRef", VOID, result)
        made = s.call_object(self.pointer("finish"), found)
        s.call("Py_DecRef", VOID, found)
        return made

    def end(self) -> None:
        """Write where the function goes when it does not go on."""
        s, b = self.s, self.b
        b.position_at_end(self._no)
        misfit = self.pointer("misfit")
        s.call("Py_IncRef", VOID, misfit)
        s.return_(misfit)
        b.position_at_end(self._failed)
        for k in range(RESULTS):
            s.call("Py_DecRef", VOID, s.load(self._given, 2 + k, PTR))
        s.return_(NONE)
