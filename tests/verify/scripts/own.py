"""A script written with chainrule; `--wrong` plants a mistake, `--jit` compiles the step."""

import argparse

import numpy as np

import chainrule as cr
from chainrule import nn, optim

parser = argparse.ArgumentParser()
parser.add_argument("--wrong", action="store_true")
parser.add_argument("--jit", action="store_true")
options = parser.parse_args()
random = np.random.default_rng(0)
cr.random.manual_seed(0)


class Softplus(cr.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return cr.log(1 + cr.exp(x))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if options.wrong:
            return g * cr.exp(x) / (1 + cr.exp(x)) ** 2
        return g * cr.exp(x) / (1 + cr.exp(x))


first, second = nn.Linear(4, 6), nn.Linear(6, 2)
optimizer = optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)


def train(x):
    loss = cr.mean(second(Softplus.apply(first(x))) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


step = cr.jit(train) if options.jit else train
for i in range(8):
    print(i, float(step(cr.tensor(random.normal(size=(5, 4)), dtype=cr.float32))))
