"""What the samples of `ops` do not call: linear algebra, Fourier transforms, options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from chainrule import fft as ff
from chainrule import linalg as la
from chainrule.nn import functional as nnf
from tests.ops.sample import apart

X, M, V, S = apart(2, 3, 4), apart(3, 4, salt=1), apart(5, salt=2), apart(salt=3)
W, SQUARE, BATCH = apart(4, salt=4), apart(3, 3), apart(2, 3, 3)
POSITIVE = BATCH @ np.swapaxes(BATCH, -1, -2) + np.eye(3)
LINE, IMAGE, BLOCK = apart(2, 4, 7), apart(2, 4, 5, 6), apart(2, 2, 3, 4, 5)
P, LABELS = apart(3, 4, low=0.1, high=0.9), np.array([2, 0, 3])
SIGNS = np.where(M > 0, 1, -1)
C = X + 1j * apart(2, 3, 4, salt=9)

FOURIER: list[Callable[[], Any]] = [
    *[lambda f=f: f(C) for f in (ff.fft, ff.ifft, ff.irfft, ff.hfft, ff.fftn, ff.ifftn, ff.irfftn)],
    *[lambda f=f: f(C) for f in (ff.hfftn, ff.fft2, ff.ifft2, ff.irfft2, ff.hfft2)],
    *[lambda f=f: f(X) for f in (ff.ihfftn, ff.rfft2, ff.ihfft2)],
    *[lambda f=f: f(X) for f in (ff.rfft, ff.ihfft, ff.rfftn, ff.fftshift, ff.ifftshift)],
    *[lambda f=f: f(C, n=5, axis=1) for f in (ff.fft, ff.ifft, ff.irfft, ff.hfft)],
    *[lambda f=f: f(X, n=5, axis=0) for f in (ff.rfft, ff.ihfft)],
    *[lambda f=f: f(C, axes=(1, 0)) for f in (ff.fftn, ff.ifftn, ff.irfftn, ff.hfftn)],
    *[lambda f=f: f(C, s=(5, 2)) for f in (ff.fftn, ff.ifftn, ff.irfftn, ff.hfftn)],
    *[lambda f=f: f(C, s=(5, 6), axes=(2, 0)) for f in (ff.fftn, ff.ifftn, ff.irfftn, ff.hfftn)],
    *[lambda f=f: f(X, axes=(1, 0)) for f in (ff.rfftn, ff.ihfftn)],
    *[lambda f=f: f(X, s=(5, 6)) for f in (ff.rfftn, ff.ihfftn)],
    *[lambda f=f: f(X, s=(5, 6), axes=(2, 0)) for f in (ff.rfftn, ff.ihfftn)],
    lambda: ff.fftshift(X, axes=(1,)),
    lambda: ff.fftfreq(5),
    lambda: ff.rfftfreq(6),
]

LINEAR: list[Callable[[], Any]] = [
    *[lambda f=f: f(BATCH) for f in (la.det, la.slogdet, la.inv, la.qr, la.svd)],
    *[lambda f=f: f(POSITIVE) for f in (la.cholesky, la.eigh, la.eigvalsh)],
    *[lambda f=f: f(POSITIVE) for f in (la.eig, la.eigvals)],
    *[lambda f=f: f(X) for f in (la.qr, la.svd, la.svdvals, la.pinv, la.matrix_rank, la.trace)],
    *[lambda f=f: f(X) for f in (la.matrix_norm, la.vector_norm, la.diagonal)],
    lambda: la.qr(X, mode="complete"),
    lambda: la.svd(X, full_matrices=False),
    lambda: la.matrix_norm(X, keepdims=True),
    lambda: la.vector_norm(X, axis=(0, -1), keepdims=True),
    lambda: la.diagonal(X, offset=2),
    lambda: la.diagonal(X, offset=-7),
    lambda: la.matrix_power(BATCH, 3),
    lambda: la.cross(apart(2, 3, 1), apart(3, 5), axis=-2),
    lambda: la.kron(X, apart(5, 2)),
    lambda: la.kron(M, apart(2, 3, 5)),
    lambda: la.solve(BATCH, apart(3, 5)),
    lambda: la.solve(BATCH, apart(3)),
    lambda: la.solve_triangular(POSITIVE, apart(3, 5)),
    lambda: la.solve_triangular(POSITIVE, apart(3)),
    lambda: la.solve_triangular(POSITIVE, apart(5, 3), left=False),
    lambda: la.matrix_exp(BATCH),
    lambda: la.sqrtm(POSITIVE),
    lambda: la.solve_sylvester(POSITIVE, apart(3, 3) @ apart(3, 3).T, apart(3, 3)),
    lambda: la.solve_banded((1, 1), apart(3, 5) + 9, apart(5)),
    lambda: la.solve_banded((1, 1), apart(2, 3, 5) + 9, apart(5, 2)),
    lambda: la.cholesky_solve(apart(3, 5), la.cholesky(POSITIVE)),
    lambda: la.cholesky_inverse(la.cholesky(POSITIVE)),
    lambda: la.lu(X),
    lambda: la.lu_factor(X),
    lambda: la.lu_solve(*la.lu_factor(BATCH), apart(3, 5)),
    lambda: la.lu_solve(*la.lu_factor(BATCH), apart(5, 3), left=False),
    lambda: la.lstsq(X, apart(2, 3, 5)),
    lambda: la.lstsq(M, apart(3)),
    lambda: la.cond(X),
    lambda: la.cond(BATCH, 1),
    lambda: la.norm(X, axis=1),
    lambda: la.norm(X, axis=(0, 2), keepdims=True),
    lambda: la.multi_dot([M, apart(4, 2), apart(2)]),
    lambda: la.tensorinv(apart(6, 2, 3), 1),
    lambda: la.tensorsolve(apart(6, 2, 3), apart(6)),
    lambda: la.householder_product(apart(2, 4, 3), apart(2, 2)),
]

WHOLE: list[Callable[[], Any]] = [
    *[lambda f=f: f(X, axis=1) for f in (cr.all, cr.any, cr.argmax, cr.argmin, cr.count_nonzero)],
    *[lambda f=f: f(X, keepdims=True) for f in (cr.all, cr.any, cr.argmax, cr.count_nonzero)],
    *[lambda f=f: f(X, axis=-1, keepdims=True) for f in (cr.argmin, cr.nansum, cr.median)],
    *[lambda f=f: f(X) for f in (cr.nonzero, cr.argsort, cr.nanmean)],
    *[lambda f=f: f(X) for f in (cr.unique_all, cr.unique_counts, cr.unique_inverse)],
    lambda: cr.unique_values(X),
    lambda: cr.unique_consecutive(X, axis=1),
    lambda: cr.isclose(X, X),
    lambda: cr.allclose(X, X),
    lambda: cr.bucketize(X, np.array([-1.0, 0.2, 0.9])),
    lambda: cr.histc(X, 7),
    lambda: cr.bincount(np.array([3, 1, 3])),
    lambda: cr.mode(X, 1),
    lambda: cr.mode(X, 1, keepdims=True),
    lambda: cr.nanmedian(X, 1, keepdims=True),
    lambda: cr.nanquantile(X, 0.3, 1, keepdims=True),
    lambda: cr.nanquantile(X, apart(5, low=0.1, high=0.9), 1),
    lambda: cr.combinations(V, 0),
    lambda: cr.unravel_index(np.array([[7, 11]]), (3, 4)),
    lambda: cr.tril_indices(3, 5, 1),
    lambda: cr.triu_indices(3, 5, 1),
    lambda: cr.gradient(X),
    *[
        lambda f=f: f(5)
        for f in (
            *(cr.hann_window, cr.hamming_window, cr.blackman_window),
            *(cr.bartlett_window, cr.kaiser_window),
        )
    ],
    lambda: cr.isin(X, V),
    lambda: cr.searchsorted(np.sort(V), X),
    lambda: cr.one_hot(LABELS, 6),
    *[lambda f=f: f(C) for f in (cr.real, cr.imag, cr.conj, cr.sign)],
    *[lambda f=f: f(C) for f in (cr.angle, cr.view_as_real)],
    lambda: cr.polar(M, W),
    lambda: cr.complex(X, M),
    lambda: cr.view_as_complex(apart(3, 4, 2)),
]

OTHERS: list[Callable[[], Any]] = [
    *[lambda m=m: cr.convolve(V, apart(3), mode=m) for m in ("full", "same", "valid")],
    lambda: cr.stft(V, 4),
    lambda: cr.istft(C, 4),
    lambda: cr.istft(C, 4, length=2),
    lambda: cr.scaled_dot_product_attention(
        apart(4, 2, 5), apart(2, 3, 5), apart(2, 3, 6), enable_gqa=True
    ),
    lambda: cr.special.expit(X),
    *[lambda f=f: f(P) for name, f in vars(cr.special).items() if "bessel" in name],
    *[lambda f=f: f(X, 3) for name, f in vars(cr.special).items() if "polynomial" in name],
    *[lambda f=f: f(P) for f in (cr.special.psi, cr.special.gammaln)],
    lambda: cr.matmul(W, W),
    lambda: cr.matmul(apart(3), X),
    lambda: cr.matmul(X, W),
    lambda: cr.cumulative_sum(V, include_initial=True),
    lambda: cr.cumulative_sum(X, axis=1, include_initial=True),
    lambda: cr.kthvalue(X, 2, axis=1, keepdims=True),
    lambda: cr.quantile(X, 0.3, axis=1, keepdims=True),
    lambda: cr.quantile(X, apart(5, low=0.1, high=0.9), axis=1, keepdims=True),
    lambda: cr.quantile(X, apart(5, low=0.1, high=0.9), axis=1),
    lambda: cr.quantile(X, apart(5, low=0.1, high=0.9)),
    lambda: cr.diff(X, axis=1, n=2),
    lambda: cr.diff(X, axis=1, prepend=apart(2, 1, 4)),
    lambda: cr.moveaxis(X, (0, 2), (2, 1)),
    lambda: cr.tensordot(X, apart(3, 4, 5)),
    lambda: cr.tensordot(X, apart(4, 5, 3), axes=((1, 2), (2, 0))),
    lambda: cr.pairwise_distance(M, P, keepdims=True),
    lambda: cr.cov(M),
    lambda: cr.block_diag(M, apart(2, 5)),
    lambda: cr.column_stack([M, apart(3, 2)]),
    lambda: cr.dstack([V, V]),
    lambda: cr.dstack([X, apart(2, 3, 5)]),
    lambda: cr.hstack([V, W]),
    lambda: cr.vstack([V, V]),
    lambda: cr.vstack([M, apart(2, 4)]),
    lambda: cr.inner(S, M),
    lambda: cr.rot90(X, 2, (0, 2)),
    lambda: nnf.prelu(X, apart(1)),
    lambda: cr.silu(X),
    lambda: cr.cartesian_prod(V),
    lambda: cr.column_stack([V, apart(5, 2)]),
    *[lambda f=f, x=x: f(x) for f in (cr.cov, cr.corrcoef) for x in (V, V[None])],
    lambda: cr.cosine_similarity(apart(2, 1, 3), apart(4, 3), axis=-2),
    lambda: cr.vander(M, 2),
    lambda: cr.broadcast_arrays(X, apart(3, 1), S),
    lambda: cr.expand_dims(X, (0, -1)),
    lambda: cr.unflatten(apart(3, 8), 1, (2, -1)),
    lambda: cr.flatten(apart(2, 3, 5, 4), 1, -2),
]

LOSSES: list[Callable[[], Any]] = [
    *[
        lambda f=f: f(M, P, M + 1, reduction="none")
        for f in (nnf.triplet_margin_with_distance_loss, nnf.triplet_margin_loss)
    ],
    lambda: nnf.multilabel_margin_loss(M, SIGNS, reduction="none"),
    *[
        lambda r=r: nnf.ctc_loss(
            M.reshape(3, 2, 2), np.array([1, 1]), np.array([3, 2]), np.array([1, 1]), reduction=r
        )
        for r in ("none", "sum")
    ],
    lambda: nnf.ctc_loss(M, LABELS[:1], np.array(3), np.array(1)),
    *[lambda r=r: cr.mse_loss(M, M + 0.3, reduction=r) for r in ("none", "sum")],
    lambda: cr.binary_cross_entropy_with_logits(M, P, weight=P[0], reduction="none"),
    lambda: nnf.binary_cross_entropy(P, P, reduction="none"),
    lambda: nnf.soft_margin_loss(M, SIGNS, reduction="none"),
    lambda: nnf.hinge_embedding_loss(M, SIGNS, reduction="none"),
    lambda: nnf.gaussian_nll_loss(M, P, P, reduction="none"),
    lambda: nnf.margin_ranking_loss(M, P, SIGNS, reduction="none"),
    *[lambda a=a: cr.cross_entropy(M, a, reduction="none") for a in (LABELS, P)],
    *[lambda a=a: cr.cross_entropy(M, a) for a in (LABELS, P)],
    lambda: cr.cross_entropy(X, LABELS[:2].repeat(4).reshape(2, 4) % 3, axis=1),
    lambda: nnf.nll_loss(M, LABELS, reduction="none"),
    lambda: nnf.multilabel_soft_margin_loss(M, P, reduction="none"),
    lambda: nnf.multi_margin_loss(M, LABELS, weight=P[0], reduction="none"),
    lambda: nnf.cosine_embedding_loss(M, P, SIGNS[:, 0], reduction="none"),
]

SIZED = (LINE, IMAGE, BLOCK)


def named(name: str, n: int) -> list[Callable[..., Any]]:
    """The functions of that name for x of so many axes and one more, and for any number."""
    found = [getattr(nnf, f"{name}{n + 1}d"), getattr(nnf, name)]
    return found if name != "dropout" else found[:1]


WINDOWS: list[Callable[[], Any]] = [
    lambda: nnf.conv1d(LINE, apart(6, 2, 3), padding="same", groups=2),
    lambda: nnf.conv1d(LINE, apart(6, 4, 3), padding="valid", stride=2),
    lambda: nnf.conv1d(LINE, apart(6, 4, 3), apart(6), padding=2, stride=3, dilation=2),
    lambda: nnf.conv2d(IMAGE, apart(6, 2, 3, 2), padding="same", groups=2),
    lambda: nnf.conv2d(IMAGE, apart(6, 4, 3, 2), padding="valid"),
    lambda: nnf.conv2d(IMAGE, apart(6, 4, 3, 2), padding=(2, 1), stride=(1, 2), dilation=(1, 3)),
    lambda: nnf.conv_transpose1d(LINE, apart(4, 3, 2), apart(6), stride=3, padding=1, groups=2),
    lambda: nnf.conv_transpose2d(
        IMAGE, apart(4, 3, 2, 3), stride=(2, 3), padding=(0, 1), output_padding=(1, 2)
    ),
    lambda: nnf.conv3d(BLOCK, apart(6, 1, 2, 3, 2), padding="same", groups=2),
    lambda: nnf.conv3d(BLOCK, apart(6, 2, 2, 3, 2), padding="valid"),
    lambda: nnf.conv_transpose3d(
        BLOCK, apart(2, 3, 2, 3, 2), stride=(2, 3, 1), padding=(0, 1, 0), output_padding=(1, 2, 0)
    ),
    *[
        lambda f=f, x=x: f(x, 2, return_indices=True)
        for f, x in ((nnf.max_pool1d, LINE), (nnf.max_pool2d, IMAGE), (nnf.max_pool3d, BLOCK))
    ],
    *[
        lambda f=f, x=x, more=more: f(x, 2, **more)
        for n, x in enumerate(SIZED)
        for f in named("adaptive_max_pool", n)
        for more in ({}, {"return_indices": True})
    ],
    *[
        lambda f=f, x=x: f(x, (3, None, 2)[: x.ndim - 2])
        for n, x in enumerate(SIZED)
        for f in named("adaptive_avg_pool", n)
    ],
    *[
        lambda f=f, x=x, more=more: f(x, 2, 2, stride=3, **more)
        for n, x in enumerate(SIZED)
        for f in named("lp_pool", n)
        for more in ({}, {"ceil_mode": True})
    ],
    *[
        lambda f=f, x=x, size=size: f(x, np.zeros(x.shape, np.int64), 2, output_size=size)
        for n, x in enumerate(SIZED)
        for f in named("max_unpool", n)
        for size in (None, tuple([2 * s + 1 for s in x.shape[2:]]))
    ],
    *[
        lambda f=f, x=x, more=more: f(x, 2, output_size=2, **more)
        for f, x in ((nnf.fractional_max_pool2d, IMAGE), (nnf.fractional_max_pool3d, BLOCK))
        for more in ({}, {"return_indices": True})
    ],
    *[lambda f=f, x=x: f(x) for n, x in enumerate(SIZED) for f in named("dropout", n)],
    lambda: nnf.bilinear(M, apart(3, 2), apart(5, 4, 2), apart(5)),
    lambda: nnf.local_response_norm(IMAGE, 3),
    *[lambda f=f: f(LINE) for f in (nnf.alpha_dropout, nnf.feature_alpha_dropout, nnf.rrelu)],
    lambda: nnf.gumbel_softmax(LINE),
    lambda: nnf.max_pool1d(LINE, 3, ceil_mode=True),
    lambda: nnf.max_pool3d(BLOCK, 2, ceil_mode=True),
    lambda: nnf.avg_pool1d(LINE, 3, ceil_mode=True),
    lambda: nnf.avg_pool3d(BLOCK, 2, ceil_mode=True),
    lambda: nnf.unfold(IMAGE, (2, 3), stride=2),
    lambda: nnf.pad(IMAGE, (1, 2, 0, 3), "circular"),
    lambda: nnf.pad(LINE, (4, -2, 1, 0)),
    lambda: nnf.max_pool1d(LINE, 3, stride=2, padding=1, dilation=2),
    lambda: nnf.max_pool2d(IMAGE, (2, 3), stride=(1, 2), padding=(0, 1), dilation=(2, 1)),
    lambda: nnf.avg_pool1d(LINE, 3, padding=1),
    lambda: nnf.avg_pool2d(IMAGE, (2, 3), stride=(1, 2), padding=(0, 1)),
    lambda: nnf.interpolate(IMAGE, scale_factor=(1.7, 0.5)),
    lambda: nnf.batch_norm(IMAGE, apart(4), apart(4, low=0.3)),
    lambda: nnf.group_norm(IMAGE, 2),
    lambda: nnf.instance_norm(LINE, apart(4), apart(4)),
]

CALLS = [*FOURIER, *LINEAR, *WHOLE, *OTHERS, *LOSSES, *WINDOWS]
