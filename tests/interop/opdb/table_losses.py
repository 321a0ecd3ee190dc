"""The part of the table about losses and distances."""

from __future__ import annotations

from typing import Any

import chainrule as cr
from chainrule.ops.losses import losses, margin_losses
from chainrule.ops.reductions import distances
from tests.interop.opdb.harness import Row
from tests.interop.opdb.translate import Unlike, only


def _options(f: Any, **names: str) -> Any:
    """A loss: PyTorch's old spellings of `reduction` dropped, other options under our names."""

    def call(*args: Any, size_average: Any = None, reduce: Any = None, **options: Any) -> Any:
        only("a loss", {"size_average": size_average, "reduce": reduce})
        return f(*args, **{names.get(k, k): v for k, v in options.items()})

    return call


def _classes(x: Any) -> int:
    """PyTorch's axis of classes."""
    return 1 if x.ndim > 1 else 0


def _nll(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    return losses.nll_loss(
        x, target, axis=_classes(x), weight=weight, ignore_index=ignore_index, reduction=reduction
    )


def _cross_entropy(
    x: Any, target: Any, *, weight: Any = None, ignore_index: int = -100, **options: Any
) -> Any:
    options = {"axis": _classes(x), "weight": weight, **options}
    if target.dtype.kind == "f":
        return cr.cross_entropy(x, target, **options)
    return cr.cross_entropy(x, target, ignore_index=ignore_index, **options)


def _l1(f: Any) -> Any:
    """PyTorch broadcasts where we refuse."""

    def call(x: Any, target: Any, **options: Any) -> Any:
        only("a loss", {"weight": options.pop("weight", None) is not None})
        return f(*cr.broadcast_arrays(x, target), **options)

    return call


def _gaussian(x: Any, target: Any, var: Any, **options: Any) -> Any:
    if x.ndim and var.shape == x.shape[:-1]:
        var = cr.expand_dims(var, -1)
    x, target = cr.broadcast_arrays(x, target)
    return losses.gaussian_nll_loss(x, target, var, **options)


def _multi_margin(x: Any, target: Any, **options: Any) -> Any:
    if x.ndim == 0:
        raise Unlike("one class")
    return margin_losses.multi_margin_loss(x, cr.reshape(target, x.shape[:-1]), **options)


def _multilabel_margin(x: Any, target: Any, **options: Any) -> Any:
    if x.ndim == 0:
        raise Unlike("one class")
    return margin_losses.multilabel_margin_loss(x, target, **options)


def _cosine(a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    if a.ndim == 0 and b.ndim == 0:
        raise Unlike("two numbers")
    return distances.cosine_similarity(a, b, axis=dim, eps=eps)


def _normalized(x: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    if x.ndim == 0:
        raise Unlike("a number")
    return distances.normalize(x, ord=p, axis=dim, eps=eps)


LOSSES = [
    Row("nn.functional.mse_loss", _l1(_options(cr.mse_loss))),
    Row("nn.functional.l1_loss", _l1(_options(losses.l1_loss))),
    Row("nn.functional.smooth_l1_loss", _l1(_options(losses.smooth_l1_loss))),
    Row("nn.functional.huber_loss", _l1(_options(losses.huber_loss))),
    Row("nn.functional.kl_div", _l1(_options(losses.kl_div))),
    Row("nn.functional.poisson_nll_loss", _l1(_options(losses.poisson_nll_loss))),
    Row("nn.functional.gaussian_nll_loss", _gaussian),
    Row("nn.functional.multilabel_margin_loss", _options(_multilabel_margin)),
    Row("nn.functional.soft_margin_loss", _l1(_options(margin_losses.soft_margin_loss))),
    Row("nn.functional.hinge_embedding_loss", _options(margin_losses.hinge_embedding_loss)),
    Row("nn.functional.margin_ranking_loss", _options(margin_losses.margin_ranking_loss)),
    Row("nn.functional.cosine_embedding_loss", _options(margin_losses.cosine_embedding_loss)),
    Row("nn.functional.triplet_margin_loss", _options(margin_losses.triplet_margin_loss, p="ord")),
    Row("nn.functional.multi_margin_loss", _multi_margin),
    Row(
        "nn.functional.multilabel_soft_margin_loss",
        _options(losses.multilabel_soft_margin_loss),
    ),
    Row("nn.functional.binary_cross_entropy", _options(losses.binary_cross_entropy)),
    Row(
        "nn.functional.binary_cross_entropy_with_logits",
        _options(cr.binary_cross_entropy_with_logits),
    ),
    Row("nn.functional.nll_loss", _nll),
    Row("nn.functional.cross_entropy", _cross_entropy),
    Row(
        "nn.functional.pairwise_distance",
        _options(distances.pairwise_distance, p="ord", keepdim="keepdims"),
    ),
    Row("nn.functional.cosine_similarity", _cosine),
    Row("nn.functional.normalize", _normalized),
]
