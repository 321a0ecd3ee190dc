"""Losses that are given values of another domain than they expect.

Logits are any numbers, probabilities add up to one, their logarithms are below zero. What a loss is
given is known from the op that made it, and from the values themselves.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from chainrule.engine.op import Array
from chainrule.engine.source_text import file_lines
from chainrule.verify.place import Place
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.record.engine import Engine
from chainrule.verify.training.record.op_names import SQUASH, LossInput, Selected
from chainrule.verify.training.rules.finding import Row, is_seldom
from chainrule.verify.training.text import edits
from chainrule.verify.user_frames import Line, here, placed

_NEAR = 1e-3
"""How far from one a sum of probabilities may be, from zero a logarithm."""
_LOOKS = 3
"""Calls of one line whose values are looked at."""
_SIZE = 1 << 22
"""Elements of what is looked at."""
_PROBABILITIES = "probabilities"
_UNSCALED = "no logarithms of probabilities: some are above 0"


def _adds_up(p: Array, axis: int) -> bool:
    """Whether values are probabilities along an axis."""
    return bool(np.all(p >= 0) and np.allclose(p.sum(axis), 1, rtol=0, atol=_NEAR))


def _classes(e: LossInput, x: Array) -> int:
    """The axis of the classes: that which the target has not; PyTorch's is the second one."""
    axis = e.settings.get("axis", e.settings.get("dim"))
    if isinstance(axis, int):
        return axis % max(x.ndim, 1)
    shape = tuple(getattr(e.target, "shape", ()))
    fits = [k for k in range(x.ndim) if x.shape[:k] + x.shape[k + 1 :] == shape]
    if len(fits) == 1:
        return fits[0]
    return min(1, x.ndim - 1) if len(shape) <= x.ndim and x.ndim < 3 else x.ndim - 1


def _logarithms(e: LossInput, x: Array) -> str:
    """Of what expects logarithms."""
    if x.shape[_classes(e, x)] > 1 and _adds_up(x, _classes(e, x)):
        return _PROBABILITIES
    return _UNSCALED if float(x.max(initial=-1)) > _NEAR else ""


def _divergence(e: LossInput, x: Array) -> str:
    """Of `kl_div`, whose target is to be probabilities, if not said otherwise."""
    if e.name == "kl_div" and x.ndim and _adds_up(x, x.ndim - 1):
        return _PROBABILITIES
    target = e.engine.array(e.target) if hasattr(e.target, "shape") else None
    if target is None or not target.size or not target.ndim:
        return ""
    if e.settings.get("log_target", False):
        return f"{_PROBABILITIES} as its target" if _adds_up(target, target.ndim - 1) else ""
    return "logarithms as its target" if float(target.min()) < -_NEAR else ""


def _logits(e: LossInput, x: Array) -> str:
    """Of what makes probabilities itself, of logits."""
    if e.maker.name == "softmax" and x.shape[_classes(e, x)] > 1:
        return _PROBABILITIES if _adds_up(x, _classes(e, x)) else ""
    return _PROBABILITIES if e.name == "cross_entropy" and e.maker.name == "sigmoid" else ""


def _single_logits(e: LossInput, x: Array) -> str:
    """The same, each for itself."""
    made = ("sigmoid",) if e.name in SQUASH else ("sigmoid", "softmax")
    return _PROBABILITIES if e.maker.name in made else ""


def _rates(e: LossInput, x: Array) -> str:
    """Of what expects logarithms of rates, if not said otherwise."""
    made = e.maker.name in ("exp", "softplus") and e.settings.get("log_input", True) is True
    return "rates" if made else ""


_JUDGES: dict[str, tuple[str, Callable[[LossInput, Array], str]]] = {
    "nll_loss": ("logarithms of probabilities", _logarithms),
    "kl_div": ("logarithms of probabilities, and a target of probabilities", _divergence),
    "cross_entropy": ("logits", _logits),
    "softmax": ("logits", _logits),
    "log_softmax": ("logits", _logits),
    "logsumexp": ("logits", _logits),
    "sigmoid": ("logits", _single_logits),
    "logsigmoid": ("logits", _single_logits),
    "binary_cross_entropy_with_logits": ("logits", _single_logits),
    "soft_margin_loss": ("logits", _single_logits),
    "multilabel_soft_margin_loss": ("logits", _single_logits),
    "poisson_nll_loss": ("logarithms of rates", _rates),
}
"""By loss: what it expects, and what tells what it was given, empty if that is it."""


class Misfit(NamedTuple):
    """A loss that was given what it does not expect."""

    name: str
    given: str
    maker: str
    """The op that had made it, where that is the reason."""
    place: Place | None
    """Where that was made, if the user's text says so, else where the loss is."""
    loss_at: Place | None
    times: int

    @property
    def expects(self) -> str:
        """What it expects."""
        return _JUDGES[self.name][0]


class Crossed(NamedTuple):
    """Probabilities along one axis, among which is chosen along another one."""

    over: int
    along: int
    place: Place | None
    times: int


@dataclass(frozen=True)
class _Key:
    name: str
    given: str
    maker: str
    made_at: Line | None
    at: Line | None


@final
class Domains(Part):
    """Finds `wrong_domain`, and `wrong_axis` of a softmax."""

    title = "what losses expect"
    rows = (
        Row(
            "wrong_domain",
            lambda f: f.misfits(),
            lambda c: (
                f"`{c.name}` expects {c.expects}, and is given {c.given}"
                + (f", which `{c.maker}` has made" if c.maker else "")
            ),
            lambda c: _ADVICE.get((c.name, c.given), f"give `{c.name}` {c.expects}"),
            "warning",
            (is_seldom,),
            detail=lambda c: f"the loss is at {c.loss_at}" if c.loss_at != c.place else "",
            subject="the loss",
            edit=lambda c: edits.change_line(c.place, _as_probabilities),
        ),
        Row(
            "wrong_axis",
            lambda f: f.crossed(),
            "these probabilities add up to one along axis {over}, and it is chosen among them "
            "along axis {along}",
            "softmax along axis {along}",
            "error",
            (is_seldom,),
            subject="the loss",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._lines: dict[int, Line | None] = {}
        """By key of an op that made probabilities: where it ran."""
        self._looks = Counter[tuple[str, Line | None]]()
        self._found = Counter[_Key]()
        self._crossed = Counter[tuple[int, int, Line | None]]()

    def seen(self) -> Sequence[str]:
        """How many there were."""
        return [f"{self._looks.total()} calls"] if self._looks else []

    def misfits(self) -> list[Misfit]:
        """By line, that of a loss before that of an op in it."""
        rows = list[Misfit]()
        for k, times in sorted(self._found.items(), key=lambda row: row[0].name in SQUASH):
            at = placed(k.at)
            is_known = k.maker and k.name != "logsumexp"  # else it is told what it is given
            made = _written_at(placed(k.made_at), k.maker) if is_known else None
            if made is None or made not in [row.place for row in rows]:
                rows.append(Misfit(k.name, k.given, k.maker, made or at, at, times))
        return rows

    def crossed(self) -> list[Crossed]:
        """By line."""
        return [Crossed(*k[:2], placed(k[2]), n) for k, n in self._crossed.items()]

    @on(LossInput)
    def _fed(self, e: LossInput) -> None:
        at = here()
        if e.name in SQUASH:
            self._lines[e.key] = at
        if (self._looks[e.name, at] >= _LOOKS) or not _is_seen(e):
            return
        self._looks[e.name, at] += 1
        given = _JUDGES[e.name][1](e, e.engine.array(e.x))
        if given:
            maker = e.maker.name if given in (_PROBABILITIES, "rates") else ""
            made_at = self._lines.get(e.maker.key)
            self._found[_Key(e.name, given, maker, made_at, at)] += 1

    @on(Selected)
    def _selected(self, e: Selected) -> None:
        at = self._lines.get(e.maker.key) or here()
        if self._looks["", at] >= _LOOKS:
            return
        self._looks["", at] += 1
        along = _along(e.engine, e)
        if along is not None:
            self._crossed[e.over, along, at] += 1


def _is_seen(e: LossInput) -> bool:
    """Whether a call may be looked at: what has made nothing of a softmax has no domain."""
    if e.name in SQUASH and e.maker.name not in ("softmax", "sigmoid"):
        return False
    size = int(np.prod(tuple(e.x.shape)))
    return 0 < size <= _SIZE and len(e.x.shape) > 0


def _along(engine: Engine, e: Selected) -> int | None:
    """The axis along which it is chosen, if it is another one than that of the probabilities."""
    if e.weights is None:
        plain = e.maker.name == "log_softmax" and len(e.x.shape) == 2
        return e.axis if plain and e.axis != e.over else None
    w = engine.array(e.weights)
    if w.dtype.kind != "f" or w.shape[e.over] < 2 or float(w.min()) < 0 or _adds_up(w, e.over):
        return None
    others = [k for k in range(w.ndim) if k != e.over and w.shape[k] > 1 and _adds_up(w, k)]
    return others[0] if len(others) == 1 else None


_WORDS = {"softmax": r"\bsoftmax\(|\bSoftmax\(", "sigmoid": r"\bsigmoid\(|\bSigmoid\(|\bexpit\(",
          "exp": r"\bexp\(", "softplus": r"softplus\(|Softplus\("}  # fmt: skip


def _written_at(at: Place | None, maker: str) -> Place | None:
    """The line whose text makes what an op has made: where it ran, or where its layer is made."""
    if at is None or maker not in _WORDS:
        return None
    word = re.compile(_WORDS[maker])
    if word.search(at.text):
        return at
    lines = [n for n, line in enumerate(file_lines(at.file), 1) if word.search(line)]
    return Place(at.file, lines[0], at.function) if len(lines) == 1 else None


def _as_probabilities(statement: ast.stmt) -> bool:
    """`Categorical(logits=p)` as `Categorical(probs=p)`."""
    calls = [n for n in ast.walk(statement) if isinstance(n, ast.Call)]
    given = [k for n in calls for k in n.keywords if k.arg == "logits"]
    for k in given:
        k.arg = "probs"
    return len(given) == 1


_ADVICE = {
    ("logsumexp", _PROBABILITIES): "a distribution of probabilities: Categorical(probs=...)",
    ("nll_loss", _PROBABILITIES): "log_softmax instead of softmax, or cross_entropy of the logits",
    ("nll_loss", _UNSCALED): "cross_entropy, if these are logits; else their log_softmax",
    ("cross_entropy", _PROBABILITIES): "cross_entropy of the logits: it has a softmax of its own",
    ("binary_cross_entropy_with_logits", _PROBABILITIES): (
        "give it the logits: it has a sigmoid of its own; or binary_cross_entropy"
    ),
    ("poisson_nll_loss", "rates"): "log_input=False, or leave the exponential out",
}
"""What to do, by loss and what it was given."""
