"""Sequences: masks that say the opposite, and states of other batches; and right ones like them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

from tests.sampling import sampled_file
from tests.verify.training.test_training_right import observed

pytestmark = sampled_file(one_in=4)


def loud(loop):
    torch.manual_seed(0)
    return [f for f in observed(loop)[0] if f.level != "note"]


def words(n=8, length=7, left=False):
    """Indices of a table, filled up with 0 to one length."""
    t = torch.randint(1, 9, (n, length))
    ends = torch.randint(2, length, (n, 1))
    t[torch.arange(length) >= ends] = 0
    return t.flip(1) if left else t


class Reader(nn.Module):
    """What `attend` makes of embedded words, summed up."""

    def __init__(self, attend, parts=None):
        super().__init__()
        self.table, self.out, self.attend = nn.Embedding(9, 8), nn.Linear(8, 1), attend
        self.parts = parts

    def forward(self, t):
        return self.out(self.attend(self.parts, self.table(t), t).mean(1))


def reads(attend, parts=None, left=False):
    def loop():
        m = Reader(attend, parts() if parts else None)
        o = torch.optim.SGD(m.parameters(), 0.01)
        for _ in range(3):
            o.zero_grad()
            m(words(left=left)).square().mean().backward()
            o.step()

    return loop


def heads():
    return nn.MultiheadAttention(8, 2, batch_first=True)


def encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)


def by_hand(m, x, t, pad, value=-1e9):
    scores = x @ x.transpose(1, 2)
    hidden = pad(t)[:, None, :]
    return scores.masked_fill(hidden, value).softmax(-1) @ x


def inverted_for_an_encoder(m, x, t):
    mask = t != 0
    return m(x, src_key_padding_mask=mask)


def of_vectors(keep):
    """Vectors that are filled up with zeros, and their lengths."""

    def loop():
        m = heads()
        o = torch.optim.SGD(m.parameters(), 0.01)
        for _ in range(3):
            lengths = torch.randint(2, 7, (8, 1))
            inside = torch.arange(7) < lengths
            x = torch.randn(8, 7, 8) * inside[..., None]
            mask = inside if keep else ~inside
            o.zero_grad()
            m(x, x, x, key_padding_mask=mask)[0].square().mean().backward()
            o.step()

    return loop


def added(pad):
    return torch.where(pad, -torch.inf, 0.0)


def scaled(x, keep):
    return F.scaled_dot_product_attention(x, x, x, keep[:, None, :].expand(8, 7, 7))


MASKS = {
    "an encoder": reads(inverted_for_an_encoder, encoder),
    "heads": reads(lambda m, x, t: m(x, x, x, key_padding_mask=t > 0)[0], heads),
    "heads, padding first": reads(
        lambda m, x, t: m(x, x, x, key_padding_mask=t != 0)[0], heads, left=True),
    "without weights": reads(
        lambda m, x, t: m(x, x, x, key_padding_mask=t != 0, need_weights=False)[0], heads),
    "numbers that are added": reads(
        lambda m, x, t: m(x, x, x, key_padding_mask=added(t != 0))[0], heads),
    "the mask of the other function": reads(
        lambda m, x, t: scaled(x, t == 0)),
    "by hand": reads(lambda m, x, t: by_hand(m, x, t, lambda t: t != 0)),
    "vectors": of_vectors(keep=True),
}  # fmt: skip
RIGHT_MASKS = {
    "an encoder": reads(lambda m, x, t: m(x, src_key_padding_mask=t == 0), encoder),
    "heads": reads(lambda m, x, t: m(x, x, x, key_padding_mask=t == 0)[0], heads),
    "numbers that are added": reads(
        lambda m, x, t: m(x, x, x, key_padding_mask=added(t == 0))[0], heads),
    "the mask of the other function": reads(
        lambda m, x, t: scaled(x, t != 0)),
    "by hand": reads(lambda m, x, t: by_hand(m, x, t, lambda t: t == 0)),
    "no mask": reads(lambda m, x, t: m(x), encoder),
    "a causal one as well": reads(
        lambda m, x, t: m(x, nn.Transformer.generate_square_subsequent_mask(7),
                          src_key_padding_mask=added(t == 0)), encoder),
    "only what is one word": reads(
        lambda m, x, t: by_hand(m, x, t, lambda t: t != t[:, :1])),
    "vectors": of_vectors(keep=False),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_the_wrong_way_round_is_found(name):
    assert [f.name.code for f in loud(MASKS[name])] == ["mask_inverted"]


def test_it_is_placed_where_the_mask_is_made_and_turned_round():
    (found,) = loud(MASKS["an encoder"])
    assert found.place.text.strip() == "mask = t != 0"
    assert found.correction.after.strip() == "mask = t == 0"


@pytest.mark.parametrize("name", RIGHT_MASKS)
def test_other_masks_are_fine(name):
    assert not loud(RIGHT_MASKS[name])


# --- states

X = torch.randn(40, 6, 3, generator=torch.Generator().manual_seed(0))
DATA = TensorDataset(X, X.sum((1, 2)))


class Counter(nn.Module):
    """A recurrence, and a number of its last state."""

    def __init__(self, kind=nn.GRU):
        super().__init__()
        self.rnn, self.out = kind(3, 5, batch_first=True), nn.Linear(5, 1)
        self.state = None

    def forward(self, x, h=None):
        y, h = self.rnn(x, h)
        return self.out(y[:, -1])[:, 0], h


class Keeping(Counter):
    """Keeps its state itself."""

    def forward(self, x):
        y, self.state = super().forward(x, self.state)
        self.state = self.state.detach()
        return y


class Steps(nn.Module):
    """Goes through a sequence cell by cell."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.GRUCell(3, 5), nn.GRUCell(5, 5), nn.Linear(5, 1)

    def forward(self, x, h=None):
        h, k = h if h is not None else (None, None)
        for t in range(x.shape[1]):
            h = self.a(x[:, t], h)
            k = self.b(h, k)
        return self.out(k)[:, 0], (h, k)


def fit(o, y, target):
    o.zero_grad()
    F.mse_loss(y, target).backward()
    o.step()


def let_go(h):
    return h.detach() if torch.is_tensor(h) else tuple([x.detach() for x in h])


def over(make=Counter, shuffle=True, anew=False, copy=let_go):
    """A state from batch to batch of a loader."""

    def loop():
        m = make()
        o = torch.optim.SGD(m.parameters(), 0.01)
        h, loader = None, DataLoader(DATA, 8, shuffle=shuffle)
        for x, target in loader:
            h = None if anew else h
            y, h = m(x, h)
            h = copy(h)
            fit(o, y, target)

    return loop


def a_model_that_keeps_it():
    m = Keeping()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(2):
        m.state = None
        for _, (x, target) in enumerate(DataLoader(DATA, 8, shuffle=True)):
            fit(o, m(x), target)


def parts_of_a_permutation():
    m = Counter()
    o = torch.optim.SGD(m.parameters(), 0.01)
    order, h = torch.randperm(40), None
    for k in range(0, 40, 8):
        at = order[k : k + 8]
        y, h = m(X[at], h)
        h = h.detach()
        fit(o, y, X[at].sum((1, 2)))


def parts_of_each_sequence():
    """The loader shuffles, and each of its sequences is gone through part by part."""
    m = Counter()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for x, target in DataLoader(DATA, 8, shuffle=True):
        h = None
        for part in x.split(2, 1):
            y, h = m(part, h)
            h = h.detach()
            fit(o, y, target)


def parts_of_one_stream():
    m = Counter()
    o = torch.optim.SGD(m.parameters(), 0.01)
    stream, h = torch.randn(8, 30, 3), None
    for k in range(0, 30, 6):
        part = stream[:, k : k + 6]
        y, h = m(part, h)
        h = h.detach()
        fit(o, y, part.sum((1, 2)))


STATES = {
    "a loader": over(),
    "a copy": over(copy=lambda h: h.data.clone()),
    "two states": over(lambda: Counter(nn.LSTM)),
    "cells": over(Steps),
    "a model that keeps it": a_model_that_keeps_it,
    "a permutation": parts_of_a_permutation,
}
RIGHT_STATES = {
    "begun anew": over(anew=True),
    "in order": over(shuffle=False),
    "zeros": over(copy=lambda h: torch.zeros_like(h)),
    "parts of each sequence": parts_of_each_sequence,
    "parts of one stream": parts_of_one_stream,
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_of_another_batch_is_found(name):
    assert [f.name.code for f in loud(STATES[name])] == ["state_carried"]


@pytest.mark.parametrize("name", RIGHT_STATES)
def test_a_state_that_is_its_own_is_fine(name):
    assert not loud(RIGHT_STATES[name])
