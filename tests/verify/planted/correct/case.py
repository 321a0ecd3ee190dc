"""A correct case, and arguments written as short texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..case import frozen
from ..points import seed_of
from ..tensors import to_own, to_torch


@dataclass(frozen=True, eq=False)
class Correct:
    """Something right, and how it is verified."""

    id: str
    make: Callable[[], Any]
    """Runs the verifier; gives its report."""

    @property
    def frozen(self) -> bool:
        """Whether it belongs to the frozen third."""
        return frozen(self.id)


_SPEC = re.compile(r"([+%!^~ch]?)(?:\*([\de.+-]+):)?(?:#(\d+):)?([\d,]*)$")
_KINDS: dict[str, Callable[[Any, tuple[int, ...]], Any]] = {
    "": lambda r, n: r.normal(size=n),
    "+": lambda r, n: r.uniform(0.3, 2.0, size=n),
    "%": lambda r, n: r.uniform(0.05, 0.95, size=n),
    "^": lambda r, n: r.uniform(1.2, 3.0, size=n),
    "!": lambda r, n: (r.permutation(int(np.prod(n))).reshape(n) + 0.25) / 3.0 - 2.0,
    "~": lambda r, n: np.round(r.normal(size=n)),
    "c": lambda r, n: r.normal(size=n) + 1j * r.normal(size=n),
    "h": lambda r, n: _definite(r.normal(size=n)),
}


def _definite(a: Any) -> Any:
    return a @ np.swapaxes(a, -1, -2) + a.shape[-1] * np.eye(a.shape[-1])


def drawn(spec: str, rng: np.random.Generator) -> Any:
    """An array from a text: shape `4,5`; before it what the values are like.

    Nothing: normal. `+` positive, `%` within (0, 1), `^` above 1, `!` no two close, `~` whole
    numbers with ties and zeros, `c` complex, `h` positive definite. `*1e-8:` scales, `#7:` gives
    integers below 7.
    """
    found = _SPEC.fullmatch(spec)
    if not found:
        raise ValueError(f"no such argument: {spec!r}")
    kind, scale, below, sizes = found.groups()
    shape = tuple([int(n) for n in sizes.split(",")]) if sizes else ()
    if below:
        return rng.integers(0, int(below), size=shape)
    return np.asarray(_KINDS[kind](rng, shape) * float(scale or 1.0))


def cast(x: Any, dtype: str) -> Any:
    """Float arrays as `dtype`, complex ones as the partner of it, all others as they are."""
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fc":
        return x
    if x.dtype.kind == "c":
        return x.astype({"float32": "complex64"}.get(dtype, "complex128"))
    return x.astype(np.float32 if dtype == "bfloat16" else dtype)


def torch_args(args: Sequence[Any], dtype: str) -> list[Any]:
    """Arrays as tensors of PyTorch that need gradients."""
    import torch

    made = [to_torch(cast(a, dtype)) for a in args]
    if dtype != "bfloat16":
        return made
    return [a.detach().to(torch.bfloat16).requires_grad_() if _floats(a) else a for a in made]


def _floats(t: Any) -> bool:
    import torch

    return isinstance(t, torch.Tensor) and t.is_floating_point()


def own_args(args: Sequence[Any], dtype: str) -> list[Any]:
    """Arrays as tensors of ours that need gradients."""
    return [to_own(cast(a, dtype)) for a in args]


Row = tuple[Any, ...]
"""A name, a function, the arguments as texts or as they are."""


def arguments(row: Row, seed: int) -> list[Any]:
    """The drawn arguments of a row."""
    rng = np.random.default_rng(seed_of(row[0], seed))
    return [drawn(a, rng) if isinstance(a, str) else a for a in row[2:]]


def checks(
    title: str,
    rows: Sequence[Row],
    dtypes: Sequence[str],
    convert: Callable[[Sequence[Any], str], list[Any]],
    seeds: Sequence[int] = (0,),
    **options: Any,
) -> list[Correct]:
    """`verify.check` of each row's function, for each dtype and seed."""
    return [
        Correct(f"{title}/{row[0]}/{dtype}/{seed}", _check(row, dtype, seed, convert, options))
        for row in rows
        for dtype in dtypes
        for seed in seeds
    ]


def _check(row: Row, dtype: str, seed: int, convert: Any, options: dict[str, Any]) -> Any:
    def make() -> Any:
        from chainrule import verify

        return verify.check(row[1], *convert(arguments(row, seed), dtype), **options)

    return make
