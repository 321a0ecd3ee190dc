"""Rows of a table, and where their gradients go."""

import numpy as np


def lookup(table, ids):
    return table[ids]


def lookup_backward(g, table, ids):
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, g)
    return dtable, None
