"""Which formula a program was to compute: the one that a single small change makes of it.

All values of a program are looked up among those of the formulas that its words speak of. A formula
that it has is right. Of another one, the changes are looked for that give a value of it, at all
points, from arguments that the change leaves as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.assignments import fill
from chainrule.verify.formulas.candidates import Key, Trace, Unit, literals_of
from chainrule.verify.formulas.changes import Change, changes_of, is_name
from chainrule.verify.formulas.edits import Edit
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.lookup import Table, same_up_to
from chainrule.verify.formulas.meanings import Item, Meaning, is_trivial
from chainrule.verify.formulas.values import is_mask
from chainrule.verify.formulas.words import speaks_of, words_of
from chainrule.verify.stopwatch import interrupted_after

_POINTS = 3
"""At which values are looked up; more to be sure."""
_SURE = (11, 12, 13)
_CLOSE = 1e-4
_RIGHT = 1e-3
"""Up to which a value is that of a formula already."""
_RIGHT_NUMBER = 1e-5
_ITEMS = 26
_SECONDS = 0.25
"""Of a change."""
_UNLIKE = 0.55
"""How little names of arguments may say that they are a formula's, on average."""
_WEAK = 0.25
"""The same, where no other word there speaks of the formula."""
_SPREAD = 1e-3
"""By which a formula's value differs between points, at least."""
_COMPUTED = 2
_VIEWS = frozenset({
    "unsqueeze", "squeeze", "view", "reshape", "flatten", "t", "transpose", "permute", "float",
    "double", "detach", "long", "int", "expand", "item", "astype", "ravel", "bool", "swapaxes",
})  # fmt: skip


@dataclass(frozen=True, eq=False)
class Found:
    """A formula, and the change that makes it."""

    meaning: Meaning
    edit: Edit
    file: str
    text: str
    """Of the value that is it then."""
    changed: int
    """Values of statements that the change makes others."""
    is_negative: bool
    """Whether it is less the formula, where that is the same."""
    is_spoken: bool
    """Whether the name of the value, or of the function, speaks of the formula."""

    @property
    def rank(self) -> tuple[float, ...]:
        """The least is the likeliest."""
        meaning = self.meaning
        worth = (not self.is_spoken, round(meaning.cost, 1), -len(meaning.items), self.is_negative)
        return (*map(float, worth), meaning.reduction != "", self.changed, self.edit.cost)


class Search:
    """The formulas near one unit.

    Args:
        unit: A program.
        formulas: Those that are looked for.
        is_over: Whether there is no time left.
    """

    def __init__(
        self, unit: Unit, formulas: Sequence[Formula], is_over: Callable[[], bool]
    ) -> None:
        self._unit = unit
        self._is_over = is_over
        self._traces = [unit.run(unit.moved(i) if i else {}) for i in range(_POINTS)]
        self._sure: dict[int, Trace] = {}
        self._trivial: dict[int, bool] = {}
        self._right: set[Key] = set()
        """Values that are those of formulas as it is."""
        self.items = list(self._items())
        self.table = Table(_POINTS)
        for _ in fill(self.table, formulas, self.items):
            if is_over():
                break

    def _items(self) -> Iterator[Item]:
        """What may be arguments, the plainest first; of equal ones the first."""
        known = list[Item]()
        base = self._traces[0]
        for key, x in sorted(base.values.items(), key=lambda row: _rank(row[0][1])):
            points = [t.values.get(key) for t in self._traces]
            rows = tuple([p for p in points if p is not None and p.shape == x.shape])
            is_late = _plainness(key[1]) > _COMPUTED or _plain(key[1]).startswith("return")
            if len(rows) < _POINTS or is_late or not np.isfinite(x).all() or _is_trivial(x):
                continue
            if not any(all(map(np.array_equal, k.points, rows)) for k in known):
                known.append(Item(key, _plain(key[1]), rows, base.kinds[key].elements))
        yield from known[:_ITEMS]
        for x in known[:_ITEMS]:
            least, most = (min(map(np.min, x.points)), max(map(np.max, x.points)))
            if x.elements == "float" and 0 <= least < most <= 1 and not is_mask(x.points[0]):
                squares = tuple([p**2 for p in x.points])
                yield replace(x, text=f"{x.text} ** 2", points=squares, is_squared=True)
        for n in literals_of(self._unit.lines):
            yield Item(None, str(n), (np.asarray(n),), "float")

    def right(self) -> set[str]:
        """Formulas that the program computes as it is: here, where values are as they may be, or at
        all points."""
        found = set[str]()
        for key, value in self._traces[0].values.items():
            is_passing = value.size == 1 and self._unit.lines[key[0]].is_loop
            if is_name(key[1]) or is_passing:
                continue  # what is given is no result, nor what a loop hands on
            at = [t.values[key] for t in self._traces if key in t.values]
            tolerance = _RIGHT if value.size > 2 else _RIGHT_NUMBER
            near = [*self.table.near([value], tolerance)]
            near += [*self.table.near(at, tolerance)] if len(at) == _POINTS else []
            for meaning in near:
                if (meaning.formula.name not in found or key not in self._right) and (
                    self._is_value(meaning, key)
                ):
                    found.add(meaning.formula.name)
                    self._right.add(key)
        return found

    def _is_value(self, meaning: Meaning, key: Key) -> bool:
        """Whether it comes of the formula's arguments, and stands where it belongs."""
        leads = _lead_to(meaning, key, self._unit.ancestors(key[0]))
        return leads and not (meaning.reduction and self._is_in_other_order(meaning))

    def _is_in_other_order(self, meaning: Meaning) -> bool:
        """Whether a value has the elements of a formula's, and not where they belong."""
        base = self._traces[0].values
        whole = replace(meaning, reduction="").value(base)
        some = () if whole is None else [v for v in base.values() if v.shape == whole.shape]
        return any(
            np.allclose(np.sort(v, None), np.sort(whole, None), rtol=_RIGHT)
            and not np.allclose(v, whole, rtol=_RIGHT)
            for v in some
            if whole is not None
        )

    def changes(self, right: set[str]) -> list[Change]:
        """What may make a formula, the likeliest first."""
        is_any = self.table.formulas - right
        return changes_of(self._unit, self._traces[0].kinds) if is_any else []

    def made_by(self, change: Change, right: set[str]) -> Found | None:
        """The formula that a change makes; none of those that are right."""
        try:
            with interrupted_after(_SECONDS):
                found = list(self._made(change, self.table.formulas - right))
                return min(found, key=lambda each: each.rank, default=None)
        except Exception:  # whatever a change does
            return None

    def _made(self, change: Change, wanted: set[str]) -> Iterator[Found]:
        """The formulas that a change makes, of values that are none before it."""
        base, traces = self._traces[0], [change.run(self._traces[0])]
        new = {k: v for k, v in traces[0].values.items() if not _is_same(base.values.get(k), v)}
        if self._right & new.keys():
            return  # what is right is left as it is
        for key, value in new.items():
            if not self.table.needs_all(value) and not any(
                True for _ in self.table.near([value], _CLOSE)
            ):
                continue
            while len(traces) < _POINTS:
                traces.append(change.run(self._traces[len(traces)]))
            at = [t.values[key] for t in traces if key in t.values]
            for meaning in self.table.near(at, _CLOSE) if len(at) == _POINTS else ():
                lines = self._unit.ancestors(key[0], change.at, change.edit.statement)
                is_wanted = meaning.formula.name in wanted and meaning.cost <= _UNLIKE
                is_wanted = is_wanted and meaning.is_named
                is_wanted = is_wanted and _lead_to(meaning, key, lines)
                is_kept = is_wanted and _stay(meaning, base, traces[0])
                if is_kept and self._is_sure(meaning, change, key):
                    count = sum(_is_whole(text) for _, text in new)
                    own = meaning.value(base.values)
                    less = own is not None and float((own * value).sum()) < 0
                    is_spoken = speaks_of(meaning.formula, self._words(key))
                    if not is_spoken and (len(meaning.items) == 1 or meaning.cost > _WEAK):
                        continue  # many values are a function of one, or of some
                    yield Found(
                        meaning, change.edit, change.file, _plain(key[1]), count, less, is_spoken
                    )

    def _words(self, key: Key) -> set[str]:
        """Of the names of a value, of what it is made of there, and of its function."""
        line = self._unit.lines[key[0]]
        reads = () if line.step is None else line.step.reads
        names = [*line.writes, *reads, *self._unit.activation.code.co_qualname.split(".")]
        found = [w for name in names for w in (*words_of(name), "".join(words_of(name)))]
        return set(found)

    def _is_sure(self, meaning: Meaning, change: Change, key: Key) -> bool:
        """The same, of all elements and at more points."""
        if id(meaning) not in self._trivial:
            self._trivial[id(meaning)] = is_trivial(meaning, self._traces[0].values)
        if self._trivial[id(meaning)]:
            return False
        rows = list[tuple[Array, Array]]()
        for seed in _SURE:
            if seed not in self._sure:
                self._sure[seed] = self._unit.run(self._unit.moved(seed))
            was = self._sure[seed]
            now = change.run(was)
            value = meaning.value(was.values)
            if value is None or not _stay(meaning, was, now):
                return False
            if now.values[key].shape != value.shape:
                return False
            rows.append((now.values[key].reshape(-1), value.reshape(-1)))
        a, b = (np.stack([r[i] for r in rows]) for i in (0, 1))
        if not same_up_to(a.reshape(-1), b.reshape(-1), meaning.formula.up_to, _CLOSE):
            return False
        spread = float(np.abs(b - b.mean(0)).max()) / float(np.abs(b).max())
        if spread < _SPREAD or not same_up_to(
            a.reshape(-1), b.reshape(-1), meaning.formula.up_to, _CLOSE * spread
        ):
            return False
        if meaning.reduction and self._is_in_other_order(meaning):
            return False
        is_named = is_name(change.edit.after)
        if not is_named and self._has_nearly([a for a, _ in rows], meaning.formula.up_to):
            return False
        return meaning.needs_all([t.values for t in self._sure.values()])

    def _has_nearly(self, rows: Sequence[Array], up_to: str) -> bool:
        """Whether the program has a value of which this is a share, or from which it hardly
        differs: a term that is weighted, or one that a change makes vanish, is no formula more."""
        first = [t.values for t in self._sure.values()]
        for key, value in first[0].items():
            some = [t[key].reshape(-1) for t in first if key in t and t[key].size == rows[0].size]
            if value.size == rows[0].size and len(some) == len(rows):
                a, b = np.concatenate(rows), np.concatenate(some)
                if same_up_to(a, b, up_to, _CLOSE):
                    return True
        return False


def _stay(meaning: Meaning, was: Trace, now: Trace) -> bool:
    """Whether a change leaves a formula's arguments as they are."""
    return all(_is_same(now.values.get(k, was.values[k]), was.values[k]) for k in meaning.places())


def _lead_to(meaning: Meaning, key: Key, lines: set[int]) -> bool:
    """Whether a formula's arguments stand on lines that lead to what may be its value, or in it."""
    at, text = key
    return all(
        i in lines
        if i != at
        else not _is_whole(arg) and arg != text and (_is_whole(text) or arg in text)
        for i, arg in meaning.places()
    )


def _is_trivial(x: Array) -> bool:
    """A number that makes a term vanish."""
    return x.ndim == 0 and float(x) in (0.0, 1.0, -1.0)


def _is_whole(text: str) -> bool:
    """Whether a value is what a whole statement leaves."""
    return " =" in text


def _plain(text: str) -> str:
    return text.split("#")[0].removesuffix(" =")


def _rank(text: str) -> float:
    """Which of equal values is the better argument: what has a name of its own."""
    return _plainness(text) + (0.5 if "#" in text else 0.0)


def _plainness(text: str) -> int:
    """0 for a name, 1 for an item or a view of it, more for what is computed."""
    plain = _plain(text)
    if is_name(plain):
        return 0
    node = ast.parse(plain, mode="eval").body
    match node:
        case ast.Name():
            return 0
        case ast.Subscript() | ast.Attribute():
            return 1
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in _VIEWS:
            return 1
        case ast.Call():
            return 2
        case _:
            return 3


def _is_same(a: Array | None, b: Array | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b, equal_nan=True)
