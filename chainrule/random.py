"""Random numbers from explicit generators. `manual_seed` sets the one that is used by default.

A generator is NumPy's PCG64: the same seed gives the same numbers in every run and on every
machine.
"""

from __future__ import annotations

from collections.abc import Generator as Iteration
from collections.abc import Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from chainrule.engine import graph
from chainrule.engine.arrays import admit, admit_dtype
from chainrule.engine.graph import variable
from chainrule.errors import ConfigError, ShapeError, TraceError
from chainrule.names.jax_names import draw_advice
from chainrule.names.spellings import missing_name_getter

Sizes = int | Sequence[int]


_notes: ContextVar[tuple[dict[Generator, dict[str, Any]], ...]] = ContextVar("notes", default=())


@contextmanager
def noting() -> Iteration[dict[Generator, dict[str, Any]]]:
    """Within it, every generator that is drawn from is noted, with its state before the first."""
    noted: dict[Generator, dict[str, Any]] = {}
    token = _notes.set((*_notes.get(), noted))
    try:
        yield noted
    finally:
        _notes.reset(token)


@final
@dataclass(frozen=True, slots=True)
class Draw:
    """Random numbers that a call takes from a generator: which, how many, of which dtype."""

    generator: Generator
    kind: str
    parameters: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: Any

    def __call__(self) -> Any:
        """The next ones, an array."""
        rng: Any = self.generator._rng  # pyright: ignore[reportPrivateUsage]
        match self.kind:
            case "permutation":
                found = rng.permutation(self.shape[0])
            case "bernoulli":
                found = rng.random(self.shape) < self.parameters[0]
            case method:
                found = getattr(rng, method)(*self.parameters, self.shape)
        return np.asarray(found).astype(self.dtype)


class Generator:
    """A stream of random numbers. `state` can be kept and set to continue it later exactly.

    >>> g = cr.Generator(0)
    >>> g.normal((2,)), g.integers(0, 10, (3,))
    (tensor([ 0.12573022, -0.13210486], dtype=float32), tensor([3, 0, 0], dtype=int64))
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and seed < 0:
            raise ConfigError(f"a seed must not be negative: {seed}")
        self._seed = seed

    @property
    def _rng(self) -> Any:
        """NumPy's generator, about to be drawn from or set."""
        if graph.tracer() is not None:
            raise TraceError(
                "a Generator is seeded, set or asked for a choice in a function that is compiled: "
                "that would happen while it is traced, and never again. Do it outside, or draw "
                "with normal, uniform, integers, permutation or bernoulli"
            )
        for noted in _notes.get():
            if self not in noted:
                noted[self] = self.state
        return self._stream

    @cached_property
    def _stream(self) -> Any:
        """NumPy's generator, made when it is first needed: importing its module takes a while."""
        return np.random.Generator(np.random.PCG64(self._seed))

    @property
    def state(self) -> dict[str, Any]:
        """Where the stream is: a dict of strings and ints, fit for JSON."""
        return dict(self._stream.bit_generator.state)

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._rng.bit_generator.state = state

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed`; returns the generator itself."""
        self.state = Generator(seed).state
        return self

    def normal(
        self, shape: Sizes = (), *, mean: float = 0.0, std: float = 1.0, dtype: Any = np.float32
    ) -> Any:
        """A tensor of `shape` of normally distributed numbers, with this mean and deviation."""
        return self._draw("normal", (mean, std), shape, dtype)

    def uniform(
        self, shape: Sizes = (), *, low: float = 0.0, high: float = 1.0, dtype: Any = np.float32
    ) -> Any:
        """A tensor of `shape` of numbers spread evenly over [low, high)."""
        return self._draw("uniform", (low, high), shape, dtype)

    def integers(self, low: int, high: int, shape: Sizes = ()) -> Any:
        """A tensor of `shape` of integers (int64) from low to high - 1, each equally likely."""
        return self._draw("integers", (low, high), shape, np.int64)

    def permutation(self, n: int) -> Any:
        """A tensor (n,) of 0, 1, ... n - 1 (int64) in random order."""
        return self._draw("permutation", (), n, np.int64)

    def bernoulli(self, p: float, shape: Sizes = ()) -> Any:
        """A tensor of `shape` of bools, each True with probability p."""
        return self._draw("bernoulli", (p,), shape, np.bool_)

    def _draw(self, kind: str, parameters: tuple[Any, ...], shape: Sizes, dtype: Any) -> Any:
        """A tensor of what is drawn: now, or, traced, at every call."""
        sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        draw = Draw(self, kind, parameters, sizes, admit_dtype(dtype))
        if (t := graph.tracer()) is not None:
            return t.draw(draw, sizes, draw.dtype)
        return variable(draw())

    def choice(self, weights: Any) -> int:
        """One index, drawn with probability proportional to its weight."""
        p = np.asarray(admit(weights), np.float64)
        return int(self._rng.choice(len(p), p=p / p.sum()))

    def multinomial(self, weights: Any, count: int, *, replacement: bool = False) -> Any:
        """A tensor of `count` indices (int64) for each row of `weights`: (n,) or (rows, n).

        Each is drawn with probability proportional to its weight, and once at most unless
        `replacement`. Raises where weights are negative or too few are positive.
        """
        p = np.asarray(admit(graph.value_of(weights)), np.float64)
        if p.ndim not in (1, 2) or p.shape[-1] == 0:
            raise ShapeError(f"multinomial: weights have shape (n,) or (rows, n), not {p.shape}")
        total = p.sum(axis=-1, keepdims=True)
        if not (np.isfinite(total) & (p >= 0) & (total > 0)).all():
            raise ConfigError("multinomial: weights are finite, not negative, and not all 0")
        least = int((p > 0).sum(axis=-1).min(initial=p.shape[-1]))
        if count < 1 or (count > least and not replacement):
            raise ConfigError(
                f"multinomial: {count} different indices cannot be drawn of {least} with a weight"
            )
        rows = [
            self._rng.choice(p.shape[-1], count, replacement, q) for q in np.atleast_2d(p / total)
        ]
        return variable(np.array(rows, np.int64).reshape(*p.shape[:-1], count))


default_generator = Generator()
"""What random ops use when they are given no generator."""


def manual_seed(seed: int) -> Generator:
    """Seed the default generator; returns it.

    >>> _ = cr.manual_seed(0)
    >>> cr.nn.functional.dropout(cr.ones(3))
    tensor([0., 2., 2.], dtype=float32)
    """
    return default_generator.manual_seed(seed)


__getattr__ = missing_name_getter(__name__, draw_advice)
