"""One sample of PyTorch's table, computed by both libraries: value, vjp, jvp, second order.

Notation: `xs` the differentiable arguments, `g` cotangents of the results, `ts` and `us` tangents.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from ops.check import strided
from ops.sample import Array
from torch.utils._pytree import tree_flatten, tree_unflatten

import chainrule as cr
from chainrule.ops.complex import conj, real
from opdb.translate import Function, Unlike, array, leaves, to_ours

EXACT = 1e-9
"""How far answers may differ, relative to the largest element of the answer."""
ROUNDING = 1e-12
"""And relative to an answer's natural size, |g| |y| / |x|: what rounding leaves of a 0."""
FULL = os.environ.get("OPDB") == "full"
"""All samples of every entry instead of a selection: OPDB=full."""


@dataclass(frozen=True)
class Row:
    """An entry of PyTorch's table and our function of PyTorch's arguments.

    `theirs` stands in place of the entry's op where that leaves a choice open (signs of
    eigenvectors, say): the same function of arguments, with a result that is determined.
    """

    entry: str
    ours: Function
    theirs: Function | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """A sample: the leaves of (input, args, kwargs), and which of them are differentiated."""

    row: Row
    op: Any
    number: int
    flat: list[Any]
    structure: Any
    places: list[int] = field(init=False)

    def __post_init__(self) -> None:
        wanted = [isinstance(x, torch.Tensor) and x.requires_grad for x in self.flat]
        object.__setattr__(self, "places", [i for i, w in enumerate(wanted) if w])

    def __str__(self) -> str:
        shapes = [
            str(tuple(x.shape)) if isinstance(x, torch.Tensor) else repr(x) for x in self.flat
        ]
        return f"{self.row.entry} sample {self.number}: {' '.join(shapes)}"

    @cached_property
    def xs(self) -> list[Array]:
        """The differentiable arguments, all in double precision."""
        full = [array(self.flat[i]) for i in self.places]
        return [x.astype(np.float64 if x.dtype == np.float32 else x.dtype) for x in full]

    @cached_property
    def plain(self) -> list[Any]:
        """All leaves in our types."""
        return [to_ours(x) for x in self.flat]

    def random(self, like: Any, salt: int) -> Array:
        """Normal random numbers of the shape and kind of `like`, the same in every run."""
        rng = np.random.default_rng([zlib.crc32(self.row.entry.encode()), self.number, salt])
        x = rng.standard_normal(tuple(like.shape))
        if "complex" in str(like.dtype):
            x = x + 1j * rng.standard_normal(tuple(like.shape))
        return np.asarray(x, str(like.dtype).removeprefix("torch."))

    def _call(self, f: Function, flat: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
        full = list(flat)
        for i, x in zip(self.places, xs, strict=True):
            full[i] = x
        first, args, kwargs = tree_unflatten(full, self.structure)
        return leaves(f(first, *args, **kwargs))

    def theirs(self, *xs: Any) -> list[Any]:
        """PyTorch's results."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._call(self.row.theirs or self.op.op, self.flat, xs)

    def ours(self, *xs: Any) -> list[Any]:
        """Our results."""
        return [cr.asarray(y) for y in self._call(self.row.ours, self.plain, xs)]


def cases(row: Row, op: Any, most: int = 1500) -> Iterator[Case]:
    """The samples of an entry: the first eight and up to 24 others, or all of them."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = op.sample_inputs("cpu", torch.float64, requires_grad=True)
        samples = list(made if FULL else islice(made, most))
    rng = np.random.default_rng(zlib.crc32(row.entry.encode()))
    chosen = {*range(8), *rng.permutation(len(samples))[:24].tolist()}
    for number, s in enumerate(samples):
        if FULL or number in chosen:
            flat, structure = tree_flatten((s.input, s.args, s.kwargs))
            yield Case(row, op, number, flat, structure)


# --- Comparing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Two answers that are not the same: which question, how far, the answers."""

    question: str
    distance: float
    got: Any
    want: Any
    case: Case

    def __str__(self) -> str:
        return f"{self.case}\n  {self.question}: off by {self.distance:.3g}, {self.got} {self.want}"


def size(x: Any) -> float:
    """The largest finite magnitude in `x`, 1 if there is none."""
    x = np.abs(np.asarray(x, dtype=complex))
    x = x[np.isfinite(x)]
    return float(x.max()) if x.size and x.max() > 0 else 1.0


def differ(case: Case, question: str, got: Any, want: Any, natural: float) -> Difference | None:
    """None if the arrays agree: shape, places of infinity and NaN, and every other element."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return Difference(f"{question} shape", np.inf, got.shape, want.shape, case)
    finite = np.isfinite(want)
    with np.errstate(all="ignore"):
        limit = EXACT * size(want) * bool(np.any(want[finite])) + ROUNDING * natural
        distance = np.abs(np.subtract(got, want, dtype=np.result_type(got, want, float)))
    same = np.where(finite, distance <= limit, _same_special(got, want))
    if same.all():
        return None
    worst = float(np.nan_to_num(np.where(same, 0, distance), nan=np.inf).max())
    return Difference(question, worst / size(want), got, want, case)


def _same_special(got: Array, want: Array) -> Array:
    return (got == want) | (np.isnan(got) & np.isnan(want))


# --- The questions -------------------------------------------------------------------------------


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


def run(row: Row, op: Any) -> Outcome:
    """Ask every question about every chosen sample of an entry."""
    out = Outcome()
    for case in cases(row, op):
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
