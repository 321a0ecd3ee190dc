"""Multi-step attention from one input: the input's gradient comes over three ways."""

import math

import torch
import torch.nn.functional as F  # noqa: N812


def project(x, weight):
    return torch.einsum("btd,de->bte", x, weight)


class SelfAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, wq, wk, wv):
        q, k, v = project(x, wq), project(x, wk), project(x, wv)
        scores = torch.einsum("btd,bsd->bts", q, k) / math.sqrt(wq.shape[1])
        p = F.softmax(scores, dim=2)
        ctx.save_for_backward(x, wq, wk, wv, q, k, v, p)
        return torch.bmm(p, v)

    @staticmethod
    def backward(ctx, dout):
        x, wq, wk, wv, q, k, v, p = ctx.saved_tensors
        dv = torch.bmm(p.transpose(1, 2), dout)
        dp = torch.bmm(dout, v.transpose(1, 2))
        ds = p * dp
        ds = ds - p * ds.sum(dim=2, keepdim=True)
        ds = ds / math.sqrt(wq.shape[1])
        dq = torch.bmm(ds, k)
        dk = torch.bmm(ds.transpose(1, 2), q)
        dx = dq @ wq.t()
        dx = dx + dk @ wk.t()
        dx = dx + dv @ wv.t()
        dwq = torch.einsum("btd,bte->de", x, dq)
        dwk = torch.einsum("btd,bte->de", x, dk)
        dwv = torch.einsum("btd,bte->de", x, dv)
        return dx, dwq, dwk, dwv
