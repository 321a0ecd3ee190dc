"""Running a function a second time as it ran before: with the same random numbers, the values that
were kept, and, bit for bit, the same result.

Random numbers come from this package's generators, from Python's `random` and from NumPy's global
functions. The first run notes where those that it draws from stood; the second starts there, and
afterwards they are where they were.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from weakref import ref

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import Variable, apply
from chainrule.engine.op import Op, Spec, new_op
from chainrule.errors import GradientError, describe
from chainrule.ops.kernel_use import PassesOn
from chainrule.random import Generator as Stream
from chainrule.random import noting

# --- Random numbers ------------------------------------------------------------------------------


@dataclass
class Chance:
    """The states, before a run, of the sources of random numbers that it drew from."""

    streams: dict[Stream, dict[str, Any]] = field(default_factory=dict[Stream, "dict[str, Any]"])
    python: Any = None
    numpy: Any = None


def _python() -> Any:
    """The state of Python's `random`, None if nobody has imported it."""
    module = sys.modules.get("random")
    return None if module is None else module.getstate()


def _numpy() -> Any:
    """The state of NumPy's global functions, None if nobody has imported them."""
    return np.random.get_state() if "numpy.random" in sys.modules else None


def _set(python: Any, numpy: Any) -> None:
    if python is not None:
        sys.modules["random"].setstate(python)
    if numpy is not None:
        np.random.set_state(numpy)


def _differ(a: Any, b: Any) -> bool:
    """Whether two states of NumPy's differ, of which both or none are None."""
    return a is not None and not all(np.array_equal(p, q) for p, q in zip(a, b, strict=True))


@contextmanager
def note_random_state() -> Generator[Chance]:
    """Within it random numbers are drawn; at its end the `Chance` says from where."""
    chance = Chance()
    python, numpy = _python(), _numpy()
    with noting() as streams:
        yield chance
    chance.streams = dict(streams)
    # what was not drawn from is not kept: Python's state is 625 numbers
    chance.python = python if python is not None and python != _python() else None
    chance.numpy = numpy if _differ(numpy, _numpy()) else None


@contextmanager
def replay_random_state(chance: Chance) -> Generator[None]:
    """Within it the random numbers are those of the run that `chance` is from."""
    python = _python() if chance.python is not None else None
    numpy = _numpy() if chance.numpy is not None else None
    with noting() as now:
        try:
            _set(chance.python, chance.numpy)
            for stream, state in chance.streams.items():
                stream.state = state
            yield
        finally:
            _set(python, numpy)
            for stream, state in list(now.items()):
                stream.state = state


# --- The same result -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A tensor of the first result: what is needed to tell whether the second one is the same."""

    index: int
    spec: Spec
    check: int
    array: ref[Any]
    """The array itself, as long as somebody else keeps it: to say what differs."""

    @classmethod
    def of(cls, index: int, y: Any) -> Snapshot:
        """What is noted of leaf `index` of the result."""
        return cls(index, Spec(y.shape, y.dtype), _checksum(y), ref(y))

    def compare(self, y: Any) -> str:
        """What differs from `y`, '' if nothing does."""
        if not isinstance(y, Variable):
            return f"leaf {self.index} of its result was {self.spec} and is now {describe(y)}"
        was, now = self.spec, Spec(y.value.shape, y.value.dtype)
        if was != now:
            return f"leaf {self.index} of its result was {was} and is now {now}"
        if self.check == _checksum(y.value):
            return ""
        return f"leaf {self.index} of its result, {was}, has other values{self._how(y.value)}"

    def _how(self, new: Any) -> str:
        old = self.array()
        if old is None:
            return ""
        with np.errstate(all="ignore"):
            gap = np.max(np.abs(new - old)) if old.dtype.kind in INEXACT else "not a number"
        return f" at {np.count_nonzero(new != old)} of {new.size} places, by up to {gap:.3g}"


def _checksum(y: Any) -> int:
    """CRC-32 of the elements: another one by chance has this in one of 4,294,967,296 cases."""
    return zlib.crc32(np.ascontiguousarray(y).reshape(-1).view(np.uint8).data)


# --- Values that a policy keeps ------------------------------------------------------------------


@dataclass
class Keep(PassesOn):
    """Looks on at a first run: notes the ops that `policy` chooses, and their values."""

    policy: Callable[[Op], bool]
    ops: list[Op] = field(default_factory=list[Op])
    counts: list[int] = field(default_factory=list[int])
    values: list[Any] = field(default_factory=list[Any])
    """The arrays of all chosen ops, one after the other: `counts` says how many each has."""
    over: bool = False

    def __call__(self, op: Op, xs: Sequence[Any]) -> Any:
        """The op's value; noted if it is chosen."""
        y = apply(op, *xs)
        if not self.over and _has_variables(xs) and self.policy(op):
            ys = y if op.many else (y,)
            self.ops.append(op)
            self.counts.append(len(ys))
            self.values += [v.value for v in ys]
        return y


@dataclass
class SecondRun(PassesOn):
    """Looks on at a second run: the ops that were chosen in the first one are not computed."""

    first: Keep
    values: list[Any]
    where: str
    at: int = 0
    over: bool = False

    def __call__(self, op: Op, xs: Sequence[Any]) -> Any:
        """The op with the value that it had."""
        if self.over or not _has_variables(xs) or not self.first.policy(op):
            return apply(op, *xs)
        done, ops = self.at, self.first.ops
        self.at += 1
        if done >= len(ops) or ops[done].name != op.name:
            before = ops[done].name if done < len(ops) else "no further op"
            raise GradientError(
                f"{self.where}: computing it again took another path: '{op.name}' where the first "
                f"run had {before}. It must do the same for the same arguments"
            )
        start = sum(self.first.counts[:done])
        kept = self.values[start : start + self.first.counts[done]]
        y = apply(new_op(PrecomputedOp, op, kept), *xs)
        for v in y if op.many else (y,):
            if v.node is not None:  # from here on it is the op's own: rules are asked of the op
                (v.node.inputs[0] if op.many else v.node).op = op
        return y


def _has_variables(xs: Sequence[Any]) -> bool:
    return any(isinstance(x, Variable) for x in xs)


class PrecomputedOp(Op):
    """Stands for an op while it passes the door, whose value is known already."""

    op: Op
    values: list[Any]
    quiet: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The op's name."""
        return self.op.name

    @property
    def many(self) -> bool:  # type: ignore[override]
        """As the op."""
        return self.op.many

    def eval(self, *xs: Any) -> Any:
        """The known value."""
        return tuple(self.values) if self.many else self.values[0]

    def spec(self, *xs: Any) -> Any:
        """As the op."""
        return self.op.spec(*xs)

    def reads(self, i: int) -> Sequence[int] | None:
        """As the op."""
        return self.op.reads(i)
