"""Numbers of a generator ahead of their use: taken at once, given back where they were not used.

A loop that draws as many numbers as it happens to need is given a stretch of the stream to read
from. Afterwards the generator is set to where it would be had it been asked one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from random import Random
from typing import Any, cast, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import DtypeError, describe
from chainrule.random import Generator, default_generator

MANY = 16_384
"""From so many numbers on NumPy makes those of Python's generator sooner than Python."""


class Uniforms(ABC):
    """The stream of a generator: float64 numbers, spread evenly over [0, 1)."""

    @abstractmethod
    def take(self, n: int) -> Array:
        """The next n numbers."""

    @abstractmethod
    def give_back(self, used: int) -> None:
        """Go to where the stream is after the first `used` of the numbers that were just taken."""

    @abstractmethod
    def end(self) -> None:
        """Leave the generator where the stream is."""


def uniforms(generator: Generator | Random | None, most: int) -> Uniforms:
    """The stream of a generator, by default of that which `cr.manual_seed` seeds, from which at
    most so many numbers are taken."""
    if generator is None:
        generator = default_generator
    if isinstance(generator, Generator):
        return _Native(generator)
    if isinstance(cast("Any", generator), Random):
        twin = type(generator) is Random and most >= MANY
        return _Twin(generator) if twin else _OneByOne(generator)
    raise DtypeError(
        f"generate: generator is a chainrule.Generator or a random.Random, not "
        f"{describe(generator)}: say generator=cr.Generator(seed), or leave it out"
    )


@final
class _Native(Uniforms):
    """Chainrule's own."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._before = generator.state

    def take(self, n: int) -> Array:
        self._before = self._generator.state
        return self._generator.uniform((n,), dtype=np.float64).numpy()

    def give_back(self, used: int) -> None:
        self._generator.state = self._before
        self._generator.uniform((used,), dtype=np.float64)

    def end(self) -> None:
        pass


@final
class _Twin(Uniforms):
    """Python's, by NumPy, which has the same algorithm and makes many numbers in one call.

    Both are the MT19937 of Matsumoto & Nishimura 1998, and make a number of 53 bits of two words.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._version, words, self._gauss = rng.getstate()
        self._bits: Any = np.random.MT19937(0)
        key = np.array(words[:-1], np.uint32)
        self._before = {"bit_generator": "MT19937", "state": {"key": key, "pos": words[-1]}}
        self._bits.state = self._before
        self._twin = np.random.Generator(self._bits)

    def take(self, n: int) -> Array:
        self._before = self._bits.state
        return self._twin.random(n)

    def give_back(self, used: int) -> None:
        self._bits.state = self._before
        self._twin.random(used)

    def end(self) -> None:
        state = self._bits.state["state"]
        words = (*state["key"].tolist(), int(state["pos"]))
        self._rng.setstate((self._version, words, self._gauss))


@final
class _OneByOne(Uniforms):
    """Python's, or what a class of the user's that is a `random.Random` gives as `random()`."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._taken = 0
        self._before: Any = None

    def take(self, n: int) -> Array:
        try:
            self._before = self._rng.getstate()
        except NotImplementedError:  # the operating system's numbers: there is no way back
            self._before = None
        self._taken = n
        return np.array([self._rng.random() for _ in range(n)], np.float64)

    def give_back(self, used: int) -> None:
        if self._before is None or used == self._taken:
            return
        self._rng.setstate(self._before)
        for _ in range(used):
            self._rng.random()

    def end(self) -> None:
        pass
