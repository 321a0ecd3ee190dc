"""Batch normalization in training mode, step by step as lecture notes do it."""

import numpy as np


class BatchNorm:
    def __init__(self, gamma, beta, eps=1e-5):
        self.gamma = gamma
        self.beta = beta
        self.eps = eps

    def forward(self, x):
        n = x.shape[0]
        self.mean = x.sum(axis=0) / n
        self.centred = x - self.mean
        self.var = (self.centred**2).sum(axis=0) / n
        self.std = np.sqrt(self.var + self.eps)
        self.xhat = self.centred / self.std
        return self.gamma * self.xhat + self.beta

    def backward(self, dout):
        n = dout.shape[0]
        self.dgamma = np.sum(dout * self.xhat, axis=0)
        self.dbeta = np.sum(dout, axis=0)
        dxhat = dout * self.gamma
        dvar = np.sum(dxhat * self.centred, axis=0) * -0.5 / self.std**3
        dmean = -np.sum(dxhat / self.std, axis=0)
        dx = dxhat / self.std
        dx += 2.0 * self.centred * dvar / n
        dx += dmean / n
        return dx
