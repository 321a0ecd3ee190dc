"""Softmax of rows."""

import torch


class RowSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        shifted = logits - logits.max(dim=-1, keepdim=True).values
        probs = shifted.exp()
        probs = probs / probs.sum(dim=-1, keepdim=True)
        ctx.save_for_backward(probs)
        return probs

    @staticmethod
    def backward(ctx, grad_probs):
        (probs,) = ctx.saved_tensors
        grad_in = probs * grad_probs
        grad_in -= probs * grad_in.sum(dim=-1, keepdim=True)
        return grad_in
