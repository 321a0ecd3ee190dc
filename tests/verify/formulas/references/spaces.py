"""Boxes, graphs, kernels and geometry, by counting, edge by edge, and by SciPy."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import linprog
from scipy.sparse.csgraph import laplacian
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation
from scipy.special import softmax
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern
from sklearn.metrics import pairwise

from tests.verify.formulas.torch_calls import tensors


def corners(form):
    """(left, top, right, bottom) of a box of a form."""

    def of(b):
        x, y, z, w = b
        if form == "centres and sizes":
            return x - z / 2, y - w / 2, x + z / 2, y + w / 2
        return (x, y, z, w) if form == "corners" else (x, y, x + z, y + w)

    return of


def iou(a, b):
    """Lengths of overlapping intervals."""
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = width * height
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
    return both / union, union


def hull(a, b):
    return min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])


def giou(a, b):
    share, union = iou(a, b)
    x, y, z, w = hull(a, b)
    return share + union / ((z - x) * (w - y)) - 1


def off_center(a, b):
    x, y, z, w = hull(a, b)
    off = math.dist(((a[0] + a[2]) / 2, (a[1] + a[3]) / 2), ((b[0] + b[2]) / 2, (b[1] + b[3]) / 2))
    return (off / math.dist((x, y), (z, w))) ** 2


def diou(a, b):
    return iou(a, b)[0] - off_center(a, b)


def ciou(a, b):
    """As in torchvision's complete_box_iou."""
    angle = lambda c: math.atan((c[2] - c[0]) / (c[3] - c[1]))
    v = (4 / math.pi**2) * (angle(a) - angle(b)) ** 2
    share = iou(a, b)[0]
    return diou(a, b) - v * v / (1 - share + v)


def measured(measure, form):
    read = corners(form)

    def reference(box, other, eps):
        if len(box) == len(other):
            pairs = zip(box, other, strict=True)
            each = np.array([measure(read(a), read(b)) for a, b in pairs])
            yield each
            yield (1 - each if measure is not log_iou else each).mean()
        else:
            yield np.array([[measure(read(a), read(b)) for b in other] for a in box])

    return reference


def log_iou(a, b):
    return -math.log(iou(a, b)[0])


BOXES = {
    f"{name} of {form}": measured(measure, form)
    for name, measure in {
        "intersection over union": lambda a, b: iou(a, b)[0],
        "logarithm of intersection over union": log_iou,
        "generalized intersection over union": giou,
        "distance intersection over union": diou,
        "complete intersection over union": ciou,
    }.items()
    for form in ("corners", "centres and sizes", "corners and sizes")
}


def to_centers(box):
    yield np.array([[(x + z) / 2, (y + w) / 2, z - x, w - y] for x, y, z, w in box])


def to_corners(box):
    yield np.array([corners("centres and sizes")(b) for b in box])


def encoded(box, anchor):
    rows = [
        [(x - ax) / aw, (y - ay) / ah, math.log(w / aw), math.log(h / ah)]
        for (x, y, w, h), (ax, ay, aw, ah) in zip(box, anchor, strict=True)
    ]
    yield np.array(rows)


def encoded_corners(box, anchor):
    yield from encoded(next(to_centers(box)), next(to_centers(anchor)))


def decoded(offset, anchor):
    """What is encoded as the offset."""
    rows = [
        [ax + x * aw, ay + y * ah, aw * math.exp(w), ah * math.exp(h)]
        for (x, y, w, h), (ax, ay, aw, ah) in zip(offset, anchor, strict=True)
    ]
    assert np.allclose(next(encoded(np.array(rows), anchor)), offset)
    yield np.array(rows)


def decoded_corners(offset, anchor):
    yield from decoded(offset, next(to_centers(anchor)))


def centerness(sides):
    each = [math.sqrt(min(a, c) / max(a, c) * (min(b, d) / max(b, d))) for a, b, c, d in sides]
    yield np.array(each)


def norm_adjacency(a):
    looped, n = a + np.eye(len(a)), range(len(a))
    each = [[looped[i, j] / math.sqrt(looped[i].sum() * looped[j].sum()) for j in n] for i in n]
    yield np.array(each)
    yield np.eye(len(a)) - laplacian(a, normed=True)


def propagated(x, a):
    for s in norm_adjacency(a):
        yield s @ x


def convolution(x, a, w):
    for s in norm_adjacency(a):
        yield np.einsum("ij,jk,kl->il", s, x, w)


def walk(a):
    yield np.stack([row / row.sum() for row in a])
    yield np.stack([c / c.sum() for c in a.T], axis=1)


def neighbour_means(x, a):
    yield np.stack([np.average(x, axis=0, weights=row) for row in a])


def incoming(source, target, n):
    return [[s for s, t in zip(source, target, strict=True) if t == k] for k in range(n)]


def edges(function, empty=0.0):
    def reference(x, source, target):
        rows = [
            function(x[k]) if k else np.full(x.shape[1], empty)
            for k in incoming(source, target, len(x))
        ]
        yield np.stack(rows)

    return reference


def edge_convolution(x, source, target):
    """As in PyTorch Geometric: loops are added, degrees are those of incoming edges."""
    n = len(x)
    s, t = np.append(source, np.arange(n)), np.append(target, np.arange(n))
    degree, out = np.bincount(t, minlength=n), np.zeros_like(x)
    for i, j in zip(s, t, strict=True):
        out[j] += x[i] / math.sqrt(degree[i] * degree[j])
    yield out


def edge_softmax(scores, target):
    out = np.zeros_like(scores)
    for k in set(target.tolist()):
        out[target == k] = softmax(scores[target == k])
    yield out


def page_rank(rank, a, damping):
    n = len(rank)
    out = np.full(n, (1 - damping) / n)
    for i in range(n):
        for j in range(n):
            out[j] += damping * rank[i] * a[i, j] / a[i].sum()
    yield out


def personal(x, start, a, alpha):
    s, *_ = norm_adjacency(a)
    yield alpha * start + (1 - alpha) * (s @ x)


def smoothness(x, a):
    """Squared differences along edges, each met twice."""
    n = len(x)
    yield sum(a[i, j] * ((x[i] - x[j]) ** 2).sum() for i in range(n) for j in range(n)) / 2


def modularity(a, p):
    n, m = len(a), a.sum() / 2
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += (a[i, j] - a[i].sum() * a[j].sum() / (2 * m)) * (p[i] @ p[j])
    yield total / (2 * m)


def radial(x, y, width):
    yield pairwise.rbf_kernel(x, y, gamma=width)
    yield RBF(width)(x, y)


def process_mean(kernel, cross, target, noise):
    yield cross @ np.linalg.inv(kernel + noise * np.eye(len(kernel))) @ target
    x = np.linspace(0, 1, 5)[:, None]
    known = GaussianProcessRegressor(RBF(0.5), alpha=0.1, optimizer=None).fit(x, np.sin(x[:, 0]))
    k, c = RBF(0.5)(x), RBF(0.5)(x[:2] + 0.1, x)
    own = c @ np.linalg.solve(k + 0.1 * np.eye(5), np.sin(x[:, 0]))
    assert np.allclose(known.predict(x[:2] + 0.1), own)


def features(x, centers, widths):
    d = cdist(x, centers)
    yield np.exp(-0.5 * (d / widths) ** 2)


def gram_images(f):
    x = torch.tensor(f).flatten(2)
    yield torch.bmm(x, x.transpose(1, 2)).numpy()


def style(f, g):
    (a,), (b,) = gram_images(f), gram_images(g)
    yield ((a - b) ** 2).mean()


def total_variation(x):
    rows = x.reshape(-1, *x.shape[-2:])
    total = 0.0
    for r in rows:
        for i, j in np.ndindex(*r.shape):
            total += abs(r[i + 1, j] - r[i, j]) if i + 1 < r.shape[0] else 0
            total += abs(r[i, j + 1] - r[i, j]) if j + 1 < r.shape[1] else 0
    yield total


def paths(n, m):
    """All monotone paths through an n by m table."""
    if (n, m) == (1, 1):
        yield [(0, 0)]
        return
    for i, j in ((n - 1, m), (n, m - 1), (n - 1, m - 1)):
        if i > 0 and j > 0:
            for p in paths(i, j):
                yield [*p, (n - 1, m - 1)]


def warping(cost, gamma):
    """The soft minimum over all alignments."""
    small = cost[:4, :4]
    sums = np.array([sum(small[k] for k in p) for p in paths(*small.shape)])
    table = {}
    for i, j in np.ndindex(*cost.shape):
        before = [table[k] for k in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if k in table]
        least = min(before, default=0.0)
        soft = least - gamma * math.log(sum(math.exp((least - b) / gamma) for b in before or [0.0]))
        table[i, j] = cost[i, j] + soft
    top = -gamma * np.logaddexp.reduce(-sums / gamma)
    assert np.isclose(table[3, 3], top)
    yield table[cost.shape[0] - 1, cost.shape[1] - 1]


def chamfer(x, y):
    d = cdist(x, y)
    yield (d**2).min(axis=1).mean() + (d**2).min(axis=0).mean()
    yield d.min(axis=1).mean() + d.min(axis=0).mean()


def student(y):
    w = [
        [0 if i == j else 1 / (1 + math.dist(a, b) ** 2) for j, b in enumerate(y)]
        for i, a in enumerate(y)
    ]
    yield np.array(w) / np.sum(w)


def embedding(p, y):
    (q,) = student(y)
    q = q + np.eye(len(y))
    yield np.sum(p * (np.log(p) - np.log(q)))


def sinkhorn(cost, a, b, strength, steps):
    """In logarithms; columns are right after each turn; no plan is cheaper than the best."""
    f, g = np.zeros(len(a)), np.zeros(len(b))
    for _ in range(steps):
        f = np.log(a) - np.logaddexp.reduce(g - cost / strength, axis=1)
        g = np.log(b) - np.logaddexp.reduce(f[:, None] - cost / strength, axis=0)
    plan = np.exp(f[:, None] + g - cost / strength)
    assert np.allclose(plan.sum(axis=0), b)
    yield plan
    rows = [np.kron(np.eye(len(a)), np.ones(len(b))), np.kron(np.ones(len(a)), np.eye(len(b)))]
    best = linprog(cost.ravel(), A_eq=np.vstack(rows), b_eq=np.concatenate([a, b])).fun
    assert (plan * cost).sum() > best - 0.2


def alignment(x, y):
    k, m = (pairwise.linear_kernel(z - z.mean(axis=0)) for z in (x, y))
    yield (k * m).sum() / np.sqrt((k * k).sum() * (m * m).sum())


def independence(k, m):
    center = lambda a: a - a.mean(axis=0) - a.mean(axis=1)[:, None] + a.mean()
    yield (center(k) * m.T).sum() / (len(k) - 1) ** 2


def quaternions(p, q):
    """As in SciPy, of any lengths, which multiply; the real part is the last one there."""
    lengths = np.linalg.norm(p, axis=1) * np.linalg.norm(q, axis=1)
    last = (Rotation.from_quat(p) * Rotation.from_quat(q)).as_quat()
    both = np.array([_product(a, b) for a, b in zip(p, q, strict=True)])
    assert np.allclose(np.abs((both * last).sum(axis=1)), lengths)
    yield both


def _product(p, q):
    """By complex matrices, the real part last."""
    rows = [
        np.array([[c[3] + 1j * c[0], c[1] + 1j * c[2]], [-c[1] + 1j * c[2], c[3] - 1j * c[0]]])
        for c in (p, q)
    ]
    m = rows[0] @ rows[1]
    return [m[0, 0].imag, m[0, 1].real, m[0, 1].imag, m[0, 0].real]


def rotation(axis, angle):
    unit = axis / np.linalg.norm(axis)
    yield Rotation.from_rotvec(angle * unit).as_matrix()


def haversine(lat, lon, other_lat, other_lon):
    """The angle between directions."""
    to = lambda a, b: np.stack([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)])
    yield np.arccos((to(lat, lon) * to(other_lat, other_lon)).sum(axis=0))


def render(density, step):
    """What is seen of the light that is left."""
    out = np.zeros_like(density)
    for r in range(len(density)):
        left = 1.0
        for k in range(density.shape[1]):
            gone = left * np.exp(-density[r, k] * step[r, k])
            out[r, k], left = left - gone, gone
    yield out


def rendered(density, color, step):
    (w,) = render(density, step)
    yield np.einsum("rs,rsc->rc", w, color)


def frequencies(x, levels):
    cols = []
    for k in range(levels):
        cols += [np.sin(2**k * np.pi * x), np.cos(2**k * np.pi * x)]
    yield np.hstack(cols)


def clusters(z, centers):
    w = 1 / (1 + cdist(z, centers) ** 2)
    yield np.stack([r / r.sum() for r in w])


def sharpened(q):
    w = [[x**2 / c for x, c in zip(r, q.sum(axis=0), strict=True)] for r in q]
    yield np.stack([np.array(r) / sum(r) for r in w])


def poincare(x, y):
    """From 0 it is 2 artanh |y|; by Möbius addition from elsewhere."""
    out = []
    for a, b in zip(x, y, strict=True):
        ab, aa, bb = -a @ b, a @ a, b @ b
        moved = ((1 + 2 * ab + bb) * -a + (1 - aa) * b) / (1 + 2 * ab + aa * bb)
        out.append(2 * np.arctanh(np.linalg.norm(moved)))
    yield np.array(out)


REFERENCES = {
    **BOXES,
    "centres and sizes of corners": to_centers,
    "corners of centres and sizes": to_corners,
    "offsets of boxes": encoded,
    "offsets of corners": encoded_corners,
    "boxes of offsets": decoded,
    "boxes of offsets from corners": decoded_corners,
    "centerness": centerness,
    "normalized adjacency": norm_adjacency,
    "random walk": walk,
    "graph Laplacian": lambda a: [laplacian(a)],
    "normalized Laplacian": lambda a: [laplacian(a, normed=True)],
    "graph convolution": convolution,
    "propagation by normalized adjacency": propagated,
    "means of neighbours": neighbour_means,
    "sums over edges": edges(lambda x: x.sum(axis=0)),
    "means over edges": edges(lambda x: x.mean(axis=0)),
    "largest values over edges": edges(lambda x: x.max(axis=0)),
    "graph convolution over edges": edge_convolution,
    "shares among edges": edge_softmax,
    "graph isomorphism layer": lambda x, a, eps: [(a + (1 + eps) * np.eye(len(a))) @ x],
    "PageRank step": page_rank,
    "personalized propagation": personal,
    "smoothness on a graph": smoothness,
    "modularity": modularity,
    "distances of all pairs": lambda x, y: [cdist(x, y), cdist(x, y) ** 2],
    "distances of all points": lambda x: [cdist(x, x), cdist(x, x) ** 2],
    "radial kernel": radial,
    "radial kernel of points": lambda x, width: radial(x, x, width),
    "radial kernel with an amplitude": lambda x, y, w, v: [v * k for k in radial(x, y, w)],
    "radial features": features,
    "Matérn kernel of 3/2": lambda x, y, length: [Matern(length, nu=1.5)(x, y)],
    "Matérn kernel of 5/2": lambda x, y, length: [Matern(length, nu=2.5)(x, y)],
    "periodic kernel": lambda x, y, length, p: [ExpSineSquared(length, p)(x[:, None], y[:, None])],
    "mean of a Gaussian process": process_mean,
    "cosine similarity": lambda x, y, eps: [
        torch.cosine_similarity(*tensors(x, y), eps=eps).numpy()
    ],
    "cosine similarity of all pairs": lambda x, y: [pairwise.cosine_similarity(x, y)],
    "cosine similarity of all points": lambda x: [pairwise.cosine_similarity(x)],
    "Gram matrix": lambda f: [np.einsum("ip,jp->ij", f, f)],
    "Gram matrices of images": gram_images,
    "style loss": style,
    "total variation": total_variation,
    "soft dynamic time warping of costs": warping,
    "soft dynamic time warping": lambda x, y, g: warping(cdist(x[:, None], y[:, None]) ** 2, g),
    "chamfer distance": chamfer,
    "similarities of t-SNE": student,
    "loss of t-SNE": embedding,
    "optimal transport by Sinkhorn's iteration": sinkhorn,
    "linear kernel alignment": alignment,
    "Hilbert-Schmidt independence": independence,
    "product of quaternions": quaternions,
    "rotation about an axis": rotation,
    "distance on a sphere": haversine,
    "weights of samples on rays": render,
    "colours of rays": rendered,
    "frequency features of coordinates": frequencies,
    "soft clusters": clusters,
    "sharpened clusters": sharpened,
    "distance in the Poincaré ball": poincare,
}
