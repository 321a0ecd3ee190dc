"""How a loss changes with the parameters of a step, beside what its gradients say."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from chainrule.verify.subject import Array, values
from chainrule.verify.tolerances import LOOSE
from chainrule.verify.trees import tree_of_file

if TYPE_CHECKING:
    from chainrule.verify.script.byhand.step import HandStep

FITS = LOOSE
"""Relative error up to which a gradient is that of a loss: small numbers that keep a logarithm
finite may be left out of it."""
_DIRECTIONS, _STEP = 3, 1e-5
"""Along which a loss is compared with its gradients, and how far it goes there."""
_ONE_BY_ONE = 6
"""Elements of a parameter along each of which it is compared."""
_ONE: Final = np.ones(())


@dataclass(frozen=True)
class Slopes:
    """Of one parameter, along some directions: of the loss, and by its gradient."""

    true: Array
    said: Array
    size: float
    """Of the gradient."""
    elements: int


def slopes_of(step: HandStep, gradients: Sequence[Array | None] | None = None) -> Iterator[Slopes]:
    """Of its own gradients, or of others."""
    xs = values(step)
    rng = np.random.default_rng(3)
    pulled = step.pull(xs, [_ONE]) if gradients is None else gradients
    for k, (x, g) in enumerate(zip(xs, pulled, strict=True)):
        given = np.zeros(x.shape) if g is None else g
        ts = [t / np.linalg.norm(t) for t in rng.normal(size=(_DIRECTIONS, *x.shape))]
        if 1 < x.size <= _ONE_BY_ONE:
            ts = list(np.eye(x.size).reshape(x.size, *x.shape))
        true = [slope(step, xs, k, t) for t in ts]
        said = [float(np.sum(given * t)) for t in ts]
        size = float(np.linalg.norm(given))
        yield Slopes(np.array(true), np.array(said), size, x.size)


def slope(step: HandStep, xs: Sequence[Array], k: int, t: Array) -> float:
    """Of the loss at xs, where the parameter k moves along t."""
    moved = [[*xs[:k], xs[k] + h * t, *xs[k + 1 :]] for h in (_STEP, -_STEP)]
    up, down = [float(step.forward(x)[0]) for x in moved]
    return (up - down) / (2 * _STEP)


def is_clipped(step: HandStep) -> bool:
    """Whether elements of gradients lie at a bound: they are as large as the largest one, the loss
    has a larger slope there, and that of other elements is the gradient."""
    xs = values(step)
    gradients = [(k, g) for k, g in enumerate(step.pull(xs, [_ONE])) if g is not None]
    bound = max([float(np.abs(g).max(initial=0)) for _, g in gradients], default=0.0)
    at = [(k, g, i) for k, g in gradients for i in _some(np.abs(g) == bound)]
    below = [(k, g, i) for k, g in gradients for i in _some(np.abs(g) < bound)]
    if not bound or len(at) < 2:
        return False

    def over(k: int, g: Array, i: int) -> float:
        t = np.zeros(g.shape)
        t.flat[i] = np.sign(g.flat[i]) or 1.0
        return slope(step, xs, k, t) - abs(float(g.flat[i]))

    allowed = FITS * bound
    return all(over(*r) > allowed for r in at) and all(abs(over(*r)) < allowed for r in below)


def _some(chosen: Array) -> list[int]:
    """Places of some of the elements that are chosen, from all over."""
    every = np.flatnonzero(chosen)
    return [int(i) for i in every[:: -(-len(every) // _ONE_BY_ONE) or 1]]


def gradient_fits(s: Slopes) -> bool:
    """Whether a gradient is that of the loss."""
    return s.size > 0 and bool(np.all(np.abs(s.true - s.said) <= FITS * s.size))


def multiple(slopes: Sequence[Slopes]) -> float:
    """The number by which most gradients, or most elements of small ones, differ from the true
    ones, to some digits; 0 for none. Gradients of one number differ by one always."""
    whole = [s for s in slopes if s.elements > 1 and np.any(s.true)]
    ratios = [float(s.true @ s.said / (s.true @ s.true)) for s in whole]
    ratios += [float(np.median(s.said / s.true)) for s in whole if np.all(s.true)]
    near = [
        [np.mean(np.abs(s.said - by * s.true) <= FITS * s.size) for s in whole] for by in ratios
    ]
    by, most = max(zip(ratios, map(sum, near), strict=True), key=lambda r: r[1], default=(0.0, 0))
    if not by or 2 * most < len(whole):
        return 0.0
    return round(by * 2) / 2 if abs(by - round(by * 2) / 2) < FITS else by


def is_count(x: float) -> bool:
    """Whether it is some halves, or one of so many parts: what a sum and a mean differ by. Another
    number would fit by chance what is nearly right."""
    return any(abs(2 * n - round(2 * n)) < FITS * n for n in (abs(x), 1 / abs(x)))


_POINTS = (1.0, 1.02)
"""What the parameters are multiplied by."""
_NEAR, _PARTS = 1e-3, 4
"""A loss that is shown may be the mean of so many, of which all but one are older."""


class Squared(NamedTuple):
    """Where a square stands for a length: with `s = limit / sum(g * g)` the product of the lengths
    of s * g and of g is the limit, wherever the parameters are."""

    line: int
    before: str
    after: str


def square_for_length(step: HandStep) -> Squared | None:
    """The sum of squares by which a step's gradients are divided; None if none is."""
    tree = tree_of_file(step.text.file)
    sums = list(_sums_of_squares(tree))
    if not sums:
        return None
    (size, first), (other, second) = [_lengths(step, by) for by in _POINTS]
    product = size * first
    moved = abs(size - other) > 10 * _NEAR * size
    if not moved or abs(product - other * second) > _NEAR * product:
        return None
    limits = {float(n.value) for n in ast.walk(tree)
              if isinstance(n, ast.Constant) and isinstance(n.value, int | float)}  # fmt: skip
    near = [abs(product * k - limit) for limit in limits for k in range(1, _PARTS + 1)]
    return sums[0] if min(near, default=product) <= _NEAR * product else None


def _lengths(step: HandStep, by: float) -> tuple[float, float]:
    """Of the step's gradients, and of the loss's along them."""
    xs = [by * x for x in values(step)]
    pulled = step.pull(xs, [_ONE])
    gs = [np.zeros(np.shape(x)) if g is None else g for x, g in zip(xs, pulled, strict=True)]
    size = float(np.sqrt(sum(float(np.sum(g * g)) for g in gs))) or 1.0
    ends = [[x + h / size * g for x, g in zip(xs, gs, strict=True)] for h in (_STEP, -_STEP)]
    up, down = [float(step.forward(x)[0]) for x in ends]
    return size, (up - down) / (2 * _STEP) / step.scale


def _sums_of_squares(tree: ast.AST) -> list[Squared]:
    """`total = sum(np.sum(g ** 2) for g in grads)`, of which something is divided further on."""
    divisors = {name.id for n in ast.walk(tree) if isinstance(n, ast.BinOp)
                and isinstance(n.op, ast.Div) for name in ast.walk(n.right)
                if isinstance(name, ast.Name)}  # fmt: skip
    found = list[Squared]()
    for n in ast.walk(tree):
        match n:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if (
                name in divisors
            ):
                text = ast.unparse(value)
                if "sum" in text and "** 2" in text and "sqrt" not in text:
                    found.append(Squared(n.lineno, text, f"{name} = np.sqrt({text})"))
            case _:
                pass
    return found
