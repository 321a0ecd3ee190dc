"""A recurrent layer over time."""

import chainrule as cr


class Recurrent(cr.Function):
    @staticmethod
    def forward(ctx, xs, h0, Wx, Wh, b):
        hs = [h0]
        for t in range(xs.shape[0]):
            hs.append(cr.tanh(xs[t] @ Wx + hs[-1] @ Wh + b))
        ys = cr.stack(hs[1:])
        ctx.save_for_backward(xs, h0, Wx, Wh, ys)
        return ys

    @staticmethod
    def backward(ctx, g):
        xs, h0, Wx, Wh, ys = ctx.saved_tensors
        carry, wx_bar, wh_bar, b_bar = 0, 0, 0, 0
        x_bars = []
        for t in reversed(range(xs.shape[0])):
            before = ys[t - 1] if t else h0
            a = (g[t] + carry) * (1 - ys[t] ** 2)
            wx_bar = wx_bar + xs[t].T @ a
            wh_bar = wh_bar + before.T @ a
            b_bar = b_bar + cr.sum(a, axis=0)
            x_bars.insert(0, a @ Wx.T)
            carry = a @ Wh.T
        return cr.stack(x_bars), carry, wx_bar, wh_bar, b_bar
