"""Backwards that compute in fewer digits than their values have: float32 within float64.

Their gradients are right to eight digits, and nothing that is compared with differences shows it.
What shows it is their noise: where inputs move by next to nothing, such a gradient moves in jumps,
and the forward does not. It counts if the backward's text says so as well.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from chainrule.verify.evidence import Evidence
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.measure import cotangents
from chainrule.verify.measure.noise import Base, base_at, signs
from chainrule.verify.measure.run import Point, Run, norm
from chainrule.verify.place import Place
from chainrule.verify.subject import Array, Source, Subject, values
from chainrule.verify.trees import tree_of

_DTYPES = {
    "float32": "float32", "single": "float32", "float": "float32", "complex64": "complex64",
    "float16": "float16", "half": "float16", "bfloat16": "bfloat16",
}  # fmt: skip
"""What names a narrow dtype as `np.float32`, `x.half()`, `"bfloat16"`; `float` as a method only."""
_QUIET, _LOUD = 1e-12, 1e-9
"""Relative noise of a forward in float64, at most, and of a backward that is not, at least."""
_STEP = 2.0**-23 * 0.919
"""About what float32 can tell apart."""
_JUMP = 1e-1
"""More than that is no rounding of any dtype."""


def narrow(evidence: Evidence) -> Finding | None:
    """The finding, if the backward of what runs in float64 computes in fewer digits."""
    subject = evidence.subject
    written = _narrow_line(subject.source)
    if written is None or not _is_wide(subject):
        return None
    place, dtype = written
    run = Run(subject, Evidence(subject))
    base = base_at(run, Point("as captured", values(subject), "captured"))
    forward = max([_level(n, y) for n, y in zip(base.noise, base.ys, strict=True)], default=0.0)
    found = {k: level for k, level in _backward(run, base).items() if _LOUD < level < _JUMP}
    evidence.evaluations += run.evidence.evaluations
    if forward > _QUIET or not found:
        return None
    worst = max(found, key=lambda k: found[k])
    because = (
        f"computed in {dtype}: where its inputs move by next to nothing, the gradient jumps by "
        f"{found[worst]:.1g} of its size, the forward by {forward:.1g}"
    )
    advice = f"compute in the dtype of the values: no {dtype} in the backward"
    return Finding(
        "warning",
        subject.name,
        subject.kind,
        subject.inputs[worst].name,
        (Name("precision", because),),
        place=place,
        error=found[worst],
        correction=Correction(advice, place=place),
    )


def _is_wide(subject: Subject) -> bool:
    dtypes = [x.value.dtype for x in subject.inputs if x.wanted and hasattr(x.value, "dtype")]
    return bool(dtypes) and all(d in (np.float64, np.complex128) for d in dtypes)


def _backward(run: Run, base: Base) -> dict[int, float]:
    """How noisy the gradients are, relative to their size, by input: second differences where
    inputs and cotangents move by equal tiny steps."""
    gs = cotangents.random(run, base)
    ts = [signs(run.rng, np.shape(x)) for x in base.xs]
    us = [signs(run.rng, g.shape) for g in gs]
    near: list[Sequence[Array | None]] = []
    for i in (1, 2, 3):
        xs = [
            x * (1 + i * _STEP * t) if k in run.wanted else x
            for k, (x, t) in enumerate(zip(base.xs, ts, strict=True))
        ]
        near.append(run.pull(xs, [g * (1 + i * _STEP * u) for g, u in zip(gs, us, strict=True)]))
    return {k: _second([bars[k] for bars in near]) for k in run.wanted}


def _second(near: Sequence[Array | None]) -> float:
    """The second difference of three gradients, relative to their size."""
    a, b, c = near
    if a is None or b is None or c is None or not a.shape == b.shape == c.shape:
        return 0.0
    return _level(a - 2 * b + c, b)


def _level(difference: Array, x: Array) -> float:
    size = norm(x)
    return norm(difference) / size if np.isfinite(size) and size else 0.0


def _narrow_line(source: Source | None) -> tuple[Place, str] | None:
    """The first line of a backward, or of the forward that keeps values for it, that names a
    narrow dtype, and the dtype."""
    codes = [] if source is None else [source, source.computing, source.forward]
    for code in [c for c in codes if c is not None]:
        nodes = [n for n in ast.walk(tree_of(code.text)) if isinstance(n, ast.expr)]
        rows = [(n.lineno, name) for n in nodes if (name := _narrow_dtype(n))]
        if rows:
            line, name = min(rows)
            return Place(code.file, code.first_line + line - 1, code.function.__qualname__), name
    return None


def _narrow_dtype(node: ast.expr) -> str:
    """The narrow dtype that an expression names; empty for others."""
    match node:
        case ast.Call(func=ast.Attribute(attr="float"), args=[]):
            return _DTYPES["float"]
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Constant(value=str(name)):
            return _DTYPES.get(name, "") if name != "float" else ""
        case _:
            return ""
