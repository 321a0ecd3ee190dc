"""Every function that takes complex numbers: gradient and tangent by differences in the complex
plane, for every sample whose floats may be complex; and values, as NumPy's."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError, DtypeError
from chainrule.ops.losses import common_losses, losses
from chainrule.ops.networks import normalization
from chainrule.ops.reductions import distances, scan
from chainrule.ops.shapes import arranging as extra
from chainrule.tree import flatten
from tests.ops.sample import Sample
from tests.ops.test_generated import SAMPLES

REAL_ONLY = {
    *("max", "min", "maximum", "minimum", "at_least", "at_most", "fmax", "fmin", "clip", "relu"),
    *("cummax", "cummin", "leaky_relu", "elu", "celu", "selu", "hardtanh", "relu6", "hardsigmoid"),
    *("hardswish", "softshrink", "threshold", "prelu", "cross_entropy", "nll_loss", "kl_div"),
    *("poisson_nll_loss", "gaussian_nll_loss", "binary_cross_entropy", "cosine_similarity"),
    *("cosine_embedding_loss", "multi_margin_loss", "margin_ranking_loss", "median", "quantile"),
    *("hinge_embedding_loss", "atan2", "hypot", "floor", "ceil", "trunc", "remainder", "fmod"),
}
"""Functions that ask which number is larger, or that are defined for real numbers only."""
WITHOUT_SLOPE = {("digamma", ""), ("ive", "number left"), ("gelu_tanh", ""), ("gelu", "tanh")}
"""Functions with complex values whose derivative is refused."""


def turned(x: Any, salt: int) -> Any:
    """Complex numbers with the real parts of `x`; what holds no floats as it is."""
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return x
    rng = np.random.default_rng(zlib.crc32(repr((x.shape, salt)).encode()))
    return x + 1j * rng.uniform(-0.7, 0.7, x.shape)


def of_sample(s: Sample) -> list[Any]:
    return [turned(x, i) for i, x in enumerate(s.args)]


def usable(s: Sample) -> bool:
    args = [np.asarray(x) for x in s.args]
    return any(a.dtype.kind == "f" for a in args) and all(a.size for a in args)


ONE_EACH = list({(s.name, s.note): s for s in SAMPLES if usable(s)}.values())


def loss_of(f: Any, args: list[Any]) -> tuple[Any, list[Any]]:
    """Re <c, f> as a function of the complex arguments, and those; c random."""
    places = [i for i, x in enumerate(args) if x.dtype.kind == "c"]

    def loss(*zs: Any) -> Any:
        full = [cr.asarray(x) for x in args]
        for i, z in zip(places, zs, strict=True):
            full[i] = z
        total, rng = cr.zeros((), np.float64), np.random.default_rng(5)
        ys = flatten(list(y) if isinstance(y := f(*full), tuple) else y)[0]
        for y in [y for y in ys if y.dtype.kind in "fc"]:
            c, d = rng.normal(size=(2, *y.shape))
            total = total + cr.sum(cr.real(y) * c)
            if y.dtype.kind == "c":
                total = total + cr.sum(cr.imag(y) * d)
        return total

    return loss, [args[i] for i in places]


def check_slopes(f: Any, args: list[Any], compiled: bool = False) -> None:
    """Gradient and tangent against differences along one random complex direction."""
    loss, zs = loss_of(f, args)
    rng = np.random.default_rng(6)
    ds = [rng.normal(size=z.shape) + 1j * rng.normal(size=z.shape) for z in zs]

    def gradient(*zs: Any) -> Any:
        return cr.grad(loss, tuple(range(len(zs))))(*zs)

    tensors = [cr.tensor(z) for z in zs]
    bars = [b.numpy() for b in (cr.jit(gradient) if compiled else gradient)(*tensors)]
    assert [(b.shape, b.dtype) for b in bars] == [(z.shape, z.dtype) for z in zs]
    products = [np.real(np.conj(b) * d) for b, d in zip(bars, ds, strict=True)]
    got = float(sum(p.sum() for p in products))
    size = float(sum(np.abs(p).sum() for p in products)) + abs(got)

    def at(t: float) -> float:
        return float(loss(*[cr.tensor(z + t * d) for z, d in zip(zs, ds, strict=True)]).numpy())

    h = 1e-4
    want = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    assert abs(got - want) <= 1e-6 * size + 1e-8, f"gradient {got}, differences {want}"
    tangent = float(cr.jvp(loss, tensors, [cr.tensor(d) for d in ds])[1].numpy())
    assert abs(tangent - got) <= 1e-8 * size + 1e-10, f"tangent {tangent}, gradient {got}"


@pytest.mark.parametrize("sample", ONE_EACH, ids=str)
def test_slopes_or_refused(sample: Sample):
    args = of_sample(sample)
    try:
        sample.f(*map(cr.tensor, args))
    except ChainruleError:
        return
    assert sample.name not in REAL_ONLY, "takes complex numbers"
    if (sample.name, sample.note) in WITHOUT_SLOPE:
        with pytest.raises(DtypeError):
            check_slopes(sample.f, args)
    else:
        check_slopes(sample.f, args)


Z = turned(np.linspace(-1.3, 1.9, 12).reshape(3, 4), 0)
W = turned(np.linspace(2.7, -1.1, 12).reshape(3, 4), 1)
SIGN = {
    "sign": (cr.sign, (Z,)), "cov": (extra.cov, (Z,)), "corrcoef": (extra.corrcoef, (Z,)),
    "var": (lambda x: cr.var(x, axis=1), (Z,)), "std": (lambda x: cr.std(x, axis=1), (Z,)),
    "norm 3": (lambda x: cr.norm(x, axis=1, ord=3), (Z,)),
    "mse_loss": (common_losses.mse_loss, (Z, W)), "l1_loss": (losses.l1_loss, (Z, W)),
    "layer_norm": (cr.layer_norm, (Z,)), "vecdot": (cr.vecdot, (Z, W)),
    "batch_norm": (lambda x: normalization.batch_norm(x, training=True).y, (Z,)),
    "normalize": (distances.normalize, (Z,)), "pow": (cr.pow, (Z, W)),
    "cumprod": (lambda x: scan.cumprod(x, axis=1), (Z,)), "prod": (cr.prod, (Z,)),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGN)
def test_slopes_of_what_is_not_holomorphic(name: str):
    f, args = SIGN[name]
    check_slopes(f, list(args))
    check_slopes(f, list(args), compiled=True)


VALUES: dict[str, tuple[Any, Any]] = {
    "sign": (cr.sign, np.sign), "cov": (extra.cov, np.cov),
    "corrcoef": (extra.corrcoef, np.corrcoef), "var": (cr.var, np.var), "std": (cr.std, np.std),
    "weighted cov": (
        lambda x: extra.cov(x, weights=np.arange(1.0, 5)),
        lambda x: np.cov(x, aweights=np.arange(1.0, 5)),
    ),
    "mse_loss": (lambda x: cr.mse_loss(x, x * 2), lambda x: np.mean(np.abs(x) ** 2)),
    "l1_loss": (lambda x: losses.l1_loss(x, x * 2), lambda x: np.mean(np.abs(x))),
    "nan_to_num": (lambda x: cr.nan_to_num(x / 0), lambda x: np.nan_to_num(x / 0)),
    "layer_norm": (
        cr.layer_norm,
        lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5),
    ),
    "sinc": (cr.sinc, np.sinc), "vecdot": (lambda x: cr.vecdot(x, W), lambda x: np.vecdot(x, W)),
    **{
        f"norm {p}": (
            lambda x, p=p: cr.norm(x, axis=1, ord=p),
            lambda x, p=p: np.linalg.vector_norm(x, axis=1, ord=p),
        )
        for p in (0, 0.5, 1, 2, 3, np.inf, -np.inf)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_are_numpys(name: str):
    f, right = VALUES[name]
    with np.errstate(all="ignore"):
        want = np.asarray(right(Z))
    for run in (f, cr.jit(f)):
        got = run(cr.tensor(Z)).numpy()
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_the_derivative_of_sign_at_a_point():
    _, pull = cr.vjp(cr.sign, cr.tensor(1 + 2j))
    np.testing.assert_allclose(pull(cr.tensor(1 + 0j))[0].numpy(), 0.35777088 - 0.17888544j)


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(AssertionError, match="gradient"):
        check_slopes(lambda x: cr.real(x) * cr.real(x.detach()), [Z])
