"""A small network of hand-written layers, each with its own backward."""

import numpy as np


class Dense:
    def __init__(self, W, b):
        self.W, self.b = W, b

    def forward(self, x):
        self.x = x
        return x @ self.W + self.b

    def backward(self, g):
        self.dW = self.x.T @ g
        self.db = g.sum(axis=0)
        return g @ self.W.T


class Norm:
    def __init__(self, gain, shift):
        self.gain, self.shift = gain, shift

    def forward(self, x):
        centred = x - x.mean(axis=1, keepdims=True)
        self.inv = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
        self.xhat = centred * self.inv
        return self.gain * self.xhat + self.shift

    def backward(self, g):
        self.dgain = (g * self.xhat).sum(axis=0)
        self.dshift = g.sum(axis=0)
        d = g * self.gain
        along = self.xhat * (d * self.xhat).mean(axis=1, keepdims=True)
        return self.inv * (d - d.mean(axis=1, keepdims=True) - along)


class Tanh:
    def forward(self, x):
        self.y = np.tanh(x)
        return self.y

    def backward(self, g):
        return g * (1 - self.y**2)


class Softmax:
    def forward(self, x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        self.p = e / e.sum(axis=1, keepdims=True)
        return self.p

    def backward(self, g):
        return self.p * (g - (g * self.p).sum(axis=1, keepdims=True))


class Network:
    def __init__(self, W1, b1, gain, shift, W2, b2, W3, b3):
        self.layers = [Dense(W1, b1), Norm(gain, shift), Tanh(), Dense(W2, b2), Tanh()]
        self.layers += [Dense(W3, b3), Softmax()]

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, g):
        for layer in reversed(self.layers):
            g = layer.backward(g)
        return g
