"""The questions that are asked about a case, and PyTorch's answers.

Notation: `xs` the differentiable arguments, `g` cotangents of the results, `ts` and `us` tangents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

import chainrule as cr
from chainrule.ops.complex import conj, real
from tests.interop.opdb.harness import Case, Difference, Row, cases, differ, size
from tests.interop.opdb.translate import Function, Unlike, array
from tests.ops.check import strided
from tests.ops.sample import Array


@dataclass(frozen=True, eq=False)
class Asked:
    """PyTorch's answers to a case: its results, and the graph from `xs` to them."""

    case: Case
    xs: list[Any]
    ys: list[Any]

    @cached_property
    def smooth(self) -> list[int]:
        """The places of the results that have a gradient."""
        return [i for i, y in enumerate(self.ys) if y.requires_grad]

    @cached_property
    def gs(self) -> list[Array]:
        """A cotangent for each of those."""
        return [self.case.random(self.ys[i], 10 + i) for i in self.smooth]

    @cached_property
    def us(self) -> list[Array]:
        """A tangent for each argument."""
        return [self.case.random(x, 50 + i) for i, x in enumerate(self.xs)]

    def pull(self, *, create_graph: bool = False) -> list[Any]:
        """The cotangents of the arguments."""
        ys = [self.ys[i] for i in self.smooth]
        gs = [torch.from_numpy(g) for g in self.gs]
        bars = torch.autograd.grad(
            ys, self.xs, gs, create_graph=create_graph, retain_graph=True, allow_unused=True
        )
        pairs = zip(bars, self.xs, strict=True)
        return [torch.zeros_like(x) if b is None else b for b, x in pairs]

    def natural(self, i: int, order: int = 1) -> float:
        """What size a derivative of that order for argument i has if nothing is special."""
        y = max([size(array(self.ys[k])) for k in self.smooth], default=1.0)
        return max(map(size, self.gs), default=1.0) * y / size(self.case.xs[i]) ** order


def ask(case: Case) -> Asked:
    """Run PyTorch's op on fresh leaves."""
    xs = [torch.from_numpy(x.copy()).requires_grad_() for x in case.xs]
    return Asked(case, xs, case.theirs(*xs))


def value(asked: Asked) -> Iterator[Difference | None]:
    """The results themselves, indices included."""
    case = asked.case
    got = case.ours(*[cr.tensor(x) for x in case.xs])
    if len(got) != len(asked.ys):
        yield Difference("number of results", np.inf, len(got), len(asked.ys), case)
        return
    for i, (mine, other) in enumerate(zip(got, asked.ys, strict=True)):
        yield differ(case, f"value {i}", mine.numpy(), array(other), size(array(other)))


def gradient(asked: Asked) -> Iterator[Difference | None]:
    """The vjp by both doors: `vjp` on arrays as they come, `backward` on strided ones."""
    case = asked.case
    want = asked.pull()
    for question, bars in (("vjp", _vjp(asked)), ("backward, strided", _backward(asked))):
        for i, (mine, other) in enumerate(zip(bars, want, strict=True)):
            yield differ(case, f"{question} {i}", mine, array(other), asked.natural(i))


def smooth(asked: Asked) -> Function:
    """Our function, of which only the results that have a gradient are asked for."""
    return lambda *xs: [y for i, y in enumerate(asked.case.ours(*xs)) if i in asked.smooth]


def _vjp(asked: Asked) -> list[Array]:
    _, pull = cr.vjp(smooth(asked), *[cr.tensor(x) for x in asked.case.xs])
    return [bar.numpy() for bar in pull([cr.tensor(g) for g in asked.gs])]


def _backward(asked: Asked) -> list[Array]:
    xs = [cr.tensor(strided(x) if x.ndim else x, requires_grad=True) for x in asked.case.xs]
    total: Any = 0.0
    for y, g in zip(smooth(asked)(*xs), asked.gs, strict=True):
        total = total + cr.sum(real(y * cr.tensor(strided(np.conj(g)) if g.ndim else np.conj(g))))
    if isinstance(total, cr.Tensor) and total.requires_grad:
        total.backward()
    return [np.zeros(x.shape, x.dtype) if x.grad is None else x.grad.numpy() for x in xs]


def forward(asked: Asked) -> Iterator[Difference | None]:
    """The jvp, against PyTorch's forward mode where it has one, else its vjp transposed."""
    case = asked.case
    f = smooth(asked)
    _, dots = cr.jvp(f, [cr.tensor(x) for x in case.xs], [cr.tensor(u) for u in asked.us])
    if not (case.op.supports_forward_ad or case.op.supports_gradgrad):
        yield _adjoint(asked, dots)
        return
    want = their_jvp(asked) if case.op.supports_forward_ad else _their_transpose(asked)
    natural = sum(asked.natural(i) * size(u) for i, u in enumerate(asked.us))
    for i, (mine, other) in enumerate(zip(dots, want, strict=True)):
        yield differ(case, f"jvp {i}", mine.numpy(), array(other), natural)


def _adjoint(asked: Asked, dots: Sequence[Any]) -> Difference | None:
    """<g, our jvp u> is <PyTorch's vjp g, u>, where it has nothing better to compare with."""
    mine = sum(np.vdot(g, d.numpy()).real for g, d in zip(asked.gs, dots, strict=True))
    other = array(inner(asked.pull(), asked.us))
    natural = sum(asked.natural(i) * size(u) * u.size for i, u in enumerate(asked.us))
    return differ(asked.case, "jvp", mine, other, natural)


def their_jvp(asked: Asked) -> list[Any]:
    def f(*xs: Any) -> Any:
        ys = asked.case.theirs(*xs)
        return tuple([ys[i] for i in asked.smooth])

    xs = tuple([x.detach() for x in asked.xs])
    return list(torch.func.jvp(f, xs, tuple([torch.from_numpy(u) for u in asked.us]))[1])


def _their_transpose(asked: Asked) -> list[Any]:
    ys = [asked.ys[i] for i in asked.smooth]
    gs = [torch.from_numpy(g).requires_grad_() for g in asked.gs]
    bars = torch.autograd.grad(ys, asked.xs, gs, create_graph=True, allow_unused=True)
    product = inner(bars, asked.us)
    dots = torch.autograd.grad(product, gs, allow_unused=True)
    return [torch.zeros_like(g) if d is None else d for d, g in zip(dots, gs, strict=True)]


def inner(bars: Sequence[Any], us: Sequence[Array]) -> Any:
    """Re <u, bar>, by PyTorch."""
    zero = torch.zeros((), dtype=torch.float64)
    parts = [
        (b * torch.from_numpy(u).conj()).real.sum()
        for b, u in zip(bars, us, strict=True)
        if b is not None
    ]
    return sum(parts, zero)


def second(asked: Asked) -> Iterator[Difference | None]:
    """The gradient of Re <u, vjp g> in xs."""
    case = asked.case
    if not case.op.supports_gradgrad:
        return
    product = inner(asked.pull(create_graph=True), asked.us)
    want: Sequence[Any] = [None] * len(asked.xs)
    if product.requires_grad:
        want = torch.autograd.grad(product, asked.xs, allow_unused=True)

    def first(*xs: Any) -> Any:
        _, pull = cr.vjp(smooth(asked), *xs)
        bars = pull([cr.tensor(g) for g in asked.gs])
        parts = [cr.sum(real(b * conj(cr.tensor(u)))) for b, u in zip(bars, asked.us, strict=True)]
        return sum(parts[1:], parts[0])

    _, pull = cr.vjp(first, *[cr.tensor(x) for x in case.xs])
    natural = sum(asked.natural(i) * size(u) for i, u in enumerate(asked.us))
    for i, mine in enumerate(pull(cr.tensor(np.float64(1)))):
        other = np.zeros(mine.shape) if want[i] is None else array(want[i])
        yield differ(case, f"second {i}", mine.numpy(), other, natural / size(case.xs[i]))


QUESTIONS: dict[str, Callable[[Asked], Iterator[Difference | None]]] = {
    "value": value,
    "gradient": gradient,
    "forward": forward,
    "second": second,
}


@dataclass
class Outcome:
    """What came of an entry: samples compared, samples that are unlike, differences found."""

    compared: int = 0
    differentiated: int = 0
    unlike: list[str] = field(default_factory=list)
    differences: list[tuple[str, Asked, Difference]] = field(default_factory=list)


def run(row: Row, op: Any, enough: int | None = None) -> Outcome:
    """Ask every question about every chosen sample of an entry, until enough are compared."""
    out = Outcome()
    for case in cases(row, op):
        if out.compared == enough:
            break
        asked = ask(case)
        try:
            found = list(value(asked))
        except Unlike as reason:
            out.unlike.append(str(reason))
            continue
        out.compared += 1
        out.differences += [("value", asked, d) for d in found if d is not None]
        if not asked.smooth or any(found):
            continue
        out.differentiated += 1
        for name in ("gradient", "forward", "second"):
            found = [d for d in QUESTIONS[name](asked) if d is not None]
            out.differences += [(name, asked, d) for d in found]
    return out
