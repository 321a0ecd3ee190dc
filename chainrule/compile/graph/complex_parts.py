"""Complex numbers in programs that compute with real ones only.

A caller's complex array is memory of pairs: `Parts` shows an input as these, `Together` shows pairs
as the result that the caller is given. Both only look at memory in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from chainrule.compile.graph.compiled_ops import OpAround, ProgramOp
from chainrule.compile.graph.terms import Program, Term
from chainrule.engine.op import Spec
from chainrule.ops.complex import complex_dtype, real_dtype


def is_complex(dtype: Any) -> bool:
    """Whether it is complex; of an op with several outputs, one of them."""
    if isinstance(dtype, tuple):
        return any(map(is_complex, cast("tuple[Any, ...]", dtype)))
    return dtype.kind == "c"


def lying(shape: tuple[Any, ...], dtype: Any) -> tuple[tuple[Any, ...], Any]:
    """Shape and dtype of the real numbers that an array is in memory."""
    return ((*shape, 2), real_dtype(dtype)) if is_complex(dtype) else (shape, dtype)


def pair_of(t: Term) -> Term:
    """The pairs that the complex result `t` shows; a real one itself."""
    return t.args[0] if isinstance(t.op, Together) else t


def as_lying(program: Program) -> Program:
    """The program with pairs as its results and new values."""
    updates = tuple([(i, pair_of(t)) for i, t in program.updates])
    return Program(program.inputs, tuple([pair_of(t) for t in program.results]), updates)


class Parts(ProgramOp):
    """Real and imaginary parts side by side: complex (*s) -> real (*s, 2)."""

    @property
    def name(self) -> str:
        """`parts`."""
        return "parts"

    def eval(self, *xs: Any) -> Any:
        """A view."""
        x = np.ascontiguousarray(xs[0]).reshape(*xs[0].shape, 1)
        return x.view(real_dtype(x.dtype))

    def spec(self, *xs: Any) -> Spec:
        """One more axis."""
        return Spec(*lying(xs[0].shape, xs[0].dtype))


class Together(ProgramOp):
    """The inverse of `Parts`: real (*s, 2) -> complex (*s)."""

    @property
    def name(self) -> str:
        """`together`."""
        return "together"

    def eval(self, *xs: Any) -> Any:
        """A view."""
        x = np.ascontiguousarray(xs[0])
        return x.view(complex_dtype(x.dtype))[..., 0]

    def spec(self, *xs: Any) -> Spec:
        """One axis less."""
        return Spec(xs[0].shape[:-1], complex_dtype(xs[0].dtype))


class InParts(OpAround):
    """An op in its eager form whose complex arguments and outputs are two arrays each, real and
    imaginary parts; `pairs` says which arguments these are."""

    pairs: tuple[bool, ...]
    many: ClassVar[bool] = True
    quiet: ClassVar[bool] = False

    def eval(self, *xs: Any) -> Any:
        """The outputs' parts."""
        rest = iter(xs)
        args = [_to_complex(next(rest), next(rest)) if p else next(rest) for p in self.pairs]
        ys = self.op.eval(*args)
        return tuple([part for y in (ys if self.op.many else (ys,)) for part in _apart(y)])

    def spec(self, *xs: Any) -> Any:
        """The outputs' parts."""
        rest = iter(xs)
        args = [_complex(next(rest), next(rest)) if p else next(rest) for p in self.pairs]
        ys = self.op.spec(*args)
        found: list[Spec] = []
        for y in ys if self.op.many else (ys,):
            part = Spec(y.shape, real_dtype(y.dtype))
            found += [part, part] if is_complex(y.dtype) else [part]
        return tuple(found)


def _to_complex(re: Any, im: Any) -> Any:
    y = np.empty(np.shape(re), complex_dtype(re.dtype))
    y.real, y.imag = re, im
    return y


def _complex(re: Any, im: Any) -> Spec:
    return Spec(re.shape, complex_dtype(re.dtype))


def _apart(y: Any) -> Sequence[Any]:
    y = np.asarray(y)
    return (y.real, y.imag) if y.dtype.kind == "c" else (y,)
