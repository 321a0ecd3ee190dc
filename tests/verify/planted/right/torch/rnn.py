"""A recurrent network over time, forward and back through time."""

import torch


class RNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs, hidden, w_in, w_rec, bias):
        states = [hidden]
        for step in inputs.unbind(0):
            states.append(torch.tanh(step @ w_in + states[-1] @ w_rec + bias))
        ctx.save_for_backward(inputs, w_in, w_rec, torch.stack(states))
        return torch.stack(states[1:])

    @staticmethod
    def backward(ctx, grads):
        inputs, w_in, w_rec, states = ctx.saved_tensors
        d_inputs = torch.zeros_like(inputs)
        d_in, d_rec = torch.zeros_like(w_in), torch.zeros_like(w_rec)
        d_bias = torch.zeros_like(w_rec[0])
        d_hidden = torch.zeros_like(states[0])
        for t in reversed(range(inputs.shape[0])):
            delta = (grads[t] + d_hidden) * (1 - states[t + 1].square())
            d_inputs[t] = delta @ w_in.T
            d_in += inputs[t].T @ delta
            d_rec += states[t].T @ delta
            d_bias += delta.sum(0)
            d_hidden = delta @ w_rec.T
        return d_inputs, d_hidden, d_in, d_rec, d_bias
