"""Scaled dot-product attention that keeps its weights."""

import math

import torch


class ScaledDotProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        scale = 1 / math.sqrt(q.size(-1))
        attn = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) * scale, dim=-1)
        ctx.save_for_backward(q, k, v, attn)
        ctx.scale = scale
        return torch.matmul(attn, v)

    @staticmethod
    def backward(ctx, g):
        q, k, v, attn = ctx.saved_tensors
        grad_v = torch.matmul(attn.transpose(-2, -1), g)
        grad_attn = torch.matmul(g, v.transpose(-2, -1))
        grad_scores = attn * (grad_attn - (grad_attn * attn).sum(dim=-1, keepdim=True))
        grad_scores = grad_scores * ctx.scale
        grad_q = torch.matmul(grad_scores, k)
        grad_k = torch.matmul(grad_scores.transpose(-2, -1), q)
        return grad_q, grad_k, grad_v
