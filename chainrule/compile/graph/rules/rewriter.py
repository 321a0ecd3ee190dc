"""Rewriting a program term by term, arguments first, by a table of rules.

A rule is given an op and arguments that have been rewritten already, and makes a simpler term that
has the same value, or None. What it makes with `op` is rewritten, too, so that rules need not know
of each other. What only depends on constants is computed at once, and what has no elements is a
constant, so that no loop ever runs over nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.graph.terms import Program, Term, Terms, in_order
from chainrule.ops.families import Linear, Multilinear

Rule = Callable[["Rewriter", Any, tuple[Term, ...]], Term | None]
Rules = Mapping[type, Sequence[Rule]]
"""By class of op, in the order in which they are tried."""


def merge_tables(*tables: Mapping[type, Rule]) -> Rules:
    """One table of several; the rules of the first are tried first."""
    out: dict[type, list[Rule]] = {}
    for table in tables:
        for kind, rule in table.items():
            out.setdefault(kind, []).append(rule)
    return out


def is_constant(t: Term) -> bool:
    """Whether the value of `t` is known."""
    return t.op is None and t.index is None


def number(x: Term) -> Any:
    """The Python number that `x` is, None if it is none."""
    plain = is_constant(x) and isinstance(x.value, bool | int | float)
    return x.value if plain else None


def uniform(x: Term) -> Any:
    """The number that every element of the constant `x` is, None if there is none."""
    if not is_constant(x):
        return None
    value = np.asarray(x.value)
    if not value.size or value.dtype.kind not in "biuf":
        return None
    first = value.reshape(-1)[:1]
    return first[0].item() if value.tobytes() == first.tobytes() * value.size else None


@final
class Rewriter:
    """Makes terms in their simplest form."""

    def __init__(self, terms: Terms, rules: Rules, sizes_vary: bool = False) -> None:
        self.sizes_vary = sizes_vary
        """Whether the sizes are some of many: no rule may make constants of them."""
        self._terms = terms
        self._rules = rules
        self._like: Term | None = None

    def op(self, op: Any, *args: Term) -> Term:
        """`op` of `args`, rewritten."""
        if all(is_constant(a) for a in args) and not op.many:
            return self._fold_constants(op, args)
        if _is_nothing(op, args):
            spec: Any = op.spec(*[a.spec for a in args])
            return self.constant(np.zeros(spec.shape, spec.dtype))
        kind: type = op.__class__
        for rule in self._rules.get(kind, ()):
            found = rule(self, op, args)
            if found is not None:
                return found
        return self.plain(op, *args)

    def plain(self, op: Any, *args: Term) -> Term:
        """`op` of `args` as it is."""
        made = self._terms.op(op, args, like=self._like)
        return made if op.many else self._or_nothing(made)

    def constant(self, value: Any) -> Term:
        """An array, or a Python number."""
        return self._terms.constant(value)

    def cast(self, x: Term, dtype: Any) -> Term:
        """`x` as a `dtype`."""
        from chainrule.ops.shapes.shaping import Astype

        if x.dtype == dtype:
            return x
        if number(x) is not None:  # a Python number, which is no array that could be cast
            return self.constant(np.asarray(x.value, dtype))
        return self.op(Astype(np.dtype(dtype)), x)

    def program(self, program: Program) -> Program:
        """The same program in simpler terms. An update to the value that was there is none."""
        new: dict[Term, Term] = {}
        for t in in_order(program.roots):
            self._like = t
            args = [new[a] for a in t.args]
            new[t] = self._given(t) if t.op is None else self.op(t.op, *args)
        updates = [(i, new[t]) for i, t in program.updates]
        return Program(
            program.inputs,
            tuple([new[t] for t in program.results]),
            tuple([(i, t) for i, t in updates if t is not program.inputs[i]]),
        )

    def _given(self, t: Term) -> Term:
        """An input, or a constant: a number is the one that rules make, too."""
        return self._or_nothing(t) if number(t) is None else self.constant(t.value)

    def _or_nothing(self, t: Term) -> Term:
        return self.constant(np.empty(t.shape, t.dtype)) if 0 in t.shape else t

    def _fold_constants(self, op: Any, args: tuple[Term, ...]) -> Term:
        """What can be computed now."""
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(op.eval(*[a.value for a in args])))


def _is_nothing(op: Any, args: Sequence[Term]) -> bool:
    """Whether the result is a sum of no terms."""
    if isinstance(op, Multilinear):
        return any(0 in a.shape for a in args)
    if not isinstance(op, Linear):
        return False
    return all(0 in a.shape for i, a in enumerate(args, 1) if i not in op.data)
