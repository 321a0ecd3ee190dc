"""A PyTorch model whose attention was written by hand, with a mistake; the report finds it.

The backward of this attention forgets the factor 1 / sqrt(d) in one of three gradients. The model
trains nevertheless. `verify.model` looks at every backward pass that a step of the model makes; its
report names the line and the mistake, and shows a correction that has been tested. The same from a
shell, for a script that need not know: `chainrule verify train.py`.

Run it: `python examples/pytorch_verified.py` (10 to 20 seconds; PyTorch is needed).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from chainrule import verify


class Attention(torch.autograd.Function):
    """softmax(q k^T / sqrt(d)) v: q, k, v (B, T, d) -> (B, T, d); weights w (B, T, T)."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any) -> Any:
        """The weighted values."""
        w = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)
        ctx.save_for_backward(q, k, v, w)
        return w @ v

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """The gradients of q, k and v."""
        q, k, v, w = ctx.saved_tensors
        w_bar = g @ v.mT
        s_bar = w * (w_bar - (w_bar * w).sum(dim=-1, keepdim=True))
        q_bar = s_bar @ k / q.shape[-1] ** 0.5
        k_bar = s_bar.mT @ q
        return q_bar, k_bar, w.mT @ g


class Reader(nn.Module):
    """Tokens (B, T) of V kinds -> scores (B, V) of the token that comes most often."""

    def __init__(self, vocab: int, d: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, vocab)

    def forward(self, tokens: Any) -> Any:
        """The scores."""
        q, k, v = self.qkv(self.embedding(tokens)).chunk(3, dim=-1)
        return self.out(Attention.apply(q, k, v).mean(dim=1))


def batch(n: int, length: int, vocab: int) -> tuple[Any, Any]:
    """Random tokens (n, length), and the one that comes most often in each row."""
    tokens = torch.randint(vocab, (n, length))
    return tokens, nn.functional.one_hot(tokens, vocab).sum(dim=1).argmax(dim=1)


def main(steps: int = 300) -> Any:
    """Train the model as it is, then print and return the report of `verify.model`."""
    torch.manual_seed(0)
    model, vocab = Reader(6, 8), 6
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for k in range(steps):
        tokens, targets = batch(64, 12, vocab)
        loss = nn.functional.cross_entropy(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if k % max(steps // 3, 1) == 0:
            print(f"step {k}: loss {loss.item():.3f}")
    print(f"step {steps}: loss {loss.item():.3f}: it learns, and nothing seems to be wrong\n")
    report = verify.model(model, batch(4, 7, vocab), loss=nn.functional.cross_entropy)
    print(report)
    return report


if __name__ == "__main__":
    main()
