"""Masks: attention that reads the padding alone, since its mask says the opposite.

What a position holds is known from what the model was given: indices of a table, or numbers. Those
that are filled up to one length hold one index, or zeros, at one end of each row; how many there
are differs from row to row. Where just these are kept, and none of the others, nothing is read.
"""

from __future__ import annotations

import ast
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from chainrule.engine.op import Array
from chainrule.verify.place import Place
from chainrule.verify.training.record import events, op_events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.op_names import ATTENTION
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.training.text import edits
from chainrule.verify.training.text.source import statement_at
from chainrule.verify.trees import function_at, last_word, tree_of_file
from chainrule.verify.user_frames import Frames, placed, site

Mask: TypeAlias = NDArray[np.bool_]
_LOOKS = 12
"""Calls of attention that are looked at."""
_SIZE = 1 << 20
"""Elements of what is looked at."""
_SOURCES = 6
"""Values that a model was given last."""
_LEFT_OUT = -1e4
"""What is added to a score, from which on nothing is left of it."""


@dataclass(eq=False)
class _Inverted:
    """Attention that keeps the padding alone."""

    place: Place | None
    kept: int
    positions: int
    rows: int
    held: str
    """What all that it keeps holds."""
    times: int = 0


@final
class Masks(Part):
    """Finds `mask_inverted`."""

    title = "masks of attention"
    rows = (
        Row(
            "mask_inverted",
            lambda f: f.inverted.values(),
            "in {rows} sequences attention keeps {kept} of {positions} positions: all that hold "
            "{held}, the padding at one end, and none of the others",
            "turn the mask round: in key_padding_mask, and in masked_fill, True leaves a position "
            "out; in a mask of scaled_dot_product_attention it keeps one",
            unless=(is_seldom,),
            subject="attention",
            edit=lambda c: edits.change_line(c.place, _turned),
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._looks = 0
        self._given = deque[Any](maxlen=_SOURCES)
        """What models and tables were given in this step."""
        self.inverted: dict[Frames, _Inverted] = {}

    def seen(self) -> Sequence[str]:
        """How many calls there were."""
        return [f"{self._looks} calls"] if self._looks else []

    @on(op_events.Entered)
    def _entered(self, e: op_events.Entered) -> None:
        if not e.depth and self._looks < _LOOKS:
            self._given.extend([x for x in e.inputs if hasattr(x, "shape")])

    @on(events.StepEnds)
    def _stepped(self, e: events.StepEnds) -> None:
        self._given.clear()

    @on(op_events.Called)
    def _called(self, e: op_events.Called) -> None:
        """Note which sequences are given, and hold each mask of an attention against them."""
        if e.name == "embedding":
            self._given.append(e.args[0])
        if e.name not in ATTENTION or self._looks >= _LOOKS:
            return
        mask = _mask(e)
        if mask is None or not 1 < len(mask.shape) < 5 or math.prod(mask.shape) > _SIZE:
            return
        weights = e.engine.array(mask)
        self._looks += 1
        for given in self._given:
            fits = _fits(tuple(given.shape), weights.shape)
            found = _padding(e.engine.array(given), weights) if fits else None
            if found is not None:
                frames = site()
                row = self.inverted.setdefault(frames, found)
                row.place = row.place or _mask_line(frames)
                row.times += 1
                return


def _fits(given: Sequence[int], weights: Sequence[int]) -> bool:
    """Whether a value may be a batch of the sequences whose positions are weighed."""
    if not 2 <= len(given) <= 3 or not 0 < math.prod(given) <= _SIZE:
        return False
    return weights[-1] == given[1] and weights[0] % given[0] == 0


def _mask(e: op_events.Called) -> Any:
    """Of a call, what is larger than 0 where a position is kept; None if it has no mask."""
    if e.name == "softmax":
        return e.y
    if e.name == "multi_head_attention_forward":
        mask, keeps = e.kwargs.get("key_padding_mask"), False
    else:
        mask, keeps = e.kwargs.get("attn_mask", e.args[3] if len(e.args) > 3 else None), True
    if mask is None or not hasattr(mask, "shape"):
        return None
    if "bool" not in str(mask.dtype):
        return mask > _LEFT_OUT
    return mask if keeps else ~mask


def _padding(given: Array, weights: Array) -> _Inverted | None:
    """What is kept, if that is the padding of what was given and nothing else."""
    batch, length = given.shape[:2]
    every = (weights > 0).reshape(batch, -1, length).max(1)
    some = (every.sum(1) > 0) & (every.sum(1) < length)
    kept: Mask = every[some]
    if not len(kept):
        return None
    given = given[some].reshape(len(kept), length, -1)
    if len(np.unique(kept.sum(1))) < 2 or not (_is_end(kept) or _is_end(kept[:, ::-1])):
        return None
    held, others = given[kept], given[~kept]
    whole = bool((given == np.floor(given)).all()) and given.shape[2] == 1
    if (held != held[:1]).any() or (others == held[:1]).all(1).any():
        return None
    if not (held[0] == 0).all() and not (whole and len(np.unique(others)) > 1):
        return None
    what = f"{held[0, 0]:g}" if whole else "zeros"
    return _Inverted(None, int(kept.sum()), kept.size, len(kept), what)


def _is_end(kept: Mask) -> bool:
    return bool((kept[:, :-1] <= kept[:, 1:]).all())


# --- where the mask was made

_ASKS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_not")


def _mask_line(frames: Frames) -> Place | None:
    """The line that compares, for a name on one of the lines that led to the call; else the
    innermost one."""
    for code, line in frames:
        found = statement_at(placed((code, line)))
        lines = [] if found is None else _comparing(tree_of_file(code.co_filename), found[1])
        if lines:
            return placed((code, lines[-1]))
    return placed(frames[0]) if frames else None


def _comparing(tree: ast.AST, statement: ast.stmt) -> list[int]:
    """Lines up to that of a statement that compare, and give it what they make."""
    names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
    function = function_at(tree, statement.lineno) or tree
    made = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and _sets(n) & names]
    before = [n for n in made if n.lineno < statement.lineno]
    return [n.lineno for n in (*before, statement) if any(map(_is_asked, ast.walk(n)))]


def _sets(node: ast.Assign) -> set[str]:
    return {n.id for n in node.targets if isinstance(n, ast.Name)}


def _is_asked(node: ast.AST) -> bool:
    called = isinstance(node, ast.Call) and last_word(node.func) in _ASKS
    return called or isinstance(node, ast.Compare | ast.Invert)


_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}  # fmt: skip


def _turned(statement: ast.stmt) -> bool:
    """The only comparison of a statement, the other way round."""
    asked = [n for n in ast.walk(statement) if isinstance(n, ast.Compare)]
    if len(asked) != 1 or len(asked[0].ops) != 1:
        return False
    other = _OPPOSITE.get(type(asked[0].ops[0]))
    asked[0].ops = asked[0].ops if other is None else [other()]
    return other is not None
