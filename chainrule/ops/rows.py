"""Rows of the table of elementwise ops: a value, and one partial derivative for each argument.

Rows need no NumPy: `chainrule.scalar` computes with them on Python numbers. A row's value of arrays
is named (`Functions`) and found when `families`, which derives a row's rules for arrays, is loaded.

Notation: `d` a partial derivative; `y`, `x` or `a b c` the output and the inputs that it reads.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from inspect import unwrap
from typing import Any, cast, final

from chainrule.engine.op import Need, Op, Spec, derived
from chainrule.errors import ConfigError, GradientError
from chainrule.ops.descriptions import description
from chainrule.optional import require

Rule = Callable[[Any, Any, Sequence[Any]], Any]
"""`(g, y, xs) -> g * d`."""


# --- Values of arrays ----------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class LazyFunction:
    """A function by its name, of a module that may not be loaded yet."""

    module: str
    __name__: str

    def load(self, wanted: str) -> Callable[..., Any]:
        """The function; `wanted` is what needs it, for the error where a package is missing."""
        return getattr(require(self.module, wanted), self.__name__)

    def __call__(self, *args: Any) -> Any:
        """Call it: for values that a row writes out, `lambda x: np.cos(x) * x`."""
        return self.load(self.__name__)(*args)


@final
class Functions:
    """Stands for a module in a table: its attributes are names of functions (`LazyFunction`)."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return LazyFunction(self._module, name)


# --- Rows ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class NotOffered:
    """Stands for a partial derivative that has no formula here: asking for it is an error."""

    by: str
    """What is not differentiated by what."""

    def __call__(self, *xs: Any) -> Any:
        """Raises `GradientError`."""
        raise GradientError(
            f"the derivative of {self.by} is not offered: no finite sum of known functions gives "
            "it. Give a number, or an array that requires no gradient (x.detach()), or state the "
            "derivative yourself with cr.Function"
        )


@final
@dataclass(frozen=True)
class _RowDocstring:
    """The docstring of a row: what it computes, and an example. `own` is that of the class."""

    own: str

    def __get__(self, row: Any, kind: Any = None) -> str | None:
        if row is None:
            return self.own
        text = description(row.label)
        examples = import_module("chainrule.ops.row_examples").EXAMPLES
        return f"{text}\n\n{examples[row.label]}" if text and row.label in examples else text


@dataclass(frozen=True)
class Partial:
    """One partial derivative, and which of (y, *xs) its parameters name.

    Where it is `singular`, that is, can be infinite or NaN at a finite point, a cotangent that is
    exactly 0 contributes exactly 0 (the strong zero).
    """

    formula: Callable[..., Any]
    singular: bool

    @property
    def reads(self) -> tuple[int, ...]:
        """Places in (y, *xs)."""
        if isinstance(self.formula, NotOffered):
            return ()
        code: Any = unwrap(cast(Any, self.formula)).__code__  # as `signature`, ten times as fast
        return tuple([_PLACES[name] for name in code.co_varnames[: code.co_argcount]])

    def value(self, y: Any, xs: Sequence[Any]) -> Any:
        """The partial derivative itself."""
        return self.formula(*[xs[i - 1] if i else y for i in self.reads])


_PLACES = {"y": 0, "x": 1, "a": 1, "b": 2, "c": 3}


class Elementwise(Op):
    """An op that computes each element of its result from the elements at the same place.

    Shapes: [(...)] -> (...).
    `scalar` is the value on Python floats. What computes with arrays, `eval spec vjp strong_vjp
    jvp`, is put into each row by `families`.
    """

    __doc__ = cast(Any, _RowDocstring(__doc__ or ""))
    label: str
    fn: Callable[..., Any]
    partials: tuple[Partial, ...]
    scalar: Callable[..., float]
    forward: tuple[Rule, ...]
    """Rules for tangents, where they are not those for cotangents; else empty."""
    read: tuple[tuple[int, ...], ...] = derived()
    home: str = ""
    """The module whose table it stands in."""

    def prepare(self) -> None:
        """What the partials read; the rules for arrays, if those are loaded."""
        object.__setattr__(self, "read", tuple([p.reads for p in self.partials]))
        for equip in _equipment:
            equip(self)

    @property
    def name(self) -> str:
        """The name of its row in the table."""
        return self.label

    def eval(self, *xs: Any) -> Any:
        """The value, with NumPy's broadcasting and dtypes."""
        raise NotImplementedError  # this one and the next ones are put here by `equip`

    def spec(self, *xs: Any) -> Spec:
        """Broadcast shape; the dtype that NumPy gives, bfloat16 beside Python numbers itself."""
        raise NotImplementedError

    def strong_vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The vjp where a cotangent of 0 meets, or may meet, an infinity: it contributes exactly 0.

        A partial that is a number is multiplied as ever.
        """
        raise NotImplementedError

    def reads(self, i: int) -> tuple[int, ...] | None:
        """What the partial's parameters name; None where there is no partial."""
        return self.read[i] if self.read else None

    def __reduce__(self) -> Any:
        return row_of, (self.home, self.label)


rows: dict[str, Elementwise] = {}
"""Every elementwise op by name: the table in `elementwise.py`, as it is read."""
_equipment: list[Callable[[Elementwise], None]] = []


def equip_with(equip: Callable[[Elementwise], None]) -> None:
    """Let `equip` put the rules for arrays into every row, those to come included."""
    _equipment.append(equip)
    for row in rows.values():
        equip(row)


def row_of(home: str, label: str) -> Elementwise:
    """The row `label` of the table in the module `home`."""
    if home:
        import_module(home)
    return rows[label]


def wide(formula: Callable[..., Any]) -> Callable[..., Any]:
    """`formula`, computed in float64 where all that it reads is float32 (or float16), and rounded
    once.

    So are its derivatives. This costs little beside a square root or a division, and much beside an
    exponential: slopes of the activations are not stated so, theirs are.
    """

    @wraps(formula)
    def wrapper(*xs: Any) -> Any:
        typed = [x for x in xs if hasattr(x, "dtype")]
        narrow = {x.dtype.char for x in typed}
        if narrow not in ({"f"}, {"e"}):
            return formula(*xs)
        y = formula(*[x.astype("float64") if hasattr(x, "dtype") else x for x in xs])
        return y.astype(typed[0].dtype)

    return wrapper


def elementwise(
    fn: Callable[..., Any],
    *partials: Callable[..., Any],
    name: str | None = None,
    singular: bool = False,
    scalar: Callable[..., float] | None = None,
    forward: tuple[Rule, ...] = (),
) -> Elementwise:
    """A row of the table: a value, and one partial for each argument (none: no derivative).

    `scalar` is the value on Python floats; by default the function of the same name in `math`, or
    else `fn` itself. `forward` are rules for tangents that are not those for cotangents.
    Raises `ConfigError` if a table of the package has a row of that name.
    """
    label = name or fn.__name__
    plain: Any = scalar or getattr(math, label, None) or _from_array(label, fn)
    home = sys._getframe(1).f_globals["__name__"]  # pyright: ignore[reportPrivateUsage]
    stated = tuple([Partial(p, singular) for p in partials])
    before = rows.get(label)
    if before is not None and before.home != home and before.home.startswith("chainrule."):
        raise ConfigError(
            f"elementwise: {before.home} has a row named {label}: give yours another one, name=..."
        )
    row = rows[label] = Elementwise(label, fn, stated, plain, forward, home)
    return row


def _from_array(label: str, fn: Any) -> Callable[..., float]:
    def plain(*xs: Any) -> float:
        if not all(isinstance(x, float | int) for x in xs):
            raise TypeError(f"{label} of numbers is computed by NumPy, and cannot be written down")
        wanted = f"{label} of a Value"
        np = require("numpy", wanted)
        of_arrays = fn.load(wanted) if isinstance(fn, LazyFunction) else fn
        with np.errstate(all="ignore"):
            return np.asarray(of_arrays(*xs)).item()

    return plain
