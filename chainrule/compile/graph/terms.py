"""Terms: a recorded computation as values that know nothing of Python objects.

A `Term` is an op applied to terms, an input or a constant. Equal terms of one `Terms` are one
object, so common subexpressions exist once and whatever nobody reaches is gone. A `Program` is what
one call computes: its results, and new values for what it was given.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, final

import numpy as np

from chainrule.compile.graph.walks import post_order
from chainrule.engine.op import Op, Spec


@final
@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One value of a program.

    `op` and `args` say how it is computed. An input has `index`, its place among the program's
    inputs. A constant has `value`: an array, or a Python number, which promotes as such. Of an op
    with several outputs, `shape` and `dtype` are tuples. `code` and `at` tell the user's line.
    """

    op: Any
    args: tuple[Term, ...]
    shape: Any
    dtype: Any
    value: Any = None
    index: int | None = None
    code: CodeType | None = None
    at: int = 0

    @property
    def many(self) -> bool:
        """Whether it stands for several outputs."""
        return isinstance(self.dtype, tuple)

    @property
    def spec(self) -> Spec:
        """Shape and dtype."""
        return Spec(self.shape, self.dtype)

    def of(self, args: Sequence[Term]) -> Term:
        """The same op of other arguments; itself if they are its own."""
        same = len(args) == len(self.args) and all(map(operator.is_, args, self.args))
        return self if same else replace(self, args=tuple(args))

    def then(self, op: Any, *, shape: Any = None, dtype: Any = None) -> Term:
        """`op` of it, of its shape and dtype if no others are given, on its line."""
        kind = self.shape if shape is None else shape, dtype or self.dtype
        return Term(op, (self,), *kind, None, None, self.code, self.at)

    @property
    def name(self) -> str:
        """The op's name, `input 3` or `constant`."""
        if self.op is not None:
            return self.op.name
        return "constant" if self.index is None else f"input {self.index}"

    def __repr__(self) -> str:
        return f"<{self.name} {self.dtype} {self.shape}>"


@final
class Terms:
    """Makes terms, each only once."""

    def __init__(self) -> None:
        self._known: dict[Any, Term] = {}

    def op(self, op: Op, args: Sequence[Term], *, like: Term | None = None) -> Term:
        """`op` of `args`; `like` tells the user's line."""
        key = (op, *map(id, args))
        found = self._known.get(key)
        if found is None:
            specs = [a.value if _plain(a.value) else _spec(a) for a in args]
            y = op.spec(*specs)
            shape, dtype = (
                (tuple([s.shape for s in y]), tuple([s.dtype for s in y]))
                if op.many
                else (y.shape, y.dtype)
            )
            at = (like.code, like.at) if like is not None else (None, 0)
            found = self._known[key] = Term(op, tuple(args), shape, dtype, None, None, *at)
        return found

    def input(self, index: int, shape: tuple[int, ...], dtype: Any) -> Term:
        """Input number `index`."""
        return self._once(("input", index), Term(None, (), shape, np.dtype(dtype), None, index))

    def constant(self, value: Any) -> Term:
        """An array, or a Python number."""
        if _plain(value):
            # repr: 0.0 and -0.0 are equal, and NaN is not equal to itself
            key: Any = ("number", type(value), repr(value))
            return self._once(key, Term(None, (), (), np.result_type(value), value))
        array = np.array(value, order="C")
        array.flags.writeable = False
        key = ("array", array.shape, array.dtype, array.tobytes())
        return self._once(key, Term(None, (), array.shape, array.dtype, array))

    def _once(self, key: Any, term: Term) -> Term:
        return self._known.setdefault(key, term)


def _plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic)


def _spec(t: Term) -> Any:
    """What an op's `spec` is to be told of `t`: for several outputs, their specs."""
    if t.many:
        return tuple([Spec(s, d) for s, d in zip(t.shape, t.dtype, strict=True)])
    return t.spec


@final
@dataclass(frozen=True, slots=True)
class Program:
    """What one call computes.

    `inputs` are all that it is given, in order: what the caller passes, then what the function
    reaches by itself. `results` are what it returns. `updates` are (place among the inputs, new
    value): that input is to have that value afterwards.
    """

    inputs: tuple[Term, ...]
    results: tuple[Term, ...]
    updates: tuple[tuple[int, Term], ...] = ()

    def of(self, new: Mapping[Term, Term]) -> Program:
        """The same results and updates, by what stands for their terms."""
        updates = tuple([(i, new[t]) for i, t in self.updates])
        return Program(self.inputs, tuple([new[t] for t in self.results]), updates)

    @property
    def roots(self) -> list[Term]:
        """Everything that must be computed."""
        return [*self.results, *[t for _, t in self.updates]]


def in_order(
    roots: Iterable[Term], args: Callable[[Term], Sequence[Term]] = lambda t: t.args
) -> list[Term]:
    """The terms that `roots` depend on, each after its arguments, roots included; `args` says what
    these are, if not those that it has."""
    return post_order(roots, args)


@dataclass
class Values:
    """Runs a program op by op on arrays: what every faster way must agree with."""

    program: Program
    values: dict[Term, Any] = field(default_factory=dict[Term, Any])

    def run(self, inputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results, and the new values of `updates`, in order."""
        known = dict(zip(self.program.inputs, inputs, strict=True))
        with np.errstate(all="ignore"):
            for t in in_order(self.program.roots):
                if t.op is not None:
                    known[t] = t.op.eval(*[known[a] for a in t.args])
                elif t.index is None:
                    known[t] = t.value
        arrays = [np.asarray(known[t]) for t in self.program.roots]
        count = len(self.program.results)
        return arrays[:count], arrays[count:]
