"""An affine layer whose bias barely counts."""

EPS = 1e-6


def scaled(x, W, b):
    return x @ W + EPS * b


def scaled_backward(g, x, W, b):
    return g @ W.T, x.T @ g, EPS * g.sum(axis=0)
