"""Complex numbers taken apart and put together. These maps are linear over the reals only.

A vjp here is the transpose of that real-linear map in the form in which the sweeps work: with `g`
the (unconjugated) cotangent, a change dz of the input changes the loss by Re(sum(x_bar * dz)). For
holomorphic ops that is g times the derivative, so they need no rule here. This file has the ops
that are not holomorphic.

Conventions at 0: the gradients of |z|, angle(z) and z / |z| are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Need, Op, Spec
from chainrule.errors import DtypeError, ShapeError, describe
from chainrule.ops import elementwise as ew
from chainrule.ops.families import Conj, Linear, conj, strong_mul, sum_to, zeros_like
from chainrule.ops.indexing.selection import where
from chainrule.ops.shapes.joining import stack, unstack
from chainrule.ops.shapes.shaping import astype

__all__ = [
    "Conj",
    "angle",
    "complex",
    "complex_abs",
    "complex_sign",
    "conj",
    "imag",
    "polar",
    "real",
    "sign",
]


def real_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype of the parts of a complex number; a real dtype itself.

    >>> real_dtype(np.complex64)
    dtype('float32')
    """
    return np.empty(0, dtype).real.dtype


def complex_dtype(dtype: Any) -> np.dtype[Any]:
    """The complex dtype that holds numbers of `dtype`: complex64 for float16 and float32."""
    return np.result_type(dtype, np.complex64)


class Real(Linear):
    """The real part."""

    @property
    def name(self) -> str:
        """`real`."""
        return "real"

    def eval(self, *xs: Any) -> Any:
        """A view."""
        return np.real(xs[0])

    def spec(self, *xs: Any) -> Spec:
        """The real dtype of the same size."""
        return Spec(xs[0].shape, real_dtype(xs[0].dtype))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g`, since g Re(dz) = Re(g dz) for a real g."""
        return (astype(g, xs[0].dtype),)


class Imag(Linear):
    """The imaginary part."""

    @property
    def name(self) -> str:
        """`imag`."""
        return "imag"

    def eval(self, *xs: Any) -> Any:
        """A view."""
        return np.imag(xs[0])

    def spec(self, *xs: Any) -> Spec:
        """The real dtype of the same size."""
        return Spec(xs[0].shape, real_dtype(xs[0].dtype))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`-i g`, since g Im(dz) = Re(-i g dz) for a real g."""
        return (g * -1j,)  # in this order: -1j * np.float64 would be Python's complex


class Complex(Linear):
    """a + ib from real a and b, which broadcast."""

    @property
    def name(self) -> str:
        """`complex`."""
        return "complex"

    def eval(self, *xs: Any) -> Any:
        """Both parts as they are: infinities and the sign of 0 survive, unlike in a + 1j * b."""
        re, im = xs
        y = np.empty(np.broadcast_shapes(re.shape, im.shape), self._dtype(re, im))
        y.real, y.imag = re, im
        return y

    def spec(self, *xs: Any) -> Spec:
        """Broadcast shape; complex64, or complex128 if a part is float64."""
        return Spec(np.broadcast_shapes(xs[0].shape, xs[1].shape), self._dtype(*xs))

    def _dtype(self, re: Any, im: Any) -> np.dtype[Any]:
        return complex_dtype(np.result_type(re.dtype, im.dtype))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Re(g) and, since Re(g i db) = -Im(g) db, -Im(g)."""
        a_bar = sum_to(real(g), xs[0].shape) if need[0] else None
        return a_bar, sum_to(-imag(g), xs[1].shape) if need[1] else None


class Abs(Op):
    """|z| of complex z; its gradient at 0 is 0."""

    @property
    def name(self) -> str:
        """`abs`."""
        return "abs"

    def eval(self, *xs: Any) -> Any:
        """NumPy's, without overflow."""
        return np.abs(xs[0])

    def spec(self, *xs: Any) -> Spec:
        """The real dtype of the same size."""
        return Spec(xs[0].shape, real_dtype(xs[0].dtype))

    def reads(self, i: int) -> tuple[int, ...]:
        """Output and input."""
        return (0, 1)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """d|z| = Re(conj(z) dz) / |z|."""
        return (conj(_direction(y, xs[0])) * g,)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """Re(conj(z) t) / |z|."""
        return real(conj(_direction(y, xs[0])) * ts[0])


def _direction(size: Any, z: Any) -> Any:
    """z / |z|, and 0 at 0."""
    zero = size == 0
    return where(zero, 0, z / where(zero, 1, size))


class Angle(Op):
    """The angle of complex z, in (-pi, pi]; its gradient at 0 is 0."""

    @property
    def name(self) -> str:
        """`angle`."""
        return "angle"

    def eval(self, *xs: Any) -> Any:
        """NumPy's."""
        return np.angle(xs[0])

    def spec(self, *xs: Any) -> Spec:
        """The real dtype of the same size."""
        return Spec(xs[0].shape, real_dtype(xs[0].dtype))

    def reads(self, i: int) -> tuple[int, ...]:
        """The input."""
        return (1,)

    def slope(self, z: Any) -> Any:
        """-i / z, and 0 at 0: d angle(z) = Im(dz / z) = Re(-i dz / z)."""
        zero = z == 0
        return where(zero, 0, -1j / where(zero, 1, z))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` times the slope."""
        return (strong_mul(g, self.slope(xs[0])),)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The real part of the slope times t."""
        return real(self.slope(xs[0]) * ts[0])


def real(x: Any) -> Any:
    """The real part of `x`; `x` itself if it is real.

    Shapes: (*s) -> (*s).

    >>> cr.real(cr.tensor([1 + 2j]))
    tensor([1.], dtype=float32)
    """
    return apply(Real(), x) if x.dtype.kind == "c" else x


def imag(x: Any) -> Any:
    """The imaginary part of complex `x`. Raises `DtypeError` for a real `x`.

    Shapes: (*s) -> (*s).

    >>> cr.imag(cr.tensor([1 + 2j]))
    tensor([2.], dtype=float32)
    """
    if x.dtype.kind != "c":
        raise DtypeError(
            f"imag needs complex numbers, not {x.dtype} (there the result is all zeros)"
        )
    return apply(Imag(), x)


def complex(re: Any, im: Any) -> Any:
    """re + i im from real arrays that broadcast: complex64, or complex128 if one is float64.

    Shapes: (...), (...) -> (...).

    >>> cr.complex(cr.tensor([1.0]), cr.tensor([2.0]))
    tensor([1.+2.j], dtype=complex64)
    """
    for part in (re, im):
        if part.dtype.kind != "f":
            raise DtypeError(f"complex needs two real floating-point parts, one is {part.dtype}")
    return apply(Complex(), re, im)


def polar(size: Any, angle: Any) -> Any:
    """The complex number of absolute value `size` at `angle` (in radians); both real.

    Shapes: (...), (...) -> (...).

    >>> cr.polar(cr.tensor([2.0]), cr.tensor([0.0]))
    tensor([2.+0.j], dtype=complex64)
    """
    return complex(size * ew.cos(angle), size * ew.sin(angle))


def view_as_complex(x: Any) -> Any:
    """The complex numbers whose real and imaginary parts lie along the last axis.

    Shapes: (*s, 2) -> (*s).
    PyTorch's name; here the result is a copy, as every result is one to who looks at it.

    >>> cr.view_as_complex(cr.tensor([[1.0, 2.0]]))
    tensor([1.+2.j], dtype=complex64)
    """
    if x.ndim == 0 or x.shape[-1] != 2:
        raise ShapeError(f"view_as_complex: the last axis has two parts, not {describe(x)}")
    return complex(*unstack(x, axis=-1))


def view_as_real(x: Any) -> Any:
    """The real and imaginary parts of complex numbers, along a new last axis.

    Shapes: (*s) -> (*s, 2).

    >>> cr.view_as_real(cr.tensor([1 + 2j]))
    tensor([[1., 2.]], dtype=float32)
    """
    return stack([real(x), imag(x)], axis=-1)


def complex_abs(x: Any) -> Any:
    """|x| of complex or real `x`, in the real dtype; its gradient at 0 is 0."""
    return apply(Abs(), x) if x.dtype.kind == "c" else ew.abs(x)


def complex_sign(x: Any) -> Any:
    """x / |x|, and 0 at 0, of complex or real `x`."""
    return _direction(complex_abs(x), x) if x.dtype.kind == "c" else ew.sign(x)


def squared_size(x: Any) -> Any:
    """|x|^2, real, of complex or real `x`: it has every derivative at 0, which |x| has not."""
    return real(x * conj(x)) if x.dtype.kind == "c" else ew.square(x)


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 as `x` is below, at or above 0; of complex numbers x / |x|, and 0 at 0.

    Shapes: (*s) -> (*s).

    >>> cr.sign(cr.tensor([-2.0, 0.0, 3.0]))
    tensor([-1.,  0.,  1.], dtype=float32)
    """
    return complex_sign(x) if hasattr(x, "dtype") and x.dtype.kind == "c" else ew.sign(x)


def angle(x: Any) -> Any:
    """The angle of `x` in the complex plane, in (-pi, pi]; of real x: 0, or pi where negative.

    Shapes: (*s) -> (*s).
    Its gradient at 0 is 0.

    >>> cr.angle(cr.tensor([1j, -1.0]))
    tensor([1.5707964, 3.1415927], dtype=float32)
    """
    if x.dtype.kind == "c":
        return apply(Angle(), x)
    return ew.atan2(zeros_like(x), x)
