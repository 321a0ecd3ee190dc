"""Where digits are lost: the first expression whose value in the program's dtype is far from that
in float64, though what it is made of is not. A difference of nearly equal numbers, as a rule.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from chainrule.verify.evidence import Evidence
from chainrule.verify.place import Place
from chainrule.verify.repair.code.draft import Draft, UnreadableError
from chainrule.verify.repair.target import quiet
from chainrule.verify.repair.values.watch import Watched, plain
from chainrule.verify.subject import Array, Source, Subject, values
from chainrule.verify.tolerances import LOOSE

_JUMP = 30.0
"""So many times as far off as anything that it is made of."""


def digits_lost(evidence: Evidence) -> tuple[Place, str] | None:
    """The line at which they are, in the backward or in the forward, and what is seen of it."""
    source = evidence.subject.source
    for code in (source, source.separate_forward if source is not None else None):
        found = None if code is None else _in(evidence.subject, code)
        if found is not None:
            return found
    return None


def _in(subject: Subject, source: Source) -> tuple[Place, str] | None:
    """The line, and what to say of it; None if no expression loses more than it must."""
    try:
        draft = Draft.of(source)
        low, high = (_values_seen(subject, source, draft, wide) for wide in (False, True))
    except (UnreadableError, SyntaxError, ValueError, StopIteration):
        return None
    off = {n: _distance(low.get(n), high.get(n)) for n in draft.nodes if isinstance(n, ast.expr)}
    eps = max([_epsilon(v) for v in low.values()], default=0.0)
    lost = [n for n, e in off.items() if e > max(LOOSE, _JUMP * _before(off, n, eps))]
    if not lost:
        return None
    node = min(lost, key=lambda n: (n.lineno, _length(draft, n), n.col_offset))
    if isinstance(node, ast.Name | ast.Attribute):
        return None  # it came so
    says = (
        f"`{draft.src(node)}` is off by {off[node]:.2g} of its size in the program's dtype, and "
        f"what it is made of by {_before(off, node, eps):.1g}"
    )
    return draft.place(node), says


def _length(draft: Draft, node: ast.expr) -> int:
    """What is evaluated first stands first: the parts of an expression before it."""
    return draft.span(node)[1] - draft.span(node)[0]


def _values_seen(
    subject: Subject, source: Source, draft: Draft, wide: bool
) -> dict[ast.AST, Array]:
    """What expressions were when they were evaluated last."""
    watched = Watched(draft)
    changed = source.replaced(watched.function)
    low = values(subject)
    xs = values(subject, np.float64) if wide else low
    with quiet(), suppress(Exception):  # what was evaluated until then tells as well
        changed.pull(xs, _cotangents(subject, low, wide))
    found = {n: plain(watched.values.get(draft.index[n])) for n in draft.nodes}
    return {n: v for n, v in found.items() if v is not None and v.dtype.kind == "f"}


def _cotangents(subject: Subject, low: Sequence[object], wide: bool) -> list[Array]:
    """The same numbers for both, as the dtype of each result holds them."""
    rng = np.random.default_rng(0)
    ys = subject.forward(low)
    gs = [rng.standard_normal(y.shape).astype(y.dtype) for y in ys]
    return [g.astype(np.float64) for g in gs] if wide else gs


def _distance(low: Array | None, high: Array | None) -> float:
    """How far values are from what they should be, relative to their size; 0 if nobody can tell."""
    if low is None or high is None or low.shape != high.shape or not low.size:
        return 0.0
    with np.errstate(all="ignore"):
        size = np.linalg.norm(high.astype(np.float64))
        far = np.linalg.norm(low.astype(np.float64) - high) / size if size else 0.0
    return float(far) if np.isfinite(far) else 0.0


def _epsilon(value: Array) -> float:
    return float(np.finfo(value.dtype).eps) if value.dtype.itemsize < 8 else 0.0


def _before(off: dict[ast.expr, float], node: ast.expr, eps: float) -> float:
    """How far anything is off that an expression is made of; its rounding at least."""
    inside = [off.get(n, 0.0) for n in ast.walk(node) if n is not node and isinstance(n, ast.expr)]
    return max([eps, *inside])
