"""Which backward is wrong, where, what the mistake is called: a layer written by hand, five slips.

A network with a wrong backward pass often learns nevertheless, so that nobody notices. The verifier
compares each backward with differences of its forward; the pattern of the error names the mistake,
and a change of the code that ends it is the correction. Shapes: x (m, n), w (n, n), g (m, n).
"""

import numpy as np

from chainrule import verify


def forward(x, w, scale):
    return np.tanh(x @ w) * scale


def right(g, x, w, scale):
    y = np.tanh(x @ w)
    s = g * scale * (1 - y * y)
    return s @ w.T, x.T @ s, (g * y).sum(axis=0)


def transposed(g, x, w, scale):
    y = np.tanh(x @ w)
    s = g * scale * (1 - y * y)
    return s @ w, x.T @ s, (g * y).sum(axis=0)


def averaged(g, x, w, scale):
    y = np.tanh(x @ w)
    s = g * scale * (1 - y * y)
    return s @ w.T, x.T @ s / len(x), (g * y).sum(axis=0)


def other_axis(g, x, w, scale):
    y = np.tanh(x @ w)
    s = g * scale * (1 - y * y)
    return s @ w.T, x.T @ s, (g * y).sum(axis=1)


def flipped(g, x, w, scale):
    y = np.tanh(x @ w)
    s = g * scale * (y * y - 1)
    return s @ w.T, x.T @ s, (g * y).sum(axis=0)


def deaf(g, x, w, scale):
    y = np.tanh(x @ w)
    s = scale * (1 - y * y)
    return s @ w.T, x.T @ s, (g * y).sum(axis=0)


rng = np.random.default_rng(0)
point = rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=4)
assert verify.pair(forward, right, *point).ok
for backward, name, inputs in (
    (transposed, "transposed", ["x"]),
    (averaged, "factor", ["w"]),
    (other_axis, "wrong_axis", ["scale"]),
    (flipped, "sign", ["x", "w"]),
    (deaf, "ignores_cotangent", ["x", "w"]),
):
    report = verify.pair(forward, backward, *point)
    for f in report.findings:
        code = f.correction.after.strip() if f.correction else ""
        print(f"{backward.__name__}: {f.title}, gradient of {f.input}  {code}")
    found = [f.input for f in report.findings if f.name.code == name]
    assert not report.ok and found and set(found) <= set(inputs), str(report)
