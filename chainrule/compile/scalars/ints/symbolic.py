"""Ints that write down what is done to them: one recording then stands for many ints.

Arithmetic gives more of them. Python gets an answer where it has to know one at once: at a branch,
in a `range`, as a key of a dictionary. The answer becomes a condition. For ints that meet all
conditions the function does what it did when it was recorded. An index into a list of Values is no
condition but data: the entry is chosen anew in each call (see `gather`).
"""

# What meets an int in a user's program may be anything.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from chainrule.scalar.rules import stand_ins

Check = Callable[[Sequence[int]], "tuple[int, ...] | None"]
"""Of other ints the indices of all gathers, None if they do not meet the conditions."""


@final
class Steps:
    """What one run did with its ints, in order: assignments and conditions, as Python source. `a`
    are the ints, `t0`, `t1` what is computed, `k0` tables."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._names: dict[str, str] = {}
        self._conditions: set[str] = set()
        self._tables: dict[str, Any] = {}
        self.fixed: set[int] = set()
        """The ints that have to stay what they were, by their number."""
        self.indices: list[str] = []
        """The index of each gather."""
        self.calls = 0
        """How many gathers there were."""
        self.scalars: list[str] = []
        """Ints that floats are computed from."""
        self.as_number: Callable[[SymbolicInt], Any] | None = None
        """Makes a float of an int, that writes down what is done to it; None where it stays one."""

    def define(self, text: str) -> str:
        """The name of what is computed so."""
        if text not in self._names:
            name = self._names[text] = f"t{len(self._names)}"
            self._lines.append(f"{name} = {text}")
        return self._names[text]

    def require(self, text: str) -> None:
        """A condition."""
        if text not in self._conditions:
            self._conditions.add(text)
            self._lines.append(f"if not {text}: return None")

    def decide(self, text: str, holds: bool) -> bool:
        """The answer to a question, which becomes a condition."""
        self.require(text if holds else f"(not {text})")
        return holds

    def table(self, entries: Sequence[int]) -> str:
        """The name of a table."""
        name = f"k{len(self._tables)}"
        self._tables[name] = tuple(entries)
        return name

    def index(self, name: str) -> int:
        """The number of a gather's index."""
        if name not in self.indices:
            self.indices.append(name)
        return self.indices.index(name)

    def scalar(self, name: str) -> int:
        """The number of an int that a float is computed from."""
        if name not in self.scalars:
            self.scalars.append(name)
        return self.scalars.index(name)

    def compiled(self, counts: Sequence[Any] = ()) -> Check:
        """All of it as a function of the ints, which gives the indices, then these `counts`, then
        the `scalars`."""
        names = [*self.indices, *map(str, map(_text, counts)), *self.scalars]
        end = f"return ({''.join([f'{x}, ' for x in names])})"
        body = "\n    ".join([*self._lines, end])
        space: dict[str, Any] = dict(self._tables)
        source = f"def check(a):\n    {body}\n"
        exec(compile(source, "<ints>", "exec"), space)
        space["check"].__doc__ = source
        return space["check"]


def source_of(check: Check) -> tuple[str, dict[str, tuple[int, ...]]]:
    """The source of a compiled check, and the tables that it reads."""
    space: dict[str, Any] = getattr(check, "__globals__", {})
    return check.__doc__ or "", {k: x for k, x in space.items() if isinstance(x, tuple)}


@final
class SymbolicInt:
    """Stands for an int. It is none for C, which so has to ask for its number."""

    __slots__ = ("_steps", "name", "number", "value")
    __array_ufunc__ = None

    def __init__(self, steps: Steps, name: str, value: int, number: int | None = None) -> None:
        self._steps = steps
        self.name = name
        self.value = value
        self.number = number
        """Which int it is, if nothing was computed."""

    @property
    def steps(self) -> Steps:
        """Where it is written down what is done."""
        return self._steps

    def __index__(self) -> int:
        if self.number is not None:
            self._steps.fixed.add(self.number)
        self._steps.require(f"{self.name} == {self.value!r}")
        return self.value

    __int__ = __trunc__ = __floor__ = __ceil__ = __index__

    def __bool__(self) -> bool:
        return self._steps.decide(self.name, self.value != 0)

    def __copy__(self) -> SymbolicInt:
        return self

    def __deepcopy__(self, memo: Any) -> SymbolicInt:
        return self

    def __pos__(self) -> SymbolicInt:
        return self

    def __neg__(self) -> SymbolicInt:
        return SymbolicInt(self._steps, self._steps.define(f"-{self.name}"), -self.value)


_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_AS_INTS = (
    "truediv", "pow", "divmod", "lshift", "rshift", "and", "or", "xor",
)  # fmt: skip
"""Operators whose result is one of the number that is there now."""
_UNARY = ("abs", "invert", "float", "hash", "str", "repr", "round", "format", "bytes")
_TO_FLOATS = {
    f"__{side}{name}__" for side in ("", "r") for name in ("add", "sub", "mul", "truediv", "pow")
}
"""Operators that floats have, too."""


def _text(x: Any) -> str | None:
    """An int in source; None for anything else."""
    if type(x) is SymbolicInt:
        return x.name
    return f"({x!r})" if type(x) is int or type(x) is bool else None


def plain(x: Any) -> Any:
    """The number of a symbol, which then has to stay; others as they are."""
    return x.__index__() if type(x) is SymbolicInt else x


def _add_arithmetic(name: str, sign: str) -> None:
    """Operators that give another such int."""
    of = getattr(int, f"__{name}__")

    def forward(a: SymbolicInt, b: Any) -> Any:
        text = _text(b)
        if text is None:
            return _operate(f"__{name}__", a, b)
        y = of(a.value, b.value if type(b) is SymbolicInt else b)
        return SymbolicInt(a.steps, a.steps.define(f"({a.name} {sign} {text})"), y)

    def reflected(b: SymbolicInt, a: Any) -> Any:
        text = _text(a)
        if text is None:
            return _operate(f"__r{name}__", b, a)
        return SymbolicInt(
            b.steps, b.steps.define(f"({text} {sign} {b.name})"), of(int(a), b.value)
        )

    setattr(SymbolicInt, f"__{name}__", forward)
    setattr(SymbolicInt, f"__r{name}__", reflected)


def _add_comparison(name: str, sign: str) -> None:
    """An operator whose answer becomes a condition."""
    of = getattr(int, f"__{name}__")

    def compare(a: SymbolicInt, b: Any) -> Any:
        text = _text(b)
        if text is None:
            return _operate(f"__{name}__", a, b) if isinstance(b, float) else NotImplemented
        holds = of(a.value, b.value if type(b) is SymbolicInt else b)
        return a.steps.decide(f"({a.name} {sign} {text})", holds)

    setattr(SymbolicInt, f"__{name}__", compare)


def _add_as_int(name: str) -> None:
    """A method that works with the number that is there now."""

    def operate(a: SymbolicInt, *rest: Any) -> Any:
        return _operate(name, a, *rest)

    setattr(SymbolicInt, name, operate)


def _install() -> None:
    """Give the class its operators."""
    for name, sign in _ARITHMETIC.items():
        _add_arithmetic(name, sign)
    for name, sign in COMPARISONS.items():
        _add_comparison(name, sign)
    for name in _AS_INTS:
        _add_as_int(f"__{name}__")
        _add_as_int(f"__r{name}__")
    for name in _UNARY:
        _add_as_int(f"__{name}__")
    for name in ("bit_length", "bit_count", "to_bytes", "as_integer_ratio", "conjugate"):
        _add_as_int(name)
    for name in ("real", "imag", "numerator", "denominator"):
        setattr(SymbolicInt, name, property(lambda a, name=name: getattr(plain(a), name)))
    stand_ins[SymbolicInt] = SymbolicInt.__index__


def _operate(name: str, a: SymbolicInt, *rest: Any) -> Any:
    """What the number that is there now does, or a float in its place."""
    if any(not isinstance(x, int | float) and type(x) is not SymbolicInt for x in rest):
        return NotImplemented
    floats = name in _TO_FLOATS and (name.endswith("truediv__") or float in map(type, rest))
    if floats and a.steps.as_number is not None:
        return getattr(a.steps.as_number(a), name)(*rest)
    method = getattr(int, name, None)
    if method is None:  # int has no __bytes__
        raise TypeError(f"an int has no {name}")
    y = method(plain(a), *map(plain, rest))
    if y is NotImplemented and len(rest) == 1 and isinstance(rest[0], float):
        return getattr(float, name)(float(a.value), rest[0])
    return y


_install()
