"""A frame's stack as far as it is known: which objects the next instruction is about to read.

Instructions that read names, attributes, items and cells are told to the notes. Of the others only
the effect on the stack is known; what they take from it counts as read as a whole. Where the stack
is not known (after an exception, say) it is `UNKNOWN` all the way down: then variables still tell
which objects they hold.
"""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import dis
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.compile.trace.guards.contents import contents
from chainrule.compile.trace.guards.lookup import UNKNOWN
from chainrule.engine.node import Variable

if TYPE_CHECKING:
    from chainrule.compile.trace.guards.observer import Observer

_GENERATORS = 0x20 | 0x80 | 0x200
"""The flags of generators and coroutines, whose frames go on after they have returned."""
_OPTIMIZED = 0x1
"""The flag of functions, whose `f_locals` have all variables; those of class bodies have not."""
_SHAPES = frozenset(("shape", "dtype", "ndim", "size", "itemsize", "nbytes"))
"""Attributes of an array that its class, shape and dtype say."""
PREFIXED: Any = object()


@final
class Code:
    """The instructions of a code object by the offset where they begin: with their first prefix.

    What follows a prefix is `PREFIXED`: not every version of Python reports it.
    """

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.at: dict[int, Any] = {}
        starts: list[tuple[int, int]] = []
        start: int | None = None
        for i in dis.get_instructions(code):
            if start is None:
                start = i.offset
            else:
                self.at[i.offset] = PREFIXED
            if i.opname != "EXTENDED_ARG":
                self.at[start] = i
                starts.append((start, i.offset))
                start = None
        self.following = {offset: after for (_, offset), (after, _) in pairwise(starts)}
        self.goes_on = bool(code.co_flags & _GENERATORS)


@final
@dataclass(frozen=True, slots=True)
class Method:
    """A method that was looked up: of what, its name, and the Python function that it runs."""

    receiver: Any
    name: str
    function: Any


@final
@dataclass(frozen=True, slots=True)
class Derived:
    """A value that is not known, but came of these outer objects: it may be a part of one."""

    sources: tuple[Any, ...]


_STACK_ONLY = frozenset((
    "NOP", "RESUME", "CACHE", "MAKE_CELL", "COPY_FREE_VARS", "JUMP_FORWARD",
    "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_GENERATOR", "LOAD_CLOSURE",
    "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_IF_NONE",
    "POP_JUMP_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE",
    "PUSH_EXC_INFO", "POP_EXCEPT", "RERAISE", "SETUP_ANNOTATIONS", "NOT_TAKEN", "END_FOR",
    "DELETE_FAST", "DELETE_DEREF", "DELETE_NAME", "RETURN_CONST", "LOAD_LOCALS",
    "LOAD_ASSERTION_ERROR", "LOAD_BUILD_CLASS", "LOAD_COMMON_CONSTANT",
))  # fmt: skip
"""Instructions that look at nothing on the stack."""
_ONE_RESULT = frozenset((
    "COMPARE_OP", "BUILD_SLICE", "BUILD_STRING", "BINARY_SLICE", "FORMAT_VALUE", "FORMAT_WITH_SPEC",
    "CALL_INTRINSIC_2", "SEND", "END_SEND", "PREP_RERAISE_STAR",
))  # fmt: skip
"""Instructions that take one value or more and put one in their place."""
NULL: Any = object()
"""What stands on the stack beside a function that is called without a receiver."""


@final
class Frame:
    """A frame that is followed: its stack, as far as it is known."""

    def __init__(self, observer: Observer, frame: FrameType, code: Code) -> None:
        self.observer, self.frame, self.code = observer, frame, code
        self.stack: list[Any] = []
        self._cells: Mapping[str, CellType] | None = None
        self._latest: Any = None
        self._handed: list[tuple[Any, int]] = []
        self._calls = False
        """Whether the latest instruction is a call, whose result is on top."""
        self.loaded: str | None = None
        """The variable whose value is on top once the latest instruction has stored it."""

    # --- the stack

    def push(self, x: Any) -> None:
        """Put x on top."""
        self.stack.append(x)

    def pop(self) -> Any:
        """Take what is on top."""
        return self.stack.pop() if self.stack else UNKNOWN

    def take(self, n: int) -> list[Any]:
        """Take the n on top, the lowest first."""
        return [self.pop() for _ in range(n)][::-1]

    # --- what the observer tells

    def step(self, at: int) -> None:
        """The instruction at an offset is about to run. What fails here, an object's own code among
        it, is no business of the function that is followed."""
        try:
            self._step(at)
        except Exception as cause:
            self.stack.clear()
            self.observer.fail(cause)

    def _step(self, at: int) -> None:
        i = self.code.at.get(at)
        if i is PREFIXED:
            return
        self.settle(at)
        self._calls = False
        if i is None:
            self.stack.clear()
            return
        rule = self.observer.rules.get(i.opname)
        if rule is not None:
            rule(self, i)
        else:
            self._latest = i

    def settle(self, at: int = -1) -> None:
        """The latest instruction has run, and `at` is the next one."""
        for array, uses in self._handed:
            if self.observer.uses(array) == uses:
                contents(self.observer.notes, array)
        self._handed.clear()
        if self.loaded is not None:
            self.take(1)
            self.push(self.frame.f_locals.get(self.loaded, UNKNOWN))
            self.loaded = None
        i, self._latest = self._latest, None
        if i is None:
            return
        effect = self._effect(i, at)
        if i.opname in _STACK_ONLY:
            touched = max(0, -effect)
        elif i.opname in _ONE_RESULT:
            touched = 1 - effect
        else:
            touched = max(1, -effect)
        taken = self.take(touched)
        if i.opname not in _STACK_ONLY:
            for x in taken:
                self.read_whole(x)
        for _ in range(touched + effect):
            self.push(self.derived(taken))

    def _effect(self, i: Any, at: int) -> int:
        """By how much instruction i has made the stack longer, `at` being the next one."""
        jumped = self.code.following.get(i.offset) != at
        if jumped and i.opname == "FOR_ITER":  # a loop has ended
            after = self.code.at.get(at)  # Python 3.12 and later skip what clears the stack up
            return 1 if after is not None and after.opname == "END_FOR" else -1
        arg = i.arg if i.opcode >= dis.HAVE_ARGUMENT else None
        return dis.stack_effect(i.opcode, arg, jump=jumped)

    def begin_call(self) -> None:
        """This instruction calls a function that is followed, too; that reports its result."""
        self._calls = True

    def interrupted(self) -> None:
        """An exception was raised: what is on the stack is not known."""
        self.settle()
        self._latest = None
        self.stack.clear()

    def returned(self, value: Any) -> None:
        """A function that this frame called has returned. Where other code may have called it, the
        value may be a part of the result: an operator's is, a sort key's is not."""
        if not self.stack or self._latest is not None:
            return
        if self._calls or type(self.stack[-1]) is Method:  # a property, not a method
            self.stack[-1] = value
        elif not self.is_object(self.stack[-1]) and self.stack[-1] is not NULL:
            self.stack[-1] = self.derived([self.stack[-1], value])

    # --- what is read

    def is_object(self, x: Any) -> bool:
        """Whether x is an object at all."""
        return x is not UNKNOWN and x is not NULL and type(x) is not Derived

    def derived(self, xs: Sequence[Any]) -> Any:
        """What comes of xs, of which it is not known what it is."""
        found: list[Any] = []
        for x in xs:
            x = x.receiver if type(x) is Method else x
            if type(x) is Derived:
                found += x.sources
            elif self.is_object(x) and not isinstance(x, np.ndarray | Variable | ModuleType | type):
                found += [x] * self.observer.notes.is_outer(x)
        return Derived(tuple(found)) if found else UNKNOWN

    def read_unknown_element(self, x: Derived) -> Derived:
        """A part of x is looked at: nobody knows which."""
        for source in x.sources:
            contents(self.observer.notes, source, deep=True)
        return x

    def read_whole(self, x: Any, *, deep: bool = False) -> None:
        """An instruction takes x, and may look at all of it."""
        if type(x) is Method:
            x = x.receiver
        if not self.is_object(x) or not self.observer.notes.is_outer(x):
            return
        if self.observer.is_array(x):  # whether an op takes it shows when the instruction has run
            self._handed.append((x, self.observer.uses(x)))
            return
        if hasattr(type(x), "__next__") and not _is_python(getattr(type(x), "__next__", None)):
            self.observer.refuse(f"takes from an iterator, a {type(x).__name__},")
        contents(self.observer.notes, x, deep=deep)

    def cells(self) -> Mapping[str, CellType]:
        """The cells of the enclosing functions' variables."""
        if self._cells is None:
            code = self.frame.f_code
            optimized = code.co_flags & _OPTIMIZED
            self._cells = self.observer.cells.of(code, self.frame.f_locals if optimized else None)
        return self._cells

    def look_up(self, x: Any, name: str) -> Any:
        """What is known of `x.name`, which is read."""
        if type(x) is Derived:
            return self.read_unknown_element(x)
        if type(x) is Method:  # an attribute that code has computed, unseen
            parts = self.derived([x])
            return self.read_unknown_element(parts) if type(parts) is Derived else UNKNOWN
        if not self.is_object(x):
            return UNKNOWN
        notes = self.observer.notes
        if isinstance(x, Variable):
            return Method(x, name, None)
        if isinstance(x, np.ndarray):
            if name not in _SHAPES:
                self.read_whole(x)
            return UNKNOWN
        if isinstance(x, dict | list | set | bytearray) or _is_container(x):
            self.read_whole(x)
        found = notes.attribute(x, name)
        if found.value is UNKNOWN and name[:2] != "__" and notes.is_outer(x):
            return Method(x, name, found.method)
        if isinstance(found.value, FunctionType):
            self.observer.learn(found.value)
        return found.value


def _is_python(f: Any) -> bool:
    return isinstance(f, FunctionType)


def _is_container(x: Any) -> bool:
    """Whether x holds other objects, and its methods are not written in Python."""
    return hasattr(type(x), "__len__") and not hasattr(x, "__dict__")
