"""What a call gives to a compiled function: what of it is traced, what is part of the program.

Tensors, arrays, and Python floats are leaves whose values may change from call to call. All else is
part of the key by which a trace is found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, signature
from typing import Any, cast, final

import numpy as np

from chainrule.compile.runtime.call.declared_axes import Axes, declared_axes, spread
from chainrule.compile.runtime.call.overlap import check_writable
from chainrule.compile.trace.variant import MISFIT, Variant
from chainrule.compile.trace.variant_assembly import Call
from chainrule.engine.arrays import admit
from chainrule.engine.graph import around, is_recording
from chainrule.engine.misuse.foreign_arrays import report_caller
from chainrule.engine.op import Spec
from chainrule.engine.tensors import Tensor
from chainrule.errors import ChainruleError, ConfigError, DtypeError
from chainrule.tree import flatten


@final
@dataclass(frozen=True, eq=False)
class Given:
    """The arguments of one call: the static ones by place and by name, of the others the `leaves`
    and their `structure`. `dynamic` are axes by argument."""

    name: str
    traced: tuple[list[Any], dict[str, Any]]
    leaves: list[Any]
    structure: Any
    static: Mapping[int, Any]
    fixed: Mapping[str, Any]
    dynamic: Mapping[str | int, Axes]
    sources: list[Any]
    """The leaves as the caller has them; an array of foreign byte order is another one in `leaves`.
    """

    @cached_property
    def axes(self) -> list[Axes]:
        """The dynamic axes of each leaf."""
        return spread(self.dynamic, *self.traced) if self.dynamic else [{}] * len(self.leaves)

    def key(self) -> Any:
        """What must be the same for a trace to be used again."""
        kinds = tuple([_kind(x, a) for x, a in zip(self.leaves, self.axes, strict=True)])
        rest = _kinds(self.static), _kinds(self.fixed)
        key = kinds, self.structure, rest, is_recording(), around.get()
        try:
            hash(key)
        except TypeError as cause:
            raise DtypeError(
                f"jit: {self.name} is given an argument that is neither an array nor "
                f"hashable ({cause}): give it as a tuple, or as a tensor"
            ) from cause
        return key

    def run(self, variant: Variant, *, fresh: bool = False) -> Any:
        """The result of a variant, or `MISFIT`. What it writes into arguments, the caller sees. Of
        `fresh` see `Variant.call`."""
        places = [i for i, _ in variant.changed]
        for i in places:
            check_writable(self.name, i, self.sources)
        result = variant.call(self.leaves, fresh=fresh)
        if result is not MISFIT:
            for i in places:
                if self.sources[i] is not self.leaves[i]:
                    self.sources[i][...] = self.leaves[i]
        return result

    def call(self, f: Callable[..., Any]) -> Call:
        """Calls f with other leaves in the place of those that are traced; it keeps none of those,
        which somebody counts."""
        template = [None if _is_traced(x) else x for x in self.leaves]
        structure, static, fixed = self.structure, self.static, self.fixed

        def call(given: Mapping[int, Any]) -> Any:
            filled = [given.get(i, x) for i, x in enumerate(template)]
            positional, named = structure.unflatten(filled)
            for i, x in static.items():
                positional[i] = x
            return f(*positional, **named, **fixed)

        return Call(call, [f, *template, *static.values(), *fixed.values()])


@final
class Arguments:
    """How a function takes its arguments; `Given` is what a call gives."""

    def __init__(
        self,
        f: Callable[..., Any],
        name: str,
        nums: int | Iterable[int],
        names: str | Iterable[str],
        dynamic: Any,
    ) -> None:
        """As `jit` is told. Raises `ConfigError` for names that are none of f's arguments."""
        places = (nums,) if isinstance(nums, int) else tuple(nums)
        words = (names,) if isinstance(names, str) else tuple(names)
        self._name = name
        self._static, self._names = _static(f, places, words)
        self._dynamic = declared_axes(f, dynamic)

    def given(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Given:
        """The arguments of a call."""
        traced = (
            [None if i in self._static else x for i, x in enumerate(args)],
            {k: v for k, v in kwargs.items() if k not in self._names},
        )
        leaves, structure = flatten(traced)
        try:
            taken = [admit(x) for x in leaves]
        except ChainruleError as error:
            raise report_caller(error, f"jit: an argument of {self._name}") from None
        static = {i: x for i, x in enumerate(args) if i in self._static}
        fixed = {k: v for k, v in kwargs.items() if k in self._names}
        own = static, fixed, self._dynamic
        return Given(self._name, traced, taken, structure, *own, leaves)


def _static(
    f: Callable[..., Any], nums: Sequence[int], names: Sequence[str]
) -> tuple[frozenset[int], frozenset[str]]:
    """The static arguments by place and by name, each both ways where the signature tells."""
    try:
        parameters = signature(f).parameters
    except (TypeError, ValueError):
        return frozenset(nums), frozenset(names)
    known = list(parameters)
    open_ended = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    for n in names:
        if n not in known and not open_ended:
            raise ConfigError(
                f"jit: static_argnames has {n!r}; the arguments are {', '.join(known)}"
            )
    places = {n % len(known) if n < 0 else n for n in nums} | {
        known.index(n) for n in names if n in known
    }
    return frozenset(places), frozenset(names) | {known[n] for n in places if n < len(known)}


def runs_as_it_is(leaves: Iterable[Any]) -> bool:
    """Whether f is to be called as it is. That is so if somebody else's trace goes through an
    argument. It is so, too, if ops go to something (autocast, say) that may be another one at the
    next call."""
    if any(isinstance(x, Tensor) and type(x.value) is Spec for x in leaves):
        return True
    outer = around.get()
    while outer is not None:
        f, outer = outer
        if not hasattr(f, "__code__"):
            return True
    return False


def _kinds(static: Mapping[Any, Any]) -> Any:
    """Static arguments with their classes: True, 1 and 1.0 are equal, and are not the same."""
    return tuple([(k, x.__class__, x) for k, x in sorted(static.items())])


def _is_traced(x: Any) -> bool:
    """Whether the values of a leaf may change from call to call."""
    return isinstance(x, Tensor | np.ndarray | np.generic) or type(x) in (float, complex)


def _kind(x: Any, axes: Axes) -> Any:
    """What a leaf is, as far as the trace depends on it."""
    if isinstance(x, Tensor | np.ndarray | np.generic):
        array = cast("Any", x)
        shape = tuple([None if a in axes else n for a, n in enumerate(array.shape)])
        needs = isinstance(x, Tensor) and x.requires_grad and is_recording()
        return (Tensor if isinstance(x, Tensor) else np.ndarray, shape, array.dtype, needs)
    if type(x) is float or type(x) is complex:
        return type(x)
    return (type(x), x)
