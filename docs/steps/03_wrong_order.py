"""The order of the walk matters: a node may hand its gradient on only when it is complete.

d = a*b + a is walked backwards twice, by hand. In the right order the sum goes first and tells the
product its gradient. In the wrong order the product goes first: it has nothing to hand on yet, and
what it receives later is lost. Nothing fails; a is 1 instead of 4, b is 0 instead of 2.

`python 03_wrong_order.py save` draws 03_wrong_order.svg, with the order of the walk on each card.
"""

import sys
from pathlib import Path

from chainrule import Value, show


def walk(right: bool) -> tuple[Value, Value, show.Drawing]:
    a, b = Value(2.0, label="a"), Value(3.0, label="b")
    product = a * b
    d = product + a
    d.grad = 1
    visits = [d, product] if right else [product, d]
    for node in visits:
        node._backward()  # one node's own step: adds to the gradient of each of its inputs
    return a, b, show.graph(d, steps=visits)


def drawing() -> show.Drawing:
    return walk(right=False)[2]


for right, gradients in ((True, (4, 2)), (False, (1, 0))):
    a, b, picture = walk(right)
    print(f"{'right' if right else 'wrong'} order:  a {a.grad:g}, b {b.grad:g}\n{picture.text()}\n")
    assert (a.grad, b.grad) == gradients

if "save" in sys.argv[1:]:
    drawing().save(Path(__file__).with_suffix(".svg"))
