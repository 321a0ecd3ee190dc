"""Softmax and cross-entropy as one loss, the mean over the batch."""

import numpy as np


class SoftmaxCrossEntropy:
    def forward(self, logits, labels):
        shifted = logits - logits.max(axis=1, keepdims=True)
        logp = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        self.p = np.exp(logp)
        self.labels = labels
        return -logp[np.arange(len(labels)), labels].mean()

    def backward(self, g=1.0):
        n = len(self.labels)
        d = self.p.copy()
        d[np.arange(n), self.labels] -= 1.0
        return g * d / n
