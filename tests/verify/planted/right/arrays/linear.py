"""An affine layer as a pair of functions."""


def linear(x, W, b):
    return x @ W + b


def linear_backward(g, x, W, b):
    dx = g @ W.T
    dW = x.T @ g
    db = g.sum(axis=0)
    return dx, dW, db
