"""A network whose own backward joins the two ways round a layer."""

import numpy as np


class Linear:
    def __init__(self, W, b):
        self.params = {"W": W, "b": b}
        self.grads = {}

    def forward(self, x):
        self.x = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dy):
        self.grads["W"] = self.x.T @ dy
        self.grads["b"] = np.sum(dy, axis=0)
        return dy @ self.params["W"].T


class ReLU:
    def forward(self, x):
        self.on = x > 0
        return x * self.on

    def backward(self, dy):
        return dy * self.on


class Residual:
    def __init__(self, W, b):
        self.linear = Linear(W, b)
        self.act = ReLU()

    def forward(self, x):
        return x + self.act.forward(self.linear.forward(x))

    def backward(self, dy):
        dx = dy.copy()
        dx += self.linear.backward(self.act.backward(dy))
        return dx


class ResNet:
    def __init__(self, W1, b1, W2, b2):
        self.first = Residual(W1, b1)
        self.second = Residual(W2, b2)

    def forward(self, x):
        return self.second.forward(self.first.forward(x))

    def backward(self, dy):
        return self.first.backward(self.second.backward(dy))
