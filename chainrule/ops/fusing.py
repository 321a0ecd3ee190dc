"""Composites that eager calls run as kernels: which, when, and what stands in the graph for them.

`@fused` marks a composite. Where its first argument is large, a call runs its value, and later its
derivative, as one compiled kernel each; they are made of the composite itself, once for all sizes.
Whether a call does depends on shapes and dtypes alone, so that equal calls give equal bits, watched
or not. None does where the compiler's packages are not installed, or where the parts are wanted:
while ops are traced or handed to somebody, and within `op_by_op`. Derivatives beyond the first, and
tangents, are those of the composite op by op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, wraps
from inspect import Signature, signature
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, cast, final

import numpy as np

from chainrule.engine.doors import Door, door
from chainrule.engine.dtypes import Dtype
from chainrule.engine.graph import (
    Variable,
    placeholder,
)
from chainrule.engine.op import Need, Op, derived
from chainrule.errors import ConfigError, DtypeError, IndexingError, ShapeError
from chainrule.ops import eager_kernels
from chainrule.ops.axis_letters import flat_shape, shape_of, sizes_of_letters
from chainrule.ops.composite_derivatives import pull_back, push_forward
from chainrule.ops.eager_kernels import Direct, Kernel, maker
from chainrule.ops.kernel_use import are_kernel_arrays, fuses

_F = TypeVar("_F", bound=Callable[..., Any])


# --- Whether -------------------------------------------------------------------------------------


# --- Which ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Composite:
    """A function of ops that can be a kernel; `axes` and `to` as `fused` is told them."""

    name: str
    f: Callable[..., Any]
    axes: Mapping[str, str]
    to: str | tuple[str, ...]
    parameters: Signature
    known: dict[Any, tuple[Door | None, Sequence[int]]] = field(default_factory=dict[Any, Any])
    """By what is known of a call without its numbers: the op, and which arguments its inputs are.
    """

    def op(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Door | None, list[Any]]:
        """What applies the op that stands for a call, and its inputs; None if the call is to run op
        by op."""
        whole = [*args, *kwargs.values()] if kwargs else args
        key: list[Any] = [len(args), *kwargs] if kwargs else [len(args)]
        for x in whole:
            value = x.value if isinstance(x, Variable) else x
            if value.__class__ is np.ndarray:
                key += value.shape, value.dtype
            else:
                key += value.__class__, value
        call = tuple(key)
        try:
            run, places = self.known[call]
        except KeyError:
            op, given = self._bound(args, kwargs)
            run = None if op is None else door(op)
            named = [*list(self.parameters.parameters)[: len(args)], *kwargs]
            # by name: two arguments may be one object here, and two the next time
            places = [named.index(name) for name in given]
            if len(self.known) >= _MOST:
                self.known.clear()
            self.known[call] = run, places
        except TypeError:  # an argument that is no plain value
            return None, []
        return run, [whole[i] for i in places]

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Op | None, list[str]]:
        """The op that stands for a call, and the names of its inputs."""
        try:
            bound = self.parameters.bind(*args, **kwargs)
        except TypeError:  # the function itself says it better
            return None, []
        bound.apply_defaults()
        given = {n: x for n, x in bound.arguments.items() if n in self.axes and x is not None}
        arrays = [x.value if isinstance(x, Variable) else x for x in given.values()]
        static = {n: v for n, v in bound.arguments.items() if n not in given}
        if static.get("axis", -1) in (None, arrays[0].ndim - 1):
            static["axis"] = -1
        plain = all(v is None or isinstance(v, str | float | int) for v in static.values())
        letters = [self.axes[n] for n in given]
        if not (plain and static.get("axis", -1) == -1 and are_kernel_arrays(letters, arrays)):
            return None, []
        kind = Fused if isinstance(self.to, str) else FusedSeveral
        return kind(self.name, tuple(given), tuple(static.items())), list(given)


composites: dict[str, Composite] = {}
_REFUSED = ConfigError, DtypeError, IndexingError, ShapeError
"""What is raised for arguments that a composite is not for."""
_MOST = 4096
"""Kinds of calls that are remembered."""


def fused(name: str, *, to: str | tuple[str, ...], **axes: str) -> Callable[[_F], _F]:
    """Marks a composite that may run as a kernel; `name` is the word for it in graphs.

    `axes` name the axes of its array arguments by a letter each. A first N is all leading axes
    together, a last L all trailing ones. Axes of one letter have one size; a digit is a size. `to`
    does so for the result, or begins so if that has fewer axes; for each, where there are several.
    An argument `axis` has to be the last one, which None means. All others are Python values.
    """

    def mark(f: _F) -> _F:
        composite = composites[name] = Composite(name, f, axes, to, signature(f))
        first = next(iter(composite.parameters.parameters))

        @wraps(f)
        def run(*args: Any, **kwargs: Any) -> Any:
            x: Any = args[0] if args else kwargs.get(first)
            value: Any = x.value if isinstance(x, Variable) else x
            if value.__class__ is np.ndarray and value.size >= eager_kernels.LEAST and fuses():
                op, xs = composite.op(args, kwargs)
                if op is not None:
                    try:
                        return op(*xs)
                    except _REFUSED:  # op by op it says better what is wrong
                        return f(*args, **kwargs)
            return f(*args, **kwargs)

        return cast(_F, run)

    return mark


# --- What stands in the graph --------------------------------------------------------------------


class Fused(Op):
    """A composite as one op, which keeps its inputs and computes what is between again."""

    composite: str
    given: tuple[str, ...]
    """The names of its inputs."""
    static: tuple[tuple[str, Any], ...]
    """Its other arguments."""
    latest: dict[Any, Direct] = derived()
    """By the shape of the first input, and with need for cotangents, what ran its kernel last."""
    quiet: ClassVar[bool] = False
    fresh: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The composite's."""
        return self.composite

    @final
    def prepare(self) -> None:
        """It takes as many arrays as it is given, and has not run."""
        object.__setattr__(self, "takes", len(self.given))
        object.__setattr__(self, "latest", {})

    def plain(self, xs: Sequence[Any]) -> Any:
        """The composite, op by op."""
        return self.known.f(**dict(zip(self.given, xs, strict=True)), **dict(self.static))

    def eval(self, *xs: Any) -> Any:
        """The kernel's value."""
        return self._values(xs)[0]

    def _values(self, xs: tuple[Any, ...]) -> list[Any]:
        """The kernel's values."""
        key = xs[0].shape
        run = self.latest.get(key)
        if run and (ys := run(xs)):  # it knows its arrays faster than we do
            return ys
        return self._run_as(key, _value_call(self, tuple(map(_kind, xs))), xs)

    def _run_as(self, key: Any, run: Direct, xs: tuple[Any, ...]) -> list[Any]:
        """Run it, and remember it by `key`. Arrays may have any order in memory; a cotangent
        without axes may be a NumPy number."""
        if len(self.latest) >= _MOST:
            self.latest.clear()
        self.latest[key] = run
        ys = run(tuple([np.asarray(x, order="C") for x in xs]))
        assert ys is not None, f"a kernel for other arrays than {xs}"
        return ys

    def spec(self, *xs: Any) -> Any:
        """That of the composite."""
        return self.plain([placeholder(x.shape, x.dtype) for x in xs]).value

    def reads(self, i: int) -> tuple[int, ...]:
        """All inputs."""
        return tuple(range(1, 1 + len(self.given)))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The kernel's, or the composite's own where it is to be differentiated again."""
        return self._bars(need, xs, (g,))

    def _bars(self, need: Need, xs: Sequence[Any], gs: tuple[Any, ...]) -> Sequence[Any]:
        """The cotangents of the inputs, from those of all results."""
        given = (*xs, *gs)
        key = need, xs[0].shape
        run = self.latest.get(key)
        bars = run(given) if run else None
        if bars is None and _has_variable(given):
            bars = pull_back(self.results, need, xs, gs)
        elif bars is None:
            run = _pull_call(self, tuple(map(_kind, given)), need)
            bars = self._run_as(key, run, given)
        if False not in need:
            return bars
        left = iter(bars)
        return [next(left) if n else None for n in need]

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The composite's own."""
        return push_forward(self.results, ts, xs)[0]

    def results(self, xs: Sequence[Any]) -> list[Any]:
        """All results of the composite, op by op."""
        return [self.plain(xs)]

    @property
    def known(self) -> Composite:
        """What it is one call of."""
        return composites[self.composite]

    @property
    def words(self) -> str:
        """What tells it from other calls of composites."""
        return f"{self.composite} {self.given} {self.static}"

    @property
    def letters(self) -> list[str]:
        """The letters of its inputs' axes."""
        return [self.known.axes[n] for n in self.given]


class FusedSeveral(Fused):
    """A composite of several results as one op."""

    many: ClassVar[bool] = True

    def eval(self, *xs: Any) -> Any:
        """The kernel's values."""
        return tuple(self._values(xs))

    def spec(self, *xs: Any) -> Any:
        """Those of the composite."""
        return tuple([y.value for y in self.plain([placeholder(x.shape, x.dtype) for x in xs])])

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The kernel's; results that nothing came from have cotangents 0."""
        gs = tuple(g)
        if True in [part is None for part in gs]:
            dtype = next(part.dtype for part in gs if part is not None)
            shapes = _result_shapes(self, tuple(map(_kind, xs)))
            pairs = zip(gs, shapes, strict=True)
            gs = tuple([np.zeros(shape, dtype) if part is None else part for part, shape in pairs])
        return self._bars(need, xs, gs)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The composite's own."""
        return tuple(push_forward(self.results, ts, xs))

    def results(self, xs: Sequence[Any]) -> list[Any]:
        """All that the composite gives."""
        return list(self.plain(xs))


_kind = attrgetter("shape", "dtype")
Kinds = tuple[tuple[tuple[int, ...], Dtype], ...]
"""Shape and dtype of each of some arrays."""


def _has_variable(xs: tuple[Any, ...]) -> bool:
    for x in xs:  # noqa: SIM110 -- written out: it is asked in each backward pass
        if isinstance(x, Variable):
            return True
    return False


@lru_cache(maxsize=4096)
def _result_shapes(op: Fused, kinds: Kinds) -> list[tuple[int, ...]]:
    shapes, dtypes = zip(*kinds, strict=True)
    sizes = sizes_of_letters(op.letters, shapes)
    assert sizes is not None, f"{op!r} is given arrays that it was not made for"
    return [shape_of(names, sizes) for names in result_letters(op, dtypes)]


@lru_cache(maxsize=4096)
def _value_call(op: Fused, kinds: Kinds) -> Direct:
    shapes, dtypes = zip(*kinds, strict=True)
    flat = [flat_shape(s, names) for s, names in zip(shapes, op.letters, strict=True)]
    return value_kernel(op, dtypes).at(flat, _result_shapes(op, kinds), kinds).direct


@lru_cache(maxsize=4096)
def _pull_call(op: Fused, kinds: Kinds, need: Need) -> Direct:
    """What pulls back; the last of `kinds` are those of the cotangents."""
    shapes, dtypes = zip(*kinds, strict=True)
    dtypes = dtypes[: len(need)]
    letters = [*op.letters, *result_letters(op, dtypes)]
    flat = [flat_shape(s, names) for s, names in zip(shapes, letters, strict=True)]
    bars = [shape for shape, n in zip(shapes, need, strict=False) if n]
    return pull_kernel(op, dtypes, need).at(flat, bars, kinds).direct


# --- Its kernels ---------------------------------------------------------------------------------


@cache
def result_letters(op: Fused, dtypes: tuple[Dtype, ...]) -> list[str]:
    """The letters of each of a kernel's results."""
    if not isinstance(op.known.to, str):
        return list(op.known.to)
    sizes = {n: (3 + i,) for i, n in enumerate("".join(op.letters))}
    shapes = [shape_of(letters, sizes) for letters in op.letters]
    y = op.plain([placeholder(s, d) for s, d in zip(shapes, dtypes, strict=True)])
    return [op.known.to[: y.ndim]]


@cache
def value_kernel(op: Fused, dtypes: tuple[Dtype, ...]) -> Kernel:
    """What computes the value."""
    return maker()(f"value of {op.words}", op.results, op.letters, dtypes)


@cache
def pull_kernel(op: Fused, dtypes: tuple[Dtype, ...], need: Need) -> Kernel:
    """What computes the cotangents of those inputs that need one, from the inputs and those of the
    results."""
    results = result_letters(op, dtypes)
    of = next(d for d, n in zip(dtypes, need, strict=True) if n)
    count = len(need)
    return maker()(
        f"cotangents {need} of {op.words}",
        lambda xs: pull_back(op.results, need, xs[:count], xs[count:]),
        [*op.letters, *results],
        (*dtypes, *[of] * len(results)),
    )
