"""What an op is: a frozen value that says how to compute it and how to differentiate it.

Its rules are written in ops, so that they run on arrays, on tensors and on placeholders alike.

Notation: `y` an op's output, `xs` its inputs, `g` the cotangent of y, `ts` tangents of xs.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform, final

from chainrule.optional import require

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:

    def __getattr__(name):
        if name != "Array":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        np = import_module("numpy")
        found = globals()[name] = np.ndarray[Any, np.dtype[Any]]
        return found


Need = tuple[bool, ...]
kinds: dict[type, Callable[..., Any]] = {}
"""How other kinds of numbers (scalars, symbols) apply an op: `kinds[type](op, *xs)`."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of an array before it has values: its shape and its dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    weak: bool = False
    """Whether it stands for a Python number, which takes the dtype of the array that it meets."""

    __array_ufunc__ = None  # NumPy must never take one for an array

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def derived() -> Any:
    """Marks an attribute of an op that is worked out from its fields and is none itself."""
    return _DERIVED


_DERIVED = object()


def new_op(cls: type[_T], *args: Any) -> _T:
    """An op that is shared with nobody: one that belongs to a single call and dies with it."""
    op: Any = object.__new__(cls)
    names: tuple[str, ...] = op.fields
    given = dict(zip(names, args, strict=False))
    missing = [n for n in names if n not in given and not hasattr(cls, n)]
    if missing or len(args) > len(names):
        raise TypeError(f"{cls.__name__} has the fields {names}, not {len(args)} of them")
    for name in names:
        object.__setattr__(op, name, given[name] if name in given else getattr(cls, name))
    object.__setattr__(op, "plans", {})
    object.__setattr__(op, "takes", 0)
    op.prepare()
    return op


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(derived,))
class _Interned(ABCMeta):
    """Makes equal ops the same object, so that an op compares, hashes and caches by identity.

    The fields of an op are what its class annotates, in order, as in a frozen dataclass.
    Dataclasses take long to make, and there are a hundred ops. `typed`: 1, 1.0 and True are
    different fields.
    """

    fields: tuple[str, ...]

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> Any:
        """A class of ops: its own fields after those of its base."""
        cls = super().__new__(mcs, name, bases, space)
        own = [
            field
            for field, kind in space.get("__annotations__", {}).items()
            if not str(kind).startswith("ClassVar") and space.get(field) is not _DERIVED
        ]
        base = [f for b in bases for f in getattr(b, "fields", ()) if f not in own]
        cls.fields = (*base, *own)
        return cls

    __call__ = lru_cache(maxsize=1 << 14, typed=True)(new_op)


class Op(metaclass=_Interned):
    """A differentiable operation whose fields are its static parameters. Equal ops are one object.

    A rule gets the values that it says it reads. In place of another input it gets something that
    has the shape and the dtype only, a node or a `Spec`. In place of an output that it does not
    read, `vjp` gets None, and `jvp` a `Spec`.
    """

    many: ClassVar[bool] = False
    """Whether `eval` returns a tuple of arrays; `g` is then a tuple too, None where none came."""
    quiet: ClassVar[bool] = True
    """Whether `eval` is pure array code, which then runs without floating-point warnings."""
    of_user: ClassVar[bool] = False
    """Whether `eval` runs code that a user wrote, whose errors are raised as they are."""
    leading: ClassVar[bool] = False
    """Whether it works on the last axes alone, for every index of all leading axes, which
    broadcast.
    """
    passes: ClassVar[bool] = False
    """Whether its values are its inputs: it stands in a graph for the sake of its rules only."""
    fresh: ClassVar[bool] = False
    """Whether `vjp` neither keeps g nor returns memory of it: then g may be an array of the caller.
    """
    states_vjp: ClassVar[bool] = True
    """Whether `vjp` is stated; if not, it is derived by transposing `jvp`."""
    states_jvp: ClassVar[bool] = True
    """Whether `jvp` is stated; if not, it is derived by transposing `vjp`."""
    fields: ClassVar[tuple[str, ...]]
    """The names of its fields."""
    takes: int = derived()
    """How many arrays it takes; 0 if that depends."""
    plans: dict[int, tuple[Need, bool, tuple[int, ...]]] = derived()
    """By which inputs need a gradient (as bits, one more bit marking their number): to which it
    flows, () if to none; whether y is read; the places of the inputs that are not."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The word for this op in messages and pictures."""

    @abstractmethod
    def eval(self, *xs: Any) -> Any:
        """The value, arrays in and array (or tuple of arrays) out."""

    @abstractmethod
    def spec(self, *xs: Any) -> Any:
        """Shape and dtype of the value from those of `xs` (Specs, or plain Python numbers)."""

    @abstractmethod
    def reads(self, i: int) -> Sequence[int] | None:
        """Which values the rules of input `i` read: 0 is y, 1 the first input, ...

        None says that no gradient flows to input `i` (an index, say).
        """

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """For each input that needs one its cotangent `x_bar`, None for the others."""
        raise NotImplementedError

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangent `y_dot`; a None among `ts` stands for a tangent that is zero."""
        raise NotImplementedError

    def plan(self, mask: int) -> tuple[Need, bool, tuple[int, ...]]:
        """Fill in `plans[mask]`."""
        count = mask.bit_length() - 1
        wanted = [self.reads(i) if mask >> i & 1 else None for i in range(count)]
        read = {j for w in wanted if w is not None for j in w}
        need = tuple([w is not None for w in wanted])
        drop = tuple([i for i in range(count) if i + 1 not in read])
        self.plans[mask] = (need if True in need else (), 0 in read, drop)
        return self.plans[mask]

    def __str__(self) -> str:
        return self.name

    def __call__(self, *xs: Any, **unknown: Any) -> Any:
        """Apply to variables (recorded), arrays or numbers (computed)."""
        for x in xs:  # until `open_door` puts graph.apply here
            if x.__class__ in kinds:
                return kinds[x.__class__](self, *xs)
        require("numpy", str(self))
        import_module("chainrule.engine.tensors")
        return self(*xs, **unknown)

    def __reduce__(self) -> Any:
        return type(self), tuple([getattr(self, name) for name in self.fields])

    def __repr__(self) -> str:
        values = [f"{name}={getattr(self, name)!r}" for name in self.fields]
        return f"{type(self).__name__}({', '.join(values)})"

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r} cannot be changed: ops are values")

    def prepare(self) -> None:
        """Work out what is `derived` from the fields; for families, once for each op."""
        return


def open_door(apply: Callable[..., Any]) -> None:
    """Let ops be called: `graph.apply`, which stands above this file, is what calling one means."""
    Op.__call__ = apply  # type: ignore[method-assign]


class Pick(Op):
    """Output `index` of an op that has several."""

    index: int

    @property
    def name(self) -> str:
        """`output 1`, say."""
        return f"output {self.index}"

    def eval(self, *xs: Any) -> Any:
        """The output itself."""
        return xs[0][self.index]

    def spec(self, *xs: Any) -> Any:
        """The output's spec."""
        return xs[0][self.index]

    def reads(self, i: int) -> tuple[int, ...]:
        """Nothing."""
        return ()

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The cotangents of all outputs: `g` here, None elsewhere."""
        return (tuple([g if i == self.index else None for i in range(len(xs[0].shape))]),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The output's own tangent."""
        return ts[0][self.index]


class Unchanged(Op):
    """The first input itself: it stands in a graph for the sake of its rules only."""

    passes: ClassVar[bool] = True

    @final
    def eval(self, *xs: Any) -> Any:
        """The input."""
        return xs[0]

    @final
    def spec(self, *xs: Any) -> Any:
        """The input's spec."""
        return xs[0]


class Detach(Unchanged):
    """The input itself, without a derivative."""

    @property
    def name(self) -> str:
        """`detach`."""
        return "detach"

    def reads(self, i: int) -> None:
        """There is no derivative."""
        return


class Alias(Unchanged):
    """The input itself, as a place of its own in the graph."""

    @property
    def name(self) -> str:
        """`alias`."""
        return "alias"

    def reads(self, i: int) -> tuple[int, ...]:
        """Nothing."""
        return ()

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g`."""
        return (g,)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangent."""
        return ts[0]
