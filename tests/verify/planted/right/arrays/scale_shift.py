"""Feature-wise scale, row-wise shift."""


def modulate(x, scale, shift):
    return x * scale + shift


def modulate_backward(g, x, scale, shift):
    grad_x = g * scale
    grad_scale = (g * x).sum(axis=0)
    grad_shift = g.sum(axis=1, keepdims=True)
    return {"x": grad_x, "scale": grad_scale, "shift": grad_shift}
