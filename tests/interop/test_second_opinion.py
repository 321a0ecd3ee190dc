"""PyTorch's opinion of values and gradients, for everything that has a counterpart there.

Each case is one function written in both libraries' words. Both run in float64; the gradient is
that of the sum of the result times a fixed random array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 (everybody's name for it)

import chainrule as cr
from tests.ops import samples_elementwise
from tests.ops.check import close
from tests.ops.sample import apart, cotangent


@dataclass(frozen=True, eq=False)
class Case:
    """`ours(*args)` and `theirs(*args)` are the same function."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    args: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.name}-{'-'.join('x'.join(map(str, np.shape(x))) for x in self.args)}"


def case(name: str, ours: Any, theirs: Any, *args: Any) -> Case:
    return Case(name, ours, theirs, args)


def _same_name(*names: str) -> list[Case]:
    """Functions of both libraries that have one name and take the array alone."""
    return [case(n, getattr(cr, n), getattr(torch, n), X) for n in names]


X, P = apart(2, 3, 4), apart(2, 3, 4, low=0.3, high=1.9)
M, N, V = apart(3, 4, salt=1), apart(4, 5, salt=2), apart(5, salt=3)
ZEROS = np.where(np.arange(24).reshape(2, 3, 4) % 7 == 3, 0.0, X)
INDEX = np.array([[2, 0, 1], [1, 1, 2]])
ALONG = np.array([[[0, 2], [3, 1], [1, 1]], [[2, 2], [0, 3], [1, 0]]])
MASK = np.array([[True, False, True, True], [False, True, True, False], [True, True, False, True]])
LOGITS, LABELS = apart(5, 4, salt=4), np.array([2, 0, 3, 2, 1])
WEIGHTS = apart(4, low=0.2, high=1.7, salt=6)
SOFT = apart(5, 4, low=0.1, high=0.9, salt=5) / 2
Q, K, U = apart(2, 3, 5), apart(2, 3, 5, salt=1), apart(2, 3, 6, salt=2)

# --- The elementwise table -----------------------------------------------------------------------


def _slope(f: Any) -> Any:
    """PyTorch's derivative of its elementwise `f`, to be differentiated again."""
    return lambda x: torch.autograd.grad(f(x).sum(), x, create_graph=True)[0]


def _gelu_gate(x: Any) -> Any:
    return torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))


OTHER_NAMES: dict[str, Any] = {
    **{name: getattr(F, name) for name in ["silu", "softplus", "mish", "softsign", "tanhshrink"]},
    "logistic_loss": lambda a, b: F.softplus(a) - a * b,
    "gelu_erf": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_gate": _gelu_gate,
    "gelu_gate_density": lambda x: 2.0**17 * _gelu_gate(x) * _gelu_gate(-x),
    "gelu_gate_tanh": lambda x: 2 * _gelu_gate(x) - 1,
    "log1p_slope": _slope(torch.log1p),
    "atan_slope": _slope(torch.atan),
    "softsign_slope": _slope(F.softsign),
    "cbrt_slope": lambda x: torch.pow(torch.abs(x), -2 / 3) / 3,
    "one_minus_square": lambda x: 1 - x * x,
    "cos_atan": lambda x: torch.cos(torch.atan(x)),
    "cos_angle": lambda a, b: a / torch.hypot(a, b),
    "per_square": lambda a, b: a / (a * a + b * b),
    "exp_product": lambda a, b: torch.exp(a * b),
    "sigmoid_diff": lambda a, b: torch.sigmoid(a - b),
    "logistic_density": _slope(torch.sigmoid),
    "sech_square": _slope(torch.tanh),
    "sech": lambda x: 1 / torch.cosh(x),
    "gelu_erf_slope": _slope(F.gelu),
    "gelu_tanh_slope": _slope(lambda x: F.gelu(x, approximate="tanh")),
    "gelu_gate_slope": _slope(_gelu_gate),
    "silu_slope": _slope(F.silu),
    "mish_slope": _slope(F.mish),
    "logit_slope": _slope(torch.logit),
    "erfinv_slope": _slope(torch.erfinv),
    "erfinv_bend": _slope(_slope(torch.erfinv)),
    "ndtri_slope": _slope(torch.special.ndtri),
    "ndtri_bend": _slope(_slope(torch.special.ndtri)),
    "entr_slope": _slope(torch.special.entr),
    "cbrt": lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3),
    "exp_diff": lambda a, b: torch.exp(a - b),
    "strong_mul": torch.mul,
    "at_least": torch.maximum,
    "at_most": torch.minimum,
    **{
        name: getattr(torch.special, name)
        for name in ["i0e", "i1", "i1e", "ndtr", "entr", "ndtri", "log_ndtr", "erfcx", "xlog1py"]
    },
}
WITHOUT_COUNTERPART = {
    *("nextafter", "floor_divide", "remainder"),  # no derivative in PyTorch, or another one
    *("polygamma", "spherical_jn", *samples_elementwise.BY_LAST),  # of arrays of orders
    *("gamma_density", "beta_density", "airy_ai_slope"),  # PyTorch has no such function
    *("airy_ai", "j0", "j1", "y0", "y1", "k0", "k0e", "k1", "k1e"),  # no derivative in PyTorch
    "digamma",  # PyTorch's derivative has nine digits: see opdb/test_pytorch_is_wrong.py
}
ELEMENTWISE = [
    Case(s.name, s.f, OTHER_NAMES.get(s.name) or getattr(torch, s.name), s.args)
    for s in samples_elementwise.SAMPLES
    if not s.note and s.name not in WITHOUT_COUNTERPART
]

# --- Shapes and choices --------------------------------------------------------------------------

SHAPING = [
    case("reshape", lambda x: cr.reshape(x, (4, -1)), lambda x: x.reshape(4, -1), X),
    case("permute", lambda x: cr.permute_dims(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1), X),
    case("moveaxis", lambda x: cr.moveaxis(x, 0, -1), lambda x: x.moveaxis(0, -1), X),
    case("flip", lambda x: cr.flip(x, axis=(0, 2)), lambda x: x.flip(0, 2), X),
    case("roll", lambda x: cr.roll(x, 3), lambda x: x.roll(3), X),
    case("roll", lambda x: cr.roll(x, (1, -2), axis=(1, 2)), lambda x: x.roll((1, -2), (1, 2)), X),
    case("tile", lambda x: cr.tile(x, (2, 1, 3)), lambda x: x.tile(2, 1, 3), M),
    case("repeat", lambda x: cr.repeat(x, 3, axis=1), lambda x: x.repeat_interleave(3, 1), X),
    case(
        "pad",
        lambda x: cr.pad(x, [(1, 2), (0, 3)], 0.7),
        lambda x: F.pad(x, (0, 3, 1, 2), value=0.7),
        M,
    ),
    *[
        case(
            f"pad {mode} {widths}",
            lambda x, w=widths, m=mode: cr.nn.functional.pad(x, w, m),
            lambda x, w=widths, m=mode: F.pad(x, w, m),
            X,
        )
        for mode in ("reflect", "replicate", "circular")
        for widths in ((3, 1, 2, 0), (-1, 2), (2, -1, -1, 1))
    ],
    case(
        "concat",
        lambda a, b: cr.concat([a, b], axis=1),
        lambda a, b: torch.cat([a, b], 1),
        M,
        apart(3, 2),
    ),
    case("stack", lambda a: cr.stack([a, a], axis=-1), lambda a: torch.stack([a, a], -1), M),
    case("split", lambda x: cr.split(x, [1, 3], axis=2)[1], lambda x: x.split([1, 3], 2)[1], X),
    case("unstack", lambda x: cr.unstack(x, axis=1)[2], lambda x: x.unbind(1)[2], X),
    case("slice", lambda x: x[:, 1:, ::2], lambda x: x[:, 1:, ::2], X),
    case("new axis", lambda x: x[-1, None, ..., 1], lambda x: x[-1, None, ..., 1], X),
    case("array", lambda x: x[INDEX % 2], lambda x: x[torch.tensor(INDEX % 2)], X),
    case(
        "two arrays apart",
        lambda x: x[INDEX % 2, :, INDEX],
        lambda x: x[torch.tensor(INDEX % 2), :, torch.tensor(INDEX)],
        X,
    ),
    case("mask", lambda x: x[:, MASK], lambda x: x[:, torch.tensor(MASK)], X),
    case("own mask", lambda x: x[x > 0.3], lambda x: x[x > 0.3], X),
    case(
        "where",
        lambda a, b: cr.where(MASK, a, b),
        lambda a, b: torch.where(torch.tensor(MASK), a, b),
        M,
        M + 1,
    ),
    case("clip", lambda x: cr.clip(x, -0.9, 1.2), lambda x: x.clamp(-0.9, 1.2), X),
    case(
        "take",
        lambda x: cr.take(x, [2, 0, 2], axis=1),
        lambda x: x.index_select(1, torch.tensor([2, 0, 2])),
        X,
    ),
    case("take flat", lambda x: cr.take(x, INDEX), lambda x: x.take(torch.tensor(INDEX)), X),
    case("gather", lambda x: cr.gather(x, 2, ALONG), lambda x: x.gather(2, torch.tensor(ALONG)), X),
    case(
        "scatter_add",
        lambda x, s: cr.scatter_add(x, 2, ALONG, s),
        lambda x, s: x.scatter_add(2, torch.tensor(ALONG), s),
        X,
        apart(2, 3, 2),
    ),
    case(
        "embedding",
        lambda w: cr.embedding(w, INDEX),
        lambda w: F.embedding(torch.tensor(INDEX), w),
        M,
    ),
]

# --- Reductions ----------------------------------------------------------------------------------

REDUCTION = [
    *_same_name("sum", "mean", "prod", "max", "min"),
    case("sum", lambda x: cr.sum(x, axis=(0, 2)), lambda x: x.sum((0, 2)), X),
    case("mean", lambda x: cr.mean(x, axis=1, keepdims=True), lambda x: x.mean(1, True), X),
    case("prod", lambda x: cr.prod(x, axis=1), lambda x: x.prod(1), X),
    case("prod with zeros", lambda x: cr.prod(x, axis=2), lambda x: x.prod(2), ZEROS),
    case("prod with two zeros", cr.prod, torch.prod, ZEROS),
    case("max with ties", lambda x: cr.max(x, axis=1), lambda x: x.amax(1), np.rint(X)),
    case("min with ties", lambda x: cr.min(x, axis=(0, 2)), lambda x: x.amin((0, 2)), np.rint(X)),
    case("logsumexp", lambda x: cr.logsumexp(x, axis=(0, 2)), lambda x: x.logsumexp((0, 2)), X),
    *[
        case(
            f"{n}, correction {c}",
            lambda x, f=f, c=c: f(x, axis=(0, 2), correction=c),
            lambda x, n=n, c=c: getattr(x, n)((0, 2), correction=c),
            X,
        )
        for n, f in (("var", cr.var), ("std", cr.std))
        for c in (0, 1, 3)
    ],
    *[
        case(
            f"norm of order {p}",
            lambda x, p=p: cr.norm(x, axis=1, ord=p),
            lambda x, p=p: torch.linalg.vector_norm(x, p, 1),
            X,
        )
        for p in (2, 1, 3, 0.7, math.inf, -math.inf)
    ],
    case("norm of zeros", lambda x: cr.norm(x, axis=1), lambda x: x.norm(dim=1), X * (X > 0.5)),
]

# --- Products ------------------------------------------------------------------------------------

MATMUL = [
    case("matmul", cr.matmul, torch.matmul, apart(*a), apart(*b, salt=1))
    for a, b in [
        ((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((3,), (5, 3, 4)),
        ((5, 2, 3), (3,)), ((2, 0), (0, 3)), ((4, 5, 2, 3), (3, 2)), ((4, 5, 2, 3), (3,)),
    ]
]  # fmt: skip
EINSUM = [
    case(
        f"einsum {s}",
        lambda *xs, s=s: cr.einsum(s, *xs),
        lambda *xs, s=s: torch.einsum(s, *xs),
        *[apart(*n, salt=i) for i, n in enumerate(shapes)],
    )
    for s, shapes in [
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,kj", [(2, 3), (4, 3)]), ("ii->i", [(3, 3)]),
        ("bij,bjk,k->bi", [(2, 3, 4), (2, 4, 5), (5,)]), ("ii", [(3, 3)]), ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]), ("...ij,...jk->...ik", [(1, 2, 3), (5, 3, 4)]),
        ("...i,i->...", [(2, 3, 4), (4,)]), ("iji,j->ij", [(2, 3, 2), (3,)]),
        ("ij,jk->k", [(2, 3), (3, 4)]),
        ("bhtd,bhsd->bhts", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("ij,ij,ij->i", [(2, 3), (2, 3), (2, 3)]),
    ]
]  # fmt: skip
PRODUCTS = [
    *MATMUL,
    *EINSUM,
    case(
        "tensordot",
        lambda a, b: cr.tensordot(a, b),
        lambda a, b: torch.tensordot(a, b, 2),
        X,
        apart(3, 4, 5),
    ),
    case("outer", cr.outer, torch.outer, V, apart(3)),
    case("vecdot", cr.vecdot, torch.linalg.vecdot, X, apart(3, 4)),
    case("linear", cr.linear, F.linear, X, apart(5, 4), apart(5)),
]

# --- Deep learning -------------------------------------------------------------------------------

CROSS_ENTROPY: list[dict[str, Any]] = [
    {"reduction": r, "label_smoothing": s} for r in ("mean", "sum", "none") for s in (0.0, 0.3)
]


def _indices(kw: dict[str, Any]) -> Case:
    return case(
        f"cross_entropy {kw}",
        lambda x: cr.cross_entropy(x, cr.tensor(LABELS), **kw),
        lambda x: F.cross_entropy(x, torch.tensor(LABELS), **kw),
        LOGITS,
    )


def _weighted(kw: dict[str, Any]) -> list[Case]:
    def of(target: Any) -> list[Any]:
        return [
            lambda x, t=target, f=f, tensor=tensor: f(x, tensor(t), weight=tensor(WEIGHTS), **kw)
            for f, tensor in ((cr.cross_entropy, cr.tensor), (F.cross_entropy, torch.tensor))
        ]

    made = [case(f"cross_entropy with weights {kw}", *of(LABELS), LOGITS)]
    if "ignore_index" not in kw:
        made.append(case(f"cross_entropy of probabilities with weights {kw}", *of(SOFT), LOGITS))
    return made


LOSSES = [
    *[
        c
        for kw in CROSS_ENTROPY
        for more in ({}, {"ignore_index": 2})
        for c in _weighted(kw | more)
    ],
    *[_indices(kw) for kw in CROSS_ENTROPY],
    *[_indices({"ignore_index": 2, **kw}) for kw in CROSS_ENTROPY],
    *[
        case(
            f"cross_entropy of probabilities {kw}",
            lambda x, t, kw=kw: cr.cross_entropy(x, t, **kw),
            lambda x, t, kw=kw: F.cross_entropy(x, t, **kw),
            LOGITS,
            SOFT,
        )
        for kw in CROSS_ENTROPY
    ],
    case(
        "cross_entropy of probabilities that are 0",
        cr.cross_entropy,
        F.cross_entropy,
        LOGITS,
        np.where(MASK[[0, 1, 2, 0, 1]], SOFT, 0.0),
    ),
    case(
        "cross_entropy along axis 1",
        lambda x: cr.cross_entropy(x, cr.tensor(INDEX[:, [0, 1, 2, 0]]), axis=1),
        lambda x: F.cross_entropy(x, torch.tensor(INDEX[:, [0, 1, 2, 0]])),
        X,
    ),
    *[
        case(
            f"{n} {r}",
            lambda x, t, n=n, r=r: getattr(cr, n)(x, t, reduction=r),
            lambda x, t, n=n, r=r: getattr(F, n)(x, t, reduction=r),
            M,
            apart(3, 4, low=0.1, high=0.9, salt=6),
        )
        for n in ("mse_loss", "binary_cross_entropy_with_logits")
        for r in ("mean", "sum", "none")
    ],
]
LAYERS = [
    case("gelu", cr.gelu, F.gelu, X),
    case("leaky_relu", cr.leaky_relu, F.leaky_relu, X),
    case("elu", lambda x: cr.elu(x, 1.7), lambda x: F.elu(x, 1.7), X),
    case("softmax", lambda x: cr.softmax(x, axis=1), lambda x: x.softmax(1), X),
    case("log_softmax", cr.log_softmax, lambda x: x.log_softmax(-1), X),
    case(
        "layer_norm",
        cr.layer_norm,
        lambda x, w, b: F.layer_norm(x, (4,), w, b),
        X,
        apart(4),
        apart(4, salt=1),
    ),
    case("rms_norm", cr.rms_norm, lambda x, w: F.rms_norm(x, (4,), w), X, apart(4)),
    *[
        case(
            f"attention {note}",
            lambda q, k, v, ours=ours: cr.scaled_dot_product_attention(q, k, v, **ours),
            lambda q, k, v, theirs=theirs: F.scaled_dot_product_attention(q, k, v, **theirs),
            Q,
            K,
            U,
        )
        for note, ours, theirs in [
            ("", {}, {}),
            ("causal", {"causal": True}, {"is_causal": True}),
            ("scaled", {"scale": 0.3}, {"scale": 0.3}),
            ("masked", {"mask": MASK[:, :3]}, {"attn_mask": torch.tensor(MASK[:, :3])}),
            ("added to", {"mask": M[:, :3]}, {"attn_mask": torch.tensor(M[:, :3])}),
        ]
    ],
]

CASES = [*ELEMENTWISE, *SHAPING, *REDUCTION, *PRODUCTS, *LOSSES, *LAYERS]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_value_and_gradient(case: Case):
    ours = [cr.tensor(x, requires_grad=True) for x in case.args]
    theirs = [torch.tensor(x, requires_grad=True) for x in case.args]
    y, want = case.ours(*ours), case.theirs(*theirs)
    close(y.detach(), want.detach().numpy(), 1e-12, 1e-15, "value")
    g = cotangent(y)
    if not want.requires_grad:
        pytest.fail(f"PyTorch has no gradient for {case}: it gives no opinion")
    y.backward(g)
    want.backward(torch.tensor(g))
    for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        bar = np.zeros(mine.shape) if mine.grad is None else mine.grad.numpy()
        other_bar = np.zeros(mine.shape) if other.grad is None else other.grad.numpy()
        close(bar, other_bar, 1e-11, 1e-14, f"gradient {i}")


SECOND = [
    c for c in (*SHAPING, *REDUCTION, *PRODUCTS, *LAYERS, *LOSSES) if "prod with" not in c.name
]


@pytest.mark.parametrize(
    "case", [c for c in SECOND if "attention" not in c.name or "causal" not in c.name], ids=str
)
def test_second_gradient(case: Case):
    """The gradient of the squared gradient of the squared result."""
    ours = [cr.tensor(x, requires_grad=True) for x in case.args]
    theirs = [torch.tensor(x, requires_grad=True) for x in case.args]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        loss = (case.theirs(*theirs) ** 2).sum()
        slopes = torch.autograd.grad(loss, theirs, create_graph=True)
        sum((s**2).sum() for s in slopes).backward()
    cr.sum(case.ours(*ours) ** 2).backward(create_graph=True)
    firsts = [x.grad for x in ours]
    for x in ours:
        x.grad = None
    sum((cr.sum(f**2) for f in firsts if f is not None), cr.tensor(0.0)).backward()
    for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        bar = np.zeros(mine.shape) if mine.grad is None else mine.grad.numpy()
        other_bar = np.zeros(mine.shape) if other.grad is None else other.grad.numpy()
        close(bar, other_bar, 1e-9, 1e-12, f"second gradient {i}")


def test_cross_entropy_of_the_same_dtype_in_float32():
    """Training's precision: within a few units in the last place of PyTorch."""
    x = LOGITS.astype(np.float32) * 3
    ours, theirs = cr.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    a, b = cr.cross_entropy(ours, cr.tensor(LABELS)), F.cross_entropy(theirs, torch.tensor(LABELS))
    a.backward()
    b.backward()
    assert a.dtype == np.float32 and ours.grad is not None and theirs.grad is not None
    assert a.item() == pytest.approx(b.item(), rel=3e-7)
    close(ours.grad.numpy(), theirs.grad.numpy(), 1e-6, 0, "gradient")


def test_the_comparison_sees_a_wrong_factor():
    wrong = case("tanh", lambda x: cr.tanh(x) * 1.0001, torch.tanh, X)
    with pytest.raises(AssertionError):
        test_value_and_gradient(wrong)
