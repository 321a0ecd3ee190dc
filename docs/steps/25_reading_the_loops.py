"""What a compiled function does: its loops, and how near they come to what the machine can do.

A layer and its gradient. Op by op, each op is a pass over memory. Compiled, the bias is added and
tanh taken where the product is computed, while its elements are in registers, and so is what the
backward pass needs of them. `loops()` is the program. `explain()` tells of each kernel what was
fused into it, from which lines, which bytes it must move and which operations it must do. It times
each on copies, beside a copy and a product that it timed on this machine.
"""

import numpy as np

import chainrule as cr

rng = np.random.default_rng(0)
x = rng.normal(size=(64, 32)).astype(np.float32)
w, b = rng.normal(size=(32, 48)).astype(np.float32), np.zeros(48, np.float32)


def loss(w, b, x):
    h = cr.tanh(x @ w + b)
    return cr.mean(h * h)


layer = cr.jit(cr.value_and_grad(loss, argnums=(0, 1)))
value, (w_bar, b_bar) = layer(w, b, x)
text, table = layer.loops(), layer.explain()
print(text)
print(table)

product = next(r for r in table.rows if any(f.op == "tanh" for f in r.fused))
lines = layer.source_of(product.kernel).splitlines()
print(f"\n{product.kernel} in this processor's own language, the first of {len(lines)} lines:")
print("\n".join(lines[:8]))

# One kernel has the product and what follows it; its operations are those of the product and more.
assert {"matmul", "tanh"} <= {f.op for f in product.fused}
assert product.flops > 2 * 64 * 32 * 48
assert all(r.kernel in text and not r.eager for r in table.rows)

# By hand, in NumPy, where each line is a pass over memory.
h = np.tanh(x @ w + b)
g = 2 * h / h.size * (1 - h * h)
np.testing.assert_allclose(value.item(), np.mean(h * h), rtol=1e-5)
np.testing.assert_allclose(w_bar.numpy(), x.T @ g, rtol=1e-4, atol=1e-7)
np.testing.assert_allclose(b_bar.numpy(), g.sum(0), rtol=1e-4, atol=1e-7)
