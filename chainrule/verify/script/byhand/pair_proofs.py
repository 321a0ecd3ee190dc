"""Whether two functions of which one seems to state the other's derivative belong together.

Any of these proves it: a gradient that is right beside the wrong one, right elements of a wrong
one, a change of the code that makes it right. So does a number that their object keeps, if all is
right with 0 or 1 in its place. That number must not be the weight of a term: a penalty may be left
out. What is put upon gradients on purpose disproves it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from chainrule.verify.arrays.layer import Layer
from chainrule.verify.arrays.methods import results_of
from chainrule.verify.finding import Finding
from chainrule.verify.script.byhand.loss import is_surely_wrong
from chainrule.verify.script.byhand.pairs import Stated
from chainrule.verify.script.sandbox.fork import LostError, in_confined_copy
from chainrule.verify.subject import Array, Subject, values, wanted
from chainrule.verify.trees import tree_of_file

_ENOUGH = 3
"""Elements that are right by no chance."""
_SETTINGS = 4
"""Numbers of an object that are tried."""
_STEP = 1e-5


def is_proved(stated: Stated, subject: Subject, found: Sequence[Finding]) -> bool:
    """Whether the two belong together: some gradient, or a part of one, is right, or a change makes
    one right."""
    if any(f.name.code == "wrong_shape" for f in found):
        return False  # they are gradients of something else
    both = both_gradients(subject)
    if both.has_decay and any(f.name.code == "extra_term" for f in found):
        return False  # which is no part of the value, and need not be
    if any(is_surely_wrong(f, named=stated.named) for f in found) or both.is_right_in_part:
        return True
    wrong = {f.input for f in found}
    right = [i for i in wanted(subject) if subject.inputs[i].name not in wrong]
    some = "" not in wrong and any(gives_any(subject)[i] for i in right)
    return some or _is_right_at_a_setting(subject)


def gives_number(subject: Subject) -> bool:
    """Whether the forward gives one number."""
    return [y.size for y in subject.forward(values(subject))] == [1]


def gives_any(subject: Subject) -> dict[int, bool]:
    """Whether the backward gives each wanted input a gradient other than 0."""
    xs = values(subject)
    gs = [np.ones_like(y) for y in subject.forward(xs)]
    bars = subject.pull(xs, gs)
    return {i: bars[i] is not None and bool(np.any(bars[i])) for i in wanted(subject)}


def doubted(stated: Stated, subject: Subject, found: Sequence[Finding]) -> list[Finding]:
    """Notes on a gradient that goes along with that of a number, and is another one; none where it
    is right at what the script computed with."""
    both = both_gradients(subject)
    if both.said @ both.due <= 0 or np.allclose(both.said, both.due, rtol=1e-6, atol=1e-9):
        return []
    whose = f"{stated.backward} takes what {stated.forward} takes, and is not its derivative"
    if stated.forward == stated.backward:
        whose = f"what {stated.forward} returns beside its value is not that value's derivative"
    says = f"{whose}; if it is to be that of something else, nothing is to be done"
    return [replace(f, level="note", evidence=(says, *f.evidence)) for f in found]


def _is_right_at_a_setting(subject: Subject) -> bool:
    """Whether the gradient is right with 0 or 1 for a number of the object's, which weights no term
    of the value."""
    if not isinstance(subject, Layer) or subject.takes_cotangent:
        return False
    for name, setting in list(subject.settings.items())[:_SETTINGS]:
        ends = [subject.at_setting(name, x) for x in (0.0, 1.0)]
        if any(map(_is_right, ends)):
            at_0, at_1, now = [float(s.forward(values(s))[0].item()) for s in (*ends, subject)]
            if abs(at_0 + setting * (at_1 - at_0) - now) > 1e-9 * abs(now):
                return True
    return False


def recomputing_method(subject: Subject) -> str | None:
    """A method of the object that computes again what it keeps of its parameters: all gradients are
    right where it runs before the forward, as those of a norm by power iteration; else None."""
    if not isinstance(subject, Layer):
        return None
    cls = cast("type[Any]", type(subject.owner))
    others = [m for m in vars(cls) if m not in subject.names and not m.startswith("__")]
    for name in [m for m in others if callable(getattr(subject.owner, m))]:
        for args in _arguments_of(cls, name):
            with suppress(LostError):  # it is called another way, or would leave a trace
                if in_confined_copy(partial(_is_right_behind, subject, name, args)):
                    return name
    return None


def _arguments_of(cls: type[Any], method: str) -> Iterator[list[Any]]:
    """What the script gives a method, where these are constants."""
    for n in ast.walk(tree_of_file(inspect.getfile(cls))):
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == method:
            with suppress(ValueError):
                yield [ast.literal_eval(a) for a in n.args]


def _is_right_behind(subject: Layer, method: str, args: Sequence[Any]) -> bool:
    """Whether the gradients are those of the forward behind a call of a method, which changes
    nothing where the object is."""
    xs, rng = values(subject), np.random.default_rng(3)
    ys = subject.forward(xs)
    gs = [rng.normal(size=y.shape) for y in ys]

    def along(k: int, t: Array, by: float) -> float:
        moved = [x + by * t if i == k else x for i, x in enumerate(xs)]
        layer = subject.copied(moved)
        getattr(layer, method)(*args)
        found = results_of(layer, subject.called(layer, moved))
        return float(sum(np.sum(g * y) for g, y in zip(gs, found, strict=False)))

    at = float(sum(np.sum(g * y) for g, y in zip(gs, ys, strict=True)))
    bars = subject.pull(xs, gs)
    stated = [(k, np.asarray(bars[k])) for k in wanted(subject) if bars[k] is not None]
    for k, bar in stated:
        t = rng.normal(size=bar.shape)
        slope = (along(k, t, _STEP) - along(k, t, -_STEP)) / (2 * _STEP)
        pair = [along(k, t, 0.0), slope], [at, float(np.sum(bar * t))]
        if not np.allclose(*pair, rtol=1e-5, atol=1e-7):
            return False
    return bool(stated)


def _is_right(subject: Subject) -> bool:
    both = both_gradients(subject)
    return bool(np.any(both.due)) and not both.differs.any()


@dataclass(frozen=True)
class Both:
    """All gradients of a number in one row, as they are stated and as they are, and what they are
    gradients by; nothing where they are not of a number."""

    said: Array
    due: Array
    x: Array

    @property
    def differs(self) -> Array:
        """Which elements do."""
        return ~np.isclose(self.said, self.due, rtol=1e-6, atol=1e-12)

    @property
    def has_one_factor(self) -> bool:
        """Whether all gradients are the same positive multiple of the right ones."""
        factor = _multiple(self.said, self.due)
        return self.due.size > 0 and factor > 0

    @property
    def has_decay(self) -> bool:
        """Whether what is too much is a multiple of what it is a gradient by."""
        wrong = self.differs
        return bool(wrong.any()) and _multiple((self.said - self.due)[wrong], self.x[wrong]) > 0

    @property
    def is_right_in_part(self) -> bool:
        """Whether some elements are right, by no chance, and what is wrong with the others is
        nothing that is put upon gradients: a decay, a bound, a share that is kept from learning."""
        wrong = self.differs
        right = self.due[~wrong & (self.due != 0)]
        put_upon = self.has_decay or not wrong.any() or np.ptp(np.abs(self.said[wrong])) == 0
        return len(np.unique(right)) >= _ENOUGH and not put_upon


def _multiple(a: Array, b: Array) -> float:
    """c, where a = c * b; else 0."""
    c = float(a @ b) / max(float(b @ b), 1e-300)
    return c if np.allclose(a, c * b, rtol=1e-6, atol=1e-9) else 0.0


def both_gradients(subject: Subject) -> Both:
    """Those of a subject that gives a number."""
    nothing = Both(np.zeros(0), np.zeros(0), np.zeros(0))
    if subject.takes_cotangent:
        return nothing
    xs = values(subject)
    gs = [np.ones_like(y) for y in subject.forward(xs)]
    right = subject.derived(xs, gs)
    if right is None:
        return nothing
    of = wanted(subject)
    said, due, x = (_flat([row[i] for i in of]) for row in (subject.pull(xs, gs), right, xs))
    return Both(said, due, x) if said.shape == due.shape == x.shape else nothing


def _flat(parts: Sequence[Array | None]) -> Array:
    return np.concatenate([np.ravel(x) for x in parts if x is not None] or [np.zeros(0)])
