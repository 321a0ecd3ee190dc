"""A convolution as a sum of shifted products."""

import chainrule as cr


class Conv(cr.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        H, W = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
        y = b[None, :, None, None]
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                part = x[:, :, i : i + H, j : j + W]
                y = y + cr.einsum("bchw,oc->bohw", part, w[:, :, i, j])
        return y

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        H, W = g.shape[2:]
        kh, kw = w.shape[2:]
        x_bar = cr.zeros_like(x)
        rows = []
        for i in range(kh):
            row = []
            for j in range(kw):
                part = x[:, :, i : i + H, j : j + W]
                row.append(cr.einsum("bohw,bchw->oc", g, part))
                put = cr.einsum("bohw,oc->bchw", g, w[:, :, i, j])
                edges = ((0, 0), (0, 0), (i, kh - 1 - i), (j, kw - 1 - j))
                x_bar = x_bar + cr.pad(put, edges)
            rows.append(cr.stack(row, axis=-1))
        return x_bar, cr.stack(rows, axis=2), cr.sum(g, axis=(0, 2, 3))
