"""Rows of a table, with NumPy in the backward pass."""

import numpy as np

import chainrule as cr


class Embed(cr.Function):
    @staticmethod
    def forward(ctx, table, ids):
        ctx.ids = ids.numpy()
        ctx.shape = table.shape
        return cr.tensor(table.numpy()[ctx.ids])

    @staticmethod
    def backward(ctx, g):
        out = np.zeros(ctx.shape, dtype=g.numpy().dtype)
        np.add.at(out, ctx.ids, g.numpy())
        return cr.tensor(out), None
