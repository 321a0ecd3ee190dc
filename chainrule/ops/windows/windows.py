"""The windows that slide over an array: where they stand, what each sees, and the way back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ConfigError, ShapeError
from chainrule.ops.shapes.shaping import Shape

Sizes = int | Sequence[int]
"""One size for every dimension, or one for each."""


@dataclass(frozen=True)
class Windows:
    """The windows that slide over an array: a field per dimension of the last axes.

    `size` is that of the array, `padding` the pairs (before, after) that are added to it.
    """

    size: Shape
    kernel: Shape
    stride: Shape
    padding: tuple[tuple[int, int], ...]
    dilation: Shape

    @classmethod
    def over(
        cls,
        what: str,
        x: Any,
        kernel: Sequence[int],
        stride: Sizes,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        *,
        partial: bool = False,
    ) -> Windows:
        """The windows of `kernel` over all axes of `x` but the first two.

        `padding` is sizes for both sides, "valid" (none) or "same": as many windows as elements,
        the odd one added after. With `partial`, windows that begin in the array, or before, may
        end behind it. Raises, in the name of `what`, unless there is a window.
        """
        k, n = tuple(kernel), len(kernel)
        s, d = sizes_of(what, "stride", stride, n), sizes_of(what, "dilation", dilation, n)
        windows = cls(tuple(x.shape[2:]), k, s, _padding(what, padding, k, s, d), d)
        windows = windows._longer() if partial else windows
        windows.check(what)
        return windows

    def _longer(self) -> Windows:
        """As many more elements of padding at the end as the last partial windows see."""
        pairs = list(self.padding)
        for i, ((a, b), n, s) in enumerate(zip(self.padding, self.size, self.stride, strict=True)):
            seen = self.dilation[i] * (self.kernel[i] - 1) + 1
            last = -(-(a + n + b - seen) // s)  # the number of the last window, partial or not
            last -= last * s >= a + n
            pairs[i] = (a, b + max(last * s + seen - (a + n + b), 0))
        return replace(self, padding=tuple(pairs))

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.size)

    @cached_property
    def padded(self) -> Shape:
        """The array's size with its padding."""
        return tuple([n + a + b for n, (a, b) in zip(self.size, self.padding, strict=True)])

    @cached_property
    def out(self) -> Shape:
        """How many windows there are."""
        sizes = zip(self.padded, self.kernel, self.stride, self.dilation, strict=True)
        return tuple([(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in sizes])

    def check(self, what: str) -> None:
        """Raise unless there is at least one window."""
        for n in self.out:
            if n < 1:
                raise ShapeError(
                    f"{what}: a kernel {self.kernel} with dilation {self.dilation} is larger than "
                    f"the array {self.size} with its padding, {self.padded}"
                )

    def kernel_slices(self) -> Iterator[tuple[Any, ...]]:
        """For each kernel place the basic index of what it sees of a padded array, (..., *out)."""
        for at in product(*[range(k) for k in self.kernel]):
            yield (
                Ellipsis,
                *[
                    slice(i * d, i * d + (n - 1) * s + 1, s)
                    for i, d, n, s in zip(at, self.dilation, self.out, self.stride, strict=True)
                ],
            )

    def pad(self, x: Array, value: float = 0) -> Array:
        """`x` with its padding, which holds `value`; `x` itself if there is none."""
        if self.padded == self.size:
            return x
        out = np.full((*x.shape[: -self.ndim], *self.padded), value, x.dtype)
        out[self.inner()] = x
        return out

    def reversed(self) -> Windows | None:
        """The windows over `out` whose windows are the elements of `size`: where a stride of 1 and
        a padding within the kernel make the transpose of a convolution one itself."""
        reach = [d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True)]
        pairs = [(n - a, n - b) for n, (a, b) in zip(reach, self.padding, strict=True)]
        if set(self.stride) != {1} or min(min(p) for p in pairs) < 0:
            return None
        return replace(self, size=self.out, padding=tuple(pairs))

    def inner(self) -> tuple[Any, ...]:
        """Where the array stands within its padding."""
        pairs = zip(self.padding, self.size, strict=True)
        return (Ellipsis, *[slice(a, a + n) for (a, _), n in pairs])

    def columns(self, x: Array) -> Array:
        """What each window sees: (N, C, *size) -> (N, C K, L), a view where that is possible."""
        lead = x.shape[: -self.ndim]
        xp = self.pad(x)
        steps = xp.strides[-self.ndim :]
        inner = [s * d for s, d in zip(steps, self.dilation, strict=True)]
        outer = [s * d for s, d in zip(steps, self.stride, strict=True)]
        seen = np.lib.stride_tricks.as_strided(
            xp,
            (*lead, *self.kernel, *self.out),
            (*xp.strides[: -self.ndim], *inner, *outer),
            writeable=False,
        )
        n, c = lead
        return seen.reshape(n, c * math.prod(self.kernel), math.prod(self.out))

    def folded(self, columns: Array) -> Array:
        """The columns added to where they came from: the transpose of `columns`."""
        n = columns.shape[0]
        places = math.prod(self.kernel)
        channels = math.prod(columns.shape[1:]) // (places * math.prod(self.out))
        parts = columns.reshape(n, channels, places, *self.out)
        return self.spread([parts[:, :, i] for i in range(parts.shape[2])])

    def spread(self, parts: Sequence[Array]) -> Array:
        """`parts[k]` (..., *out) added to what kernel place k sees of zeros; without padding."""
        out = np.zeros((*parts[0].shape[: -self.ndim], *self.padded), parts[0].dtype)
        for part, place in zip(parts, self.kernel_slices(), strict=True):
            out[place] += part
        return out[self.inner()]


def _padding(
    what: str, padding: Sizes | str, kernel: Shape, stride: Shape, dilation: Shape
) -> tuple[tuple[int, int], ...]:
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding == "same":
        if max(stride) > 1:
            raise ConfigError(f"{what}: padding 'same' needs stride 1, not {stride}")
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple([(n // 2, n - n // 2) for n in total])
    if isinstance(padding, str):
        raise ConfigError(f"{what}: padding is 'same', 'valid' or sizes, not {padding!r}")
    return tuple([(n, n) for n in sizes_of(what, "padding", padding, len(kernel), 0)])


def sizes_of(what: str, name: str, value: Sizes, ndim: int, least: int = 1) -> Shape:
    """`value` as one size, or one for each of `ndim` dimensions, each at least `least`."""
    sizes = (value,) if isinstance(value, int) else tuple([int(n) for n in value])
    sizes = sizes * ndim if len(sizes) == 1 else sizes
    if len(sizes) != ndim or min(sizes) < least:
        raise ConfigError(
            f"{what}: {name} is an integer >= {least}, or {ndim} of them, not {value!r}"
        )
    return sizes
