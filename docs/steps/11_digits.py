"""A network that reads handwriting: 64 pixels in, 10 classes out, mini-batches, AdamW, seconds.

The same three lines as in step 7, on tensors: `backward()`, `step()`, `zero_grad()`. A fifth of the
1,797 images is never trained on; what counts is how many of those are read correctly. The images
come with scikit-learn, which is not among what chainrule needs: `pip install scikit-learn`.
"""

import numpy as np

import chainrule as cr
from chainrule import optim
from chainrule.data import load_digits
from chainrule.models.mlp import MLP

try:
    digits = load_digits()
except cr.MissingPackageError as error:
    raise SystemExit(f"{error}") from None
rng = np.random.default_rng(0)
accuracies = {}
for activation in ("relu", "tanh"):
    model = MLP([64, 128, 10], activation, generator=cr.Generator(3))
    optimizer = optim.AdamW(model.parameters(), lr=3e-3)
    for _epoch in range(30):
        order = rng.permutation(len(digits.labels))
        for rows in np.array_split(order, len(order) // 32):
            loss = cr.cross_entropy(model(digits.images[rows]), digits.labels[rows])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    with cr.no_grad():
        read = model(digits.test_images).numpy().argmax(axis=1)
    accuracies[activation] = (read == digits.test_labels).mean()
    print(f"{activation}: last loss {loss.item():.4f}, test accuracy {accuracies[activation]:.1%}")

print(model)
assert min(accuracies.values()) >= 0.97
