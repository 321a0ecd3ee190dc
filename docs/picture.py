"""Draws docs/picture.svg, the picture in the README: `python docs/picture.py`."""

from pathlib import Path

import chainrule as cr
from chainrule import show


def f(a: cr.Tensor, b: cr.Tensor, d: cr.Tensor) -> cr.Tensor:
    product = a * b
    total = product + d
    return cr.relu(total)


def drawing() -> show.Drawing:
    return show.graph(f, 2.0, -3.0, 10.0)


if __name__ == "__main__":
    drawing().save(Path(__file__).with_name("picture.svg"))
