"""What a planted mistake is: an edit of right code, where it stands, and what it may be called."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


def frozen(name: str) -> bool:
    """Whether the case of this name belongs to the third that nobody tunes on."""
    return hashlib.sha256(name.encode()).digest()[0] % 3 == 0


@dataclass(frozen=True)
class Call:
    """How the code of one op is called.

    `forward` is a function, a layer's class or a Function's; `backward` the second function of a
    pair. A layer's last arguments, `params`, go to its constructor; where it leaves their gradients
    is said by `grads`: `dW`, or `grads.W` for an entry of a dict.
    """

    forward: str
    backward: str = ""
    order: str = "g first"
    """For pairs: `g first`, `g last`, `cache` (g, cache)."""
    params: tuple[str, ...] = ()
    grads: tuple[str, ...] = ()
    how: str = ""
    """`network`: a class with layers in it, verified as a whole. `double`: at order 2."""


@dataclass(frozen=True)
class Slip:
    """A mistake: its row in the project's list, the codes that name it, and the edits that make it.

    `wrong` says where it shows if not at the point `at` with any cotangent: `strided` (at a
    cotangent that is not contiguous), `negative` (at the arguments negated), `float32`, or another
    point's name. Row `X` is for mistakes that are on no list.
    """

    v: str
    what: str
    codes: tuple[str, ...]
    edits: tuple[tuple[str, str], ...]
    at: str = ""
    wrong: str = ""


@dataclass(frozen=True)
class Right:
    """Right code of one op for one face, and the slips that spoil it."""

    face: str
    op: str
    """The op whose arguments it takes (`points.POINTS`)."""
    path: Path
    call: Call
    slips: tuple[Slip, ...] = ()
    at: str = "generic"

    @property
    def name(self) -> str:
        """Face and file."""
        return f"{self.face}/{self.path.stem}"

    @cached_property
    def source(self) -> str:
        """The right code."""
        return self.path.read_text(encoding="utf-8")


@dataclass(frozen=True, eq=False)
class Case:
    """One planted mistake, ready to be verified."""

    right: Right
    slip: Slip

    @property
    def id(self) -> str:
        """Face, file, the list's row and the slip's own words."""
        return f"{self.right.name}/{self.slip.v}-{self.slip.what}"

    @property
    def frozen(self) -> bool:
        """Whether it belongs to the frozen third."""
        return frozen(self.id)

    @property
    def at(self) -> str:
        """The point's name."""
        return self.slip.at or self.right.at

    @cached_property
    def source(self) -> str:
        """The code with the mistake in it."""
        text = self.right.source
        for old, new in self.slip.edits:
            if text.count(old) != 1:
                raise ValueError(f"{self.id}: {old!r} occurs {text.count(old)} times, not once")
            text = text.replace(old, new)
        return text

    @cached_property
    def lines(self) -> tuple[int, int]:
        """First and last line that the edits touched, counted from 1, in the changed code."""
        old = self.right.source.splitlines()
        new = self.source.splitlines()
        short = min(len(old), len(new))
        head = next((i for i in range(short) if old[i] != new[i]), short)
        tail = next((i for i in range(short - head) if old[-1 - i] != new[-1 - i]), short - head)
        return min(head + 1, len(new)), max(head + 1, len(new) - tail)

    @cached_property
    def culprit(self) -> tuple[int, int]:
        """Lines of the op that holds the edited lines: its class; the whole file for a pair."""
        return around(self.source, self.lines)


def around(source: str, lines: tuple[int, int]) -> tuple[int, int]:
    """Lines of the outermost classes that hold these lines; the whole file if none does."""
    first, last = lines
    spans = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    ]
    hit = [s for s in spans if s[0] <= last and s[1] >= first]
    whole = 1, len(source.splitlines())
    return (min(a for a, _ in hit), max(b for _, b in hit)) if hit else whole
