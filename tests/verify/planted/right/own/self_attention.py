"""A head that projects its input three times."""

import math

import chainrule as cr


class Head(cr.Function):
    @staticmethod
    def forward(ctx, x, Wq, Wk, Wv):
        q, k, v = x @ Wq, x @ Wk, x @ Wv
        p = cr.softmax(cr.einsum("btd,bsd->bts", q, k) / math.sqrt(q.shape[-1]), axis=-1)
        ctx.save_for_backward(x, Wq, Wk, Wv, p)
        return p @ v

    @staticmethod
    def backward(ctx, g):
        x, Wq, Wk, Wv, p = ctx.saved_tensors
        q, k, v = x @ Wq, x @ Wk, x @ Wv
        gv = cr.einsum("bts,btd->bsd", p, g)
        gp = cr.einsum("btd,bsd->bts", g, v)
        gs = p * (gp - cr.sum(gp * p, axis=-1, keepdims=True)) / math.sqrt(q.shape[-1])
        gq = cr.einsum("bts,bsd->btd", gs, k)
        gk = cr.einsum("bts,btd->bsd", gs, q)
        gx = gq @ Wq.T
        gx = gx + gk @ Wk.T
        gx = gx + gv @ Wv.T
        outer = "bti,btj->ij"
        return gx, cr.einsum(outer, x, gq), cr.einsum(outer, x, gk), cr.einsum(outer, x, gv)
