"""Boxes: as corners (left, top, right, bottom), as centre and size, as corner and size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula, Value
from chainrule.verify.formulas.themes.functions import relu

Corners = tuple[Array, Array]
"""Two corners, (..., 2) each."""


def _corners(box: Array) -> Corners:
    return box[..., :2], box[..., 2:]


def _of_centers(box: Array) -> Corners:
    return box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2


def _of_sizes(box: Array) -> Corners:
    return box[..., :2], box[..., :2] + box[..., 2:]


def _areas(a: Corners, b: Corners, pixel: float) -> tuple[Array, Array]:
    """Of the intersection and of the union; a box ends with its last pixel or before it."""
    sides = relu(np.minimum(a[1], b[1]) - np.maximum(a[0], b[0]) + pixel)
    own = [(x[1] - x[0] + pixel).prod(axis=-1) for x in (a, b)]
    both = sides.prod(axis=-1)
    return both, own[0] + own[1] - both


def _losses(x: Array) -> Iterator[Array]:
    """A share, and what it falls short of 1; of each and as a mean."""
    yield from (x, 1 - x, x.mean(), 1 - x.mean(), (1 - x).sum())


def _over_union(a: Corners, b: Corners, eps: float) -> Iterator[Array]:
    for pixel in (0.0, 1.0):
        both, union = _areas(a, b, pixel)
        for x in (both / union, both / (union + eps), (both + eps) / (union + eps),
                  both / np.maximum(union, eps)):  # fmt: skip
            yield from _losses(x)


def _log_over_union(a: Corners, b: Corners, eps: float) -> Iterator[Array]:
    both, union = _areas(a, b, 0.0)
    for x in (both / union, both / (union + eps), (both + eps) / (union + eps)):
        yield from (-np.log(x), -np.log(x).mean())


def _plain(a: Corners, b: Corners, eps: float) -> Iterator[Array]:
    both, union = _areas(a, b, 0.0)
    yield from (both / union, both / (union + eps), (both + eps) / (union + eps))
    yield both / np.maximum(union, eps)


def _hull(a: Corners, b: Corners) -> Array:
    """Sides of the smallest box around both."""
    return np.maximum(a[1], b[1]) - np.minimum(a[0], b[0])


def _generalized(a: Corners, b: Corners, eps: float) -> Iterator[Array]:
    _, union = _areas(a, b, 0.0)
    hull = _hull(a, b).prod(axis=-1)
    for iou in _plain(a, b, eps):
        for below in (hull, hull + eps, np.maximum(hull, eps)):
            yield from _losses(iou - (hull - union) / below)


def _center_share(a: Corners, b: Corners, eps: float) -> Iterator[Array]:
    """The squared distance of centres in units of the hull's diagonal."""
    off = (((a[0] + a[1]) - (b[0] + b[1])) ** 2).sum(axis=-1) / 4
    diagonal = (_hull(a, b) ** 2).sum(axis=-1)
    yield from (off / diagonal, off / (diagonal + eps), off / np.maximum(diagonal, eps))


def _distance(a: Corners, b: Corners, eps: float) -> Iterator[Array]:
    for iou in _plain(a, b, eps):
        for off in _center_share(a, b, eps):
            yield from _losses(iou - off)


def _complete(a: Corners, b: Corners, eps: float) -> Iterator[Array]:
    for e in (0.0, eps):
        angles = [np.arctan(s[..., 0] / (s[..., 1] + e)) for s in (a[1] - a[0], b[1] - b[0])]
        v = 4 / np.pi**2 * (angles[0] - angles[1]) ** 2
        for iou in _plain(a, b, eps):
            for off in _center_share(a, b, eps):
                for weight in (v / (1 - iou + v), v / (1 - iou + v + eps), v / (v - iou + 1 + e)):
                    yield from _losses(iou - off - weight * v)


def _to_centers(box: Array) -> Iterator[Array]:
    low, high = _corners(box)
    yield np.concatenate([(low + high) / 2, high - low], axis=-1)


def _to_corners(box: Array) -> Iterator[Array]:
    yield np.concatenate(_of_centers(box), axis=-1)


def _encoded(box: Array, anchor: Array) -> Iterator[Array]:
    """Both as centre and size."""
    off = (box[..., :2] - anchor[..., :2]) / anchor[..., 2:]
    yield np.concatenate([off, np.log(box[..., 2:] / anchor[..., 2:])], axis=-1)


def _encoded_corners(box: Array, anchor: Array) -> Iterator[Array]:
    yield from _encoded(next(_to_centers(box)), next(_to_centers(anchor)))


def _decoded(offset: Array, anchor: Array) -> Iterator[Array]:
    center = anchor[..., :2] + offset[..., :2] * anchor[..., 2:]
    box = np.concatenate([center, anchor[..., 2:] * np.exp(offset[..., 2:])], axis=-1)
    yield from (box, np.concatenate(_of_centers(box), axis=-1))


def _decoded_corners(offset: Array, anchor: Array) -> Iterator[Array]:
    yield from _decoded(offset, next(_to_centers(anchor)))


def _centerness(sides: Array) -> Iterator[Array]:
    """Distances to left, top, right and bottom."""
    pairs = sides[..., ::2], sides[..., 1::2]
    for left, top in (pairs, (sides[..., :2], sides[..., 2:])):
        share = left.min(axis=-1) / left.max(axis=-1) * top.min(axis=-1) / top.max(axis=-1)
        yield from (np.sqrt(share), share)


def _of(measure: Callable[..., Iterator[Array]], read: Callable[[Array], Corners]) -> Value:
    """A measure of pairs, or of all pairs."""

    def value(box: Array, other: Array, eps: float) -> Iterator[Array]:
        if box.shape == other.shape:
            yield from measure(read(box), read(other), eps)

    return value


def _of_all(measure: Callable[..., Iterator[Array]], read: Callable[[Array], Corners]) -> Value:

    def value(box: Array, other: Array, eps: float) -> Iterator[Array]:
        yield from measure(read(box[:, None]), read(other[None]), eps)

    return value


def _rows(
    name: str, words: tuple[str, ...], measure: Callable[..., Iterator[Array]], source: str
) -> Iterator[Formula]:
    for form, read in (("corners", _corners), ("centres and sizes", _of_centers),
                       ("corners and sizes", _of_sizes)):  # fmt: skip
        pair, all_ = "box[n 4], other[n 4], eps[]", "box[n 4], other[m 4], eps[]"
        yield Formula(f"{name} of {form}", words, pair, _of(measure, read), source)
        if measure is _over_union or measure is _generalized:
            yield Formula(f"{name} of {form}", words, all_, _of_all(measure, read), source)


_IOU = ("iou*", "giou*", "diou*", "ciou*", "jaccard*", "overlap*", "union*", "inter*")
_REN = "Ren et al., Faster R-CNN, 2015, equation 2"
_ZHENG = "Zheng et al., Distance-IoU loss, 2020"

ROWS = (
    *_rows("intersection over union", _IOU, _over_union,
           "Everingham et al., The PASCAL visual object classes challenge, 2010"),
    *_rows("logarithm of intersection over union", _IOU, _log_over_union,
           "Yu et al., UnitBox, 2016"),
    *_rows("generalized intersection over union", _IOU, _generalized,
           "Rezatofighi et al., Generalized intersection over union, 2019, algorithm 1"),
    *_rows("distance intersection over union", _IOU, _distance, f"{_ZHENG}, equation 7"),
    *_rows("complete intersection over union", _IOU, _complete,
           f"{_ZHENG}, equations 8 to 11"),
    Formula("centres and sizes of corners", ("cxcywh", "xywh", "center*", "wh", "box*"),
            "box[n 4]", _to_centers, "torchvision, box_convert"),
    Formula("corners of centres and sizes", ("xyxy", "corner*", "x1", "box*"), "box[n 4]",
            _to_corners, "torchvision, box_convert"),
    Formula("offsets of boxes", ("encod*", "anchor*", "delta*", "offset*", "target*"),
            "box[n 4], anchor[n 4]", _encoded, _REN),
    Formula("offsets of corners", ("encod*", "anchor*", "delta*", "offset*", "target*"),
            "box[n 4], anchor[n 4]", _encoded_corners, _REN),
    Formula("boxes of offsets", ("decod*", "anchor*", "delta*"), "offset[n 4], anchor[n 4]",
            _decoded, _REN),
    Formula("boxes of offsets from corners", ("decod*", "anchor*", "delta*"),
            "offset[n 4], anchor[n 4]", _decoded_corners, _REN),
    Formula("centerness", ("centerness*", "fcos*", "ctr*"), "sides[n 4]", _centerness,
            "Tian et al., FCOS, 2019, equation 3"),
)  # fmt: skip
"""Rows of this theme."""
