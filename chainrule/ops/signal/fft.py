"""Discrete Fourier transforms. Linear, and nearly their own transposes.

The ops are the bare sums, without a factor; `norm`, lengths and axes are composed around them.
Notation: y_k = sum_t x_t exp(-2 pi i k t / n), `n` the length, `m` = n // 2 + 1 the length of the
half that determines the transform of real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.engine.graph import apply
from chainrule.engine.op import Need, Spec
from chainrule.errors import ConfigError, DtypeError, ShapeError
from chainrule.ops.complex import complex_dtype, real_dtype
from chainrule.ops.families import Linear, conj
from chainrule.ops.shapes.padding import pad
from chainrule.ops.shapes.shaping import Shape, astype, normalize_axes, normalize_axis
from chainrule.ops.shapes.slices import Slice


class Dft(Linear):
    """The sum over `axes` of complex numbers; with `back` the exponent has a plus."""

    axes: Shape
    back: bool

    @property
    def name(self) -> str:
        """`fft` or `ifft`."""
        return "ifft" if self.back else "fft"

    def eval(self, *xs: Any) -> Any:
        """NumPy's (pocketfft)."""
        if self.back:
            return np.fft.ifftn(xs[0], axes=self.axes, norm="forward")
        return np.fft.fftn(xs[0], axes=self.axes, norm="backward")

    def spec(self, *xs: Any) -> Spec:
        """As the input."""
        return Spec(xs[0].shape, xs[0].dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The same sum: its matrix is symmetric."""
        return (apply(self, g),)


class RealDft(Linear):
    """The first m terms of the sum over `axis` of real numbers."""

    axis: int

    @property
    def name(self) -> str:
        """`rfft`."""
        return "rfft"

    def eval(self, *xs: Any) -> Any:
        """NumPy's."""
        return np.fft.rfft(xs[0], axis=self.axis)

    def spec(self, *xs: Any) -> Spec:
        """m along `axis`, complex."""
        (x,) = xs
        shape = _with_length(x.shape, self.axis, x.shape[self.axis] // 2 + 1)
        return Spec(shape, complex_dtype(x.dtype))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Re(sum_k g_k exp(-2 pi i k t / n)) over the half: `HalfDft` counts its inner terms
        twice."""
        n = xs[0].shape[self.axis]
        half = 1 / _counts(n, self.axis, len(g.shape), real_dtype(g.dtype))
        return (apply(HalfDft(self.axis, n), conj(g) * half),)


class HalfDft(Linear):
    """The sum, with a plus, over all n terms of which the input is the first m; real.

    The others are their conjugates; imaginary parts of those that would be their own are ignored.
    """

    axis: int
    n: int

    @property
    def name(self) -> str:
        """`irfft`."""
        return "irfft"

    def eval(self, *xs: Any) -> Any:
        """NumPy's."""
        return np.fft.irfft(xs[0], self.n, axis=self.axis, norm="forward")

    def spec(self, *xs: Any) -> Spec:
        """n along `axis`, real."""
        return Spec(_with_length(xs[0].shape, self.axis, self.n), real_dtype(xs[0].dtype))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The sum with a plus over g, its inner terms twice."""
        twice = _counts(self.n, self.axis, len(g.shape), g.dtype)
        return (conj(apply(RealDft(self.axis), g)) * twice,)


def _with_length(shape: Shape, axis: int, n: int) -> Shape:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _counts(n: int, axis: int, ndim: int, dtype: Any) -> Any:
    """How often each of the first m terms occurs among all n: 1 for those that are their own
    conjugates, 2 for the others; to multiply along `axis`."""
    k = np.arange(n // 2 + 1)
    count = np.where((k == 0) | (2 * k == n), 1, 2).astype(dtype)
    return count.reshape([-1 if i == axis else 1 for i in range(ndim)])


# --- Lengths, axes, factors ----------------------------------------------------------------------

_NORMS = ("backward", "ortho", "forward")


def _scale(y: Any, n: int, norm: str, *, back: bool) -> Any:
    """The bare sum `y` over n terms with the factor of `norm`."""
    if norm not in _NORMS:
        raise ConfigError(f"fft: norm is one of {', '.join(_NORMS)}, not {norm!r}")
    if norm == "ortho":
        return y / math.sqrt(n)
    return y / n if back == (norm == "backward") else y


def _fit_length(x: Any, axis: int, n: int) -> Any:
    """`x` cut, or filled up with zeros, to `n` elements along `axis`."""
    if n < 1:
        raise ShapeError(f"fft: a length must be at least 1, not {n}")
    have = x.shape[axis]
    if n < have:
        return apply(Slice((*[(None, None, None)] * axis, (None, n, None))), x)
    if n > have:
        return pad(x, [(0, n - have if i == axis else 0) for i in range(x.ndim)])
    return x


def _complex(x: Any) -> Any:
    return astype(x, complex_dtype(_float(x).dtype))


def _float(x: Any) -> Any:
    if x.dtype.kind == "V":
        return astype(x, np.float32)
    return x if x.dtype.kind in "fc" else astype(x, np.float64)


def _real(what: str, x: Any) -> Any:
    if x.dtype.kind == "c":
        raise DtypeError(f"{what} transforms real numbers, not {x.dtype}; see fft")
    return _float(x)


def _axes(x: Any, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int, int]]:
    """Pairs of an axis and the length to which it is to be fitted."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    places = normalize_axes(tuple(axes), x.ndim)
    if s is None:
        s = [x.shape[a] for a in places]
    if len(s) != len(places):
        raise ShapeError(f"fft: {len(s)} lengths for {len(places)} axes of {x.shape}")
    return [(a, x.shape[a] if n == -1 else int(n)) for a, n in zip(places, s, strict=True)]


def _transform(x: Any, pairs: Sequence[tuple[int, int]], norm: str, *, back: bool) -> Any:
    x = _complex(x)
    for axis, n in pairs:
        x = _fit_length(x, axis, n)
    y = apply(Dft(tuple([a for a, _ in pairs]), back), x) if pairs else x
    return _scale(y, math.prod([n for _, n in pairs]), norm, back=back)


def _one(x: Any, n: int | None, axis: int) -> list[tuple[int, int]]:
    a = normalize_axis(axis, x.ndim)
    return [(a, x.shape[a] if n is None else n)]


def _to_half(x: Any, axis: int, n: int, norm: str, *, back: bool) -> Any:
    y = apply(RealDft(axis), _fit_length(x, axis, n))
    return _scale(y, n, norm, back=back)


def _from_half(x: Any, axis: int, n: int, norm: str, *, back: bool) -> Any:
    if n < 1:
        raise ShapeError(f"fft: a length must be at least 1, not {n}")
    y = apply(HalfDft(axis, n), _fit_length(_complex(x), axis, n // 2 + 1))
    return _scale(y, n, norm, back=back)


# --- The public functions ------------------------------------------------------------------------


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """y_k = sum_t x_t exp(-2 pi i k t / n) along `axis`, cut or zero-filled to length `n`.

    Shapes: (*s, axis: m) -> (*s, axis: n or m).
    Complex out: complex64 for float32 and complex64, otherwise complex128. `norm` says where the
    factor 1/n goes: "backward" into the inverse, "forward" into this one, "ortho" its root in both.

    >>> cr.fft.fft(cr.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _transform(x, _one(x, n, axis), norm, back=False)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of `fft`.

    Shapes: (*s, axis: m) -> (*s, axis: n or m).

    >>> cr.fft.ifft(cr.fft.fft(cr.tensor([1.0, 2.0])))
    tensor([1.+0.j, 2.+0.j], dtype=complex64)
    """
    return _transform(x, _one(x, n, axis), norm, back=True)


def fftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Any:
    """`fft` along each of `axes` (all, or the last len(s)), fitted to the lengths `s`.

    Shapes: (*r, axes: m) -> (*r, axes: s or m) if axes is not None;
        (*r) -> (*r) if s is None;
        (*r) -> (*(*r[:len(r) - len(s)], *s)).

    >>> cr.fft.fftn(cr.ones((2, 2)))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform(x, _axes(x, s, axes), norm, back=False)


def ifftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Any:
    """The inverse of `fftn`.

    Shapes: (*r, axes: m) -> (*r, axes: s or m) if axes is not None;
        (*r) -> (*r) if s is None;
        (*r) -> (*(*r[:len(r) - len(s)], *s)).

    >>> cr.fft.ifftn(cr.fft.fftn(cr.tensor([[1.0, 2.0]])))
    tensor([[1.+0.j, 2.+0.j]], dtype=complex64)
    """
    return _transform(x, _axes(x, s, axes), norm, back=True)


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The first n // 2 + 1 terms of `fft` of real numbers; the others are their conjugates.

    Shapes: (*s, axis: m) -> (*s, axis: (n or m) // 2 + 1).

    >>> cr.fft.rfft(cr.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    ((a, length),) = _one(x, n, axis)
    return _to_half(_real("rfft", x), a, length, norm, back=False)


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of `rfft`: real, of length `n` (by default 2 (m - 1) for m terms).

    Shapes: (*s, axis: m) -> (*s, axis: n or 2 * (m - 1)).

    >>> cr.fft.irfft(cr.fft.rfft(cr.tensor([1.0, 2.0, 3.0, 4.0])))
    tensor([1., 2., 3., 4.], dtype=float32)
    """
    ((a, m),) = _one(x, None, axis)
    return _from_half(x, a, 2 * (m - 1) if n is None else n, norm, back=True)


def rfftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Any:
    """`rfft` along the last of `axes`, then `fft` along the others.

    Shapes: (*r, axes: m) -> (*r, axes: (*(s or m)[:-1], (s or m)[-1] // 2 + 1)) if axes is not
          None;
        (*r, m) -> (*r, m // 2 + 1) if s is None;
        (*r) -> (*(*r[:len(r) - len(s)], *s[:-1], s[-1] // 2 + 1)).

    >>> cr.fft.rfftn(cr.ones((4, 6))).shape
    (4, 4)
    """
    *others, (last, n) = _axes(x, s, axes)
    y = _real("rfftn", x)
    return _transform(_to_half(y, last, n, norm, back=False), others, norm, back=False)


def irfftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Any:
    """The inverse of `rfftn`; the last of the lengths `s` is that of the real result.

    Shapes: (*r, axes: m) -> (*r, axes: s or (*m[:-1], 2 * (m[-1] - 1))) if axes is not None;
        (*r, m) -> (*r, 2 * (m - 1)) if s is None;
        (*r) -> (*(*r[:len(r) - len(s)], *s)).

    >>> cr.fft.irfftn(cr.fft.rfftn(cr.ones((4, 6)))).shape
    (4, 6)
    """
    *others, (last, m) = _axes(x, s, axes)
    n = 2 * (x.shape[last] - 1) if s is None else m
    return _from_half(_transform(x, others, norm, back=True), last, n, norm, back=True)


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The real `fft` of a signal of which `x` is the first half, the rest its conjugates.

    Shapes: (*s, axis: m) -> (*s, axis: n or 2 * (m - 1)).

    >>> cr.fft.hfft(cr.tensor([4.0, 0.0, 0.0]))
    tensor([4., 4., 4., 4.], dtype=float32)
    """
    ((a, m),) = _one(x, None, axis)
    length = 2 * (m - 1) if n is None else n
    return _from_half(conj(_complex(x)), a, length, norm, back=False)


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of `hfft`: the first n // 2 + 1 terms.

    Shapes: (*s, axis: m) -> (*s, axis: (n or m) // 2 + 1).

    >>> cr.fft.ihfft(cr.tensor([1.0, 1.0, 1.0, 1.0]))
    tensor([1.-0.j, 0.-0.j, 0.-0.j], dtype=complex64)
    """
    ((a, length),) = _one(x, n, axis)
    return conj(_to_half(_real("ihfft", x), a, length, norm, back=True))


def hfftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Any:
    """`fft` along all `axes` but the last, then `hfft` along the last; so in PyTorch.

    Shapes: (*r, axes: m) -> (*r, axes: s or (*m[:-1], 2 * (m[-1] - 1))) if axes is not None;
        (*r, m) -> (*r, 2 * (m - 1)) if s is None;
        (*r) -> (*(*r[:len(r) - len(s)], *s)).

    >>> cr.fft.hfftn(cr.ones((3, 3))).shape
    (3, 4)
    """
    *others, (last, m) = _axes(x, s, axes)
    n = 2 * (x.shape[last] - 1) if s is None else m
    y = _transform(x, others, norm, back=False)
    return _from_half(conj(y), last, n, norm, back=False)


def ihfftn(
    x: Any,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Any:
    """The inverse of `hfftn`: the first terms along the last of `axes`.

    Shapes: (*r, axes: m) -> (*r, axes: (*(s or m)[:-1], (s or m)[-1] // 2 + 1)) if axes is not
          None;
        (*r, m) -> (*r, m // 2 + 1) if s is None;
        (*r) -> (*(*r[:len(r) - len(s)], *s[:-1], s[-1] // 2 + 1)).

    >>> cr.fft.ihfftn(cr.ones((4, 4))).shape
    (4, 3)
    """
    *others, (last, n) = _axes(x, s, axes)
    half = conj(_to_half(_real("ihfftn", x), last, n, norm, back=True))
    return _transform(half, others, norm, back=True)
