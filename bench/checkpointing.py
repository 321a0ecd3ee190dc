"""What does checkpointing a 12-block transformer save, and what does it cost?

Forward and backward of 12 blocks of 256 channels, 4 heads, GELU, on (4, 64, 256) float32: the
bytes that the graph keeps after the forward pass, the time of both, and whether the gradients are
the same bit for bit. Kept bytes are the arrays that nodes hold for their rules, an array that
several hold, or hold views of, counted once; parameters are not counted.

A checkpoint costs one more forward pass of what is in it, which here is more than a third of the
time, so not every block need be one: two of three already bring the bytes below half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import chainrule as cr
from bench.pairs import Row, pair, row
from chainrule import nn
from chainrule.engine.graph import order
from chainrule.transforms.checkpointing import Policy, checkpoint, keep_products

BLOCKS, CHANNELS, HEADS, SHAPE = 12, 256, 4, (4, 64, 256)


def owner(array: Any) -> Any:
    """The array whose memory this one is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def kept_bytes(loss: Any, parameters: Sequence[Any]) -> int:
    """Bytes of the arrays that the graph of `loss` holds, without those of the parameters."""
    apart = {id(owner(p.value)) for p in parameters}
    held: dict[int, Any] = {}
    for node in order([loss.node]):
        for x in [node.y, *node.xs]:
            for array in x if isinstance(x, tuple) else [x]:
                if isinstance(array, np.ndarray) and id(owner(array)) not in apart:
                    held[id(owner(array))] = owner(array)
    return sum([array.nbytes for array in held.values()])


def model(generator: Any) -> list[nn.Module]:
    return [nn.Block(CHANNELS, HEADS, generator=generator) for _ in range(BLOCKS)]


def forward(blocks: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    for block in blocks:
        x = block(x)
    return (x * x).mean()


def gradients(loss: Any, blocks: Sequence[nn.Module]) -> list[Any]:
    for block in blocks:
        block.zero_grad()
    loss.backward()
    return [p.grad.numpy() for block in blocks for p in block.parameters()]


def compare(
    what: str, count: int, policy: Policy | None, blocks: list[nn.Module], x: Any
) -> list[Row]:
    """Two rows: bytes and time, with the first `count` blocks as checkpoints and without."""
    ours = [checkpoint(block, policy=policy) for block in blocks[:count]] + blocks[count:]
    parameters = [p for block in blocks for p in block.parameters()]
    loss, plain = forward(ours, x), forward(blocks, x)
    kept, whole = kept_bytes(loss, parameters), kept_bytes(plain, parameters)
    pairs = zip(gradients(loss, blocks), gradients(plain, blocks), strict=True)
    same = all(np.array_equal(a, b) for a, b in pairs)
    word = "the same gradients bit for bit" if same else "OTHER GRADIENTS"
    mine, peer = pair(
        lambda: gradients(forward(ours, x), blocks),
        lambda: gradients(forward(blocks, x), blocks),
        blocks=9, runs=2,
    )  # fmt: skip
    title = f"{BLOCKS} transformer blocks, {what}"
    sizes = Row(
        f"{title}: bytes kept, against keeping all",
        f"{kept / 2**20:.1f} MiB", f"{whole / 2**20:.1f} MiB", f"{kept / whole:.2f}", "≤ 0.50",
    )  # fmt: skip
    return [sizes, row(f"{title}: time, {word}", mine, peer, "≤ 1.35")]


def run() -> list[Row]:
    generator = cr.Generator(0)
    blocks, x = model(generator), generator.normal(SHAPE)
    return [
        *compare("8 of them checkpoints", 8, None, blocks, x),
        *compare("all of them checkpoints", 12, None, blocks, x),
        *compare("all of them checkpoints that keep products", 12, keep_products, blocks, x),
    ]


if __name__ == "__main__":
    for line in run():
        print(line)
