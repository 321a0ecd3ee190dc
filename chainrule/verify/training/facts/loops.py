"""The loops that a running line is in, and steps that no optimizer takes.

Loops are those of the user's, through the functions that lead to the line. What tells a step by
hand (`p.data.add_(p.grad, alpha=-lr)`) is its effect: parameters of the last backward pass have
other values now.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any, final

from chainrule.verify.place import Place
from chainrule.verify.training.record import events
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.trees import last_word, tree_of_file
from chainrule.verify.user_frames import Frames, is_library, user_frame, with_callers

_CALLS = ("range", "len", "enumerate", "zip", "tqdm", "trange", "list", "reversed")
_PLAIN = (
    ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.operator, ast.Call, ast.expr_context,
    ast.Subscript,
)  # fmt: skip
_MOST = 12
"""Frames that are looked at."""


@dataclass(frozen=True)
class Loop:
    """One of them."""

    file: str
    line: int
    count: int | None
    """How many turns it makes; None if that is not known before."""
    last: int = 0
    """Its last line."""
    shuffled: bool = False
    """Whether it goes over batches of samples in an order that was drawn."""

    def has(self, at: Place) -> bool:
        """Whether a place is in it."""
        return at.file == self.file and self.line <= at.line <= self.last


def loops_here() -> tuple[Loop, ...]:
    """Those of the line that is running."""
    return tuple(_all(user_frame()))


def loops_of(file: str) -> list[Loop]:
    """All loops in a file, as far as its text tells."""
    found = [n for n in ast.walk(tree_of_file(file)) if isinstance(n, ast.For | ast.While)]
    return [Loop(file, n.lineno, None, n.end_lineno or 0) for n in found]


def _all(frame: FrameType | None) -> Iterator[Loop]:
    for f in islice(with_callers(frame), _MOST):
        file = f.f_code.co_filename
        if not is_library(file):
            yield from _around(f, file)


def _around(frame: FrameType, file: str) -> Iterator[Loop]:
    line, first = frame.f_lineno, frame.f_code.co_firstlineno
    found = [
        n
        for n in ast.walk(tree_of_file(file))
        if isinstance(n, ast.For | ast.While)
        and first <= n.lineno < line <= (n.end_lineno or 0)
        and not _is_behind(n, line)
    ]
    for n in sorted(found, key=lambda n: -n.lineno):
        count = _count(n.iter, frame) if isinstance(n, ast.For) else None
        shuffled = isinstance(n, ast.For) and _is_shuffled(n, frame)
        yield Loop(file, n.lineno, count, n.end_lineno or 0, shuffled)


def _is_behind(loop: ast.For | ast.While, line: int) -> bool:
    """Whether a line is in the `else` of a loop."""
    return bool(loop.orelse) and line >= loop.orelse[0].lineno


def _count(of: ast.expr, frame: FrameType) -> int | None:
    """How many things an expression goes over, if asking that changes nothing."""
    if not all(isinstance(n, _PLAIN) for n in ast.walk(of)):
        return None
    calls = [n.func for n in ast.walk(of) if isinstance(n, ast.Call)]
    if any(not isinstance(f, ast.Name) or f.id not in _CALLS for f in calls):
        return None
    held = [n.value for n in ast.walk(of) if isinstance(n, ast.Subscript)]
    if any(type(_value(x, frame)) not in (dict, list, tuple) for x in reversed(held)):
        return None  # an object of the user's may change where it is read
    match of:
        case ast.Call(func=ast.Name(id="enumerate" | "tqdm" | "list" | "reversed"), args=[x, *_]):
            return _count(x, frame)
        case ast.Call(func=ast.Name(id="zip"), args=parts):
            return min([n for p in parts if (n := _count(p, frame)) is not None], default=None)
        case ast.Call(func=ast.Name(id="trange"), args=args):
            of = ast.Call(ast.Name("range", ast.Load()), args, [])
        case _:
            pass
    x = _value(of, frame)
    try:
        return len(x) if hasattr(x, "__len__") else None
    except Exception:
        return None


def _value(of: ast.expr, frame: FrameType) -> Any:
    """That of an expression; None where it has none: what the user's objects do when they are asked
    is theirs."""
    try:
        code = compile(ast.fix_missing_locations(ast.Expression(of)), "<turns>", "eval")
        return eval(code, frame.f_globals, frame.f_locals)
    except Exception:
        return None


_DRAWN = ("randperm", "permutation", "shuffle", "shuffled")


def _is_shuffled(loop: ast.For, frame: FrameType) -> bool:
    """Whether it goes over a loader that shuffles, or over parts of a permutation that was drawn:
    parts of that (`perm.split(n)`), or ranges of it (`perm[i : i + n]`)."""
    over = list(ast.walk(loop.iter))
    if any(_draws(n) for n in over if isinstance(n, ast.Call)):
        return True
    own = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    parts = [n.value for n in ast.walk(loop) if isinstance(n, ast.Subscript) and _names(n) & own]
    named = [n for n in (*over, *parts) if isinstance(n, ast.Name)]
    values = {**frame.f_globals, **frame.f_locals}
    return any(_is_drawn(values.get(n.id)) for n in named)


def _draws(call: ast.Call) -> bool:
    told = [k.value for k in call.keywords if k.arg == "shuffle"]
    return last_word(call.func) in _DRAWN or any(
        isinstance(x, ast.Constant) and x.value is True for x in told
    )


def _names(part: ast.Subscript) -> set[str]:
    return {n.id for n in ast.walk(part.slice) if isinstance(n, ast.Name)}


def _is_drawn(x: Any) -> bool:
    """A loader that draws samples, or a permutation out of order."""
    if "RandomSampler" in type(getattr(x, "sampler", None)).__name__:
        return True
    whole = "int" in str(getattr(x, "dtype", "")) and len(getattr(x, "shape", ())) == 1
    if not whole or not 2 < len(x) <= _LONGEST:
        return False
    order: list[int] = x.tolist()
    return order != sorted(order) and sorted(order) == list(range(len(order)))


_LONGEST = 1_000_000
"""Elements of what may be a permutation."""
_SHARE = 0.5
"""Of the leaves that got a gradient, so many change in a step: a buffer that is filled anew, and
whose gradient is asked for, is one of few."""


@final
class HandSteps:
    """Sees from the values of parameters that a step was taken since the last backward pass."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._site: Frames | None = None
        self._leaves: list[tuple[weakref.ref[Any], float]] = []
        """Leaves that got a gradient in the last backward pass, and the norms that they had."""

    def remember(self, e: events.BackwardEnds) -> None:
        """Note the values of all parameters to which a backward pass has brought a gradient."""
        leaves = [x for x in e.begin.graph.leaves if id(x) in e.touched]
        self.watch(e.begin.engine, leaves)

    def watch(self, engine: Engine, leaves: Sequence[Any], site: Frames | None = None) -> None:
        """Note the values of leaves, and from where derivatives by them were asked for."""
        self._engine, self._site = engine, site
        norms = engine.norms([x.detach() for x in leaves])
        self._leaves = [(weakref.ref(x), n) for x, n in zip(leaves, norms, strict=True)]

    def replaced(self, leaves: Sequence[Any], site: Frames) -> bool:
        """Whether derivatives are asked for from the same lines, by as many leaves, none of which
        is one of those: a step has put new ones in their places."""
        before = [id(x) for ref, _ in self._leaves if (x := ref()) is not None]
        known = bool(before) and site == self._site and len(leaves) == len(self._leaves)
        return known and not {id(x) for x in leaves} & set(before)

    def taken(self) -> bool:
        """Whether they have been changed since; said once for each backward pass."""
        alive = [(x, norm) for ref, norm in self._leaves if (x := ref()) is not None]
        if self._engine is None or not alive:
            return False
        norms = self._engine.norms([x.detach() for x, _ in alive])
        changed = sum([n != norm for n, (_, norm) in zip(norms, alive, strict=True)])
        if changed < _SHARE * len(alive):
            return False
        self._leaves = []
        return True
