"""Masks that do not keep out what they are for, as the record of a step shows: rows, each a
function of what a loss depends on.

What a mask keeps is known from its values: a triangle, or as many as a sequence has, from one end
of each row. Shares that are masked behind their softmax have given a part to what is masked.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chainrule.engine.op import Array
from chainrule.verify.script.step.links import Links, dim_of, is_product
from chainrule.verify.script.step.record.tape import Entry, things_in
from chainrule.verify.script.step.spots import Spot, spots_at
from chainrule.verify.training.text import edits
from chainrule.verify.user_frames import placed

_SAME = {"dropout", "unsqueeze", "view", "reshape", "transpose", "expand", "to", "float"}
"""Calls that pass shares on as they are."""
_PRODUCTS = {"mul", "__mul__", "__rmul__"}
_LEFT_OUT = -1e4
"""What is given to a score, or added to it, from which on nothing is left of it."""
_SIZE = 1 << 22
"""Elements of what is looked at."""


def late_masks(links: Links) -> Iterator[Spot]:
    """Shares that are masked behind the softmax: what is masked has its part in the sum."""
    for entry in links.entries:
        made = links.made_by(entry.connected[0], _SAME) if entry.connected else None
        if entry.name not in ("mul", "__mul__") or made is None or made.name != "softmax":
            continue
        axis = dim_of(made, rank := len(links.shape(made.outputs[0])))
        masks = [x for x in entry.args if isinstance(x, Tensor) and x.numel() <= _SIZE]
        kind = next((kind for x in masks if (kind := _kind(x, (axis or 0) - rank))), "")
        if kind and _are_only_weights(links, entry) and not _is_masked(links, made):
            says = f"{kind} masks the shares behind the softmax: they no longer add up "
            says += "to 1, and what is masked has its part in the sum, and gets a gradient"
            advice = "mask the scores: masked_fill(mask == 0, float('-inf')) before the softmax"
            yield from spots_at("mask_late", entry, says, advice)


def _kind(mask: Tensor, axis: int) -> str:
    """What a mask is; empty if it is none that belongs before the softmax along an axis."""
    if _is_triangle(mask):
        return "a triangle of ones"
    if mask.dim() < -axis or mask.shape[axis] < 2:
        return ""
    rows = np.moveaxis(np.asarray(mask.detach().cpu()), axis, -1).reshape(-1, mask.shape[axis])
    return "a mask of sequences that differ in length" if _are_lengths(rows) else ""


def _are_lengths(rows: Array) -> bool:
    """Whether each row keeps so many positions at one end, not always as many."""
    kept = rows != 0
    counts = np.unique(kept.sum(1))
    plain = bool((rows[kept] == 1).all()) and len(counts) > 1 and counts[0] > 0
    return plain and (bool((kept[:, :-1] >= kept[:, 1:]).all())
                      or bool((kept[:, :-1] <= kept[:, 1:]).all()))  # fmt: skip


def _is_triangle(x: Tensor) -> bool:
    if x.dim() < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < 2:
        return False
    ones = torch.ones_like(x)
    return bool(torch.equal(x, ones.tril()) or torch.equal(x, ones.triu()))


def _are_only_weights(links: Links, entry: Entry) -> bool:
    """Whether nothing is done with the masked shares but to weigh values: they are not divided by
    what is left of them."""
    uses = list(_uses(links, entry.outputs[0]))
    return bool(uses) and all(is_product(e) or _is_weighted_sum(links, e) for e in uses)


def _uses(links: Links, slot: int) -> Iterator[Entry]:
    for entry in links.users.get(slot, []):
        if entry.name in _SAME and len(entry.connected) == 1:
            yield from _uses(links, entry.outputs[0])
        else:
            yield entry


def _is_weighted_sum(links: Links, entry: Entry) -> bool:
    uses = links.users.get(entry.outputs[0], []) if entry.name in _PRODUCTS else []
    return bool(uses) and all(e.name == "sum" for e in uses)


def _is_masked(links: Links, softmax: Entry) -> bool:
    """Whether scores were masked before the softmax as well."""
    behind = links.part.back(softmax.inputs, lambda e: () if is_product(e) else e.inputs)
    return any(map(_leaves_out, behind))


def _leaves_out(entry: Entry) -> bool:
    for x in things_in((entry.args, entry.kwargs)):
        small = x < _LEFT_OUT if isinstance(x, float | int) else False
        if isinstance(x, Tensor) and x.is_floating_point() and 0 < x.numel() <= _SIZE:
            small = bool((x < _LEFT_OUT).any())
        if small:
            return True
    return False


def future_seen(links: Links) -> Iterator[Spot]:
    """Scores of a position with those before it are masked out: what is left is the future."""
    for entry in links.entries:
        kept = [k for k in _kept(links, entry) if k.dim() > 1 and k.shape[-1] == k.shape[-2] > 2]
        own = [int(_is_future(k, 0)) + 2 * int(_is_future(k, 1)) for k in kept]
        if any(own):
            itself = "itself and " if max(own) == 1 else "only "
            says = f"each position is kept from those before it, and sees {itself}those after it"
            advice = "mask what is above the diagonal: torch.triu(..., diagonal=1)"
            if keeps := entry.name == "scaled_dot_product_attention":
                advice = "here True keeps a position: torch.tril(...), or is_causal=True"
            edit = edits.change_line(placed(entry.at), _turned) if keeps and max(own) > 1 else None
            for spot in spots_at("axes_mixed", entry, says, advice):
                yield spot._replace(edit=edit)


def _kept(links: Links, entry: Entry) -> list[Tensor]:
    """What is true of the pairs of positions that a call lets see each other."""
    if not entry.is_live:
        return []
    if entry.name in ("masked_fill", "masked_fill_"):
        uses = links.users.get(entry.outputs[0], [])
        masks = [x for x in entry.args if isinstance(x, Tensor) and x.dtype is torch.bool]
        return [~x for x in masks] if any(e.name == "softmax" for e in uses) else []
    mask: Any = entry.kwargs.get("attn_mask")
    if entry.name == "scaled_dot_product_attention":
        mask = entry.args[3] if len(entry.args) > 3 else mask
    elif entry.name != "multi_head_attention_forward":
        return []
    if not isinstance(mask, Tensor):
        return []
    if mask.dtype is not torch.bool:
        return [mask > _LEFT_OUT]
    return [mask if entry.name == "scaled_dot_product_attention" else ~mask]


def _is_future(kept: Tensor, diagonal: int) -> bool:
    """Whether it is true of all pairs of a position with a later one, and of no others."""
    return bool((kept == torch.ones_like(kept).triu(diagonal)).all())


def _turned(statement: ast.stmt) -> bool:
    """`attn_mask=m` as `attn_mask=~m`."""
    given = [k for n in ast.walk(statement) if isinstance(n, ast.Call) for k in n.keywords]
    masks = [k for k in given if k.arg == "attn_mask"]
    for k in masks:
        k.value = ast.UnaryOp(ast.Invert(), k.value)
    return len(masks) == 1


def masked_extremes(links: Links) -> Iterator[Spot]:
    """`(x * mask).min(dim)`, which is what the mask has made 0, in all rows."""
    for entry in links.entries:
        made = links.maker.get(entry.inputs[0]) if entry.is_zero else None
        if made is None or made.name not in _PRODUCTS or len(made.inputs) != 1:
            continue
        axis = dim_of(entry, len(links.shape(entry.inputs[0])))
        masks = [x for x in made.args if isinstance(x, Tensor) and x.numel() <= _SIZE]
        shape = links.shape(made.outputs[0])
        if axis is not None and any(_masks_some(x, axis, shape) for x in masks):
            says = f"`{entry.name}` gives 0 in all rows: that is what the mask has made of what it "
            says += "leaves out, and so no gradient comes to what it keeps"
            out = "inf" if "min" in entry.name else "-inf"
            advice = f"leave it out instead: x.masked_fill(~mask, float('{out}'))"
            yield from spots_at("idle_term", entry, says, advice)


def _masks_some(mask: Tensor, axis: int, shape: Sequence[int]) -> bool:
    """Whether a mask keeps some elements of each row along an axis, and not all."""
    if tuple(mask.shape) != tuple(shape):
        return False
    kept = mask != 0
    return bool(((mask == 1) | ~kept).all() and (kept.any(axis) & ~kept.all(axis)).all())


_BY_ROWS = {"view", "reshape", "flatten", "contiguous", "to", "long", "transpose", "t", "T"}


def trained_paddings(links: Links) -> Iterator[Spot]:
    """Labels that were brought to one length by a class, which the loss does not leave out."""
    tape = links.part.tape
    for entry in links.entries:
        if entry.name not in ("cross_entropy", "nll_loss") or not entry.is_live:
            continue
        target: Any = entry.args[1] if len(entry.args) > 1 else entry.kwargs.get("target")
        made = tape.constant_of(target)
        while made is not None and made.name in _BY_ROWS:
            made = tape.constant_of(made.args[0])
        if made is None or made.name != "pad_sequence" or _leaves_padding_out(entry, made.args):
            continue
        rows, value = made.args[0], made.args[2]
        says = f"labels of {len(rows)} sequences are filled up with {value:g}, which other labels "
        says += "are as well, and the loss counts them all: what fills up is trained"
        ignored = entry.kwargs.get("ignore_index", -100)
        place = placed(made.at)
        edit = edits.change_line(place, partial(_filled_with, ignored))
        advice = f"fill labels up with {ignored}, which the loss leaves out"
        yield Spot("wrong_value", place, says, advice, edit)


def _leaves_padding_out(entry: Entry, args: Sequence[Any]) -> bool:
    """Whether a loss does not count padding, or it is no label of its own, but for the last one of
    a sequence: that one goes on."""
    value, rows = args[2], [np.asarray(row.detach().cpu()) for row in args[0]]
    settings, weight = entry.kwargs, entry.kwargs.get("weight")
    ignored = settings.get("ignore_index", -100)
    some = any((row[:-1] == value).any() for row in rows)
    lengths = {len(row) for row in rows}
    if not some or len(lengths) < 2 or value == ignored or settings.get("reduction") == "none":
        return True
    if any((row == ignored).any() for row in rows):
        return True
    return isinstance(weight, Tensor) and float(weight[int(value)]) == 0


def _filled_with(value: int, statement: ast.stmt) -> bool:
    given = [k for n in ast.walk(statement) if isinstance(n, ast.Call) for k in n.keywords]
    filling = [k for k in given if k.arg == "padding_value"]
    for k in filling:
        k.value = ast.Constant(value)
    return len(filling) == 1


ROWS: Sequence[Callable[[Links], Iterator[Spot]]] = (
    late_masks, future_seen, masked_extremes, trained_paddings,
)  # fmt: skip
