"""The same function in chainrule and in PyTorch: value, vjp, jvp, second order, memory layout.

Gradients of complex arguments are compared as they are: both libraries give dL/dRe + i dL/dIm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.ops.complex import conj, real
from tests.ops.check import close, strided
from tests.ops.sample import Array, apart

torch: Any = pytest.importorskip("torch", reason="the second opinion is PyTorch's")


@dataclass(frozen=True, eq=False)
class Pair:
    """`ours` and `theirs` are the same function of `args`; `exact` is the relative tolerance."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    args: tuple[Array, ...]
    exact: float = 1e-10
    second: bool = True
    """Whether PyTorch's second derivative is to be asked."""

    def __str__(self) -> str:
        kinds = ",".join(f"{x.dtype.kind}{'x'.join(map(str, x.shape))}" for x in self.args)
        return f"{self.name}[{kinds}]"


def generic(*shape: int, salt: int = 0, complex_: bool = False) -> Array:
    """A float64 or complex128 array without structure."""
    x = apart(*shape, salt=salt)
    return x + 1j * apart(*shape, low=-1.9, high=2.2, salt=salt + 11) if complex_ else x


@dataclass(frozen=True)
class Samples:
    """Generic arguments, real or complex: one square matrix, and batches of three shapes."""

    complex_: bool

    def __call__(self, *shape: int, salt: int = 0) -> Array:
        return generic(*shape, salt=salt, complex_=self.complex_)

    @property
    def square(self) -> Array:
        return self(4, 4)

    @property
    def batch(self) -> Array:
        return self(2, 3, 3)

    @property
    def tall(self) -> Array:
        return self(2, 5, 3)

    @property
    def wide(self) -> Array:
        return np.ascontiguousarray(np.swapaxes(self(2, 5, 3, salt=1), -1, -2))


def like(y: Any, salt: int) -> Array:
    """A cotangent or tangent of the shape and kind of `y`."""
    kind = str(y.dtype)
    return generic(*y.shape, salt=salt, complex_="complex" in kind)


def _ours(pair: Pair, args: Sequence[Array], g: Array) -> tuple[Any, list[Any]]:
    y, pull = cr.vjp(pair.ours, *[cr.tensor(x) for x in args])
    return y, list(pull(cr.tensor(g)))


def _theirs(pair: Pair, args: Sequence[Any]) -> tuple[list[Any], Any]:
    xs = [torch.tensor(x, requires_grad=True) for x in args]
    return xs, pair.theirs(*xs)


def value_and_vjp(pair: Pair) -> None:
    """Value and gradient, the gradient for contiguous and for strided arguments and cotangents."""
    xs, y = _theirs(pair, pair.args)
    g = like(y, 5)
    want = torch.autograd.grad(y, xs, torch.tensor(g))
    for layout in (np.ascontiguousarray, strided):
        got, bars = _ours(pair, [layout(x) for x in pair.args], layout(g) if g.ndim else g)
        assert str(got.dtype) == str(y.dtype).removeprefix("torch.")
        close(got.numpy(), y.resolve_conj().numpy(force=True), pair.exact, 1e-13, "value")
        for i, (bar, other) in enumerate(zip(bars, want, strict=True)):
            assert bar.dtype == pair.args[i].dtype
            other = other.resolve_conj().numpy(force=True)
            close(bar.numpy(), other, pair.exact, 1e-12, f"gradient of argument {i}")


def forward(pair: Pair) -> None:
    """The jvp is PyTorch's: the real-linear map that is the adjoint of its vjp."""
    xs, y = _theirs(pair, pair.args)
    ts = [like(x, 3 + i) for i, x in enumerate(pair.args)]
    g = torch.zeros_like(y, requires_grad=True)
    bars = torch.autograd.grad(y, xs, g, create_graph=True)
    inner = sum((b * torch.tensor(t).conj()).sum().real for b, t in zip(bars, ts, strict=True))
    (want,) = torch.autograd.grad(inner, g)
    _, got = cr.jvp(pair.ours, [cr.tensor(x) for x in pair.args], [cr.tensor(t) for t in ts])
    close(got.numpy(), want.resolve_conj().numpy(force=True), pair.exact, 1e-12, "jvp")


def second_order(pair: Pair) -> None:
    """The gradient of Re <u, vjp g> in x."""
    xs, y = _theirs(pair, pair.args)
    g = like(y, 5)
    us = [like(x, 7 + i) for i, x in enumerate(pair.args)]
    bars = torch.autograd.grad(y, xs, torch.tensor(g), create_graph=True)
    inner = sum((b * torch.tensor(u).conj()).sum().real for b, u in zip(bars, us, strict=True))
    want = torch.autograd.grad(inner, xs, allow_unused=True) if inner.requires_grad else None

    def first(*args: Any) -> Any:
        _, pull = cr.vjp(pair.ours, *args)
        parts = [cr.sum(real(b * conj(u))) for b, u in zip(pull(cr.tensor(g)), us, strict=True)]
        return sum(parts[1:], parts[0])

    _, pull = cr.vjp(first, *[cr.tensor(x) for x in pair.args])
    for i, bar in enumerate(pull(cr.tensor(np.float64(1)))):
        other = None if want is None else want[i]
        expected = np.zeros(bar.shape) if other is None else other.resolve_conj().numpy(force=True)
        close(bar.numpy(), expected, 10 * pair.exact, 1e-11, f"second derivative {i}")
