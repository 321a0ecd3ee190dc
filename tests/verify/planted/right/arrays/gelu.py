"""The tanh form of GELU."""

import numpy as np

C = np.sqrt(2.0 / np.pi)


def gelu(x):
    inner = C * (x + 0.044715 * x**3)
    return 0.5 * x * (1.0 + np.tanh(inner))


def gelu_backward(x, g):
    inner = C * (x + 0.044715 * x**3)
    t = np.tanh(inner)
    dinner = C * (1.0 + 3 * 0.044715 * x**2)
    local = 0.5 * (1.0 + t)
    local += 0.5 * x * (1.0 - t**2) * dinner
    return g * local
