"""Attention over a batch of sequences, with its weights saved."""

import chainrule as cr


class Attention(cr.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        s = q @ cr.swapaxes(k, 1, 2) / q.shape[-1] ** 0.5
        w = cr.softmax(s, axis=-1)
        ctx.save_for_backward(q, k, v, w)
        return w @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v, w = ctx.saved_tensors
        v_bar = cr.swapaxes(w, 1, 2) @ g
        w_bar = g @ cr.swapaxes(v, 1, 2)
        s_bar = w * (w_bar - cr.sum(w * w_bar, axis=-1, keepdims=True))
        s_bar = s_bar / q.shape[-1] ** 0.5
        return s_bar @ k, cr.swapaxes(s_bar, 1, 2) @ q, v_bar
